//! `GET /gateways`.
//!
//! Separate because it speaks of processes, not of the policy.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};

use super::{Problem, input};
use crate::state::AppState;

/// Every gateway that is known, and what it runs.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    Ok(axum::Json(state.gateways()).into_response())
}
