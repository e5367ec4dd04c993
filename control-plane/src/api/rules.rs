//! What is refused before any call looks at it.
//!
//! Separate so that no call can forget it. It must never read a body.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};

use super::Problem;
use super::input::is_json;

/// Longest path with its query.
const TARGET_BYTES_MAX: usize = 8 << 10;

/// Around every call, and around what is none.
pub(super) async fn around(request: Request, next: Next) -> Response {
    match check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(request: &Request) -> Result<(), Problem> {
    let uri = request.uri();
    let target = uri.path_and_query().map_or("", |target| target.as_str());
    if target.len() > TARGET_BYTES_MAX {
        let detail = format!("path and query have more than {TARGET_BYTES_MAX} bytes");
        return Err(Problem::new(
            StatusCode::URI_TOO_LONG,
            "uri-too-long",
            detail,
        ));
    }
    let decoded = percent_encoding::percent_decode_str(uri.path());
    if decoded.into_iter().any(|byte| byte < 0x20 || byte == 0x7f) {
        let detail = "the path must have no control characters once it is decoded";
        return Err(Problem::bad_request(detail));
    }
    // A form of another site's page can send three media types, and none of them is JSON.
    let says = request.headers().contains_key(header::CONTENT_TYPE);
    if !request.method().is_safe() && says && !is_json(request.headers()) {
        let detail = "a change is sent as JSON, and says so: `content-type: application/json`";
        let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail);
        return Err(problem.about("content-type", "must be application/json"));
    }
    Ok(())
}
