//! How one endpoint of an upstream does: what it is chosen by, and what takes it out.
//!
//! Separate because all cores and routes write it, a few words each, without a lock, and time is
//! a parameter. It must never hear of our own refusals or of clients that left.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use compartment::ENDPOINT_FAILURES_MAX as FAILURES_MAX;

/// For so long at first; doubled each time that it fails again when it is back.
const EJECTED_US: u64 = 10_000_000;
const EJECTED_US_MAX: u64 = 300_000_000;
/// How long an endpoint that refused is tried only after the others.
const SHUNNED_US: u64 = 1_000_000;
/// Checks in a row that take an endpoint out, and that bring it back.
const BAD_CHECKS: u32 = 3;
const GOOD_CHECKS: u32 = 2;
/// Half of a latency is forgotten in so long.
const HALF_US: u64 = 2_000_000;
/// A faster answer brings the average down by this part of the difference, a slower one up at once.
const FALL: u64 = 16;
/// Latencies below tell nothing: then what is in flight decides.
const LATENCY_US_MIN: u64 = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    in_flight: AtomicU32,
    /// Those whose head has not come, and since when none of them came.
    headless: AtomicU32,
    waits_since_us: AtomicU64,
    /// Peak-sensitive moving average of the time to a head, and when it was last told.
    latency_us: AtomicU64,
    told_us: AtomicU64,
    /// In a row.
    failures: AtomicU32,
    ejections: AtomicU32,
    ejected_until_us: AtomicU64,
    /// Of all time, for whoever looks.
    failed: AtomicU64,
    shunned_until_us: AtomicU64,
    /// Its checks say so.
    is_sick: AtomicBool,
    /// Checks in a row that say otherwise than `is_sick`.
    checks: AtomicU32,
}

/// What an operator sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) in_flight: u32,
    pub(crate) latency_us: u64,
    pub(crate) failures: u32,
    pub(crate) failed: u64,
    pub(crate) ejections: u32,
    /// 0: it is not ejected.
    pub(crate) ejected_for_us: u64,
    pub(crate) is_sick: bool,
}

impl Standing {
    pub(crate) fn begin(&self, now_us: u64) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        if self.headless.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waits_since_us.store(now_us, Ordering::Relaxed);
        }
    }

    /// One waits no more: `heard` when that was the endpoint's doing.
    pub(crate) fn head(&self, heard: Option<u64>) {
        self.headless.fetch_sub(1, Ordering::Relaxed);
        if let Some(now_us) = heard {
            self.waits_since_us.store(now_us, Ordering::Relaxed);
        }
    }

    pub(crate) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// It brought an answer of its own.
    pub(crate) fn succeed(&self) {
        // Mostly nothing has to be written, so that cores do not take the line from each other.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        if self.ejections.load(Ordering::Relaxed) != 0 {
            self.ejections.store(0, Ordering::Relaxed);
        }
    }

    /// It gave no connection, no head, or a gateway's 502, 503, 504. True when that ejects it.
    pub(crate) fn fail(&self, now_us: u64) -> bool {
        self.failed.fetch_add(1, Ordering::Relaxed);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed);
        if failures.saturating_add(1) < FAILURES_MAX || self.is_ejected(now_us) {
            return false;
        }
        // When it is back one more failure is enough.
        self.failures.store(FAILURES_MAX - 1, Ordering::Relaxed);
        let before = self.ejections.fetch_add(1, Ordering::Relaxed);
        let doubled = EJECTED_US.saturating_mul(1 << before.min(16));
        let until_us = now_us.saturating_add(doubled.min(EJECTED_US_MAX));
        self.ejected_until_us.store(until_us, Ordering::Relaxed);
        true
    }

    /// So long it took to a head, or to a failure.
    pub(crate) fn took(&self, us: u64, now_us: u64) {
        // Two cores at once may lose one of two readings: the next ones make up for it.
        let before_us = self.latency_us(now_us);
        let latency_us = match before_us.checked_sub(us) {
            Some(fall_us) => before_us - fall_us / FALL,
            None => us,
        };
        self.latency_us.store(latency_us, Ordering::Relaxed);
        self.told_us.store(now_us, Ordering::Relaxed);
    }

    /// An endpoint that nobody asks is forgiven with time, or it would never be asked again.
    fn latency_us(&self, now_us: u64) -> u64 {
        let silent_us = now_us.saturating_sub(self.told_us.load(Ordering::Relaxed));
        let latency_us = self.latency_us.load(Ordering::Relaxed);
        let halves = u32::try_from(silent_us / HALF_US).unwrap_or(u32::MAX);
        let left_us = latency_us.checked_shr(halves).unwrap_or(0);
        let rest = u128::from(left_us) * u128::from(silent_us % HALF_US) / u128::from(2 * HALF_US);
        left_us.saturating_sub(u64::try_from(rest).unwrap_or(u64::MAX))
    }

    /// What one more request would meet. Who says nothing is as slow as it has been silent: a
    /// latency is only told by a head, and an endpoint that gives none would look the fastest.
    pub(crate) fn load(&self, now_us: u64) -> u64 {
        let waiting = u64::from(self.in_flight.load(Ordering::Relaxed)).saturating_add(1);
        let silent_us = match self.headless.load(Ordering::Relaxed) {
            0 => 0,
            _ => now_us.saturating_sub(self.waits_since_us.load(Ordering::Relaxed)),
        };
        let latency_us = self.latency_us(now_us).max(silent_us);
        waiting.saturating_mul(latency_us.max(LATENCY_US_MIN))
    }

    /// It refused: others are tried first for a while.
    pub(crate) fn shun(&self, now_us: u64) {
        let until_us = now_us.saturating_add(SHUNNED_US);
        self.shunned_until_us.store(until_us, Ordering::Relaxed);
    }

    pub(crate) fn is_shunned(&self, now_us: u64) -> bool {
        now_us < self.shunned_until_us.load(Ordering::Relaxed)
    }

    fn is_ejected(&self, now_us: u64) -> bool {
        now_us < self.ejected_until_us.load(Ordering::Relaxed)
    }

    /// Ejected, or sick by its checks.
    pub(crate) fn is_out(&self, now_us: u64) -> bool {
        self.is_ejected(now_us) || self.is_sick.load(Ordering::Relaxed)
    }

    /// A check ended. True when that changed what is thought of it. One checker at a time.
    pub(crate) fn checked(&self, good: bool) -> bool {
        let is_sick = self.is_sick.load(Ordering::Relaxed);
        if good != is_sick {
            self.checks.store(0, Ordering::Relaxed);
            return false;
        }
        let against = self.checks.load(Ordering::Relaxed).saturating_add(1);
        let enough = if is_sick { GOOD_CHECKS } else { BAD_CHECKS };
        self.checks.store(against % enough, Ordering::Relaxed);
        if against < enough {
            return false;
        }
        self.is_sick.store(!is_sick, Ordering::Relaxed);
        true
    }

    /// Nobody checks it any more.
    pub(crate) fn unchecked(&self) {
        self.is_sick.store(false, Ordering::Relaxed);
        self.checks.store(0, Ordering::Relaxed);
    }

    /// Exchanges there, where they are counted.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self, now_us: u64) -> Seen {
        let until_us = self.ejected_until_us.load(Ordering::Relaxed);
        Seen {
            in_flight: self.in_flight(),
            // As it was told last: what is forgiven with time is for the choice alone.
            latency_us: self.latency_us.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            ejections: self.ejections.load(Ordering::Relaxed),
            ejected_for_us: until_us.saturating_sub(now_us),
            is_sick: self.is_sick.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn failures_in_a_row_eject_for_longer_and_longer_and_a_success_forgives() {
        let one = Standing::default();
        let mut now_us = SECOND;
        for _ in 0..100 {
            assert!(!one.fail(now_us) || one.is_out(now_us));
            one.succeed();
            if one.is_out(now_us) {
                panic!("failures that are not in a row");
            }
        }
        for seconds in [10, 20, 40, 80, 160, 300, 300] {
            let mut fails = 1;
            while !one.fail(now_us) {
                fails += 1;
            }
            assert_eq!(fails, if seconds == 10 { FAILURES_MAX } else { 1 });
            assert_eq!(one.seen(now_us).ejected_for_us, seconds * SECOND);
            // Those that were under way change nothing.
            assert!(!one.fail(now_us + 1));
            now_us += seconds * SECOND;
            assert!(one.is_out(now_us - 1) && !one.is_out(now_us));
        }
        one.succeed();
        assert_eq!(one.seen(now_us).ejections, 0);
        assert!((1..FAILURES_MAX).all(|_| !one.fail(now_us)) && one.fail(now_us));
    }

    #[test]
    fn what_is_forgiven_is_shown_as_it_was() {
        let one = Standing::default();
        one.took(8_000, SECOND);
        let later_us = SECOND + 10 * HALF_US;
        assert!(one.load(later_us) < 2_000);
        assert_eq!(one.seen(later_us).latency_us, 8_000);
    }

    #[test]
    fn checks_take_out_and_bring_back_when_they_agree() {
        let one = Standing::default();
        let told = |all: &[bool]| {
            all.iter()
                .map(|&good| one.checked(good))
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&[false, false, true]), [false; 3]);
        assert_eq!(told(&[false, false, false]), [false, false, true]);
        assert!(one.is_out(0));
        assert_eq!(
            told(&[true, false, true, true]),
            [false, false, false, true]
        );
        assert!(!one.is_out(0));
        assert_eq!(told(&[false, false, false]), [false, false, true]);
        one.unchecked();
        assert!(!one.is_out(0));
    }

    #[test]
    fn a_slow_endpoint_is_seen_at_once_and_forgiven_in_time() {
        let one = Standing::default();
        for step in 0..100 {
            one.took(5_000, step * 10_000);
        }
        let calm = one.load(SECOND);
        one.took(SECOND, SECOND);
        assert!(one.load(SECOND) > calm * 100);
        // Nobody asks it: half of it is forgotten, and half of the rest.
        let after_us = SECOND + HALF_US;
        assert_eq!(one.load(after_us), SECOND / 2);
        assert_eq!(one.load(after_us + HALF_US), SECOND / 4);
        assert_eq!(one.load(after_us + HALF_US / 2), SECOND * 3 / 8);
        for step in 0..200 {
            one.took(5_000, after_us + step);
        }
        assert!(one.load(after_us + 200) < 6_000);
        assert_eq!(one.load(u64::MAX), LATENCY_US_MIN);
    }

    #[test]
    fn what_is_in_flight_counts_too() {
        let (busy, idle) = (Standing::default(), Standing::default());
        for _ in 0..3 {
            busy.begin(0);
        }
        assert_eq!(busy.load(0), 4 * idle.load(0));
        (0..3).for_each(|_| {
            busy.head(None);
            busy.end();
        });
        assert_eq!(busy.load(0), idle.load(0));
    }

    #[test]
    fn an_endpoint_that_never_answers_does_not_look_fast() {
        let (silent, calm) = (Standing::default(), Standing::default());
        calm.took(200_000, 0);
        let mut taken = 0;
        // Twenty a second; the calm one has four in flight all the time.
        for step in 0..100 {
            let now_us = step * 50_000;
            calm.took(200_000, now_us);
            if silent.load(now_us) < 5 * calm.load(now_us) {
                silent.begin(now_us);
                taken += 1;
            }
        }
        assert!((1..10).contains(&taken), "{taken}");
        // A head that came long before its body ends is no silence.
        let reading = Standing::default();
        reading.begin(0);
        reading.head(Some(5_000));
        assert_eq!(reading.load(60 * SECOND), 2 * LATENCY_US_MIN);
    }
}
