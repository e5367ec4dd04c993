//! What one compartment counts.
//!
//! Separate from the word because nothing is decided by it: relaxed atomics, each exact by
//! itself, put together by the reader until they agree. It must never be read on the way to a
//! decision.

use std::collections::BTreeMap;

use crate::sync::statistics::{AtomicU32, AtomicU64, Ordering};
use crate::word::Word;
use crate::{Figures, Level, Rejection};

/// How often a reader tries for a moment in which the numbers agree. A request is between two
/// counts for some nanoseconds, so the first tries nearly always do.
const PICTURE_TRIES: u32 = if cfg!(loom) { 2 } else { 128 };
/// The weight of a new hold time in the mean is one in two to this power.
const HOLD_SHIFT: u32 = 4;
const REASONS: usize = Rejection::ALL.len();

/// The counters of one compartment. They start with the process and never go down.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    admitted: AtomicU64,
    completed: AtomicU64,
    /// Mean hold in microseconds, shifted left by `HOLD_SHIFT`; 0: nothing measured.
    hold: AtomicU64,
    peak: AtomicU32,
    /// Slots held by requests that are not decided yet, because they wait (tenant levels) or
    /// were handed a slot and have not taken the rest (route). Counted in the word, not yet in
    /// `admitted`, so not reported as in flight.
    pending: AtomicU32,
    queued: AtomicU32,
    left_queue: AtomicU64,
    rejected: [AtomicU64; REASONS],
}

/// All numbers of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    pub(crate) in_flight: u32,
    pub(crate) queued: u32,
    pub(crate) left_queue: u64,
    pub(crate) rejected: [u64; REASONS],
}

impl Counts {
    fn agree(&self) -> bool {
        self.admitted == self.completed + u64::from(self.in_flight)
    }

    pub(crate) fn arrived(&self) -> u64 {
        let refused: u64 = self.rejected.iter().sum();
        self.admitted + refused + u64::from(self.queued) + self.left_queue
    }

    /// Everything that ever happened; unchanged means idle.
    pub(crate) fn activity(&self) -> u64 {
        self.arrived() + self.completed
    }
}

impl Stats {
    /// One request was admitted by every level; `in_flight` is this level's count with it.
    pub(crate) fn admit(&self, in_flight: u32) {
        self.admitted.fetch_add(1, Ordering::Relaxed);
        if in_flight > self.peak.load(Ordering::Relaxed) {
            self.peak.fetch_max(in_flight, Ordering::Relaxed);
        }
    }

    /// One permit is about to go back. Called before the word gives the slot away, so that a
    /// retired word has all its counts.
    pub(crate) fn complete(&self, held_us: u64) {
        self.complete_untimed();
        let mean = self.hold.load(Ordering::Relaxed);
        let held_us = held_us.clamp(1, u64::MAX >> (HOLD_SHIFT + 1));
        let next = if mean == 0 {
            held_us << HOLD_SHIFT
        } else {
            mean - (mean >> HOLD_SHIFT) + held_us
        };
        // A lost update of two at once moves the mean by a sixteenth of one hold: no harm.
        self.hold.store(next, Ordering::Relaxed);
    }

    /// The same without a hold time.
    pub(crate) fn complete_untimed(&self) {
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn reject(&self, why: Rejection) {
        if let Some(count) = self.rejected.get(why.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn mean_hold_us(&self) -> u64 {
        self.hold.load(Ordering::Relaxed) >> HOLD_SHIFT
    }

    pub(crate) fn join_queue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// The waiter's end was counted by the caller: admitted, refused or left.
    pub(crate) fn end_queue(&self) {
        self.queued.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn leave_queue(&self) {
        self.left_queue.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn begin_pending(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_pending(&self) {
        self.pending.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.load(Ordering::Relaxed)
    }

    fn glance(&self, word: &Word) -> Counts {
        let mut rejected = [0; REASONS];
        for (seen, count) in rejected.iter_mut().zip(&self.rejected) {
            *seen = count.load(Ordering::Relaxed);
        }
        Counts {
            admitted: self.admitted.load(Ordering::Relaxed),
            completed: self.completed.load(Ordering::Relaxed),
            in_flight: word
                .load()
                .in_flight()
                .saturating_sub(self.pending.load(Ordering::Relaxed)),
            queued: self.queued.load(Ordering::Relaxed),
            left_queue: self.left_queue.load(Ordering::Relaxed),
            rejected,
        }
    }

    /// The numbers of a moment in which they agree. When there is none for long they are given
    /// as they are: a count that has drifted must show, not be smoothed away.
    pub(crate) fn read(&self, word: &Word) -> Counts {
        let mut last = self.glance(word);
        for _ in 0..PICTURE_TRIES {
            let next = self.glance(word);
            if next == last && next.agree() {
                return next;
            }
            last = next;
            std::hint::spin_loop();
        }
        last
    }

    /// Adds the counters of a compartment that is gone.
    pub(crate) fn fold(&self, gone: &Counts) {
        self.admitted.fetch_add(gone.admitted, Ordering::Relaxed);
        self.completed.fetch_add(gone.completed, Ordering::Relaxed);
        self.left_queue
            .fetch_add(gone.left_queue, Ordering::Relaxed);
        for (count, more) in self.rejected.iter().zip(gone.rejected) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// The figures of the compartment `key` with this word.
    pub(crate) fn figures(&self, key: &str, level: Level, word: &Word) -> Figures {
        let counts = self.read(word);
        let picture = word.load();
        let rejected: BTreeMap<Rejection, u64> = Rejection::ALL
            .into_iter()
            .zip(counts.rejected)
            .filter(|(_, count)| *count > 0)
            .collect();
        Figures {
            peak: self.peak.load(Ordering::Relaxed),
            ..blank_figures(key, level, picture, counts, rejected)
        }
    }
}

/// The figures of a compartment that nobody has asked yet.
pub(crate) fn unused_figures(key: &str, level: Level, word: &Word) -> Figures {
    let counts = Counts {
        in_flight: word.load().in_flight(),
        ..Counts::default()
    };
    blank_figures(key, level, word.load(), counts, BTreeMap::new())
}

fn blank_figures(
    key: &str,
    level: Level,
    picture: crate::word::Picture,
    counts: Counts,
    rejected: BTreeMap<Rejection, u64>,
) -> Figures {
    let reserved = picture.reserved();
    let borrows = matches!(level, Level::Route | Level::Stream);
    Figures {
        reserved,
        in_flight: counts.in_flight,
        queued: counts.queued,
        left_queue: counts.left_queue,
        borrowed: if borrows {
            counts.in_flight.saturating_sub(reserved)
        } else {
            0
        },
        saturation: saturation(picture, counts.in_flight),
        arrived: counts.arrived(),
        admitted: counts.admitted,
        completed: counts.completed,
        rejected,
        ..Figures::new(key.to_owned(), level, picture.limit())
    }
}

fn saturation(picture: crate::word::Picture, in_flight: u32) -> f64 {
    match picture.limit().slots() {
        None => 0.0,
        Some(0) => 1.0,
        Some(slots) => f64::from(in_flight) / f64::from(slots),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Limit;

    #[test]
    fn the_mean_hold_follows_and_never_wraps() {
        let stats = Stats::default();
        assert_eq!(stats.mean_hold_us(), 0);
        stats.complete(1000);
        assert_eq!(stats.mean_hold_us(), 1000);
        for _ in 0..200 {
            stats.complete(2000);
        }
        assert!(
            (1980..=2000).contains(&stats.mean_hold_us()),
            "{}",
            stats.mean_hold_us()
        );
        stats.complete(u64::MAX);
        stats.complete(u64::MAX);
        assert!(stats.mean_hold_us() > 2000);
    }

    #[test]
    fn numbers_that_never_agree_are_shown_as_they_are() {
        let (stats, word) = (Stats::default(), Word::new(Limit::UNLIMITED, 0));
        stats.admit(1);
        assert_eq!(
            (stats.read(&word).admitted, stats.read(&word).in_flight),
            (1, 0)
        );
    }

    #[test]
    fn every_reason_has_its_own_counter() {
        let (stats, word) = (Stats::default(), Word::new(Limit::UNLIMITED, 0));
        for (n, why) in Rejection::ALL.into_iter().enumerate() {
            (0..=n).for_each(|_| stats.reject(why));
        }
        let figures = stats.figures("gateway", Level::Gateway, &word);
        for (n, why) in Rejection::ALL.into_iter().enumerate() {
            assert_eq!(figures.rejected[&why], n as u64 + 1);
        }
        assert_eq!(figures.arrived, (1..=13).sum::<u64>());
    }
}
