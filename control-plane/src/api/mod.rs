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

use crate::access::{self, ADMIN, OPERATOR, PUBLIC, Route, VIEWER};
use crate::state::AppState;

pub use input::{CHANGE_BYTES_MAX, DOCUMENT_BYTES_MAX};
pub(crate) use problem::Problem;

/// The description that is served.
const OPENAPI: &str = include_str!("openapi.json");

/// Every call, with what it needs.
pub(crate) fn table() -> Vec<Route> {
    let mut all = limits_table();
    all.extend(fleet_table());
    all
}

/// What is about limits and their figures.
fn limits_table() -> Vec<Route> {
    vec![
        Route::at("/openapi.json").get(PUBLIC, openapi),
        Route::at("/policy")
            .get(VIEWER, policy::read)
            .put(OPERATOR, policy::replace),
        Route::at("/compartments").get(VIEWER, compartments::list),
        Route::at("/compartments/{key}")
            .get(VIEWER, compartments::one)
            .patch(OPERATOR, compartments::change),
        Route::at("/compartments/{key}/series").get(VIEWER, series::series),
        Route::at("/compartments/{key}/advice").get(VIEWER, advice::one),
        Route::at("/compartments/{key}/what-if").get(VIEWER, advice::asked),
        Route::at("/advice").get(VIEWER, advice::list),
        Route::at("/findings").get(VIEWER, advice::findings),
        Route::at("/history").get(VIEWER, series::history),
        Route::at("/generations").get(VIEWER, generations::list),
        Route::at("/generations/{number}").get(VIEWER, generations::one),
        Route::at("/generations/{number}/diff").get(VIEWER, generations::diff),
        Route::at("/generations/{number}/restore").post(OPERATOR, generations::restore),
        Route::at("/generations/{number}/try-again").post(OPERATOR, generations::try_again),
        Route::at("/operations/{operation}").get(VIEWER, generations::operation),
        Route::at("/drills").post(OPERATOR, drills::begin),
        Route::at("/drills/{id}").get(VIEWER, drills::one),
        Route::at("/upstreams/{id}/breaker").post(OPERATOR, breaker::set),
        Route::at("/events").get(VIEWER, events::stream),
        Route::at("/alerts").get(VIEWER, alerts::list),
    ]
}

/// What is about gateways and who may connect.
fn fleet_table() -> Vec<Route> {
    vec![
        Route::at("/gateways").get(VIEWER, gateways::list),
        Route::at("/gateways/{id}/drain").post(OPERATOR, gateways::drain),
        Route::at("/gateways/{id}/undrain").post(OPERATOR, gateways::undrain),
        Route::at("/gateways/{id}/revoke").post(ADMIN, gateways::revoke),
        Route::at("/gateways/{id}/go-back").post(OPERATOR, gateways::go_back),
        Route::at("/tokens")
            .get(ADMIN, gateways::tokens)
            .post(ADMIN, gateways::create_token),
        Route::at("/tokens/{id}").delete(ADMIN, gateways::revoke_token),
    ]
}

/// Every route of the API.
pub(crate) fn router() -> Router<AppState> {
    access::router(table())
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
            .flat_map(|route| {
                let (path, needs) = route.entry();
                let methods = needs.iter().map(|(method, _)| method.as_str());
                methods
                    .map(|method| (path.to_owned(), method.to_ascii_lowercase()))
                    .collect::<Vec<_>>()
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
