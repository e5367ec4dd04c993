//! Guards: whether refusals rose where it was healthy before a change.
//!
//! Separate because it is counting: readings in, one sentence out. It must never hold a refusal
//! against a change that began before it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::body::Guard;
use crate::live::Live;
use crate::readings::Reading;

/// A compartment with fewer arrivals within the time that is looked at is not judged.
pub const GUARD_ARRIVALS_MIN: u64 = 20;
/// Healthy is what refused no more than so many thousandths before.
pub const HEALTHY_MILLI_MAX: u64 = 10;
/// Seconds before a change in which it is seen who was healthy.
const BEFORE_S: usize = 600;
/// Most compartments that are noted as unhealthy.
const UNHEALTHY_MAX: usize = 1_000;
/// Most compartments that one guard counts; those that come first.
const KEYS_MAX: usize = 5_000;
/// Counts are forgotten after twice this: a rise must not hide behind what was good before.
const HALF_MS: i64 = 30_000;

/// Arrivals and refusals of a compartment, in this half and the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    now: (u64, u64),
    before: (u64, u64),
}

#[derive(Debug)]
struct Watched {
    since_ms: i64,
    half_ms: i64,
    counts: HashMap<Arc<str>, Counts>,
}

impl Watched {
    fn take(&mut self, reading: &Reading) {
        if reading.from_ms < self.since_ms {
            return;
        }
        if !self.counts.contains_key(&reading.key) && self.counts.len() >= KEYS_MAX {
            return;
        }
        let counts = self.counts.entry(Arc::clone(&reading.key)).or_default();
        counts.now.0 = counts.now.0.saturating_add(reading.arrived);
        counts.now.1 = counts.now.1.saturating_add(reading.refused());
    }

    fn turn(&mut self, now_ms: i64) {
        if now_ms.saturating_sub(self.half_ms) < HALF_MS {
            return;
        }
        self.half_ms = now_ms;
        self.counts.retain(|_, counts| {
            counts.before = std::mem::take(&mut counts.now);
            counts.before.0 > 0
        });
    }
}

/// All guards that watch; clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guards(Arc<Mutex<BTreeMap<u64, Watched>>>);

impl Guards {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<u64, Watched>) -> T) -> T {
        // Counts hold no half-made state.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the readings of one report.
    pub(crate) fn observe(&self, readings: &[Reading]) {
        self.with(|all| {
            for watched in all.values_mut() {
                readings.iter().for_each(|reading| watched.take(reading));
            }
        });
    }

    /// Watches a change; what happened before `since_ms` does not count.
    pub(super) fn watch(&self, number: u64, since_ms: i64, now_ms: i64) {
        self.with(|all| {
            let watched = all.entry(number).or_insert_with(|| Watched {
                since_ms,
                half_ms: now_ms,
                counts: HashMap::new(),
            });
            watched.turn(now_ms);
        });
    }

    /// The others are watched no more.
    pub(super) fn only(&self, numbers: &BTreeSet<u64>) {
        self.with(|all| all.retain(|number, _| numbers.contains(number)));
    }

    /// Why a change has to go; `None`: nothing speaks against it.
    pub(super) fn judge(&self, number: u64, guard: &Guard) -> Option<String> {
        self.with(|all| {
            let watched = all.get(&number)?;
            let worst = watched.counts.iter().filter_map(|(key, counts)| {
                let arrived = counts.now.0.saturating_add(counts.before.0);
                let refused = counts.now.1.saturating_add(counts.before.1);
                let beyond = refused.saturating_mul(1_000)
                    > arrived.saturating_mul(u64::from(guard.refused_milli));
                let judged = arrived >= GUARD_ARRIVALS_MIN && beyond;
                (judged && !guard.unhealthy.iter().any(|own| **own == **key))
                    .then_some((refused, arrived, key))
            });
            // Of those that refuse as many, always the same one.
            let (refused, arrived, key) = worst.max_by_key(|(refused, _, key)| (*refused, *key))?;
            let bound = guard.refused_milli;
            Some(format!(
                "{key} refused {refused} of {arrived} within a minute, more than {}.{} %, and was \
                 healthy before",
                bound / 10,
                bound % 10
            ))
        })
    }
}

/// Who refused before: their refusals are not held against a change.
pub(super) fn unhealthy(live: &Live) -> Vec<String> {
    let mut keys: Vec<String> = live
        .recent(BEFORE_S)
        .into_iter()
        .filter(|(_, recent)| {
            let refused = recent.cell.refused.saturating_mul(1_000);
            refused > recent.cell.arrived.saturating_mul(HEALTHY_MILLI_MAX)
        })
        .map(|(key, _)| key.as_ref().to_owned())
        .collect();
    keys.sort();
    keys.truncate(UNHEALTHY_MAX);
    keys
}

#[cfg(test)]
mod tests {
    use compartment::{Level, Rejection};

    use super::*;

    fn reading(key: &str, from_ms: i64, arrived: u64, refused: u64) -> Reading {
        let mut reading = Reading::empty("g".into(), key.into(), Level::Route, from_ms, 1_000_000);
        reading.arrived = arrived;
        reading.rejected = vec![(Rejection::RouteFull, refused)];
        reading
    }

    fn guard(unhealthy: &[&str]) -> Guard {
        Guard {
            refused_milli: 50,
            until_ms: i64::MAX,
            unhealthy: unhealthy.iter().map(|key| (*key).to_owned()).collect(),
        }
    }

    #[test]
    fn a_rise_where_it_was_healthy_speaks_against_a_change() {
        let guards = Guards::default();
        guards.watch(7, 1_000, 1_000);
        guards.observe(&[reading("route/a", 0, 100, 100)]);
        assert_eq!(guards.judge(7, &guard(&[])), None, "before it");
        guards.observe(&[reading("route/a", 1_000, 19, 19)]);
        assert_eq!(guards.judge(7, &guard(&[])), None, "too few");
        guards.observe(&[reading("route/a", 2_000, 1, 0)]);
        let said = guards.judge(7, &guard(&[])).unwrap();
        assert!(said.starts_with("route/a refused 19 of 20"), "{said}");
        assert_eq!(
            guards.judge(7, &guard(&["route/a"])),
            None,
            "refused before, too"
        );
        assert_eq!(guards.judge(8, &guard(&[])), None, "not watched");
    }

    #[test]
    fn up_to_the_bound_nothing_speaks_against_it() {
        let guards = Guards::default();
        guards.watch(7, 0, 0);
        guards.observe(&[reading("route/a", 0, 100, 5)]);
        assert_eq!(guards.judge(7, &guard(&[])), None);
        guards.observe(&[reading("route/a", 0, 100, 6)]);
        assert!(guards.judge(7, &guard(&[])).is_some());
    }

    #[test]
    fn a_rise_does_not_hide_behind_an_hour_of_good_traffic() {
        let guards = Guards::default();
        for second in 0..3_600_i64 {
            guards.watch(7, 0, second * 1_000);
            guards.observe(&[reading("route/a", second * 1_000, 100, 0)]);
        }
        assert_eq!(guards.judge(7, &guard(&[])), None);
        for second in 3_600..3_610_i64 {
            guards.watch(7, 0, second * 1_000);
            guards.observe(&[reading("route/a", second * 1_000, 100, 60)]);
        }
        assert!(guards.judge(7, &guard(&[])).is_some());
        guards.only(&BTreeSet::new());
        assert_eq!(guards.judge(7, &guard(&[])), None);
    }
}
