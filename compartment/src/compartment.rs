//! One compartment: a bounded number of requests in flight, with a key.
//!
//! Separate because the upstream level, the gateway level and the slots of a route are this and
//! nothing more. A live one is never replaced: a policy changes its numbers. It must never wait.

use std::sync::Arc;

use crate::stats::{Look, Stats};
use crate::sync::OwnLine;
use crate::word::{NoSlot, Picture, Swap, Word};
use crate::{Figures, Key, Level, Limit, Moment, Rejection};

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
        Self::made(key, limit, 0, 0)
    }

    /// One that counts in cells of so many cores.
    pub(crate) fn made(key: &Key, limit: Limit, cores: usize, now_us: u64) -> Self {
        Self {
            word: OwnLine(Word::new(limit, 0)),
            stats: Stats::new(cores, now_us),
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
    pub fn resize(&self, limit: Limit, now_us: u64) {
        let swap = self.word.0.resize(limit, 0, false);
        self.stats.moved(Moment::at(now_us), swap);
    }

    /// Takes one slot of this compartment alone.
    pub fn admit<'a>(&'a self, at: Moment<'a>) -> Result<Permit<'a>, Rejection> {
        match self.enter(at) {
            Ok(swap) => {
                self.stats.admit(at, swap.after.in_flight());
                Ok(Permit {
                    of: self,
                    at,
                    until_us: at.now_us,
                })
            }
            Err(why) => {
                let why = rejection(self.level, why);
                self.stats.reject(at, why);
                Err(why)
            }
        }
    }

    /// Takes one slot of the word.
    pub(crate) fn enter(&self, at: Moment<'_>) -> Result<Swap, NoSlot> {
        let swap = self.word.0.enter()?;
        self.stats.moved(at, swap);
        Ok(swap)
    }

    /// Gives one slot of the word back.
    pub(crate) fn leave(&self, at: Moment<'_>) {
        self.stats.moved(at, self.word.0.leave());
    }

    /// Puts `after` in the place of `before`, or says what is there instead.
    pub(crate) fn change(
        &self,
        at: Moment<'_>,
        before: Picture,
        after: Picture,
    ) -> Result<(), Picture> {
        self.word.0.change(before, after)?;
        self.stats.moved(at, Swap { before, after });
        Ok(())
    }

    /// What this compartment says of itself.
    pub fn figures(&self, now_us: u64) -> Figures {
        self.look(Look::at(now_us))
    }

    pub(crate) fn look(&self, look: Look) -> Figures {
        self.stats
            .figures(&self.key, self.level, &self.word.0, look)
    }
}

/// Why a level refuses when its word gives no slot. A removed compartment that a request with
/// an old policy still knows is closed to it.
pub(crate) const fn rejection(level: Level, why: NoSlot) -> Rejection {
    match (why, level) {
        (NoSlot::Closed | NoSlot::Retired, _) => Rejection::Closed,
        (NoSlot::Full, Level::Tenant) => Rejection::TenantFull,
        (NoSlot::Full, Level::TenantRoute) => Rejection::TenantRouteFull,
        (NoSlot::Full, Level::Route | Level::Fallback) => Rejection::RouteFull,
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
    at: Moment<'a>,
    until_us: u64,
}

impl Permit<'_> {
    /// When it is that it will be dropped. Without this, the moment it was taken.
    pub const fn seen_at(&mut self, now_us: u64) {
        self.until_us = now_us;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let held_us = self.until_us.saturating_sub(self.at.now_us);
        let at = Moment {
            now_us: self.until_us,
            ..self.at
        };
        self.of.stats.complete(at, held_us);
        self.of.leave(at);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_permit_gives_itself_back_on_unwinding() {
        let one = Compartment::new(&Key::Gateway, Limit::new(1).unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _permit = one.admit(Moment::at(1)).unwrap();
            let refused = one.admit(Moment::at(1)).err();
            assert_eq!(refused, Some(Rejection::GatewayFull));
            panic!("the work failed");
        }));
        assert!(panicked.is_err());
        assert_eq!(one.in_flight(), 0);
        let figures = one.figures(1);
        assert_eq!(
            (figures.admitted, figures.completed, figures.arrived),
            (1, 1, 2)
        );
    }
}
