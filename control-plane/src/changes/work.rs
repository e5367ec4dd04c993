//! What becomes of changes without anybody: taken back when nobody keeps them or their guard says
//! so, kept when the watch is over, staged anew when the policy moves on.
//!
//! Separate because it runs by the clock, in the one process that leads. Deadlines lie in the
//! store, so that a start loses none. It must never act on a state that it did not just read.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::change::Change;
use super::state::State;
use super::{ChangeError, Changes};
use crate::clock;
use crate::leader::Leader;
use crate::limits::Author;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);

/// Who does it, as the audit names it.
fn own() -> Author {
    Author {
        name: "control plane".to_owned(),
        // What it does by itself is a way back, or nothing.
        emergency: false,
        ..Author::default()
    }
}

impl Changes {
    /// Looks until the process goes down.
    pub(crate) async fn run(self, leader: Leader, stopping: CancellationToken) {
        let mut failing = false;
        loop {
            // Nothing is lost by a cancelled arm.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            if !leader.leads(clock::now()) {
                self.guards.only(&BTreeSet::new());
                continue;
            }
            let looked = self.look(clock::unix_ms()).await;
            let is_new = !std::mem::replace(&mut failing, looked.is_err());
            if let (Err(error), true) = (looked, is_new) {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "changes at work wait for the next look"
                );
            }
        }
    }

    /// One look at everything that is at work.
    pub(crate) async fn look(&self, now_ms: i64) -> Result<(), ChangeError> {
        let (mut guarded, mut outcome) = (BTreeSet::new(), Ok(()));
        for row in self.store.changes_at_work().await? {
            let change = Change::of(row)?;
            if change.body.guard.is_some() {
                guarded.insert(change.number);
            }
            // One that fails must not keep the others waiting.
            let done = match change.state {
                State::Staged => self.follow(&change).await,
                State::Published => self.watch(&change, now_ms).await,
                State::Draft
                | State::Approved
                | State::Kept
                | State::Reverted
                | State::Abandoned => Ok(()),
            };
            outcome = outcome.and(done);
        }
        self.guards.only(&guarded);
        outcome
    }

    async fn follow(&self, change: &Change) -> Result<(), ChangeError> {
        let newest = self.rollout.refresh(None).await?.about.number;
        match change.body.staged_on {
            Some(on) if on < newest => self.restage(change, &own()).await,
            Some(_) | None => Ok(()),
        }
    }

    async fn watch(&self, change: &Change, now_ms: i64) -> Result<(), ChangeError> {
        let body = &change.body;
        if let Some(guard) = body.guard.as_ref().filter(|guard| now_ms < guard.until_ms) {
            let since_ms = body.published_ms.unwrap_or(now_ms);
            self.guards.watch(change.number, since_ms, now_ms);
            if let Some(why) = self.guards.judge(change.number, guard) {
                return self.revert_itself(change, &why, &own()).await;
            }
        }
        let is_due = change.due_ms.is_some_and(|due| due <= now_ms);
        match (is_due, body.confirm_by_ms) {
            (false, _) => Ok(()),
            (true, Some(_)) => {
                let why = "nobody kept it in time";
                self.revert_itself(change, why, &own()).await
            }
            (true, None) => {
                let why = "refusals did not rise while it was watched";
                let seen = Some(change.version);
                match self.keep(change.number, seen, why, &own()).await {
                    // Somebody was quicker.
                    Ok(_) | Err(ChangeError::Moved { .. } | ChangeError::State { .. }) => Ok(()),
                    Err(error) => Err(error),
                }
            }
        }
    }
}
