//! L9 to L11 and L19: the breaker of an upstream against the traffic that its routes assume and the
//! slots that lead to it.
//!
//! Separate because a breaker belongs to an upstream, so that its sums are over routes. It must
//! never refuse a policy for a limit that is low: lowering one in an incident must stay one change.

use compartment::Mode;
use compartment::breaker::{BREAKER_THIN_CALLS_MIN, BREAKER_WINDOW_US};
use compartment::policy::{BreakerRules, Millionths, Path, Policy, Route};

use super::shape::warning;
use super::{Finding, Severity};
use crate::sizing::{Exact, time};

/// The longest time that a policy may name.
const TIME_MAX_S: u128 = 24 * 3600;
/// In these parts the rates of several routes are added, so that no fraction outgrows its numbers.
const PARTS: u128 = 1_000_000;

/// A route's calls to the upstream.
#[derive(Clone, Copy)]
struct Calls {
    rate: Exact,
    timeout: Exact,
    /// How many time out each second while the upstream hangs.
    fails: Exact,
}

/// Judges the breaker of each upstream.
pub(super) fn lint(policy: &Policy, findings: &mut Vec<Finding>) {
    for (index, upstream) in policy.upstreams.iter().enumerate() {
        let Some(rules) = upstream.breaker else {
            continue;
        };
        let id = upstream.id.as_str();
        let path = Path::root().key("upstreams").key(id).key("breaker");
        if let Some(calls) = assumed(policy, index) {
            findings.push(trips(&path, rules, &calls));
            findings.extend(window(&path, rules, &calls));
        }
        findings.extend(probes(&path, rules, policy, index));
        if rules.count_rejections {
            let message = format!(
                "refusals by limits count as failures of {id}: {} of {} calls refused in a burst \
                 open it for {}, though {id} answers; count_rejections = false would not",
                failures(rules),
                rules.calls,
                time(Exact::seconds(rules.open))
            );
            findings.push(warning("L19", path.key("count_rejections"), message));
        }
    }
}

/// The calls of all routes over an upstream; `None` where one does not say, or none is open.
fn assumed(policy: &Policy, upstream: usize) -> Option<Vec<Calls>> {
    let routes = policy.routes.iter().filter(|one| one.upstream == upstream);
    let mut calls: Vec<Calls> = routes
        .filter(|route| slots(route) != Some(0))
        .map(calls_of)
        .collect::<Option<_>>()?;
    if let [_, _, ..] = calls.as_slice() {
        for one in &mut calls {
            let parts = one.fails.times(Exact::whole(PARTS)).floor();
            one.fails = Exact::ratio(parts, PARTS);
        }
    }
    calls.sort_by_key(|one| one.timeout);
    (!calls.is_empty()).then_some(calls)
}

fn calls_of(route: &Route) -> Option<Calls> {
    let rate = Exact::rate(route.compartment.assume?.rate_milli);
    let timeout = Exact::seconds(route.timeout.attempt.min(route.timeout.total));
    // Every slot is held for the whole timeout, so that no more than this many begin.
    let most = slots(route).map(|slots| Exact::whole(slots.into()).over(timeout));
    Some(Calls {
        rate,
        timeout,
        fails: most.map_or(rate, |most| most.min(rate)),
    })
}

/// The slots that bound a route; `None` while nothing does.
fn slots(route: &Route) -> Option<u32> {
    let own = &route.compartment;
    let limit = own.limit.slots();
    match own.mode {
        Mode::Enforce => limit,
        Mode::Shadow | Mode::Off => None,
    }
}

/// How many failures of the count window open it.
fn failures(rules: BreakerRules) -> u64 {
    let Millionths(share) = rules.failure_rate;
    let all = u64::from(rules.calls).saturating_mul(share.into());
    all.div_ceil(Millionths::ONE.0.into()).max(1)
}

/// When the `n`th failure is there, from the moment that the upstream hangs. The failures of each
/// route begin with its timeout.
fn nth(calls: &[Calls], n: u64) -> Exact {
    let (mut rate, mut before, mut at) = (Exact::ZERO, Exact::ZERO, Exact::ZERO);
    for (index, one) in calls.iter().enumerate() {
        rate = rate.plus(one.fails);
        before = before.plus(one.fails.times(one.timeout));
        at = Exact::whole(n.into()).plus(before).over(rate);
        if calls.get(index + 1).is_none_or(|next| at <= next.timeout) {
            break;
        }
    }
    at
}

/// When a total hang opens it: by the count, or by the rate over time where calls are few.
enum Trip {
    ByCount(Exact),
    ByTime(Exact),
    Never,
}

fn trip(rules: BreakerRules, calls: &[Calls]) -> Trip {
    let memory = micros(BREAKER_WINDOW_US);
    let first = nth(calls, 1);
    let remembered = |at: Exact| at.minus(first) <= memory;
    let by_count = Some(nth(calls, failures(rules))).filter(|at| remembered(*at));
    // The oldest failure only says when the others began.
    let thin = Some(nth(calls, BREAKER_THIN_CALLS_MIN.saturating_add(1)));
    let by_time = thin
        .filter(|at| u64::from(rules.calls) > BREAKER_THIN_CALLS_MIN && remembered(*at))
        .map(|at| at.max(first.plus(micros(BREAKER_WINDOW_US / 2))));
    match (by_count, by_time) {
        (Some(count), Some(over_time)) if over_time < count => Trip::ByTime(over_time),
        (Some(count), _) => Trip::ByCount(count),
        (None, Some(over_time)) => Trip::ByTime(over_time),
        (None, None) => Trip::Never,
    }
}

fn micros(us: u64) -> Exact {
    Exact::ratio(us.into(), 1_000_000)
}

/// L9: how long a total hang goes on before it opens.
fn trips(path: &Path, rules: BreakerRules, calls: &[Calls]) -> Finding {
    let fails = calls
        .iter()
        .fold(Exact::ZERO, |sum, one| sum.plus(one.fails));
    let failed = failures(rules);
    let took = match calls {
        [one] => format!("{} + {failed} / {fails}/s", time(one.timeout)),
        _ => format!("{failed} failures of {} routes at {fails}/s", calls.len()),
    };
    let (severity, path, message) = match trip(rules, calls) {
        Trip::ByCount(at) => (
            Severity::Info,
            path.clone(),
            format!("a total hang opens it after {took} = {}", time(at)),
        ),
        Trip::ByTime(at) => (
            Severity::Info,
            path.clone(),
            format!(
                "a total hang opens it after {}, by the failures over time: by the count it were \
                 {took} = {}",
                time(at),
                time(nth(calls, failed))
            ),
        ),
        Trip::Never => never(path, rules, calls, (fails, &took)),
    };
    Finding {
        rule: "L9",
        severity,
        path,
        message,
    }
}

/// What is forgotten before it is enough.
fn never(
    path: &Path,
    rules: BreakerRules,
    calls: &[Calls],
    (fails, took): (Exact, &str),
) -> (Severity, Path, String) {
    let memory = micros(BREAKER_WINDOW_US);
    let unbound: Vec<Calls> = calls
        .iter()
        .map(|one| Calls {
            fails: one.rate,
            ..*one
        })
        .collect();
    let severity = match trip(rules, &unbound) {
        // Not even at the whole rate that is assumed.
        Trip::Never => Severity::Error,
        Trip::ByCount(_) | Trip::ByTime(_) => Severity::Warning,
    };
    let kept = fails.times(memory).next_whole();
    let most = Exact::whole(kept)
        .over(Exact::share(rules.failure_rate))
        .floor();
    let message = format!(
        "never opens when all calls hang: {took} = {}, and failures are forgotten after {}; at \
         most {most} calls would do",
        time(nth(calls, failures(rules))),
        time(memory)
    );
    (severity, path.key("calls"), message)
}

/// L10: the count window is shorter than the time that it stays open.
fn window(path: &Path, rules: BreakerRules, calls: &[Calls]) -> Option<Finding> {
    let rate = calls
        .iter()
        .fold(Exact::ZERO, |sum, one| sum.plus(one.rate));
    let open = Exact::seconds(rules.open);
    let span = Exact::whole(rules.calls.into()).over(rate);
    if span <= open {
        return None;
    }
    let fewer = match rate.times(open).floor() {
        0 => None,
        n => Some(format!("at most {n} calls")),
    };
    let longer = (span <= Exact::whole(TIME_MAX_S)).then(|| format!("open of {}", time(span)));
    let would: Vec<String> = fewer.into_iter().chain(longer).collect();
    let would = match would.as_slice() {
        [] => "so few calls need no breaker".to_owned(),
        values => format!("{} would do", values.join(", or ")),
    };
    let message = format!(
        "judges by {} / {rate}/s = {} of calls, longer than it stays open ({}): {would}",
        rules.calls,
        time(span),
        time(open)
    );
    Some(warning("L10", path.key("calls"), message))
}

/// L11: its probes find slots.
fn probes(path: &Path, rules: BreakerRules, policy: &Policy, upstream: usize) -> Option<Finding> {
    let routes = policy.routes.iter();
    let own = routes
        .clone()
        .filter(|one| one.upstream == upstream)
        .map(slots);
    let steps = routes
        .filter(|one| one.fallback_upstream() == Some(upstream))
        .filter_map(|one| one.fallback_limit().map(compartment::Limit::slots));
    let leading: Option<u64> = own.chain(steps).map(|slots| slots.map(u64::from)).sum();
    let cap = policy.upstreams.get(upstream)?.limit.slots().map(u64::from);
    let slots = match (leading, cap) {
        (Some(leading), Some(cap)) => leading.min(cap),
        (one, other) => one.or(other)?,
    };
    if slots == 0 || u64::from(rules.probes) <= slots {
        return None;
    }
    let refused = match rules.count_rejections {
        true => "a probe that finds none counts as a failure and opens it again",
        false => "it takes longer to close",
    };
    let message = format!(
        "{} probes at once, and {slots} slots lead to it: {refused}; at most {slots} would fit, \
         or limits that add up to {}",
        rules.probes, rules.probes
    );
    Some(warning("L11", path.key("probes"), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousands of odd fractions: no number is outgrown, and the time is that of the whole.
    #[test]
    fn the_sums_of_many_routes_stay_exact() {
        let mut calls: Vec<Calls> = (0_u32..1000)
            .map(|n| {
                let timeout = micros(249_001 + u64::from(n) * 7);
                let fails = Exact::whole((1 + n % 7).into()).over(timeout);
                let parts = fails.times(Exact::whole(PARTS)).floor();
                let fails = Exact::ratio(parts, PARTS);
                Calls {
                    rate: Exact::whole(100),
                    timeout,
                    fails,
                }
            })
            .collect();
        calls.sort_by_key(|one| one.timeout);
        // About 16 failures each millisecond once all time out, from 249 to 256 ms on.
        let (first, last) = (nth(&calls, 1), nth(&calls, 1000));
        assert!(
            first > micros(249_001) && first < micros(250_500),
            "{first}"
        );
        assert!(last > micros(310_000) && last < micros(320_000), "{last}");
    }
}
