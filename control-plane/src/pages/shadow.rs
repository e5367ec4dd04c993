//! `GET /shadow`: limits that are judged and not enforced.
//!
//! Separate page by page. It changes nothing itself: its buttons send the form of the compartment.
//! It must never offer to enforce what the policy does not have in shadow.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::{Policy, Route};
use compartment::{Key, Level, Mode};
use http::StatusCode;
use serde::Deserialize;
use web::{Holder, Holders, Reading, ShadowPage, Template as _, WATCHES_MAX, Watch, Watched};

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, html};
use crate::state::AppState;
use crate::store::StoreError;

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
    match body(&state, &asked, view).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/shadow".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, view: View) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let frame = asked.frame(&current, &snapshot, "/shadow".to_owned());
    // With 100,000 tenants there is much to add up: not on a thread that pushes policies.
    let made = tokio::task::spawn_blocking(move || {
        let nothing = Vec::new();
        let policy = current.policy.as_ref();
        let routes = policy.map_or(&nothing, |policy| &policy.routes);
        let mut watches = policy.map_or_else(|_| Vec::new(), watched);
        let more = watches.len().saturating_sub(WATCHES_MAX);
        watches.truncate(WATCHES_MAX);
        read(&snapshot, &mut watches);
        let of = |mode| {
            routes
                .iter()
                .filter(move |route| route.compartment.mode == mode)
        };
        let page = ShadowPage {
            frame,
            watches,
            more,
            enforcing: of(Mode::Enforce).count(),
            off: of(Mode::Off).map(key).take(WATCHES_MAX).collect(),
        };
        if view.fragment == "live" {
            page.fragment()
        } else {
            page.render()
        }
    });
    Ok(made.await.map_err(|_| StoreError::Closed)??)
}

fn key(route: &Route) -> String {
    Key::Route(route.id.clone()).to_string()
}

/// Every limit of the policy that is judged and not enforced, without figures.
fn watched(policy: &Policy) -> Vec<Watch> {
    let mut watches = Vec::new();
    for route in &policy.routes {
        let own = &route.compartment;
        let mut watch = |watched, judged: String| {
            watches.push(Watch {
                place: watches.len(),
                key: key(route),
                watched,
                judged,
                in_force: own.limit.to_string(),
                class: route.class,
                reading: None,
                tenants: Vec::new(),
            });
        };
        if own.mode == Mode::Shadow {
            watch(Watched::Shadow, own.limit.to_string());
        }
        if let Some(candidate) = own.candidate {
            watch(Watched::Candidate, candidate.to_string());
        }
    }
    watches
}

/// Adds the figures, and those of the tenants on each route.
fn read(snapshot: &Snapshot, watches: &mut [Watch]) {
    if watches.is_empty() {
        return;
    }
    let on = |watch: &Watch, reading: &str| {
        let rest = reading.strip_prefix(watch.key.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("/tenant/"))
    };
    let readings = {
        let watches = &*watches;
        snapshot.readings_where(|figures| watches.iter().any(|watch| on(watch, &figures.key)))
    };
    for watch in watches {
        let own = readings.iter().filter(|reading| on(watch, &reading.key));
        let (tenants, route): (Vec<&Reading>, Vec<&Reading>) =
            own.partition(|reading| reading.level == Level::TenantRoute);
        watch.reading = route.first().map(|reading| (*reading).clone());
        let tenants = tenants.into_iter().map(|reading| Holder {
            name: Holders::name_of("tenant", &reading.key),
            reading: reading.clone(),
        });
        watch.tenants = watch.choose_tenants(tenants.collect());
    }
}
