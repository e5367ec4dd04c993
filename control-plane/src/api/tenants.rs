//! `GET /tenants` and `/tenants/{id}`: lists, and what is in force for one and why.
//!
//! Separate because callers name a tenant, not a place of the document. It must never answer with
//! a key or the digest of one.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::{Identifier, Policy, Tenant, Unknown};
use compartment::{Key, Limit, Name};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::input::{self, Path};
use super::tenants_query::{FIND_BYTES_MAX, query};
use super::{Problem, policy};
use crate::access::VIEWER;
use crate::rollout::Published;
use crate::state::AppState;
use crate::tenants::{self, KeyRow, Sums, Told};

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/tenants", VIEWER, list)
            .says("getTenants", "Tenants, a page at a time")
            .details(
                "Whoever follows `next` by name sees each tenant that stays once, whatever comes \
                 and goes meanwhile. In the other orders rows move with their figures.",
            )
            .query(
                "find",
                Kind::Text(FIND_BYTES_MAX),
                "Only names and hosts with this text.",
            )
            .query("plan", Kind::Text(0), "Only tenants on this plan.")
            .query(
                "suspended",
                Kind::OneOf(&FLAGS),
                "Only suspended ones, or only others.",
            )
            .query(
                "saturated",
                Kind::OneOf(&FLAGS),
                "Only those without a free slot on some gateway, or only others.",
            )
            .query(
                "sort",
                Kind::OneOf(&["id", "in_flight", "share", "rejected"]),
                "By name, or the largest first; `share` is of what was promised.",
            )
            .query(
                "after",
                Kind::Text(0),
                "Continues behind the page whose `next` this is.",
            )
            .query("limit", Kind::Within(1, 1_000, 100), "Rows of the page.")
            .answers::<Listed<'_>>("One page")
            .may(StatusCode::CONFLICT, REFUSED),
        Call::get("/tenants/{id}", VIEWER, one)
            .says(
                "getTenant",
                "One tenant: what is in force and who set it, how it is recognised, its keys",
            )
            .answers::<One<'_>>("The tenant")
            .etag()
            .may(StatusCode::CONFLICT, REFUSED),
    ]
}

const FLAGS: [&str; 2] = ["true", "false"];
/// What is said where a policy cannot be read.
pub(super) const REFUSED: &str = "This build refuses the stored policy";

/// One page of tenants.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TenantList)]
struct Listed<'a> {
    /// The generation that the rows are of.
    generation: u64,
    /// How many of the known gateways report: `3 of 4`.
    reporting: String,
    /// How many tenants the policy has.
    total: usize,
    /// How many of them belong to this query.
    matching: usize,
    /// Those of this page.
    tenants: Vec<Row<'a>>,
    /// What `after` continues with; null on the last page.
    #[schema(required)]
    next: Option<String>,
    /// What becomes of callers that nobody knows.
    #[schema(required)]
    unknown: Option<UnknownCallers>,
}

/// One tenant in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tenant)]
struct Row<'a> {
    #[schema(value_type = String)]
    id: &'a Name,
    #[schema(required, value_type = Option<String>)]
    plan: Option<&'a Name>,
    /// In force in each gateway process.
    limit: Limit,
    /// Who set it: `tenant acme` or `plan pro`.
    limit_from: String,
    suspended: bool,
    /// How many API keys it has.
    keys: usize,
    hosts: &'a [String],
    /// Over the gateways that report; null when none does.
    #[schema(required)]
    live: Option<Sums>,
}

/// Callers that nobody knows.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UnknownCallers)]
struct UnknownCallers {
    /// `reject` or `shared`.
    policy: &'static str,
    /// What they share.
    #[schema(required)]
    limit: Option<Limit>,
    #[schema(required)]
    live: Option<Sums>,
}

/// One tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OneTenant)]
struct One<'a> {
    generation: u64,
    reporting: String,
    #[serde(flatten)]
    row: Row<'a>,
    /// The class that its requests have at most, by its plan.
    #[schema(required)]
    class: Option<compartment::Class>,
    /// What else bounds it on single routes.
    routes: Vec<OnRoute<'a>>,
    /// How a request is known for its own.
    recognised: Vec<Recognised<'a>>,
    /// Its API keys, without what is secret.
    api_keys: Vec<KeyRow>,
}

/// A bound of one tenant on one route.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TenantOnRoute)]
struct OnRoute<'a> {
    #[schema(value_type = String)]
    route: &'a Name,
    /// In each gateway process; null where only a share bounds it.
    #[schema(required)]
    limit: Option<Limit>,
    /// Of the free slots, in millionths.
    #[schema(required)]
    share_millionths: Option<u32>,
    /// Who set it: `plan pro` or `route checkout`.
    from: String,
    #[schema(required)]
    live: Option<Sums>,
}

/// One way in which a request is known for a tenant's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Recognised)]
struct Recognised<'a> {
    /// `api_key`, `host`, `path_segment` or `header`.
    by: &'static str,
    /// The header that is looked at.
    #[schema(required)]
    header: Option<&'a str>,
    /// The segment of the path, counted from 0.
    #[schema(required)]
    index: Option<usize>,
    /// Whether it can lead to this tenant: a key or a host is there to be matched.
    usable: bool,
}

fn row<'a>(policy: &'a Policy, told: &Told, tenant: &'a Tenant, by_tenant: bool) -> Row<'a> {
    let plan = tenant.plan.and_then(|at| policy.plans.get(at));
    let limit_from = match plan {
        Some(plan) if !by_tenant => format!("plan {}", plan.id),
        Some(_) | None => format!("tenant {}", tenant.id),
    };
    Row {
        id: &tenant.id,
        plan: plan.map(|plan| &plan.id),
        limit: tenant.limit,
        limit_from,
        suspended: tenant.suspended,
        keys: tenant.api_keys.len(),
        hosts: &tenant.hosts,
        live: told.sums(&format!("tenant/{}", tenant.id), tenant.limit),
    }
}

/// Whether a tenant has a limit of its own: what stands in its own entry.
fn has_own_limit(current: &Published, at: usize) -> bool {
    let own = tenants::entry(&current.document, at);
    own.is_some_and(|own| own.get("limit").is_some())
}

fn unknown_callers(policy: &Policy, told: &Told) -> Option<UnknownCallers> {
    let (policy, limit) = match policy.identify.as_ref()?.unknown {
        Unknown::Reject => ("reject", None),
        Unknown::Shared { limit } => ("shared", Some(limit)),
    };
    let live = limit.and_then(|limit| told.sums("tenant/_unknown", limit));
    Some(UnknownCallers {
        policy,
        limit,
        live,
    })
}

/// A page of tenants.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let query = query(&input::parts(request).0)?;
    let current = state.policy_current().await;
    let reporting = state.reporting_text();
    let work = move || {
        let told = Told::of(&state);
        let (policy, by_name) = readable(&current)?;
        let selected = tenants::select(policy, by_name, &told, &query);
        let rows = selected.rows.iter().map(|(at, tenant)| {
            let own = has_own_limit(&current, *at);
            row(policy, &told, tenant, own)
        });
        let listed = Listed {
            generation: current.about.number,
            reporting,
            total: policy.tenants.len(),
            matching: selected.matching,
            tenants: rows.collect(),
            next: selected.next.map(|cursor| cursor.to_string()),
            unknown: unknown_callers(policy, &told),
        };
        Ok(axum::Json(listed).into_response())
    };
    off_the_serving_threads(work).await
}

/// With 100,000 tenants there is much to look at: not on a thread that pushes policies.
async fn off_the_serving_threads(
    work: impl FnOnce() -> Result<Response, Problem> + Send + 'static,
) -> Result<Response, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(crate::store::StoreError::Closed.into()))
}

/// The policy, where this build understands it.
fn readable(current: &Published) -> Result<(&Policy, &tenants::ByName), Problem> {
    current.tenants().ok_or_else(|| {
        let detail = "this build refuses the stored policy; GET /policy shows it";
        Problem::new(StatusCode::CONFLICT, "refused-policy", detail)
    })
}

/// One tenant: what is in force and who set it, how it is recognised, its keys.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let reporting = state.reporting_text();
    let work = move || {
        let told = Told::of(&state);
        let (policy, by_name) = readable(&current)?;
        let unknown = || Problem::not_found(format!("there is no tenant {:?}", excerpt(&id)));
        let (at, tenant) = by_name.find(policy, &id).ok_or_else(unknown)?;
        let own = tenants::entry(&current.document, at);
        let own_limit = has_own_limit(&current, at);
        let plan = tenant.plan.and_then(|at| policy.plans.get(at));
        let one = One {
            generation: current.about.number,
            reporting,
            row: row(policy, &told, tenant, own_limit),
            class: plan.and_then(|plan| plan.class),
            routes: on_routes(policy, &told, tenant),
            recognised: recognised(policy, tenant),
            api_keys: tenants::key_rows(tenant, own, crate::clock::timestamp()),
        };
        let etag = (header::ETAG, policy::etag(current.about.number));
        Ok(([etag], axum::Json(one)).into_response())
    };
    off_the_serving_threads(work).await
}

fn excerpt(text: &str) -> String {
    wire::stream::bounded_text(text, 100)
}

fn on_routes<'a>(policy: &'a Policy, told: &Told, tenant: &'a Tenant) -> Vec<OnRoute<'a>> {
    let plan = tenant.plan.and_then(|at| policy.plans.get(at));
    let of_plan = |at: usize| {
        let plan = plan?;
        let (_, limit) = plan.routes.iter().find(|(route, _)| *route == at)?;
        Some((*limit, format!("plan {}", plan.id)))
    };
    let mut list = Vec::new();
    for (at, route) in policy.routes.iter().enumerate() {
        let own = &route.compartment;
        let of_route = own
            .tenant_limit
            .map(|limit| (limit, format!("route {}", route.id)));
        // The stricter one decides.
        let bound = [of_plan(at), of_route].into_iter().flatten();
        let bound = bound.min_by_key(|(limit, _)| limit.slots().unwrap_or(u32::MAX));
        let share = own.tenant_share.map(|share| share.0);
        if bound.is_none() && share.is_none() {
            continue;
        }
        let key = Key::TenantRoute(route.id.clone(), tenant.id.clone()).to_string();
        let (limit, from) = bound.unzip();
        list.push(OnRoute {
            route: &route.id,
            limit,
            share_millionths: share,
            from: from.unwrap_or_else(|| format!("route {}", route.id)),
            live: told.sums(&key, limit.unwrap_or(own.limit)),
        });
    }
    list
}

fn recognised<'a>(policy: &'a Policy, tenant: &Tenant) -> Vec<Recognised<'a>> {
    let one = |by: &'a Identifier| match by {
        Identifier::ApiKey { header } => Recognised {
            by: "api_key",
            header: Some(header),
            index: None,
            usable: !tenant.api_keys.is_empty(),
        },
        Identifier::Host => Recognised {
            by: "host",
            header: None,
            index: None,
            usable: !tenant.hosts.is_empty(),
        },
        Identifier::PathSegment { index } => Recognised {
            by: "path_segment",
            header: None,
            index: Some(*index),
            usable: true,
        },
        Identifier::Header { name, trust } => Recognised {
            by: "header",
            header: Some(name),
            index: None,
            usable: !trust.is_empty(),
        },
    };
    let by = policy.identify.iter().flat_map(|identify| &identify.by);
    by.map(one).collect()
}
