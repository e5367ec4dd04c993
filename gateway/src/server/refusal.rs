//! Answers to heads that hyper itself refuses.
//!
//! Separate because hyper answers them with a bare status: the driver keeps that from the client
//! and writes the document made here instead. It must never be used for a request that was read.

use bytes::Bytes;
use http::{HeaderName, Response, header};

use super::bounds::Bounds;

/// Why a head was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    /// 400.
    Malformed,
    /// 414.
    TargetTooLong,
    /// 431.
    TooLarge,
    /// 408.
    Timeout,
}

impl HeadFault {
    /// What hyper's parse error means; `unread` is what it had read of the head.
    pub(super) fn of(error: &hyper::Error, unread: &[u8], bounds: &Bounds) -> Self {
        if !error.is_parse_too_large() {
            return Self::Malformed;
        }
        if target_bytes_min(unread) > bounds.target_bytes_max {
            Self::TargetTooLong
        } else {
            Self::TooLarge
        }
    }
}

/// Bytes of the request target that were seen; the whole target when its line is complete.
fn target_bytes_min(head: &[u8]) -> usize {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    words.nth(1).unwrap_or_default().len()
}

/// The bytes of a whole HTTP/1.1 answer after which the connection closes.
pub(super) fn encode(response: &Response<Bytes>) -> Vec<u8> {
    let status = response.status();
    let reason = status.canonical_reason().unwrap_or_default();
    let body = response.body();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_str()).into_bytes();
    for (name, value) in response.headers() {
        if !is_written_here(name) {
            field(&mut bytes, name.as_str(), value.as_bytes());
        }
    }
    field(
        &mut bytes,
        "content-length",
        body.len().to_string().as_bytes(),
    );
    field(&mut bytes, "connection", b"close");
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

fn is_written_here(name: &HeaderName) -> bool {
    [
        header::CONTENT_LENGTH,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
    ]
    .contains(name)
}

fn field(bytes: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        bytes.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_measured_even_when_its_line_is_cut() {
        for (head, want) in [
            (b"GET /abc HTTP/1.1\r\nhost: x\r\n".as_slice(), 4),
            (b"GET /abcdef", 7),
            (b"GET ", 0),
            (b"GET", 0),
            (b"", 0),
        ] {
            assert_eq!(target_bytes_min(head), want, "{head:?}");
        }
    }

    #[test]
    fn an_answer_has_one_length_and_closes() {
        let response = Response::builder()
            .status(414)
            .header("content-length", "99")
            .header("x-bulkhead-reason", "uri_too_long")
            .body(Bytes::from_static(b"{}"))
            .unwrap();
        let text = String::from_utf8(encode(&response)).unwrap();
        assert_eq!(
            text,
            "HTTP/1.1 414 URI Too Long\r\nx-bulkhead-reason: uri_too_long\r\n\
             content-length: 2\r\nconnection: close\r\n\r\n{}"
        );
    }
}
