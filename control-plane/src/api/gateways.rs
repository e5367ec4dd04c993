//! `GET /gateways`, what can be ordered about one, and the tokens that let gateways in.
//!
//! Separate because it speaks of processes, not of the policy. It must never answer with a token
//! that exists already.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use compartment::policy::Value;
use http::StatusCode;
use serde_json::{Value as Json, json};

use super::input::Path;
use super::{Problem, input};
use crate::auth;
use crate::limits::Author;
use crate::orders::{OrderError, TokenRow};
use crate::state::AppState;

/// Largest body of a call here.
const BODY_BYTES_MAX: usize = 4 << 10;

/// Every gateway that is known, and what it runs.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    Ok(axum::Json(state.gateways()).into_response())
}

/// Who asks for something that has no body.
async fn asks(request: Request) -> Result<Author, Problem> {
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
    Ok(axum::Json(json!({ "id": id, "drained": drained })).into_response())
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
    Ok(axum::Json(json!({ "id": id, "revoked": true })).into_response())
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
    Ok(axum::Json(json!({ "id": id, "generation": newest })).into_response())
}

fn shown(row: &TokenRow) -> Json {
    json!({
        "id": row.id,
        "kind": "gateway",
        "gateway": row.gateway,
        "created_at": row.created_at,
        "created_by": row.created_by,
    })
}

/// Every token, without what is secret.
pub(super) async fn tokens(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let rows: Vec<_> = state.orders.tokens().iter().map(shown).collect();
    Ok(axum::Json(rows).into_response())
}

/// Makes a token for one gateway; the answer holds it, for the only time.
pub(super) async fn create_token(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    let sent = input::json(request, BODY_BYTES_MAX).await?;
    let rule = "must be the name of one gateway, and is the only key";
    let Value::Table(entries) = &sent.value else {
        return Err(Problem::invalid("", rule));
    };
    let [(name, Value::String(gateway))] = entries.as_slice() else {
        return Err(Problem::invalid("/gateway", rule));
    };
    if name != "gateway" {
        return Err(Problem::invalid("/gateway", rule));
    }
    let made = state.orders.create_token(gateway, &author).await?;
    let mut answer = shown(&made.row);
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("token".to_owned(), made.token.expose().into());
    }
    Ok((StatusCode::CREATED, axum::Json(answer)).into_response())
}

/// Revokes one: the stream that it opened ends.
pub(super) async fn revoke_token(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = asks(request).await?;
    state.orders.revoke_token(&id, &author).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<OrderError> for Problem {
    fn from(error: OrderError) -> Self {
        let words = error.to_string();
        match error {
            OrderError::Store(error) => error.into(),
            OrderError::NoToken(_) => Self::not_found(words),
            OrderError::Name(_) | OrderError::Full => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-taken", words)
            }
            OrderError::Secret(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no-random-numbers", words)
            }
        }
    }
}
