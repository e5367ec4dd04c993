//! `POST /compartments/{key}/undo`: takes back what was just stored.
//!
//! Separate from the form because nothing is typed: the values are those of the generation before.
//! It must never undo a change that somebody else has built on.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use compartment::policy::Value;
use serde::Deserialize;
use web::url;

use super::PageError;
use super::edit::{form, taken};
use super::edit_sent::fresh;
use super::frame::Asked;
use crate::auth;
use crate::limits::{self, Accepted, Author, Fields, LimitsError};
use crate::state::AppState;

/// What the button sends.
#[derive(Debug, Deserialize)]
struct Sent {
    /// The generation that is to be undone; it must be the newest.
    generation: u64,
}

pub(super) async fn change(
    State(state): State<AppState>,
    Path(key): Path<String>,
    request: Request,
) -> Response {
    let asked = Asked::of(&request);
    let author = auth::author(request.extensions());
    let undone = match form::<Sent>(request).await {
        Ok(sent) => undo(&state, &key, sent.generation, &author).await,
        Err(error) => Err(error),
    };
    let page = url::compartment(&key);
    match undone {
        Ok(accepted) => taken(&accepted, &key),
        Err(error) => error.answer(&asked.request_id, Some(page)),
    }
}

async fn undo(
    state: &AppState,
    key: &str,
    generation: u64,
    author: &Author,
) -> Result<Accepted, PageError> {
    let current = state.policy_current().await;
    if generation != current.about.number {
        return Err(PageError::Limits(LimitsError::MovedOn {
            seen: generation,
            current: current.about.number,
            differences: Vec::new(),
        }));
    }
    let level = key.parse::<compartment::Key>().map(|key| key.level());
    let Ok(level) = level else {
        let key = key.to_owned();
        return Err(PageError::Limits(LimitsError::UnknownKey { key }));
    };
    let failed = |error| PageError::Limits(LimitsError::from(error));
    // What was staged on one gateway is no generation that was in force.
    let earlier = state.store.newest_before(generation).await;
    let earlier = earlier.map_err(failed)?;
    let stored = state.store.generation(earlier).await.map_err(failed)?;
    let stored = stored.ok_or(PageError::Limits(LimitsError::UnknownGeneration(earlier)))?;
    let document = limits::read(stored.document).await;
    let document = document
        .map_err(LimitsError::from)
        .map_err(PageError::Limits)?;
    let now = fresh(&current.document, generation, key, level);
    let then = fresh(&document, earlier, key, level);
    let pairs = now.fields.iter().zip(&then.fields);
    let values: Vec<(String, Value)> = pairs
        .filter(|(now, then)| now.current != then.current)
        .map(|(_, then)| (then.name.to_owned(), then.value()))
        .collect();
    if values.is_empty() {
        return Ok(Accepted {
            generation,
            findings: Vec::new(),
            stored: false,
            change: None,
        });
    }
    let fields = Fields {
        values,
        comment: format!("undoes generation {generation}"),
    };
    let seen = Some(generation);
    let undone = state.limits().patch(key, &fields, seen, false, author);
    undone.await.map_err(PageError::Limits)
}
