//! `GET` and `PUT /policy`.
//!
//! Separate because the whole document passes here and nowhere else.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::Problem;
use super::call::{Call, Kind};
use super::input::{self, DOCUMENT_BYTES_MAX};
use crate::access::{OPERATOR, VIEWER};
use crate::auth;
use crate::limits::{Accepted, COMMENT_BYTES_MAX};
use crate::linter::{Finding, Severity};
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/policy", VIEWER, read)
            .says("getPolicy", "The newest policy")
            .header(
                "If-None-Match",
                "The `etag` of the version that the caller has.",
            )
            .answers::<PolicyDocument>("The document")
            .says_only(
                StatusCode::NOT_MODIFIED,
                "Still the version that the caller has",
            )
            .etag(),
        Call::put("/policy", OPERATOR, replace)
            .says("putPolicy", "Replace the policy")
            .details(
                "The whole document is checked and linted; a document that breaks a rule stores \
                 and pushes nothing. A document that differs in nothing makes no generation. At \
                 most 32 MiB.",
            )
            .query(
                "comment",
                Kind::Text(COMMENT_BYTES_MAX),
                "Why, for the history.",
            )
            .header(
                "If-Match",
                "The generation that was edited: \"43\", W/\"43\" or 43.",
            )
            .required()
            .takes::<PolicyDocument>("")
            .writes_policy()
            .may(StatusCode::PRECONDITION_REQUIRED, "If-Match is missing"),
    ]
}

/// The policy document: the same shape as the TOML file.
#[derive(Serialize, ToSchema)]
#[schema(as = Policy)]
#[serde(transparent)]
pub(super) struct PolicyDocument(serde_json::Map<String, serde_json::Value>);

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
    let write = input::write(&head, &["comment"])?;
    let (pairs, dry_run) = (write.pairs, write.dry_run);
    let comment: String = input::parameter(&pairs, "comment", "text")?.unwrap_or_default();
    let seen = input::required(write.seen)?;
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

/// A change that was taken.
#[derive(Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(super) struct Answer {
    /// The generation that holds the change; the current one for a dry run or when nothing differs.
    generation: u64,
    /// Whether a generation was made.
    stored: bool,
    /// The change that was opened instead (202), or that holds what was stored.
    #[schema(required)]
    change: Option<u64>,
    /// What the rules say of the policy as it would be.
    findings: Vec<FindingRow>,
}

/// Something that a rule says of the policy.
#[derive(Serialize, ToSchema)]
#[schema(as = Finding)]
pub(super) struct FindingRow {
    /// Which rule.
    rule: &'static str,
    severity: Severity,
    /// Where, as a JSON pointer.
    pointer: String,
    /// Where, for people.
    path: String,
    /// What must hold, with its arithmetic.
    message: String,
}

impl From<&Finding> for FindingRow {
    fn from(finding: &Finding) -> Self {
        Self {
            rule: finding.rule,
            severity: finding.severity,
            pointer: finding.path.pointer(),
            path: finding.path.to_string(),
            message: finding.message.clone(),
        }
    }
}

/// The answer to a change that was taken; 202 when it waits for a second person.
pub(super) fn answer(accepted: &Accepted) -> Response {
    let body = Answer {
        generation: accepted.generation,
        stored: accepted.stored,
        change: accepted.change,
        findings: accepted.findings.iter().map(FindingRow::from).collect(),
    };
    let etag = (header::ETAG, etag(accepted.generation));
    match accepted.opened() {
        Some(number) => {
            let location = (header::LOCATION, super::changes_told::location(number));
            (StatusCode::ACCEPTED, [etag, location], axum::Json(body)).into_response()
        }
        None => ([etag], axum::Json(body)).into_response(),
    }
}

pub(super) fn etag(generation: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("\"{generation}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}
