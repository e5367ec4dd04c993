//! When a request is sent once more.
//!
//! Separate because sending twice is the one thing that a gateway can do wrong for good: the rules
//! stand together, and all of them must agree. It must never decide on an answer of which a byte
//! was passed on.

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

use crate::attempt::{Attempts, Fault, Reply};
use crate::live_policy::LiveRetry;
use crate::request_body::{Pump, RequestBody};

/// The first pause before another attempt; it doubles, and half of it is random.
const PAUSE_US: u64 = 10_000;
/// Longest pause before another attempt.
const PAUSE_US_MAX: u64 = 250_000;

/// The head of a request, to be sent as often as it is tried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
}

impl Outgoing {
    fn with(self, body: RequestBody) -> http::Request<RequestBody> {
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

/// The terms of this request's route, if the request may be repeated at all.
pub(crate) fn terms<'a>(
    retry: Option<&'a LiveRetry>,
    method: &Method,
    headers: &HeaderMap,
) -> Option<&'a LiveRetry> {
    let retry = retry.filter(|retry| retry.attempts > 1)?;
    let safe = matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    let named = retry
        .idempotency_header
        .as_ref()
        .is_some_and(|name| headers.contains_key(name));
    (safe || named).then_some(retry)
}

/// Sends the request until there is an answer to pass on, or no further attempt is allowed.
pub(crate) async fn run(
    attempts: &mut Attempts<'_>,
    outgoing: &mut Outgoing,
    terms: Option<&LiveRetry>,
) -> Result<Reply, Fault> {
    let most = terms.map_or(1, |terms| terms.attempts);
    for made in 1..=most {
        let last = made == most;
        let head = if last {
            std::mem::take(outgoing)
        } else {
            outgoing.clone()
        };
        attempts.set_request(head.with(body(attempts.pump.as_ref())));
        let result = attempts.attempt().await;
        let Some(terms) = terms else { return result };
        let repeat = !last && asks_for_repeat(terms, &result) && can_repeat(attempts);
        let now_us = attempts.core.now.read_us();
        if !repeat || !terms.budget.try_retry(now_us) {
            if result
                .as_ref()
                .is_ok_and(|reply| !reply.head.status().is_server_error())
            {
                terms.budget.succeed(now_us);
            }
            return result;
        }
        attempts.will_repeat(now_us);
        // The answer that is not passed on, and its connection, go before the next attempt.
        drop(result);
        attempts.core.outcomes().count_retry();
        let pause_us = pause_us(made, attempts.core.ids.next());
        attempts.back_off(pause_us).await?;
        if let Some(pump) = &attempts.pump {
            pump.rewind();
        }
    }
    // The last attempt always returns, and a policy's `attempts` is at least one.
    Err(Fault::Reset)
}

fn body(pump: Option<&std::rc::Rc<Pump>>) -> RequestBody {
    pump.map_or(RequestBody::Empty, |pump| {
        RequestBody::Pumped(std::rc::Rc::clone(pump))
    })
}

fn can_repeat(attempts: &Attempts<'_>) -> bool {
    attempts.pump.as_ref().is_none_or(|pump| pump.can_repeat())
}

fn asks_for_repeat(terms: &LiveRetry, result: &Result<Reply, Fault>) -> bool {
    let on = &terms.on;
    match result {
        Ok(reply) => {
            // An upstream that says when to come back means everybody.
            let is_final = reply.head.headers().contains_key(RETRY_AFTER);
            !is_final
                && match reply.head.status() {
                    StatusCode::BAD_GATEWAY => on.status_502,
                    StatusCode::SERVICE_UNAVAILABLE => on.status_503,
                    StatusCode::GATEWAY_TIMEOUT => on.status_504,
                    _ => false,
                }
        }
        Err(Fault::Connect(_)) => on.connect,
        Err(Fault::Reset) => on.reset,
        Err(Fault::Attempt) => on.timeout,
        Err(Fault::Protocol | Fault::Bound(_) | Fault::BodyIdle | Fault::Client(_)) => false,
    }
}

fn pause_us(made: u32, random: u64) -> u64 {
    let doubled = PAUSE_US.saturating_mul(1 << made.min(16).saturating_sub(1));
    let whole = doubled.min(PAUSE_US_MAX);
    whole / 2 + random % (whole / 2)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use compartment::RetryBudget;
    use compartment::policy::{Millionths, RetryOn};
    use http::HeaderName;

    use super::*;
    use crate::upstream::Unreached;

    fn retry(attempts: u32) -> LiveRetry {
        LiveRetry {
            attempts,
            on: RetryOn {
                connect: true,
                reset: true,
                status_502: true,
                status_503: true,
                status_504: true,
                timeout: false,
            },
            idempotency_header: Some(HeaderName::from_static("idempotency-key")),
            budget: Arc::new(RetryBudget::new(Millionths(100_000), 10_000_000)),
        }
    }

    #[test]
    fn only_what_is_safe_to_repeat_is_repeated() {
        let (none, one, two) = (None, Some(retry(1)), Some(retry(2)));
        let mut keyed = HeaderMap::new();
        keyed.insert("idempotency-key", "k".parse().unwrap());
        let plain = HeaderMap::new();
        for (method, headers, retry, want) in [
            (Method::GET, &plain, &two, true),
            (Method::PUT, &plain, &two, true),
            (Method::DELETE, &plain, &two, true),
            (Method::OPTIONS, &plain, &two, true),
            (Method::HEAD, &plain, &two, true),
            (Method::POST, &plain, &two, false),
            (Method::PATCH, &plain, &two, false),
            (Method::POST, &keyed, &two, true),
            (Method::GET, &plain, &one, false),
            (Method::GET, &plain, &none, false),
        ] {
            let found = terms(retry.as_ref(), &method, headers).is_some();
            assert_eq!(found, want, "{method} {headers:?}");
        }
    }

    #[test]
    fn what_asks_for_a_repeat() {
        let terms = retry(2);
        for (fault, want) in [
            (Fault::Connect(Unreached::Refused), true),
            (Fault::Reset, true),
            (Fault::Attempt, false),
            (Fault::Protocol, false),
            (Fault::Bound(crate::reason::Reason::TotalTimeout), false),
        ] {
            assert_eq!(asks_for_repeat(&terms, &Err(fault)), want, "{fault:?}");
        }
    }

    #[test]
    fn pauses_grow_are_spread_and_have_a_bound() {
        let spread: std::collections::BTreeSet<u64> =
            (0..50).map(|n| pause_us(1, n * 97)).collect();
        assert!(spread.len() > 40 && spread.iter().all(|&us| (5_000..10_000).contains(&us)));
        assert!(pause_us(2, 0) >= 10_000);
        assert!(pause_us(u32::MAX, u64::MAX) <= PAUSE_US_MAX);
    }
}
