//! The forms that shut a tenant out: suspend, resume, delete.
//!
//! Separate because they end what callers have. They must never do so before the tenant's name
//! was typed.

use axum::extract::{Path, Request, State};
use axum::response::Response;
use compartment::policy::Value;
use http::StatusCode;
use serde::Deserialize;
use web::TenantPage;

use super::PageError;
use super::edit::form;
use super::frame::Asked;
use super::tenant::{Outcome, done, entry, finish, page};
use crate::auth;
use crate::limits::{self, Entry};
use crate::state::AppState;

#[derive(Debug, Deserialize)]
struct Suspended {
    suspended: bool,
    /// Only to shut it out; whoever lets it in again types nothing.
    #[serde(default)]
    name: String,
}

/// The form that suspends, when its name is typed, and the button that lets in again.
pub(super) async fn suspend(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent: Suspended = form(request).await?;
        if let (true, Some(wrong)) = (sent.suspended, mistyped(&sent.name, &id)) {
            return again(&state, &asked, &id, |page| page.suspend_error = Some(wrong)).await;
        }
        let fields = vec![("suspended".to_owned(), Value::Bool(sent.suspended))];
        let about = limits::Asked::default();
        let stored = entry(&state, &id, Entry::Set(fields), about, &author).await;
        let word = if sent.suspended {
            "suspended"
        } else {
            "resumed"
        };
        Ok(done(&stored.map_err(PageError::Limits)?, word))
    };
    finish(act.await, &asked, &id)
}

#[derive(Debug, Deserialize)]
struct Typed {
    name: String,
}

/// The form that deletes it, when its name is typed.
pub(super) async fn delete(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent: Typed = form(request).await?;
        if let Some(wrong) = mistyped(&sent.name, &id) {
            return again(&state, &asked, &id, |page| page.delete_error = Some(wrong)).await;
        }
        let about = limits::Asked::default();
        let gone = entry(&state, &id, Entry::Remove, about, &author).await;
        let gone = gone.map_err(PageError::Limits)?;
        Ok(match gone.opened() {
            Some(change) => Outcome::Waits(change),
            None => Outcome::Gone(gone.generation),
        })
    };
    finish(act.await, &asked, &id)
}

fn mistyped(name: &str, id: &str) -> Option<String> {
    (name.trim() != id).then(|| format!("This is not its name: type {id}."))
}

/// The page once more, with what is wrong.
async fn again(
    state: &AppState,
    asked: &Asked,
    id: &str,
    tell: impl FnOnce(&mut TenantPage),
) -> Result<Outcome, PageError> {
    let mut page = page(state, asked, id).await?;
    tell(&mut page);
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(Outcome::Again(status, Box::new(page)))
}
