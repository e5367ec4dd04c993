//! The windows as they outlive a restart.
//!
//! Separate because it is a form of storage: ages instead of moments, so that neither another
//! process's line of time nor a step of the wall clock moves what happened. It must never hold more
//! than what is in trouble.

use std::sync::Arc;

use compartment::Level;
use serde::{Deserialize, Serialize};

use super::evaluator::{Compartment, Evaluator, Now};
use super::series::Series;
use super::window::Counts;

/// Most compartments of gateways that are kept, those with the newest trouble first.
pub(super) const SAVED_MAX: usize = 300;

/// Age of a slice, milliseconds at the limit, arrivals, refusals.
type Slice = (u64, u64, u64, u64);

/// One compartment of one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSeries {
    gateway: String,
    key: String,
    level: Level,
    fine: Vec<Slice>,
    coarse: Vec<Slice>,
}

/// All that is kept, and when it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// In milliseconds of the wall clock.
    pub at_ms: i64,
    /// What happened.
    pub series: Vec<SavedSeries>,
}

impl Saved {
    /// True when there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }
}

impl Evaluator {
    /// What a restart needs to know.
    pub fn saved(&self, now: Now) -> Saved {
        let mut troubled: Vec<_> = self
            .compartments
            .iter()
            .flat_map(|(key, one)| {
                one.gateways
                    .iter()
                    .map(move |(id, series)| (key, one.level, id, series))
            })
            .filter(|(.., series)| !series.is_calm(&self.rules, now.at_ms))
            .collect();
        troubled.sort_by_key(|(.., series)| std::cmp::Reverse(series.trouble_ms));
        let slices = |list: Vec<(u64, Counts)>| {
            list.into_iter()
                .map(|(age, c)| (age, c.time_ms, c.arrived, c.refused))
                .collect()
        };
        let saved =
            |(key, level, id, series): (&Arc<str>, Level, &Arc<str>, &Series)| SavedSeries {
                gateway: id.as_ref().to_owned(),
                key: key.as_ref().to_owned(),
                level,
                fine: slices(series.fine.saved(now.at_ms)),
                coarse: slices(series.coarse.saved(now.at_ms)),
            };
        Saved {
            at_ms: now.unix_ms,
            series: troubled.into_iter().take(SAVED_MAX).map(saved).collect(),
        }
    }

    /// Takes in what was kept before a restart.
    pub fn restore_windows(&mut self, saved: &Saved, now: Now) {
        // A wall clock that stepped back makes nothing younger than it was.
        let older_ms = u64::try_from(now.unix_ms.saturating_sub(saved.at_ms)).unwrap_or(0);
        let counts = |list: &[Slice]| -> Vec<(u64, Counts)> {
            let one = |&(age, time_ms, arrived, refused): &Slice| {
                let counts = Counts {
                    time_ms,
                    arrived,
                    refused,
                };
                (age, counts)
            };
            list.iter().map(one).collect()
        };
        for one in saved.series.iter().take(SAVED_MAX) {
            let gateway = self.gateway(&one.gateway, now.at_ms);
            let mut series = Series::new(&self.rules);
            let (fine, coarse) = (counts(&one.fine), counts(&one.coarse));
            series.fine.restore(now.at_ms, older_ms, &fine);
            series.coarse.restore(now.at_ms, older_ms, &coarse);
            let trouble = coarse
                .iter()
                .filter(|(_, c)| c.refused > 0 || c.time_ms > 0);
            let age = trouble.map(|(age, _)| age.saturating_add(older_ms)).min();
            series.trouble_ms = age.map_or(0, |age| now.at_ms.saturating_sub(age));
            let compartment = self.compartments.entry(one.key.as_str().into());
            let compartment = compartment.or_insert_with(|| Compartment::new(one.level));
            compartment.gateways.insert(gateway, series);
        }
        for compartment in self.compartments.values_mut() {
            compartment.join();
        }
        self.series = self.compartments.values().map(|one| one.series()).sum();
    }
}
