//! `GET /alerts` and the form that silences one.
//!
//! Separate page by page. What fires comes from memory, so the page stands while the store does
//! not. It must never silence without an end.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use web::{ALERTS_MAX, AlertRow, AlertsPage, Receivers, RuleRow, Template as _};

use super::edit::form;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, html, see_other};
use crate::alerts::{self, Alert, Cause, Rules, Severity};
use crate::auth;
use crate::clock;
use crate::state::AppState;
use crate::store::AlertFilter;

/// Longest silence that the form can ask for.
const SILENCE_HOURS_MAX: i64 = 24;
const HOUR_MS: i64 = 3_600_000;

/// The rules for a metrics stack, as `deploy/prometheus` has them.
const REFUSING: &str = "(bulkhead:saturated:ratio2m >= 0.8
  and bulkhead:rejected:increase2m >= 20
  and bulkhead:rejected:ratio2m > 14.4 * 0.001)
or
(bulkhead:rejected:ratio1h > 6 * 0.001
  and bulkhead:rejected:lasting5m > 6 * 0.001
  and bulkhead:rejected:increase1h >= 20)";
const FULL: &str = "bulkhead:saturated:ratio2m >= 0.8
  unless bulkhead:rejected:ratio2m > 14.4 * 0.001";

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    match body(&state, &asked, &view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/alerts".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, view: &View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let rules = state.alerts().rules();
    let filter = AlertFilter {
        state: "resolved".to_owned(),
        ..AlertFilter::default()
    };
    let count = u32::try_from(ALERTS_MAX).unwrap_or(u32::MAX);
    let over = state.alerts().recorded(&filter, count).await;
    let active = state.alerts().active();
    let now_ms = clock::unix_ms();
    let listed = |alert: &Alert| row(state, alert, &rules, now_ms);
    let store_silent = over.is_err();
    let over = over.unwrap_or_default();
    let page = AlertsPage {
        frame: asked.frame(&current, &snapshot, "/alerts".to_owned()),
        more: active.len().saturating_sub(ALERTS_MAX),
        active: active.iter().take(ALERTS_MAX).map(listed).collect(),
        recent: over
            .iter()
            .filter(|alert| !alert.is_firing())
            .map(listed)
            .collect(),
        rules: vec![
            rule(Cause::Refusing, &rules, REFUSING),
            rule(Cause::Full, &rules, FULL),
        ],
        receivers: receivers(state),
        store_silent,
    };
    Ok(if view.fragment == "live" {
        page.fragment()?
    } else {
        page.render()?
    })
}

/// What fires and what is pending, at most so many.
pub(super) fn active(state: &AppState, count: usize) -> Vec<AlertRow> {
    let (rules, now_ms) = (state.alerts().rules(), clock::unix_ms());
    let active = state.alerts().active();
    let listed = active.iter().take(count);
    listed
        .map(|alert| row(state, alert, &rules, now_ms))
        .collect()
}

fn rule(cause: Cause, rules: &Rules, promql: &'static str) -> RuleRow {
    RuleRow {
        name: cause.alert_name(),
        words: alerts::rule(cause, rules),
        promql,
    }
}

fn receivers(state: &AppState) -> Receivers {
    let (alerts, tried) = (state.alerts(), state.alerts().tried());
    Receivers {
        pages: alerts.receiver(Severity::Page),
        tickets: alerts.receiver(Severity::Ticket),
        taken: tried.taken,
        failed: tried.failed,
        lost: tried.lost,
    }
}

fn row(state: &AppState, alert: &Alert, rules: &Rules, now_ms: i64) -> AlertRow {
    let at = |ms: i64| moment(&alerts::instant(ms));
    let ended = alert.resolved_ms.zip(alert.ended);
    let until_ms = alert.resolved_ms.unwrap_or(now_ms);
    let has_receiver = state.alerts().receiver(alert.severity).is_some();
    let told = match (
        alert.state,
        alert.told.firing == alert.episodes,
        has_receiver,
    ) {
        (alerts::State::Pending, ..) => "",
        (_, true, _) => "It was told.",
        (_, false, true) => "It is about to be told.",
        (_, false, false) => "Nobody is told of it.",
    };
    let silent_ms = Some(alert.silenced_until_ms).filter(|until| *until > now_ms);
    let gateways = alert
        .gateways
        .iter()
        .filter(|burning| !burning.id.is_empty());
    AlertRow {
        id: alert.id,
        key: alert.compartment.clone(),
        what: match alert.cause {
            Cause::Refusing => "keeps refusing requests",
            Cause::Full => "stays full",
        },
        severity: alert.severity.as_str(),
        state: alert.state.as_str(),
        since: at(alert.since_ms),
        ended: ended.map(|(ms, why)| (at(ms), alerts::ended(why, rules))),
        lasted_ms: u64::try_from(until_ms.saturating_sub(alert.since_ms)).unwrap_or(0),
        episodes: alert.episodes,
        why: alerts::why(alert, rules),
        gateways: gateways
            .map(|burning| (burning.id.clone(), burning.now))
            .collect(),
        upstreams: alert.upstreams.clone(),
        told,
        silenced: silent_ms.map(|until| (at(until), alert.silenced_by.clone())),
    }
}

/// What the form sends.
#[derive(Debug, Deserialize)]
struct Sent {
    id: u64,
    hours: i64,
}

pub(super) async fn silence(State(state): State<AppState>, request: Request) -> Response {
    let asked = Asked::of(&request);
    let author = auth::author(request.extensions());
    match silenced(&state, request, &author.name).await {
        Ok(()) => see_other("/alerts"),
        Err(error) => error.answer(&asked.request_id, Some("/alerts".to_owned())),
    }
}

async fn silenced(state: &AppState, request: Request, by: &str) -> Result<(), PageError> {
    let sent: Sent = form(request).await?;
    if !(0..=SILENCE_HOURS_MAX).contains(&sent.hours) {
        return Err(PageError::Form {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            what: "A silence lasts from 0 to 24 hours.",
        });
    }
    let until_ms = match sent.hours {
        0 => 0,
        hours => clock::unix_ms().saturating_add(hours.saturating_mul(HOUR_MS)),
    };
    if !state.alerts().silence(sent.id, until_ms, by) {
        return Err(PageError::NotFound {
            what: "This alert does not fire any more.",
        });
    }
    tracing::info!(
        alert.id = sent.id,
        hours = sent.hours,
        by,
        "an alert was silenced"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the page shows is what `deploy/prometheus` runs.
    #[test]
    fn the_page_and_the_rules_file_say_the_same() {
        let file = include_str!("../../../deploy/prometheus/bulkhead.rules.yml");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expression in [REFUSING, FULL] {
            assert!(words(file).contains(&words(expression)), "{expression}");
        }
    }

    #[test]
    fn moments_are_of_the_wall() {
        assert_eq!(moment(&alerts::instant(0)).iso, "1970-01-01T00:00:00.000Z");
    }
}
