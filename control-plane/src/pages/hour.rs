//! The last hour of all compartments, as pages draw it.
//!
//! Separate because it comes from memory alone: a page that compares all compartments asks no
//! disk. It must never draw a minute in which nobody was heard as a calm one.

use std::cmp::Reverse;

use web::Hour;
use web::chart::{HEAT_ROWS_MAX, Heat, HeatRow, Point, Spark, Trend};

use crate::clock;
use crate::past::{MINUTES, Past, Told};

const STEP_MS: u64 = 60_000;

/// What the Overview shows of it; `None` while nobody was heard in it.
pub(super) fn hour(past: &Past, now_s: i64) -> Option<Hour> {
    let refusals = refusals(past, now_s);
    if refusals.is_empty() {
        return None;
    }
    let all = past.saturated(now_s);
    let mut longest: Vec<_> = all
        .iter()
        .filter_map(|(key, saturated)| Some((Reverse(saturated.of_hour?), key)))
        .filter(|(Reverse(permille), _)| *permille > 0)
        .collect();
    longest.sort();
    let mut keys: Vec<String> = longest.iter().map(|(_, key)| key.to_string()).collect();
    keys.truncate(HEAT_ROWS_MAX);
    if keys.is_empty() {
        // One row still shows which minutes were heard of.
        keys.push("gateway".to_owned());
    }
    let row = |key: String| HeatRow {
        href: web::url::compartment(&key),
        of_all_permille: all.get(key.as_str()).and_then(|own| own.of_hour),
        saturated_permille: past.hour(&key, now_s).iter().map(saturated).collect(),
        key,
    };
    let heat = Heat {
        from_ms: from_ms(now_s),
        step_ms: STEP_MS,
        rows: keys.into_iter().map(row).collect(),
    };
    Some(Hour {
        heat: heat.sorted(),
        refusals,
    })
}

/// One compartment, small.
pub(super) fn spark(past: &Past, key: &str) -> Spark {
    let hour = past.hour(key, now_s());
    let mean = |told: &Told| {
        // In flight is over all gateways: each was heard of for its part of the minute.
        let covered = u128::from(told.heard_us).checked_div(u128::from(told.gateways.max(1)))?;
        let mean = (u128::from(told.cell.in_flight_us) * 1_000).checked_div(covered)?;
        u64::try_from(mean).ok()
    };
    Spark {
        mean_milli: hour.iter().map(mean).collect(),
        full: hour.iter().map(|told| told.cell.saturated_us > 0).collect(),
    }
}

fn saturated(told: &Told) -> Option<u64> {
    let permille =
        (u128::from(told.cell.saturated_us) * 1_000).checked_div(told.heard_us.into())?;
    // A moment at the limit is more than none.
    let least = u64::from(told.cell.saturated_us > 0);
    Some(u64::try_from(permille).unwrap_or(1_000).clamp(least, 1_000))
}

fn refusals(past: &Past, now_s: i64) -> Trend {
    let point = |(arrived, rejected)| Point {
        arrived,
        rejected,
        ..Point::default()
    };
    let minutes = past.refusals(now_s).into_iter();
    Trend {
        from_ms: from_ms(now_s),
        step_ms: STEP_MS,
        points: minutes.map(|told| told.map(point)).collect(),
        marks: Vec::new(),
    }
}

pub(super) fn now_s() -> i64 {
    clock::unix_ms().div_euclid(1_000)
}

/// Where the first of the minutes begins.
fn from_ms(now_s: i64) -> i64 {
    let before = i64::try_from(MINUTES).unwrap_or(0).saturating_sub(1);
    let first = now_s.div_euclid(60).saturating_sub(before);
    first.saturating_mul(60_000)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use compartment::{Level, Rejection};

    use super::*;
    use crate::readings::Reading;

    #[test]
    fn what_was_full_longest_comes_first_and_a_silent_hour_is_no_panel() {
        let past = Past::default();
        let now_s = now_s();
        assert_eq!(hour(&past, now_s), None);
        let from_ms = (now_s - 1) * 1_000;
        let reading = |key: &str, level, saturated_us| Reading {
            arrived: 5,
            in_flight_us: 2_000_000,
            saturated_us,
            rejected: vec![(Rejection::RouteFull, u64::from(saturated_us > 0))],
            ..Reading::empty(Arc::from("one"), Arc::from(key), level, from_ms, 1_000_000)
        };
        past.record(&[
            reading("gateway", Level::Gateway, 0),
            reading("route/a", Level::Route, 0),
        ]);
        let calm = hour(&past, now_s).unwrap();
        assert_eq!((calm.heat.rows.len(), calm.heat.is_calm()), (1, true));
        past.record(&[
            reading("gateway", Level::Gateway, 0),
            reading("route/a", Level::Route, 1),
            reading("route/b", Level::Route, 900_000),
        ]);
        let full = hour(&past, now_s + 1).unwrap();
        let keys: Vec<&str> = full.heat.rows.iter().map(|row| row.key.as_str()).collect();
        assert_eq!(keys[0], "route/b");
        let of_list = past.saturated(now_s + 1)["route/b"].of_hour;
        assert_eq!(full.heat.rows[0].of_all_permille, of_list);
        let minutes = full.refused_minutes();
        assert_eq!(minutes.len(), 1, "{minutes:?}");
        let spark = spark(&past, "route/a");
        assert_eq!(spark.mean_milli.iter().flatten().max(), Some(&2_000));
        assert_eq!(spark.full.iter().filter(|full| **full).count(), 1);
    }
}
