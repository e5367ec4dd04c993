//! Every refusal of the API, as RFC 9457 describes one.
//!
//! Separate so that all errors have one shape, whichever layer refuses. It must never carry a
//! token, a key or more of a caller's text than an excerpt.

use axum::response::{IntoResponse, Response};
use compartment::policy::Fault;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value as Json, json};
use wire::document::Difference;

use crate::limits::LimitsError;
use crate::store::StoreError;

/// Seconds after which a busy store is asked again.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A refusal on its way to the caller.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    kind: &'static str,
    detail: String,
    more: Map<String, Json>,
    retry: bool,
}

impl Problem {
    /// A refusal of this kind; `detail` is for people.
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            detail: detail.into(),
            more: Map::new(),
            retry: false,
        }
    }

    /// 400 for what cannot be read.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", detail)
    }

    /// 404.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", detail)
    }

    /// 422 with one error.
    pub(crate) fn invalid(pointer: &str, detail: &str) -> Self {
        let errors = json!([{ "pointer": pointer, "detail": detail }]);
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).with("errors", errors)
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
        let mut body = Map::new();
        let title = self.status.canonical_reason().unwrap_or("refused");
        body.insert(
            "type".to_owned(),
            json!(format!("urn:bulkhead:problem:{}", self.kind)),
        );
        body.insert("title".to_owned(), json!(title));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("detail".to_owned(), json!(self.detail));
        body.extend(self.more);
        body.entry("errors").or_insert_with(|| json!([]));
        let text = Json::Object(body).to_string();
        let kind = (
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        let mut response = (self.status, [kind], text).into_response();
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
            LimitsError::UnknownKey { .. } | LimitsError::UnknownGeneration(_) => {
                Self::not_found(detail)
            }
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
            StoreError::Full => Self::new(StatusCode::INSUFFICIENT_STORAGE, "store-full", detail),
            StoreError::Url { .. }
            | StoreError::Open { .. }
            | StoreError::Damaged { .. }
            | StoreError::Foreign { .. }
            | StoreError::Newer { .. }
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

/// Differences as API and conflicts show them.
pub(crate) fn differences_json(differences: &[Difference]) -> Json {
    let one = |difference: &Difference| {
        json!({
            "pointer": difference.path.pointer(),
            "path": difference.path.to_string(),
            "old": difference.old,
            "new": difference.new,
        })
    };
    Json::Array(differences.iter().map(one).collect())
}
