//! One tenant over all routes.
//!
//! Separate from the other compartments because there are up to 100,000: a word, a name and a
//! place for statistics that are made with its first request. It must never hold a key text or
//! a counter for a tenant that nobody has seen.

use std::sync::{Arc, OnceLock};

use crate::stats::{Stats, unused_figures};
use crate::word::Word;
use crate::{Figures, Key, Level, Limit, Name};

/// The compartment `tenant/ID`.
#[derive(Debug)]
pub struct TenantCompartment {
    pub(crate) word: Word,
    /// Never used twice in a process: per-core caches know tenants by it.
    pub(crate) id: u64,
    name: Name,
    used: OnceLock<Box<Used>>,
}

/// What a tenant has once it was seen.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) stats: Stats,
    pub(crate) key: Arc<str>,
}

impl TenantCompartment {
    pub(crate) fn new(id: u64, name: Name, limit: Limit) -> Self {
        Self {
            word: Word::new(limit, 0),
            id,
            name,
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

    pub(crate) fn used(&self) -> &Used {
        self.used.get_or_init(|| {
            let key = Key::Tenant(self.name.clone()).to_string().into();
            Box::new(Used {
                stats: Stats::default(),
                key,
            })
        })
    }

    /// What this compartment says of itself.
    pub fn figures(&self) -> Figures {
        match self.used.get() {
            Some(used) => used.stats.figures(&used.key, Level::Tenant, &self.word),
            None => {
                let key = Key::Tenant(self.name.clone()).to_string();
                unused_figures(&key, Level::Tenant, &self.word)
            }
        }
    }
}
