//! `GET /live?view=…`: the moving parts of pages, as one stream of events for a whole browser.
//!
//! Separate because it is the one answer of the pages that does not end. Each view is asked of the
//! pages' own handlers, so that a stream shows what a reload would show, and what did not move is
//! not sent again. It must never outlive whatever let it in, nor work ahead of a slow reader.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::response::Response;
use axum::response::sse::Event;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Value as Json, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tower::Service as _;

use super::PageError;
use super::frame::Asked;
use crate::access;
use crate::auth;
use crate::clock;
use crate::request_id::RequestId;
use crate::sse;
use crate::state::AppState;

/// Most streams at once: one for each browser that looks.
pub(crate) const STREAMS_MAX: usize = 100;
/// Most views of one stream. A browser with more of them in sight asks for the rest by itself.
const VIEWS_MAX: usize = 8;
/// Longest address of a view.
const VIEW_BYTES_MAX: usize = 2_048;
/// Largest part of a page that is sent.
const PAGE_BYTES_MAX: usize = 4 << 20;
/// How often a view is looked at while that is cheap.
const PERIOD: Duration = Duration::from_secs(1);
/// A view is never looked at for more than one part in so many of the time.
const SHARE: u32 = 4;
/// When a browser tries again after the stream has ended.
const RETRY: Duration = Duration::from_secs(1);

/// The places of streams.
#[derive(Clone, Debug)]
pub(crate) struct PageStreams(Arc<Semaphore>);

impl Default for PageStreams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

/// Opens a stream of the views that the address names.
pub(super) async fn stream(
    State(state): State<AppState>,
    views: Result<Query<Vec<(String, String)>>, QueryRejection>,
    request: Request,
) -> Response {
    let asked = Asked::of(&request);
    // Another site's page could not read a stream, but it could take all places.
    let host = auth::host_of(&request);
    if let Err(denied) = auth::same_origin(&Method::POST, request.headers(), host) {
        let error = PageError::Refused {
            status: StatusCode::FORBIDDEN,
            what: denied.to_string(),
        };
        return error.answer(&asked.request_id, None);
    }
    let named = views.map_or_else(|_| Vec::new(), |Query(pairs)| views_of(pairs));
    if named.is_empty() || named.len() > VIEWS_MAX {
        let error = PageError::Form {
            status: StatusCode::BAD_REQUEST,
            what: "A stream has one to eight views, each the path of a page.",
        };
        return error.answer(&asked.request_id, None);
    }
    let Ok(place) = Arc::clone(&state.page_streams.0).try_acquire_owned() else {
        return PageError::TooManyStreams.answer(&asked.request_id, None);
    };
    let (to_client, parts) = mpsc::channel(1);
    let teller = Teller {
        pages: access::router(super::views()).with_state(state.clone()),
        views: named,
        host: auth::host_of(&request).map(str::to_owned),
        is_plain: asked.is_plain,
        headers: request.headers().clone(),
        request_id: RequestId(asked.request_id),
        to_client,
        state: state.clone(),
        _place: place,
    };
    state.tasks.spawn(teller.run());
    sse::answer(parts, |text: String| {
        Event::default().event("parts").retry(RETRY).data(text)
    })
}

/// The views, each once; what is no path of ours is left out.
fn views_of(pairs: Vec<(String, String)>) -> Vec<View> {
    let mut views: Vec<View> = Vec::new();
    for (name, target) in pairs {
        let is_path = target.starts_with('/') && !target.starts_with("//");
        let is_new = views.iter().all(|view| view.target != target);
        if name == "view" && is_path && is_new && target.len() <= VIEW_BYTES_MAX {
            views.push(View {
                target,
                told: Vec::new(),
            });
        }
    }
    views
}

/// One page that the browser shows.
#[derive(Debug)]
struct View {
    /// Path and query.
    target: String,
    /// What was sent last, part by part.
    told: Vec<u64>,
}

/// One browser.
struct Teller {
    state: AppState,
    pages: Router,
    views: Vec<View>,
    headers: HeaderMap,
    host: Option<String>,
    is_plain: bool,
    request_id: RequestId,
    to_client: mpsc::Sender<String>,
    /// Keeps the number of streams bounded: given back with the stream.
    _place: OwnedSemaphorePermit,
}

impl Teller {
    async fn run(mut self) {
        let (stopping, to_client) = (self.state.stopping.clone(), self.to_client.clone());
        sse::run(stopping, to_client, self.tell()).await;
    }

    async fn tell(&mut self) {
        loop {
            let began = clock::now();
            let asking = auth::Asking {
                method: &Method::GET,
                headers: &self.headers,
                host: self.host.as_deref(),
                is_plain: self.is_plain,
                now_ms: clock::unix_ms(),
            };
            // A session that has ended in the meantime ends what it opened.
            let admitted = self.state.auth.admit(asking).await;
            let Ok(caller) = admitted else { return };
            let mut told = Vec::new();
            for view in &mut self.views {
                let mut request = Request::new(Body::empty());
                let Ok(target) = live(&view.target).parse() else {
                    return;
                };
                *request.uri_mut() = target;
                // What the address and the forms of a page depend on.
                for name in [http::header::HOST, http::header::COOKIE] {
                    if let Some(value) = self.headers.get(&name) {
                        request.headers_mut().insert(name, value.clone());
                    }
                }
                if !self.is_plain {
                    request.extensions_mut().insert(auth::OverTls);
                }
                request.extensions_mut().insert(caller.clone());
                request.extensions_mut().insert(self.request_id.clone());
                let Ok(answer) = self.pages.call(request).await;
                told.push(view.news(answer).await);
            }
            let took = clock::now().saturating_duration_since(began);
            let every = PERIOD.max(took.saturating_mul(SHARE));
            let every_ms = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
            let text = json!({"every_ms": every_ms, "views": told}).to_string();
            if self.to_client.send(text).await.is_err() {
                return;
            }
            tokio::time::sleep(every.saturating_sub(took)).await;
        }
    }
}

/// The address of the moving parts alone.
fn live(target: &str) -> String {
    let joint = if target.contains('?') { '&' } else { '?' };
    format!("{target}{joint}fragment=live")
}

impl View {
    /// The parts that are not what was told last.
    async fn news(&mut self, answer: Response) -> Json {
        let status = answer.status();
        let body = Limited::new(answer.into_body(), PAGE_BYTES_MAX).collect();
        let body = body.await.ok().map(http_body_util::Collected::to_bytes);
        let body = body.and_then(|body| String::from_utf8(body.into()).ok());
        let (StatusCode::OK, Some(body)) = (status, body) else {
            return json!({"view": self.target, "status": status.as_u16()});
        };
        let parts: Vec<&str> = body.split(web::BETWEEN).collect();
        let marks: Vec<u64> = parts.iter().map(|part| mark(part)).collect();
        let moved = parts.iter().zip(&marks).enumerate();
        let moved = moved.filter(|(at, (_, mark))| self.told.get(*at) != Some(*mark));
        let html: String = moved.map(|(_, (part, _))| *part).collect();
        self.told = marks;
        json!({"view": self.target, "status": status.as_u16(), "html": html})
    }
}

fn mark(part: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    part.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    fn named(targets: &[&str]) -> Vec<String> {
        let pair = |target: &&str| ("view".to_owned(), (*target).to_owned());
        let views = views_of(targets.iter().map(pair).collect());
        views.into_iter().map(|view| view.target).collect()
    }

    #[test]
    fn a_view_is_a_path_of_ours_once() {
        let long = format!("/{}", "a".repeat(VIEW_BYTES_MAX));
        let all = ["/", "/?a=b", "/", "http://evil/", "//evil/", "", &long];
        assert_eq!(named(&all), ["/", "/?a=b"]);
        assert!(views_of(vec![("other".to_owned(), "/".to_owned())]).is_empty());
        assert_eq!(live("/"), "/?fragment=live");
        assert_eq!(live("/?a=b"), "/?a=b&fragment=live");
    }

    #[tokio::test]
    async fn only_what_moved_is_told_again() {
        let mut view = named(&["/"]).pop().map(|target| View {
            target,
            told: Vec::new(),
        });
        let view = view.as_mut().unwrap();
        let page = |parts: [&str; 3]| parts.join(web::BETWEEN).into_response();
        let html = |news: Json| news["html"].as_str().map(str::to_owned);
        let first = view.news(page(["a", "b", "c"])).await;
        assert_eq!(html(first).as_deref(), Some("abc"));
        let second = view.news(page(["a", "x", "c"])).await;
        assert_eq!(html(second).as_deref(), Some("x"));
        let third = view.news(page(["a", "x", "c"])).await;
        assert_eq!(html(third).as_deref(), Some(""));
        let gone = view.news(StatusCode::NOT_FOUND.into_response()).await;
        assert_eq!(gone["status"], 404);
        assert!(gone.get("html").is_none());
    }
}
