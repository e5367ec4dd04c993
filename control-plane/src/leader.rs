//! Who of several control planes does what only one may do: roll-ups, alerts, marks.
//!
//! Separate so that each of those jobs asks one question and none of them knows why. Leading is a
//! lease that this process renews and the database guards: whoever leads holds an advisory lock on
//! a session of its own, and believes in it for less time than the server keeps a silent session.
//! It must never lead on after the lease, however long the process was frozen.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::store::{Candidate, Store, StoreError};

/// How often the one that leads makes sure of it, and the others try.
const PERIOD: Duration = Duration::from_secs(2);
/// So long after it was sure the one that leads believes it. The server ends a session that says
/// nothing for 6 s, so that another one leads 10 s after the first fell silent at the latest.
const LEASE: Duration = Duration::from_secs(5);

/// Whether this process leads. One that is alone always does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leader(Option<Arc<Mutex<Option<Instant>>>>);

impl Leader {
    /// For the processes of this store.
    pub(crate) fn of(store: &Store) -> Self {
        Self(store.is_shared().then(Arc::default))
    }

    /// Whether others may lead, too.
    pub(crate) const fn has_others(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this process leads at this moment.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        let Some(lease) = &self.0 else { return true };
        let until = *lease.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| now < until)
    }

    fn set(&self, until: Option<Instant>) {
        if let Some(lease) = &self.0 {
            *lease.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
    }

    /// Leads whenever nobody else does, until the process goes down.
    pub(crate) async fn run(self, store: Store, stopping: CancellationToken) {
        loop {
            let ended = self.session(&store, &stopping).await;
            self.set(None);
            match ended {
                Ok(()) => return,
                Err(error) => tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "the database does not say who leads"
                ),
            }
            // Nothing is lost by a cancelled arm.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    /// One session, up to the end of the process or of the session.
    async fn session(&self, store: &Store, stopping: &CancellationToken) -> Result<(), StoreError> {
        let Some(mut candidate) = store.candidate().await? else {
            return Ok(());
        };
        let mut led = false;
        loop {
            let asked = clock::now();
            let leads = candidate.leads().await?;
            if leads && !std::mem::replace(&mut led, true) {
                tracing::info!("this control plane does the periodic work from now on");
            }
            // Counted from before the question: the server was asked no earlier.
            self.set(leads.then(|| asked + LEASE));
            // Nothing is lost by a cancelled arm.
            tokio::select! {
                () = stopping.cancelled() => break,
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
        self.set(None);
        Candidate::close(candidate).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_by_itself_and_whoever_is_alone_needs_none() {
        let now = clock::now();
        assert!(Leader::default().leads(now) && !Leader::default().has_others());
        let leader = Leader(Some(Arc::default()));
        assert!(!leader.leads(now) && leader.has_others());
        leader.set(Some(now + LEASE));
        assert!(leader.leads(now) && leader.leads(now + LEASE - Duration::from_millis(1)));
        assert!(!leader.leads(now + LEASE), "a process that was frozen");
        leader.set(None);
        assert!(!leader.leads(now));
    }
}
