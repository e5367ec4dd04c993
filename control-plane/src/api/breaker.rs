//! `POST /upstreams/{id}/breaker`: an operator's word, which goes before the rules.
//!
//! Separate because it speaks of a state and not of a number; it is a change of the policy all the
//! same, with its author, its generation and a way back. It must never reach a gateway by another
//! way than the policy.

use axum::extract::{Request, State};
use axum::response::Response;
use compartment::policy::Value;
use serde::Deserialize;
use utoipa::ToSchema;

use super::call::Call;
use super::input::Path;
use super::input::{self, CHANGE_BYTES_MAX};
use super::{Problem, policy};
use crate::access::OPERATOR;
use crate::auth;
use crate::limits::Fields;
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::post("/upstreams/{id}/breaker", OPERATOR, set)
            .says(
                "forceBreaker",
                "Force the breaker of an upstream, or leave it to its rules",
            )
            .details(
                "`open` lets nothing through, `closed` everything, `auto` leaves the breaker to \
                 its rules again, closed. It is a change of the policy (`force_breaker`): a \
                 generation with its author, pushed to every gateway, in force over restarts, \
                 undone by restoring the one before.",
            )
            .takes::<Force>(r#"{"state": "open", "comment": "the database is being restored"}"#)
            .writes_policy(),
    ]
}

/// What a breaker is to do.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Forced {
    Open,
    Closed,
    Auto,
}

/// An operator's word about a breaker.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Force {
    state: Forced,
    /// Why, for the history.
    #[serde(default)]
    #[schema(max_length = 2000)]
    comment: String,
}

/// Forces the breaker of an upstream open or closed, or leaves it to its rules again.
pub(super) async fn set(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    let write = input::write(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = http::Request::from_parts(head, body);
    let sent: Force = input::typed(request, CHANGE_BYTES_MAX).await?;
    input::comment(&sent.comment)?;
    let word = match sent.state {
        Forced::Auto => Value::Null,
        Forced::Open => Value::String("open".to_owned()),
        Forced::Closed => Value::String("closed".to_owned()),
    };
    let fields = Fields {
        values: vec![("force_breaker".to_owned(), word)],
        comment: sent.comment,
    };
    let key = format!("upstream/{id}");
    let accepted = state
        .limits
        .patch(&key, &fields, write.seen, write.dry_run, &author);
    Ok(policy::answer(&accepted.await?))
}
