//! How the counts of a compartment are read.
//!
//! Separate from the counting, which never looks back: a reader puts together what several
//! writers count apart. It must never write a count, and never say what does not add up: numbers
//! of several moments are reduced to what is certain of the earliest.

use std::array::from_fn;
use std::collections::BTreeMap;

use super::{AtomicU64, Ordering, PICTURE_TRIES, Stats};
use crate::sync::statistics::lock;
use crate::tally::{ByReason, Sums, Tally, add_holds, marked, since};
use crate::word::{Picture, Word};
use crate::{Figures, Histogram, Level, Rejection};

/// All numbers of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) admitted: u64,
    pub(crate) completed: u64,
    pub(crate) in_flight: u32,
    pub(crate) queued: u32,
    pub(crate) left_queue: u64,
    pub(crate) rejected: ByReason,
}

/// Time by state, in microseconds, and in flight summed over it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Times {
    pub(crate) idle: u64,
    pub(crate) busy: u64,
    pub(crate) saturated: u64,
    pub(crate) in_flight: u64,
}

/// What was said last; a counter that was said never goes down.
#[derive(Debug, Default)]
pub(crate) struct Said {
    completed: u64,
    arrived: u64,
    peak: u32,
    times: Times,
}

/// How figures are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) now_us: u64,
    /// The recent peak begins anew.
    pub(crate) takes_peak: bool,
}

impl Look {
    /// Without any effect.
    pub(crate) const fn at(now_us: u64) -> Self {
        Self {
            now_us,
            takes_peak: false,
        }
    }
}

impl Counts {
    pub(crate) fn arrived(&self) -> u64 {
        let refused: u64 = self.rejected.iter().sum();
        self.admitted + refused + u64::from(self.queued) + self.left_queue
    }

    /// Everything that ever happened; unchanged means idle.
    pub(crate) fn activity(&self) -> u64 {
        self.arrived() + self.completed
    }

    /// Refusals by reason, without those that never happened.
    pub(crate) fn by_reason(&self) -> BTreeMap<Rejection, u64> {
        named(self.rejected)
    }
}

fn named(counts: ByReason) -> BTreeMap<Rejection, u64> {
    let all = Rejection::ALL.into_iter().zip(counts);
    all.filter(|(_, count)| *count > 0).collect()
}

/// One look at everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Glance {
    sums: Sums,
    left_queue: u64,
    pending: u32,
    pending_sum: u64,
    word: Picture,
    queued: u32,
}

impl Glance {
    /// Slots that are taken by requests that are decided, and by those between two counts.
    fn taken(&self) -> u32 {
        self.word.in_flight().saturating_sub(self.pending)
    }

    /// Nobody was between two counts.
    fn is_whole(&self) -> bool {
        self.sums.admitted == self.sums.completed + u64::from(self.taken())
    }

    /// Arrivals whose end is counted.
    fn decided(&self) -> u64 {
        self.sums.admitted + self.sums.rejected.iter().sum::<u64>() + self.left_queue
    }
}

impl Stats {
    /// The order is the reverse of the writers': whoever is decided here is out of the line
    /// below, and was in the word before.
    fn glance(&self, word: &Word) -> Glance {
        let mut sums = Sums::default();
        self.tallies().for_each(|tally| sums.add(tally));
        let left_queue = self.left_queue.load(Ordering::Acquire);
        let pending = self.pending.load(Ordering::Relaxed);
        Glance {
            sums,
            left_queue,
            pending,
            pending_sum: self.pending_changes.sum(),
            word: word.load(),
            queued: self.queued.load(Ordering::Acquire),
        }
    }

    /// Numbers that add up, whoever is between two counts and for however long.
    pub(crate) fn read(&self, word: &Word, now_us: u64) -> (Counts, Times) {
        let mut said = lock(&self.said);
        let mut last = self.glance(word);
        for _ in 0..PICTURE_TRIES {
            let next = self.glance(word);
            if next == last
                && next.is_whole()
                && let Some(times) = self.times(&next, said.times, now_us)
            {
                said.times = times;
                return (self.counts(&next, &mut said), times);
            }
            last = next;
            std::hint::spin_loop();
        }
        // Time lags rather than jumps.
        if let Some(times) = self.times(&last, said.times, now_us) {
            said.times = times;
        }
        (self.counts(&last, &mut said), said.times)
    }

    /// What is certain of one glance.
    ///
    /// Admitted is a sum of counters, so it is true of some moment. Completed then are at least
    /// those that were counted before, and at least those that were admitted and hold no slot;
    /// the rest is in flight: never more than slots were taken. Arrived are those decided and,
    /// read after, those in line; whoever is between the two had arrived when it came to wait,
    /// and is in line still. Both are below or at the truth, so the largest ever said is too.
    fn counts(&self, seen: &Glance, said: &mut Said) -> Counts {
        let admitted = seen.sums.admitted;
        let now = self.tallies().map(Tally::completed).sum::<u64>();
        let without_slot = admitted.saturating_sub(seen.taken().into()).min(now);
        let completed = seen.sums.completed.max(without_slot).min(admitted);
        said.completed = said.completed.max(completed).min(admitted);
        let decided = seen.decided();
        said.arrived = said.arrived.max(decided + u64::from(seen.queued));
        let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Counts {
            admitted,
            completed: said.completed,
            in_flight: count(admitted.saturating_sub(said.completed)),
            queued: count(said.arrived.saturating_sub(decided)),
            left_queue: seen.left_queue,
            rejected: seen.sums.rejected,
        }
    }

    /// What was said before and what came since. Clocks of cores differ by what they last read,
    /// so what came since may be a little less than nothing: then nothing is said.
    fn times(&self, seen: &Glance, said: Times, now_us: u64) -> Option<Times> {
        let Glance { word, sums, .. } = *seen;
        // It began idle.
        let idle_sum = sums.idle.wrapping_add(marked(self.made_us));
        let idle = since(
            said.idle,
            u64::from(word.in_flight() == 0),
            idle_sum,
            now_us,
        )?;
        let full = u64::from(word.is_saturated());
        let saturated = since(said.saturated, full, sums.full, now_us)?;
        let count = u64::from(word.in_flight()).wrapping_sub(seen.pending.into());
        let sum = sums.in_flight.wrapping_sub(seen.pending_sum);
        let in_flight = since(said.in_flight, count, sum, now_us)?;
        let idle = said.idle.saturating_add_signed(idle.max(0));
        let saturated = said.saturated.saturating_add_signed(saturated.max(0));
        let all = now_us.saturating_sub(self.made_us);
        let busy = all.saturating_sub(idle).saturating_sub(saturated);
        Some(Times {
            idle,
            busy: busy.max(said.busy),
            saturated,
            in_flight: said.in_flight.saturating_add_signed(in_flight.max(0)),
        })
    }

    /// A number that changes with everything that happens here.
    pub(crate) fn activity(&self, word: &Word, now_us: u64) -> u64 {
        let unenforced = self.unenforced.get().map_or(0, |counts| {
            let candidate = load(Some(&counts.candidate));
            let shadow = counts.shadow.iter().map(|count| load(Some(count)));
            shadow.fold(candidate, u64::wrapping_add)
        });
        let (counts, _) = self.read(word, now_us);
        counts.activity().wrapping_add(unenforced)
    }

    /// How long permits were held.
    pub(crate) fn holds(&self) -> Histogram {
        let mut holds = Histogram::new();
        self.tallies()
            .for_each(|tally| add_holds(&mut holds, tally));
        holds
    }

    fn peak(&self, in_flight: u32) -> u32 {
        let counted = self.tallies().map(Tally::peak).max().unwrap_or(0);
        let mut said = lock(&self.said);
        said.peak = said.peak.max(counted).max(in_flight);
        said.peak
    }

    fn recent_peak(&self, in_flight: u32, look: Look) -> u32 {
        let one = |tally: &Tally| {
            if look.takes_peak {
                tally.take_peak()
            } else {
                tally.peak_recent()
            }
        };
        let base = self.recent_base.load(Ordering::Relaxed);
        if look.takes_peak {
            self.recent_base.store(in_flight, Ordering::Relaxed);
        }
        self.tallies().map(one).fold(base.max(in_flight), u32::max)
    }

    /// The figures of the compartment `key` with this word.
    pub(crate) fn figures(&self, key: &str, level: Level, word: &Word, look: Look) -> Figures {
        // Read before what they are a part of, as they are counted after it.
        let unenforced = self.unenforced.get();
        let shadow = unenforced.map(|counts| from_fn(|n| load(counts.shadow.get(n))));
        let candidate_rejected = load(unenforced.map(|counts| &counts.candidate));
        let (counts, times) = self.read(word, look.now_us);
        let picture = word.load();
        Figures {
            peak: self.peak(counts.in_flight),
            peak_recent: self.recent_peak(counts.in_flight, look),
            shadow_rejected: shadow.map(named).unwrap_or_default(),
            candidate_rejected,
            nominal: self.nominal.load(Ordering::Relaxed),
            leaked: self.leaked.load(Ordering::Relaxed),
            leak_suspected: self.leak_suspected.load(Ordering::Relaxed),
            hold: self.holds(),
            wait: self
                .waits
                .get()
                .map(|waits| waits.read())
                .unwrap_or_default(),
            ..counted_figures(key, level, picture, counts, times)
        }
    }
}

fn load(count: Option<&AtomicU64>) -> u64 {
    count.map_or(0, |count| count.load(Ordering::Acquire))
}

/// The figures of a compartment that nobody has asked since it was made.
pub(crate) fn unused_figures(key: &str, level: Level, word: &Word, age_us: u64) -> Figures {
    let picture = word.load();
    let counts = Counts {
        in_flight: picture.in_flight(),
        ..Counts::default()
    };
    let times = Times {
        idle: age_us,
        ..Times::default()
    };
    counted_figures(key, level, picture, counts, times)
}

fn counted_figures(
    key: &str,
    level: Level,
    picture: Picture,
    counts: Counts,
    times: Times,
) -> Figures {
    let reserved = picture.reserved();
    let borrows = matches!(level, Level::Route | Level::Stream | Level::Fallback);
    let borrowed = if borrows {
        counts.in_flight.saturating_sub(reserved)
    } else {
        0
    };
    Figures {
        reserved,
        in_flight: counts.in_flight,
        queued: counts.queued,
        left_queue: counts.left_queue,
        borrowed,
        saturation: saturation(picture, counts.in_flight),
        arrived: counts.arrived(),
        admitted: counts.admitted,
        completed: counts.completed,
        rejected: counts.by_reason(),
        idle_us: times.idle,
        busy_us: times.busy,
        saturated_us: times.saturated,
        in_flight_us: times.in_flight,
        ..Figures::new(key.to_owned(), level, picture.limit())
    }
}

fn saturation(picture: Picture, in_flight: u32) -> f64 {
    match picture.limit().slots() {
        None => 0.0,
        Some(0) => 1.0,
        Some(slots) => f64::from(in_flight) / f64::from(slots),
    }
}
