//! `Idempotency-Key`: a request that is sent again does nothing a second time.
//!
//! Separate because it lies around every POST and knows none of them. What took effect is answered
//! the same again; a refusal changed nothing and leaves the name free. It must never keep a secret
//! that is shown once, nor run a request of which it does not know whether it ran before.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};

use super::call::Call;
use super::problem::Kind;
use super::{Problem, input};
use crate::auth;
use crate::clock;
use crate::state::AppState;
use crate::store::{First, Named, StoreError};

/// Longest name of a request.
pub(super) const NAME_BYTES_MAX: usize = 255;
/// Largest answer that is kept.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longer than any call takes: who is not through by then was cut off.
const RUN_MAX_MS: i64 = 60_000;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What the layer knows.
#[derive(Clone)]
pub(super) struct Layer {
    state: AppState,
    /// Paths whose answer has a member that is shown once.
    once: Arc<HashMap<String, &'static str>>,
}

impl Layer {
    pub(super) fn new(state: AppState, prefix: &str, calls: &[Call]) -> Self {
        let once = calls.iter().filter(|call| call.method == Method::POST);
        let once = once.filter_map(|call| Some((format!("{prefix}{}", call.path), call.once()?)));
        Self {
            state,
            once: Arc::new(once.collect()),
        }
    }
}

/// An answer as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    status: u16,
    headers: Vec<(String, String)>,
    /// `None`: too large to be kept.
    body: Option<String>,
    /// The member that was shown once and is not in `body`.
    once: Option<String>,
}

/// Around every call.
pub(super) async fn around(State(layer): State<Layer>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST {
        return next.run(request).await;
    }
    match name(request.headers()) {
        Ok(None) => next.run(request).await,
        Ok(Some(name)) => named(layer, name, request, next)
            .await
            .unwrap_or_else(Problem::into_response),
        Err(problem) => problem.into_response(),
    }
}

fn name(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(KEY).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let plain = |text: &&str| {
        (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
    };
    let text = value.to_str().ok().filter(plain);
    match (text, values.next()) {
        (Some(text), None) => Ok(Some(text.to_owned())),
        (None, _) | (_, Some(_)) => {
            let rule = format!("must be one name of 1 to {NAME_BYTES_MAX} visible characters");
            Err(Problem::header("idempotency-key", &rule))
        }
    }
}

async fn named(
    layer: Layer,
    name: String,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (head, body) = request.into_parts();
    let caller = auth::author(&head.extensions).name;
    let body = input::whole(body).await?;
    let mut digest = Sha256::new();
    let target = head
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    digest.update(target.as_bytes());
    digest.update([0]);
    digest.update(&body);
    let named = Named {
        caller,
        name,
        fingerprint: hex(&digest.finalize()),
        begun_ms: clock::unix_ms(),
    };
    let store = layer.state.store.clone();
    if let Some(first) = store.begin_named(named.clone()).await? {
        return again(&named, first);
    }
    let path = head.extensions.get::<axum::extract::MatchedPath>();
    let once = path.and_then(|path| layer.once.get(path.as_str()).copied());
    let request = Request::from_parts(head, Body::from(body));
    // On a task of its own: a caller who leaves must not leave its name without an answer.
    let work = layer.state.tasks.spawn(async move {
        let (parts, body) = next.run(request).await.into_parts();
        let body = body
            .collect()
            .await
            .map_or_else(|_| Bytes::new(), |all| all.to_bytes());
        let answer = keep(&parts, &body, once);
        if let Err(error) = store.end_named(named, answer).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "the answer to a named request was not kept");
        }
        Response::from_parts(parts, Body::from(body))
    });
    Ok(work.await.map_err(|_| StoreError::Closed)?)
}

/// What is kept of an answer; `None`: nothing took effect.
fn keep(parts: &http::response::Parts, body: &Bytes, once: Option<&str>) -> Option<String> {
    let unknown = parts.extensions.get::<Kind>() == Some(&Kind("outcome-unknown"));
    if !parts.status.is_success() && !unknown {
        return None;
    }
    let names = [header::CONTENT_TYPE, header::ETAG, header::LOCATION];
    let headers = names.iter().filter_map(|name| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    let mut text = std::str::from_utf8(body).ok().map(str::to_owned);
    if let Some(once) = once.filter(|_| !unknown) {
        text = text.and_then(|text| without(&text, once));
    }
    let kept = Kept {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: text.filter(|text| text.len() <= ANSWER_BYTES_MAX),
        once: once.filter(|_| !unknown).map(str::to_owned),
    };
    serde_json::to_string(&kept).ok()
}

fn without(text: &str, member: &str) -> Option<String> {
    let mut body: Json = serde_json::from_str(text).ok()?;
    body.as_object_mut()?.remove(member)?;
    Some(body.to_string())
}

/// The answer to a request whose name was used before.
fn again(named: &Named, first: First) -> Result<Response, Problem> {
    if first.fingerprint != named.fingerprint {
        let rule = "was used for another request within 24 hours; each request needs its own";
        let detail = format!("`idempotency-key` {rule}");
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", detail);
        return Err(problem.about("idempotency-key", rule));
    }
    let Some(answer) = first.answer else {
        if named.begun_ms.saturating_sub(first.begun_ms) <= RUN_MAX_MS {
            let detail = "the first request of this `idempotency-key` is still under way";
            return Err(Problem::new(StatusCode::CONFLICT, "under-way", detail).retry());
        }
        let detail = "the first request of this `idempotency-key` was cut off: look whether it \
                      took effect, and use another key if it did not";
        return Err(Problem::new(StatusCode::CONFLICT, "cut-off", detail));
    };
    let kept: Kept =
        serde_json::from_str(&answer).map_err(|_| StoreError::Row("idempotency.answer"))?;
    if let Some(once) = kept.once {
        let detail = format!(
            "the first request of this `idempotency-key` was done; its `{once}` was shown once \
             and is kept nowhere. Make another one if it was lost"
        );
        let made = kept.body.and_then(|body| serde_json::from_str(&body).ok());
        let problem = Problem::new(StatusCode::CONFLICT, "shown-once", detail);
        return Ok(replayed(
            problem
                .with("made", made.unwrap_or(json!(null)))
                .into_response(),
        ));
    }
    let Some(body) = kept.body else {
        let detail = "the first request of this `idempotency-key` was done; its answer was too \
                      large to be kept";
        return Err(Problem::new(StatusCode::CONFLICT, "not-kept", detail));
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK);
    for (name, value) in kept.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    Ok(replayed(response))
}

fn replayed(mut response: Response) -> Response {
    let yes = HeaderValue::from_static("true");
    response.headers_mut().insert(REPLAYED, yes);
    response
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
