//! Everything on the dashboard's port, put together once.
//!
//! Separate because the order of the layers is what keeps people out. It must never hold a route
//! that the guard's table does not have.

use std::sync::Arc;

use axum::{Router, middleware};

use crate::state::AppState;
use crate::{STREAM_PATH, access, api, guard, metrics, observed, pages, request_id, stream};

/// Before every call of the API.
const API_PREFIX: &str = "/api/v1";
/// Where figures are read as text.
const METRICS_PATH: &str = "/metrics";

/// Every method and path of API and pages with what it needs: `anybody` or a role. For a table in a
/// document, and for the test that holds every one of them to it.
pub fn access_matrix() -> Vec<(String, String, &'static str)> {
    access::matrix(&[(API_PREFIX, api::table()), ("", pages::table())])
}

/// Everything on the dashboard's port.
pub(crate) fn router(state: AppState, observed: Arc<observed::Observed>) -> Router {
    let metrics = [access::Route::at(METRICS_PATH).get(access::VIEWER, async || ())];
    let table = access::Table::default()
        .with(API_PREFIX, &api::table())
        .with("", &pages::table())
        .with("", &metrics);
    let guard = guard::Guard::new(state.clone(), table);
    Router::new()
        .nest(API_PREFIX, api::router(&state, API_PREFIX))
        .route(
            METRICS_PATH,
            axum::routing::get(metrics::show).with_state(Arc::clone(&observed)),
        )
        .merge(pages::router())
        .fallback(pages::missing)
        // Who may: innermost, so that its refusals are named and carry the headers too.
        .layer(middleware::from_fn_with_state(guard, guard::guard))
        // Name and headers: around every answer.
        .layer(middleware::from_fn(request_id::around))
        // How long all of that took.
        .layer(middleware::from_fn_with_state(observed, observed::around))
        // The stream has a token of its own and passes none of the layers above.
        .route_service(STREAM_PATH, stream::service(state.clone()))
        .with_state(state)
}
