//! What another limit would do to the measured traffic.
//!
//! Separate because it is asked with a number, not for one; the arithmetic is the same, so that a
//! card and a what-if never disagree. It must never promise more than the evidence holds.

use compartment::Limit;
use serde::Serialize;

use super::evidence::{Evidence, float};
use super::words::{near, near_time};
use super::{Confidence, Subject, Window, erlang, percent, target, windows};
use crate::sizing::{Exact, throughput_left, time_to_fill};

/// The share of refusals up to which demand counts as absorbed.
const ABSORBED: f64 = 0.01;
/// Steps of the bisection: to a thousandth and beyond.
const STEPS: u32 = 40;

/// What a limit would do.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = WhatIfFigures)]
pub struct WhatIf {
    /// The limit that is asked about.
    pub limit: Limit,
    /// The limit in force.
    pub now: Limit,
    /// The share of the busiest window's arrivals that it refuses; `None` without evidence.
    #[schema(required)]
    pub refused_share: Option<f64>,
    /// The same for the limit in force.
    #[schema(required)]
    pub refused_share_now: Option<f64>,
    /// How many a second that is at the peak.
    #[schema(required)]
    pub refused_per_s: Option<f64>,
    /// How much more demand it takes before it refuses 1 %.
    #[schema(required)]
    pub absorbs: Option<f64>,
    /// Whether it meets the target of its class.
    #[schema(required)]
    pub meets_target: Option<bool>,
    /// Seconds until it is full when calls stop returning.
    #[schema(required, value_type = Option<f64>)]
    pub fills_in_s: Option<Exact>,
    /// The arithmetic, a line each.
    pub because: Vec<String>,
    /// How sure.
    pub confidence: Confidence,
}

/// Works out what `limit` would do.
pub fn what_if(subject: Subject, windows: &[Window], limit: Limit) -> WhatIf {
    let sorted = windows::sort(windows);
    let evidence = Evidence::of(&sorted, target(subject.class));
    let known = evidence.is_not_enough().is_none();
    let slots = limit.slots();
    let offered = evidence.offered;
    let share = |limit: Limit| {
        let share = limit
            .slots()
            .map_or(0.0, |slots| erlang::refused_share(offered, slots));
        known.then_some(share)
    };
    let rate = evidence.peak_rate();
    let fills_in_s = slots
        .filter(|_| known && evidence.peak_rate_milli > 0)
        .map(|slots| time_to_fill(slots, Exact::ZERO, rate));
    let refused_share = share(limit);
    WhatIf {
        limit,
        now: subject.limit,
        refused_share,
        refused_share_now: share(subject.limit),
        refused_per_s: refused_share.map(|share| share * float(evidence.peak_rate_milli) / 1_000.0),
        absorbs: slots.filter(|_| known).map(|slots| absorbs(offered, slots)),
        meets_target: refused_share.map(|share| share <= evidence.target),
        fills_in_s,
        because: because(limit, &evidence, refused_share, fills_in_s),
        confidence: evidence.confidence,
    }
}

fn because(
    limit: Limit,
    evidence: &Evidence,
    share: Option<f64>,
    fills_in_s: Option<Exact>,
) -> Vec<String> {
    let Some(share) = share else {
        return vec![format!(
            "too little evidence: {} arrivals in {} s of normal traffic",
            evidence.arrivals, evidence.seconds,
        )];
    };
    let rate = evidence.peak_rate();
    let mean = Exact::ratio(evidence.mean_hold_us.unwrap_or_default().into(), 1_000_000);
    let offered = evidence.offered;
    let mut lines = vec![format!(
        "{}/s at the peak x {} (mean hold) = {offered:.2} slots on average",
        near(rate),
        near_time(mean),
    )];
    if let Some(slots) = limit.slots() {
        lines.push(format!(
            "{slots} slots refuse {:.3} % of that (loss formula; target {})",
            share * 100.0,
            percent(evidence.target),
        ));
        if let Some(p99_us) = evidence.p99_hold_us {
            let p99 = Exact::ratio(p99_us.into(), 1_000_000);
            lines.push(format!(
                "{slots} slots let {}/s through when every call takes {} (p99)",
                near(throughput_left(slots, p99)),
                near_time(p99),
            ));
        }
    }
    lines.extend(
        fills_in_s.map(|fills| format!("full in {} when calls stop returning", near_time(fills))),
    );
    lines
}

/// The factor on the demand at which `limit` refuses 1 %.
pub(super) fn absorbs(offered: f64, limit: u32) -> f64 {
    if offered <= 0.0 || limit == 0 {
        return 0.0;
    }
    // At twice the slots for the load it refuses more than 1 % whatever the limit.
    let (mut low, mut high) = (0.0, 2.0 * f64::from(limit) / offered + 1.0);
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        if erlang::refused_share(offered * middle, limit) <= ABSORBED {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
