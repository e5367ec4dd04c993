//! One compartment: a bounded number of requests in flight, with a key.
//!
//! Separate because the upstream level, the gateway level and the slots of a route are this and
//! nothing more. A live one is never replaced: a policy changes its numbers. It must never wait.

use std::sync::Arc;

use crate::stats::Stats;
use crate::sync::OwnLine;
use crate::word::{NoSlot, Word};
use crate::{Figures, Key, Level, Limit, Rejection};

/// A bounded number of requests in flight, with a key.
#[derive(Debug)]
pub struct Compartment {
    pub(crate) word: OwnLine<Word>,
    pub(crate) stats: Stats,
    key: Arc<str>,
    level: Level,
}

impl Compartment {
    /// A compartment of its own. Those of a policy are made by [`crate::Hull::apply`], and only
    /// a [`crate::Gauge`] of them is given away.
    pub fn new(key: &Key, limit: Limit) -> Self {
        Self {
            word: OwnLine(Word::new(limit, 0)),
            stats: Stats::default(),
            key: key.to_string().into(),
            level: key.level(),
        }
    }

    /// The key as text.
    pub fn key(&self) -> &Arc<str> {
        &self.key
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The limit in force.
    pub fn limit(&self) -> Limit {
        self.word.0.load().limit()
    }

    /// Slots taken now.
    pub fn in_flight(&self) -> u32 {
        self.word.0.load().in_flight()
    }

    /// The mean time a permit is held, in microseconds; 0 before the first came back.
    pub fn mean_hold_us(&self) -> u64 {
        self.stats.mean_hold_us()
    }

    /// Changes the limit. What is in flight keeps counting; nothing is killed.
    pub fn resize(&self, limit: Limit) {
        self.word.0.resize(limit, 0);
    }

    /// Takes one slot of this compartment alone.
    pub fn admit(&self) -> Result<Permit<'_>, Rejection> {
        match self.word.0.enter() {
            Ok(in_flight) => {
                self.stats.admit(in_flight);
                Ok(Permit { of: self })
            }
            Err(why) => {
                let why = rejection(self.level, why);
                self.stats.reject(why);
                Err(why)
            }
        }
    }

    /// What this compartment says of itself.
    pub fn figures(&self) -> Figures {
        self.stats.figures(&self.key, self.level, &self.word.0)
    }
}

/// Why a level refuses when its word gives no slot. A removed compartment that a request with
/// an old policy still knows is closed to it.
pub(crate) const fn rejection(level: Level, why: NoSlot) -> Rejection {
    match (why, level) {
        (NoSlot::Closed | NoSlot::Retired, _) => Rejection::Closed,
        (NoSlot::Full, Level::Tenant) => Rejection::TenantFull,
        (NoSlot::Full, Level::TenantRoute) => Rejection::TenantRouteFull,
        (NoSlot::Full, Level::Route) => Rejection::RouteFull,
        (NoSlot::Full, Level::Stream) => Rejection::StreamFull,
        (NoSlot::Full, Level::Upstream) => Rejection::UpstreamFull,
        (NoSlot::Full, Level::Gateway) => Rejection::GatewayFull,
    }
}

/// One slot of one compartment; given back on drop. Not `Clone`: one slot, one proof.
#[must_use = "dropping the permit gives it back"]
#[derive(Debug)]
pub struct Permit<'a> {
    of: &'a Compartment,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.of.stats.complete_untimed();
        self.of.word.0.leave();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_permit_gives_itself_back_on_unwinding() {
        let one = Compartment::new(&Key::Gateway, Limit::new(1).unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _permit = one.admit().unwrap();
            assert_eq!(one.admit().err(), Some(Rejection::GatewayFull));
            panic!("the work failed");
        }));
        assert!(panicked.is_err());
        assert_eq!(one.in_flight(), 0);
        let figures = one.figures();
        assert_eq!(
            (figures.admitted, figures.completed, figures.arrived),
            (1, 1, 2)
        );
    }
}
