//! `/overrides`: limits that hold from one moment to another.
//!
//! Separate because it speaks of what is ahead, not of what is. It must never answer as if
//! something were set that only waits.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use compartment::policy::Value;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Problem;
use super::call::{Call, Kind};
use super::input::{self, CHANGE_BYTES_MAX, Path};
use crate::access::{APPROVER, OPERATOR, VIEWER};
use crate::auth;
use crate::scheduled::{Asked, Before, Numbered, OverrideError, State as How};
use crate::state::AppState;

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/overrides", VIEWER, list)
            .says(
                "getOverrides",
                "Limits that hold from one moment to another",
            )
            .query("open", Kind::Flag, "Only those that wait or run.")
            .answers::<Overrides>("All that are kept, the newest first"),
        Call::post("/overrides", OPERATOR, create)
            .says(
                "planOverride",
                "Plan a limit that holds from one moment to another",
            )
            .details(
                "It is tried on the newest policy now, set at its start and lifted at its end. \
                 Two of one field never overlap. At its end a field that somebody else set \
                 meanwhile is left as it is. Where the setting `approvals` asks for a second \
                 person it waits for one. One that was planned before the setting was switched on \
                 was rightly made: it begins and ends as planned.",
            )
            .takes::<NewOverride>(
                r#"{"key": "tenant/acme", "value": 80, "end": "2026-12-04T18:00[Europe/Berlin]",
                    "comment": "the fair"}"#,
            )
            .creates::<Shown>("It is planned")
            .may(StatusCode::NOT_FOUND, "There is no such compartment")
            .may(
                StatusCode::CONFLICT,
                "Another one is about the same field at the same time",
            ),
        Call::get("/overrides/{id}", VIEWER, one)
            .says("getOverride", "One override")
            .answers::<Shown>("It"),
        Call::patch("/overrides/{id}", OPERATOR, extend)
            .says("extendOverride", "Give an override another end")
            .takes::<NewEnd>(r#"{"end": "2026-12-05T18:00:00Z"}"#)
            .answers::<Shown>("As it is now")
            .may(
                StatusCode::CONFLICT,
                "It is over, or would overlap another one",
            ),
        Call::post("/overrides/{id}/approve", APPROVER, approve)
            .says(
                "approveOverride",
                "Approve another person's override, or that it ends before its time",
            )
            .answers::<Shown>("As it is now")
            .may(
                StatusCode::CONFLICT,
                "It waits for nobody's approval, or is over",
            ),
        Call::delete("/overrides/{id}", OPERATOR, cancel)
            .says(
                "cancelOverride",
                "End an override; one that runs is lifted within a second",
            )
            .details(
                "Where the setting `approvals` asks for a second person, the end of one that runs \
                 waits until somebody else calls `approve`; one that is ahead is withdrawn at \
                 once.",
            )
            .answers::<Shown>("As it is now")
            .accepts::<Shown>("Its end waits for a second person")
            .may(StatusCode::CONFLICT, "It is over"),
    ]
}

/// An override that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewOverride {
    /// The compartment, such as `tenant/acme`.
    key: String,
    /// Which of its fields.
    #[serde(default = "limit")]
    #[schema(default = "limit")]
    field: String,
    /// What it is to be meanwhile.
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// From: RFC 3339, or local time with its zone such as `2026-12-04T18:00[Europe/Berlin]`. Now
    /// unless given.
    #[serde(default)]
    #[schema(nullable = false)]
    start: Option<String>,
    /// To, in the same form.
    end: String,
    /// Why.
    #[serde(default)]
    #[schema(max_length = 2000)]
    comment: String,
}

fn limit() -> String {
    "limit".to_owned()
}

/// Another end.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEnd {
    /// RFC 3339, or local time with its zone.
    end: String,
}

/// Several of them.
#[derive(Debug, Serialize, ToSchema)]
struct Overrides {
    overrides: Vec<Shown>,
}

/// One override.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Override)]
pub(super) struct Shown {
    /// Its number.
    id: i64,
    /// The compartment.
    key: String,
    /// Which of its fields.
    field: String,
    /// What it is meanwhile.
    #[schema(value_type = serde_json::Value)]
    value: Value,
    /// From, as it was written.
    start: String,
    /// The same in UTC.
    start_utc: String,
    /// To, as it was written.
    end: String,
    /// The same in UTC.
    end_utc: String,
    /// How far it has come.
    state: How,
    /// What is put back; absent before its start and for a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = serde_json::Value, required = false)]
    before: Option<Value>,
    /// Who made it.
    by: String,
    /// The second person, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    approved_by: Option<String>,
    /// When it was made, in UTC.
    at: String,
    /// Why.
    comment: String,
    /// What a zone's clock does at its start or end, or why it is not as it was meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Who ended it before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_by: Option<String>,
    /// Who asks to end it before its time, while that waits for a second person.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_asked_by: Option<String>,
    /// Who agreed to end it before its time.
    #[serde(skip_serializing_if = "Option::is_none")]
    end_approved_by: Option<String>,
    /// The generation that set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    set_generation: Option<u64>,
    /// The generation that lifted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lifted_generation: Option<u64>,
}

impl From<Numbered> for Shown {
    fn from(Numbered { id, one }: Numbered) -> Self {
        Self {
            id,
            start_utc: one.start.utc(),
            end_utc: one.end.utc(),
            note: one.note.or(one.start.note).or(one.end.note),
            start: one.start.text,
            end: one.end.text,
            before: match one.before {
                Before::Was(value) => Some(value),
                Before::Unknown | Before::Absent => None,
            },
            key: one.key,
            field: one.field,
            value: one.value,
            state: one.state,
            by: one.by,
            approved_by: one.approved_by,
            at: one.at,
            comment: one.comment,
            cancelled_by: one.cancelled_by,
            end_asked_by: one.end_asked_by,
            end_approved_by: one.end_approved_by,
            set_generation: one.set_generation,
            lifted_generation: one.lifted_generation,
        }
    }
}

/// All that are kept, the newest first; `?open=true` only those that wait or run.
pub(super) async fn list(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let pairs = input::query(&input::parts(request).0, &["open"])?;
    let open = input::parameter(&pairs, "open", "true or false")?.unwrap_or(false);
    let all = state.overrides.list(open).await?;
    let overrides = all.into_iter().map(Shown::from).collect();
    Ok(axum::Json(Overrides { overrides }).into_response())
}

/// One of them.
pub(super) async fn one(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let found = state.overrides.get(&id).await?;
    Ok(axum::Json(Shown::from(found)).into_response())
}

/// Plans one. It is tried on the newest policy now, and set at its start.
pub(super) async fn create(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    let sent: NewOverride = input::typed(request, CHANGE_BYTES_MAX).await?;
    let asked = Asked {
        key: sent.key,
        field: sent.field,
        value: sent.value,
        start: sent.start,
        end: sent.end,
        comment: sent.comment,
    };
    let made = state.overrides.create(asked, &author).await?;
    Ok((StatusCode::CREATED, axum::Json(Shown::from(made))).into_response())
}

/// Gives one another end.
pub(super) async fn extend(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    let request = Request::from_parts(head, body);
    let sent: NewEnd = input::typed(request, CHANGE_BYTES_MAX).await?;
    let changed = state.overrides.extend(&id, &sent.end, &author).await?;
    Ok(axum::Json(Shown::from(changed)).into_response())
}

/// Lets one that was proposed go on.
pub(super) async fn approve(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    let changed = state.overrides.approve(&id, &author).await?;
    Ok(axum::Json(Shown::from(changed)).into_response())
}

/// Ends one: what runs is lifted within about a second.
pub(super) async fn cancel(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    let author = auth::author(&head.extensions);
    input::empty(Request::from_parts(head, body)).await?;
    let changed = state.overrides.cancel(&id, &author).await?;
    let status = match changed.one.end_asked_by {
        Some(_) => StatusCode::ACCEPTED,
        None => StatusCode::OK,
    };
    Ok((status, axum::Json(Shown::from(changed))).into_response())
}

impl From<OverrideError> for Problem {
    fn from(error: OverrideError) -> Self {
        let words = error.to_string();
        match error {
            OverrideError::Field { field, rule } => Self::invalid(&format!("/{field}"), &rule),
            OverrideError::Unknown(_) => Self::not_found(words),
            OverrideError::Overlaps(_) => Self::new(StatusCode::CONFLICT, "overlaps", words),
            OverrideError::Over(_) => Self::new(StatusCode::CONFLICT, "over", words),
            OverrideError::NotProposed(_) => Self::new(StatusCode::CONFLICT, "approved", words),
            OverrideError::NeedsSecond => Self::new(StatusCode::CONFLICT, "needs-second", words),
            OverrideError::OwnApproval(_) => {
                Self::new(StatusCode::FORBIDDEN, "own-approval", words)
            }
            OverrideError::Moved(_) => Self::new(StatusCode::CONFLICT, "contended", words).retry(),
            OverrideError::Full => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "not-taken", words),
            OverrideError::Limits(error) => error.into(),
        }
    }
}
