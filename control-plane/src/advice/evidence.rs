//! What a piece of advice rests on.
//!
//! Separate because it is shown beside every number: the peak, the hold times, the windows used
//! and left out, and how sure all of it is. It must never hold a figure that was not measured.

use compartment::Histogram;
use serde::Serialize;

use super::Verdict;
use super::windows::{LeftOut, Sorted, Window};
use crate::sizing::Exact;

/// Fewer arrivals than this say nothing about a peak.
const ARRIVALS_MIN: u64 = 200;
/// Less normal traffic than this is no traffic.
const SECONDS_MIN: u64 = 60;
/// Arrivals for each refusal that the target allows: then the share can be told.
const ARRIVALS_PER_REFUSAL: f64 = 10.0;
const HOUR_S: u64 = 3_600;
const WEEK_S: u64 = 7 * 24 * HOUR_S;
/// The busiest tenth of the windows are the busy ones.
const BUSY_PART: usize = 10;

/// How sure the advice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// Less than an hour, or fewer arrivals than the target needs.
    Low,
    /// An hour or more.
    Provisional,
    /// A week or more.
    Final,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = AdviceEvidence)]
pub struct Evidence {
    /// From, in milliseconds of Unix time; 0 without any window.
    pub from_ms: i64,
    /// To.
    pub to_ms: i64,
    /// Windows that count.
    pub windows: usize,
    /// Seconds of them.
    pub seconds: u64,
    /// Windows that do not count, and why.
    pub left_out: Vec<LeftOut>,
    /// Everybody who asked in the windows that count.
    pub arrivals: u64,
    /// The share of them that was refused.
    pub refused_share: f64,
    /// When the busiest window began.
    pub peak_from_ms: i64,
    /// Arrivals a second in it, in thousandths.
    pub peak_rate_milli: u64,
    /// Mean hold of those who were admitted, the wait excluded.
    #[schema(required)]
    pub mean_hold_us: Option<u64>,
    /// 99th percentile of it.
    #[schema(required)]
    pub p99_hold_us: Option<u64>,
    /// Slots asked for on average in the busiest window: rate x mean hold.
    pub offered: f64,
    /// Median over the busy windows of the mean in flight, in thousandths of a slot.
    pub busy_in_flight_milli: u64,
    /// Median over the windows of the most in flight at once.
    pub usual_peak: u32,
    /// The target that so many arrivals can speak of.
    pub target: f64,
    /// How sure.
    pub confidence: Confidence,
}

impl Evidence {
    pub(super) fn of(sorted: &Sorted<'_>, wanted: f64) -> Self {
        let usable = &sorted.usable;
        let mut hold = Histogram::new();
        usable.iter().for_each(|window| hold.merge(&window.hold));
        let arrivals: u64 = usable.iter().map(|window| window.arrived).sum();
        let refused: u64 = usable.iter().map(|window| window.rejected).sum();
        let elapsed_us: u64 = usable.iter().map(|window| window.elapsed_us).sum();
        let mean_hold_us = hold.mean_us();
        let peak = usable.iter().max_by(|one, other| {
            offered(one, mean_hold_us).total_cmp(&offered(other, mean_hold_us))
        });
        let supported = ARRIVALS_PER_REFUSAL / float(arrivals.max(1));
        let (seconds, target) = (elapsed_us / 1_000_000, wanted.max(supported.min(0.5)));
        let confidence = match seconds {
            _ if target > wanted => Confidence::Low,
            seconds if seconds >= WEEK_S => Confidence::Final,
            seconds if seconds >= HOUR_S => Confidence::Provisional,
            _ => Confidence::Low,
        };
        Self {
            from_ms: usable.first().map_or(0, |window| window.from_ms),
            to_ms: usable.last().map_or(0, |window| window.to_ms),
            windows: usable.len(),
            seconds,
            left_out: sorted.left_out.clone(),
            arrivals,
            refused_share: float(refused) / float(arrivals.max(1)),
            peak_from_ms: peak.map_or(0, |window| window.from_ms),
            peak_rate_milli: peak.map_or(0, |window| rate_milli(window)),
            mean_hold_us,
            p99_hold_us: hold.quantile_us(990),
            offered: peak.map_or(0.0, |window| offered(window, mean_hold_us)),
            busy_in_flight_milli: busy_in_flight_milli(usable),
            usual_peak: usual_peak(usable),
            target,
            confidence,
        }
    }

    /// Arrivals a second in the busiest window.
    pub(super) fn peak_rate(&self) -> Exact {
        Exact::rate(self.peak_rate_milli)
    }

    /// Why nothing can be said, if so.
    pub(super) fn is_not_enough(&self) -> Option<Verdict> {
        if self.left_out.len() > self.windows {
            return Some(Verdict::Unsettled);
        }
        let little = self.arrivals < ARRIVALS_MIN || self.seconds < SECONDS_MIN;
        (little || self.mean_hold_us.is_none()).then_some(Verdict::TooLittleEvidence)
    }
}

/// Slots asked for on average: what arrived, refused or not, times the mean hold. A window in
/// which nothing ended is judged by the usual hold.
fn offered(window: &Window, usual_hold_us: Option<u64>) -> f64 {
    let hold_us = window.hold.mean_us().or(usual_hold_us).unwrap_or_default();
    float(window.arrived) * float(hold_us) / float(window.elapsed_us.max(1))
}

fn rate_milli(window: &Window) -> u64 {
    let milli = u128::from(window.arrived) * 1_000_000_000 / u128::from(window.elapsed_us.max(1));
    u64::try_from(milli).unwrap_or(u64::MAX)
}

fn busy_in_flight_milli(usable: &[&Window]) -> u64 {
    let mut means: Vec<u64> = usable
        .iter()
        .map(|window| window.in_flight_us.saturating_mul(1_000) / window.elapsed_us.max(1))
        .collect();
    means.sort_unstable();
    let busy = means.len().div_ceil(BUSY_PART);
    // The median of the upper tenth.
    let at = means.len().saturating_sub(busy / 2 + 1);
    means.get(at).copied().unwrap_or_default()
}

fn usual_peak(usable: &[&Window]) -> u32 {
    let mut peaks: Vec<u32> = usable.iter().map(|window| window.peak).collect();
    peaks.sort_unstable();
    peaks.get(peaks.len() / 2).copied().unwrap_or_default()
}

/// Counts lose nothing that matters below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "a share of counts needs no more than 53 bits"
)]
pub(super) const fn float(count: u64) -> f64 {
    count as f64
}
