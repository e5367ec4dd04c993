//! `/settings` and its forms: users, tokens of the API, sessions, the own password.
//!
//! Separate page by page. It must never show a secret a second time, nor anything about others to
//! whoever is no admin.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use web::{
    ApiTokenRow, MadeSecret, MadeToken, Moment, PEOPLE_ROWS_MAX, SessionRow, SettingsPage,
    Template as _, UserRow,
};
use zeroize::Zeroizing;

use super::edit::form;
use super::frame::{Asked, moment};
use super::readings::Snapshot;
use super::sign_in::secret;
use super::{PageError, html, see_other};
use crate::access::Role;
use crate::api::people::own_sessions;
use crate::api::people_shown::utc;
use crate::auth::{self, Caller, Scopes, Via};
use crate::clock;
use crate::people::{self, ApiToken, Owner, PeopleError, User, UserChange, Wanted};
use crate::session::set_cookie;
use crate::state::AppState;

/// What a page says of a form that it did not make.
const NOT_OURS: PageError = PageError::Form {
    status: StatusCode::UNPROCESSABLE_ENTITY,
    what: "It is not one that this page sends. Load the page again and send it from there.",
};

/// What the address asks for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    said: String,
    made: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let asked = Asked::of(&request);
    let caller = request.extensions().get::<Caller>().cloned();
    let Some(caller) = caller else {
        return see_other("/login");
    };
    let current = state.policy_current().await;
    let snapshot = Snapshot::take(&state);
    let is_admin = caller.role == Role::Admin;
    let users = state.people.users().into_iter().filter(|_| is_admin);
    let tokens = state.people.tokens().into_iter().filter(|_| is_admin);
    let now_ms = clock::unix_ms();
    let made = state.made.take(&asked.person, &view.made, clock::now());
    let page = SettingsPage {
        frame: asked.frame(&current, &snapshot, "/settings".to_owned()),
        users: users.map(user_row).take(PEOPLE_ROWS_MAX).collect(),
        tokens: tokens
            .map(|token| token_row(token, now_ms))
            .take(PEOPLE_ROWS_MAX)
            .collect(),
        sessions: sessions(&state, &caller, now_ms),
        has_password: matches!(
            &caller.via,
            Via::Session {
                owner: Owner::User(_),
                ..
            }
        ),
        made: made.map(|made| MadeSecret {
            title: made.gateway,
            text: made.token,
        }),
        said: said(&view.said),
    };
    match page.render() {
        Ok(body) => html(StatusCode::OK, body),
        Err(error) => PageError::from(error).answer(&asked.request_id, None),
    }
}

fn at(ms: i64) -> Moment {
    moment(&utc(ms))
}

fn user_row(user: User) -> UserRow {
    UserRow {
        role: user.role(),
        has_password: user.has_password(),
        disabled: user.disabled,
        signed_in: user.signed_in_at.as_deref().map(moment),
        made: moment(&user.created_at),
        by: user.created_by,
        name: user.name,
    }
}

fn token_row(token: ApiToken, now_ms: i64) -> ApiTokenRow {
    ApiTokenRow {
        role: token.role(),
        emergency: token.scopes().emergency,
        used: (token.used_ms > 0).then(|| at(token.used_ms)),
        ends: at(token.ends_ms).utc(),
        is_over: token.ends_ms <= now_ms,
        id: token.id,
        name: token.name,
        by: token.created_by,
    }
}

fn sessions(state: &AppState, caller: &Caller, now_ms: i64) -> Vec<SessionRow> {
    let whose = own_sessions(caller);
    let own = match &caller.via {
        Via::Session { id, .. } => Some(id.as_str()),
        Via::Nothing | Via::NoLogin | Via::AdminToken | Via::Token { .. } => None,
    };
    let mut all = state.people.sessions();
    all.retain(|one| one.lasts(now_ms) && whose.as_ref().is_none_or(|owner| one.owner == *owner));
    all.sort_by_key(|one| std::cmp::Reverse(one.used_ms));
    let row = |one: people::Session| SessionRow {
        current: Some(one.id.as_str()) == own,
        user: one.owner.text().to_owned(),
        opened: at(one.created_ms),
        seen: at(one.used_ms),
        origin: one.origin,
        id: one.id,
    };
    all.into_iter().take(PEOPLE_ROWS_MAX).map(row).collect()
}

/// What a form came to: a word in the address, a sentence on the page.
fn said(word: &str) -> Option<&'static str> {
    Some(match word {
        "user" => "The user is made.",
        "changed" => "The user is changed; sessions of before have ended.",
        "deleted" => "The user is gone, and so are the sessions.",
        "token" => "The token is made.",
        "revoked" => "The token is revoked.",
        "ended" => "The session has ended.",
        "password" => "Your password is changed; your other sessions have ended.",
        _ => return None,
    })
}

/// Sends the browser back to the page, with what became of it.
fn done(outcome: Result<String, PageError>, asked: &Asked) -> Response {
    match outcome {
        Ok(query) => see_other(&format!("/settings?{query}")),
        Err(error) => error.answer(&asked.request_id, Some("/settings".to_owned())),
    }
}

/// Keeps a secret for the page that shows it, once.
fn shown_once(
    state: &AppState,
    person: &str,
    (title, text): (String, String),
) -> Result<String, PageError> {
    let made = MadeToken {
        gateway: title,
        token: text,
    };
    let ticket = state.made.put(person, made, clock::now())?;
    Ok(format!("made={}", ticket.expose()))
}

fn link(asked: &Asked, name: &str, code: &wire::Secret) -> (String, String) {
    let title = format!("The link of {name}, good once within 24 hours");
    let text = format!("{}/setup?code={}", asked.origin(), code.expose());
    (title, text)
}

#[derive(Debug, Deserialize)]
struct NewUser {
    name: String,
    role: String,
}

pub(super) async fn make_user(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<NewUser>(request).await?;
        let role = Role::of(&sent.role).ok_or(NOT_OURS)?;
        let made = state
            .people
            .create_user(&sent.name, role, &author, clock::unix_ms());
        let (user, code) = made.await?;
        let link = link(&asked, &user.name, &code);
        let shown = shown_once(&state, &author.person, link)?;
        Ok(format!("said=user&{shown}"))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct Change {
    name: String,
    what: String,
    #[serde(default)]
    role: String,
}

pub(super) async fn change_user(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Change>(request).await?;
        let mut change = UserChange::default();
        match sent.what.as_str() {
            "role" => change.role = Some(Role::of(&sent.role).ok_or(NOT_OURS)?),
            "disable" => change.disabled = Some(true),
            "enable" => change.disabled = Some(false),
            "reset" => change.reset = true,
            _ => return Err(NOT_OURS),
        }
        let changed = state
            .people
            .change_user(&sent.name, change, &author, clock::unix_ms());
        let (user, code) = changed.await?;
        let Some(code) = code else {
            return Ok("said=changed".to_owned());
        };
        let link = link(&asked, &user.name, &code);
        let shown = shown_once(&state, &author.person, link)?;
        Ok(format!("said=changed&{shown}"))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct Deletion {
    name: String,
    confirm: String,
}

pub(super) async fn delete_user(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Deletion>(request).await?;
        if sent.confirm.trim() != sent.name {
            return Err(PageError::Form {
                status: StatusCode::UNPROCESSABLE_ENTITY,
                what: "The name that was typed is another one. Nobody was deleted.",
            });
        }
        state.people.delete_user(&sent.name, &author).await?;
        Ok("said=deleted".to_owned())
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct NewToken {
    name: String,
    role: String,
    days: u32,
    emergency: String,
}

pub(super) async fn make_token(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let maker = crate::api::people::maker(request.extensions());
    let act = async {
        let sent = form::<NewToken>(request).await?;
        let wanted = Wanted {
            role: Role::of(&sent.role).ok_or(NOT_OURS)?,
            scopes: Scopes {
                emergency: sent.emergency == "yes",
            },
            days: sent.days,
            person: None,
            maker,
            name: sent.name,
        };
        let made = state
            .people
            .create_token(&wanted, &author, clock::unix_ms());
        let (token, secret) = made.await?;
        let title = format!("The token {}", token.name);
        let text = secret.expose().to_owned();
        let shown = shown_once(&state, &author.person, (title, text))?;
        Ok(format!("said=token&{shown}"))
    };
    done(act.await, &asked)
}

#[derive(Debug, Deserialize)]
struct Named {
    id: String,
}

pub(super) async fn revoke_token(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let act = async {
        let sent = form::<Named>(request).await?;
        state.people.revoke_token(&sent.id, &author).await?;
        Ok("said=revoked".to_owned())
    };
    done(act.await, &asked)
}

pub(super) async fn end_session(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let caller = request.extensions().get::<Caller>().cloned();
    let act = async {
        let sent = form::<Named>(request).await?;
        let nobody = Some(Owner::User(String::new()));
        let whose = caller.as_ref().map_or(nobody, own_sessions);
        let ended = state.people.end_session(&sent.id, whose.as_ref(), &author);
        ended.await?;
        Ok("said=ended".to_owned())
    };
    done(act.await, &asked)
}

/// Without `Debug`: it holds secrets.
#[derive(Deserialize)]
struct NewPassword {
    #[serde(deserialize_with = "secret")]
    password: Zeroizing<String>,
    #[serde(deserialize_with = "secret")]
    new: Zeroizing<String>,
}

pub(super) async fn change_password(State(state): State<AppState>, request: Request) -> Response {
    let (asked, author) = (Asked::of(&request), auth::author(request.extensions()));
    let source = auth::source(request.extensions());
    let via = request
        .extensions()
        .get::<Caller>()
        .map(|caller| caller.via.clone());
    let act = async {
        let sent = form::<NewPassword>(request).await?;
        let Some(Via::Session {
            id,
            owner: Owner::User(name),
        }) = via
        else {
            return Err(NOT_OURS);
        };
        let sign_in = people::SignIn {
            name: &name,
            password: sent.password,
            source,
            author: &author,
            now_ms: clock::unix_ms(),
        };
        let changed = state.people.change_password(sign_in, sent.new, &id);
        changed.await.map_err(|error| {
            if matches!(error, PeopleError::Wrong) {
                // 401 would say that the session does not hold.
                return PageError::Form {
                    status: StatusCode::UNPROCESSABLE_ENTITY,
                    what: "That is not your password. Nothing was changed.",
                };
            }
            error.into()
        })
    };
    match act.await {
        Ok(secret) => {
            let mut answer = see_other("/settings?said=password");
            let cookie = set_cookie(Some(&secret), asked.is_plain);
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                answer.headers_mut().append(header::SET_COOKIE, cookie);
            }
            answer
        }
        Err(error) => error.answer(&asked.request_id, Some("/settings".to_owned())),
    }
}
