//! Which generations this store made: whether what a gateway holds is one of them.
//!
//! Separate because numbers alone do not say it. After an older copy was put in a store's place its
//! numbers rise again, and pass those that gateways hold of the time that is lost. It must never
//! take a number for a proof.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Outgoing, Published, Rollout, halts, load};
use crate::clock;
use crate::store::{Generation, StoreError};

/// Generations whose digests lie in memory, so that most gateways are known while the store is
/// away; older ones are asked for.
const REMEMBERED_MAX: usize = 1_000;
/// As many are read at a start, and after a gap.
pub(super) const READ_MAX: u32 = 500;

/// The digests of the newest generations, and how often the store was replaced under this process.
#[derive(Clone, Debug, Default)]
pub(super) struct Lineage(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    digests: Mutex<BTreeMap<u64, String>>,
    era: AtomicU64,
}

impl Lineage {
    /// These were read from the store.
    pub(super) fn learn(&self, generations: Vec<Generation>) {
        self.with(|digests| {
            let read = generations.into_iter();
            digests.extend(read.map(|generation| (generation.number, generation.digest)));
            while digests.len() > REMEMBERED_MAX {
                digests.pop_first();
            }
        });
    }

    fn with<T>(&self, ask: impl FnOnce(&mut BTreeMap<u64, String>) -> T) -> T {
        // Every entry stands by itself.
        ask(&mut self
            .0
            .digests
            .lock()
            .unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rollout {
    /// Rises when the store turns out to be another one than it was: what was found out about a
    /// gateway before counts no more.
    pub(crate) fn era(&self) -> u64 {
        self.lineage.0.era.load(Ordering::Acquire)
    }

    /// Whether this store made what a gateway holds. One that is older than everything that is kept
    /// counts as made here: nothing that is sent is older than that.
    pub(crate) async fn made(&self, number: u64, digest: &str) -> Result<bool, StoreError> {
        let known = self.lineage.with(|digests| digests.get(&number).cloned());
        if let Some(known) = known {
            return Ok(known == digest);
        }
        let below = Some(number.saturating_add(1));
        let read = self.store.generations(below, 1).await?;
        let is_it = |nearest: &Generation| nearest.number == number && nearest.digest == digest;
        Ok(read.first().is_none_or(is_it))
    }

    /// Whether the store still has what is published, so that its generation `number` follows it.
    pub(super) async fn goes_on(&self, number: u64) -> Result<bool, StoreError> {
        let about = self.current().about.clone();
        if number < about.number {
            return Ok(false);
        }
        let below = Some(number.saturating_add(1));
        let gap = number.saturating_sub(about.number).saturating_add(1);
        let count = u32::try_from(gap).unwrap_or(READ_MAX).min(READ_MAX);
        let between = self.store.generations(below, count).await?;
        let kept = match between.last() {
            Some(oldest) if oldest.number <= about.number => oldest.clone(),
            _ => {
                let below = Some(about.number.saturating_add(1));
                let read = self.store.generations(below, 1).await?;
                let Some(kept) = read.into_iter().next() else {
                    return Ok(false);
                };
                kept
            }
        };
        let goes_on = kept.number == about.number && kept.digest == about.digest;
        if goes_on {
            self.lineage.learn(between);
        }
        Ok(goes_on)
    }

    /// The store was replaced while this process used it: everything that was known of gateways is
    /// asked anew, before anything is sent. Only one at a time.
    pub(super) async fn begin_anew(&self) -> Result<Arc<Published>, StoreError> {
        let number = self.store.newest_number().await?;
        let published = Arc::new(load(&self.store, number).await?);
        let safe = halts::safe(&self.store, number).await?;
        let read = self.store.generations(None, READ_MAX).await?;
        tracing::error!(
            policy.generation = number,
            policy.generation_before = self.current().about.number,
            "the store has another history than it had: was a backup restored? \
             Gateways are asked what they hold"
        );
        // First of all: streams that are open send nothing from here on.
        self.lineage.0.era.fetch_add(1, Ordering::AcqRel);
        self.lineage.with(BTreeMap::clear);
        self.lineage.learn(read);
        let outgoing = Outgoing::of(&published);
        self.newest.send_replace(Arc::clone(&published));
        self.change(|stage| stage.replace(outgoing, safe, clock::now()));
        Ok(published)
    }
}
