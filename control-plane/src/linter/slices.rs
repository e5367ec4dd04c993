//! L15: slots over one upstream that are cut too small.
//!
//! Separate because it is the only rule that reckons with a law of chance: Erlang's, for arrivals
//! that are refused at once. It says what two ways of cutting the same slots would refuse; it must
//! never refuse a policy.

use std::collections::BTreeMap;

use compartment::policy::{Path, Policy};

use super::Finding;
use super::shape::{sum_of, warning};
use crate::sizing::{Exact, in_flight};

/// A slice of this many slots or more wastes little by standing alone.
const SLICE_LARGE: u32 = 8;
/// So many times less must be refused together before two slices should be one.
const WORTH: f64 = 10.0;
/// Compartments over one upstream, for as long as they are small.
#[derive(Default)]
struct Slices {
    first: usize,
    slots: Vec<u32>,
    loads: Vec<f64>,
}

/// Judges the small compartments over each upstream.
pub(super) fn lint(policy: &Policy, findings: &mut Vec<Finding>) {
    let mut by_upstream: BTreeMap<usize, Slices> = BTreeMap::new();
    for (index, route) in policy.routes.iter().enumerate() {
        let small = |slots: &u32| (1..SLICE_LARGE).contains(slots);
        let slots = route.compartment.limit.slots().filter(small);
        let Some((assume, slots)) = route.compartment.assume.zip(slots) else {
            continue;
        };
        let slices = by_upstream.entry(route.upstream).or_insert(Slices {
            first: index,
            ..Slices::default()
        });
        let load = in_flight(Exact::rate(assume.rate_milli), Exact::seconds(assume.p99));
        slices.slots.push(slots);
        slices.loads.push(load.nearest_float());
    }
    for slices in by_upstream.values().filter(|slices| slices.slots.len() > 1) {
        findings.extend(too_small(slices));
    }
}

fn too_small(slices: &Slices) -> Option<Finding> {
    let load: f64 = slices.loads.iter().sum();
    let each = slices.slots.iter().zip(&slices.loads);
    let refused: f64 = each
        .map(|(slots, load)| load * erlang_b(*slots, *load))
        .sum();
    let split = refused / load;
    let all: u32 = slices.slots.iter().fold(0, |sum, n| sum.saturating_add(*n));
    let pooled = erlang_b(all, load);
    if pooled * WORTH >= split {
        return None;
    }
    let message = format!(
        "{} compartments over one upstream, {} = {all} slots: at the assumed p99 they refuse \
         {:.2} %, one of {all} would refuse {:.2} %; merge those of like latency and importance",
        slices.slots.len(),
        sum_of(&slices.slots),
        split * 100.0,
        pooled * 100.0
    );
    let path = Path::root().key("routes").index(slices.first);
    let path = path.key("compartment").key("limit");
    Some(warning("L15", path, message))
}

/// The share that `slots` refuse of `load` slots that are asked for on average.
fn erlang_b(slots: u32, load: f64) -> f64 {
    (1..=slots).fold(1.0, |refused, n| {
        load * refused / (f64::from(n) + load * refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the table: 20 slots for 10, whole and in five.
    #[test]
    fn erlangs_law_gives_the_figures_of_the_books() {
        for (slots, load, percent) in [
            (20, 10.0, "0.19"),
            (4, 2.0, "9.52"),
            (10, 10.0, "21.46"),
            (1, 1.0, "50.00"),
            (0, 3.0, "100.00"),
        ] {
            let refused = format!("{:.2}", erlang_b(slots, load) * 100.0);
            assert_eq!(refused, percent, "{slots} slots, {load} asked for");
        }
    }
}
