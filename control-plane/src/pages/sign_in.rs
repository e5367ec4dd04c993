//! `GET` and `POST /login` and `/setup`, `POST /logout`: the ways into the pages and out.
//!
//! Separate from the guard because these are the pages that stand before it. They must never
//! repeat a password, a token or a code in a log, nor send a browser anywhere but to a page of
//! this server.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;
use web::{SetUp, SignIn, Template as _};
use wire::Secret;
use zeroize::Zeroizing;

use super::{PageError, edit::form, html, id_of, see_other};
use crate::auth::{self, Caller, Via};
use crate::clock;
use crate::limits::Author;
use crate::people::{self, PeopleError, Source};
use crate::session::{form_key, form_token, set_cookie, set_form_cookie};
use crate::state::AppState;

/// Longest address to come back to, in bytes.
const NEXT_BYTES_MAX: usize = 2_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    next: String,
    said: String,
}

/// The fields of the sign-in page. Without `Debug`: they hold secrets.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Sent {
    token: String,
    username: String,
    #[serde(deserialize_with = "secret")]
    password: Zeroizing<String>,
    next: String,
}

/// Overwritten when dropped.
pub(super) fn secret<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}

/// What the way in needs of a request, before its body is read.
struct Coming {
    request_id: String,
    is_plain: bool,
    headers: HeaderMap,
    author: Author,
    source: Option<Source>,
    now_ms: i64,
}

impl Coming {
    fn of(request: &Request) -> Self {
        let host = auth::host_of(request).unwrap_or("");
        Self {
            request_id: id_of(request.extensions()).to_owned(),
            is_plain: auth::is_plain(request.extensions(), host),
            headers: request.headers().clone(),
            author: auth::author(request.extensions()),
            source: auth::source(request.extensions()),
            now_ms: clock::unix_ms(),
        }
    }

    /// The proof for a form, and the cookie that it needs when there is none yet.
    fn proof(&self) -> Result<(String, Option<String>), PageError> {
        if let Some(key) = form_key(&self.headers, self.is_plain) {
            return Ok((form_token(key), None));
        }
        let key = Secret::random()?;
        let cookie = set_form_cookie(&key, self.is_plain);
        Ok((form_token(key.expose()), Some(cookie)))
    }
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let coming = Coming::of(&request);
    let said = match view.said.as_str() {
        "set-up" => Some("The password is set. Sign in with it."),
        "out" => Some("You are signed out."),
        _ => None,
    };
    sign_in_page(&state, &coming, StatusCode::OK, |page| {
        page.next = own_page(&view.next).to_owned();
        page.said = said;
    })
}

fn sign_in_page(
    state: &AppState,
    coming: &Coming,
    status: StatusCode,
    fill: impl FnOnce(&mut SignIn),
) -> Response {
    let made = coming.proof().and_then(|(form_token, cookie)| {
        let mut page = SignIn {
            next: String::new(),
            form_token,
            typed: String::new(),
            people: !state.people.is_empty(),
            token: state.auth.has_admin_token(),
            error: None,
            said: None,
        };
        fill(&mut page);
        Ok((page.render()?, cookie))
    });
    answer(status, made, coming, "/login")
}

pub(super) async fn enter(State(state): State<AppState>, request: Request) -> Response {
    let coming = Coming::of(&request);
    let sent: Sent = match form(request).await {
        Ok(sent) => sent,
        Err(error) => return error.answer(&coming.request_id, Some("/login".to_owned())),
    };
    let next = own_page(&sent.next).to_owned();
    let entered = if sent.token.is_empty() {
        let asked = people::SignIn {
            name: &sent.username,
            password: sent.password,
            source: coming.source.clone(),
            author: &coming.author,
            now_ms: coming.now_ms,
        };
        state.people.sign_in(asked).await
    } else {
        by_token(&state, &coming, sent.token.trim()).await
    };
    let request_id = &coming.request_id;
    let error = match entered {
        Ok(id) => {
            tracing::info!(request.id = request_id, "signed in");
            return with_cookie(see_other(&next), &set_cookie(Some(&id), coming.is_plain));
        }
        Err(error) => error,
    };
    tracing::warn!(
        request.id = request_id,
        origin = coming.author.origin,
        "a sign-in was refused"
    );
    let (status, words) = if let PeopleError::TooMany(wait_s) = &error {
        let words = format!("Too many tries. The next one is possible in {wait_s} s.");
        (StatusCode::TOO_MANY_REQUESTS, words)
    } else if matches!(error, PeopleError::Wrong) {
        let words = "Name or password, or the token, are wrong.".to_owned();
        (StatusCode::UNAUTHORIZED, words)
    } else {
        return PageError::from(error).answer(request_id, Some("/login".to_owned()));
    };
    let mut answer = sign_in_page(&state, &coming, status, |page| {
        page.next = next;
        page.typed = sent.username;
        page.error = Some(words);
    });
    retry_after(&mut answer, &error);
    answer
}

/// The right token is always taken; wrong ones are counted by where they come from.
async fn by_token(state: &AppState, coming: &Coming, token: &str) -> Result<Secret, PeopleError> {
    let entered = state.auth.sign_in(token, &coming.author, coming.now_ms);
    if let Some(id) = entered.await? {
        return Ok(id);
    }
    let now = clock::now();
    let wait = state.people.tries.wait(coming.source.as_ref(), now);
    if !wait.is_zero() {
        return Err(PeopleError::TooMany(wait.as_secs().max(1)));
    }
    state.people.tries.wrong(coming.source.as_ref(), now);
    Err(PeopleError::Wrong)
}

fn retry_after(answer: &mut Response, error: &PeopleError) {
    if let PeopleError::TooMany(wait_s) = error {
        let wait = HeaderValue::from(*wait_s);
        answer.headers_mut().insert(header::RETRY_AFTER, wait);
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Link {
    code: String,
}

pub(super) async fn invited(
    State(state): State<AppState>,
    link: Result<Query<Link>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(link) = link.unwrap_or_default();
    let coming = Coming::of(&request);
    if is_embedded(request.headers()) {
        return PageError::from(PeopleError::Code).answer(&coming.request_id, None);
    }
    set_up_page(&state, &coming, &link.code, String::new(), None)
}

/// True when another site's page asks by itself, as for an image. A link that somebody followed,
/// out of their mail perhaps, is another site's too, and is what the code is sent for.
fn is_embedded(headers: &HeaderMap) -> bool {
    let is = |name: &str, word: &str| headers.get(name).is_some_and(|value| value == word);
    let is_link = is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    is("sec-fetch-site", "cross-site") && !is_link
}

fn set_up_page(
    state: &AppState,
    coming: &Coming,
    code: &str,
    typed: String,
    error: Option<String>,
) -> Response {
    let invited = match state.people.invited(code, coming.now_ms) {
        Some(people::Invited::First) => None,
        Some(people::Invited::User(name)) => Some(name),
        // Looking costs nobody a try: any page can make a browser look, and a code is no password.
        None => return PageError::from(PeopleError::Code).answer(&coming.request_id, None),
    };
    let status = match error {
        Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        None => StatusCode::OK,
    };
    let made = coming.proof().and_then(|(form_token, cookie)| {
        let page = SetUp {
            // Its own digits alone: it is one that we made.
            code: code.to_owned(),
            form_token,
            name: invited,
            typed,
            error,
        };
        Ok((page.render()?, cookie))
    });
    answer(status, made, coming, "/login")
}

/// A form of ours with a wrong code: counted by where it comes from. The right one never waits.
fn wrong_code(state: &AppState, coming: &Coming) -> Response {
    let (now, source) = (clock::now(), coming.source.as_ref());
    let wait = state.people.tries.wait(source, now);
    if wait.is_zero() {
        state.people.tries.wrong(source, now);
        return PageError::from(PeopleError::Code).answer(&coming.request_id, None);
    }
    let wait_s = wait.as_secs().max(1);
    let error = PageError::from(PeopleError::TooMany(wait_s));
    let mut answer = error.answer(&coming.request_id, None);
    retry_after(&mut answer, &PeopleError::TooMany(wait_s));
    answer
}

pub(super) async fn set_up(
    State(state): State<AppState>,
    link: Result<Query<Link>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(link) = link.unwrap_or_default();
    let coming = Coming::of(&request);
    let sent: Sent = match form(request).await {
        Ok(sent) => sent,
        Err(error) => return error.answer(&coming.request_id, None),
    };
    let typed = sent.username;
    let (people, author) = (&state.people, &coming.author);
    let done = people.set_up(&link.code, &typed, sent.password, author, coming.now_ms);
    match done.await {
        Ok(_) => {
            tracing::info!(request.id = coming.request_id, "a user was set up");
            see_other("/login?said=set-up")
        }
        Err(error @ (PeopleError::Name | PeopleError::Password | PeopleError::Hash(_))) => {
            let words = Some(format!("Nothing was stored: {error}."));
            set_up_page(&state, &coming, &link.code, typed, words)
        }
        Err(PeopleError::Code) => wrong_code(&state, &coming),
        Err(error) => PageError::from(error).answer(&coming.request_id, None),
    }
}

pub(super) async fn leave(State(state): State<AppState>, request: Request) -> Response {
    let coming = Coming::of(&request);
    let via = request
        .extensions()
        .get::<Caller>()
        .map(|caller| &caller.via);
    if let Some(Via::Session { id, owner }) = via {
        let ended = state.people.end_session(id, Some(owner), &coming.author);
        match ended.await {
            Ok(()) | Err(PeopleError::Unknown(_)) => {}
            Err(error) => return PageError::from(error).answer(&coming.request_id, None),
        }
    }
    with_cookie(
        see_other("/login?said=out"),
        &set_cookie(None, coming.is_plain),
    )
}

fn answer(
    status: StatusCode,
    made: Result<(String, Option<String>), PageError>,
    coming: &Coming,
    retry: &str,
) -> Response {
    match made {
        Ok((body, None)) => html(status, body),
        Ok((body, Some(cookie))) => with_cookie(html(status, body), &cookie),
        Err(error) => error.answer(&coming.request_id, Some(retry.to_owned())),
    }
}

/// Sends somebody who asked for this page to sign in first.
pub(crate) fn redirect(request: &Request) -> Response {
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    match own_page(target) {
        "/" => see_other("/login"),
        next => see_other(&format!("/login?next={}", web::url::encode(next))),
    }
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `next` when it is a page of this server, else the Overview: two slashes, or a slash and a
/// backslash, would name another host.
fn own_page(next: &str) -> &str {
    let rest = next.strip_prefix('/').unwrap_or("/");
    let elsewhere = rest.starts_with(['/', '\\']);
    let plain = next
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let fits = plain && next.len() <= NEXT_BYTES_MAX;
    if next.starts_with('/') && !elsewhere && fits {
        next
    } else {
        "/"
    }
}

#[cfg(test)]
mod tests {
    use super::own_page;

    #[test]
    fn a_browser_is_sent_to_our_own_pages_only() {
        for good in ["/", "/compartments/route%2Fa?x=1", "/?find=a"] {
            assert_eq!(own_page(good), good);
        }
        let long = format!("/{}", "a".repeat(super::NEXT_BYTES_MAX));
        for bad in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "javascript:alert(1)",
            "/a\\b",
            "/a\nb",
            "/a b",
            "evil",
            long.as_str(),
        ] {
            assert_eq!(own_page(bad), "/", "{bad:?}");
        }
    }
}
