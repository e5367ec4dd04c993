//! `/plans`, `/plans/{id}`: what tenants are sold.
//!
//! Separate because a plan is changed for all of its tenants at once. It must never take a plan
//! away that tenants are on.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::{Plan, Policy};
use compartment::{Class, Limit, Name};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::{Call, Kind};
use super::entries::{WHY, bare, change, named};
use super::input::{self, Path};
use super::tenants::REFUSED;
use super::{Problem, policy};
use crate::access::{OPERATOR, VIEWER};
use crate::limits::{COMMENT_BYTES_MAX, Entry, Named};
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/plans", VIEWER, list)
            .says("getPlans", "Every plan")
            .answers::<Listed<'_>>("In the order of the policy")
            .may(StatusCode::CONFLICT, REFUSED),
        Call::put("/plans/{id}", OPERATOR, put)
            .says("putPlan", "Make a plan, or take its place")
            .takes::<NewPlan>(r#"{"limit": 50, "routes": {"search": 10}}"#)
            .writes_policy(),
        Call::delete("/plans/{id}", OPERATOR, delete)
            .says("deletePlan", "Take a plan away that no tenant is on")
            .query("comment", Kind::Text(COMMENT_BYTES_MAX), WHY)
            .writes_policy()
            .may(
                StatusCode::CONFLICT,
                "Tenants are on it, or other writers always came first",
            ),
    ]
}

/// A plan, as in the policy, and why.
#[derive(ToSchema)]
#[expect(dead_code, reason = "described here, read as the policy's own values")]
struct NewPlan {
    /// In flight over all routes, for each tenant on the plan.
    limit: Limit,
    class: Option<Class>,
    /// At most this many on single routes.
    routes: Option<std::collections::BTreeMap<String, Limit>>,
    /// Why, for the history.
    #[schema(max_length = 2000)]
    comment: Option<String>,
}

/// Every plan.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlanList)]
struct Listed<'a> {
    generation: u64,
    /// In the order of the policy.
    plans: Vec<Row<'a>>,
}

/// One plan.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
struct Row<'a> {
    #[schema(value_type = String)]
    id: &'a Name,
    /// In flight over all routes, for each tenant on the plan, in each gateway process.
    limit: Limit,
    /// Caps the class of its requests.
    #[schema(required)]
    class: Option<Class>,
    /// At most this many on single routes.
    routes: Vec<OnRoute<'a>>,
    /// How many tenants are on it.
    tenants: usize,
}

/// A plan's limit on one route.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PlanOnRoute)]
struct OnRoute<'a> {
    #[schema(value_type = String)]
    route: &'a Name,
    limit: Limit,
}

/// Every plan.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let Ok(policy) = &current.policy else {
        let detail = "this build refuses the stored policy; GET /policy shows it";
        return Err(Problem::new(StatusCode::CONFLICT, "refused-policy", detail));
    };
    let counts = counts(policy);
    let listed = Listed {
        generation: current.about.number,
        plans: policy
            .plans
            .iter()
            .zip(counts)
            .map(|(plan, tenants)| row(policy, plan, tenants))
            .collect(),
    };
    Ok(axum::Json(listed).into_response())
}

/// How many tenants are on each plan.
fn counts(policy: &Policy) -> Vec<usize> {
    let mut counts = vec![0_usize; policy.plans.len()];
    for at in policy.tenants.iter().filter_map(|tenant| tenant.plan) {
        if let Some(count) = counts.get_mut(at) {
            *count = count.saturating_add(1);
        }
    }
    counts
}

fn row<'a>(policy: &'a Policy, plan: &'a Plan, tenants: usize) -> Row<'a> {
    let on_route = |(at, limit): &(usize, Limit)| {
        let route = &policy.routes.get(*at)?.id;
        Some(OnRoute {
            route,
            limit: *limit,
        })
    };
    Row {
        id: &plan.id,
        limit: plan.limit,
        class: plan.class,
        routes: plan.routes.iter().filter_map(on_route).collect(),
        tenants,
    }
}

/// Makes a plan, or takes its place.
pub(super) async fn put(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    named(&id)?;
    let mut change = change(request).await?;
    let entry = Entry::Put(std::mem::take(&mut change.fields.values));
    let (asked, author) = (change.asked(), &change.author);
    let accepted = state.limits.entry(Named::Plan, &id, entry, asked, author);
    Ok(policy::answer(&accepted.await?))
}

/// Takes a plan away that no tenant is on.
pub(super) async fn delete(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let change = bare(request).await?;
    let (asked, author) = (change.asked(), &change.author);
    let entry = Entry::Remove;
    let accepted = state.limits.entry(Named::Plan, &id, entry, asked, author);
    Ok(policy::answer(&accepted.await?))
}
