//! How the counts of a compartment are read.
//!
//! Separate from the counting, which never looks back: a reader puts together what several
//! writers count apart, and tries until it agrees. It must never write a count.

use std::array::from_fn;
use std::collections::BTreeMap;

use super::{AtomicU64, EAGER_TRIES, Ordering, PICTURE_TRIES, Stats};
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
    pub(crate) fn agree(&self) -> bool {
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

    /// Refusals by reason, without those that never happened.
    pub(crate) fn by_reason(&self) -> BTreeMap<Rejection, u64> {
        named(self.rejected)
    }
}

fn named(counts: ByReason) -> BTreeMap<Rejection, u64> {
    let all = Rejection::ALL.into_iter().zip(counts);
    all.filter(|(_, count)| *count > 0).collect()
}

/// One look at everything that has to agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Glance {
    counts: Counts,
    sums: Sums,
    pending: u32,
    pending_sum: u64,
    word: Picture,
}

impl Stats {
    fn glance(&self, word: &Word) -> Glance {
        let mut sums = Sums::default();
        self.tallies().for_each(|tally| sums.add(tally));
        let pending = self.pending.load(Ordering::Relaxed);
        let picture = word.load();
        let counts = Counts {
            admitted: sums.admitted,
            completed: sums.completed,
            in_flight: picture.in_flight().saturating_sub(pending),
            queued: self.queued.load(Ordering::Relaxed),
            left_queue: self.left_queue.load(Ordering::Relaxed),
            rejected: sums.rejected,
        };
        Glance {
            counts,
            sums,
            pending,
            pending_sum: self.pending_changes.sum(),
            word: picture,
        }
    }

    /// The numbers of a moment in which they agree. When there is none for long they are given
    /// as they are: a count that has drifted must show, not be smoothed away.
    pub(crate) fn read(&self, word: &Word, now_us: u64) -> (Counts, Times) {
        let mut said = lock(&self.said);
        let mut last = self.glance(word);
        for tries in 0..PICTURE_TRIES {
            let next = self.glance(word);
            if next == last
                && next.counts.agree()
                && let Some(times) = self.times(&next, *said, now_us)
            {
                *said = times;
                return (next.counts, times);
            }
            last = next;
            if tries < EAGER_TRIES {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        // Time lags rather than jumps.
        if let Some(times) = self.times(&last, *said, now_us) {
            *said = times;
        }
        (last.counts, *said)
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
        let (counts, times) = self.read(word, look.now_us);
        let picture = word.load();
        let unenforced = self.unenforced.get();
        let shadow = unenforced.map(|counts| from_fn(|n| load(counts.shadow.get(n))));
        Figures {
            peak: self.tallies().map(Tally::peak).max().unwrap_or(0),
            peak_recent: self.recent_peak(counts.in_flight, look),
            shadow_rejected: shadow.map(named).unwrap_or_default(),
            candidate_rejected: load(unenforced.map(|counts| &counts.candidate)),
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
    count.map_or(0, |count| count.load(Ordering::Relaxed))
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
    let borrows = matches!(level, Level::Route | Level::Stream);
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
