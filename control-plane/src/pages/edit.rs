//! `POST /compartments/{key}`: the form that changes a limit.
//!
//! Separate from showing the page because every way it can go wrong is here, and in each of them
//! what was typed is kept. It must never store what the operator did not see and confirm.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Form, FromRequest as _, Path, Request, State};
use axum::response::Response;
use compartment::policy::{Fault, Value};
use compartment::{Key, Limit};
use http::StatusCode;
use serde::Deserialize;
use web::{
    COMMENT_CHARS_MAX, CompartmentPage, Conflict, Danger, Edit, Settable, Template as _,
    parse_limit, url,
};

use super::compartment::{limit_of, page};
use super::frame::{Asked, moment};
use super::{PageError, html, see_other};
use crate::auth;
use crate::limits::{Accepted, Author, Fields, LimitsError};
use crate::rollout::Published;
use crate::state::AppState;

/// Longest time for a whole form.
const FORM_MAX: Duration = Duration::from_secs(10);

/// What the form sends.
#[derive(Debug, Deserialize)]
pub(super) struct Sent {
    generation: u64,
    limit: String,
    #[serde(default)]
    comment: String,
    /// There only when the page asked for a confirmation.
    confirm: Option<String>,
}

/// What becomes of a form.
enum Outcome {
    /// Stored as this generation, or nothing differed.
    Stored(Option<u64>),
    /// The page again, with this status.
    Again(StatusCode, Box<CompartmentPage>),
}

pub(super) async fn change(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Response {
    let asked = Asked::of(&request);
    let author = auth::author(request.extensions());
    let outcome = match form::<Sent>(request).await {
        Ok(sent) => {
            Change {
                state,
                asked: &asked,
                key: &key,
                sent,
            }
            .decide(&author)
            .await
        }
        Err(error) => Err(error),
    };
    let answer = match outcome {
        Ok(Outcome::Stored(Some(generation))) => {
            return see_other(&format!("{}?saved={generation}", url::compartment(&key)));
        }
        Ok(Outcome::Stored(None)) => return see_other(&url::compartment(&key)),
        Ok(Outcome::Again(status, page)) => page
            .render()
            .map(|body| html(status, body))
            .map_err(PageError::from),
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| error.answer(&asked.request_id, Some(url::compartment(&key))))
}

/// The fields of a form, within its bound and its time.
pub(super) async fn form<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, PageError> {
    let refused = |status, what| PageError::Form { status, what };
    match tokio::time::timeout(FORM_MAX, Form::<T>::from_request(request, &())).await {
        Ok(Ok(Form(sent))) => Ok(sent),
        Ok(Err(rejection)) => Err(refused(
            rejection.status(),
            "It is not one that this page sends. Load the page again and send it from there.",
        )),
        Err(_) => Err(refused(
            StatusCode::REQUEST_TIMEOUT,
            "It did not arrive in time.",
        )),
    }
}

struct Change<'a> {
    state: AppState,
    asked: &'a Asked,
    key: &'a str,
    sent: Sent,
}

impl Change<'_> {
    async fn decide(&self, author: &Author) -> Result<Outcome, PageError> {
        let current = self.state.policy_current().await;
        let mut page = page(&self.state, self.asked, &current, self.key)?;
        let Settable::Form(fresh) = page.edit else {
            let key = self.key.to_owned();
            return Err(PageError::Limits(LimitsError::NotSettable { key }));
        };
        let in_flight = page
            .reading
            .as_ref()
            .map_or(0, |reading| reading.in_flight_max);
        let mut edit = Edit {
            limit: self.sent.limit.clone(),
            comment: self.sent.comment.clone(),
            confirm: self.sent.confirm.clone().unwrap_or_default(),
            ..*fresh
        };
        let status = if self.sent.generation != current.about.number {
            edit.conflict = Some(self.conflict(&current, &edit.current).await);
            StatusCode::PRECONDITION_FAILED
        } else {
            match self.change(&mut edit, in_flight, author).await {
                Ok(Some(accepted)) => {
                    return Ok(Outcome::Stored(
                        accepted.stored.then_some(accepted.generation),
                    ));
                }
                Ok(None) => StatusCode::UNPROCESSABLE_ENTITY,
                Err(error) => self.refused(error, &mut edit).await?,
            }
        };
        page.edit = Settable::Form(Box::new(edit));
        Ok(Outcome::Again(status, Box::new(page)))
    }

    /// Stores what was typed; `None` when the form has to say what lacks first.
    async fn change(
        &self,
        edit: &mut Edit,
        in_flight: u32,
        author: &Author,
    ) -> Result<Option<Accepted>, LimitsError> {
        let limit = match parse_limit(&self.sent.limit) {
            Ok(limit) => limit,
            Err(error) => {
                edit.limit_error = Some(error.to_string());
                return Ok(None);
            }
        };
        // A broken rule is said before anybody confirms anything.
        self.patch(limit, true, author).await?;
        if let Ok(before) = parse_limit(&edit.current) {
            edit.dangers = Danger::of(before, limit, in_flight);
        }
        if self.is_confirmed(edit) {
            self.patch(limit, false, author).await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// True when nothing lacks; else the form says what does.
    fn is_confirmed(&self, edit: &mut Edit) -> bool {
        let comment = self.sent.comment.trim();
        if comment.chars().count() > COMMENT_CHARS_MAX {
            edit.comment_error = Some(format!("must be at most {COMMENT_CHARS_MAX} characters"));
        }
        if edit.dangers.is_empty() {
            return edit.comment_error.is_none();
        }
        // The first time nobody has been asked yet, so nothing is wrong yet.
        let Some(typed) = &self.sent.confirm else {
            return false;
        };
        let confirmed = typed.trim() == self.key;
        if !confirmed {
            edit.confirm_error = Some(format!("must be {}, letter for letter", self.key));
        }
        if comment.is_empty() {
            edit.comment_error = Some("say why: it is kept with the generation".to_owned());
        }
        confirmed && edit.comment_error.is_none()
    }

    async fn patch(
        &self,
        limit: Limit,
        dry_run: bool,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let value = match limit.slots() {
            Some(slots) => Value::Integer(slots.into()),
            None => Value::String(limit.to_string()),
        };
        let fields = Fields {
            values: vec![("limit".to_owned(), value)],
            comment: self.sent.comment.trim().to_owned(),
        };
        let seen = Some(self.sent.generation);
        self.state
            .limits()
            .patch(self.key, &fields, seen, dry_run, author)
            .await
    }

    /// Puts a refusal of the write path into the form; an error when it belongs on its own page.
    async fn refused(&self, error: LimitsError, edit: &mut Edit) -> Result<StatusCode, PageError> {
        match error {
            LimitsError::Invalid { faults } => {
                edit.dangers.clear();
                edit.limit_error = Some("the policy with this limit breaks a rule".to_owned());
                edit.refusals = faults.iter().map(Fault::to_string).collect();
                Ok(StatusCode::UNPROCESSABLE_ENTITY)
            }
            LimitsError::MovedOn { .. } => {
                let current = self.state.policy_current().await;
                edit.generation = current.about.number;
                if let Some(limit) = self.limit_in(&current) {
                    edit.current = limit.to_string();
                }
                edit.dangers.clear();
                edit.conflict = Some(self.conflict(&current, &edit.current).await);
                Ok(StatusCode::PRECONDITION_FAILED)
            }
            error @ (LimitsError::UnknownKey { .. }
            | LimitsError::NotSettable { .. }
            | LimitsError::UnknownGeneration(_)
            | LimitsError::Contended
            | LimitsError::Store(_)) => Err(PageError::Limits(error)),
        }
    }

    async fn conflict(&self, current: &Arc<Published>, theirs: &str) -> Conflict {
        let about = &current.about;
        Conflict {
            seen: self.sent.generation,
            newest: about.number,
            author: about.author.clone(),
            comment: about.comment.clone(),
            at: moment(&about.created_at),
            before: self.limit_before().await.map(|limit| limit.to_string()),
            theirs: theirs.to_owned(),
            yours: self.sent.limit.trim().to_owned(),
        }
    }

    /// This limit in the generation that the operator saw.
    async fn limit_before(&self) -> Option<Limit> {
        let stored = self
            .state
            .store
            .generation(self.sent.generation)
            .await
            .ok()??;
        let epoch = self.state.epoch().to_owned();
        // A document may have 32 MiB: not on a thread that serves.
        let read = tokio::task::spawn_blocking(move || Published::read(stored, &epoch));
        self.limit_in(&read.await.ok()?.ok()?)
    }

    fn limit_in(&self, published: &Published) -> Option<Limit> {
        limit_of(
            published.policy.as_ref().ok()?,
            &self.key.parse::<Key>().ok()?,
        )
    }
}
