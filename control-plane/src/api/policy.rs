//! `GET` and `PUT /policy`.
//!
//! Separate because the whole document passes here and nowhere else.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::Problem;
use super::input::{self, DOCUMENT_BYTES_MAX};
use crate::auth;
use crate::limits::Accepted;
use crate::state::AppState;

/// The newest policy; its generation is the `etag`.
pub(super) async fn read(State(state): State<AppState>, request: Request) -> Response {
    let (head, _) = input::parts(request);
    if let Err(problem) = input::query(&head, &[]) {
        return problem.into_response();
    }
    let current = state.policy_current().await;
    let etag = etag(current.about.number);
    let known = head
        .headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|value| value == etag);
    let headers = [
        (header::ETAG, etag),
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        ),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, current.parts.document().clone()).into_response()
}

/// Replaces the policy.
pub(super) async fn replace(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    let pairs = input::query(&head, &["dry_run", "comment"])?;
    let dry_run = input::parameter(&pairs, "dry_run", "true or false")?.unwrap_or(false);
    let comment: String = input::parameter(&pairs, "comment", "text")?.unwrap_or_default();
    let seen = input::required(input::if_match(&head.headers)?)?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    // The place is kept to the end: it bounds the memory of all documents that wait their turn.
    let input::Json {
        value,
        place: _place,
    } = input::json(request, DOCUMENT_BYTES_MAX).await?;
    let accepted = state
        .limits
        .put(value, seen, dry_run, &comment, &author)
        .await?;
    Ok(answer(&accepted))
}

/// The answer to a change that was taken.
pub(super) fn answer(accepted: &Accepted) -> Response {
    let finding = |finding: &crate::linter::Finding| {
        json!({
            "rule": finding.rule,
            "severity": finding.severity,
            "pointer": finding.path.pointer(),
            "path": finding.path.to_string(),
            "message": finding.message,
        })
    };
    let findings: Vec<_> = accepted.findings.iter().map(finding).collect();
    let body = json!({
        "generation": accepted.generation,
        "stored": accepted.stored,
        "findings": findings,
    });
    let etag = (header::ETAG, etag(accepted.generation));
    ([etag], axum::Json(body)).into_response()
}

fn etag(generation: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{generation}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}
