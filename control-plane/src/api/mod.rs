//! The API under `/api/v1`: one table of routes.
//!
//! Separate so that router, description and the test that compares them read the same table.
//! Handlers read input and shape answers; they must never decide about a policy themselves.

mod advice;
mod alerts;
mod around;
mod breaker;
mod compartments;
pub(crate) mod drills;
mod events;
mod gateways;
mod generations;
mod input;
mod policy;
mod problem;
pub(crate) mod series;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{MethodRouter, delete, get, patch, post, put};

use crate::state::AppState;

pub use input::{CHANGE_BYTES_MAX, DOCUMENT_BYTES_MAX};
pub(crate) use problem::Problem;

/// The description that is served.
const OPENAPI: &str = include_str!("openapi.json");

/// One route: path under `/api/v1`, its methods (lower case), what answers.
type Route = (
    &'static str,
    &'static [&'static str],
    MethodRouter<AppState>,
);

fn table() -> Vec<Route> {
    vec![
        ("/openapi.json", &["get"], get(openapi)),
        (
            "/policy",
            &["get", "put"],
            get(policy::read).merge(put(policy::replace)),
        ),
        ("/compartments", &["get"], get(compartments::list)),
        (
            "/compartments/{key}",
            &["get", "patch"],
            get(compartments::one).merge(patch(compartments::change)),
        ),
        ("/compartments/{key}/series", &["get"], get(series::series)),
        ("/compartments/{key}/advice", &["get"], get(advice::one)),
        ("/compartments/{key}/what-if", &["get"], get(advice::asked)),
        ("/advice", &["get"], get(advice::list)),
        ("/findings", &["get"], get(advice::findings)),
        ("/history", &["get"], get(series::history)),
        ("/generations", &["get"], get(generations::list)),
        ("/generations/{number}", &["get"], get(generations::one)),
        (
            "/generations/{number}/diff",
            &["get"],
            get(generations::diff),
        ),
        (
            "/generations/{number}/restore",
            &["post"],
            post(generations::restore),
        ),
        (
            "/generations/{number}/try-again",
            &["post"],
            post(generations::try_again),
        ),
        (
            "/operations/{operation}",
            &["get"],
            get(generations::operation),
        ),
        ("/drills", &["post"], post(drills::begin)),
        ("/drills/{id}", &["get"], get(drills::one)),
        ("/upstreams/{id}/breaker", &["post"], post(breaker::set)),
        ("/events", &["get"], get(events::stream)),
        ("/gateways", &["get"], get(gateways::list)),
        ("/gateways/{id}/drain", &["post"], post(gateways::drain)),
        ("/gateways/{id}/undrain", &["post"], post(gateways::undrain)),
        ("/gateways/{id}/revoke", &["post"], post(gateways::revoke)),
        ("/gateways/{id}/go-back", &["post"], post(gateways::go_back)),
        (
            "/tokens",
            &["get", "post"],
            get(gateways::tokens).merge(post(gateways::create_token)),
        ),
        ("/tokens/{id}", &["delete"], delete(gateways::revoke_token)),
        ("/alerts", &["get"], get(alerts::list)),
    ]
}

/// Every route of the API.
pub(crate) fn router() -> Router<AppState> {
    let mut router = Router::new();
    for (path, _, methods) in table() {
        router = router.route(path, methods);
    }
    router
        .fallback(no_such_call)
        .method_not_allowed_fallback(no_such_method)
}

async fn openapi() -> impl axum::response::IntoResponse {
    ([(http::header::CONTENT_TYPE, "application/json")], OPENAPI)
}

async fn no_such_call() -> Problem {
    Problem::not_found("there is no such call; GET /api/v1/openapi.json lists them")
}

async fn no_such_method() -> Problem {
    let detail = "this call does not take this method; GET /api/v1/openapi.json lists them";
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", detail)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value as Json;

    use super::*;

    #[test]
    fn the_description_is_of_the_routes_that_exist() {
        let document: Json = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(
            document["openapi"]
                .as_str()
                .unwrap()
                .split('.')
                .take(2)
                .count(),
            2
        );
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
        let described: BTreeSet<(String, String)> = document["paths"]
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys();
                methods
                    .filter(|name| ["get", "put", "post", "patch", "delete"].contains(&&***name))
                    .map(|method| (path.clone(), method.clone()))
            })
            .collect();
        let routed: BTreeSet<(String, String)> = table()
            .iter()
            .flat_map(|(path, methods, _)| {
                methods
                    .iter()
                    .map(|method| ((*path).to_owned(), (*method).to_owned()))
            })
            .collect();
        assert_eq!(described, routed);
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        fn walk(here: &Json, root: &Json) {
            if let Some(target) = here.get("$ref").and_then(Json::as_str) {
                let pointer = target.strip_prefix('#').unwrap();
                assert!(root.pointer(pointer).is_some(), "{target}");
            }
            match here {
                Json::Array(items) => items.iter().for_each(|item| walk(item, root)),
                Json::Object(items) => items.values().for_each(|item| walk(item, root)),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
            }
        }
        let document: Json = serde_json::from_str(OPENAPI).unwrap();
        walk(&document, &document);
    }
}
