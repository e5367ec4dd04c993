//! Which tenants have rows of their own.
//!
//! Separate because callers bring tenants to life and the history must not grow with them: the
//! busiest have rows, all others are summed under one name. It must never forget a count: what
//! finds no row of its own is in the sum.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use compartment::Level;

use crate::readings::Reading;

/// Most tenants whose traffic is compared.
const SCORES_MAX: usize = 50_000;
/// A score falls by one in this many with each row: half of it in about seven minutes.
const DECAY: u64 = 60;
/// What one arrival counts, so that decay does not round small scores up for ever.
const ARRIVAL: u64 = 256;

/// The key of all other tenants.
const OTHER: &str = "_other";

/// The busiest tenants of the last minutes, over all gateways.
#[derive(Debug, Default)]
pub(super) struct Busiest {
    scores: HashMap<Arc<str>, (Level, u64)>,
    chosen: HashSet<Arc<str>>,
    tenants: usize,
    on_routes: usize,
}

impl Busiest {
    /// The key under which a tenant's reading is kept.
    pub(super) fn key(&mut self, reading: &Reading, most: usize) -> Arc<str> {
        let weight = reading.arrived.max(1).saturating_mul(ARRIVAL);
        if let Some((_, score)) = self.scores.get_mut(&reading.key) {
            *score = score.saturating_add(weight);
        } else if self.scores.len() < SCORES_MAX {
            let entry = (reading.level, weight);
            self.scores.insert(Arc::clone(&reading.key), entry);
        }
        if self.chosen.contains(&reading.key) {
            return Arc::clone(&reading.key);
        }
        let places = match reading.level {
            Level::TenantRoute => &mut self.on_routes,
            Level::Tenant
            | Level::Route
            | Level::Stream
            | Level::Fallback
            | Level::Upstream
            | Level::Gateway => &mut self.tenants,
        };
        if *places < most {
            *places += 1;
            self.chosen.insert(Arc::clone(&reading.key));
            return Arc::clone(&reading.key);
        }
        other(&reading.key)
    }

    /// Chooses again. Called once for each row.
    pub(super) fn choose(&mut self, most: usize) {
        self.scores.retain(|_, (_, score)| {
            *score = score.saturating_sub((*score / DECAY).max(1));
            *score > 0
        });
        self.chosen.clear();
        for level in [Level::Tenant, Level::TenantRoute] {
            let own = self.scores.iter().filter(|(_, (own, _))| *own == level);
            let scored = |(key, (_, score)): (&Arc<str>, &(Level, u64))| (*score, Arc::clone(key));
            let mut own: Vec<_> = own.map(scored).collect();
            // The key too, so that equals do not change places with each row.
            own.sort_unstable_by(|one, other| {
                other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1))
            });
            own.truncate(most);
            let count = own.len();
            self.chosen.extend(own.into_iter().map(|(_, key)| key));
            match level {
                Level::TenantRoute => self.on_routes = count,
                Level::Tenant
                | Level::Route
                | Level::Stream
                | Level::Fallback
                | Level::Upstream
                | Level::Gateway => self.tenants = count,
            }
        }
    }
}

/// `tenant/_other`, or `route/ID/tenant/_other`.
fn other(key: &str) -> Arc<str> {
    match key.rsplit_once('/') {
        Some((front, _)) => format!("{front}/{OTHER}").into(),
        None => OTHER.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(key: &str, arrived: u64) -> Reading {
        let level = key.parse::<compartment::Key>().unwrap().level();
        Reading {
            arrived,
            ..Reading::empty("one".into(), key.into(), level, 0, 1_000_000)
        }
    }

    #[test]
    fn the_busiest_have_names_and_the_others_have_one() {
        let mut busiest = Busiest::default();
        for round in 0..20 {
            for n in 0..100_u64 {
                busiest.key(&reading(&format!("tenant/t{n}"), n), 10);
                busiest.key(&reading(&format!("route/a/tenant/t{n}"), 100 - n), 10);
            }
            busiest.choose(10);
            let named =
                |key: &str, busiest: &mut Busiest| &*busiest.key(&reading(key, 1), 10) == key;
            assert!(named("tenant/t99", &mut busiest), "round {round}");
            assert!(!named("tenant/t1", &mut busiest));
            assert!(named("route/a/tenant/t0", &mut busiest));
        }
        let key = busiest.key(&reading("route/a/tenant/t99", 1), 10);
        assert_eq!(&*key, "route/a/tenant/_other");
        assert_eq!(&*busiest.key(&reading("tenant/t1", 1), 10), "tenant/_other");
        assert_eq!(busiest.chosen.len(), 20);
    }

    #[test]
    fn who_is_quiet_for_long_makes_room() {
        let mut busiest = Busiest::default();
        busiest.key(&reading("tenant/old", 1_000), 1);
        for _ in 0..1_200 {
            busiest.choose(1);
        }
        assert!(busiest.scores.is_empty(), "{:?}", busiest.scores);
        assert_eq!(&*busiest.key(&reading("tenant/new", 1), 1), "tenant/new");
    }

    #[test]
    fn what_is_compared_is_bounded() {
        let mut busiest = Busiest::default();
        for n in 0..SCORES_MAX + 100 {
            busiest.key(&reading(&format!("tenant/t{n}"), 1), 5);
        }
        assert_eq!(busiest.scores.len(), SCORES_MAX);
        assert_eq!(busiest.chosen.len(), 5);
    }
}
