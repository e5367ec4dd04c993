//! `GET /tenants`, and the form that makes one.
//!
//! Separate page by page. Rows are chosen off the threads that push policies; it must never show a
//! row without saying of how many.

use std::collections::BTreeMap;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::{Identifier, Policy, Tenant, Unknown, Value};
use compartment::{Key, Level};
use http::StatusCode;
use serde::Deserialize;
use web::{
    CROWDS_MAX, Crowd, Pager, TENANT_ROWS_MAX, Template as _, TenantForm, TenantRow, TenantsOrder,
    TenantsPage, TenantsView, TenantsWanted, UnknownRow, Used,
};

use super::edit::form;
use super::frame::Asked;
use super::readings::Snapshot;
use super::tenant_form::{Sent, faults_by_field};
use super::{PageError, html, see_other};
use crate::auth;
use crate::limits::{self, Entry, LimitsError, Named};
use crate::rollout::Published;
use crate::state::AppState;
use crate::store::StoreError;
use crate::tenants::{self, Query as Wanted, Sort, Sums, Told};

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Viewed {
    state: String,
    find: String,
    plan: String,
    sort: String,
    page: String,
    fragment: String,
    said: String,
    generation: String,
}

impl Viewed {
    pub(super) fn view(&self) -> TenantsView {
        TenantsView::parse(&self.state, &self.find, &self.plan, &self.sort, &self.page)
    }

    fn said(&self) -> Option<String> {
        let generation = self.generation.parse::<u64>().ok()?;
        match self.said.as_str() {
            "deleted" => Some(format!(
                "The tenant is deleted with generation {generation}."
            )),
            _ => None,
        }
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    viewed: Result<Query<Viewed>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(viewed) = viewed.unwrap_or_default();
    let asked = Asked::of(&request);
    let made = body(&state, &asked, viewed, TenantForm::default()).await;
    match made {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some("/tenants".to_owned())),
    }
}

async fn body(
    state: &AppState,
    asked: &Asked,
    viewed: Viewed,
    form: TenantForm,
) -> Result<String, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let view = viewed.view();
    let frame = asked.frame(&current, &snapshot, view.href());
    let said = viewed.said();
    let (state, is_live) = (state.clone(), viewed.fragment == "live");
    let made = tokio::task::spawn_blocking(move || {
        let told = Told::of(&state);
        let mut page = TenantsPage {
            frame,
            view,
            rows: Vec::new(),
            matching: 0,
            total: 0,
            unknown: None,
            crowds: Vec::new(),
            recognised: Vec::new(),
            plans: Vec::new(),
            form,
            said,
        };
        if let Some((policy, _)) = current.tenants() {
            page.total = policy.tenants.len();
            page.unknown = unknown(policy, &told);
            page.crowds = crowds(&state, policy, &told);
            page.recognised = recognised(policy);
            page.plans = plans(policy);
            rows(&mut page, &current, &told);
        }
        if is_live {
            page.fragment()
        } else {
            page.render()
        }
    });
    Ok(made.await.map_err(|_| StoreError::Closed)??)
}

pub(super) fn wanted(view: &TenantsView, skip: usize, count: usize) -> Wanted {
    let sort = match view.sort {
        TenantsOrder::Name => Sort::Id,
        TenantsOrder::InFlight => Sort::InFlight,
        TenantsOrder::Share => Sort::Share,
        TenantsOrder::Rejected => Sort::Rejected,
    };
    Wanted {
        find: view.find.clone(),
        plan: (!view.plan.is_empty()).then(|| view.plan.clone()),
        suspended: (view.state == TenantsWanted::Suspended).then_some(true),
        saturated: (view.state == TenantsWanted::Full).then_some(true),
        sort,
        after: None,
        skip,
        count,
    }
}

fn rows(page: &mut TenantsPage, current: &Published, told: &Told) {
    let Some((policy, by_name)) = current.tenants() else {
        return;
    };
    let pager = |page, matching| Pager {
        page,
        rows_max: TENANT_ROWS_MAX,
        matching,
    };
    let skip = pager(page.view.page, usize::MAX).skipped();
    let first = tenants::select(
        policy,
        by_name,
        told,
        &wanted(&page.view, skip, TENANT_ROWS_MAX),
    );
    page.matching = first.matching;
    let within = pager(page.view.page, first.matching).within();
    let rows = if within.page == page.view.page {
        first.rows
    } else {
        // There are not so many: the last page.
        page.view.page = within.page;
        let last = wanted(&page.view, within.skipped(), TENANT_ROWS_MAX);
        tenants::select(policy, by_name, told, &last).rows
    };
    page.rows = rows
        .into_iter()
        .map(|placed| row(current, policy, told, placed))
        .collect();
}

/// One row.
pub(super) fn row(
    current: &Published,
    policy: &Policy,
    told: &Told,
    (at, tenant): tenants::Placed<'_>,
) -> TenantRow {
    let own = tenants::entry(&current.document, at);
    let plan = tenant.plan.and_then(|at| policy.plans.get(at));
    let sums = told.sums(&format!("tenant/{}", tenant.id), tenant.limit);
    TenantRow {
        id: tenant.id.to_string(),
        plan: plan.map(|plan| plan.id.to_string()),
        limit: tenant.limit.slots().map(u64::from),
        has_own_limit: own.is_some_and(|own| own.get("limit").is_some()),
        suspended: tenant.suspended,
        keys: tenant.api_keys.len(),
        used: sums.as_ref().map(used),
    }
}

fn used(sums: &Sums) -> Used {
    Used {
        in_flight: sums.in_flight,
        peak: sums.peak,
        promised: sums.promised,
        rejected: sums.rejected_all(),
        rejected_lately: sums.rejected_lately,
        full: sums.saturated,
    }
}

fn unknown(policy: &Policy, told: &Told) -> Option<UnknownRow> {
    Some(match policy.identify.as_ref()?.unknown {
        Unknown::Reject => UnknownRow {
            shared: None,
            used: None,
        },
        Unknown::Shared { limit } => UnknownRow {
            shared: Some(limit.to_string()),
            used: told.sums("tenant/_unknown", limit).as_ref().map(used),
        },
    })
}

/// The names of all plans.
pub(super) fn plans(policy: &Policy) -> Vec<String> {
    policy
        .plans
        .iter()
        .map(|plan| plan.id.to_string())
        .collect()
}

fn recognised(policy: &Policy) -> Vec<String> {
    let by = policy.identify.iter().flat_map(|identify| &identify.by);
    by.map(|by| match by {
        Identifier::ApiKey { header } => format!("the API key in {header}"),
        Identifier::Host => "its hosts".to_owned(),
        Identifier::PathSegment { index } => format!("segment {index} of the path"),
        Identifier::Header { name, .. } => format!("the header {name} of trusted peers"),
    })
    .collect()
}

/// Routes that are full or refuse, with who holds most there and who was refused.
fn crowds(state: &AppState, policy: &Policy, told: &Told) -> Vec<Crowd> {
    let mut found: Vec<(u64, Crowd)> = Vec::new();
    for route in &policy.routes {
        let key = Key::Route(route.id.clone()).to_string();
        let Some(sums) = told.sums(&key, route.compartment.limit) else {
            continue;
        };
        if !sums.saturated && sums.rejected_lately == 0 {
            continue;
        }
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for (tenant, figures) in told.on_route(route.id.as_str()) {
            if figures.level == Level::TenantRoute && figures.in_flight > 0 {
                let own = held.entry(tenant).or_default();
                *own = own.saturating_add(figures.in_flight.into());
            }
        }
        let most = held
            .iter()
            .max_by_key(|(id, held)| (**held, std::cmp::Reverse(**id)));
        let crowd = Crowd {
            route: route.id.to_string(),
            in_flight: sums.in_flight,
            limit: sums.promised,
            most: most.map(|(id, held)| ((*id).to_owned(), *held)),
            tenants: held.len(),
            hurt: hurt(state, &key),
        };
        found.push((sums.rejected_lately, crowd));
    }
    found.sort_by_key(|(rejected, _)| std::cmp::Reverse(*rejected));
    let crowds = found.into_iter().map(|(_, crowd)| crowd);
    crowds.take(CROWDS_MAX).collect()
}

/// Whose requests were refused at a route, of the newest that gateways noted.
fn hurt(state: &AppState, key: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for refused in state.newest.of(key) {
        if !refused.tenant.is_empty() {
            let count = counts.entry(refused.tenant).or_default();
            *count = count.saturating_add(1);
        }
    }
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

/// The form that makes a tenant.
pub(super) async fn create(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let made = async {
        let sent = form::<Sent>(request).await?;
        let fields = sent.fields();
        let id = sent.id.trim().to_owned();
        let told = limits::Asked {
            comment: &sent.comment,
            ..limits::Asked::default()
        };
        if let Err(rule) = compartment::Name::new(&id) {
            let errors = vec![("id".to_owned(), rule.to_string())];
            return Ok(Err((StatusCode::UNPROCESSABLE_ENTITY, sent.typed(errors))));
        }
        let entry = Entry::Create(fields);
        let stored = state.limits.entry(Named::Tenant, &id, entry, told, &author);
        match stored.await {
            Ok(stored) => Ok(Ok(match stored.opened() {
                Some(change) => web::url::change(change),
                None => web::url::tenant(&id),
            })),
            Err(LimitsError::Invalid { faults }) => {
                let errors = faults_by_field(&faults, &format!("/tenants/{id}/"));
                Ok(Err((StatusCode::UNPROCESSABLE_ENTITY, sent.typed(errors))))
            }
            Err(error @ LimitsError::Exists { .. }) => {
                let errors = vec![("id".to_owned(), error.to_string())];
                Ok(Err((StatusCode::CONFLICT, sent.typed(errors))))
            }
            Err(error) => Err(PageError::Limits(error)),
        }
    };
    let answer = match made.await {
        Ok(Ok(place)) => return see_other(&place),
        Ok(Err((status, form))) => {
            let page = body(&state, &asked, Viewed::default(), form).await;
            page.map(|page| html(status, page))
        }
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| error.answer(&asked.request_id, Some("/tenants".to_owned())))
}

/// The tenant of a page, and its entry in the document.
pub(super) fn placed<'a>(
    current: &'a Published,
    id: &str,
) -> Result<(&'a Policy, usize, &'a Tenant, Option<&'a Value>), PageError> {
    let missing = PageError::NotFound {
        what: "There is no such tenant.",
    };
    let Some((policy, by_name)) = current.tenants() else {
        return Err(missing);
    };
    let (at, tenant) = by_name.find(policy, id).ok_or(missing)?;
    Ok((policy, at, tenant, tenants::entry(&current.document, at)))
}
