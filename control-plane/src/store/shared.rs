//! A store that several processes use at the same time.
//!
//! Separate because a file belongs to one process, and all that is about others is here. It must
//! never be needed for a write: whoever cannot tell the others is found by their own look.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::database::Database;
use super::{Store, StoreError};

pub(crate) use super::postgres::live::{LiveRow, LiveTable};
pub(crate) use super::postgres::shared::Candidate;

/// Between two tries to listen; the look of every few seconds goes on meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

impl Store {
    /// Whether other processes may be at work on it.
    pub(crate) fn is_shared(&self) -> bool {
        match self.database {
            Database::Sqlite(_) => false,
            Database::Postgres(_) => true,
        }
    }

    /// Hears of other processes' writes, so that [`Store::changed`] tells of them too, until the
    /// process goes down. A hint: what is not heard is found by the look of every few seconds.
    pub(crate) async fn hear(self, stopping: CancellationToken) {
        let Database::Postgres(database) = &self.database else {
            return;
        };
        loop {
            // Nothing is lost by a cancelled arm: everybody looks for himself.
            let ended = tokio::select! {
                () = stopping.cancelled() => return,
                ended = database.listen(&self.changed) => ended,
            };
            if let Err(error) = ended {
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "writes of other processes are not heard of; they are looked for"
                );
            }
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Where what gateways last said is told to other processes; `None`: there are none.
    pub(crate) fn live(&self) -> Option<LiveTable> {
        match &self.database {
            Database::Sqlite(_) => None,
            Database::Postgres(database) => Some(database.live()),
        }
    }

    /// A session that may become the one that leads; `None`: there is nobody else.
    pub(crate) async fn candidate(&self) -> Result<Option<Candidate>, StoreError> {
        match &self.database {
            Database::Sqlite(_) => Ok(None),
            Database::Postgres(database) => database.candidate().await.map(Some),
        }
    }
}
