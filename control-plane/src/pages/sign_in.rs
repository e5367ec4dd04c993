//! `GET` and `POST /login`, `POST /logout`: a browser's session for the admin token.
//!
//! Separate from the guard because these are the pages that stand before it. They must never repeat
//! what was typed, nor send a browser anywhere but to a page of this server.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use serde::Deserialize;
use web::{SignIn, Template as _};

use super::{PageError, edit::form, html, id_of, see_other};
use crate::auth;
use crate::session::set_cookie;
use crate::state::AppState;

/// Longest address to come back to, in bytes.
const NEXT_BYTES_MAX: usize = 2_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct View {
    next: String,
}

#[derive(Deserialize)]
struct Sent {
    token: String,
    #[serde(default)]
    next: String,
}

pub(super) async fn show(
    State(state): State<AppState>,
    view: Result<Query<View>, QueryRejection>,
    request: Request,
) -> Response {
    let Query(view) = view.unwrap_or_default();
    let page = SignIn {
        next: own_page(&view.next).to_owned(),
        form_token: String::new(),
        possible: state.auth.can_sign_in(),
        error: None,
    };
    answer(StatusCode::OK, &page, id_of(request.extensions()))
}

pub(super) async fn enter(State(state): State<AppState>, request: Request) -> Response {
    let request_id = id_of(request.extensions()).to_owned();
    let host = auth::host_of(&request).unwrap_or("").to_owned();
    let is_plain = auth::is_plain(request.extensions(), &host);
    // The guard lets everybody reach this page, so what it checks of a change is checked here.
    let origin = auth::same_origin(request.method(), request.headers(), Some(&host));
    if let Err(denied) = origin {
        let (status, what) = (StatusCode::FORBIDDEN, denied.to_string());
        return PageError::Refused { status, what }.answer(&request_id, Some("/login".to_owned()));
    }
    let sent: Sent = match form(request).await {
        Ok(sent) => sent,
        Err(error) => return error.answer(&request_id, Some("/login".to_owned())),
    };
    let next = own_page(&sent.next);
    match state.auth.sign_in(sent.token.trim(), crate::clock::now()) {
        Ok(Some(id)) => {
            tracing::info!(request.id = request_id, "signed in with the admin token");
            with_cookie(see_other(next), &set_cookie(Some(&id), is_plain))
        }
        Ok(None) => {
            tracing::warn!(
                request.id = request_id,
                "a sign-in with a wrong token was refused"
            );
            let error = Some("That is not the admin token of this control plane.");
            let page = SignIn {
                next: next.to_owned(),
                form_token: String::new(),
                possible: state.auth.can_sign_in(),
                error,
            };
            answer(StatusCode::UNAUTHORIZED, &page, &request_id)
        }
        Err(error) => PageError::from(error).answer(&request_id, Some("/login".to_owned())),
    }
}

pub(super) async fn leave(State(state): State<AppState>, request: Request) -> Response {
    state.auth.sign_out(request.headers());
    let host = auth::host_of(&request).unwrap_or("");
    let is_plain = auth::is_plain(request.extensions(), host);
    with_cookie(see_other("/login"), &set_cookie(None, is_plain))
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

fn answer(status: StatusCode, page: &SignIn, request_id: &str) -> Response {
    match page.render() {
        Ok(body) => html(status, body),
        Err(error) => PageError::from(error).answer(request_id, None),
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
