//! Values of a policy as a person reads them.
//!
//! Separate from which values there are and who set them. It must never decide what is shown.

use std::time::Duration;

use compartment::Limit;
use compartment::policy::{Fallback, Policy, Retry, Upstream};

use crate::text;

pub(crate) fn limit(limit: Limit) -> String {
    limit.slots().map_or_else(|| limit.to_string(), text::count)
}

pub(crate) fn not_set() -> String {
    "not set".to_owned()
}

pub(crate) fn time(time: Duration) -> String {
    text::duration(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

pub(crate) fn bytes(n: u64) -> String {
    match n {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{}\u{a0}MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{}\u{a0}KiB", n >> 10),
        n => format!("{}\u{a0}bytes", text::count(n)),
    }
}

pub(crate) fn endpoints(upstream: &Upstream) -> String {
    let all: Vec<String> = upstream
        .endpoints
        .iter()
        .map(|e| match e.secure {
            true => format!("{}:{} by TLS", e.host, e.port),
            false => format!("{}:{}", e.host, e.port),
        })
        .collect();
    all.join(", ")
}

pub(crate) fn retry(retry: &Retry) -> String {
    let budget = retry.budget.map_or_else(String::new, |b| {
        format!(", budget {}", text::millionths(b.0))
    });
    format!(
        "{} attempts in all{budget} over {}",
        retry.attempts,
        time(retry.window)
    )
}

pub(crate) fn fallbacks(policy: &Policy, steps: &[Fallback]) -> String {
    let words: Vec<String> = steps
        .iter()
        .map(|step| match step {
            Fallback::Stale { age_max } => {
                format!("a stored answer, at most {} old", time(*age_max))
            }
            Fallback::Upstream {
                upstream, limit, ..
            } => {
                let upstream = policy.upstreams.get(*upstream);
                let id = upstream.map_or("?", |upstream| upstream.id.as_str());
                format!("upstream {id} with {} slots", self::limit(*limit))
            }
            Fallback::Static { status, .. } => format!("a fixed answer, status {status}"),
        })
        .collect();
    if words.is_empty() {
        "none: the caller gets the error".to_owned()
    } else {
        words.join(", then ")
    }
}
