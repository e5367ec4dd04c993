//! `GET /shadow`: limits that are judged and not enforced.
//!
//! Separate page by page. It changes nothing itself: its buttons send the form of the compartment.
//! It must never offer to enforce what the policy does not have in shadow.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::{Policy, Route};
use compartment::{Figures, Key, Level, Mode};
use http::StatusCode;
use serde::Deserialize;
use web::{
    Beside, Holder, Holders, Look, Moment, Reading, ShadowPage, Template as _, WATCHES_MAX, Watch,
    Watched,
};

use super::frame::Asked;
use super::readings::Snapshot;
use super::{PageError, html};
use crate::clock;
use crate::state::AppState;
use crate::store::StoreError;
use crate::watched::{self, Bases, Terms};

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
    let mut watches = current.policy.as_ref().map_or_else(|_| Vec::new(), watched);
    let more = watches.len().saturating_sub(WATCHES_MAX);
    watches.truncate(WATCHES_MAX);
    let looked = Looked::take(state, &watches);
    let frame = asked.frame(&current, &looked.snapshot, "/shadow".to_owned());
    // With 100,000 tenants there is much to add up: not on a thread that pushes policies.
    let made = tokio::task::spawn_blocking(move || {
        let nothing = Vec::new();
        let policy = current.policy.as_ref();
        let routes = policy.map_or(&nothing, |policy| &policy.routes);
        if let Ok(policy) = policy {
            looked.read(policy, &mut watches);
        }
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

/// What the API tells of the watched limits of one route: the same that the page shows.
pub(crate) fn watches_of(state: &AppState, policy: &Policy, wanted: &Key) -> Vec<Watch> {
    let wanted = wanted.to_string();
    let mut watches = watched(policy);
    watches.retain(|watch| watch.key == wanted);
    if !watches.is_empty() {
        let looked = Looked::take(state, &watches);
        looked.read(policy, &mut watches);
    }
    watches
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
                beside: Beside {
                    limit: own.limit.to_string(),
                    mode: own.mode,
                },
                class: route.class,
                reading: None,
                since: None,
                elsewhere: 0,
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

/// Figures, and where they stood when each watched limit became what it is.
struct Looked {
    // Read before the figures, so that no figure is older than what is subtracted from it.
    bases: HashMap<Arc<str>, Bases>,
    snapshot: Snapshot,
    now_ms: i64,
}

impl Looked {
    fn take(state: &AppState, watches: &[Watch]) -> Self {
        let bases = state
            .watched
            .bases(watches.iter().map(|watch| watch.key.as_str()));
        Self {
            bases,
            snapshot: Snapshot::take(state),
            now_ms: clock::unix_ms(),
        }
    }

    /// Adds the figures, and those of the tenants on each route.
    fn read(&self, policy: &Policy, watches: &mut [Watch]) {
        if watches.is_empty() {
            return;
        }
        let terms = watched::terms(policy);
        for watch in watches {
            if let Some(terms) = terms.get(watch.key.as_str()) {
                self.read_one(terms, watch);
            }
        }
    }

    fn read_one(&self, terms: &Terms, watch: &mut Watch) {
        let mut counted: Vec<Vec<Figures>> = Vec::new();
        let mut since_ms: Option<i64> = None;
        for (id, figures) in self.snapshot.figured() {
            let base = self
                .bases
                .get(id)
                .and_then(|bases| bases.get(watch.key.as_str()));
            let own = base.map(|base| (base.since_ms, base.since(&watch.key, terms, figures)));
            match own.filter(|(_, figures)| !figures.is_empty()) {
                Some((from_ms, figures)) => {
                    since_ms = Some(since_ms.map_or(from_ms, |since| since.min(from_ms)));
                    counted.push(figures);
                }
                None => watch.elsewhere = watch.elsewhere.saturating_add(1),
            }
        }
        let looks = counted.iter().map(|now| Look { now, earlier: None });
        let (tenants, route): (Vec<Reading>, Vec<Reading>) = Reading::sum(looks)
            .into_iter()
            .partition(|reading| reading.level == Level::TenantRoute);
        watch.reading = route.into_iter().next();
        watch.since = since_ms.map(|since_ms| self.moment(since_ms));
        let tenants = tenants
            .into_iter()
            // A sum of tenants that are gone, counted before this limit too.
            .filter(|reading| !reading.key.ends_with("/tenant/_idle"))
            .map(|reading| Holder {
                name: Holders::name_of("tenant", &reading.key),
                reading,
            });
        watch.tenants = watch.choose_tenants(tenants.collect());
    }

    fn moment(&self, unix_ms: i64) -> Moment {
        let iso = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let ago_ms = self.now_ms.saturating_sub(unix_ms);
        Moment {
            iso: format!("{iso:.3}"),
            ago_ms: u64::try_from(ago_ms).unwrap_or(0),
        }
    }
}
