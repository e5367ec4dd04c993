//! What goes to one gateway alone, as the store says.
//!
//! Separate because it is read, never decided here: whichever process stored it, the one that holds
//! that gateway's stream sends it. It must never go to anybody else.

use std::sync::Arc;

use wire::parts::Parts;

use super::stage::Staged;
use super::{Outgoing, Rollout};
use crate::clock;
use crate::store::{ChangeRow, StoreError};

/// What is staged, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedOn {
    /// Where.
    pub gateway: Arc<str>,
    /// Which generation.
    pub generation: u64,
}

impl Rollout {
    /// Asks the store what is staged.
    pub(crate) async fn read_staged(&self) -> Result<(), StoreError> {
        // One at a time: an older answer must not take the place of a newer one.
        let _turn = self.staging.lock().await;
        let rows = self.store.changes_at_work().await?;
        let staged = rows.into_iter().find(|row| row.state == "staged");
        let Some(ChangeRow {
            gateway: Some(gateway),
            staged: Some(number),
            ..
        }) = staged
        else {
            self.change(|stage| stage.set_staged(None, clock::now()));
            return Ok(());
        };
        let known = |known: &Staged| known.outgoing.number == number;
        if self.stage(|stage| stage.staged().is_some_and(known)) {
            return Ok(());
        }
        let stored = self.store.generation(number).await?;
        let stored = stored.ok_or(StoreError::Row("changes.staged"))?;
        let work = move || Parts::of(stored.document.into());
        let parts = tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| StoreError::Closed)?;
        let staged = Staged {
            gateway: gateway.into(),
            outgoing: Outgoing {
                number,
                digest: stored.about.digest,
                epoch: self.store.epoch().to_owned(),
                parts: Arc::new(parts),
                attempt: 0,
                may_go_back: false,
            },
        };
        self.change(|stage| stage.set_staged(Some(staged), clock::now()));
        Ok(())
    }

    /// What is staged, and where.
    pub fn staged(&self) -> Option<StagedOn> {
        self.stage(|stage| {
            stage.staged().map(|staged| StagedOn {
                gateway: Arc::clone(&staged.gateway),
                generation: staged.outgoing.number,
            })
        })
    }

    /// True when a gateway that says so runs what is staged on it.
    pub(crate) fn is_staged(&self, gateway: &str, number: u64, digest: &str) -> bool {
        let is_it = |staged: &Staged| {
            let Outgoing {
                number: own,
                digest: content,
                ..
            } = &staged.outgoing;
            *staged.gateway == *gateway && *own == number && content == digest
        };
        self.stage(|stage| stage.staged().is_some_and(is_it))
    }
}
