//! What several processes on one Postgres tell each other: that something was stored, and who of
//! them does what only one may do.
//!
//! Separate because each of these has a connection of its own, which no reader or writer may keep
//! from its work. It must never be asked whether something is stored.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::sync::Notify;

use super::pool::bounded;
use super::{Database, sql};
use crate::store::StoreError;

/// Where every write is told.
pub(in crate::store) const CHANNEL: &str = "bulkhead_changed";
/// So long without a word, the connection is asked whether it still is one.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the one who leads to be answered: it must know before its lease is over.
const ASK_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// The lock of the process that leads: "BLKI".
const LEADER: i64 = 1_112_296_265;

/// A session that leads, or would like to.
#[derive(Debug)]
pub(crate) struct Candidate {
    connection: PgConnection,
    leads: bool,
}

impl Database {
    /// Tells `changed` of every write of any process until the connection ends.
    pub(in crate::store) async fn listen(&self, changed: &Notify) -> Result<(), StoreError> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_MAX)
            .connect_lazy_with((*self.server.options).clone());
        let mut listener = bounded(PgListener::connect_with(&pool)).await?;
        bounded(listener.listen(CHANNEL)).await?;
        // What was stored before we listened.
        changed.notify_one();
        loop {
            match tokio::time::timeout(SILENT_MAX, listener.try_recv()).await {
                Ok(told) => match told? {
                    Some(_) => changed.notify_one(),
                    None => return Err(StoreError::Away(None)),
                },
                Err(_) => {
                    bounded(listener.execute(sql::ALIVE)).await?;
                }
            }
        }
    }

    /// A session for the lock. The server ends one that says nothing for longer than its lease.
    pub(in crate::store) async fn candidate(&self) -> Result<Candidate, StoreError> {
        let connecting = PgConnection::connect_with(&self.server.options);
        let mut connection = in_time(CONNECT_MAX, connecting).await?;
        in_time(ASK_MAX, connection.execute(sql::LEADING)).await?;
        Ok(Candidate {
            connection,
            leads: false,
        })
    }
}

impl Candidate {
    /// Whether this session holds the lock, which it takes when it is free.
    pub(crate) async fn leads(&mut self) -> Result<bool, StoreError> {
        if self.leads {
            in_time(ASK_MAX, self.connection.execute(sql::ALIVE)).await?;
        } else {
            let asked = sqlx::query(sql::LEAD).bind(LEADER);
            let row = in_time(ASK_MAX, asked.fetch_one(&mut self.connection)).await?;
            self.leads = row.try_get(0)?;
        }
        Ok(self.leads)
    }

    /// Gives the lock back.
    pub(crate) async fn close(self) {
        let _gone = in_time(ASK_MAX, self.connection.close()).await;
    }
}

async fn in_time<T>(
    longest: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(longest, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(StoreError::Away(None)),
    }
}
