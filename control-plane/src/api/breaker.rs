//! `POST /upstreams/{id}/breaker`: an operator's word, which goes before the rules.
//!
//! Separate because it speaks of a state and not of a number; it is a change of the policy all the
//! same, with its author, its generation and a way back. It must never reach a gateway by another
//! way than the policy.

use axum::extract::{Request, State};
use axum::response::Response;
use compartment::policy::Value;

use super::input::Path;
use super::input::{self, CHANGE_BYTES_MAX, Seen};
use super::{Problem, policy};
use crate::auth;
use crate::limits::{COMMENT_BYTES_MAX, Fields};
use crate::state::AppState;

const RULE: &str = "state must be \"open\", \"closed\" or \"auto\"";

/// Forces the breaker of an upstream open or closed, or leaves it to its rules again.
pub(super) async fn set(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let seen = match input::if_match(&head.headers)? {
        Seen::Generation(generation) => Some(generation),
        Seen::Nothing => None,
    };
    let author = auth::author(&head.extensions);
    let body = input::json(http::Request::from_parts(head, body), CHANGE_BYTES_MAX).await?;
    let fields = fields(body.value)?;
    let key = format!("upstream/{id}");
    let accepted = state.limits.patch(&key, &fields, seen, false, &author);
    Ok(policy::answer(&accepted.await?))
}

fn fields(body: Value) -> Result<Fields, Problem> {
    let Value::Table(entries) = body else {
        return Err(Problem::invalid(
            "",
            "the body must be an object, e.g. {\"state\": \"open\"}",
        ));
    };
    let mut fields = Fields::default();
    for (name, value) in entries {
        match (name.as_str(), value) {
            ("state", Value::String(word)) => {
                let word = match word.as_str() {
                    "auto" => Value::Null,
                    "open" | "closed" => Value::String(word),
                    _ => return Err(Problem::invalid("/state", RULE)),
                };
                fields.values.push(("force_breaker".to_owned(), word));
            }
            ("state", _) => return Err(Problem::invalid("/state", RULE)),
            ("comment", Value::String(text)) if text.len() <= COMMENT_BYTES_MAX => {
                fields.comment = text;
            }
            ("comment", _) => {
                let rule = format!("comment must be text of at most {COMMENT_BYTES_MAX} bytes");
                return Err(Problem::invalid("/comment", &rule));
            }
            _ => {
                let pointer = format!("/{}", wire::stream::bounded_text(&name, 100));
                return Err(Problem::invalid(
                    &pointer,
                    "only state and comment are read here",
                ));
            }
        }
    }
    if fields.values.is_empty() {
        return Err(Problem::invalid("/state", RULE));
    }
    Ok(fields)
}
