//! The API under `/api/v1`: one table of routes.
//!
//! Separate so that router, description and the test that compares them read the same table.
//! Handlers read input and shape answers; they must never decide about a policy themselves.

mod advice;
mod alerts;
mod around;
mod audit;
mod breaker;
mod call;
mod changes;
mod changes_asked;
mod changes_told;
mod compartments;
mod describe;
pub(crate) mod drills;
mod entries;
mod events;
mod gateways;
mod generations;
mod idempotency;
mod input;
mod overrides;
pub(crate) mod people;
pub(crate) mod people_shown;
mod plans;
mod points;
mod policy;
mod problem;
mod rules;
pub(crate) mod series;
mod settings;
mod shown;
mod tenant_keys;
mod tenants;
mod tenants_query;

use axum::http::StatusCode;
use axum::{Router, middleware};

use crate::access::{self, PUBLIC, Route};
use crate::state::AppState;

use call::Call;
pub use input::{CHANGE_BYTES_MAX, DOCUMENT_BYTES_MAX};
pub(crate) use problem::Problem;

/// The description that is served.
pub(crate) const OPENAPI: &str = include_str!("openapi.json");

/// Every call of the API.
///
/// A new one is a handler and an entry in `calls()` of its module; a new module is one more line
/// here. The entry says everything: method, path, the role that it needs, name, parameters, body,
/// answers. Bodies and answers are types with `serde` and `utoipa::ToSchema`, whose doc comments
/// become the description; `input::typed` reads such a body. What every call of a kind may refuse
/// with is added by `describe`; only what is special stands in the entry (`.may`). Then
/// `BULKHEAD_OPENAPI=write cargo test -p bulkhead-control-plane openapi` writes `openapi.json`
/// anew, and the difference is reviewed with the code.
fn calls() -> Vec<Call> {
    let about = Call::get("/openapi.json", PUBLIC, openapi)
        .says("describe", "This document")
        .answers::<OpenApi>("OpenAPI 3.1");
    let mut all = vec![about];
    all.extend(policy::calls());
    all.extend(compartments::calls());
    all.extend(series::calls());
    all.extend(advice::calls());
    all.extend(generations::calls());
    all.extend(changes::calls());
    all.extend(settings::calls());
    all.extend(drills::calls());
    all.extend(overrides::calls());
    all.extend(breaker::calls());
    all.extend(events::calls());
    all.extend(gateways::calls());
    all.extend(alerts::calls());
    all.extend(audit::calls());
    all.extend(tenants::calls());
    all.extend(entries::calls());
    all.extend(tenant_keys::calls());
    all.extend(plans::calls());
    all.extend(people::calls());
    all
}

/// The description, made from the table. `openapi.json` is this, checked in and served.
pub fn description() -> String {
    let document = describe::document(&calls());
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

/// OpenAPI 3.1.
#[derive(utoipa::ToSchema, serde::Serialize)]
#[serde(transparent)]
struct OpenApi(serde_json::Map<String, serde_json::Value>);

/// The same as routes, with what each needs.
pub(crate) fn table() -> Vec<Route> {
    calls().into_iter().map(Call::route).collect()
}

/// Every route of the API.
pub(crate) fn router(state: &AppState, prefix: &str) -> Router<AppState> {
    let named = idempotency::Layer::new(state.clone(), prefix, &calls());
    access::router(table())
        .fallback(no_such_call)
        .method_not_allowed_fallback(no_such_method)
        .layer(middleware::from_fn_with_state(named, idempotency::around))
        .layer(middleware::from_fn(rules::around))
}

async fn openapi() -> impl axum::response::IntoResponse {
    ([(http::header::CONTENT_TYPE, "application/json")], OPENAPI)
}

pub(crate) async fn no_such_call() -> Problem {
    Problem::not_found("there is no such call; GET /api/v1/openapi.json lists them")
}

async fn no_such_method() -> Problem {
    let detail = "this call does not take this method; GET /api/v1/openapi.json lists them";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

#[cfg(test)]
mod tests;
