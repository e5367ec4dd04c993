//! A name for each request, and the headers that every answer carries.
//!
//! Separate because it lies around everything, the guard's own refusals included. It must never
//! keep a caller's id that could not stand in a log line.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderName, HeaderValue, header};

/// Longest id of a caller that is kept.
const ID_BYTES_MAX: usize = 64;

/// The id of this request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(pub(crate) String);

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// On every answer that does not say otherwise itself.
const DEFAULTS: [(HeaderName, HeaderValue); 8] = [
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        HeaderName::from_static("permissions-policy"),
        HeaderValue::from_static("interest-cohort=()"),
    ),
];

/// Around every route: names the request, completes the answer.
pub(crate) async fn around(mut request: Request, next: Next) -> Response {
    let offered = request
        .headers()
        .get(&X_REQUEST_ID)
        .and_then(|value| value.to_str().ok());
    let id = match offered {
        Some(offered) if is_plain(offered) => offered.to_owned(),
        _ => uuid::Uuid::now_v7().to_string(),
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in &DEFAULTS {
        headers.entry(name).or_insert_with(|| value.clone());
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(X_REQUEST_ID, id);
    }
    response
}

fn is_plain(id: &str) -> bool {
    let fits = (1..=ID_BYTES_MAX).contains(&id.len());
    fits && id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_are_kept() {
        assert!(is_plain("01987f2a-7c3b-7c55.x_1"));
        for bad in [
            "",
            "a b",
            "a\n",
            "\u{1b}[31m",
            "<x>",
            &"a".repeat(ID_BYTES_MAX + 1),
        ] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}
