//! How calls about changes answer.
//!
//! Separate for length. Names are those that others rely on.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::{Value as Json, json};
use utoipa::ToSchema;

use super::Problem;
use super::policy::FindingRow;
use crate::changes::{Answer, Change, ChangeError, Clash, Compared, Effect, Shown};

pub(super) fn etag(change: &Change) -> HeaderValue {
    let text = format!("\"{}\"", change.version);
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
}

pub(super) fn answer(change: &Change) -> Response {
    ([(header::ETAG, etag(change))], axum::Json(change)).into_response()
}

/// 201 with where it is.
pub(super) fn made(change: &Change) -> Response {
    let headers = [
        (header::ETAG, etag(change)),
        (header::LOCATION, location(change.number)),
    ];
    (StatusCode::CREATED, headers, axum::Json(change)).into_response()
}

/// Where a change is.
pub(super) fn location(number: u64) -> HeaderValue {
    let path = format!("/api/v1/changes/{number}");
    HeaderValue::from_str(&path).unwrap_or(HeaderValue::from_static("/api/v1/changes"))
}

/// A value that two people changed.
#[derive(Serialize, ToSchema)]
pub(super) struct ClashRow {
    /// Where, as a JSON pointer.
    pointer: String,
    /// Where, for people.
    path: String,
    /// What stood there when the change was made.
    base: Json,
    /// What the change says.
    mine: Json,
    /// What somebody else made it.
    theirs: Json,
}

/// One change with what belongs beside it.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangeWhole)]
pub(super) struct Whole {
    #[serde(flatten)]
    change: Change,
    /// The setting asks for a second person who did not agree yet.
    needs_approval: bool,
    /// The newest generation.
    newest: u64,
    /// What makes it dangerous, in words.
    dangers: Vec<String>,
    /// Rules that the policy would break with it.
    faults: Vec<String>,
    /// What the rules say of the policy with it.
    findings: Vec<FindingRow>,
    /// What others changed, too.
    clashes: Vec<ClashRow>,
    /// What its limits would do to the measured traffic.
    effects: Vec<Effect>,
    /// What gateways made of it, while it is staged or published.
    gateways: Vec<Answer>,
    /// 15 minutes before and after it was published.
    compared: Vec<Compared>,
}

impl Whole {
    pub(super) fn of(shown: Shown) -> Self {
        Self {
            change: shown.change,
            needs_approval: shown.needs_approval,
            newest: shown.newest,
            dangers: shown.dangers,
            faults: shown.faults,
            findings: shown.findings.iter().map(FindingRow::from).collect(),
            clashes: rows(&shown.clashes),
            effects: shown.effects,
            gateways: shown.gateways,
            compared: shown.compared,
        }
    }
}

fn rows(clashes: &[Clash]) -> Vec<ClashRow> {
    let one = |clash: &Clash| ClashRow {
        pointer: clash.path.pointer(),
        path: clash.path.to_string(),
        base: json!(clash.base),
        mine: json!(clash.ours),
        theirs: json!(clash.theirs),
    };
    clashes.iter().map(one).collect()
}

impl From<ChangeError> for Problem {
    fn from(error: ChangeError) -> Self {
        let detail = error.to_string();
        match error {
            ChangeError::Unknown(_) => Self::not_found(detail),
            ChangeError::State { state, .. } => {
                Self::new(StatusCode::CONFLICT, "change-state", detail).with("state", json!(state))
            }
            ChangeError::Moved {
                seen,
                current,
                state,
                ..
            } => Self::new(StatusCode::PRECONDITION_FAILED, "change-moved-on", detail)
                .with("seen", json!(seen))
                .with("current", json!(current))
                .with("state", json!(state)),
            ChangeError::Own { .. } => Self::new(StatusCode::FORBIDDEN, "own-change", detail),
            ChangeError::NotApproved(number) => {
                Self::new(StatusCode::CONFLICT, "not-approved", detail)
                    .with("change", json!(number))
            }
            ChangeError::Clash {
                base,
                current,
                clashes,
                ..
            } => Self::new(StatusCode::CONFLICT, "conflict", detail)
                .with("base", json!(base))
                .with("current", json!(current))
                .with("clashes", json!(rows(&clashes))),
            ChangeError::Nothing => Self::invalid("", &detail),
            ChangeError::TooMany | ChangeError::TooLong(_) => {
                Self::new(StatusCode::CONFLICT, "too-many-changes", detail)
            }
            ChangeError::Taken(other) => {
                Self::new(StatusCode::CONFLICT, "staged", detail).with("change", json!(other))
            }
            ChangeError::Unconfirmed(_) => Self::invalid("/confirm", &detail),
            ChangeError::NoGateway(_) => Self::invalid("/gateway", &detail),
            ChangeError::Gone(_) => Self::new(StatusCode::CONFLICT, "gone", detail),
            ChangeError::Limits(error) => error.into(),
        }
    }
}
