//! What the head of a request says, once it is clear that it says one thing.
//!
//! Separate because every doubt is settled here, before a route is looked for: what follows works
//! on a canonical path, one host and one framing. It must never touch the body.

use std::borrow::Cow;

use compartment::policy::Http;
use http::header::UPGRADE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};

use crate::framing::{Framing, framing};
use crate::reason::Reason;
use crate::target;

/// Bytes of a field line beside name and value: `: ` and the end of the line.
const FIELD_EXTRA_BYTES: usize = 4;
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const MAX_FORWARDS: HeaderName = HeaderName::from_static("max-forwards");
pub(crate) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// A head that was read.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// Lower case, without port; `None`: HTTP/1.0 without one.
    pub(crate) host: Option<Cow<'a, str>>,
    /// Canonical.
    pub(crate) path: Cow<'a, str>,
    pub(crate) framing: Framing,
}

/// A head that goes no further, and why in words of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    Refused(Reason, &'static str),
    /// Answered here: it asks about the gateway itself.
    Options,
}

/// Reads the head, or says why not.
pub(crate) fn read<'a>(parts: &'a Parts, http: &Http) -> Result<Head<'a>, Halt> {
    check_sizes(parts, http)?;
    let doubt = |detail| Halt::Refused(Reason::BadRequest, detail);
    let framing =
        framing(&parts.headers).map_err(|_| doubt("the length of the body is not clear"))?;
    let host = target::host(&parts.uri, &parts.headers, parts.version);
    let host = host.map_err(|found| doubt(found.text()))?;
    if asks_for_h2c(&parts.headers) {
        return Err(doubt(
            "HTTP/2 begins with its preface here, not with an upgrade",
        ));
    }
    match parts.method {
        Method::CONNECT => return Err(doubt("tunnels are not made here")),
        Method::TRACE => return Err(doubt("requests are not echoed here")),
        Method::OPTIONS if parts.uri.path() == "*" || ends_here(&parts.headers) => {
            return Err(Halt::Options);
        }
        _ => {}
    }
    let path = target::canonical_path(parts.uri.path()).map_err(|found| doubt(found.text()))?;
    Ok(Head {
        host,
        path,
        framing,
    })
}

fn check_sizes(parts: &Parts, http: &Http) -> Result<(), Halt> {
    let usize_of = |bound: u32| usize::try_from(bound).unwrap_or(usize::MAX);
    let target = parts
        .uri
        .path_and_query()
        .map_or(0, |sent| sent.as_str().len());
    if target > usize_of(http.target_bytes_max) {
        return Err(Halt::Refused(
            Reason::UriTooLong,
            "the target is longer than allowed",
        ));
    }
    let fields = parts.headers.iter();
    let bytes: usize = fields
        .map(|(name, value)| name.as_str().len() + value.len() + FIELD_EXTRA_BYTES)
        .sum();
    if parts.headers.len() > usize_of(http.header_fields_max)
        || bytes > usize_of(http.header_bytes_max)
    {
        return Err(Halt::Refused(
            Reason::HeaderTooLarge,
            "the head is larger than allowed",
        ));
    }
    Ok(())
}

/// Served as if it had not asked, the client and what stands between could come to differ on what
/// the connection speaks.
fn asks_for_h2c(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(UPGRADE).iter();
    values.any(|value| {
        let mut tokens = value.as_bytes().split(|byte| *byte == b',');
        tokens.any(|token| token.trim_ascii().eq_ignore_ascii_case(b"h2c"))
    }) || headers.contains_key(HTTP2_SETTINGS)
}

/// `Max-Forwards: 0`: the last one to be asked is this gateway.
fn ends_here(headers: &HeaderMap) -> bool {
    headers
        .get(MAX_FORWARDS)
        .is_some_and(|value| value.as_bytes() == b"0")
}

/// One hop less for whom it matters.
pub(crate) fn count_forward(method: &Method, headers: &mut HeaderMap) {
    if *method != Method::OPTIONS {
        return;
    }
    let left = headers
        .get(MAX_FORWARDS)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(left) = left {
        headers.insert(MAX_FORWARDS, left.saturating_sub(1).into());
    }
}

/// The caller's own remaining time in microseconds: the tighter of the route's header, in
/// milliseconds, and `grpc-timeout`. What cannot be read is no deadline.
pub(crate) fn deadline_us(headers: &HeaderMap, header: Option<&HeaderName>) -> Option<u64> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let own = header
        .and_then(text)
        .and_then(|ms| ms.trim().parse::<u64>().ok());
    let own = own.map(|ms| ms.saturating_mul(1_000));
    let grpc = text(&GRPC_TIMEOUT).and_then(grpc_timeout_us);
    match (own, grpc) {
        (Some(own), Some(grpc)) => Some(own.min(grpc)),
        (own, grpc) => own.or(grpc),
    }
}

/// At most eight digits and a unit.
pub(crate) fn grpc_timeout_us(text: &str) -> Option<u64> {
    let (at, unit) = text.char_indices().next_back()?;
    let (digits, _) = text.split_at(at);
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        'H' => Some(number * 3_600_000_000),
        'M' => Some(number * 60_000_000),
        'S' => Some(number * 1_000_000),
        'm' => Some(number * 1_000),
        'u' => Some(number),
        'n' => Some(number / 1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::http;

    fn parts(method: &str, target: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn halt(method: &str, target: &str, fields: &[(&str, &str)]) -> Option<Halt> {
        read(&parts(method, target, fields), &http()).err()
    }

    const HOST: (&str, &str) = ("host", "gw");

    #[test]
    fn sizes_have_their_own_reasons() {
        let long = format!("/{}", "a".repeat(9_000));
        let reason = |halt: Option<Halt>| match halt {
            Some(Halt::Refused(reason, _)) => Some(reason),
            Some(Halt::Options) | None => None,
        };
        assert_eq!(
            reason(halt("GET", &long, &[HOST])),
            Some(Reason::UriTooLong)
        );
        let big = "b".repeat(33 << 10);
        assert_eq!(
            reason(halt("GET", "/", &[HOST, ("x", &big)])),
            Some(Reason::HeaderTooLarge)
        );
        let many: Vec<(&str, &str)> = std::iter::repeat_n(("x", "1"), 100).chain([HOST]).collect();
        assert_eq!(
            reason(halt("GET", "/", &many)),
            Some(Reason::HeaderTooLarge)
        );
        assert_eq!(halt("GET", "/", &many[1..]), None);
    }

    #[test]
    fn some_methods_end_here() {
        assert_eq!(halt("OPTIONS", "*", &[HOST]), Some(Halt::Options));
        assert_eq!(
            halt("OPTIONS", "/a", &[HOST, ("max-forwards", "0")]),
            Some(Halt::Options)
        );
        assert_eq!(halt("OPTIONS", "/a", &[HOST, ("max-forwards", "3")]), None);
        assert!(halt("TRACE", "/a", &[HOST]).is_some());
        assert!(halt("CONNECT", "gw:80", &[HOST]).is_some());
        let mut headers = parts("OPTIONS", "/a", &[("max-forwards", "3")]).headers;
        count_forward(&Method::OPTIONS, &mut headers);
        assert_eq!(headers["max-forwards"], "2");
        // To other methods the field means nothing: it passes as it is.
        for method in [Method::GET, Method::POST] {
            assert_eq!(
                halt(method.as_str(), "/a", &[HOST, ("max-forwards", "0")]),
                None
            );
            let mut headers = parts("GET", "/a", &[("max-forwards", "3")]).headers;
            count_forward(&method, &mut headers);
            assert_eq!(headers["max-forwards"], "3");
        }
    }

    #[test]
    fn http2_is_not_reached_by_an_upgrade() {
        for asked in ["h2c", "H2C", "websocket, h2c"] {
            assert!(halt("GET", "/a", &[HOST, ("upgrade", asked)]).is_some());
        }
        assert!(halt("GET", "/a", &[HOST, ("http2-settings", "AAMAAABk")]).is_some());
        assert_eq!(halt("GET", "/a", &[HOST, ("upgrade", "h2cx")]), None);
    }

    #[test]
    fn the_tighter_deadline_counts() {
        let own = HeaderName::from_static("x-deadline-ms");
        let check = |fields: &[(&str, &str)], want| {
            let headers = parts("GET", "/", fields).headers;
            assert_eq!(deadline_us(&headers, Some(&own)), want, "{fields:?}");
        };
        check(&[], None);
        check(&[("x-deadline-ms", "250")], Some(250_000));
        check(&[("x-deadline-ms", "soon")], None);
        check(&[("x-deadline-ms", "-1")], None);
        check(&[("grpc-timeout", "100m")], Some(100_000));
        check(
            &[("grpc-timeout", "1S"), ("x-deadline-ms", "2000")],
            Some(1_000_000),
        );
        check(
            &[("grpc-timeout", "99999999H")],
            Some(99_999_999 * 3_600_000_000),
        );
        check(&[("grpc-timeout", "1x")], None);
        check(&[("grpc-timeout", "123456789S")], None);
        check(&[("grpc-timeout", "é")], None);
        check(&[("grpc-timeout", "")], None);
    }
}
