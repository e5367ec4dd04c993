//! When a request is sent once more.
//!
//! Separate because sending twice is the one thing that a gateway can do wrong for good: the rules
//! stand together, and all of them must agree. It must never decide on an answer of which a byte
//! was passed on.

use compartment::RetryRefusal;
use compartment::policy::RetryOn;
use http::header::{RETRY_AFTER, TE};
use http::{HeaderMap, Method, StatusCode};

use crate::attempt::{Attempts, Fault, Reply};
use crate::live_policy::LiveRetry;
use crate::request_body::{Pump, RequestBody};
use crate::upstream;

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
    /// Its client reads trailers; known where another upstream may come to be asked.
    pub(crate) reads_trailers: bool,
}

impl Outgoing {
    /// What it says of trailers, which HTTP/2 alone can bring.
    pub(crate) fn speaks(&mut self, http2: bool) {
        self.headers.remove(TE);
        if http2 && self.reads_trailers {
            upstream::accept_trailers(&mut self.headers);
        }
    }

    fn with(self, body: RequestBody) -> http::Request<RequestBody> {
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

/// Twice is as good as once: by its method, or by its key.
pub(crate) fn is_safe(retry: Option<&LiveRetry>, method: &Method, headers: &HeaderMap) -> bool {
    let safe = matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    let key = retry.and_then(|retry| retry.idempotency_header.as_ref());
    safe || key.is_some_and(|name| headers.contains_key(name))
}

/// Whether, and how, this request may be sent again.
#[derive(Debug)]
pub(crate) struct Terms<'a> {
    /// `None`: its route does not repeat.
    retry: Option<&'a LiveRetry>,
    /// By its method, or by its key.
    is_safe: bool,
}

impl<'a> Terms<'a> {
    /// Sent once, whatever comes of it.
    pub(crate) const ONCE: Self = Self {
        retry: None,
        is_safe: false,
    };

    pub(crate) fn of(retry: Option<&'a LiveRetry>, method: &Method, headers: &HeaderMap) -> Self {
        let retry = retry.filter(|retry| retry.attempts > 1);
        let is_safe = is_safe(retry, method, headers);
        Self { retry, is_safe }
    }

    /// The body must be kept.
    pub(crate) fn may_repeat(&self) -> bool {
        self.retry.is_some() && self.is_safe
    }

    fn attempts(&self) -> u32 {
        match self.retry {
            Some(retry) if self.is_safe => retry.attempts,
            Some(_) | None => 1,
        }
    }
}

/// What an attempt came to, to a route that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Good,
    /// The client's doing: nobody asks why it was not repeated.
    Over,
    Failed,
    Refused(RetryRefusal),
}

/// Sends the request until there is an answer to pass on, or no further attempt is allowed.
pub(crate) async fn run(
    attempts: &mut Attempts<'_>,
    outgoing: &mut Outgoing,
    terms: &Terms<'_>,
) -> Result<Reply, Fault> {
    let most = terms.attempts();
    let mut under_way = None;
    for made in 1..=most {
        let head = if made == most {
            std::mem::take(outgoing)
        } else {
            outgoing.clone()
        };
        attempts.set_request(head.with(body(attempts.pump.as_ref())));
        let result = attempts.attempt().await;
        let Some(retry) = terms.retry else {
            return result;
        };
        // The repeated attempt, if it was one, is over.
        drop(under_way.take());
        let mut pause_us = 0;
        let verdict = verdict(&retry.on, &result);
        let now_us = match verdict {
            // A success is not worth a reading of its own.
            Verdict::Good => attempts.core.now.last_us(),
            Verdict::Over | Verdict::Failed | Verdict::Refused(_) => attempts.core.now.read_us(),
        };
        let verdict = match verdict {
            Verdict::Failed => {
                pause_us = self::pause_us(made, attempts.core.ids.next());
                let at_us = now_us.saturating_add(pause_us);
                match may_repeat(attempts, terms, at_us) {
                    Err(why) => Verdict::Refused(why),
                    Ok(()) if made == most => Verdict::Refused(RetryRefusal::Attempts),
                    Ok(()) => {
                        let in_flight = attempts.lane.0.route.passage.route().in_flight();
                        // Asked last: asking spends it.
                        under_way = retry.budget.try_retry(now_us, in_flight);
                        match under_way {
                            Some(_) => Verdict::Failed,
                            None => Verdict::Refused(RetryRefusal::Budget),
                        }
                    }
                }
            }
            other @ (Verdict::Good | Verdict::Over | Verdict::Refused(_)) => other,
        };
        match verdict {
            Verdict::Good => retry.budget.succeed(now_us),
            Verdict::Over | Verdict::Failed => {}
            Verdict::Refused(why) => retry.counts.refuse(why),
        }
        if verdict != Verdict::Failed {
            return result;
        }
        attempts.will_repeat(now_us);
        // The answer that is not passed on, and its connection, go before the next attempt.
        drop(result);
        retry.counts.retry();
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

/// Whether this request may be sent again at `at_us`, whatever the route's budget.
fn may_repeat(attempts: &Attempts<'_>, terms: &Terms<'_>, at_us: u64) -> Result<(), RetryRefusal> {
    if !terms.is_safe {
        return Err(RetryRefusal::Method);
    }
    if attempts
        .pump
        .as_ref()
        .is_some_and(|pump| !pump.can_repeat())
    {
        return Err(RetryRefusal::Body);
    }
    if !attempts.leave.is_good() {
        return Err(RetryRefusal::BreakerOpen);
    }
    // An attempt that would be cut before it could be answered costs the upstream for nothing.
    let route = &attempts.lane.0.route;
    let needed_us = route.passage.route().mean_hold_us().min(route.attempt_us);
    let (first_us, _) = attempts.bounds.first();
    if at_us.saturating_add(needed_us) >= first_us {
        return Err(RetryRefusal::NoTime);
    }
    Ok(())
}

fn verdict(on: &RetryOn, result: &Result<Reply, Fault>) -> Verdict {
    let named = match result {
        Ok(reply) => {
            let named = match reply.head.status() {
                StatusCode::BAD_GATEWAY => on.status_502,
                StatusCode::SERVICE_UNAVAILABLE => on.status_503,
                StatusCode::GATEWAY_TIMEOUT => on.status_504,
                status if status.is_server_error() => false,
                _ => return Verdict::Good,
            };
            // An upstream that says when to come back means everybody.
            if named && reply.head.headers().contains_key(RETRY_AFTER) {
                return Verdict::Refused(RetryRefusal::RetryAfter);
            }
            named
        }
        Err(Fault::Connect(_)) => on.connect,
        Err(Fault::Reset) => on.reset,
        Err(Fault::Attempt) => on.timeout,
        Err(Fault::Protocol) => false,
        Err(Fault::Bound(_)) => return Verdict::Refused(RetryRefusal::NoTime),
        Err(Fault::BodyIdle | Fault::Client(_)) => return Verdict::Over,
    };
    match named {
        true => Verdict::Failed,
        false => Verdict::Refused(RetryRefusal::Cause),
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

    use compartment::policy::Millionths;
    use compartment::{RetryBudget, RetryCounts};
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
            counts: Arc::new(RetryCounts::default()),
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
            let found = Terms::of(retry.as_ref(), &method, headers).may_repeat();
            assert_eq!(found, want, "{method} {headers:?}");
        }
    }

    #[test]
    fn what_asks_for_a_repeat() {
        let on = retry(2).on;
        let refused = Verdict::Refused;
        for (fault, want) in [
            (Fault::Connect(Unreached::Refused), Verdict::Failed),
            (Fault::Reset, Verdict::Failed),
            (Fault::Attempt, refused(RetryRefusal::Cause)),
            (Fault::Protocol, refused(RetryRefusal::Cause)),
            (
                Fault::Bound(crate::reason::Reason::TotalTimeout),
                refused(RetryRefusal::NoTime),
            ),
            (Fault::BodyIdle, Verdict::Over),
        ] {
            assert_eq!(verdict(&on, &Err(fault)), want, "{fault:?}");
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
