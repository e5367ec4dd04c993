//! `/users`, `/tokens`, `/sessions`: who may use pages and API.
//!
//! Separate because nothing here is about the policy. It must never answer with a secret that
//! exists already, nor tell anybody but an admin about others.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

use super::call::Call;
use super::input::Path;
use super::people_shown::{
    ChangedUser, NewToken, NewUser, SessionShown, TokenShown, UserShown, gateway_shown,
    token_shown, user_shown, utc,
};
use super::{Problem, input};
use crate::access::{ADMIN, Role, VIEWER};
use crate::auth::{self, Caller, Scopes, Via};
use crate::clock;
use crate::orders::OrderError;
use crate::pages::people_status;
use crate::people::{EXPIRY_DAYS_DEFAULT, Owner, PeopleError, Session, UserChange, Wanted};
use crate::state::AppState;

/// Largest body of a call here.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Why what was asked for is not done now.
const CONTENDED: &str = "Others change people at this moment";
const LAST_ADMIN: &str = "The last admin who can sign in stays one";

/// The calls of this module.
pub(super) fn calls() -> Vec<Call> {
    let mut all = vec![
        Call::get("/users", ADMIN, users)
            .says("getUsers", "Every user")
            .lists::<UserShown>("By name"),
        Call::post("/users", ADMIN, create_user)
            .says(
                "createUser",
                "Makes a user; the answer holds the one-time link that sets the password",
            )
            .takes::<NewUser>(r#"{"name": "ann", "role": "operator"}"#)
            .creates::<UserShown>("Made, with the link, for the only time")
            .shows_once("setup")
            .may(StatusCode::CONFLICT, "There is one of this name"),
        Call::patch("/users/{id}", ADMIN, change_user)
            .says(
                "changeUser",
                "Changes a user; where something changes, sessions of before end",
            )
            .takes::<ChangedUser>(r#"{"role": "viewer"}"#)
            .answers::<UserShown>("Changed")
            .may(StatusCode::CONFLICT, LAST_ADMIN),
        Call::delete("/users/{id}", ADMIN, delete_user)
            .says("deleteUser", "Removes a user, with all sessions and tokens")
            .says_only(StatusCode::NO_CONTENT, "Removed")
            .may(StatusCode::CONFLICT, LAST_ADMIN),
        Call::get("/sessions", VIEWER, sessions)
            .says(
                "getSessions",
                "Sessions that last: an admin sees all, everybody else their own",
            )
            .lists::<SessionShown>("By id"),
        Call::delete("/sessions/{id}", VIEWER, end_session)
            .says(
                "endSession",
                "Ends a session at once: an admin any, everybody else their own",
            )
            .says_only(StatusCode::NO_CONTENT, "Ended")
            .may(StatusCode::CONFLICT, CONTENDED),
    ];
    all.extend([
        Call::get("/tokens", ADMIN, tokens)
            .says("getTokens", "Every token, without what is secret")
            .lists::<TokenShown>("Those of gateways first"),
        Call::post("/tokens", ADMIN, create_token)
            .says(
                "createToken",
                "Makes a token that lets one gateway in, or one that opens the API",
            )
            .takes::<NewToken>(r#"{"name": "deploy", "role": "operator"}"#)
            .creates::<TokenShown>("The token, for the only time")
            .shows_once("token")
            .may(StatusCode::CONFLICT, CONTENDED),
        Call::delete("/tokens/{id}", ADMIN, revoke_token)
            .says(
                "revokeToken",
                "Revokes a token: a stream that it opened ends, the API knows it no more",
            )
            .says_only(StatusCode::NO_CONTENT, "Revoked")
            .may(StatusCode::CONFLICT, CONTENDED),
    ]);
    all
}

/// The body of a call that takes no query.
async fn body<T: serde::de::DeserializeOwned>(request: Request) -> Result<T, Problem> {
    let (head, body) = input::parts(request);
    input::query(&head, &[])?;
    input::typed(Request::from_parts(head, body), BODY_BYTES_MAX).await
}

/// Every user, by name.
pub(super) async fn users(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let users = state.people.users().into_iter();
    let users: Vec<_> = users.map(|user| user_shown(user, None)).collect();
    Ok(axum::Json(users).into_response())
}

/// Makes a user; the answer holds the one-time link that sets the password.
pub(super) async fn create_user(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let author = auth::author(request.extensions());
    let sent: NewUser = body(request).await?;
    let role = sent.role.map_or(Role::Viewer, Role::from);
    let people = &state.people;
    let made = people.create_user(&sent.name, role, &author, clock::unix_ms());
    let (user, code) = made.await?;
    let place = format!("/api/v1/users/{}", user.name);
    let answer = axum::Json(user_shown(user, Some(&code)));
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], answer).into_response())
}

/// Changes role, disables, or resets the password; sessions of before end.
pub(super) async fn change_user(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = auth::author(request.extensions());
    let sent: ChangedUser = body(request).await?;
    let change = UserChange {
        role: sent.role.map(Role::from),
        disabled: sent.disabled,
        reset: sent.reset.unwrap_or(false),
    };
    let changed = state
        .people
        .change_user(&id, change, &author, clock::unix_ms());
    let (user, code) = changed.await?;
    Ok(axum::Json(user_shown(user, code.as_ref())).into_response())
}

/// Removes a user and all sessions.
pub(super) async fn delete_user(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = super::gateways::asks(request).await?;
    state.people.delete_user(&id, &author).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Every token of gateways and of the API, without what is secret.
pub(super) async fn tokens(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    input::query(&input::parts(request).0, &[])?;
    let gateways = state.orders.tokens().into_iter();
    let gateways = gateways.map(|row| gateway_shown(row, None));
    let api = state.people.tokens().into_iter();
    let all: Vec<_> = gateways
        .chain(api.map(|token| token_shown(token, None)))
        .collect();
    Ok(axum::Json(all).into_response())
}

/// Makes a token for one gateway, or for the API; the answer holds it, for the only time.
pub(super) async fn create_token(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let author = auth::author(request.extensions());
    let maker = maker(request.extensions());
    let sent: NewToken = body(request).await?;
    if let Some(gateway) = &sent.gateway {
        let is_alone = sent.name.is_none()
            && sent.role.is_none()
            && sent.scopes.is_none()
            && sent.person.is_none()
            && sent.expires_days.is_none();
        if !is_alone {
            let rule = "must be the name of one gateway, and is the only key then";
            return Err(Problem::invalid("/gateway", rule));
        }
        let made = state.orders.create_token(gateway, &author).await?;
        let answer = axum::Json(gateway_shown(made.row, Some(&made.token)));
        return Ok((StatusCode::CREATED, answer).into_response());
    }
    let wanted = wanted(sent, maker)?;
    let made = state
        .people
        .create_token(&wanted, &author, clock::unix_ms());
    let (token, secret) = made.await?;
    let answer = axum::Json(token_shown(token, Some(&secret)));
    Ok((StatusCode::CREATED, answer).into_response())
}

/// The user who makes a token; `None`: the process itself, or nobody.
pub(crate) fn maker(extensions: &http::Extensions) -> Option<String> {
    match &extensions.get::<Caller>()?.via {
        Via::Token {
            person,
            is_user: true,
        } => Some(person.clone()),
        Via::Session {
            owner: Owner::User(name),
            ..
        } => Some(name.clone()),
        Via::Nothing | Via::NoLogin | Via::AdminToken | Via::Token { .. } | Via::Session { .. } => {
            None
        }
    }
}

fn wanted(sent: NewToken, maker: Option<String>) -> Result<Wanted, Problem> {
    let rule = "a token of the API needs a name that says what it is for";
    Ok(Wanted {
        name: sent.name.ok_or_else(|| Problem::invalid("/name", rule))?,
        role: sent.role.map_or(Role::Viewer, Role::from),
        scopes: Scopes {
            emergency: sent.scopes.is_some_and(|scopes| !scopes.is_empty()),
        },
        days: sent.expires_days.unwrap_or(EXPIRY_DAYS_DEFAULT),
        person: sent.person,
        maker,
    })
}

/// Revokes one: a stream that it opened ends, the API knows it no more.
pub(super) async fn revoke_token(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let author = super::gateways::asks(request).await?;
    match state.people.revoke_token(&id, &author).await {
        Err(PeopleError::Unknown(_)) => match state.orders.revoke_token(&id, &author).await {
            Err(OrderError::NoToken(_)) => Err(PeopleError::Unknown("token").into()),
            other => other.map_err(Problem::from),
        },
        other => other.map_err(Problem::from),
    }?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Whose sessions somebody may see and end: their own; an admin everybody's, which is `None`.
/// Without a session there is no own one.
pub(crate) fn own_sessions(caller: &Caller) -> Option<Owner> {
    if caller.role == Role::Admin {
        return None;
    }
    match &caller.via {
        Via::Session { owner, .. } => Some(owner.clone()),
        Via::Nothing | Via::NoLogin | Via::AdminToken | Via::Token { .. } => {
            Some(Owner::User(String::new()))
        }
    }
}

/// The sessions that last: an admin sees all, everybody else their own.
pub(super) async fn sessions(
    State(state): State<AppState>,
    request: Request,
) -> Result<Response, Problem> {
    let (head, _) = input::parts(request);
    input::query(&head, &[])?;
    let caller = head.extensions.get::<Caller>();
    let caller = caller.ok_or_else(|| Problem::not_found("nobody asks"))?;
    let (whose, now_ms) = (own_sessions(caller), clock::unix_ms());
    let own = match &caller.via {
        Via::Session { id, .. } => Some(id.as_str()),
        Via::Nothing | Via::NoLogin | Via::AdminToken | Via::Token { .. } => None,
    };
    let all = state.people.sessions().into_iter();
    let all = all.filter(|one| one.lasts(now_ms));
    let all = all.filter(|one| whose.as_ref().is_none_or(|owner| one.owner == *owner));
    let shown = |one: Session| SessionShown {
        current: Some(one.id.as_str()) == own,
        user: one.owner.text().to_owned(),
        created_at: utc(one.created_ms),
        last_seen: utc(one.used_ms),
        origin: one.origin,
        id: one.id,
    };
    let all: Vec<_> = all.map(shown).collect();
    Ok(axum::Json(all).into_response())
}

/// Ends one at once: an admin any, everybody else their own.
pub(super) async fn end_session(
    State(state): State<AppState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = request.extensions().get::<Caller>().cloned();
    let author = super::gateways::asks(request).await?;
    let whose = caller
        .as_ref()
        .map_or(Some(Owner::User(String::new())), own_sessions);
    let ended = state.people.end_session(&id, whose.as_ref(), &author);
    ended.await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl From<PeopleError> for Problem {
    fn from(error: PeopleError) -> Self {
        let (status, words) = (people_status(&error), error.to_string());
        match error {
            PeopleError::Store(error) => error.into(),
            PeopleError::Name | PeopleError::TokenName => Self::invalid("/name", &words),
            PeopleError::Expiry => Self::invalid("/expires_days", &words),
            PeopleError::Person(_) => Self::invalid("/person", &words),
            PeopleError::Beyond(_) => Self::invalid("/role", &words),
            PeopleError::Unknown(_) => Self::not_found(words),
            PeopleError::Taken => Self::new(status, "taken", words),
            PeopleError::LastAdmin => Self::new(status, "last-admin", words),
            PeopleError::Contended => Self::new(status, "contended", words).retry(),
            PeopleError::Password
            | PeopleError::Full
            | PeopleError::Code
            | PeopleError::Wrong
            | PeopleError::TooMany(_)
            | PeopleError::Hash(_)
            | PeopleError::Secret(_) => Self::new(status, "not-taken", words),
        }
    }
}
