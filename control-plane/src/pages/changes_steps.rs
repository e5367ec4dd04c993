//! The forms of the Changes pages: one for each step, and the way back to a generation.
//!
//! Separate from showing them because every way a step can go wrong is here; what was typed is
//! kept. It must never publish what is dangerous without the typed name and a reason.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use compartment::policy::parse_duration;
use http::StatusCode;
use serde::Deserialize;
use web::{COMMENT_CHARS_MAX, Template as _, TypedStep, url};

use super::changes::{of_change, page, parse};
use super::edit::form;
use super::frame::Asked;
use super::{PageError, html, see_other};
use crate::auth;
use crate::changes::{CONFIRM_MAX_MS, Change, ChangeError, Prefer, Step, Terms};
use crate::limits::{Author, LimitsError};
use crate::state::AppState;

/// What the forms send; each of them some of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sent {
    version: String,
    comment: String,
    gateway: String,
    confirm: String,
    confirm_within: String,
    guard_percent: String,
    prefer: String,
}

macro_rules! steps {
    ($($(#[$about:meta])* $name:ident = $step:expr;)+) => {
        $($(#[$about])*
        pub(super) async fn $name(
            State(state): State<AppState>,
            Path(number): Path<String>,
            request: Request,
        ) -> Response {
            step(&state, &number, $step, request).await
        })+
    };
}

steps! {
    approve = Step::Approve;
    stage = Step::Stage;
    publish = Step::Publish;
    keep = Step::Keep;
    revert = Step::Revert;
    abandon = Step::Abandon;
    rebase = Step::Rebase;
}

async fn step(state: &AppState, number: &str, step: Step, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let number = parse(number)?;
        let sent = form::<Sent>(request).await?;
        match taken(state, number, step, &sent, &author).await {
            Ok(change) => Ok(see_other(&url::change(change.number))),
            Err(error @ (ChangeError::Unknown(_) | ChangeError::Limits(LimitsError::Store(_)))) => {
                Err(of_change(error))
            }
            Err(error) => again(state, &asked, number, &sent, &error).await,
        }
    };
    act.await
        .unwrap_or_else(|error| error.answer(&asked.request_id, Some("/changes".to_owned())))
}

/// The page once more, with why nothing was done.
async fn again(
    state: &AppState,
    asked: &Asked,
    number: u64,
    sent: &Sent,
    error: &ChangeError,
) -> Result<Response, PageError> {
    let status = match error {
        ChangeError::Own { .. } => StatusCode::FORBIDDEN,
        ChangeError::Moved { .. } => StatusCode::PRECONDITION_FAILED,
        ChangeError::NoGateway(_)
        | ChangeError::Nothing
        | ChangeError::Unconfirmed(_)
        | ChangeError::Limits(LimitsError::Invalid { .. }) => StatusCode::UNPROCESSABLE_ENTITY,
        ChangeError::Unknown(_)
        | ChangeError::State { .. }
        | ChangeError::NotApproved(_)
        | ChangeError::Clash { .. }
        | ChangeError::TooMany
        | ChangeError::TooLong(_)
        | ChangeError::Taken(_)
        | ChangeError::Gone(_)
        | ChangeError::Limits(_) => StatusCode::CONFLICT,
    };
    let typed = TypedStep {
        comment: sent.comment.clone(),
        confirm: sent.confirm.clone(),
    };
    let page = page(state, asked, number, Some(error.to_string()), typed).await?;
    Ok(html(status, page.render()?))
}

async fn taken(
    state: &AppState,
    number: u64,
    step: Step,
    sent: &Sent,
    author: &Author,
) -> Result<Change, ChangeError> {
    let (changes, seen) = (&state.changes, sent.version.parse().ok());
    let comment: String = sent
        .comment
        .trim()
        .chars()
        .take(COMMENT_CHARS_MAX)
        .collect();
    let comment = comment.as_str();
    match step {
        Step::Approve => changes.approve(number, seen, comment, author).await,
        Step::Stage => {
            let known = |one: &crate::fleet::GatewayView| one.connected && one.id == sent.gateway;
            if !state.gateways().iter().any(known) {
                return Err(ChangeError::NoGateway(sent.gateway.clone()));
            }
            changes
                .stage(number, seen, &sent.gateway, comment, author)
                .await
        }
        Step::Publish => {
            let shown = state.change_shown(number).await?;
            let name = format!("change-{number}");
            let is_said = sent.confirm.trim() == name && !comment.is_empty();
            if !shown.dangers.is_empty() && !is_said {
                return Err(ChangeError::Unconfirmed(name));
            }
            changes
                .publish(number, seen, terms(sent), comment, author)
                .await
        }
        Step::Keep => changes.keep(number, seen, comment, author).await,
        Step::Revert => changes.revert(number, seen, comment, author).await,
        Step::Rebase => {
            let prefer = match sent.prefer.as_str() {
                "mine" => Some(Prefer::Ours),
                "theirs" => Some(Prefer::Theirs),
                _ => None,
            };
            changes.rebase(number, seen, prefer, author).await
        }
        Step::Edit | Step::Abandon => changes.abandon(number, seen, comment, author).await,
    }
}

/// The page's own choices; whatever else was sent is none.
fn terms(sent: &Sent) -> Terms {
    let span = parse_duration(&sent.confirm_within);
    let span = span.and_then(|span| u64::try_from(span.as_millis()).ok());
    let percent: Option<u32> = sent.guard_percent.parse().ok();
    Terms {
        confirm_within_ms: span.filter(|ms| (1_000..=CONFIRM_MAX_MS).contains(ms)),
        guard_milli: percent
            .filter(|percent| (1..=100).contains(percent))
            .map(|percent| percent.saturating_mul(10)),
        watch_for_ms: None,
    }
}

/// What the form of a generation sends.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Back {
    newest: u64,
    confirm: String,
}

/// `POST /generations/{number}/restore`.
pub(super) async fn restore(
    State(state): State<AppState>,
    Path(number): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let what = "There is no such generation.";
        let number: u64 = number.parse().map_err(|_| PageError::NotFound { what })?;
        let sent = form::<Back>(request).await?;
        if sent.confirm.trim() != format!("generation-{number}") {
            let (status, what) = (StatusCode::UNPROCESSABLE_ENTITY, "The name does not match.");
            return Err(PageError::Form { status, what });
        }
        let seen = Some(sent.newest);
        let restored = state.limits.restore(number, seen, false, &author).await;
        let restored = restored.map_err(PageError::Limits)?;
        Ok(see_other(&match restored.opened() {
            Some(change) => url::change(change),
            None => format!("/generations/{}", restored.generation),
        }))
    };
    act.await
        .unwrap_or_else(|error| error.answer(&asked.request_id, Some("/changes".to_owned())))
}
