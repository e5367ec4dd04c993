//! `POST /compartments/{key}`: the form that changes a limit and what belongs to it.
//!
//! Separate from showing the page because every way it can go wrong is here, and in each of them
//! what was typed is kept. It must never store what the operator did not see and confirm.

use std::time::Duration;

use axum::extract::{Form, FromRequest as _, Path, Request, State};
use axum::response::Response;
use compartment::policy::Fault;
use http::StatusCode;
use web::{
    COMMENT_CHARS_MAX, CompartmentPage, Conflict, Danger, Edit, Settable, Template as _, url,
};

use super::compartment::page;
use super::edit_sent::{Sent, changed, fresh, standings};
use super::frame::{Asked, moment};
use super::{PageError, html, see_other};
use crate::auth;
use crate::changes::{CONFIRM_MS, Terms};
use crate::limits::{self, Accepted, Author, Fields, LimitsError};
use crate::rollout::Published;
use crate::state::AppState;

/// Longest time for a whole form.
const FORM_MAX: Duration = Duration::from_secs(10);

/// What a page says of a form that it did not make.
const NOT_OURS_WORDS: &str =
    "It is not one that this page sends. Load the page again and send it from there.";
const NOT_OURS: PageError = PageError::Form {
    status: StatusCode::UNPROCESSABLE_ENTITY,
    what: NOT_OURS_WORDS,
};

/// What becomes of a form.
enum Outcome {
    /// What the write path made of it.
    Taken(Accepted),
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
    let pairs = form::<Vec<(String, String)>>(request).await;
    let sent = pairs.and_then(|pairs| Sent::of(pairs).ok_or(NOT_OURS));
    let outcome = match sent {
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
        Ok(Outcome::Taken(accepted)) => return taken(&accepted, &key),
        Ok(Outcome::Again(status, page)) => page
            .render()
            .map(|body| html(status, body))
            .map_err(PageError::from),
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| error.answer(&asked.request_id, Some(url::compartment(&key))))
}

/// Where the browser goes on: to what waits for a second person, or to the compartment.
pub(super) fn taken(accepted: &Accepted, key: &str) -> Response {
    let page = url::compartment(key);
    let generation = accepted.generation;
    see_other(&match (accepted.opened(), accepted.change) {
        (Some(number), _) => url::change(number),
        (None, Some(number)) => format!("{page}?saved={generation}&change={number}"),
        (None, None) if accepted.stored => format!("{page}?saved={generation}"),
        (None, None) => page,
    })
}

/// The fields of a form, within its bound and its time.
pub(super) async fn form<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, PageError> {
    let refused = |status, what| PageError::Form { status, what };
    match tokio::time::timeout(FORM_MAX, Form::<T>::from_request(request, &())).await {
        Ok(Ok(Form(sent))) => Ok(sent),
        Ok(Err(rejection)) => Err(refused(rejection.status(), NOT_OURS_WORDS)),
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
        let edit = std::mem::replace(&mut page.edit, Settable::No(""));
        let Settable::Form(fresh) = edit else {
            let key = self.key.to_owned();
            return Err(PageError::Limits(LimitsError::NotSettable { key }));
        };
        let in_flight = page
            .reading
            .as_ref()
            .map_or(0, |reading| reading.in_flight_max);
        let (edit, status) = if self.sent.generation == current.about.number {
            let mut edit = self.sent.typed(*fresh);
            match self.change(&mut edit, in_flight, author).await {
                Ok(Some(accepted)) => return Ok(Outcome::Taken(accepted)),
                Ok(None) => (edit, StatusCode::UNPROCESSABLE_ENTITY),
                Err(error) => self.refused(error, edit, &current, &page).await?,
            }
        } else {
            let edit = self.conflict(&current, *fresh, &page).await;
            (edit, StatusCode::PRECONDITION_FAILED)
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
        if changed(edit).is_empty() && edit.fields.iter().all(|field| field.error.is_none()) {
            let generation = self.sent.generation;
            return Ok(self.is_confirmed(edit).then_some(Accepted {
                generation,
                findings: Vec::new(),
                stored: false,
                change: None,
            }));
        }
        // A broken rule is said before anybody confirms anything.
        self.patch(edit, true, author).await?;
        if let Some((now, proposed)) = standings(edit) {
            edit.dangers = Danger::of(now, proposed, in_flight);
        }
        if !self.is_confirmed(edit) {
            return Ok(None);
        }
        if edit.dangers.is_empty() {
            return self.patch(edit, false, author).await.map(Some);
        }
        // What is dangerous goes by itself unless somebody keeps it.
        let terms = Terms {
            confirm_within_ms: Some(CONFIRM_MS),
            ..Terms::default()
        };
        let (changes, fields) = (&self.state.changes, self.fields(edit));
        let accepted = changes.now(self.key, &fields, self.sent.generation, terms, author);
        accepted.await.map(Some)
    }

    fn fields(&self, edit: &Edit) -> Fields {
        Fields {
            values: changed(edit),
            comment: self.sent.comment.trim().to_owned(),
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
        edit: &Edit,
        dry_run: bool,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let fields = self.fields(edit);
        let seen = Some(self.sent.generation);
        self.state
            .limits()
            .patch(self.key, &fields, seen, dry_run, author)
            .await
    }

    /// Puts a refusal of the write path into the form; an error when it belongs on its own page.
    async fn refused(
        &self,
        error: LimitsError,
        mut edit: Edit,
        current: &Published,
        page: &CompartmentPage,
    ) -> Result<(Edit, StatusCode), PageError> {
        match error {
            LimitsError::Invalid { faults } => {
                edit.dangers.clear();
                for field in &mut edit.fields {
                    let place = limits::place(&current.document, self.key, field.name);
                    let own = faults
                        .iter()
                        .find(|fault| Some(&fault.path) == place.as_ref());
                    field.error = own.map(|fault| fault.rule.clone());
                }
                edit.refusals = faults.iter().map(Fault::to_string).collect();
                Ok((edit, StatusCode::UNPROCESSABLE_ENTITY))
            }
            LimitsError::MovedOn { .. } => {
                let current = self.state.policy_current().await;
                let (newest, level) = (current.about.number, page.level);
                let fresh = fresh(&current.document, newest, self.key, level);
                let fresh = fresh.with_values(&page.effective);
                let edit = self.conflict(&current, fresh, page).await;
                Ok((edit, StatusCode::PRECONDITION_FAILED))
            }
            error @ (LimitsError::UnknownKey { .. }
            | LimitsError::UnknownEntry { .. }
            | LimitsError::Exists { .. }
            | LimitsError::InUse { .. }
            | LimitsError::NotSettable { .. }
            | LimitsError::UnknownGeneration(_)
            | LimitsError::TooManyOpen
            | LimitsError::Contended
            | LimitsError::Store(_)) => Err(PageError::Limits(error)),
        }
    }

    /// The form on top of the newest generation, with both values of what the operator changed.
    async fn conflict(&self, current: &Published, edit: Edit, page: &CompartmentPage) -> Edit {
        let before = self.before(page).await;
        let (mut edit, values) = self.sent.rebased(edit, before.as_ref());
        let about = &current.about;
        edit.conflict = Some(Conflict {
            seen: self.sent.generation,
            newest: about.number,
            author: about.author.clone(),
            comment: about.comment.clone(),
            at: moment(&about.created_at),
            values,
        });
        edit
    }

    /// The form of the generation that the operator saw.
    async fn before(&self, page: &CompartmentPage) -> Option<Edit> {
        let seen = self.sent.generation;
        let stored = self.state.store.generation(seen).await.ok()??;
        let document = limits::read(stored.document).await.ok()?;
        Some(fresh(&document, seen, self.key, page.level))
    }
}
