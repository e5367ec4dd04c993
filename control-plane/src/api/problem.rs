//! Every refusal of the API, as RFC 9457 describes one.
//!
//! Separate so that all errors have one shape, whichever layer refuses. It must never carry a
//! token, a key or more of a caller's text than an excerpt.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use compartment::policy::{Fault, Value};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value as Json, json};
use utoipa::ToSchema;
use wire::document::Difference;

use crate::limits::LimitsError;
use crate::store::StoreError;

/// Seconds after which a busy store is asked again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A refusal, as RFC 9457 describes one.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemDocument {
    /// What kind of refusal: `urn:bulkhead:problem:` and a word.
    #[serde(rename = "type")]
    kind: String,
    /// The status in words.
    title: &'static str,
    /// The status.
    status: u16,
    /// What is wrong, for people.
    detail: String,
    /// Everything that is wrong with what was sent, one by one.
    #[schema(value_type = Vec<ProblemError>)]
    errors: Json,
    /// Of a policy that moved on: the generation that the caller saw.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    seen: Option<Json>,
    /// And the one that is current.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    current: Option<Json>,
    /// And what differs between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<DifferenceRow>>)]
    differences: Option<Json>,
    /// Of an outcome that is not known: what to ask `GET /operations/{operation}` for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    operation: Option<Json>,
    /// Of a caller who may not: the role that the call needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    role: Option<Json>,
    /// Of a request that was sent again: what was made, without what was shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, Json>>)]
    made: Option<Json>,
    #[serde(flatten)]
    more: BTreeMap<String, Json>,
}

/// One thing that is wrong.
#[derive(Serialize, ToSchema)]
pub(super) struct ProblemError {
    /// Where in the body, as a JSON pointer; empty for the whole of it or for what stands outside.
    pub(super) pointer: String,
    /// The query parameter, where one is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameter: Option<String>,
    /// The header, where one is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<&'static str>,
    /// What must hold.
    pub(super) detail: String,
}

/// One value that is not the same.
#[derive(Serialize, ToSchema)]
#[schema(as = Difference)]
pub(super) struct DifferenceRow<'a> {
    /// Where, as a JSON pointer.
    pointer: String,
    /// Where, for people.
    path: String,
    /// What stood there; null when it was not there.
    #[schema(value_type = Json)]
    old: Option<&'a Value>,
    /// What stands there now; null when it is gone.
    #[schema(value_type = Json)]
    new: Option<&'a Value>,
}

/// Which kind of refusal an answer is, beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(pub(super) &'static str);

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    more: BTreeMap<String, Json>,
    retry: bool,
}

impl Problem {
    /// A refusal of this kind; `detail` is for people.
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
            more: BTreeMap::new(),
            retry: false,
        }
    }

    /// 400 for what cannot be read.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// 400 for a query parameter; `value` is an excerpt of what was sent.
    pub(crate) fn parameter(name: &str, value: Option<&str>, rule: &str) -> Self {
        let value = value.map(|text| format!(" = {:?}", wire::stream::bounded_text(text, 80)));
        let name = wire::stream::bounded_text(name, 80);
        let value = value.unwrap_or_default();
        let error = ProblemError {
            pointer: String::new(),
            parameter: Some(name.clone()),
            header: None,
            detail: rule.to_owned(),
        };
        Self::bad_request(format!("query parameter {name}{value}: {rule}"))
            .with("errors", json!([error]))
    }

    /// 400 for a header.
    pub(crate) fn header(name: &'static str, rule: &str) -> Self {
        Self::bad_request(format!("`{name}` {rule}")).about(name, rule)
    }

    /// The header that is wrong.
    pub(super) fn about(self, header: &'static str, rule: &str) -> Self {
        let error = ProblemError {
            pointer: String::new(),
            parameter: None,
            header: Some(header),
            detail: rule.to_owned(),
        };
        self.with("errors", json!([error]))
    }

    /// 404.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 422 with one error.
    pub(crate) fn invalid(pointer: &str, detail: &str) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).at(pointer, detail)
    }

    /// What is wrong, and where in the body.
    pub(super) fn at(self, pointer: &str, detail: &str) -> Self {
        let error = ProblemError {
            pointer: pointer.to_owned(),
            parameter: None,
            header: None,
            detail: detail.to_owned(),
        };
        self.with("errors", json!([error]))
    }

    /// One more member of the document.
    pub(crate) fn with(mut self, name: &str, value: Json) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    /// As a page shows it.
    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// For people.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) fn retry(mut self) -> Self {
        self.retry = true;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut more = self.more;
        let document = ProblemDocument {
            kind: format!("urn:bulkhead:problem:{}", self.kind),
            title: self.status.canonical_reason().unwrap_or("refused"),
            status: self.status.as_u16(),
            detail: self.detail,
            errors: more.remove("errors").unwrap_or_else(|| json!([])),
            seen: more.remove("seen"),
            current: more.remove("current"),
            differences: more.remove("differences"),
            operation: more.remove("operation"),
            role: more.remove("role"),
            made: more.remove("made"),
            more,
        };
        let text = json!(document).to_string();
        let kind = (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let mut response = (self.status, [kind], text).into_response();
        response.extensions_mut().insert(Kind(self.kind));
        if self.retry {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl From<LimitsError> for Problem {
    fn from(error: LimitsError) -> Self {
        let detail = error.to_string();
        match error {
            LimitsError::UnknownKey { .. }
            | LimitsError::UnknownEntry { .. }
            | LimitsError::UnknownGeneration(_) => Self::not_found(detail),
            LimitsError::Exists { .. } => Self::new(StatusCode::CONFLICT, "exists", detail),
            LimitsError::InUse { .. } => Self::new(StatusCode::CONFLICT, "in-use", detail),
            LimitsError::NotSettable { .. } => Self::invalid("", &detail),
            LimitsError::Invalid { faults } => {
                let errors = faults.iter().map(fault).collect();
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
                    .with("errors", Json::Array(errors))
            }
            LimitsError::MovedOn {
                seen,
                current,
                differences,
            } => Self::new(StatusCode::PRECONDITION_FAILED, "moved-on", detail)
                .with("seen", json!(seen))
                .with("current", json!(current))
                .with("differences", differences_json(&differences)),
            LimitsError::TooManyOpen => Self::new(StatusCode::CONFLICT, "too-many-changes", detail),
            LimitsError::Contended => Self::new(StatusCode::CONFLICT, "contended", detail).retry(),
            LimitsError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::Busy | StoreError::Closed => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-busy", detail).retry()
            }
            StoreError::Away(_) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the database is away"
                );
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-away", detail).retry()
            }
            // No word of trying again: it may have been stored.
            StoreError::Unknown { operation } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", detail)
                    .with("operation", json!(operation))
            }
            StoreError::NotKept(_) => Self::new(StatusCode::GONE, "not-kept", detail),
            StoreError::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, "store-full", detail),
            StoreError::Url { .. }
            | StoreError::Open { .. }
            | StoreError::Damaged { .. }
            | StoreError::Foreign { .. }
            | StoreError::Newer { .. }
            | StoreError::Unchained { .. }
            | StoreError::Held { .. }
            | StoreError::ReadOnly
            | StoreError::Refused(_)
            | StoreError::Failed(_)
            | StoreError::Row(_) => {
                // The cause goes to the log, where the operator reads it; callers get the kind.
                tracing::error!(error = &error as &dyn std::error::Error, "the store failed");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-failed", detail).retry()
            }
        }
    }
}

fn fault(fault: &Fault) -> Json {
    let detail = fault.to_string();
    json!({ "pointer": fault.path.pointer(), "detail": detail })
}

/// Differences as answers have them.
pub(super) fn rows(differences: &[Difference]) -> Vec<DifferenceRow<'_>> {
    differences.iter().map(DifferenceRow::from).collect()
}

impl<'a> From<&'a Difference> for DifferenceRow<'a> {
    fn from(difference: &'a Difference) -> Self {
        Self {
            pointer: difference.path.pointer(),
            path: difference.path.to_string(),
            old: difference.old.as_ref(),
            new: difference.new.as_ref(),
        }
    }
}

/// Differences as API and conflicts show them.
pub(crate) fn differences_json(differences: &[Difference]) -> Json {
    json!(rows(differences))
}
