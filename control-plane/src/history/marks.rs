//! When which limit became another one: the marks on a chart.
//!
//! Separate because it reads policies, not figures: it follows the generations and notes what each
//! changed, once. It reads what the store holds, not the change that woke it, so a generation that
//! was stored while nobody looked is noted later. It must never keep anybody from changing a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use compartment::Limit;
use compartment::policy::Policy;
use tokio_util::sync::CancellationToken;

use super::{History, HistoryError, LimitChange};
use crate::clock;
use crate::leader::Leader;
use crate::rollout::{Published, Rollout};
use crate::store::{STAGED, Store, StoreError};

/// Longest time until a generation that could not be noted is tried again.
const PERIOD: Duration = Duration::from_secs(10);
/// Most generations that are noted one by one; what lies further back is noted as one change.
const BEHIND_MAX: u64 = 50;
/// Most changes of one generation.
const CHANGES_MAX: usize = 20_000;
/// Under which names the store and the last generation that was noted are kept.
const EPOCH: &str = "marked_epoch";
const GENERATION: &str = "marked_generation";

/// Every limit that a policy names, by key.
type Limits = BTreeMap<String, Limit>;

/// Follows the generations.
#[derive(Debug)]
pub(crate) struct Marker {
    history: History,
    store: Store,
    rollout: Rollout,
    /// The last generation that was noted, and its limits.
    noted: Option<(u64, Arc<Limits>)>,
}

impl Marker {
    pub(crate) const fn new(history: History, store: Store, rollout: Rollout) -> Self {
        Self {
            history,
            store,
            rollout,
            noted: None,
        }
    }

    /// Notes until the process goes down.
    pub(crate) async fn run(mut self, leader: Leader, stopping: CancellationToken) {
        let mut newest = self.rollout.follow();
        loop {
            let published = Arc::clone(&newest.borrow_and_update());
            if !leader.leads(clock::now()) {
                // Where another one stopped is read again.
                self.noted = None;
            } else if let Err(error) = self.catch_up(&published).await {
                // The history's own state tells of a disk that fails.
                tracing::debug!(
                    error = &error as &dyn std::error::Error,
                    "changes of limits are not noted"
                );
            }
            // Nothing is lost by a cancelled arm: each only says when to look.
            tokio::select! {
                () = stopping.cancelled() => return,
                changed = newest.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(PERIOD) => {}
            }
        }
    }

    /// Notes every generation up to this one.
    async fn catch_up(&mut self, published: &Arc<Published>) -> Result<(), HistoryError> {
        let newest = published.about.number;
        if self
            .noted
            .as_ref()
            .is_some_and(|(noted, _)| *noted == newest)
        {
            return Ok(());
        }
        let (mut noted, mut limits) = match self.noted.take() {
            Some((number, limits)) => (number, limits),
            None => self.begin(published).await?,
        };
        if newest.saturating_sub(noted) > BEHIND_MAX {
            noted = newest.saturating_sub(BEHIND_MAX);
        }
        while noted < newest {
            noted += 1;
            let next = match noted == newest {
                true => Arc::clone(published),
                false => match self.load(noted).await {
                    Err(StoreError::NotKept(_)) => continue,
                    next => Arc::new(next?),
                },
            };
            if next.about.source == STAGED {
                // One gateway alone ran it: no limit of the policy in force moved.
                continue;
            }
            let before = Arc::clone(&limits);
            let work = move || {
                let limits = limits_of(&next).unwrap_or_else(|| (*before).clone());
                let at = next.about.created_at.parse::<jiff::Timestamp>();
                let at_ms = at.map_or(0, |at| at.as_millisecond());
                (changes(&before, &limits, next.about.number, at_ms), limits)
            };
            let done = tokio::task::spawn_blocking(work).await;
            let (changes, after) = done.map_err(|_| StoreError::Closed)?;
            self.history
                .mark(&changes, self.store.epoch(), noted)
                .await?;
            limits = Arc::new(after);
        }
        self.noted = Some((newest, limits));
        Ok(())
    }

    /// Where an earlier process of the same store stopped; else where we are.
    async fn begin(&self, published: &Arc<Published>) -> Result<(u64, Arc<Limits>), HistoryError> {
        let marked = self.history.marked(self.store.epoch()).await?;
        let number = marked.filter(|number| *number <= published.about.number);
        let Some(number) = number.filter(|number| *number > 0) else {
            let number = published.about.number;
            self.history.mark(&[], self.store.epoch(), number).await?;
            return Ok((number, Arc::new(limits_of(published).unwrap_or_default())));
        };
        let then = match self.load(number).await {
            Ok(then) => then,
            // What it said is gone: only what comes from here on can be compared.
            Err(StoreError::NotKept(_)) => {
                let number = published.about.number;
                return Ok((number, Arc::new(limits_of(published).unwrap_or_default())));
            }
            Err(error) => return Err(error.into()),
        };
        Ok((number, Arc::new(limits_of(&then).unwrap_or_default())))
    }

    async fn load(&self, number: u64) -> Result<Published, StoreError> {
        let stored = self.store.generation(number).await?;
        let stored = stored.ok_or(StoreError::Row("generations.number"))?;
        let epoch = self.store.epoch().to_owned();
        let work = move || Published::read(stored, &epoch);
        let read = tokio::task::spawn_blocking(work).await;
        read.map_err(|_| StoreError::Closed)?
    }
}

impl History {
    /// Notes what a generation changed, and that it was looked at.
    async fn mark(
        &self,
        changes: &[(String, LimitChange)],
        epoch: &str,
        generation: u64,
    ) -> Result<(), HistoryError> {
        let notes = [(EPOCH, epoch), (GENERATION, &generation.to_string())];
        Ok(self.database()?.mark(changes, notes).await?)
    }

    /// The last generation of this store that was noted.
    async fn marked(&self, epoch: &str) -> Result<Option<u64>, HistoryError> {
        let database = self.database()?;
        if database.note(EPOCH).await?.as_deref() != Some(epoch) {
            return Ok(None);
        }
        let generation = database.note(GENERATION).await?;
        Ok(generation.and_then(|number| number.parse().ok()))
    }
}

/// `None` when this build refuses the policy: then nothing is known of its limits.
fn limits_of(published: &Published) -> Option<Limits> {
    Some(limits_in(published.policy.as_ref().ok()?))
}

fn limits_in(policy: &Policy) -> Limits {
    let limits = policy.limits();
    limits
        .map(|(key, limit)| (key.to_string(), limit))
        .collect()
}

/// What differs between two policies, at most [`CHANGES_MAX`].
fn changes(
    before: &Limits,
    after: &Limits,
    generation: u64,
    at_ms: i64,
) -> Vec<(String, LimitChange)> {
    let change = |key: &String| {
        let (old, new) = (before.get(key).copied(), after.get(key).copied());
        let change = LimitChange {
            at_ms,
            generation,
            before: old,
            after: new,
        };
        (old != new).then(|| (key.clone(), change))
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let all = after.keys().chain(gone);
    all.filter_map(change).take(CHANGES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_noted() {
        let limits = |all: &[(&str, u32)]| -> Limits {
            let one = |(key, limit): &(&str, u32)| ((*key).to_owned(), Limit::new(*limit).unwrap());
            all.iter().map(one).collect()
        };
        let before = limits(&[("route/a", 1), ("route/b", 2), ("route/c", 3)]);
        let after = limits(&[("route/a", 1), ("route/b", 5), ("route/d", 4)]);
        let found = changes(&before, &after, 7, 1_000);
        let told: Vec<_> = found
            .iter()
            .map(|(key, change)| {
                let slots = |limit: Option<Limit>| limit.and_then(Limit::slots);
                (key.as_str(), slots(change.before), slots(change.after))
            })
            .collect();
        assert_eq!(
            told,
            [
                ("route/b", Some(2), Some(5)),
                ("route/d", None, Some(4)),
                ("route/c", Some(3), None)
            ]
        );
        assert!(
            found
                .iter()
                .all(|(_, c)| (c.generation, c.at_ms) == (7, 1_000))
        );
    }
}
