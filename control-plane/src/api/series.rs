//! `GET /compartments/{key}/series` and `GET /history`.
//!
//! Separate because these speak of time: rows of the history on a grid, gaps as null. Nothing
//! here may make a number for a slot of which nobody was heard.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::Key;
use http::StatusCode;

use super::Problem;
use super::call::{Call, Kind};
use super::input;
use super::input::Path;
use super::points::{LimitChanged, SeriesShown, by_gateway, point, steps, time};
use crate::access::VIEWER;
use crate::clock;
use crate::history::{HistoryError, HistoryState, LimitChange, POINTS_MAX, Range, Series, Step};
use crate::state::AppState;

/// What is shown without `from`.
const RANGE_S: i64 = 3_600;
/// Most changes of the limit that are told with author and comment.
const CHANGES_MAX: usize = 50;
const TIME_RULE: &str = "a time like 2026-01-31T12:00:00Z, or whole seconds since 1970";
const STEP_RULE: &str = "10s, 1m or 1h";
const BY_RULE: &str = "gateway";

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/compartments/{key}/series", VIEWER, series)
            .says("getSeries", "Figures of one compartment over time")
            .details(
                "Rows on a grid of `step`: ten seconds for the last day, a minute for two weeks, \
                 an hour for 400 days. A slot of which no gateway was heard is a gap: its \
                 `figures` are null. At most 10,000 points.",
            )
            .query(
                "from",
                Kind::Time,
                "Begin: RFC 3339 or seconds since 1970. An hour before `to` unless given.",
            )
            .query("to", Kind::Time, "End, the same. Now unless given.")
            .query(
                "step",
                Kind::OneOf(&["10s", "1m", "1h"]),
                "Width of a point; the finest that fits unless given.",
            )
            .query(
                "by",
                Kind::OneOf(&[BY_RULE]),
                "Also the points of each gateway; with `step=10s`.",
            )
            .answers::<SeriesShown>("The series"),
        Call::get("/history", VIEWER, history)
            .says("getHistory", "How the history stands")
            .details(
                "Figures are kept in a file of their own. A disk that does not take them costs \
                 history, counted here, and nothing else.",
            )
            .answers::<HistoryState>("State, size, and from when on rows are kept"),
    ]
}

/// The rows of one compartment over a range.
pub(super) async fn series(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["from", "to", "step", "by"])?;
    let now_s = clock::unix_ms().div_euclid(1_000);
    let asked = Asked::read(&pairs, now_s)?;
    known(&state, &key).await?;
    let series = state.history.series(&key, asked.range, asked.step).await?;
    let changes = state
        .history
        .limit_changes(&key, asked.range.from_s.saturating_mul(1_000), i64::MAX)
        .await?;
    let in_force = state.limit_published(&key);
    let changed = told(&state, &changes, &series).await?;
    Ok(axum::Json(SeriesShown {
        key,
        step: series.step.as_str(),
        step_seconds: series.step.seconds(),
        from: time(series.range.from_s),
        to: time(series.range.to_s),
        generation: state.policy_published().about.number,
        reporting: state.reporting_text(),
        points: series.points.iter().map(point).collect(),
        limits: steps(&changes, in_force, &series),
        changes: changed,
        gateways: asked.by_gateway.then(|| by_gateway(&series)),
    })
    .into_response())
}

/// How the history stands: kept or failing, how large, from when on.
pub(super) async fn history(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    Ok(axum::Json(state.history.state()).into_response())
}

/// What the address asks for, checked.
struct Asked {
    range: Range,
    step: Step,
    by_gateway: bool,
}

impl Asked {
    fn read(pairs: &[(String, String)], now_s: i64) -> Result<Self, Problem> {
        let to_s = seconds(pairs, "to")?.unwrap_or(now_s);
        let from_s = seconds(pairs, "from")?.unwrap_or(to_s.saturating_sub(RANGE_S));
        if from_s >= to_s {
            return Err(wrong(
                pairs,
                "from",
                "a time before `to`, which is now unless given",
            ));
        }
        if from_s > now_s {
            return Err(wrong(pairs, "from", "a time that has come"));
        }
        // Nothing is kept for longer, and nothing is known of later.
        let oldest = now_s.saturating_sub(Step::Hour.keep_seconds());
        let range = Range {
            from_s: from_s.max(oldest),
            to_s: to_s.min(now_s).max(oldest),
        };
        let step = match text(pairs, "step") {
            None => Step::fitting(range.from_s, range.to_s, now_s),
            Some(name) => Step::from_name(name).ok_or_else(|| wrong(pairs, "step", STEP_RULE))?,
        };
        if range.on_grid(step).count(step) > POINTS_MAX {
            let rule = format!("wide enough: a range has at most {POINTS_MAX} points");
            return Err(wrong(pairs, "step", &rule));
        }
        let by_gateway = match text(pairs, "by") {
            None => false,
            Some(BY_RULE) if step == Step::TenSeconds => true,
            Some(BY_RULE) => {
                let rule = "asked for with step = 10s: wider rows are over all gateways";
                return Err(wrong(pairs, "by", rule));
            }
            Some(_) => return Err(wrong(pairs, "by", BY_RULE)),
        };
        Ok(Self {
            range,
            step,
            by_gateway,
        })
    }
}

fn text<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let pair = pairs.iter().find(|(own, _)| own == name);
    pair.map(|(_, value)| value.as_str())
}

fn seconds(pairs: &[(String, String)], name: &str) -> Result<Option<i64>, Problem> {
    let Some(value) = text(pairs, name) else {
        return Ok(None);
    };
    // In a query a plus is often meant as itself: a time zone's.
    let value = value.replace(' ', "+");
    let read = value.parse().ok();
    let read = read.or_else(|| Some(value.parse::<jiff::Timestamp>().ok()?.as_second()));
    // What no calendar holds cannot be written in an answer either.
    let read = read.filter(|second| jiff::Timestamp::from_second(*second).is_ok());
    read.map(Some).ok_or_else(|| wrong(pairs, name, TIME_RULE))
}

fn wrong(pairs: &[(String, String)], name: &str, rule: &str) -> Problem {
    Problem::parameter(name, text(pairs, name), rule)
}

/// 404 for what neither the policy nor a gateway nor the history knows.
async fn known(state: &AppState, key: &str) -> Result<(), Problem> {
    let is_known = state.limit_published(key).is_some()
        || state.figures_of(key).compartments.contains_key(key)
        || state.history.knows(key).await;
    let key = wire::stream::bounded_text(key, 100);
    let unknown = || Problem::not_found(format!("there is no compartment {key:?}"));
    is_known.then_some(()).ok_or_else(unknown)
}

/// The changes within a series, newest first, with who made them and why.
async fn told(
    state: &AppState,
    changes: &[LimitChange],
    series: &Series,
) -> Result<Vec<LimitChanged>, Problem> {
    let to_ms = series.range.to_s.saturating_mul(1_000);
    let within = changes.iter().filter(|change| change.at_ms < to_ms);
    let mut told = Vec::new();
    for change in within.take(CHANGES_MAX) {
        let before = change.generation.checked_add(1);
        let about = state.generations(before, 1).await?.into_iter().next();
        let about = about.filter(|about| about.number == change.generation);
        told.push(LimitChanged {
            at: moment(change.at_ms),
            generation: change.generation,
            old: change.before,
            new: change.after,
            author: about.as_ref().map(|about| about.author.clone()),
            comment: about.map(|about| about.comment),
        });
    }
    Ok(told)
}

/// The key of a compartment that the policy names, and its limit there.
pub(crate) fn limit_in(
    policy: &compartment::policy::Policy,
    key: &str,
) -> Option<compartment::Limit> {
    match key.parse().ok()? {
        Key::Gateway => compartment::Limit::new(policy.gateway.capacity).ok(),
        Key::Route(id) => {
            let route = policy.routes.iter().find(|route| route.id == id);
            route.map(|route| route.compartment.limit)
        }
        Key::Stream(id) => {
            let route = policy.routes.iter().find(|route| route.id == id)?;
            route.compartment.stream.map(|stream| stream.limit)
        }
        Key::Fallback(id) => {
            let route = policy.routes.iter().find(|route| route.id == id)?;
            route.fallback_limit()
        }
        Key::Upstream(id) => {
            let upstream = policy.upstreams.iter().find(|upstream| upstream.id == id);
            upstream.map(|upstream| upstream.limit)
        }
        Key::Tenant(id) => {
            let tenant = policy.tenants.iter().find(|tenant| tenant.id == id);
            tenant.map(|tenant| tenant.limit)
        }
        Key::TenantRoute(..) => None,
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        let detail = error.to_string();
        match error {
            HistoryError::Away(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "history-away", detail)
            }
            HistoryError::Store(error) => error.into(),
        }
    }
}

pub(super) use super::points::moment;
