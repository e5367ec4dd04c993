//! The counts of one compartment by one writer.
//!
//! Separate so that what is written and how it is added up stands in one place. Every number here
//! is a sum that does not depend on the order in which it was made: cells of several writers are
//! added when read. It must never be read on the way to a decision.
//!
//! Time is counted by changes of the word. Each is one compare-and-swap whose before and after
//! are known, and becoming full and becoming not full alternate strictly, so the time spent full
//! up to T is `T (if full now) + sum(times of leaving) - sum(times of entering)`, whoever wrote
//! which part in whatever order. The same holds for being idle, and with one term for each slot
//! for the number in flight summed over time.

use std::array::from_fn;

use crate::Rejection;
use crate::histogram::{BUCKETS, Histogram, bucket_of};
use crate::seat::Pen;
use crate::sync::statistics::{AtomicU32, AtomicU64, Ordering};
use crate::word::Swap;

const REASONS: usize = Rejection::ALL.len();
/// The weight of a new hold time in the mean is one in two to this power.
const HOLD_SHIFT: u32 = 4;
/// Added to every time in a sum of changes, so that a change that is in the word but not yet in
/// the sum moves the result far out of every possible range, and is seen.
const MARK_US: u64 = 1 << 56;
/// Results beyond half a mark are such a change, or its opposite.
const SANE_US: u64 = MARK_US / 2;

/// The term of one change upwards at this time.
pub(crate) const fn marked(now_us: u64) -> u64 {
    now_us.wrapping_add(MARK_US)
}

/// By reason.
pub(crate) type ByReason = [u64; REASONS];

/// Sums of changes at their times, each change +1 or -1 (as two's complement).
#[derive(Debug, Default)]
pub(crate) struct Changes(AtomicU64);

impl Changes {
    pub(crate) fn add(&self, pen: Pen, change: i64, now_us: u64) {
        if change != 0 {
            pen.add(&self.0, marked(now_us).wrapping_mul(change.cast_unsigned()));
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The time that `count` (what the changes of `sum` add up to) has been summed up to `now_us`,
/// beyond `known`. `None` while a change is not in the sum yet.
pub(crate) fn since(known: u64, count: u64, sum: u64, now_us: u64) -> Option<i64> {
    let all = count.wrapping_mul(marked(now_us));
    let more = all.wrapping_sub(sum).wrapping_sub(known).cast_signed();
    (more.unsigned_abs() < SANE_US).then_some(more)
}

/// The counts of one writer. They start with the compartment and never go down, except the
/// recent peak, which a reader takes.
#[derive(Debug)]
pub(crate) struct Tally {
    admitted: AtomicU64,
    completed: AtomicU64,
    in_flight: Changes,
    full: Changes,
    idle: Changes,
    hold_sum_us: AtomicU64,
    /// Mean hold in microseconds, shifted left by `HOLD_SHIFT`; 0: nothing measured.
    hold_mean: AtomicU64,
    peak: AtomicU32,
    peak_recent: AtomicU32,
    rejected: [AtomicU64; REASONS],
    holds: [AtomicU64; BUCKETS],
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            admitted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            in_flight: Changes::default(),
            full: Changes::default(),
            idle: Changes::default(),
            hold_sum_us: AtomicU64::new(0),
            hold_mean: AtomicU64::new(0),
            peak: AtomicU32::new(0),
            peak_recent: AtomicU32::new(0),
            rejected: from_fn(|_| AtomicU64::new(0)),
            holds: from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl Tally {
    pub(crate) fn admit(&self, pen: Pen, in_flight: u32) {
        pen.add(&self.admitted, 1);
        pen.raise(&self.peak, in_flight);
        pen.raise(&self.peak_recent, in_flight);
    }

    /// Returns the mean hold of this writer, in microseconds.
    pub(crate) fn complete(&self, pen: Pen, held_us: u64) -> u64 {
        pen.add(&self.completed, 1);
        pen.add(&self.hold_sum_us, held_us);
        if let Some(count) = self.holds.get(bucket_of(held_us)) {
            pen.add(count, 1);
        }
        let mean = self.hold_mean.load(Ordering::Relaxed);
        let held_us = held_us.clamp(1, u64::MAX >> (HOLD_SHIFT + 1));
        let next = if mean == 0 {
            held_us << HOLD_SHIFT
        } else {
            mean - (mean >> HOLD_SHIFT) + held_us
        };
        // Where others write too, a lost update moves the mean by a sixteenth of one hold.
        self.hold_mean.store(next, Ordering::Relaxed);
        next >> HOLD_SHIFT
    }

    pub(crate) fn reject(&self, pen: Pen, why: Rejection) {
        if let Some(count) = self.rejected.get(why.index()) {
            pen.add(count, 1);
        }
    }

    /// The word was changed.
    pub(crate) fn moved(&self, pen: Pen, swap: Swap, now_us: u64) {
        let Swap { before, after } = swap;
        let more = i64::from(after.in_flight()) - i64::from(before.in_flight());
        self.in_flight.add(pen, more, now_us);
        let step = |before: bool, after: bool| i64::from(after) - i64::from(before);
        let full = step(before.is_saturated(), after.is_saturated());
        self.full.add(pen, full, now_us);
        let idle = step(before.in_flight() == 0, after.in_flight() == 0);
        self.idle.add(pen, idle, now_us);
    }

    pub(crate) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }

    pub(crate) fn peak(&self) -> u32 {
        self.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn peak_recent(&self) -> u32 {
        self.peak_recent.load(Ordering::Relaxed)
    }

    pub(crate) fn take_peak(&self) -> u32 {
        self.peak_recent.swap(0, Ordering::Relaxed)
    }
}

/// Tallies added up at one glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    pub(crate) rejected: ByReason,
    pub(crate) in_flight: u64,
    pub(crate) full: u64,
    pub(crate) idle: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, tally: &Tally) {
        // Completed first: then those in flight are never too few, and the word says when they
        // are too many.
        self.completed += tally.completed();
        self.admitted += tally.admitted.load(Ordering::Acquire);
        for (sum, count) in self.rejected.iter_mut().zip(&tally.rejected) {
            *sum += count.load(Ordering::Acquire);
        }
        self.in_flight = self.in_flight.wrapping_add(tally.in_flight.sum());
        self.full = self.full.wrapping_add(tally.full.sum());
        self.idle = self.idle.wrapping_add(tally.idle.sum());
    }
}

/// Adds the hold times of a tally.
pub(crate) fn add_holds(to: &mut Histogram, tally: &Tally) {
    let counts = tally.holds.iter().map(|n| n.load(Ordering::Relaxed));
    let sum_us = tally.hold_sum_us.load(Ordering::Relaxed);
    to.merge(&Histogram::from_counts(counts, sum_us));
}

/// Durations that several may write, made when the first is.
#[derive(Debug)]
pub(crate) struct Durations {
    counts: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            counts: from_fn(|_| AtomicU64::new(0)),
            sum_us: AtomicU64::new(0),
        }
    }
}

impl Durations {
    pub(crate) fn record(&self, us: u64) {
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        if let Some(count) = self.counts.get(bucket_of(us)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Histogram {
        let counts = self.counts.iter().map(|n| n.load(Ordering::Relaxed));
        Histogram::from_counts(counts, self.sum_us.load(Ordering::Relaxed))
    }
}

const _: () = assert!(
    size_of::<Tally>() <= 1024,
    "a compartment costs at most a kilobyte for each core"
);
