//! L18 and L20: what stands in for an upstream, against what it stands in for.
//!
//! Separate because a step has another route's dependency for its own, so that each rule looks at
//! two upstreams. What is refused is what nobody can enter; an odd step must never be.

use std::collections::BTreeMap;
use std::time::Duration;

use compartment::Limit;
use compartment::policy::{Fallback, Path, Policy, Route, Upstream};

use super::shape::{sum_of, warning};
use super::{Finding, Severity, bounds};
use crate::sizing::{Exact, in_flight, time};

/// A step that asks another dependency.
#[derive(Clone, Copy)]
struct Step<'a> {
    own: &'a Upstream,
    other: &'a Upstream,
    index: usize,
    limit: Limit,
    timeout: Exact,
}

/// Judges one route.
pub(super) fn lint(path: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let Some(own) = policy.upstreams.get(route.upstream) else {
        return;
    };
    for (at, step) in route.fallback.iter().enumerate() {
        let here = path.key("fallback").index(at);
        match step {
            Fallback::Stale { age_max } => {
                findings.extend(stale(here.key("max_age"), own, route, *age_max));
            }
            Fallback::Upstream {
                upstream,
                limit,
                timeout,
            } => {
                let Some(other) = policy.upstreams.get(*upstream) else {
                    continue;
                };
                let step = Step {
                    own,
                    other,
                    index: *upstream,
                    limit: *limit,
                    timeout: Exact::seconds(*timeout),
                };
                reach(&here, policy, step, findings);
                findings.extend(capacity(&here, policy, route, step));
                findings.extend(left(&here, route, step));
                findings.extend(same(&here, step));
                findings.extend(circle(&here, policy, route, step));
            }
            Fallback::Static { .. } => {}
        }
    }
}

/// The bound on a stored answer's age, against the times in which no new one is stored.
fn stale(path: Path, own: &Upstream, route: &Route, age_max: Duration) -> Option<Finding> {
    let age = Exact::seconds(age_max);
    let given_up = bounds::longest(route).min(Exact::seconds(route.timeout.total));
    if age <= given_up {
        let message = format!(
            "an answer stored before a call that hangs is {} old when the call is given up, past \
             {}: nothing is left to answer with; above {} there is",
            time(given_up),
            time(age),
            time(given_up)
        );
        return Some(warning("stale", path, message));
    }
    let rules = own.breaker?;
    let needed = given_up.plus(Exact::seconds(rules.open));
    (age < needed).then(|| Finding {
        rule: "stale",
        severity: Severity::Info,
        path,
        message: format!(
            "nothing is stored for {} until a hang is given up + {} of an open breaker = {}; after \
             {} the next step answers: {} would last",
            time(given_up),
            time(Exact::seconds(rules.open)),
            time(needed),
            time(age),
            time(needed)
        ),
    })
}

/// Its slots are spare ones, and the other upstream's.
fn reach(here: &Path, policy: &Policy, step: Step<'_>, findings: &mut Vec<Finding>) {
    let here = here.key("limit");
    let id = step.other.id.as_str();
    let spare = policy.gateway.spare;
    if spare == 0 {
        findings.push(Finding {
            rule: "L12",
            severity: Severity::Error,
            path: here,
            message: "nothing gets in: its slots are spare ones, and the gateway has 0".to_owned(),
        });
        return;
    }
    if step.other.limit.slots() == Some(0) {
        let message = format!("never answers: upstreams.{id}.limit = 0 closes what it asks");
        findings.push(warning("effect", here, message));
        return;
    }
    let Some(limit) = step.limit.slots() else {
        return;
    };
    if limit > spare {
        let message = format!("limit {limit} is never reached: there are {spare} spare slots");
        findings.push(warning("L12", here.clone(), message));
    }
    if let Some(cap) = step.other.limit.slots().filter(|cap| limit > *cap) {
        let message = format!("limit {limit} is never reached: upstreams.{id}.limit {cap} wins");
        findings.push(warning("L14", here, message));
    }
}

/// L20: when its own upstream fails, all that is assumed comes here.
fn capacity(here: &Path, policy: &Policy, route: &Route, step: Step<'_>) -> Option<Finding> {
    let rate = Exact::rate(route.compartment.assume?.rate_milli);
    let limit = Exact::whole(step.limit.slots()?.into());
    // What routes assume of the other upstream; without a word, its timeout.
    let known = policy
        .routes
        .iter()
        .filter(|one| one.upstream == step.index)
        .filter_map(|one| one.compartment.assume)
        .map(|assume| Exact::seconds(assume.p99))
        .max()
        .filter(|p99| *p99 < step.timeout);
    let hold = known.unwrap_or(step.timeout);
    let need = in_flight(rate, hold);
    if limit >= need {
        return None;
    }
    let (what, or) = match known {
        Some(_) => ("p99", String::new()),
        None => (
            "timeout",
            format!(", or a timeout of at most {}", time(limit.over(rate))),
        ),
    };
    let message = format!(
        "when {} fails, {rate}/s come here x {what} {} = {need} in flight; limit {limit} is below \
         it: {} would hold them{or}",
        step.own.id.as_str(),
        time(hold),
        need.ceil()
    );
    Some(warning("L20", here.key("limit"), message))
}

/// L8: what the attempts leave of the total is enough for it.
fn left(here: &Path, route: &Route, step: Step<'_>) -> Option<Finding> {
    let total = Exact::seconds(route.timeout.total);
    let before = bounds::longest(route);
    let left = total.minus(before);
    (left < step.timeout).then(|| {
        let needed = before.plus(step.timeout);
        let message = format!(
            "after {} of waiting and attempts, total {} leaves it {} of its {}: a total of {} \
             would leave all",
            time(before),
            time(total),
            time(left),
            time(step.timeout),
            time(needed)
        );
        warning("L8", here.key("timeout"), message)
    })
}

/// L18: the same server under another name is a retry outside the permit.
fn same(here: &Path, step: Step<'_>) -> Option<Finding> {
    let shared = step.other.endpoints.iter().find(|one| {
        let mut own = step.own.endpoints.iter();
        own.any(|own| own.authority() == one.authority())
    })?;
    let message = format!(
        "upstreams.{} is {}, and so is upstreams.{}: asking it again is a retry outside the \
         permit, the breaker and the budget; retry.attempts is one inside",
        step.other.id,
        shared.authority(),
        step.own.id
    );
    Some(warning("L18", here.key("upstream"), message))
}

/// Two upstreams that stand in for each other.
fn circle(here: &Path, policy: &Policy, route: &Route, step: Step<'_>) -> Option<Finding> {
    let back = policy.routes.iter().find(|one| {
        one.upstream == step.index && one.fallback_upstream() == Some(route.upstream)
    })?;
    let message = format!(
        "{} and {} stand in for each other (route {}): when both are slow, each gets the other's \
         requests as well; no request goes round, but neither is spared",
        step.own.id, step.other.id, back.id
    );
    Some(warning("L20", here.key("upstream"), message))
}

/// L20: all steps that ask one upstream, against its own limit, which wins.
pub(super) fn lint_upstreams(policy: &Policy, findings: &mut Vec<Finding>) {
    let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for route in &policy.routes {
        let limit = route.fallback_limit().and_then(Limit::slots);
        if let Some((upstream, limit)) = route.fallback_upstream().zip(limit) {
            asked.entry(upstream).or_default().push(limit);
        }
    }
    for (index, limits) in asked {
        let Some(upstream) = policy.upstreams.get(index) else {
            continue;
        };
        let cap = upstream.limit.slots().filter(|cap| *cap > 0);
        let sum: u64 = limits.iter().copied().map(u64::from).sum();
        let Some(cap) = cap.filter(|cap| limits.len() > 1 && sum > u64::from(*cap)) else {
            continue;
        };
        let message = format!(
            "fallbacks may ask it {} = {sum} times at once; its limit {cap} wins: {sum} would \
             take them",
            sum_of(&limits)
        );
        let path = Path::root().key("upstreams").key(upstream.id.as_str());
        findings.push(warning("L20", path.key("limit"), message));
    }
}
