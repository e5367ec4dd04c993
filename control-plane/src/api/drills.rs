//! `POST /drills` and `GET /drills/{id}`.
//!
//! Separate because a drill is an act that is answered with its report. It must never begin one
//! that nothing could answer.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use compartment::policy::Policy;
use serde::Deserialize;
use utoipa::ToSchema;

use super::Problem;
use super::call::Call;
use super::input::Path;
use super::input::{self, CHANGE_BYTES_MAX};
use crate::access::{OPERATOR, VIEWER};
use crate::auth;
use crate::drills::{Drill, DrillKind, NoDrill};
use crate::state::AppState;

/// The longest path that another upstream is asked for.
const PATH_BYTES_MAX: usize = 2_048;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/drills", OPERATOR, begin)
            .says(
                "beginDrill",
                "Rehearse the fallback of one route on every gateway, and wait for what each says",
            )
            .takes::<Wanted>(r#"{"kind": "fallback", "route": "checkout"}"#)
            .creates::<Drill>("The report")
            .may(StatusCode::CONFLICT, "No gateway is connected"),
        Call::get("/drills/{id}", VIEWER, one)
            .says("getDrill", "One report of the last hundred")
            .answers::<Drill>("The report"),
    ]
}

/// A drill that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDrill)]
struct Wanted {
    kind: DrillKind,
    /// The route's id.
    route: String,
    /// Path and query for another upstream; the route's own unless given.
    #[serde(default)]
    #[schema(max_length = 2048)]
    path: String,
}

/// Rehearses the fallback of one route on every gateway.
pub(super) async fn begin(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    let sent: Wanted = input::typed(request, CHANGE_BYTES_MAX).await?;
    let DrillKind::Fallback = sent.kind;
    let (route, path) = (sent.route.as_str(), sent.path.as_str());
    if path.len() > PATH_BYTES_MAX || !(path.is_empty() || path.starts_with('/')) {
        let rule = format!("must begin with / and have at most {PATH_BYTES_MAX} bytes");
        return Err(Problem::invalid("/path", &rule));
    }
    let drill = rehearse(&state, route, path, &author.name).await?;
    Ok((StatusCode::CREATED, axum::Json(drill)).into_response())
}

/// The same for a page.
pub(crate) async fn rehearse(
    state: &AppState,
    route: &str,
    path: &str,
    by: &str,
) -> Result<Drill, Problem> {
    let current = state.policy_current().await;
    let has = |policy: &Policy| {
        let mut routes = policy.routes.iter();
        routes
            .find(|one| one.id.as_str() == route)
            .map(|one| !one.fallback.is_empty())
    };
    match current.policy.as_ref().ok().and_then(has) {
        Some(true) => {}
        Some(false) => return Err(Problem::invalid("/route", "has no fallback to rehearse")),
        None => return Err(Problem::invalid("/route", "is no route of the policy")),
    }
    let gateways = state.gateways().into_iter();
    let connected = gateways.filter(|gateway| gateway.connected);
    let connected = connected.map(|gateway| gateway.id).collect();
    let drilled = state.drills.rehearse(connected, route, path, by).await;
    drilled.map_err(|why| match why {
        NoDrill::NoGateway => Problem::new(StatusCode::CONFLICT, "no-gateway", why.to_string()),
        NoDrill::Busy => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", why.to_string()).retry()
        }
    })
}

/// One report.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let unknown = || {
        let id = wire::stream::bounded_text(&id, 40);
        Problem::not_found(format!(
            "there is no drill {id:?}; the last 20 of each route are kept"
        ))
    };
    let drill = state.drills.find(&id).await?.ok_or_else(unknown)?;
    Ok(axum::Json(drill).into_response())
}
