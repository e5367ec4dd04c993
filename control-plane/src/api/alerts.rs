//! `GET /alerts`.
//!
//! Separate because it speaks of what happened, not of the policy. It must never show an alert in
//! another state than pages and notices do.

use axum::extract::Request;
use axum::extract::State as Of;
use axum::response::{IntoResponse, Response};
use compartment::Level;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::{Problem, input};
use crate::access::VIEWER;
use crate::alerts::{self, Alert, Burning, Cause, Ended, Evidence, Rule, Rules, Severity, State};
use crate::state::AppState;
use crate::store::{ALERTS_PAGE_MAX, AlertFilter};

/// How many are listed unless the caller says.
const PAGE: u32 = 100;
const STATES: &[&str] = &["active", "pending", "firing", "resolved"];
const SEVERITIES: &[&str] = &["page", "ticket"];

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    let count = Kind::Within(1, ALERTS_PAGE_MAX.into(), PAGE.into());
    vec![
        Call::get("/alerts", VIEWER, list)
            .says(
                "getAlerts",
                "Alerts that fire or are pending, then those that are over",
            )
            .query("state", Kind::OneOf(STATES), "Only these.")
            .query("severity", Kind::OneOf(SEVERITIES), "Only these.")
            .query("compartment", Kind::Text(0), "Only those of this key.")
            .query(
                "before",
                Kind::From(1),
                "Alerts that are over and have a lower number: `next` of the answer before.",
            )
            .query("count", count, "How many that are over.")
            .answers::<AlertList>("Active ones first, then those that are over, newest first"),
    ]
}

/// Active alerts first, then those that are over, newest first; `before=N` continues.
pub(super) async fn list(Of(state): Of<AppState>, request: Request) -> Result<Response, Problem> {
    let names = ["state", "severity", "compartment", "before", "count"];
    let pairs = input::query(&input::parts(request).0, &names)?;
    let wanted = one_of(&pairs, "state", STATES)?;
    let severity = one_of(&pairs, "severity", SEVERITIES)?;
    let compartment: String = input::parameter(&pairs, "compartment", "a key")?.unwrap_or_default();
    let before = input::place(&pairs, "before")?;
    let rule = format!("a whole number from 1 to {ALERTS_PAGE_MAX}");
    let count = input::parameter(&pairs, "count", &rule)?.unwrap_or(PAGE);
    if !(1..=ALERTS_PAGE_MAX).contains(&count) {
        return Err(Problem::parameter("count", Some(&count.to_string()), &rule));
    }
    let mut found = Vec::new();
    if wanted != "resolved" && before.is_none() {
        found = state.alerts().active();
        found.retain(|alert| {
            (matches!(wanted.as_str(), "" | "active") || alert.state.as_str() == wanted)
                && (severity.is_empty() || alert.severity.as_str() == severity)
                && (compartment.is_empty() || alert.compartment == compartment)
        });
    }
    let mut next = None;
    if matches!(wanted.as_str(), "" | "resolved") {
        let filter = AlertFilter {
            state: "resolved".to_owned(),
            severity,
            compartment,
            before,
        };
        let over = state.alerts().recorded(&filter, count).await?;
        let is_full = u32::try_from(over.len()).is_ok_and(|n| n == count);
        next = over.last().map(|alert| alert.id).filter(|_| is_full);
        // What fires again meanwhile stands above already.
        found.extend(over.into_iter().filter(|alert| !alert.is_firing()));
    }
    let rules = state.alerts().rules();
    let alerts = found.iter().map(|alert| one(alert, &rules)).collect();
    Ok(axum::Json(AlertList { alerts, next }).into_response())
}

/// One of these words, or empty where nothing was asked for.
fn one_of(pairs: &[(String, String)], name: &str, all: &[&str]) -> Result<String, Problem> {
    let Some(value) = input::parameter::<String>(pairs, name, "text")? else {
        return Ok(String::new());
    };
    if all.contains(&value.as_str()) {
        return Ok(value);
    }
    let rule = format!("one of {}", all.join(", "));
    Err(Problem::parameter(name, Some(&value), &rule))
}

/// One alert with its arithmetic.
#[derive(Serialize, ToSchema)]
#[schema(as = Alert)]
struct Told {
    /// Its number; null while it is pending.
    #[schema(required)]
    id: Option<u64>,
    /// Its name in metrics and notices.
    alert: &'static str,
    cause: Cause,
    severity: Severity,
    state: State,
    /// The key of the compartment.
    compartment: String,
    level: Level,
    /// The upstreams behind it.
    upstreams: Vec<String>,
    /// When the trouble began.
    since: String,
    /// When it fired; null while it is pending.
    #[schema(required)]
    fired_at: Option<String>,
    /// When it ended.
    #[schema(required)]
    resolved_at: Option<String>,
    /// Why it ended.
    #[schema(required)]
    ended: Option<Ended>,
    /// How often it fired: what comes back within half an hour is the same alert.
    episodes: u32,
    rule: Rule,
    /// The arithmetic in words.
    why: String,
    /// The figures that decided, of the gateway that is worst.
    evidence: Evidence,
    /// Where it happened.
    gateways: Vec<Burning>,
    /// Whether its beginning was told to the receivers of notices.
    told: bool,
    /// Nobody is told before this moment.
    #[schema(required)]
    silenced_until: Option<String>,
}

/// Alerts, and where the list goes on.
#[derive(Serialize, ToSchema)]
struct AlertList {
    /// Active ones first, then those that are over, newest first.
    alerts: Vec<Told>,
    /// `before` of the next page; null at the end.
    #[schema(required)]
    next: Option<u64>,
}

fn one(alert: &Alert, rules: &Rules) -> Told {
    let at = |ms: Option<i64>| ms.map(alerts::instant);
    let silent = Some(alert.silenced_until_ms).filter(|until| *until > 0);
    Told {
        id: Some(alert.id).filter(|id| *id > 0),
        alert: alert.cause.alert_name(),
        cause: alert.cause,
        severity: alert.severity,
        state: alert.state,
        compartment: alert.compartment.clone(),
        level: alert.level,
        upstreams: alert.upstreams.clone(),
        since: alerts::instant(alert.since_ms),
        fired_at: at(Some(alert.fired_ms).filter(|_| alert.id > 0)),
        resolved_at: at(alert.resolved_ms),
        ended: alert.ended,
        episodes: alert.episodes,
        rule: alert.rule,
        why: alerts::why(alert, rules),
        evidence: alert.evidence,
        gateways: alert.gateways.clone(),
        told: alert.episodes > 0 && alert.told.firing == alert.episodes,
        silenced_until: at(silent),
    }
}
