//! What stands before every route: who comes, what the route needs, whose form it is.
//!
//! Separate so that one function decides it all, and a new route is closed until somebody opens
//! it. It must never let a call through that stands in no table.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;

use crate::access::{Need, Table};
use crate::api::Problem;
use crate::auth::{Asking, Caller, Denied, Via, Whence, host_of, is_plain, same_origin};
use crate::pages;
use crate::session;
use crate::state::AppState;

/// Longest time for a whole form.
const FORM_MAX: Duration = Duration::from_secs(10);

/// What the guard looks at.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    state: AppState,
    table: Arc<Table>,
}

impl Guard {
    pub(crate) fn new(state: AppState, table: Table) -> Self {
        Self {
            state,
            table: Arc::new(table),
        }
    }
}

/// Stands before every route.
pub(crate) async fn guard(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let (method, headers) = (request.method(), request.headers());
    let path = request.extensions().get::<MatchedPath>();
    let need = guard.table.need(path.map(MatchedPath::as_str), method);
    let host = host_of(&request);
    let now_ms = crate::clock::unix_ms();
    let asking = Asking {
        method,
        headers,
        host,
        is_plain: is_plain(request.extensions(), host.unwrap_or("")),
        now_ms,
    };
    let admitted = guard.state.auth.admit(asking).await;
    let whence = Whence(guard.state.auth.whence(&request));
    let caller = match admitted {
        Ok(caller) => caller,
        Err(Denied::NoToken | Denied::WrongToken) if need == Some(Need::Public) => {
            Caller::anybody()
        }
        Err(Denied::NoToken) if !is_api && method.is_safe() => {
            return pages::redirect_to_sign_in(&request);
        }
        Err(denied) => return refuse(&denied, &request, is_api),
    };
    match need {
        Some(need) if caller.may(need) => {
            if let Via::Session { id, .. } = &caller.via
                && !looks_by_itself(&request)
            {
                guard.state.people.used_session(id, now_ms);
            }
            let needs_proof = matches!(caller.via, Via::Session { .. } | Via::Nothing);
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(whence);
            if !is_api && needs_proof && !request.method().is_safe() {
                request = match proved(request).await {
                    Ok(request) => request,
                    Err((denied, request)) => return refuse(&denied, &request, is_api),
                };
            }
            next.run(request).await
        }
        Some(Need::Role(needs)) => {
            let has = caller.role;
            refuse(&Denied::Role { needs, has }, &request, is_api)
        }
        Some(Need::Public) | None => refuse(&Denied::Shut, &request, is_api),
    }
}

/// A browser that nobody may be sitting at: a page's stream, and its look when there is none.
fn looks_by_itself(request: &Request) -> bool {
    let uri = request.uri();
    matches!(uri.path(), "/live" | "/api/v1/events")
        || uri
            .query()
            .is_some_and(|query| query.contains("fragment=live"))
}

/// The form as it came, when it is one that our pages made for this browser.
async fn proved(request: Request) -> Result<Request, (Denied, Request)> {
    let host = host_of(&request).map(str::to_owned);
    let is_plain = is_plain(request.extensions(), host.as_deref().unwrap_or(""));
    let origin = same_origin(request.method(), request.headers(), host.as_deref());
    if let Err(denied) = origin {
        return Err((denied, request));
    }
    let (head, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, pages::FORM_BYTES_MAX).collect();
    let body = tokio::time::timeout(FORM_MAX, body).await;
    let Ok(Ok(body)) = body else {
        return Err((Denied::Form, Request::from_parts(head, Body::empty())));
    };
    let body = body.to_bytes();
    let key = session::form_key(&head.headers, is_plain);
    let is_ours = key.is_some_and(|key| session::proves(&body, key));
    let request = Request::from_parts(head, Body::from(body));
    match is_ours {
        true => Ok(request),
        false => Err((Denied::Form, request)),
    }
}

fn refuse(denied: &Denied, request: &Request, is_api: bool) -> Response {
    let status = match denied {
        Denied::NoToken | Denied::WrongToken => StatusCode::UNAUTHORIZED,
        Denied::Host | Denied::Origin | Denied::Role { .. } | Denied::Form | Denied::Shut => {
            StatusCode::FORBIDDEN
        }
    };
    let mut response = if is_api {
        let problem = Problem::new(status, "not-allowed", denied.to_string());
        let problem = match denied {
            Denied::Role { needs, .. } => problem.with("role", needs.word().into()),
            Denied::NoToken
            | Denied::WrongToken
            | Denied::Host
            | Denied::Origin
            | Denied::Form
            | Denied::Shut => problem,
        };
        problem.into_response()
    } else {
        let what = denied.to_string();
        pages::PageError::Refused { status, what }.answer(pages::id_of(request.extensions()), None)
    };
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}
