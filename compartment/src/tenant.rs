//! One tenant over all routes.
//!
//! Separate from the other compartments because there are up to 100,000: a word, a name and a
//! place for statistics that are made with its first request. It must never hold a key text or
//! a counter for a tenant that nobody has seen.

use std::sync::{Arc, OnceLock};

use crate::stats::{Look, Stats, unused_figures};
use crate::word::{NoSlot, Word};
use crate::{Figures, Key, Level, Limit, Moment, Name};

/// The compartment `tenant/ID`.
#[derive(Debug)]
pub struct TenantCompartment {
    pub(crate) word: Word,
    /// Never used twice in a process: per-core caches know tenants by it.
    pub(crate) id: u64,
    name: Name,
    made_us: u64,
    used: OnceLock<Box<Used>>,
}

/// What a tenant has once it was seen.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) stats: Stats,
    pub(crate) key: Arc<str>,
}

impl TenantCompartment {
    pub(crate) fn new(id: u64, name: Name, limit: Limit, made_us: u64) -> Self {
        Self {
            word: Word::new(limit, 0),
            id,
            name,
            made_us,
            used: OnceLock::new(),
        }
    }

    /// The tenant's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The limit in force.
    pub fn limit(&self) -> Limit {
        self.word.load().limit()
    }

    /// Slots taken now.
    pub fn in_flight(&self) -> u32 {
        self.word.load().in_flight()
    }

    /// Whether a request of it ever came: until then it has no counters and no key.
    pub fn was_seen(&self) -> bool {
        self.used.get().is_some()
    }

    pub(crate) fn used(&self) -> &Used {
        self.used.get_or_init(|| {
            let key = Key::Tenant(self.name.clone()).to_string().into();
            Box::new(Used {
                stats: Stats::new(0, self.made_us),
                key,
            })
        })
    }

    /// Takes one slot.
    pub(crate) fn enter(&self, at: Moment<'_>) -> Result<(), NoSlot> {
        // Made before the word is changed, so that no change of a used one goes uncounted.
        let used = self.used();
        used.stats.moved(at, self.word.enter()?);
        Ok(())
    }

    /// Gives one slot back.
    pub(crate) fn leave(&self, at: Moment<'_>) {
        self.used().stats.moved(at, self.word.leave());
    }

    /// Changes the limit. What is in flight keeps counting.
    pub(crate) fn resize(&self, limit: Limit, at: Moment<'_>) {
        let swap = self.word.resize(limit, 0, false);
        // One that nobody has used is empty before and after: nothing to count.
        if let Some(used) = self.used.get() {
            used.stats.moved(at, swap);
        }
    }

    pub(crate) fn look(&self, look: Look) -> Figures {
        match self.used.get() {
            Some(used) => used
                .stats
                .figures(&used.key, Level::Tenant, &self.word, look),
            None => {
                let key = Key::Tenant(self.name.clone()).to_string();
                let age_us = look.now_us.saturating_sub(self.made_us);
                unused_figures(&key, Level::Tenant, &self.word, age_us)
            }
        }
    }
}
