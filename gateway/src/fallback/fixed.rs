//! The fixed answer.
//!
//! Separate because it is prepared when the policy is put in force, and given without a look at
//! the request. It must never be asked why it is needed.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

/// A fixed answer, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct FixedAnswer {
    status: StatusCode,
    fields: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl FixedAnswer {
    /// A checked policy has a valid status, type and fields; were one not, the answer would
    /// still be one.
    pub(crate) fn new(
        status: u16,
        content_type: &str,
        headers: &[(String, String)],
        body: &str,
    ) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let media_type = HeaderValue::from_str(content_type)
            .unwrap_or(HeaderValue::from_static("application/octet-stream"));
        let own = [
            (CONTENT_TYPE, media_type),
            (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        ];
        let further = headers.iter().filter_map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value).ok()?))
        });
        Self {
            status,
            fields: own.into_iter().chain(further).collect(),
            body: match bodiless {
                true => Bytes::new(),
                false => Bytes::from(body.to_owned()),
            },
        }
    }

    /// The answer, in the room of a map that is empty.
    pub(crate) fn answer(&self, room: HeaderMap) -> Response<Bytes> {
        let mut answer = Response::new(self.body.clone());
        *answer.status_mut() = self.status;
        *answer.headers_mut() = room;
        for (name, value) in &self.fields {
            answer.headers_mut().insert(name.clone(), value.clone());
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_the_policy_says() {
        let fields = [("location".to_owned(), "/elsewhere".to_owned())];
        let fixed = FixedAnswer::new(203, "application/json", &fields, "[]");
        let answer = fixed.answer(HeaderMap::new());
        assert_eq!(
            (answer.status().as_u16(), answer.body().as_ref()),
            (203, b"[]".as_slice())
        );
        assert_eq!(answer.headers()["content-type"], "application/json");
        assert_eq!(answer.headers()["cache-control"], "no-store");
        assert_eq!(answer.headers()["location"], "/elsewhere");
        assert!(answer.headers().get("retry-after").is_none());
        let empty = FixedAnswer::new(204, "text/plain", &[], "x");
        assert!(empty.answer(HeaderMap::new()).body().is_empty());
    }
}
