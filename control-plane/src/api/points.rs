//! The answer of a series: points, limits, changes.
//!
//! Separate from what was asked because it is only shape. A slot of which nobody was heard has no
//! figures here, never zeros.

use std::collections::BTreeMap;

use compartment::{Histogram, Limit, Rejection};
use serde::Serialize;
use utoipa::ToSchema;

use crate::history::{LimitChange, Point, Reasons, Row, Series};

/// Most points of all gateways together.
const GATEWAY_POINTS_MAX: usize = 20_000;

/// The rows of one compartment over a range.
#[derive(Serialize, ToSchema)]
#[schema(as = Series)]
pub(super) struct SeriesShown {
    pub(super) key: String,
    /// Width of a point: `10s`, `1m` or `1h`.
    pub(super) step: &'static str,
    pub(super) step_seconds: i64,
    pub(super) from: String,
    pub(super) to: String,
    /// The newest generation.
    pub(super) generation: u64,
    /// Gateways that report now, of those that are known: `3 of 4`.
    pub(super) reporting: String,
    pub(super) points: Vec<SeriesPoint>,
    /// The limit of each gateway as the policy had it: from each moment until the next.
    pub(super) limits: Vec<LimitStep>,
    /// Changes of the limit, newest first.
    pub(super) changes: Vec<LimitChanged>,
    /// With `by=gateway`: the points of each gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gateways: Option<Vec<GatewayPoints>>,
}

/// One slot of time.
#[derive(Serialize, ToSchema)]
pub(super) struct SeriesPoint {
    at: String,
    /// How many gateways were heard of.
    gateways: u64,
    covered_seconds: f64,
    /// Null: nobody was heard of.
    #[schema(required)]
    figures: Option<SeriesFigures>,
}

/// What is known of one slot.
#[derive(Serialize, ToSchema)]
struct SeriesFigures {
    /// Of each gateway.
    #[schema(required)]
    limit: Option<Limit>,
    arrived: u64,
    admitted: u64,
    completed: u64,
    left_queue: u64,
    rejected: BTreeMap<Rejection, u64>,
    shadow_rejected: BTreeMap<Rejection, u64>,
    candidate_rejected: u64,
    #[schema(required)]
    arrived_per_second: Option<f64>,
    #[schema(required)]
    rejected_per_second: Option<f64>,
    /// Mean over the time covered, of all gateways together.
    #[schema(required)]
    in_flight: Option<f64>,
    /// The sum of each gateway's highest.
    peak: u64,
    /// Share of the time at the limit.
    #[schema(required)]
    saturated: Option<f64>,
    /// How long permits were held.
    #[schema(required)]
    hold: Option<Durations>,
    /// How long those who waited did.
    #[schema(required)]
    wait: Option<Durations>,
}

/// How long something took.
#[derive(Serialize, ToSchema)]
struct Durations {
    count: u64,
    #[schema(required)]
    mean_ms: Option<f64>,
    #[schema(required)]
    p50_ms: Option<f64>,
    #[schema(required)]
    p99_ms: Option<f64>,
}

/// The limit from one moment on.
#[derive(Serialize, ToSchema)]
pub(super) struct LimitStep {
    at: String,
    /// Of each gateway; null: there was no such compartment.
    #[schema(required)]
    limit: Option<Limit>,
}

/// A change of the limit.
#[derive(Serialize, ToSchema)]
#[schema(as = LimitChange)]
pub(super) struct LimitChanged {
    pub(super) at: String,
    pub(super) generation: u64,
    /// Null: there was no such compartment.
    #[schema(required)]
    pub(super) old: Option<Limit>,
    /// Null: there is none any more.
    #[schema(required)]
    pub(super) new: Option<Limit>,
    #[schema(required)]
    pub(super) author: Option<String>,
    #[schema(required)]
    pub(super) comment: Option<String>,
}

/// The points of one gateway.
#[derive(Serialize, ToSchema)]
pub(super) struct GatewayPoints {
    id: String,
    points: Vec<SeriesPoint>,
}

pub(super) fn point(point: &Point) -> SeriesPoint {
    SeriesPoint {
        at: time(point.at_s),
        gateways: point.heard.gateways,
        covered_seconds: tidy(seconds_of(point.heard.covered_us)),
        figures: point.figures.as_ref().map(|row| figures(point, row)),
    }
}

fn figures(point: &Point, row: &Row) -> SeriesFigures {
    SeriesFigures {
        limit: row.limit,
        arrived: row.arrived,
        admitted: row.admitted,
        completed: row.completed,
        left_queue: row.left_queue,
        rejected: reasons(&row.rejected),
        shadow_rejected: reasons(&row.shadow_rejected),
        candidate_rejected: row.candidate_rejected,
        arrived_per_second: point.per_second(row.arrived).map(tidy),
        rejected_per_second: point.per_second(row.refused()).map(tidy),
        in_flight: point.in_flight().map(tidy),
        peak: row.peak,
        saturated: point.saturated().map(tidy),
        hold: durations(&row.hold),
        wait: durations(&row.wait),
    }
}

fn reasons(reasons: &Reasons) -> BTreeMap<Rejection, u64> {
    reasons.iter().copied().collect()
}

fn durations(durations: &Histogram) -> Option<Durations> {
    let quantile = |permille| durations.quantile_us(permille).map(millis);
    let count = durations.count();
    (count > 0).then(|| Durations {
        count,
        mean_ms: durations.mean_us().map(millis),
        p50_ms: quantile(500),
        p99_ms: quantile(990),
    })
}

/// The limit as a step line: from each moment on until the next.
pub(super) fn steps(
    changes: &[LimitChange],
    now: Option<Limit>,
    series: &Series,
) -> Vec<LimitStep> {
    let first = changes.last().map_or(now, |oldest| oldest.before);
    let mut steps = vec![LimitStep {
        at: time(series.range.from_s),
        limit: first,
    }];
    let to_ms = series.range.to_s.saturating_mul(1_000);
    let within = changes.iter().rev().filter(|change| change.at_ms < to_ms);
    steps.extend(within.map(|change| LimitStep {
        at: moment(change.at_ms),
        limit: change.after,
    }));
    steps
}

pub(super) fn by_gateway(series: &Series) -> Vec<GatewayPoints> {
    let mut room = GATEWAY_POINTS_MAX;
    let one = |(id, points): &(std::sync::Arc<str>, Vec<Point>)| {
        room = room.checked_sub(points.len())?;
        Some(GatewayPoints {
            id: id.to_string(),
            points: points.iter().map(point).collect(),
        })
    };
    series.gateways.iter().map_while(one).collect()
}

pub(super) fn time(at_s: i64) -> String {
    jiff::Timestamp::from_second(at_s).map_or_else(|_| String::new(), |at| at.to_string())
}

pub(super) fn moment(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms);
    at.map_or_else(|_| String::new(), |at| format!("{at:.3}"))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people: no digit that is shown is lost"
)]
fn seconds_of(us: u64) -> f64 {
    us as f64 / 1e6
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people: no digit that is shown is lost"
)]
fn millis(us: u64) -> f64 {
    us as f64 / 1e3
}

/// Six digits behind the point are enough, and the answer is half as long.
fn tidy(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
