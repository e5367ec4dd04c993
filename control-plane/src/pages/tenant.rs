//! `GET /tenants/{id}` and its forms: change, keys.
//!
//! Separate page by page. Where a field is wrong or somebody published meanwhile, what was typed
//! is kept; it must never show a key a second time.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use compartment::policy::{Fault, Identifier, Policy, Tenant};
use compartment::{Key, Name};
use http::StatusCode;
use serde::Deserialize;
use web::{KeyForm, KeyRow, MadeKey, Template as _, TenantForm, TenantPage, effective_values, url};

use super::edit::form;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::tenant_form::{Sent, faults_by_field, fresh};
use super::tenants::{placed, plans, row};
use super::{PageError, held, html, see_other};
use crate::auth;
use crate::clock;
use crate::limits::{self, Author, Entry, LimitsError, Named};
use crate::state::AppState;
use crate::tenants::{self, AskedKey, KeyError, Told};

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    fragment: String,
    said: String,
    made: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    Path(id): Path<String>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    let shown = async {
        let mut page = page(&state, &asked, &id).await?;
        (page.said, page.is_waiting) = (said(&view.said), view.said == "waits");
        let now = clock::now();
        let made = state.made_keys.take(&asked.person, &view.made, now);
        page.made = made.filter(|(tenant, _)| *tenant == id).map(|(_, key)| key);
        Ok(match view.fragment.as_str() {
            "live" => page.fragment()?,
            _ => page.render()?,
        })
    };
    match shown.await {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => PageError::answer(&error, &asked.request_id, Some("/tenants".to_owned())),
    }
}

/// The page with fresh forms.
pub(super) async fn page(
    state: &AppState,
    asked: &Asked,
    id: &str,
) -> Result<TenantPage, PageError> {
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(state);
    let told = Told::of(state);
    let (policy, at, tenant, own) = placed(&current, id)?;
    let key = Name::new(id).map(Key::Tenant).ok();
    let holders = key
        .as_ref()
        .map(|key| held::holders(&snapshot, policy, key));
    let values = key.map(|key| effective_values(&current.document, policy, &key));
    let keys = tenants::key_rows(tenant, own, clock::timestamp());
    let mut by = policy.identify.iter().flat_map(|identify| &identify.by);
    Ok(TenantPage {
        frame: asked.frame(&current, &snapshot, url::tenant(id)),
        row: row(&current, policy, &told, (at, tenant)),
        recognised: recognised(policy, tenant),
        effective: values.unwrap_or_default(),
        holders: holders.unwrap_or_default(),
        keys: keys.into_iter().map(key_row).collect(),
        key_header: by.find_map(|by| match by {
            Identifier::ApiKey { header } => Some(header.clone()),
            Identifier::Host | Identifier::PathSegment { .. } | Identifier::Header { .. } => None,
        }),
        made: None,
        plans: plans(policy),
        form: fresh(own),
        key_form: KeyForm::default(),
        delete_error: None,
        suspend_error: None,
        conflict: None,
        said: None,
        is_waiting: false,
    })
}

fn key_row(key: tenants::KeyRow) -> KeyRow {
    KeyRow {
        id: key.id,
        label: key.label,
        ending: key.ending,
        created: key.created_at.as_deref().map(moment),
        expires: key.expires_at,
        state: key.state,
    }
}

/// How a request is known for this tenant's, and whether each way can lead here.
fn recognised(policy: &Policy, tenant: &Tenant) -> Vec<(String, bool)> {
    let by = policy.identify.iter().flat_map(|identify| &identify.by);
    let one = |by: &Identifier| match by {
        Identifier::ApiKey { header } => match tenant.api_keys.len() {
            0 => (
                format!("An API key in the header {header}: it has none."),
                false,
            ),
            1 => (format!("Its API key in the header {header}."), true),
            n => (
                format!("One of its {n} API keys in the header {header}."),
                true,
            ),
        },
        Identifier::Host if tenant.hosts.is_empty() => (
            "The host of the request: none is its own.".to_owned(),
            false,
        ),
        Identifier::Host => (format!("A host: {}.", tenant.hosts.join(", ")), true),
        Identifier::PathSegment { index } => (
            format!("Its name as segment {index} of the path, from 0."),
            true,
        ),
        Identifier::Header { name, .. } => (
            format!("Its name in the header {name}, from trusted peers."),
            true,
        ),
    };
    by.map(one).collect()
}

/// What a form came to: a word in the address, a sentence on the page.
fn said(word: &str) -> Option<String> {
    let sentence = match word {
        "changed" => "It is changed; the line at the top says how many gateways run it.",
        "same" => "Nothing differs from what is in force.",
        "suspended" => "It is suspended: every request is answered 403.",
        "resumed" => "It is let in again.",
        "waits" => "It opens nothing until its change is approved by another person and published.",
        "revoked" => "The key is revoked; it opens nothing any more.",
        _ => return None,
    };
    Some(sentence.to_owned())
}

/// What became of a form: on to this query of the page, or the page again.
pub(super) enum Outcome {
    Done(&'static str),
    Made(String),
    Gone(u64),
    /// It waits for another person's approval.
    Waits(u64),
    Again(StatusCode, Box<TenantPage>),
}

pub(super) fn done(accepted: &limits::Accepted, word: &'static str) -> Outcome {
    let waits = accepted.opened().map(Outcome::Waits);
    waits.unwrap_or(Outcome::Done(word))
}

pub(super) fn finish(outcome: Result<Outcome, PageError>, asked: &Asked, id: &str) -> Response {
    let place = url::tenant(id);
    let answer = match outcome {
        Ok(Outcome::Done(word)) => return see_other(&format!("{place}?said={word}")),
        Ok(Outcome::Made(ticket)) => return see_other(&format!("{place}?made={ticket}")),
        Ok(Outcome::Gone(generation)) => {
            return see_other(&format!("/tenants?said=deleted&generation={generation}"));
        }
        Ok(Outcome::Waits(change)) => return see_other(&url::change(change)),
        Ok(Outcome::Again(status, page)) => page
            .render()
            .map(|body| html(status, body))
            .map_err(PageError::from),
        Err(error) => Err(error),
    };
    answer.unwrap_or_else(|error| error.answer(&asked.request_id, Some(place)))
}

pub(super) async fn entry(
    state: &AppState,
    id: &str,
    entry: Entry,
    about: limits::Asked<'_>,
    author: &Author,
) -> Result<limits::Accepted, LimitsError> {
    let limits = &state.limits;
    limits.entry(Named::Tenant, id, entry, about, author).await
}

/// The form that changes plan, limit and hosts.
pub(super) async fn change(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Sent>(request).await?;
        let about = limits::Asked {
            seen: sent.generation.parse().ok(),
            comment: &sent.comment,
            ..limits::Asked::default()
        };
        let seen = about.seen;
        let stored = entry(&state, &id, Entry::Set(sent.fields()), about, &author).await;
        let (status, errors, conflict) = match stored {
            Ok(accepted) => {
                let word = if accepted.stored { "changed" } else { "same" };
                return Ok(done(&accepted, word));
            }
            Err(LimitsError::Invalid { faults }) => {
                let errors = faults_by_field(&faults, &format!("/tenants/{id}/"));
                (StatusCode::UNPROCESSABLE_ENTITY, errors, None)
            }
            Err(LimitsError::MovedOn { .. }) => (StatusCode::PRECONDITION_FAILED, Vec::new(), seen),
            Err(error) => return Err(PageError::Limits(error)),
        };
        let mut page = page(&state, &asked, &id).await?;
        page.form = TenantForm {
            id: id.clone(),
            ..sent.typed(errors)
        };
        page.conflict = conflict;
        Ok(Outcome::Again(status, Box::new(page)))
    };
    finish(act.await, &asked, &id)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SentKey {
    label: String,
    expires_at: String,
    replaces: String,
    overlap: String,
}

/// The form that makes a key.
pub(super) async fn make_key(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<SentKey>(request).await?;
        let given = AskedKey {
            label: sent.label.clone(),
            // A field that was left empty.
            expires_at: Some(sent.expires_at.clone()).filter(|text| !text.trim().is_empty()),
            replaces: Some(sent.replaces.clone()),
            overlap: Some(sent.overlap.clone()),
        };
        let (field, words) = match tenants::make(&given, clock::timestamp()) {
            Ok(made) => {
                let shown = shown(&made);
                let add = Entry::AddKey(made.kept);
                let stored = entry(&state, &id, add, limits::Asked::default(), &author);
                match stored.await {
                    Ok(stored) => {
                        let what = (id.clone(), shown);
                        let ticket = state.made_keys.put(&author.person, what, clock::now())?;
                        let waits = stored.opened().map_or("", |_| "&said=waits");
                        return Ok(Outcome::Made(format!("{}{waits}", ticket.expose())));
                    }
                    Err(LimitsError::Invalid { faults }) => ("", lines(&faults)),
                    Err(error) => return Err(PageError::Limits(error)),
                }
            }
            Err(KeyError::Random(error)) => return Err(PageError::Session(error)),
            Err(error @ KeyError::Field { field, .. }) => (field, error.to_string()),
        };
        let mut page = page(&state, &asked, &id).await?;
        page.key_form = KeyForm {
            label: sent.label,
            expires_at: sent.expires_at,
            replaces: sent.replaces,
            overlap: sent.overlap,
            errors: vec![(field.to_owned(), words)],
        };
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Ok(Outcome::Again(status, Box::new(page)))
    };
    finish(act.await, &asked, &id)
}

/// Every broken rule, one after the other.
fn lines(faults: &[Fault]) -> String {
    let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
    lines.join("; ")
}

/// A key on its way to the page that shows it.
pub(super) fn shown(made: &tenants::Made) -> MadeKey {
    MadeKey {
        id: made.kept.id(),
        key: made.key.expose().to_owned(),
        replaces: made.kept.replaces.clone(),
    }
}

#[derive(Debug, Deserialize)]
struct OfKey {
    key: String,
}

/// The button that revokes a key.
pub(super) async fn revoke_key(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let OfKey { key } = form(request).await?;
        let gone = entry(
            &state,
            &id,
            Entry::RemoveKey(key),
            limits::Asked::default(),
            &author,
        );
        let gone = gone.await.map_err(PageError::Limits)?;
        Ok(done(&gone, "revoked"))
    };
    finish(act.await, &asked, &id)
}
