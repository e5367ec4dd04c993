//! The times of one route against each other: which bound can run out, and which never does.
//!
//! Separate from what has no effect because each of these is a sum of times. Of several bounds the
//! first to run out ends the exchange. It must never judge a time by assumed traffic.

use compartment::policy::{Path, Route};

use super::shape::warning;
use super::{Finding, Severity};
use crate::sizing::{Exact, time};

/// A wait is small up to this part of an attempt (L7).
const WAIT_PARTS: u32 = 4;

/// Judges one route.
pub(super) fn lint(path: &Path, route: &Route, findings: &mut Vec<Finding>) {
    let (timeout, compartment) = (&route.timeout, &route.compartment);
    let attempt = Exact::seconds(timeout.attempt);
    let total = Exact::seconds(timeout.total);
    let wait = Exact::seconds(compartment.queue_wait);
    if attempt > total {
        let message = format!(
            "attempt {} never runs out: total {} does",
            time(attempt),
            time(total)
        );
        let at = path.key("timeout").key("attempt");
        findings.push(warning("bounds", at, message));
    }
    let hold = Exact::seconds(compartment.hold_max);
    if hold < attempt {
        let message = format!(
            "a hold of at most {} ends every attempt before its {}",
            time(hold),
            time(attempt)
        );
        let at = path.key("compartment").key("max_hold");
        findings.push(warning("bounds", at, message));
    }
    inside(path, route, findings);
    if compartment.queue > 0 {
        waiting(path, wait, attempt, total, findings);
    }
    if wait <= total && attempt <= total {
        whole(path, route, findings);
    }
}

/// A wait that total always ends cannot run out by itself; L7: a wait is small beside the call.
fn waiting(path: &Path, wait: Exact, attempt: Exact, total: Exact, findings: &mut Vec<Finding>) {
    let path = path.key("compartment").key("queue_wait");
    if wait > total {
        findings.push(Finding {
            rule: "bounds",
            severity: Severity::Error,
            path,
            message: format!(
                "a wait of {} never runs out: total {} ends it, and leaves no time for the call",
                time(wait),
                time(total)
            ),
        });
    } else if wait.times(Exact::whole(WAIT_PARTS.into())) > attempt {
        let quarter = attempt.over(Exact::whole(WAIT_PARTS.into()));
        let message = format!(
            "a wait of {} is more than a quarter of attempt {} ({}): it hides an overload",
            time(wait),
            time(attempt),
            time(quarter)
        );
        findings.push(warning("L7", path, message));
    }
}

fn attempts_of(route: &Route) -> u32 {
    route.retry.as_ref().map_or(1, |retry| retry.attempts)
}

/// All attempts, each to its end.
fn attempts_time(route: &Route) -> Exact {
    let attempt = Exact::seconds(route.timeout.attempt);
    Exact::whole(attempts_of(route).into()).times(attempt)
}

/// The wait and all attempts, each to its end.
pub(super) fn longest(route: &Route) -> Exact {
    let wait = match route.compartment.queue > 0 {
        true => Exact::seconds(route.compartment.queue_wait),
        false => Exact::ZERO,
    };
    wait.plus(attempts_time(route))
}

/// L18: a retry runs inside the permit, so the permit lasts for all attempts.
fn inside(path: &Path, route: &Route, findings: &mut Vec<Finding>) {
    let attempt = Exact::seconds(route.timeout.attempt);
    let hold = Exact::seconds(route.compartment.hold_max);
    let all = attempts_time(route).min(Exact::seconds(route.timeout.total));
    if attempts_of(route) < 2 || hold < attempt || hold >= all {
        return;
    }
    let message = format!(
        "retries run inside the permit: {} x attempt {}, at most total {} = {}; a hold of at most \
         {} ends them before: {} would not",
        attempts_of(route),
        time(attempt),
        time(Exact::seconds(route.timeout.total)),
        time(all),
        time(hold),
        time(all)
    );
    let at = path.key("compartment").key("max_hold");
    findings.push(warning("L18", at, message));
}

/// L8: the wait and every attempt fit into the whole.
fn whole(path: &Path, route: &Route, findings: &mut Vec<Finding>) {
    let attempts = attempts_of(route);
    let queued = route.compartment.queue > 0;
    let wait = Exact::seconds(route.compartment.queue_wait);
    let attempt = Exact::seconds(route.timeout.attempt);
    let total = Exact::seconds(route.timeout.total);
    let longest = longest(route);
    if longest <= total {
        return;
    }
    let wait = match queued {
        true => format!("{} of waiting + ", time(wait)),
        false => String::new(),
    };
    let message = format!(
        "{wait}{attempts} x attempt {} = {}; total {} ends the exchange before: {} would not",
        time(attempt),
        time(longest),
        time(total),
        time(longest)
    );
    findings.push(warning("L8", path.key("timeout").key("total"), message));
}
