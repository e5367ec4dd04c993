//! The answers that the gateway makes itself.
//!
//! Separate so that every one of them carries the same distinguishing fields, and so that a
//! refusal stays cheap: fixed text is prepared, the rest is copied in. It must never carry text of
//! a caller's, and never make a refusal of ours look like a failure of a dependency.

use bytes::Bytes;
use compartment::Level;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::{Response, StatusCode, Version};

use crate::ids::RequestId;
use crate::reason::{Form, Reason};

pub(crate) const REASON: HeaderName = HeaderName::from_static("x-bulkhead-reason");
pub(crate) const COMPARTMENT: HeaderName = HeaderName::from_static("x-bulkhead-compartment");
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Longest pause that a refused caller is asked to make.
const RETRY_AFTER_S_MAX: u64 = 120;
/// The pauses are spread over at least so many values.
const RETRY_SPREAD_MIN: u64 = 3;

/// The compartment that refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refuser<'a> {
    /// Its key.
    pub(crate) key: &'a str,
    pub(crate) level: Level,
    /// Its limit, if it has one.
    pub(crate) limit: Option<u32>,
    /// How long a slot of it is held on average; 0 when nothing has been measured.
    pub(crate) drain_us: u64,
    /// The identified tenant's own limit and what is left of it, when another level refused.
    pub(crate) tenant: Option<(u32, u32)>,
}

/// What an answer of ours says.
#[derive(Debug)]
pub(crate) struct Said<'a> {
    pub(crate) reason: Reason,
    pub(crate) request_id: &'a RequestId,
    pub(crate) refuser: Option<Refuser<'a>>,
    /// Fixed text of ours: what the caller can do about it.
    pub(crate) detail: Option<&'static str>,
    /// In place of the reason's own.
    pub(crate) proxy_status: Option<&'static str>,
    /// Anything, different for each answer.
    pub(crate) random: u64,
    /// The request's.
    pub(crate) version: Version,
    /// The caller speaks gRPC: statuses of HTTP mean nothing to it.
    pub(crate) grpc: bool,
}

/// The answer to a request that gets none of its upstream's, nor a fallback.
///
/// `emptied` is a map whose room is used again: the request's own, mostly.
pub(crate) fn own_answer(said: &Said<'_>, emptied: HeaderMap) -> Response<Bytes> {
    let form = said.reason.form();
    let mut answer = Response::new(Bytes::new());
    *answer.headers_mut() = emptied;
    if said.grpc {
        make_trailers_only(&mut answer, form);
    } else {
        make_problem(&mut answer, said);
    }
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let proxy_status = said.proxy_status.unwrap_or(form.proxy_status);
    headers.insert(PROXY_STATUS, HeaderValue::from_static(proxy_status));
    mark(headers, said);
    if let Reason::Rejected(_) | Reason::Draining | Reason::NoPolicy = said.reason {
        let drain_us = said.refuser.map_or(0, |refuser| refuser.drain_us);
        headers.insert(RETRY_AFTER, seconds(retry_after_s(drain_us, said.random)));
        if said.grpc {
            // What a caller of gRPC reads in its place.
            let pause_ms = pushback_ms(drain_us, said.random);
            headers.insert(GRPC_PUSHBACK, HeaderValue::from(pause_ms));
        }
    }
    if let Some(refuser) = said.refuser {
        announce_limit(headers, &refuser);
    }
    answer
}

/// RFC 9457.
fn make_problem(answer: &mut Response<Bytes>, said: &Said<'_>) {
    *answer.body_mut() = document(said);
    *answer.status_mut() = said.reason.form().status;
    let media_type = HeaderValue::from_static("application/problem+json");
    answer.headers_mut().insert(CONTENT_TYPE, media_type);
}

/// gRPC's own form of an answer without a message: the status stands in the only head.
fn make_trailers_only(answer: &mut Response<Bytes>, form: &Form) {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(
        GRPC_STATUS,
        HeaderValue::from_static(grpc_status(form.status)),
    );
    headers.insert(GRPC_MESSAGE, HeaderValue::from_static(form.name));
}

/// What ends a gRPC answer that is cut: its caller knows nothing of a missing end.
pub(crate) fn grpc_end(reason: Reason) -> HeaderMap {
    let form = reason.form();
    let mut trailers = HeaderMap::new();
    let status = HeaderValue::from_static(grpc_status(form.status));
    trailers.insert(GRPC_STATUS, status);
    trailers.insert(GRPC_MESSAGE, HeaderValue::from_static(form.name));
    trailers
}

/// The gRPC status of an answer of ours.
fn grpc_status(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "8",
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT => "4",
        StatusCode::UNAUTHORIZED => "16",
        StatusCode::FORBIDDEN => "7",
        StatusCode::NOT_FOUND => "12",
        StatusCode::INTERNAL_SERVER_ERROR => "13",
        status if status.is_client_error() => "3",
        // Full, draining, or the dependency failed: UNAVAILABLE.
        _ => "14",
    }
}

/// The fields that every answer of ours has, a fallback's too.
pub(crate) fn mark(headers: &mut HeaderMap, said: &Said<'_>) {
    headers.insert(REASON, HeaderValue::from_static(said.reason.form().name));
    headers.insert(REQUEST_ID, said.request_id.header());
    if let Some(refuser) = said.refuser
        && let Ok(key) = HeaderValue::from_str(refuser.key)
    {
        headers.insert(COMPARTMENT, key);
    }
    // HTTP/2 ends connections by GOAWAY and forbids the field.
    if said.reason.closes_connection() && said.version < Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// RFC 9457. Every part is either fixed, a checked name, or an id of ours: nothing to escape.
fn document(said: &Said<'_>) -> Bytes {
    let form = said.reason.form();
    let mut out = Vec::with_capacity(320);
    out.extend_from_slice(form.document.as_bytes());
    if let Some(refuser) = said.refuser {
        out.extend_from_slice(br#","compartment":""#);
        out.extend_from_slice(refuser.key.as_bytes());
        out.push(b'"');
    }
    if let Some(detail) = said.detail {
        out.extend_from_slice(br#","detail":""#);
        out.extend_from_slice(detail.as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(br#","request_id":""#);
    out.extend_from_slice(said.request_id.as_bytes());
    out.extend_from_slice(b"\"}\n");
    Bytes::from(out)
}

/// The time in which a slot comes free, rounded up, plus a random part, so that a herd that was
/// refused together does not come back together.
fn retry_after_s(drain_us: u64, random: u64) -> u64 {
    let drain_s = drain_us.div_ceil(1_000_000).clamp(1, RETRY_AFTER_S_MAX / 2);
    let spread = RETRY_SPREAD_MIN.max(drain_s);
    drain_s + random % spread
}

/// The same in milliseconds, spread as finely as it is read.
fn pushback_ms(drain_us: u64, random: u64) -> u64 {
    let least_ms = retry_after_s(drain_us, 0).saturating_mul(1_000);
    let spread_ms = least_ms.max(RETRY_SPREAD_MIN * 1_000);
    least_ms.saturating_add(random % spread_ms)
}

fn seconds(number: u64) -> HeaderValue {
    match number {
        1 => HeaderValue::from_static("1"),
        2 => HeaderValue::from_static("2"),
        3 => HeaderValue::from_static("3"),
        number => HeaderValue::from(number),
    }
}

/// What a tenant may hold, in the fields of the IETF's draft.
fn announce_limit(headers: &mut HeaderMap, refuser: &Refuser<'_>) {
    let (name, known) = match refuser.level {
        Level::Tenant => ("\"tenant\"", refuser.limit.map(|limit| (limit, 0))),
        Level::TenantRoute => ("\"tenant-route\"", refuser.limit.map(|limit| (limit, 0))),
        // What is full is everybody's; the caller is told of its own limit alone.
        Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => {
            ("\"tenant\"", refuser.tenant)
        }
    };
    let Some((limit, left)) = known else { return };
    let policy = format!("{name};q={limit};qu=\"concurrent-requests\"");
    let left = format!("{name};r={left}");
    if let (Ok(policy), Ok(left)) = (HeaderValue::try_from(policy), HeaderValue::try_from(left)) {
        headers.insert(RATELIMIT_POLICY, policy);
        headers.insert(RATELIMIT, left);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use compartment::Rejection;

    use super::*;
    use crate::ids::Ids;

    fn refuser(level: Level) -> Refuser<'static> {
        Refuser {
            key: "route/one",
            level,
            limit: Some(3),
            drain_us: 40_000,
            tenant: None,
        }
    }

    fn answer(reason: Reason, refuser: Option<Refuser<'_>>) -> Response<Bytes> {
        let request_id = Ids::new(7).request_id(1);
        let said = Said {
            reason,
            request_id: &request_id,
            refuser,
            detail: None,
            proxy_status: None,
            random: 1,
            version: Version::HTTP_11,
            grpc: false,
        };
        own_answer(&said, HeaderMap::new())
    }

    #[test]
    fn grpc_callers_get_a_status_of_theirs() {
        let request_id = Ids::new(7).request_id(1);
        for (rejection, status) in [(Rejection::TenantFull, "8"), (Rejection::RouteFull, "14")] {
            let said = Said {
                reason: Reason::Rejected(rejection),
                request_id: &request_id,
                refuser: Some(refuser(Level::Route)),
                detail: None,
                proxy_status: None,
                random: 1,
                version: Version::HTTP_2,
                grpc: true,
            };
            let answer = own_answer(&said, HeaderMap::new());
            assert_eq!((answer.status().as_u16(), answer.body().len()), (200, 0));
            assert_eq!(answer.headers()[CONTENT_TYPE], "application/grpc");
            assert_eq!(answer.headers()[GRPC_STATUS], status);
            assert_eq!(answer.headers()[REASON], rejection.as_str());
            assert!(answer.headers().contains_key(RETRY_AFTER));
            assert_eq!(answer.headers()[GRPC_PUSHBACK], "1001");
        }
    }

    #[test]
    fn a_rejection_has_every_field() {
        let full = Reason::Rejected(Rejection::RouteFull);
        let answer = answer(full, Some(refuser(Level::Route)));
        assert_eq!(answer.status(), 503);
        let document: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(document["reason"], "route_full");
        assert_eq!(document["status"], 503);
        assert_eq!(document["compartment"], "route/one");
        assert_eq!(document["type"], "urn:bulkhead:reason:route_full");
        let headers = answer.headers();
        assert_eq!(
            document["request_id"],
            headers[REQUEST_ID].to_str().unwrap()
        );
        assert_eq!(headers[REASON], "route_full");
        assert_eq!(headers[COMPARTMENT], "route/one");
        assert_eq!(headers[CACHE_CONTROL], "no-store");
        assert_eq!(headers[RETRY_AFTER], "2");
        assert!(
            headers[PROXY_STATUS]
                .to_str()
                .unwrap()
                .starts_with("bulkhead; error=")
        );
        assert!(headers.get(RATELIMIT).is_none() && headers.get(CONNECTION).is_none());
    }

    #[test]
    fn every_document_is_json() {
        let own = Reason::all();
        let reasons = own.chain(Rejection::ALL.into_iter().map(Reason::Rejected));
        for reason in reasons {
            let answer = answer(reason, None);
            let document: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!(document["status"], answer.status().as_u16());
            assert_eq!(document["reason"], reason.as_str());
        }
    }

    #[test]
    fn tenants_are_told_their_limit() {
        let full = Reason::Rejected(Rejection::TenantFull);
        let told = answer(full, Some(refuser(Level::Tenant)));
        let headers = told.headers();
        assert_eq!(
            headers[RATELIMIT_POLICY],
            "\"tenant\";q=3;qu=\"concurrent-requests\""
        );
        assert_eq!(headers[RATELIMIT], "\"tenant\";r=0");

        // Refused by a level that everybody shares: of its own limit it is told all the same.
        let shared = Reason::Rejected(Rejection::RouteFull);
        let mut route = refuser(Level::Route);
        assert!(
            !answer(shared, Some(route))
                .headers()
                .contains_key(RATELIMIT)
        );
        route.tenant = Some((50, 48));
        let told = answer(shared, Some(route));
        assert_eq!(told.headers()[RATELIMIT], "\"tenant\";r=48");
    }

    #[test]
    fn pauses_are_spread_grow_and_have_a_bound() {
        let seen = |drain_us| -> BTreeSet<u64> {
            (0..1_000)
                .map(|random| retry_after_s(drain_us, random))
                .collect()
        };
        assert_eq!(seen(0), BTreeSet::from([1, 2, 3]));
        assert_eq!(seen(10_000_000).len(), 10);
        let pushed: BTreeSet<u64> = (0..9_000).map(|random| pushback_ms(0, random)).collect();
        assert_eq!(
            (pushed.first(), pushed.last()),
            (Some(&1_000), Some(&3_999))
        );
        assert!(seen(10_000_000).iter().all(|&s| s >= 10));
        assert!(seen(u64::MAX).iter().all(|&s| s <= RETRY_AFTER_S_MAX));
    }

    #[test]
    fn doubt_closes_the_connection() {
        assert_eq!(
            answer(Reason::BadRequest, None).headers()[CONNECTION],
            "close"
        );
        assert!(
            answer(Reason::NoRoute, None)
                .headers()
                .get(CONNECTION)
                .is_none()
        );
    }
}
