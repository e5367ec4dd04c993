//! `GET /alerts`.
//!
//! Separate because it speaks of what happened, not of the policy. It must never show an alert in
//! another state than pages and notices do.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};

use super::{Problem, input};
use crate::alerts::{self, Alert, Rules};
use crate::state::AppState;
use crate::store::{ALERTS_PAGE_MAX, AlertFilter};

/// How many are listed unless the caller says.
const PAGE: u32 = 100;
const STATES: [&str; 5] = ["", "active", "pending", "firing", "resolved"];
const SEVERITIES: [&str; 3] = ["", "page", "ticket"];

/// Active alerts first, then those that are over, newest first; `before=N` continues.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let names = ["state", "severity", "compartment", "before", "count"];
    let pairs = input::query(&input::parts(request).0, &names)?;
    let wanted: String = input::parameter(&pairs, "state", "a state")?.unwrap_or_default();
    let severity: String = input::parameter(&pairs, "severity", "a word")?.unwrap_or_default();
    let compartment: String = input::parameter(&pairs, "compartment", "a key")?.unwrap_or_default();
    let before: Option<u64> = input::parameter(&pairs, "before", "the number of an alert")?;
    let rule = format!("a whole number from 1 to {ALERTS_PAGE_MAX}");
    let count = input::parameter(&pairs, "count", &rule)?.unwrap_or(PAGE);
    if !(1..=ALERTS_PAGE_MAX).contains(&count) {
        return Err(refused("count", &count.to_string(), &rule));
    }
    one_of("state", &wanted, &STATES)?;
    one_of("severity", &severity, &SEVERITIES)?;
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
    let alerts: Vec<Json> = found.iter().map(|alert| one(alert, &rules)).collect();
    Ok(axum::Json(json!({ "alerts": alerts, "next": next })).into_response())
}

fn one_of(name: &str, value: &str, all: &[&str]) -> Result<(), Problem> {
    let rule = format!(
        "one of {}",
        all.iter().skip(1).copied().collect::<Vec<_>>().join(", ")
    );
    all.contains(&value)
        .then_some(())
        .ok_or_else(|| refused(name, value, &rule))
}

fn refused(name: &str, value: &str, rule: &str) -> Problem {
    let value = wire::stream::bounded_text(value, 40);
    Problem::bad_request(format!("query parameter {name} = {value}: {rule}"))
}

/// One alert with its arithmetic.
fn one(alert: &Alert, rules: &Rules) -> Json {
    let at = |ms: Option<i64>| ms.map(alerts::instant);
    let silent = Some(alert.silenced_until_ms).filter(|until| *until > 0);
    json!({
        "id": Some(alert.id).filter(|id| *id > 0),
        "alert": alert.cause.alert_name(),
        "cause": alert.cause,
        "severity": alert.severity,
        "state": alert.state,
        "compartment": alert.compartment,
        "level": alert.level,
        "upstreams": alert.upstreams,
        "since": at(Some(alert.since_ms)),
        "fired_at": at(Some(alert.fired_ms).filter(|_| alert.id > 0)),
        "resolved_at": at(alert.resolved_ms),
        "ended": alert.ended,
        "episodes": alert.episodes,
        "rule": alert.rule,
        "why": alerts::why(alert, rules),
        "evidence": alert.evidence,
        "gateways": alert.gateways,
        "told": alert.episodes > 0 && alert.told.firing == alert.episodes,
        "silenced_until": at(silent),
    })
}
