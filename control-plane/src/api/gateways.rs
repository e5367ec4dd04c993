//! `GET /gateways`, and what can be ordered about one.
//!
//! Separate because it speaks of processes, not of the policy. It must never order anything about
//! a gateway that nobody knows.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::call::Call;
use super::input::Path;
use super::{Problem, input};
use crate::access::{ADMIN, OPERATOR, VIEWER};
use crate::auth;
use crate::fleet::GatewayView;
use crate::limits::Author;
use crate::orders::OrderError;
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/gateways", VIEWER, list)
            .says("getGateways", "Every gateway and what it runs")
            .lists::<GatewayView>("By name"),
        Call::post("/gateways/{id}/drain", OPERATOR, drain)
            .says(
                "drainGateway",
                "Orders a gateway to be not ready; it serves on",
            )
            .answers::<Ordered>("Ordered; it stands over restarts")
            .may(StatusCode::UNPROCESSABLE_ENTITY, "Too many orders stand"),
        Call::post("/gateways/{id}/undrain", OPERATOR, undrain)
            .says("undrainGateway", "Takes that order back")
            .answers::<Ordered>("Taken back"),
        Call::post("/gateways/{id}/revoke", ADMIN, revoke)
            .says(
                "revokeGateway",
                "Ends a gateway's stream, revokes its tokens, and lets it in no more without a \
                 new one",
            )
            .answers::<Revoked>("Shut out")
            .may(StatusCode::UNPROCESSABLE_ENTITY, "Too many orders stand"),
        Call::post("/gateways/{id}/go-back", OPERATOR, go_back)
            .says(
                "letGatewayGoBack",
                "Lets a gateway that holds what this store never made follow to the newest \
                 generation",
            )
            .answers::<Sent>("It is told")
            .may(
                StatusCode::CONFLICT,
                "It is not connected, or holds nothing that this store did not make",
            ),
    ]
}

/// An order to be not ready, given or taken back.
#[derive(Serialize, ToSchema)]
#[schema(as = GatewayOrdered)]
struct Ordered<'a> {
    id: &'a str,
    /// Whether it is to be not ready.
    drained: bool,
}

/// A gateway that is shut out.
#[derive(Serialize, ToSchema)]
#[schema(as = GatewayRevoked)]
struct Revoked<'a> {
    id: &'a str,
    revoked: bool,
}

/// A gateway that may go back.
#[derive(Serialize, ToSchema)]
#[schema(as = GatewaySent)]
struct Sent<'a> {
    id: &'a str,
    /// To this generation.
    generation: u64,
}

/// Every gateway that is known, and what it runs.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    Ok(axum::Json(state.gateways()).into_response())
}

/// Who asks for something that has no body.
pub(super) async fn asks(request: Request) -> Result<Author, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    Ok(author)
}

/// A gateway that is known, or that an order or a token stands for.
fn known(state: &AppState, id: &str) -> Result<(), Problem> {
    let is_known = state.gateways().iter().any(|gateway| gateway.id == id)
        || state.orders.drained(id).is_some()
        || state.orders.tokens().iter().any(|row| row.gateway == id);
    if is_known {
        return Ok(());
    }
    let id = wire::stream::bounded_text(id, 128);
    Err(Problem::not_found(format!("there is no gateway {id:?}")))
}

/// Not ready from now on, until that is taken back.
pub(super) async fn drain(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    order(&state, &id, true, request).await
}

/// Ready again.
pub(super) async fn undrain(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    order(&state, &id, false, request).await
}

async fn order(
    state: &AppState,
    id: &str,
    drained: bool,
    request: Request,
) -> Result<Response, Problem> {
    let author = asks(request).await?;
    known(state, id)?;
    state.orders.drain(id, drained, &author).await?;
    Ok(axum::Json(Ordered { id, drained }).into_response())
}

/// Ends its stream and lets it in no more without a token of its own.
pub(super) async fn revoke(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = asks(request).await?;
    known(&state, &id)?;
    state.orders.shut_out(&id, &author).await?;
    let revoked = true;
    Ok(axum::Json(Revoked { id: &id, revoked }).into_response())
}

/// Lets a gateway that holds what this store never made follow to the newest generation.
pub(super) async fn go_back(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = asks(request).await?;
    known(&state, &id)?;
    let newest = state.policy_current().await.about.number;
    if !state.go_back(&id, newest, &author).await? {
        let detail = format!(
            "{id} is not connected, or holds nothing that this store did not make; \
             the newest is {newest}"
        );
        return Err(Problem::new(StatusCode::CONFLICT, "not-ahead", detail));
    }
    let generation = newest;
    Ok(axum::Json(Sent {
        id: &id,
        generation,
    })
    .into_response())
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        let words = error.to_string();
        match error {
            OrderError::Store(error) => error.into(),
            OrderError::NoToken(_) => Self::not_found(words),
            OrderError::Name(_) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-taken", &words)
                .at("/gateway", &words),
            OrderError::Full => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-taken", words),
            OrderError::Secret(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-random-numbers", words)
            }
        }
    }
}
