//! `GET /overrides`, and the forms that plan, extend, end and approve one.
//!
//! Separate page by page; the engine is elsewhere. A form that is refused keeps what was typed. It
//! must never call something set that only waits.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use compartment::policy::Value;
use http::StatusCode;
use serde::Deserialize;
use web::{OVERRIDE_ROWS_MAX, OverrideForm, OverrideRow, OverridesPage, Template as _};

use super::edit::form;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::{PageError, html, see_other};
use crate::auth;
use crate::limits::{Author, LimitsError};
use crate::scheduled::{self, Before, Numbered, OverrideError, State as How};
use crate::settings::Approvals;
use crate::state::AppState;
use crate::store::StoreError;

const HERE: &str = "/overrides";

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
}

/// What the forms send; each of them some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    id: String,
    key: String,
    value: String,
    start: String,
    end: String,
    zone: String,
    comment: String,
}

/// Which form.
#[derive(Clone, Copy)]
enum Act {
    Plan,
    Extend,
    Cancel,
    Approve,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    let page = page(&state, &asked).await;
    let body = match view.fragment.as_str() {
        "live" => page.fragment(),
        _ => page.render(),
    };
    match body.map_err(PageError::from) {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => error.answer(&asked.request_id, Some(HERE.to_owned())),
    }
}

async fn page(state: &AppState, asked: &Asked) -> OverridesPage {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let all = state.overrides.list(false).await;
    let needs = state.settings.approvals().await;
    let store_silent = all.is_err();
    let mut page = OverridesPage {
        frame: asked.frame(&current, &snapshot, HERE.to_owned()),
        needs_second: needs.is_ok_and(|needs| needs == Approvals::All),
        running: Vec::new(),
        ahead: Vec::new(),
        ended: Vec::new(),
        plan: OverrideForm {
            zone: "UTC".to_owned(),
            ..OverrideForm::default()
        },
        refused: None,
        store_silent,
    };
    for one in all.unwrap_or_default() {
        let list = match one.one.state {
            How::Running => &mut page.running,
            How::Proposed | How::Waiting => &mut page.ahead,
            How::Ended | How::Cancelled | How::Left | How::Missed | How::Refused => &mut page.ended,
        };
        if list.len() < OVERRIDE_ROWS_MAX {
            list.push(row(one));
        }
    }
    page
}

/// Those about one compartment that wait or run.
pub(super) async fn of(state: &AppState, key: &str) -> Result<Vec<OverrideRow>, StoreError> {
    let open = state.overrides.list(true).await?;
    let own = open.into_iter().filter(|one| one.one.key == key);
    Ok(own.take(OVERRIDE_ROWS_MAX).map(row).collect())
}

fn row(Numbered { id, one }: Numbered) -> OverrideRow {
    OverrideRow {
        id,
        before: match &one.before {
            Before::Unknown => None,
            Before::Absent => Some("the default".to_owned()),
            Before::Was(value) => Some(text(value)),
        },
        value: text(&one.value),
        state: match one.state {
            How::Proposed => "proposed",
            How::Waiting => "waiting",
            How::Running => "running",
            How::Ended => "ended",
            How::Cancelled => "cancelled",
            How::Left => "left",
            How::Missed => "missed",
            How::Refused => "refused",
        },
        note: one.note.or(one.start.note.clone()).or(one.end.note.clone()),
        start: (one.start.text.clone(), one.start.utc()),
        end: (one.end.text.clone(), one.end.utc()),
        at: moment(&one.at),
        key: one.key,
        field: one.field,
        by: one.by,
        approved_by: one.approved_by,
        cancelled_by: one.cancelled_by,
        end_asked_by: one.end_asked_by,
        end_approved_by: one.end_approved_by,
        comment: one.comment,
        set_by: one.set_generation,
        lifted_by: one.lifted_generation,
    }
}

fn text(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.clone();
    }
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) async fn plan(State(state): State<AppState>, request: Request) -> Response {
    act(&state, Act::Plan, request).await
}

pub(super) async fn extend(State(state): State<AppState>, request: Request) -> Response {
    act(&state, Act::Extend, request).await
}

pub(super) async fn cancel(State(state): State<AppState>, request: Request) -> Response {
    act(&state, Act::Cancel, request).await
}

pub(super) async fn approve(State(state): State<AppState>, request: Request) -> Response {
    act(&state, Act::Approve, request).await
}

async fn act(state: &AppState, act: Act, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let done = async {
        let sent = form::<Sent>(request).await?;
        match done(state, act, &sent, &author).await {
            Ok(_) => Ok(see_other(HERE)),
            Err(OverrideError::Limits(error @ LimitsError::Store(_))) => {
                Err(PageError::Limits(error))
            }
            Err(error) => {
                let mut page = page(state, &asked).await;
                page.refused = Some(words(&error));
                if matches!(act, Act::Plan) {
                    page.plan = typed(sent);
                }
                Ok(html(status(&error), page.render()?))
            }
        }
    };
    let done: Result<Response, PageError> = done.await;
    done.unwrap_or_else(|error| error.answer(&asked.request_id, Some(HERE.to_owned())))
}

async fn done(
    state: &AppState,
    act: Act,
    sent: &Sent,
    author: &Author,
) -> Result<Numbered, OverrideError> {
    let all = &state.overrides;
    match act {
        Act::Plan => {
            let value = sent.value.trim();
            let number = value.parse::<i128>().map(Value::Integer);
            let asked = scheduled::Asked {
                key: sent.key.trim().to_owned(),
                field: "limit".to_owned(),
                value: number.unwrap_or_else(|_| Value::String(value.to_owned())),
                start: (!sent.start.trim().is_empty()).then(|| zoned(&sent.start, &sent.zone)),
                end: zoned(&sent.end, &sent.zone),
                comment: sent.comment.trim().to_owned(),
            };
            all.create(asked, author).await
        }
        Act::Extend => {
            let end = zoned(&sent.end, &sent.zone);
            all.extend(&sent.id, &end, author).await
        }
        Act::Cancel => all.cancel(&sent.id, author).await,
        Act::Approve => all.approve(&sent.id, author).await,
    }
}

/// The local time of a form, with the zone beside it.
fn zoned(local: &str, zone: &str) -> String {
    let zone = match zone.trim() {
        "" => "UTC",
        zone => zone,
    };
    format!("{}[{zone}]", local.trim())
}

fn typed(sent: Sent) -> OverrideForm {
    OverrideForm {
        is_fixed: false,
        key: sent.key,
        value: sent.value,
        start: sent.start,
        end: sent.end,
        zone: sent.zone,
        comment: sent.comment,
    }
}

fn words(error: &OverrideError) -> String {
    if let OverrideError::Limits(LimitsError::Invalid { faults }) = error
        && let Some(first) = faults.first()
    {
        return first.to_string();
    }
    error.to_string()
}

const fn status(error: &OverrideError) -> StatusCode {
    match error {
        OverrideError::Field { .. } | OverrideError::Full => StatusCode::UNPROCESSABLE_ENTITY,
        OverrideError::Unknown(_) => StatusCode::NOT_FOUND,
        OverrideError::OwnApproval(_) => StatusCode::FORBIDDEN,
        OverrideError::Overlaps(_)
        | OverrideError::Over(_)
        | OverrideError::NotProposed(_)
        | OverrideError::NeedsSecond
        | OverrideError::Moved(_) => StatusCode::CONFLICT,
        OverrideError::Limits(LimitsError::UnknownKey { .. }) => StatusCode::NOT_FOUND,
        OverrideError::Limits(_) => StatusCode::UNPROCESSABLE_ENTITY,
    }
}
