//! What a breaker has written down, under its lock.
//!
//! Separate so that the rules stand by themselves, as plain numbers of one thread. It must never
//! let an era end without a new number, or what belongs to it would count in the next.

use std::collections::VecDeque;

use super::{
    BREAKER_PROBE_US_MAX, BREAKER_THIN_CALLS_MIN, BREAKER_WINDOW_US, BreakerFigures, BreakerState,
    Change, Kind,
};
use crate::policy::{ForcedBreaker, Millionths};

/// The rules in the units of the breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    pub(super) rate: Millionths,
    pub(super) calls: u64,
    pub(super) open_us: u64,
    pub(super) probes: u32,
    pub(super) count_rejections: bool,
}

impl Terms {
    const fn is_reached(self, failed: u64, of: u64) -> bool {
        let whole = Millionths::ONE.0 as u64;
        of > 0 && failed.saturating_mul(whole) >= of.saturating_mul(self.rate.0 as u64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    at_us: u64,
    /// Good answers of the era before it.
    good: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed,
    /// Places for probes that are taken or used up, and those that were answered.
    HalfOpen {
        places: u32,
        answered: u32,
    },
    Open,
}

/// All that a breaker knows but the good answers since its last change.
#[derive(Debug)]
pub(super) struct Book {
    terms: Option<Terms>,
    forced: Option<ForcedBreaker>,
    state: State,
    /// Rises with each change.
    pub(super) era: u64,
    since_us: u64,
    /// The last of this era, oldest first, never more than the count window has calls.
    failures: VecDeque<Failure>,
    /// All of this era.
    failed: u64,
    /// One more, not judged yet.
    pub(super) fails: bool,
    opened: u64,
    half_opened: u64,
    closed: u64,
}

impl Book {
    pub(super) const fn new() -> Self {
        Self {
            terms: None,
            forced: None,
            state: State::Closed,
            era: 0,
            since_us: 0,
            failures: VecDeque::new(),
            failed: 0,
            fails: false,
            opened: 0,
            half_opened: 0,
            closed: 0,
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        match (self.forced, self.state) {
            (Some(ForcedBreaker::Open), _) => BreakerState::ForcedOpen,
            (Some(ForcedBreaker::Closed), _) => BreakerState::ForcedClosed,
            (None, State::Closed) => BreakerState::Closed,
            (None, State::HalfOpen { .. }) => BreakerState::HalfOpen,
            (None, State::Open) => BreakerState::Open,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.state() {
            BreakerState::ForcedOpen => Kind::ForcedOpen,
            BreakerState::ForcedClosed => Kind::ForcedClosed,
            BreakerState::Open => Kind::Open,
            BreakerState::HalfOpen if self.has_place() => Kind::HalfOpen,
            BreakerState::HalfOpen => Kind::HalfOpenFull,
            BreakerState::Closed if self.terms.is_none() => Kind::Absent,
            BreakerState::Closed => Kind::Closed,
        }
    }

    pub(super) fn is_half_open(&self) -> bool {
        self.state() == BreakerState::HalfOpen
    }

    pub(super) fn counts_rejections(&self) -> bool {
        self.terms.is_some_and(|terms| terms.count_rejections)
    }

    /// Until when nothing passes; of no meaning where something does.
    pub(super) fn until_us(&self) -> u64 {
        let open_us = self.terms.map_or(0, |terms| terms.open_us);
        match self.state {
            State::Closed => 0,
            State::HalfOpen { .. } => self.since_us.saturating_add(BREAKER_PROBE_US_MAX),
            State::Open => self.since_us.saturating_add(open_us),
        }
    }

    fn has_place(&self) -> bool {
        let probes = self.terms.map_or(0, |terms| terms.probes);
        matches!(self.state, State::HalfOpen { places, .. } if places < probes)
    }

    /// New rules. A state that they know stays; an operator's word goes first.
    pub(super) fn set(
        &mut self,
        terms: Option<Terms>,
        forced: Option<ForcedBreaker>,
        now_us: u64,
    ) -> Option<Change> {
        let before = self.state();
        let released = self.forced.is_some() && forced.is_none();
        let began = self.terms.is_none() && terms.is_some();
        (self.terms, self.forced) = (terms, forced);
        let calls = terms.map_or(0, |terms| terms.calls);
        while u64::try_from(self.failures.len()).is_ok_and(|len| len > calls) {
            self.failures.pop_front();
        }
        if terms.is_none() || released {
            // Whatever it knew is from before; it begins anew, closed.
            self.state = State::Closed;
        }
        if self.state() == before && !began {
            // Fewer probes may be what those that answered already make up.
            return self.close_if_answered(now_us);
        }
        let state = self.state;
        self.change(before, state, None, now_us)
    }

    /// True with a place for a probe. Begins to be half open when the time has come.
    pub(super) fn ask_for_probe(&mut self, now_us: u64) -> (bool, Option<Change>) {
        let before = self.state();
        let is_due = now_us >= self.until_us();
        match before {
            BreakerState::Closed | BreakerState::ForcedClosed => return (true, None),
            BreakerState::ForcedOpen => return (false, None),
            BreakerState::Open if is_due => {}
            // Those that went before keep everybody out for too long: others may try.
            BreakerState::HalfOpen if is_due && !self.has_place() => {}
            BreakerState::HalfOpen if self.has_place() => return (self.take_place(), None),
            BreakerState::Open | BreakerState::HalfOpen => return (false, None),
        }
        let half_open = State::HalfOpen {
            places: 0,
            answered: 0,
        };
        let change = self.change(before, half_open, None, now_us);
        (self.take_place(), change)
    }

    fn take_place(&mut self) -> bool {
        if let State::HalfOpen { places, .. } = &mut self.state {
            *places = places.saturating_add(1);
        }
        true
    }

    pub(super) fn give_back(&mut self, era: u64) {
        if self.era == era
            && let State::HalfOpen { places, .. } = &mut self.state
        {
            *places = places.saturating_sub(1);
        }
    }

    pub(super) fn probe_answered(&mut self, era: u64, now_us: u64) -> Option<Change> {
        if self.era == era
            && let State::HalfOpen { answered, .. } = &mut self.state
        {
            *answered = answered.saturating_add(1);
        }
        self.close_if_answered(now_us)
    }

    fn close_if_answered(&mut self, now_us: u64) -> Option<Change> {
        let probes = self.terms.map_or(0, |terms| terms.probes);
        let State::HalfOpen { answered, .. } = self.state else {
            return None;
        };
        if self.forced.is_some() || answered < probes {
            return None;
        }
        self.change(BreakerState::HalfOpen, State::Closed, None, now_us)
    }

    /// Looks at what came back so far, a failure that was just noted included.
    pub(super) fn judge(&mut self, good: u64, now_us: u64) -> Option<Change> {
        let fails = std::mem::take(&mut self.fails);
        let terms = self.terms.filter(|_| self.forced.is_none())?;
        match self.state {
            State::Open => None,
            // One is enough: the dependency is not well.
            State::HalfOpen { .. } => {
                let change = |book: &mut Self| {
                    book.change(BreakerState::HalfOpen, State::Open, Some((1, 1)), now_us)
                };
                fails.then(|| change(self)).flatten()
            }
            State::Closed => {
                if fails {
                    self.failed = self.failed.saturating_add(1);
                    self.failures.push_back(Failure {
                        at_us: now_us,
                        good,
                    });
                }
                self.forget(terms, good, now_us);
                let failed_of = self.too_many(terms, good, now_us)?;
                self.change(BreakerState::Closed, State::Open, Some(failed_of), now_us)
            }
        }
    }

    /// Drops what is neither among the last calls nor young.
    fn forget(&mut self, terms: Terms, good: u64, now_us: u64) {
        while let Some(oldest) = self.failures.front() {
            let behind = self.calls_since(*oldest, self.failures.len(), good);
            let age_us = now_us.saturating_sub(oldest.at_us);
            if behind <= terms.calls && age_us <= BREAKER_WINDOW_US {
                break;
            }
            self.failures.pop_front();
        }
    }

    /// Calls from this failure on, itself included, of which `failures` failed.
    fn calls_since(&self, since: Failure, failures: usize, good: u64) -> u64 {
        let failed = u64::try_from(failures).unwrap_or(u64::MAX);
        good.saturating_sub(since.good).saturating_add(failed)
    }

    /// The failures, of so many calls, that are reason to open.
    fn too_many(&self, terms: Terms, good: u64, now_us: u64) -> Option<(u64, u64)> {
        let failed = u64::try_from(self.failures.len()).unwrap_or(u64::MAX);
        let all = good.saturating_add(self.failed);
        if all >= terms.calls && terms.is_reached(failed, terms.calls) {
            return Some((failed, terms.calls));
        }
        // Thin traffic: the window of calls reaches further back than anybody remembers. The rate
        // is that of the calls after the oldest failure, which says when they began.
        let oldest = *self.failures.front()?;
        let span_us = now_us.saturating_sub(oldest.at_us);
        let after = self.calls_since(oldest, self.failures.len(), good) - 1;
        let is_thin = span_us >= BREAKER_WINDOW_US / 2
            && after < terms.calls
            && after >= BREAKER_THIN_CALLS_MIN.min(terms.calls);
        let failed = failed.saturating_sub(1);
        (is_thin && terms.is_reached(failed, after)).then_some((failed, after))
    }

    /// With how many good answers the first full window would be reason to open.
    pub(super) fn judge_at(&self, good: u64) -> u64 {
        let Some(terms) = self.terms.filter(|_| self.kind() == Kind::Closed) else {
            return u64::MAX;
        };
        let failed = u64::try_from(self.failures.len()).unwrap_or(u64::MAX);
        let all = good.saturating_add(self.failed);
        if all >= terms.calls || !terms.is_reached(failed, terms.calls) {
            return u64::MAX;
        }
        good.saturating_add(terms.calls - all)
    }

    fn change(
        &mut self,
        from: BreakerState,
        to: State,
        failed_of: Option<(u64, u64)>,
        now_us: u64,
    ) -> Option<Change> {
        self.state = to;
        self.era = self.era.saturating_add(1);
        self.since_us = now_us;
        self.failures.clear();
        self.failed = 0;
        let to = self.state();
        let count = match to {
            BreakerState::Open | BreakerState::ForcedOpen => &mut self.opened,
            BreakerState::HalfOpen => &mut self.half_opened,
            BreakerState::Closed | BreakerState::ForcedClosed => &mut self.closed,
        };
        // Rules for one that had none are no change of state, but begin an era all the same.
        if from != to || to == BreakerState::HalfOpen {
            *count = count.saturating_add(1);
        }
        Some(Change {
            from,
            to,
            failed_of,
        })
    }

    pub(super) fn figures(&self, good: u64, now_us: u64) -> Option<BreakerFigures> {
        if self.terms.is_none() && self.forced.is_none() {
            return None;
        }
        let window = self.terms.map_or(0, |terms| terms.calls);
        let is_seen = |(at, failure): &(usize, &Failure)| {
            let behind = self.calls_since(**failure, self.failures.len() - at, good);
            behind <= window && now_us.saturating_sub(failure.at_us) <= BREAKER_WINDOW_US
        };
        let failed = self.failures.iter().enumerate().filter(is_seen).count();
        let calls = good.saturating_add(self.failed).min(window);
        Some(BreakerFigures {
            state: self.state(),
            since_ms: now_us.saturating_sub(self.since_us) / 1_000,
            opened: self.opened,
            half_opened: self.half_opened,
            closed: self.closed,
            failure_rate: ratio(u64::try_from(failed).unwrap_or(u64::MAX), calls),
            calls,
        })
    }
}

fn ratio(failed: u64, calls: u64) -> f64 {
    let small = |count: u64| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    if calls == 0 {
        return 0.0;
    }
    (small(failed) / small(calls)).min(1.0)
}
