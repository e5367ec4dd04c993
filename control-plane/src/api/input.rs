//! What the API takes in: bodies, versions, pages.
//!
//! Separate so that every body is read in one place, with its bound, its time limit and its
//! media type. It must never hand on a document with a key that occurs twice.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use bytes::Bytes;
use compartment::policy::Value;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;
use tokio::sync::{Semaphore, SemaphorePermit};
use wire::document::{self, Syntax};

use super::Problem;
use crate::limits::COMMENT_BYTES_MAX;
use crate::store::StoreError;

/// Largest policy document.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;
/// Largest change of one compartment.
pub const CHANGE_BYTES_MAX: usize = 64 << 10;
/// Most documents that are read in at once.
const DOCUMENTS_MAX: usize = 4;
/// Longest name of a key and longest rule in an answer.
const NAME_BYTES_MAX: usize = 100;
const RULE_BYTES_MAX: usize = 300;
/// Longest time for a whole body.
const BODY_MAX: Duration = Duration::from_secs(30);

/// Longest wait for a place to read a document in.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Places for large bodies: the bound on the memory they take together.
static DOCUMENTS: Semaphore = Semaphore::const_new(DOCUMENTS_MAX);

/// A segment of the path, decoded. Apart from the framework's own, which refuses in plain text.
pub(super) struct Path<T>(pub(super) T);

impl<S: Send + Sync> FromRequestParts<S> for Path<String> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let segment = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let refused = |_| Problem::bad_request("the path must be UTF-8 once it is decoded");
        segment
            .map(|axum::extract::Path(text)| Self(text))
            .map_err(refused)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Path<(String, String)> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let two = axum::extract::Path::<(String, String)>::from_request_parts(parts, state).await;
        let refused = |_| Problem::bad_request("the path must be UTF-8 once it is decoded");
        two.map(|axum::extract::Path(two)| Self(two))
            .map_err(refused)
    }
}

/// A JSON body, and the place that it takes until it is dropped.
pub(super) struct Json {
    pub(super) value: Value,
    pub(super) place: Option<SemaphorePermit<'static>>,
}

/// The JSON body of a request.
pub(super) async fn json(request: Request, bytes_max: usize) -> Result<Json, Problem> {
    if !is_json(request.headers()) {
        let detail = "the body must be JSON, and say so: `content-type: application/json`";
        let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail);
        return Err(problem.about("content-type", "must be application/json"));
    }
    let place = match bytes_max > CHANGE_BYTES_MAX {
        true => Some(document_place(PLACE_WAIT_MAX).await?),
        false => None,
    };
    let bytes = bytes(request.into_body(), bytes_max).await?;
    // By the reader, and within the bounds, of the gateways that will get it.
    let work = move || {
        let text = std::str::from_utf8(&bytes).map_err(|error| error.to_string())?;
        document::value_of(text, Syntax::Json).map_err(|error| error.to_string())
    };
    let value = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    let value = value.map_err(|error| {
        let error = wire::stream::bounded_text(&error, RULE_BYTES_MAX);
        let detail = format!("the body is not valid JSON: {error}");
        Problem::bad_request(&detail).at("", &detail)
    })?;
    Ok(Json { value, place })
}

/// The JSON body of a request as this type; what does not fit is named by its place.
pub(super) async fn typed<T: DeserializeOwned>(
    request: Request,
    bytes_max: usize,
) -> Result<T, Problem> {
    let value = json(request, bytes_max).await?.value;
    let value = serde_json::to_value(&value)
        .map_err(|error| Problem::bad_request(format!("the body is not valid JSON: {error}")))?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let mut pointer = String::new();
        for step in error.path() {
            match step {
                Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
                Segment::Map { key } | Segment::Enum { variant: key } => {
                    let key = wire::stream::bounded_text(key, NAME_BYTES_MAX);
                    pointer.push('/');
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Segment::Unknown => {}
            }
        }
        let rule = wire::stream::bounded_text(&error.inner().to_string(), RULE_BYTES_MAX);
        Problem::invalid(&pointer, &rule)
    })
}

/// Refuses a comment that is too long.
pub(super) fn comment(text: &str) -> Result<(), Problem> {
    let rule = || format!("comment must be text of at most {COMMENT_BYTES_MAX} bytes");
    let fits = text.len() <= COMMENT_BYTES_MAX;
    fits.then_some(())
        .ok_or_else(|| Problem::invalid("/comment", &rule()))
}

/// How a write to the policy is meant.
#[derive(Debug)]
pub(super) struct Write {
    /// Every query parameter.
    pub(super) pairs: Vec<(String, String)>,
    /// Checked and linted only.
    pub(super) dry_run: bool,
    /// What it is based on; `None`: whatever is newest.
    pub(super) seen: Option<u64>,
}

/// Reads what all writes to the policy have in common; `more` are other query parameters.
pub(super) fn write(head: &Parts, more: &[&'static str]) -> Result<Write, Problem> {
    let mut known = vec!["dry_run"];
    known.extend(more);
    let pairs = query(head, &known)?;
    let dry_run = parameter(&pairs, "dry_run", "true or false")?.unwrap_or(false);
    let seen = match if_match(&head.headers)? {
        Seen::Generation(generation) => Some(generation),
        Seen::Nothing => None,
    };
    Ok(Write {
        pairs,
        dry_run,
        seen,
    })
}

/// A whole body, whatever it is.
pub(super) async fn whole(body: Body) -> Result<Bytes, Problem> {
    let most = body
        .size_hint()
        .upper()
        .and_then(|most| usize::try_from(most).ok());
    let _place = match most.is_none_or(|most| most > CHANGE_BYTES_MAX) {
        true => Some(document_place(PLACE_WAIT_MAX).await?),
        false => None,
    };
    bytes(body, DOCUMENT_BYTES_MAX).await
}

async fn bytes(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let slow = |_| {
        let detail = format!("the body did not arrive within {} s", BODY_MAX.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "slow-body", detail)
    };
    let reading = Limited::new(body, bytes_max).collect();
    let read = tokio::time::timeout(BODY_MAX, reading)
        .await
        .map_err(slow)?;
    let whole = read.map_err(|error| unread(error.as_ref(), bytes_max))?;
    Ok(whole.to_bytes())
}

/// A place for a large body. A wait that is too long is not the caller's slowness.
async fn document_place(longest: Duration) -> Result<SemaphorePermit<'static>, Problem> {
    let waited = tokio::time::timeout(longest, DOCUMENTS.acquire()).await;
    waited.ok().and_then(Result::ok).ok_or_else(|| {
        let detail = "other documents are being read in; try again in a moment";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry()
    })
}

/// A small JSON body, or none: an empty object then.
pub(super) async fn optional_json(request: Request) -> Result<Value, Problem> {
    if request.headers().contains_key(header::CONTENT_TYPE) {
        return Ok(json(request, CHANGE_BYTES_MAX).await?.value);
    }
    empty(request).await?;
    Ok(Value::Table(Vec::new()))
}

/// Refuses a body where none is meant; nothing is accepted without effect.
pub(super) async fn empty(request: Request) -> Result<(), Problem> {
    let bytes = Limited::new(request.into_body(), CHANGE_BYTES_MAX).collect();
    let bytes = tokio::time::timeout(BODY_MAX, bytes).await;
    let rule = "this call takes no body";
    let refused = || Problem::bad_request(rule).at("", rule);
    let Ok(Ok(bytes)) = bytes else {
        return Err(refused());
    };
    let is_empty = bytes.to_bytes().iter().all(u8::is_ascii_whitespace);
    is_empty.then_some(()).ok_or_else(refused)
}

fn unread(error: &(dyn std::error::Error + Send + Sync + 'static), bytes_max: usize) -> Problem {
    if error.is::<LengthLimitError>() {
        let detail = format!("the body is larger than {bytes_max} bytes");
        return Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", &detail).at("", &detail);
    }
    Problem::bad_request("the body was cut off")
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
    else {
        return false;
    };
    let kind = kind
        .split(';')
        .next()
        .unwrap_or("")
        .trim()
        .to_ascii_lowercase();
    matches!(
        kind.as_str(),
        "application/json" | "application/merge-patch+json"
    )
}

/// What a request says of the version that it is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing.
    Nothing,
    /// This generation.
    Generation(u64),
}

/// Reads `If-Match`: `"43"`, `W/"43"` or `43`.
pub(super) fn if_match(headers: &HeaderMap) -> Result<Seen, Problem> {
    let mut values = headers.get_all(header::IF_MATCH).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return match headers.contains_key(header::IF_MATCH) {
            false => Ok(Seen::Nothing),
            true => Err(Problem::header("if-match", "is there more than once")),
        };
    };
    let text = value.to_str().unwrap_or("").trim();
    let bare = text.strip_prefix("W/").unwrap_or(text);
    let bare = bare
        .strip_prefix('"')
        .and_then(|b| b.strip_suffix('"'))
        .unwrap_or(bare);
    if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number beyond any generation is one that moved on, like every other wrong one.
        return Ok(Seen::Generation(bare.parse().unwrap_or(u64::MAX)));
    }
    Err(Problem::header(
        "if-match",
        "must name one generation, as `etag` of GET /api/v1/policy does: \"43\"",
    ))
}

/// 428 without a version.
pub(super) fn required(seen: Option<u64>) -> Result<u64, Problem> {
    seen.ok_or_else(|| {
        let rule = "send `if-match` with the `etag` of the policy that you edited";
        Problem::new(StatusCode::PRECONDITION_REQUIRED, "no-version", rule).about("if-match", rule)
    })
}

/// Reads the query; every key must be one of `known`, once.
pub(super) fn query(
    request: &http::request::Parts,
    known: &[&'static str],
) -> Result<Vec<(String, String)>, Problem> {
    let text = request.uri.query().unwrap_or("");
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decode = |text: &str| {
            let bytes = percent_encoding::percent_decode_str(text);
            bytes
                .decode_utf8()
                .map(String::from)
                .map_err(|_| Problem::bad_request("bad query"))
        };
        let (name, value) = (decode(name)?, decode(value)?);
        let twice = pairs.iter().any(|(other, _)| *other == name);
        if twice || !known.contains(&name.as_str()) {
            let rule = match known {
                [] => "this call takes no query parameter".to_owned(),
                known => format!("this call takes {}, once each", known.join(", ")),
            };
            return Err(Problem::parameter(&name, None, &rule));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

/// The value of one query parameter.
pub(super) fn parameter<T: std::str::FromStr>(
    pairs: &[(String, String)],
    name: &str,
    rule: &str,
) -> Result<Option<T>, Problem> {
    let Some((_, text)) = pairs.iter().find(|(other, _)| other == name) else {
        return Ok(None);
    };
    let bad = |_| Problem::parameter(name, Some(text), rule);
    text.parse().map(Some).map_err(bad)
}

/// A number where a list goes on: from 1.
pub(super) fn place(pairs: &[(String, String)], name: &str) -> Result<Option<u64>, Problem> {
    const RULE: &str = "a whole number from 1 on";
    match parameter(pairs, name, RULE)? {
        Some(0) => Err(Problem::parameter(name, Some("0"), RULE)),
        number => Ok(number),
    }
}

/// The head of a request, and the rest to read later.
pub(super) fn parts(request: Request) -> (http::request::Parts, Body) {
    request.into_parts()
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    fn seen(value: &str) -> Option<Seen> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_MATCH, value.parse().unwrap());
        if_match(&headers).ok()
    }

    #[test]
    fn a_version_is_read_in_each_spelling() {
        for text in ["\"43\"", "W/\"43\"", "43", " 43 "] {
            assert_eq!(seen(text), Some(Seen::Generation(43)), "{text}");
        }
        assert_eq!(
            seen("99999999999999999999999"),
            Some(Seen::Generation(u64::MAX))
        );
        for bad in ["*", "\"a\"", "\"43", "", "\"1\", \"2\"", "-1", "1.0"] {
            assert_eq!(seen(bad), None, "{bad}");
        }
        assert_eq!(if_match(&HeaderMap::new()).ok(), Some(Seen::Nothing));
    }

    #[test]
    fn a_query_is_read_whole_or_refused() {
        let read = |text: &str| {
            let request = http::Request::builder()
                .uri(format!("/x?{text}"))
                .body(())
                .unwrap();
            query(&request.into_parts().0, &["dry_run"]).ok()
        };
        let pair = |value: &str| Some(vec![("dry_run".to_owned(), value.to_owned())]);
        assert_eq!(read("dry_run=true"), pair("true"));
        assert_eq!(read("dry%5frun=%74rue"), pair("true"));
        assert_eq!(read(""), Some(vec![]));
        for bad in ["dry_run=true&dry_run=true", "other=1", "dry_run=%ff"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn a_wait_for_a_place_is_bounded_and_is_no_slow_body() {
        let places = u32::try_from(DOCUMENTS_MAX).unwrap();
        let all = DOCUMENTS.acquire_many(places).await.unwrap();
        let refused = document_place(Duration::from_millis(10)).await;
        assert_eq!(
            refused
                .map_err(|problem| problem.into_response().status())
                .err(),
            Some(StatusCode::SERVICE_UNAVAILABLE)
        );
        drop(all);
        assert!(document_place(Duration::from_secs(10)).await.is_ok());
    }
}
