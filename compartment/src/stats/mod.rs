//! What one compartment counts.
//!
//! Separate because nothing is decided by it: each number is exact by itself, and the reader puts
//! them together. What is written in which order is what makes that possible without a lock: a
//! request is in the word before it counts as admitted, counts as completed before it is out of
//! the word, and is out of the line before its end is counted.
//!
//! The shared levels count in one cell for each core, so that cores do not wait for each other;
//! tenants, of which there are many, in one cell. It must never be read on the way to a decision.

mod reading;

use std::array::from_fn;
use std::sync::OnceLock;

use crate::Rejection;
use crate::seat::{Moment, Pen};
use crate::sync::OwnLine;
use crate::sync::statistics::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::tally::{Changes, Durations, Tally};
use crate::word::Swap;

use reading::Said;
pub(crate) use reading::{Look, unused_figures};

/// How often a reader tries for a moment in which nobody is between two counts. Without one it
/// says what is certain: the same sums, a little earlier.
const PICTURE_TRIES: u32 = if cfg!(loom) { 2 } else { 64 };
/// The mean hold is written for all to read when it moved by more than one part in two to this.
const MEAN_MOVES_SHIFT: u32 = 6;

/// The counters of one compartment. They start with it and never go down.
#[derive(Debug)]
pub(crate) struct Stats {
    made_us: u64,
    /// By the index of the seat.
    own: Box<[OwnLine<Tally>]>,
    /// Of those without a cell of their own.
    shared: OnceLock<Box<Tally>>,
    mean_hold_us: AtomicU64,
    /// Slots held by requests that are not decided yet, because they wait (tenant levels) or
    /// were handed a slot and have not taken the rest (route). Counted in the word, not yet in
    /// `admitted`, so not reported as in flight.
    pending: AtomicU32,
    pending_changes: Changes,
    queued: AtomicU32,
    left_queue: AtomicU64,
    /// Refusals by the ceiling of what every partition had let through.
    nominal: AtomicU64,
    waits: OnceLock<Box<Durations>>,
    unenforced: OnceLock<Box<Unenforced>>,
    leaked: AtomicU64,
    leak_suspected: AtomicBool,
    /// Most in flight when the recent peak was last taken.
    recent_base: AtomicU32,
    /// Of readers alone: what was said so far.
    said: Mutex<Said>,
}

/// Refusals that nobody felt.
#[derive(Debug)]
struct Unenforced {
    shadow: [AtomicU64; Rejection::ALL.len()],
    candidate: AtomicU64,
}

impl Default for Unenforced {
    fn default() -> Self {
        Self {
            shadow: from_fn(|_| AtomicU64::new(0)),
            candidate: AtomicU64::new(0),
        }
    }
}

impl Stats {
    /// With cells for this many cores; with none, all share one.
    pub(crate) fn new(cores: usize, made_us: u64) -> Self {
        let own = (0..cores).map(|_| OwnLine(Tally::default())).collect();
        Self {
            made_us,
            own,
            shared: OnceLock::new(),
            mean_hold_us: AtomicU64::new(0),
            pending: AtomicU32::new(0),
            pending_changes: Changes::default(),
            queued: AtomicU32::new(0),
            left_queue: AtomicU64::new(0),
            nominal: AtomicU64::new(0),
            waits: OnceLock::new(),
            unenforced: OnceLock::new(),
            leaked: AtomicU64::new(0),
            leak_suspected: AtomicBool::new(false),
            recent_base: AtomicU32::new(0),
            said: Mutex::new(Said::default()),
        }
    }

    fn tally(&self, at: Moment<'_>) -> (&Tally, Pen) {
        match at.seat.and_then(|seat| self.own.get(seat.index)) {
            Some(own) => (&own.0, Pen::Own),
            None => (self.shared.get_or_init(Box::default), Pen::Shared),
        }
    }

    fn tallies(&self) -> impl Iterator<Item = &Tally> {
        let own = self.own.iter().map(|own| &own.0);
        own.chain(self.shared.get().map(|shared| &**shared))
    }

    /// The word was changed.
    pub(crate) fn moved(&self, at: Moment<'_>, swap: Swap) {
        let Swap { before, after } = swap;
        let still = before.in_flight() == after.in_flight()
            && before.is_saturated() == after.is_saturated();
        if !still {
            let (tally, pen) = self.tally(at);
            tally.moved(pen, swap, at.now_us);
        }
    }

    /// One request was admitted by every level; `in_flight` is this level's count with it.
    pub(crate) fn admit(&self, at: Moment<'_>, in_flight: u32) {
        let (tally, pen) = self.tally(at);
        tally.admit(pen, in_flight);
    }

    /// One permit is about to go back. Called before the word gives the slot away, so that a
    /// retired word has all its counts.
    pub(crate) fn complete(&self, at: Moment<'_>, held_us: u64) {
        let (tally, pen) = self.tally(at);
        let mean_us = tally.complete(pen, held_us);
        let shown_us = self.mean_hold_us.load(Ordering::Relaxed);
        if mean_us.abs_diff(shown_us) > shown_us >> MEAN_MOVES_SHIFT {
            self.mean_hold_us.store(mean_us, Ordering::Relaxed);
        }
    }

    pub(crate) fn reject(&self, at: Moment<'_>, why: Rejection) {
        let (tally, pen) = self.tally(at);
        tally.reject(pen, why);
    }

    /// A limit that is not enforced would have refused.
    pub(crate) fn reject_in_shadow(&self, why: Rejection) {
        let counts = self.unenforced.get_or_init(Box::default);
        if let Some(count) = counts.shadow.get(why.index()) {
            count.fetch_add(1, Ordering::Release);
        }
    }

    /// The candidate would have refused.
    pub(crate) fn reject_as_candidate(&self) {
        let counts = self.unenforced.get_or_init(Box::default);
        counts.candidate.fetch_add(1, Ordering::Release);
    }

    /// A permit was taken from its owner.
    pub(crate) fn leak(&self) {
        self.leaked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn suspect_leak(&self, suspected: bool) {
        self.leak_suspected.store(suspected, Ordering::Relaxed);
    }

    pub(crate) fn mean_hold_us(&self) -> u64 {
        self.mean_hold_us.load(Ordering::Relaxed)
    }

    pub(crate) fn join_queue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// The waiter's end is counted after this: admitted, refused or left.
    pub(crate) fn end_queue(&self, waited_us: u64) {
        self.waits.get_or_init(Box::default).record(waited_us);
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn leave_queue(&self) {
        self.left_queue.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn count_nominal(&self) {
        self.nominal.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn begin_pending(&self, at: Moment<'_>) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        self.pending_changes.add(Pen::Shared, 1, at.now_us);
    }

    pub(crate) fn end_pending(&self, at: Moment<'_>) {
        self.pending_changes.add(Pen::Shared, -1, at.now_us);
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::word::Word;
    use crate::{Hull, Level, Limit};

    const LOOK: Look = Look::at(1);
    const AT: Moment<'_> = Moment::at(1);

    #[test]
    fn the_mean_hold_follows_and_never_wraps() {
        let stats = Stats::new(0, 0);
        assert_eq!(stats.mean_hold_us(), 0);
        stats.complete(AT, 1000);
        assert_eq!(stats.mean_hold_us(), 1000);
        for _ in 0..200 {
            stats.complete(AT, 2000);
        }
        let mean_us = stats.mean_hold_us();
        assert!((1960..=2000).contains(&mean_us), "{mean_us}");
        stats.complete(AT, u64::MAX);
        stats.complete(AT, u64::MAX);
        assert!(stats.mean_hold_us() > 2000);
    }

    #[test]
    fn who_is_between_two_counts_is_not_yet_told_of() {
        let (stats, word) = (Stats::new(0, 0), Word::new(Limit::UNLIMITED, 0));
        let look = || {
            let (counts, _) = stats.read(&word, 1);
            (counts.admitted, counts.completed, counts.in_flight)
        };
        word.enter().unwrap();
        assert_eq!(look(), (0, 0, 0), "in the word, not admitted yet");
        stats.admit(AT, 1);
        assert_eq!(look(), (1, 0, 1));
        stats.complete(AT, 7);
        assert_eq!(look(), (1, 1, 0), "completed, still in the word");
        word.enter().unwrap();
        stats.admit(AT, 2);
        assert_eq!(look(), (2, 1, 1));
        word.leave();
        assert_eq!(look(), (2, 1, 1));
    }

    #[test]
    fn who_leaves_the_line_waits_until_its_end_is_counted() {
        let (stats, word) = (Stats::new(0, 0), Word::new(Limit::UNLIMITED, 0));
        let look = || {
            let (counts, _) = stats.read(&word, 1);
            (counts.arrived(), counts.queued)
        };
        stats.join_queue();
        assert_eq!(look(), (1, 1));
        stats.end_queue(5);
        assert_eq!(look(), (1, 1), "it has arrived, and nowhere else");
        stats.reject(AT, Rejection::QueueTimeout);
        assert_eq!(look(), (1, 0));
    }

    #[test]
    fn every_reason_has_its_own_counter() {
        let (stats, word) = (Stats::new(0, 0), Word::new(Limit::UNLIMITED, 0));
        for (n, why) in Rejection::ALL.into_iter().enumerate() {
            (0..=n).for_each(|_| stats.reject(AT, why));
            (0..=2 * n).for_each(|_| stats.reject_in_shadow(why));
        }
        let figures = stats.figures("gateway", Level::Gateway, &word, LOOK);
        for (n, why) in Rejection::ALL.into_iter().enumerate() {
            assert_eq!(figures.rejected[&why], n as u64 + 1);
            assert_eq!(figures.shadow_rejected[&why], 2 * n as u64 + 1);
        }
        let all = Rejection::ALL.len() as u64;
        assert_eq!(figures.arrived, (1..=all).sum::<u64>());
    }

    #[test]
    fn cells_of_cores_add_up() {
        let hull = Hull::with_cores(2);
        let (one, two) = (hull.seat().unwrap(), hull.seat().unwrap());
        let (stats, word) = (Stats::new(2, 0), Word::new(Limit::UNLIMITED, 0));
        let all = [Moment::on(&one, 5), Moment::on(&two, 7), Moment::at(9)];
        for (n, at) in (1..).zip(all) {
            stats.moved(at, word.enter().unwrap());
            stats.admit(at, n);
            stats.reject(at, Rejection::RouteFull);
        }
        stats.complete(all[1], 100);
        stats.moved(Moment::on(&two, 20), word.leave());
        let figures = stats.figures("gateway", Level::Gateway, &word, Look::at(30));
        assert_eq!((figures.admitted, figures.completed), (3, 1));
        assert_eq!((figures.in_flight, figures.peak), (2, 3));
        assert_eq!(figures.rejected[&Rejection::RouteFull], 3);
        assert_eq!(figures.in_flight_us, (30 - 5) + (20 - 7) + (30 - 9));
        assert_eq!((figures.idle_us, figures.busy_us), (5, 25));
        assert_eq!(figures.hold.count(), 1);
    }

    #[test]
    fn a_report_takes_the_recent_peak() {
        let (stats, word) = (Stats::new(0, 0), Word::new(Limit::UNLIMITED, 0));
        let recent = |takes_peak: bool| {
            let look = Look {
                now_us: 1,
                takes_peak,
            };
            let figures = stats.figures("gateway", Level::Gateway, &word, look);
            (figures.peak, figures.peak_recent)
        };
        for n in 1..=3 {
            stats.moved(AT, word.enter().unwrap());
            stats.admit(AT, n);
        }
        for _ in 0..2 {
            stats.complete(AT, 1);
            stats.moved(AT, word.leave());
        }
        assert_eq!((recent(false), recent(true)), ((3, 3), (3, 3)));
        assert_eq!(recent(false), (3, 1), "what is in flight still");
        stats.complete(AT, 1);
        stats.moved(AT, word.leave());
        assert_eq!(recent(true), (3, 1), "it was in flight at the beginning");
        assert_eq!(recent(true), (3, 0));
    }

    #[test]
    fn time_lags_rather_than_jumps_while_a_change_is_half_counted() {
        let (stats, word) = (Stats::new(0, 0), Word::new(Limit::new(1).unwrap(), 0));
        let swap = word.enter().unwrap();
        let times = stats.read(&word, 100).1;
        assert_eq!(
            times,
            reading::Times::default(),
            "in the word, not in the sums"
        );
        stats.moved(Moment::at(40), swap);
        stats.admit(AT, 1);
        let times = stats.read(&word, 100).1;
        assert_eq!((times.idle, times.busy, times.saturated), (40, 0, 60));
        let earlier = stats.read(&word, 90).1;
        assert_eq!(earlier, times, "an older clock takes nothing back");
    }
}
