//! `GET /routes`: which requests go where, and what would become of one more.
//!
//! Separate page by page. A page costs in proportion to the rows it shows: only their compartments
//! are added up. It must never take a credential from an address, nor change anything.

use std::collections::HashSet;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::{Policy, Route};
use compartment::{Figures, Level};
use http::StatusCode;
use serde::Deserialize;
use web::{Looked, RouteRow, RoutesPage, RoutesView, Template as _, TryForm};

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, dry_run, html};
use crate::state::AppState;
use crate::store::StoreError;

/// The most names of tenants that the form offers.
const TENANTS_MAX: usize = 50;
/// The longest text of the form, in characters.
const TYPED_CHARS_MAX: usize = 1_000;

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Viewed {
    state: String,
    find: String,
    upstream: String,
    page: String,
    method: String,
    host: String,
    path: String,
    tenant: String,
    fragment: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(viewed) = viewed.unwrap_or_default();
    let asked = Asked::of(&request);
    match body(&state, &asked, viewed).await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/routes".to_owned())),
    }
}

async fn body(state: &AppState, asked: &Asked, viewed: Viewed) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let view = RoutesView::parse(&viewed.state, &viewed.find, &viewed.upstream, &viewed.page);
    let frame = asked.frame(&current, &snapshot, view.href());
    // With 10,000 routes there is much to look through: not on a thread that pushes policies.
    let made = tokio::task::spawn_blocking(move || {
        let is_live = viewed.fragment == "live";
        let mut page = RoutesPage {
            frame,
            view,
            rows: Vec::new(),
            matching: 0,
            counts: (0, 0),
            broken: current.policy.is_err(),
            ask: TryForm::default(),
        };
        if let Ok(policy) = &current.policy {
            choose(&mut page, policy, &snapshot);
            if !is_live {
                page.ask = tried(viewed, policy, &snapshot);
            }
        }
        if is_live {
            page.fragment()
        } else {
            page.render()
        }
    });
    Ok(made.await.map_err(|_| StoreError::Closed)??)
}

/// The rows of the view, and how many there are.
fn choose(page: &mut RoutesPage, policy: &Policy, snapshot: &Snapshot) {
    let named: Vec<&Route> = policy
        .routes
        .iter()
        .filter(|route| page.view.names(policy, route))
        .collect();
    let troubled = in_trouble(snapshot);
    let is_troubled =
        |route: &&Route| RouteRow::keys(policy, route).any(|key| troubled.contains(&key));
    let problems: Vec<&Route> = named.iter().copied().filter(is_troubled).collect();
    page.counts = (named.len(), problems.len());
    let chosen = if page.view.problems { problems } else { named };
    page.matching = chosen.len();
    let place = page.place().within();
    page.view.page = place.page;
    let shown: Vec<&Route> = place.cut(chosen);
    let keys: HashSet<String> = shown
        .iter()
        .flat_map(|route| RouteRow::keys(policy, route))
        .collect();
    let looked = looked(snapshot, |key| keys.contains(key));
    let row = |route: &Route| RouteRow::new(policy, route, &looked);
    page.rows = shown.into_iter().map(row).collect();
}

/// Sums and figures of the wanted compartments.
pub(super) fn looked(snapshot: &Snapshot, wanted: impl Fn(&str) -> bool) -> Looked {
    let readings = snapshot.readings_where(|figures| wanted(&figures.key));
    Looked {
        readings: readings.into_iter().map(|r| (r.key.clone(), r)).collect(),
        figures: snapshot.sums(wanted),
    }
}

/// Routes and upstreams that are worth a look, breakers and endpoints included.
fn in_trouble(snapshot: &Snapshot) -> HashSet<String> {
    let of_rows = |figures: &Figures| matches!(figures.level, Level::Route | Level::Upstream);
    let readings = snapshot.readings_where(of_rows).into_iter();
    let full = readings.filter(|reading| reading.state.is_problem());
    let shut = snapshot.figured().flat_map(|(_, figures)| figures);
    let shut = shut.filter(|figures| {
        let breaker = figures.breaker.as_deref();
        let endpoints = figures.endpoints.as_deref();
        breaker.is_some_and(|breaker| breaker.state.is_trouble())
            || endpoints.is_some_and(|endpoints| endpoints.all_used)
    });
    let shut = shut.map(|figures| figures.key.clone());
    full.map(|reading| reading.key).chain(shut).collect()
}

fn tried(viewed: Viewed, policy: &Policy, snapshot: &Snapshot) -> TryForm {
    let text = |text: String| -> String { text.trim().chars().take(TYPED_CHARS_MAX).collect() };
    let names = policy.tenants.iter().take(TENANTS_MAX);
    let mut form = TryForm {
        method: text(viewed.method),
        host: text(viewed.host),
        path: text(viewed.path),
        tenant: text(viewed.tenant),
        tenants: names.map(|tenant| tenant.id.to_string()).collect(),
        has_tenants: policy.identify.is_some(),
        error: None,
        answer: None,
    };
    if form.method.is_empty() {
        form.method = "GET".to_owned();
    }
    if !form.path.is_empty() {
        match dry_run::run(policy, snapshot, &form) {
            Ok(tried) => form.answer = Some(tried),
            Err(error) => form.error = Some(error),
        }
    }
    form
}
