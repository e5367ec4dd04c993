//! `GET /compartments`, `GET` and `PATCH /compartments/{key}`.
//!
//! Separate because these speak of single compartments: live figures out, a new limit in.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::{Policy, Value};
use compartment::{Key, Limit};
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Call;
use super::input::Path;
use super::input::{self, CHANGE_BYTES_MAX};
use super::shown::{Compartment, Configured};
use super::{Problem, around, policy};
use crate::access::{OPERATOR, VIEWER};
use crate::auth;
use crate::limits::Fields;
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/compartments", VIEWER, list)
            .says("getCompartments", "Live figures of every compartment")
            .answers::<Compartments>("Sums over the gateways that report"),
        Call::get("/compartments/{key}", VIEWER, one)
            .says("getCompartment", "Live figures of one compartment")
            .answers::<OneCompartment>("Sums over the gateways that report"),
        Call::patch("/compartments/{key}", OPERATOR, change)
            .says("patchCompartment", "Change a limit")
            .details(
                "Fields as in the policy. Routes take every field of `[routes.compartment]`, and \
                 null takes one away but the limit; upstreams take `limit`, `breaker` and \
                 `force_breaker`; tenants take `limit` (an override of the plan); `gateway` takes \
                 `limit` (its capacity) and `spare`. Without If-Match the change is made on top \
                 of the newest generation. At most 64 KiB.",
            )
            .takes::<super::shown::Change>(r#"{"limit": 80, "comment": "room for the sale"}"#)
            .writes_policy(),
    ]
}

/// Live figures of every compartment.
#[derive(Serialize, ToSchema)]
struct Compartments {
    /// The newest generation.
    generation: u64,
    /// Gateways that report, of those that are known: `3 of 4`.
    #[schema(pattern = "^[0-9]+ of [0-9]+$", example = "3 of 4")]
    reporting: String,
    compartments: Vec<Compartment>,
}

/// Live figures of one compartment, and what stands around it.
#[derive(Serialize, ToSchema)]
struct OneCompartment {
    #[serde(flatten)]
    own: Compartment,
    /// The newest generation.
    generation: u64,
    /// Gateways that report, of those that are known: `3 of 4`.
    #[schema(pattern = "^[0-9]+ of [0-9]+$", example = "3 of 4")]
    reporting: String,
    #[serde(flatten)]
    #[schema(value_type = around::Around)]
    around: Option<around::Around>,
}

/// Live figures of every compartment, over all gateways that report.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let figures = state.figures();
    let reporting = figures.reporting_text();
    let policy = current.policy.as_ref().ok();
    // What the policy names and nobody reports is listed without figures, never with zeros.
    let silent: Vec<Compartment> = policy.map_or_else(Vec::new, |policy| {
        let silent = configured(policy).filter(|c| !figures.compartments.contains_key(&c.key));
        silent.map(Compartment::from).collect()
    });
    let live = figures.compartments.into_values();
    let mut compartments: Vec<_> = live.map(|live| Compartment::from(live).short()).collect();
    compartments.extend(silent);
    Ok(axum::Json(Compartments {
        generation: current.about.number,
        reporting,
        compartments,
    })
    .into_response())
}

/// Live figures of one compartment.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let current = state.policy_current().await;
    let mut figures = state.figures_of(&key);
    let reporting = figures.reporting_text();
    let own = match figures.compartments.remove(&key) {
        Some(compartment) => compartment.into(),
        None => {
            let known = current.policy.as_ref().ok();
            let known = known.and_then(|policy| configured(policy).find(|c| c.key == key));
            let unknown = || {
                let key = wire::stream::bounded_text(&key, 100);
                Problem::not_found(format!("there is no compartment {key:?}"))
            };
            known.ok_or_else(unknown)?.into()
        }
    };
    let known = current.policy.as_ref().ok().zip(key.parse::<Key>().ok());
    let around = known.map(|(policy, key)| around::members(&state, &current, policy, &key));
    Ok(axum::Json(OneCompartment {
        own,
        generation: current.about.number,
        reporting,
        around,
    })
    .into_response())
}

/// Changes fields of one compartment.
pub(super) async fn change(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    let write = input::write(&head, &[])?;
    let author = auth::author(&head.extensions);
    let body = input::json(Request::from_parts(head, body), CHANGE_BYTES_MAX).await?;
    let fields = fields(body.value)?;
    let accepted = state
        .limits
        .patch(&key, &fields, write.seen, write.dry_run, &author)
        .await?;
    Ok(policy::answer(&accepted))
}

pub(super) fn fields(body: Value) -> Result<Fields, Problem> {
    let Value::Table(entries) = body else {
        return Err(Problem::invalid(
            "",
            "the body must be an object, e.g. {\"limit\": 80}",
        ));
    };
    let mut fields = Fields::default();
    for (name, value) in entries {
        match (name.as_str(), value) {
            ("comment", Value::String(text)) => {
                input::comment(&text)?;
                fields.comment = text;
            }
            ("comment", _) => return Err(Problem::invalid("/comment", "comment must be text")),
            (_, value) => fields.values.push((name, value)),
        }
    }
    Ok(fields)
}

fn configured(policy: &Policy) -> impl Iterator<Item = Configured> {
    let plain = |key: Key, limit: Limit, reserved: u32| Configured {
        level: key.level(),
        key: key.to_string(),
        limit,
        reserved,
    };
    let capacity = Limit::new(policy.gateway.capacity).unwrap_or(Limit::UNLIMITED);
    let routes = policy.routes.iter().map(move |route| {
        let own = &route.compartment;
        plain(Key::Route(route.id.clone()), own.limit, own.reserved)
    });
    let streams = policy.routes.iter().filter_map(move |route| {
        let stream = route.compartment.stream?;
        Some(plain(Key::Stream(route.id.clone()), stream.limit, 0))
    });
    let fallbacks = policy.routes.iter().filter_map(move |route| {
        let limit = route.fallback_limit()?;
        Some(plain(Key::Fallback(route.id.clone()), limit, 0))
    });
    let upstreams = policy
        .upstreams
        .iter()
        .map(move |upstream| plain(Key::Upstream(upstream.id.clone()), upstream.limit, 0));
    let tenants = policy
        .tenants
        .iter()
        .map(move |tenant| plain(Key::Tenant(tenant.id.clone()), tenant.limit, 0));
    std::iter::once(plain(Key::Gateway, capacity, 0))
        .chain(routes)
        .chain(streams)
        .chain(fallbacks)
        .chain(upstreams)
        .chain(tenants)
}
