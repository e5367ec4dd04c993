//! How many retries a route may make: a share of its recent successes.
//!
//! Separate because it is pure: time and numbers are parameters. It must never be per core: the
//! retries that are always allowed would multiply by the number of cores.

use crate::policy::Millionths;
use crate::sync::statistics::{AtomicU32, AtomicU64, Ordering};

/// Retries in a window that are allowed whatever succeeded.
pub const RETRIES_ALWAYS: u32 = 3;

/// A window slides in this many steps.
const STEPS: usize = 10;
/// The step under way and those still inside the window.
const SLOTS: usize = STEPS + 1;
const COUNT_BITS: u32 = 20;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const EPOCH_MAX: u64 = (1 << (u64::BITS - 2 * COUNT_BITS)) - 1;
const MILLION: u64 = 1_000_000;

/// The retries and successes of one route in a sliding window.
///
/// Counts are kept in steps of a tenth of the window. A retry is granted by one
/// compare-and-swap on the step under way, so two at once cannot both take the last one, unless
/// they happen on two sides of a step's border.
#[derive(Debug)]
pub struct RetryBudget {
    share: Millionths,
    step_us: u64,
    /// Epoch, successes and retries of one step in one word.
    steps: [AtomicU64; SLOTS],
    /// From the pause before them to their end.
    under_way: AtomicU32,
}

/// One more attempt, counted as under way until it is dropped.
#[must_use = "dropping it ends the attempt"]
#[derive(Debug)]
pub struct Repeat<'a>(&'a RetryBudget);

impl Drop for Repeat<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Step {
    epoch: u64,
    successes: u64,
    retries: u64,
}

impl Step {
    const fn of(word: u64) -> Self {
        Self {
            epoch: word >> (2 * COUNT_BITS),
            successes: (word >> COUNT_BITS) & COUNT_MAX,
            retries: word & COUNT_MAX,
        }
    }

    const fn word(self) -> u64 {
        let (successes, retries) = (self.successes, self.retries);
        let capped = if successes > COUNT_MAX {
            COUNT_MAX
        } else {
            successes
        };
        let retried = if retries > COUNT_MAX {
            COUNT_MAX
        } else {
            retries
        };
        self.epoch << (2 * COUNT_BITS) | capped << COUNT_BITS | retried
    }

    /// This step, or an empty one when what is here is left from an earlier round.
    const fn at(self, epoch: u64) -> Self {
        if self.epoch == epoch {
            self
        } else {
            Self {
                epoch,
                successes: 0,
                retries: 0,
            }
        }
    }
}

impl RetryBudget {
    /// A share of the successes of the last `window_us` microseconds.
    pub fn new(share: Millionths, window_us: u64) -> Self {
        let step_us = (window_us / 10).max(1);
        Self {
            share,
            step_us,
            steps: std::array::from_fn(|_| AtomicU64::new(0)),
            under_way: AtomicU32::new(0),
        }
    }

    /// An exchange succeeded at `now_us`.
    pub fn succeed(&self, now_us: u64) {
        let epoch = self.epoch(now_us);
        let Some(slot) = self.slot(epoch) else { return };
        let mut seen = slot.load(Ordering::Relaxed);
        loop {
            let step = Step::of(seen).at(epoch);
            let next = Step {
                successes: step.successes + 1,
                ..step
            }
            .word();
            match slot.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(other) => seen = other,
            }
        }
    }

    /// One more attempt, if one is allowed at `now_us` to a route with so many requests in flight.
    ///
    /// What a window allows must not come all at once: the successes of ten good seconds would
    /// double what is in flight in the first moment of an outage. So no more than the same share
    /// of what is in flight is under way at a time, and three always.
    pub fn try_retry(&self, now_us: u64, in_flight: u32) -> Option<Repeat<'_>> {
        let before = self.under_way.fetch_add(1, Ordering::AcqRel);
        let repeat = Repeat(self);
        let fits = u64::from(before) < self.allowed(in_flight.into());
        (fits && self.count_retry(now_us)).then_some(repeat)
    }

    fn count_retry(&self, now_us: u64) -> bool {
        let epoch = self.epoch(now_us);
        let Some(slot) = self.slot(epoch) else {
            return false;
        };
        let mut seen = slot.load(Ordering::Acquire);
        loop {
            let step = Step::of(seen).at(epoch);
            let (successes, retries) = self.before(epoch);
            if retries + step.retries >= self.allowed(successes + step.successes) {
                return false;
            }
            let next = Step {
                retries: step.retries + 1,
                ..step
            }
            .word();
            match slot.compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
    }

    /// How many more attempts would be allowed at `now_us`.
    pub fn left(&self, now_us: u64) -> u32 {
        let epoch = self.epoch(now_us);
        let now = self
            .slot(epoch)
            .map_or(0, |slot| slot.load(Ordering::Acquire));
        let step = Step::of(now).at(epoch);
        let (successes, retries) = self.before(epoch);
        let allowed = self.allowed(successes + step.successes);
        u32::try_from(allowed.saturating_sub(retries + step.retries)).unwrap_or(u32::MAX)
    }

    /// The share of so many, and three always.
    fn allowed(&self, of: u64) -> u64 {
        let share = of * u64::from(self.share.0) / MILLION;
        share.max(RETRIES_ALWAYS.into())
    }

    /// Successes and retries of the window before the step under way.
    fn before(&self, epoch: u64) -> (u64, u64) {
        let steps = self
            .steps
            .iter()
            .map(|slot| Step::of(slot.load(Ordering::Acquire)));
        steps
            .filter(|step| {
                (1..=STEPS as u64).contains(&(epoch.wrapping_sub(step.epoch) & EPOCH_MAX))
            })
            .fold((0, 0), |(ok, again), step| {
                (ok + step.successes, again + step.retries)
            })
    }

    /// Wraps after months; distances are taken modulo the same.
    fn epoch(&self, now_us: u64) -> u64 {
        (now_us / self.step_us) & EPOCH_MAX
    }

    fn slot(&self, epoch: u64) -> Option<&AtomicU64> {
        let at = usize::try_from(epoch % SLOTS as u64).ok()?;
        self.steps.get(at)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn granted(budget: &RetryBudget, now_us: u64) -> usize {
        std::iter::from_fn(|| budget.try_retry(now_us, 0).map(drop)).count()
    }

    #[test]
    fn three_a_window_are_always_allowed() {
        let budget = RetryBudget::new(Millionths(100_000), 10 * SECOND);
        assert_eq!(granted(&budget, 5 * SECOND), 3);
        assert_eq!(
            granted(&budget, 14 * SECOND),
            0,
            "9 s later they still count"
        );
        assert_eq!(granted(&budget, 16 * SECOND), 3, "11 s later they do not");
    }

    #[test]
    fn a_tenth_of_recent_successes() {
        let budget = RetryBudget::new(Millionths(100_000), 10 * SECOND);
        (0..100).for_each(|n| budget.succeed(n * SECOND / 20));
        assert_eq!(budget.left(5 * SECOND), 10);
        assert_eq!(granted(&budget, 5 * SECOND), 10);
        assert_eq!(budget.left(5 * SECOND), 0);
        assert_eq!(granted(&budget, 5 * SECOND), 0);
        (0..100).for_each(|_| budget.succeed(6 * SECOND));
        assert_eq!(granted(&budget, 6 * SECOND), 10);
        assert_eq!(
            granted(&budget, 60 * SECOND),
            3,
            "old successes are forgotten"
        );
    }

    /// P14: 100/s x 1.1 x 250 ms: 25 in flight bring 2.5 more, not 25.
    #[test]
    fn what_a_window_allows_does_not_come_all_at_once() {
        let budget = RetryBudget::new(Millionths(100_000), 10 * SECOND);
        (0..1000).for_each(|_| budget.succeed(SECOND));
        let at_once = |in_flight| {
            let under_way: Vec<_> =
                std::iter::from_fn(|| budget.try_retry(SECOND, in_flight)).collect();
            under_way.len()
        };
        assert_eq!((at_once(0), at_once(25), at_once(45)), (3, 3, 4));
        assert_eq!(budget.left(SECOND), 90, "what was not made was not spent");
    }

    #[test]
    fn a_step_never_overflows() {
        let budget = RetryBudget::new(Millionths(1_000_000), SECOND);
        (0..COUNT_MAX + 10).for_each(|_| budget.succeed(1));
        assert!(budget.try_retry(1, 0).is_some());
        assert_eq!(
            Step::of(budget.steps[0].load(Ordering::Relaxed)).successes,
            COUNT_MAX
        );
    }

    #[test]
    fn many_at_once_take_no_more_than_there_is() {
        let budget = RetryBudget::new(Millionths(100_000), 10 * SECOND);
        (0..1000).for_each(|_| budget.succeed(SECOND));
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| granted(&budget, SECOND)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(taken, 100);
    }
}
