//! `GET` and `PATCH /settings`.
//!
//! Separate because a setting is no part of the policy: it says how changes of it are made.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;
use super::call::Call;
use super::input::{self, CHANGE_BYTES_MAX};
use crate::access::{ADMIN, VIEWER};
use crate::auth;
use crate::settings::Approvals;
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/settings", VIEWER, read)
            .says("getSettings", "Settings that people change")
            .answers::<All>("All of them"),
        Call::patch("/settings", ADMIN, change)
            .says("changeSettings", "Set some")
            .takes::<Changed>(r#"{"approvals": "all"}"#)
            .answers::<All>("All of them"),
    ]
}

/// Some of them.
#[derive(Deserialize, ToSchema)]
#[schema(as = SettingsChange)]
#[serde(deny_unknown_fields)]
struct Changed {
    approvals: Option<Approvals>,
}

/// All of them.
#[derive(Serialize, ToSchema)]
#[schema(as = Settings)]
struct All {
    /// `off`, or `all`: every change of the policy waits for a second person.
    approvals: Approvals,
}

/// What is set.
pub(super) async fn read(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    shown(&state).await
}

/// Sets some.
pub(super) async fn change(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    let sent: Changed = input::typed(request, CHANGE_BYTES_MAX).await?;
    if let Some(approvals) = sent.approvals {
        state.settings.set_approvals(approvals, &author).await?;
    }
    shown(&state).await
}

async fn shown(state: &AppState) -> Result<Response, Problem> {
    let approvals = state.settings.approvals().await?;
    Ok(axum::Json(All { approvals }).into_response())
}
