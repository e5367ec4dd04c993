//! The cards of all compartments, worked out now and then.
//!
//! Separate because a list of a thousand cards reads a thousand series: whoever asks for the list
//! gets what was last worked out, with its age. A single card is worked out when it is asked for.
//! It must never hold up a request, nor be older than it says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compartment::Key;
use compartment::policy::Policy;
use tokio_util::sync::CancellationToken;

use super::{Card, Measured};
use crate::clock;
use crate::history::History;
use crate::rollout::Rollout;

/// How long the cards of the list stand.
const PERIOD: Duration = Duration::from_secs(60);
/// Until the first list: a gateway has reported by then.
const FIRST: Duration = Duration::from_secs(15);
/// Most compartments in the list. Tenants have cards too, on their own pages.
const CARDS_MAX: usize = 2_000;

/// Cards, and when they were worked out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    /// In milliseconds of Unix time; `None`: not yet.
    pub(crate) at_ms: Option<i64>,
    /// In the order of the policy: ceiling, upstreams, routes with their streams.
    pub(crate) cards: Vec<Card>,
}

/// The list; clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book(Arc<Mutex<Arc<Listed>>>);

impl Book {
    /// What was last worked out.
    pub(crate) fn listed(&self) -> Arc<Listed> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Works the list out every minute until the process goes down.
    pub(crate) async fn run(self, history: History, rollout: Rollout, stopping: CancellationToken) {
        let mut pause = FIRST;
        loop {
            tokio::select! {
                // Nothing is lost: the list is made anew by the next process.
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            let current = rollout.current();
            if let Ok(policy) = &current.policy {
                self.write(&history, policy).await;
            }
            pause = PERIOD;
        }
    }

    /// One after the other, so that the store is never busy with it alone.
    pub(crate) async fn write(&self, history: &History, policy: &Policy) {
        let mut cards = Vec::new();
        let now_s = clock::unix_ms().div_euclid(1_000);
        for key in keys(policy).take(CARDS_MAX) {
            match Measured::read(history, policy, &key, now_s).await {
                Ok(measured) => cards.extend(measured.map(|measured| measured.card())),
                // The history says for itself that it is away; the last list stands.
                Err(_) => return,
            }
        }
        let listed = Listed {
            at_ms: Some(clock::unix_ms()),
            cards,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(listed);
    }
}

/// Every compartment but the tenants.
fn keys(policy: &Policy) -> impl Iterator<Item = Key> {
    let keys = policy.limits().map(|(key, _)| key);
    keys.filter(|key| !matches!(key, Key::Tenant(_)))
}
