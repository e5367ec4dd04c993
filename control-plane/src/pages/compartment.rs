//! `GET /compartments/{key}`.
//!
//! Separate from the change of a limit, which shows the same page with the form as it was sent. It
//! must never name a compartment that neither the policy nor a gateway knows.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use compartment::policy::Policy;
use compartment::{Key, Level};
use http::StatusCode;
use serde::Deserialize;
use web::{
    Ask, CompartmentPage, Effective, FindingRow, Holders, PARTS_MAX, RejectedRow, RouteRow,
    Settable, Surround, Template as _, effective_values, not_isolated,
};

use super::edit_sent::fresh;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, advice, held, html, over_time, overrides};
use crate::refused::Refused;
use crate::rollout::Published;
use crate::state::AppState;
use crate::{limits, linter};

/// Rejections that are listed; the API tells all that are kept.
const NEWEST_ROWS_MAX: usize = 10;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    saved: String,
    change: String,
    fragment: String,
    range: String,
    what_if: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Path(key): Path<String>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    match shown(&state, &asked, &key, &view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some(asked.here().to_owned())),
    }
}

async fn shown(
    state: &AppState,
    asked: &Asked,
    key: &str,
    view: &View,
) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let mut page = page(state, asked, &current, key)?;
    // An address that somebody made up cannot claim a change.
    let saved = view.saved.parse::<u64>().ok();
    // Long ranges move slowly: a live page keeps what it has of them.
    let is_live = view.fragment == "live";
    if !is_live || matches!(view.range.as_str(), "" | "15m" | "1h") {
        let policy = current.policy.as_ref().ok();
        page.over_time = Some(over_time::panel(state, policy, key, &view.range).await);
    }
    if !is_live && matches!(page.edit, Settable::Form(_)) {
        let form = Ask {
            action: web::url::compartment(key),
            key: key.to_owned(),
            fixed: true,
            limit: view.what_if.chars().take(20).collect(),
            ..Ask::default()
        };
        page.overrides = overrides::of(state, key).await.ok();
        page.ask = Some(advice::ask(state, current.policy.as_ref().ok(), form).await);
    }
    page.saved = saved.filter(|saved| (1..=current.about.number).contains(saved));
    if let (Some(saved), Ok(number)) = (page.saved, view.change.parse::<u64>()) {
        let left = state.changes.left_s(number, saved).await;
        page.keeps = left.map(|left| (number, web::text::countdown(left)));
    }
    Ok(if is_live {
        page.fragment()?
    } else {
        page.render()?
    })
}

/// The page with a fresh form.
pub(super) fn page(
    state: &AppState,
    asked: &Asked,
    current: &Published,
    key: &str,
) -> Result<CompartmentPage, PageError> {
    let snapshot = Snapshot::take(state);
    let reading = snapshot.reading(key);
    let parsed = key.parse::<Key>().ok();
    let policy = current.policy.as_ref().ok();
    let named = parsed
        .as_ref()
        .zip(policy)
        .is_some_and(|(key, policy)| is_named(policy, key));
    let level = match (&parsed, &reading) {
        (Some(key), _) if named => key.level(),
        (_, Some(reading)) => reading.level,
        _ => {
            return Err(PageError::NotFound {
                what: "There is no such compartment.",
            });
        }
    };
    let known = parsed.as_ref().zip(policy);
    let effective = known
        .map(|(key, policy)| effective_values(&current.document, policy, key))
        .unwrap_or_default();
    let streams = match &parsed {
        Some(Key::Route(id)) => snapshot.reading(&Key::Stream(id.clone()).to_string()),
        _ => None,
    };
    Ok(CompartmentPage {
        frame: asked.frame(current, &snapshot, web::url::compartment(key)),
        key: key.to_owned(),
        level,
        owner: known.and_then(|(key, policy)| owner(policy, key)),
        times: snapshot.times(key),
        holders: known.map_or_else(Holders::default, |(key, policy)| {
            held::holders(&snapshot, policy, key)
        }),
        streams,
        ladder: known
            .and_then(|(key, policy)| super::ladder::ladder(state, &snapshot, policy, key)),
        spare: known.and_then(|(key, policy)| held::spare(&snapshot, policy, key)),
        rules: known
            .map(|(key, policy)| held::rules(policy, key, reading.as_ref()))
            .unwrap_or_default(),
        reading,
        parts: snapshot.parts(key, PARTS_MAX),
        edit: settable(current, parsed.as_ref(), &effective),
        saved: None,
        keeps: None,
        effective,
        not_isolated: known
            .map(|(key, policy)| not_isolated(policy, key))
            .unwrap_or_default(),
        over_time: None,
        ask: None,
        overrides: Some(Vec::new()),
        plan: web::OverrideForm::of(key),
        around: known
            .map(|(key, policy)| around(&snapshot, policy, key))
            .unwrap_or_default(),
        newest: newest(state, key),
        findings: known
            .map(|(_, policy)| findings(current, policy, key))
            .unwrap_or_default(),
    })
}

/// Breaker and retries, of those that have them.
fn around(snapshot: &Snapshot, policy: &Policy, key: &Key) -> Surround {
    match key {
        Key::Route(id) => {
            let Some(route) = policy.routes.iter().find(|route| route.id == *id) else {
                return Surround::default();
            };
            let keys: Vec<String> = RouteRow::keys(policy, route).collect();
            let sums = snapshot.sums(|key| keys.iter().any(|own| own == key));
            let mut figures = keys.iter().map(|key| sums.get(key));
            let own = figures.next().flatten();
            let around = Surround::of_route(policy, route, own, figures.next().flatten());
            Surround {
                steps: Vec::new(),
                ..around
            }
        }
        Key::Upstream(id) => {
            let upstream = policy.upstreams.iter().find(|one| one.id == *id);
            let name = key.to_string();
            let sums = snapshot.sums(|key| key == name);
            upstream.map_or_else(Surround::default, |one| {
                Surround::of_upstream(one, sums.get(&name))
            })
        }
        Key::Gateway
        | Key::Stream(_)
        | Key::Fallback(_)
        | Key::Tenant(_)
        | Key::TenantRoute(..) => Surround::default(),
    }
}

/// The newest rejections, as many as are kept.
fn newest(state: &AppState, key: &str) -> Vec<RejectedRow> {
    let row = |refused: Refused| RejectedRow {
        at: moment(&crate::alerts::instant(refused.at_ms)),
        reason: refused.reason,
        tenant: refused.tenant,
        gateway: refused.gateway.as_ref().to_owned(),
        trace_id: refused.trace_id,
        request_id: refused.request_id,
    };
    let newest = state.newest.of(key).into_iter();
    newest.take(NEWEST_ROWS_MAX).map(row).collect()
}

/// What the linter says of the values of one compartment.
pub(crate) fn findings(current: &Published, policy: &Policy, key: &str) -> Vec<FindingRow> {
    let Some(limit) = limits::place(&current.document, key, "limit") else {
        return Vec::new();
    };
    let steps = limit.steps();
    // `routes[2]` for a route, with its timeouts and retries; the table of the limit for others.
    let own = match key.starts_with("route/") {
        true => steps.get(..2),
        false => steps.get(..steps.len().saturating_sub(1)),
    };
    let own = own.unwrap_or_default();
    let of_this = |finding: &linter::Finding| finding.path.steps().starts_with(own);
    let row = |finding: linter::Finding| FindingRow {
        rule: finding.rule,
        path: finding.path.to_string(),
        message: finding.message,
    };
    linter::lint(policy)
        .into_iter()
        .filter(of_this)
        .map(row)
        .collect()
}

fn settable(current: &Published, key: Option<&Key>, values: &[Effective]) -> Settable {
    let Ok(policy) = &current.policy else {
        return Settable::No(
            "The stored policy breaks a rule of this build, so single limits cannot be changed. \
             Publish a whole policy with bulkhead apply.",
        );
    };
    let settable = key.filter(|key| policy.limit_of(key).is_some());
    match (settable, key.map(Key::level)) {
        (Some(key), _) => {
            let (document, number) = (&current.document, current.about.number);
            let edit = fresh(document, number, &key.to_string(), key.level());
            Settable::Form(Box::new(edit.with_values(values)))
        }
        (None, Some(Level::TenantRoute)) => Settable::No(
            "It has no limit of its own: it follows the route's tenant_limit and tenant_share, \
             which are on the route's page, and the limit that the tenant's plan sets for the \
             route, which is in the policy.",
        ),
        (None, _) => Settable::No("The policy does not name it, so it has no limit to change."),
    }
}

/// True when the policy names the compartment, with or without a limit of its own.
fn is_named(policy: &Policy, key: &Key) -> bool {
    match key {
        Key::TenantRoute(route, tenant) => {
            let route = policy.routes.iter().any(|one| one.id == *route);
            route && policy.limit_of(&Key::Tenant(tenant.clone())).is_some()
        }
        Key::Gateway
        | Key::Route(_)
        | Key::Stream(_)
        | Key::Fallback(_)
        | Key::Upstream(_)
        | Key::Tenant(_) => policy.limit_of(key).is_some(),
    }
}

fn owner(policy: &Policy, key: &Key) -> Option<String> {
    let (Key::Route(id) | Key::Stream(id) | Key::Fallback(id)) = key else {
        return None;
    };
    policy
        .routes
        .iter()
        .find(|one| one.id == *id)?
        .owner
        .clone()
}
