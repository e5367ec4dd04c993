//! Samples of the last hour at a glance.
//!
//! Separate because the Overview shows it in several states. They must never be reachable from a
//! server.

use compartment::Rejection;

use super::HOSTILE;
use crate::Hour;
use crate::chart::{Heat, HeatRow, Point, Trend};

const FROM_MS: i64 = 1_782_903_660_000;
const STEP_MS: u64 = 60_000;

fn row(key: &str, saturated: impl Fn(u64) -> u64) -> HeatRow {
    let step = |minute: u64| (!(17..20).contains(&minute)).then(|| saturated(minute));
    let all: Vec<u64> = (0..60).filter_map(step).collect();
    let of_all = all.iter().sum::<u64>() / u64::try_from(all.len()).unwrap_or(1).max(1);
    HeatRow {
        of_all_permille: Some(of_all),
        key: key.to_owned(),
        href: crate::url::compartment(key),
        saturated_permille: (0..60).map(step).collect(),
    }
}

fn hour(rows: Vec<HeatRow>, refused: impl Fn(u64) -> (u64, u64)) -> Hour {
    let point = |minute: u64| {
        let (full, waited) = refused(minute);
        (!(17..20).contains(&minute)).then(|| Point {
            arrived: 6_000,
            rejected: vec![
                (Rejection::RouteFull, full),
                (Rejection::QueueTimeout, waited),
            ],
            ..Point::default()
        })
    };
    Hour {
        heat: Heat {
            from_ms: FROM_MS,
            step_ms: STEP_MS,
            rows,
        }
        .sorted(),
        refusals: Trend {
            from_ms: FROM_MS,
            step_ms: STEP_MS,
            points: (0..60).map(point).collect(),
            marks: Vec::new(),
        },
    }
}

/// Nobody was at the limit.
pub(super) fn calm() -> Hour {
    hour(vec![row("gateway", |_| 0)], |_| (0, 0))
}

/// One compartment full for the last quarter, others now and then; three minutes unheard.
pub(super) fn troubled() -> Hour {
    let rows = vec![
        row("route/recommendations", |minute| match minute {
            40..46 => 150,
            46..49 => 600,
            49.. => 980,
            _ => 0,
        }),
        row(
            "upstream/recommender",
            |minute| if minute > 50 { 310 } else { 0 },
        ),
        row("route/inventory-export", |minute| {
            if minute % 13 == 4 { 420 } else { 0 }
        }),
        row(
            "route/recommendations/tenant/acme-international-holding",
            |minute| {
                if minute == 58 { 90 } else { 0 }
            },
        ),
    ];
    hour(rows, |minute| match minute {
        46..49 => (minute * 3, 12),
        49.. => (400 + minute % 7 * 31, 40),
        _ => (0, u64::from(minute % 13 == 4) * 17),
    })
}

/// Names that are not ours to trust.
pub(super) fn hostile() -> Hour {
    let rows = vec![
        row(&format!("route/{HOSTILE}"), |_| 700),
        row(&format!("tenant/{}", "x".repeat(128)), |_| 100),
    ];
    hour(rows, |_| (3, 0))
}
