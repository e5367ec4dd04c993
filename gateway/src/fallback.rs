//! The designed answer in place of a rejection or a timeout.
//!
//! Separate because full and timed out take the same answer, which is prepared when the policy
//! is put in force. It must never stand in for a failure of the dependency or a fault of the
//! request, and the request's own permits are back before it is given.

use bytes::Bytes;
use compartment::policy::Fallback;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::error::{Said, mark};

const FALLBACK: HeaderName = HeaderName::from_static("x-bulkhead-fallback");

/// A fixed answer, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct FixedAnswer {
    status: StatusCode,
    content_type: HeaderValue,
    body: Bytes,
}

impl FixedAnswer {
    /// A checked policy has a valid status and type; were one not, the answer would still be one.
    pub(crate) fn new(fallback: &Fallback) -> Self {
        let Fallback::Static {
            status,
            content_type,
            body,
        } = fallback;
        Self {
            status: StatusCode::from_u16(*status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE),
            content_type: HeaderValue::from_str(content_type)
                .unwrap_or(HeaderValue::from_static("application/octet-stream")),
            body: Bytes::from(body.clone()),
        }
    }

    /// The answer, marked with what it stands in for.
    pub(crate) fn answer(&self, said: &Said<'_>, emptied: HeaderMap) -> Response<Bytes> {
        let bodiless = matches!(
            self.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
        let body = if bodiless {
            Bytes::new()
        } else {
            self.body.clone()
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = self.status;
        *answer.headers_mut() = emptied;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, self.content_type.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(FALLBACK, HeaderValue::from_static("static"));
        mark(headers, said);
        answer
    }
}

#[cfg(test)]
mod tests {
    use compartment::Rejection;
    use http::Version;

    use super::*;
    use crate::ids::Ids;
    use crate::reason::Reason;

    #[test]
    fn it_is_marked_with_what_it_stands_in_for() {
        let fallback = Fallback::Static {
            status: 203,
            content_type: "application/json".to_owned(),
            body: "[]".to_owned(),
        };
        let request_id = Ids::new(1).request_id(1);
        let said = Said {
            reason: Reason::Rejected(Rejection::RouteFull),
            request_id: &request_id,
            refuser: None,
            detail: None,
            proxy_status: None,
            random: 0,
            version: Version::HTTP_11,
            grpc: false,
        };
        let answer = FixedAnswer::new(&fallback).answer(&said, HeaderMap::new());
        assert_eq!(
            (answer.status().as_u16(), answer.body().as_ref()),
            (203, b"[]".as_slice())
        );
        assert_eq!(answer.headers()["x-bulkhead-fallback"], "static");
        assert_eq!(answer.headers()["x-bulkhead-reason"], "route_full");
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert!(answer.headers().get("retry-after").is_none());
    }
}
