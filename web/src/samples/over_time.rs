//! Samples of the panel of what a compartment did over time.
//!
//! Separate because one page shows it in several states. They must never be reachable from a
//! server.

use compartment::{Histogram, Rejection};

use crate::chart::{HoldChart, Mark, Point, Trend};
use crate::{AdviceCard, OverTime};

/// An hour with a gap, a change and a slow dependency in the middle.
pub(super) fn hour() -> OverTime {
    let points = (0..90_u64).map(|n| match n {
        20..24 => None,
        40..60 => Some(point(30, 30, 60 + n % 7 * 10, 12)),
        _ => Some(point(6 + n % 5, 12 + n % 7, 0, 0)),
    });
    let mut hold = Histogram::new();
    for (us, n) in [
        (45_000, 300),
        (60_000, 900),
        (90_000, 400),
        (5_000_000, 160),
    ] {
        hold.record_n(us, n);
    }
    OverTime {
        range: "15m",
        trend: Some(Trend {
            from_ms: 1_782_906_300_000,
            step_ms: 10_000,
            points: points.collect(),
            marks: vec![Mark {
                at_ms: 1_782_906_980_000,
                text: "generation 43: limit 40 to 30".to_owned(),
            }],
        }),
        split: vec![
            ("gw-a".to_owned(), of_gateway(26)),
            ("gw-b".to_owned(), of_gateway(9)),
            (super::HOSTILE.to_owned(), of_gateway(0)),
        ],
        hold: HoldChart::new(
            &hold,
            &[
                ("attempt timeout", 250_000),
                ("time to fill at the peak", 600_000),
            ],
        ),
        trouble: None,
        advice: Some(card()),
    }
}

/// One gateway's part of it, away for a while.
fn of_gateway(mean: u64) -> Trend {
    let points = (0..90_u64).map(|n| match n {
        50..70 => None,
        _ => Some(point(mean * (n % 9) / 9, mean, mean / 9, 0)),
    });
    Trend {
        from_ms: 1_782_906_300_000,
        step_ms: 10_000,
        points: points.collect(),
        marks: Vec::new(),
    }
}

fn point(mean: u64, peak: u64, full: u64, waited: u64) -> Point {
    Point {
        mean_milli: mean * 1_000,
        peak,
        limit: Some(30),
        arrived: 500,
        rejected: vec![
            (Rejection::RouteFull, full),
            (Rejection::QueueTimeout, waited),
        ],
        saturated_permille: if full > 0 { 940 } else { 0 },
    }
}

/// A card with both arithmetics.
pub(super) fn card() -> AdviceCard {
    AdviceCard {
        summary: "keep 30: the traffic asks for 28".to_owned(),
        verdict: "keep",
        figures: vec![
            (
                "loss formula",
                28,
                "50.1/s x 212 ms (mean) = 10.62 slots on average; 28 refuse 0.1 %".to_owned(),
            ),
            (
                "rule of thumb",
                23,
                "50.1/s at the peak x 0.3 s (p99) x 1.5 for standard, in whole slots".to_owned(),
            ),
        ],
        evidence: vec![
            "41200 arrivals in 700 s of normal traffic on gateway one; confidence low".to_owned(),
        ],
        left_out: vec![
            "2026-07-01T11:51:40Z to 2026-07-01T11:55:00Z: hold time more than twice the usual"
                .to_owned(),
        ],
        left_out_more: 2,
    }
}

/// Nothing is recorded yet.
pub(super) fn nothing_yet() -> OverTime {
    OverTime {
        range: "1h",
        trend: None,
        split: Vec::new(),
        hold: None,
        trouble: None,
        advice: None,
    }
}

/// The history cannot be read.
pub(super) fn away() -> OverTime {
    OverTime {
        trouble: Some("the history is not available: disk full".to_owned()),
        ..nothing_yet()
    }
}
