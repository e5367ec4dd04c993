//! The last ten minutes, second by second, in memory.
//!
//! Separate from the history because pages and streams of events look at it all the time and must
//! not ask a disk. It is bounded: with very many busy compartments it reaches back less far, and
//! says so. It must never be taken for a record: it is empty after a start.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::Limit;
use tokio::sync::watch;

use crate::readings::{Reading, is_tenant};

/// How far it reaches back.
pub const WINDOW_S: usize = 600;
/// Most compartments of one second; tenants find no place beyond half of it.
pub const SECOND_CELLS_MAX: usize = 20_000;
/// Most cells (compartments times seconds): about 50 MB.
pub const CELLS_MAX: usize = 400_000;

/// What happened at one compartment within one second, over all gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cell {
    /// The limit in force, of each gateway; `None` when none was told.
    pub limit: Option<Limit>,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Permits given.
    pub admitted: u64,
    /// All refusals.
    pub refused: u64,
    /// Permits given back.
    pub completed: u64,
    /// How long those were held, all together.
    pub hold_us: u64,
    /// Integral of the permits out over time.
    pub in_flight_us: u64,
    /// The most permits out at once, each gateway's summed.
    pub peak: u64,
    /// Time with permits out and a slot free.
    pub busy_us: u64,
    /// Time at the limit.
    pub saturated_us: u64,
}

impl Cell {
    fn of(reading: &Reading) -> Self {
        Self {
            limit: Some(reading.limit),
            arrived: reading.arrived,
            admitted: reading.admitted,
            refused: reading.refused(),
            completed: reading.completed,
            hold_us: reading.hold.sum_us(),
            in_flight_us: reading.in_flight_us,
            peak: u64::from(reading.peak),
            busy_us: reading.busy_us,
            saturated_us: reading.saturated_us,
        }
    }

    /// Adds another one: counts add up, the peak is what `peak` makes of the two.
    fn add(&mut self, more: &Self, peak: fn(u64, u64) -> u64) {
        self.peak = peak(self.peak, more.peak);
        self.limit = more.limit.or(self.limit);
        for (sum, more) in [
            (&mut self.arrived, more.arrived),
            (&mut self.admitted, more.admitted),
            (&mut self.refused, more.refused),
            (&mut self.completed, more.completed),
            (&mut self.hold_us, more.hold_us),
            (&mut self.in_flight_us, more.in_flight_us),
            (&mut self.busy_us, more.busy_us),
            (&mut self.saturated_us, more.saturated_us),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// One second: who was heard of, and what happened.
#[derive(Debug, Default)]
struct Second {
    /// By all gateways together.
    heard_us: u64,
    gateways: u32,
    cells: HashMap<Arc<str>, Cell>,
}

/// A compartment within one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// The second, since 1970.
    pub at_s: i64,
    /// How long gateways were heard of in it, all together; 0: nobody knows.
    pub heard_us: u64,
    /// By how many reports; about as many as there are gateways.
    pub gateways: u32,
    /// What happened; all zeros when nothing did.
    pub cell: Cell,
}

/// Sums over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    /// Seconds that anybody was heard of in.
    pub seconds: u32,
    /// How long gateways were heard of, all together.
    pub heard_us: u64,
    /// What happened.
    pub cell: Cell,
}

#[derive(Debug, Default)]
struct Seconds {
    first_s: i64,
    list: VecDeque<Second>,
    cells: usize,
}

/// The one handle to it; clones are cheap.
#[derive(Clone, Debug)]
pub struct Live {
    seconds: Arc<Mutex<Seconds>>,
    moved: watch::Sender<u64>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            seconds: Arc::default(),
            moved: watch::channel(0).0,
        }
    }
}

impl Live {
    /// Adds the readings of one report. One without readings has moved figures, too.
    pub fn record(&self, readings: &[Reading]) {
        self.moved
            .send_modify(|count| *count = count.wrapping_add(1));
        let Some(first) = readings.first() else {
            return;
        };
        let elapsed_ms = i64::try_from(first.elapsed_us / 1_000).unwrap_or(i64::MAX);
        let end_ms = first.from_ms.saturating_add(elapsed_ms);
        let at_s = end_ms.saturating_sub(1).div_euclid(1_000);
        self.with(|seconds| seconds.add(at_s, first.elapsed_us, readings));
    }

    /// Told when figures have moved; one that is slow is told once.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// One compartment, second by second, oldest first.
    pub fn window(&self, key: &str) -> Vec<Moment> {
        let moment = |(at_s, second): (i64, &Second)| Moment {
            at_s,
            heard_us: second.heard_us,
            gateways: second.gateways,
            cell: second.cells.get(key).copied().unwrap_or_default(),
        };
        self.with(|seconds| (seconds.first_s..).zip(&seconds.list).map(moment).collect())
    }

    /// Every compartment with traffic in the last seconds up to the newest report.
    pub fn recent(&self, last: usize) -> HashMap<Arc<str>, Recent> {
        self.with(|seconds| {
            let mut sums: HashMap<Arc<str>, Recent> = HashMap::new();
            let (mut heard, mut heard_us) = (0_u32, 0_u64);
            let from = seconds.list.len().saturating_sub(last);
            for second in seconds.list.range(from..) {
                heard = heard.saturating_add(u32::from(second.heard_us > 0));
                heard_us = heard_us.saturating_add(second.heard_us);
                for (key, cell) in &second.cells {
                    let sum = sums.entry(Arc::clone(key)).or_default();
                    sum.cell.add(cell, u64::max);
                }
            }
            for sum in sums.values_mut() {
                (sum.seconds, sum.heard_us) = (heard, heard_us);
            }
            sums
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Seconds) -> T) -> T {
        // Sums hold no half-made state that a later reading would not mend.
        change(&mut self.seconds.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seconds {
    fn add(&mut self, at_s: i64, elapsed_us: u64, readings: &[Reading]) {
        let Some(second) = self.second(at_s) else {
            return;
        };
        second.heard_us = second.heard_us.saturating_add(elapsed_us);
        second.gateways = second.gateways.saturating_add(1);
        let before = second.cells.len();
        for reading in readings {
            let most = match is_tenant(reading.level) {
                true => SECOND_CELLS_MAX / 2,
                false => SECOND_CELLS_MAX,
            };
            if let Some(cell) = second.cells.get_mut(&reading.key) {
                cell.add(&Cell::of(reading), u64::saturating_add);
            } else if second.cells.len() < most {
                second
                    .cells
                    .insert(Arc::clone(&reading.key), Cell::of(reading));
            }
        }
        let more = second.cells.len().saturating_sub(before);
        self.cells = self.cells.saturating_add(more);
        while self.cells > CELLS_MAX && self.list.len() > 1 {
            self.drop_first();
        }
    }

    /// The place of a second; `None` when it is too long ago.
    fn second(&mut self, at_s: i64) -> Option<&mut Second> {
        let window = i64::try_from(WINDOW_S).unwrap_or(i64::MAX);
        let next_s = self
            .first_s
            .saturating_add(i64::try_from(self.list.len()).ok()?);
        // A clock that was set: what lies far from it is of no use to anybody.
        let is_far =
            at_s >= next_s.saturating_add(window) || at_s < self.first_s.saturating_sub(window);
        if self.list.is_empty() || is_far {
            *self = Self {
                first_s: at_s,
                ..Self::default()
            };
        }
        let place = usize::try_from(at_s.checked_sub(self.first_s)?).ok()?;
        while self.list.len() <= place {
            self.list.push_back(Second::default());
        }
        while self.list.len() > WINDOW_S {
            self.drop_first();
        }
        self.list
            .get_mut(usize::try_from(at_s.checked_sub(self.first_s)?).ok()?)
    }

    fn drop_first(&mut self) {
        if let Some(second) = self.list.pop_front() {
            self.first_s = self.first_s.saturating_add(1);
            self.cells = self.cells.saturating_sub(second.cells.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN_S: i64 = 1_767_571_200;

    fn reading(gateway: &str, key: &str, second: i64, arrived: u64) -> Reading {
        let level = key.parse::<compartment::Key>().unwrap().level();
        let from_ms = (BEGAN_S + second) * 1_000;
        Reading {
            limit: Limit::new(10).unwrap(),
            arrived,
            peak: 3,
            saturated_us: 500_000,
            ..Reading::empty(gateway.into(), key.into(), level, from_ms, 1_000_000)
        }
    }

    #[test]
    fn seconds_add_up_over_gateways_and_gaps_stay() {
        let live = Live::default();
        let mut moved = live.follow();
        for second in [0, 1, 4] {
            for gateway in ["one", "two"] {
                live.record(&[reading(gateway, "route/a", second, 5)]);
            }
        }
        assert!(moved.has_changed().unwrap());
        moved.mark_unchanged();
        let seen = live.window("route/a");
        let told: Vec<_> = seen
            .iter()
            .map(|m| (m.at_s - BEGAN_S, m.heard_us, m.cell.arrived))
            .collect();
        assert_eq!(
            told,
            [
                (0, 2_000_000, 10),
                (1, 2_000_000, 10),
                (2, 0, 0),
                (3, 0, 0),
                (4, 2_000_000, 10)
            ]
        );
        assert_eq!(seen[0].cell.peak, 6);
        let recent = live.recent(3);
        let one = recent.get("route/a").unwrap();
        assert_eq!(
            (one.seconds, one.heard_us, one.cell.arrived),
            (1, 2_000_000, 10)
        );
        assert_eq!(live.recent(600).get("route/a").unwrap().cell.arrived, 30);
        assert!(!live.recent(600).contains_key("route/b"));
    }

    #[test]
    fn it_reaches_back_ten_minutes_and_no_clock_breaks_it() {
        let live = Live::default();
        let length = i64::try_from(WINDOW_S).unwrap();
        (0..2 * length).for_each(|second| live.record(&[reading("one", "route/a", second, 1)]));
        assert_eq!(live.window("route/a").len(), WINDOW_S);
        // Too long ago: not counted. Far off: begun anew.
        live.record(&[reading("one", "route/a", length - 5, 1)]);
        assert_eq!(
            live.recent(WINDOW_S).get("route/a").unwrap().cell.arrived,
            600
        );
        for far in [10 * length, -10 * length, 1 << 40, 0] {
            live.record(&[reading("one", "route/a", far, 7)]);
            let window = live.window("route/a");
            assert_eq!(window.last().map(|m| m.cell.arrived), Some(7), "{far}");
            assert!(window.len() <= WINDOW_S);
        }
        let mut strange = reading("one", "route/a", 0, 1);
        (strange.from_ms, strange.elapsed_us) = (i64::MAX, u64::MAX);
        live.record(&[strange.clone()]);
        strange.from_ms = i64::MIN;
        live.record(&[strange]);
    }

    #[test]
    fn cells_are_bounded_and_the_window_is_shorter_for_it() {
        let live = Live::default();
        let keys: Vec<Arc<str>> = (0..15_000).map(|n| format!("route/r{n}").into()).collect();
        for second in 0..40 {
            let one = |key: &Arc<str>| Reading {
                key: Arc::clone(key),
                ..reading("one", "route/a", second, 1)
            };
            live.record(&keys.iter().map(one).collect::<Vec<_>>());
        }
        let cells = live.with(|seconds| seconds.cells);
        assert!(cells <= CELLS_MAX && cells > CELLS_MAX - 15_000, "{cells}");
        assert_eq!(live.window("route/r1").len(), 26);
        let tenants: Vec<_> = (0..30_000)
            .map(|n| reading("one", &format!("tenant/t{n}"), 50, 1))
            .collect();
        live.record(&tenants);
        assert_eq!(live.recent(1).len(), SECOND_CELLS_MAX / 2);
    }
}
