//! L1 to L6: a route against what its author assumes of the traffic.
//!
//! Separate because these rules need `assume` and say nothing without it, but for the budget of
//! retries. A closed or unlimited route must never be judged: it has no slots to fill.

use compartment::policy::{Assume, Path, Route};

use super::{Finding, Severity};
use crate::sizing::{Exact, in_flight, time, time_to_fill, worst_case};

/// What the rules reckon with.
struct Traffic {
    rate: Exact,
    p99: Exact,
    attempt: Exact,
    limit: u32,
}

/// Judges one route.
pub(super) fn lint(path: &Path, route: &Route, findings: &mut Vec<Finding>) {
    let limit = route.compartment.limit.slots().filter(|limit| *limit > 0);
    let traffic = route.compartment.assume.zip(limit).map(|(assume, limit)| {
        let Assume { rate_milli, p99 } = assume;
        Traffic {
            rate: Exact::rate(rate_milli),
            p99: Exact::seconds(p99),
            attempt: Exact::seconds(route.timeout.attempt),
            limit,
        }
    });
    if let Some(traffic) = &traffic {
        normal_peak(path, traffic, findings);
        timeout(path, traffic, findings);
    }
    retries(path, route, traffic.as_ref(), findings);
}

/// L1: the limit covers the normal peak.
fn normal_peak(path: &Path, traffic: &Traffic, findings: &mut Vec<Finding>) {
    let Traffic {
        rate, p99, limit, ..
    } = traffic;
    let need = in_flight(*rate, *p99);
    if Exact::whole((*limit).into()) < need {
        findings.push(Finding {
            rule: "L1",
            severity: Severity::Warning,
            path: path.key("compartment").key("limit"),
            message: format!(
                "the normal peak is {rate}/s x {} = {need} in flight; limit {limit} is below it: \
                 {} would cover it",
                time(*p99),
                need.ceil()
            ),
        });
    }
}

/// L2: the timeout is shorter than the time to fill; L4: it does not cut off the healthy tail.
fn timeout(path: &Path, traffic: &Traffic, findings: &mut Vec<Finding>) {
    let Traffic {
        rate,
        p99,
        attempt,
        limit,
    } = traffic;
    let path = path.key("timeout").key("attempt");
    let fill = time_to_fill(*limit, Exact::ZERO, *rate);
    if *attempt >= fill {
        findings.push(Finding {
            rule: "L2",
            severity: Severity::Error,
            path: path.clone(),
            message: format!(
                "the slots fill in {limit} / {rate}/s = {}; attempt {} must be shorter: below {}, \
                 or with a limit of {} and more",
                time(fill),
                time(*attempt),
                time(fill),
                in_flight(*rate, *attempt).next_whole()
            ),
        });
    }
    if attempt <= p99 {
        findings.push(Finding {
            rule: "L4",
            severity: Severity::Warning,
            path,
            message: format!(
                "attempt {} cuts off healthy calls: their p99 is {}; it must be longer than that",
                time(*attempt),
                time(*p99)
            ),
        });
    }
}

/// L3: the worst case with retries fits; L5: retries have a budget.
fn retries(path: &Path, route: &Route, traffic: Option<&Traffic>, findings: &mut Vec<Finding>) {
    let Some(retry) = route.retry.as_ref().filter(|retry| retry.attempts > 1) else {
        return;
    };
    let path_attempts = path.key("retry").key("attempts");
    let path = path.key("retry").key("budget");
    let extra = match retry.budget {
        Some(budget) => Exact::share(budget),
        None => Exact::whole(retry.attempts.saturating_sub(1).into()),
    };
    let worst = traffic.map(|traffic| {
        let Traffic {
            rate,
            attempt,
            limit,
            ..
        } = traffic;
        let worst = worst_case(*rate, extra, *attempt);
        let fits = worst <= Exact::whole((*limit).into());
        let factor = Exact::ONE.plus(extra);
        let sum = format!(
            "{rate}/s x {factor} x {} = {worst} in flight",
            time(*attempt)
        );
        let most = in_flight(*rate, *attempt);
        (fits, sum, limit, fitting(*limit, most, worst))
    });
    let (rule, severity, message) = match (retry.budget, worst) {
        (Some(_), Some((false, sum, limit, fits))) => (
            "L3",
            Severity::Error,
            format!("the worst case is {sum}; limit {limit} is below it: {fits}"),
        ),
        (Some(_), Some((true, ..))) => {
            return long_permit(&path_attempts, route, traffic, findings);
        }
        (Some(_), None) => return,
        (None, Some((false, sum, limit, fits))) => (
            "L5",
            Severity::Error,
            format!(
                "without a budget all may be repeated: {sum}; limit {limit} is below it: {fits}"
            ),
        ),
        (None, Some((true, sum, limit, _))) => (
            "L5",
            Severity::Warning,
            format!("without a budget all may be repeated: {sum}, within limit {limit}; set one"),
        ),
        (None, None) => (
            "L5",
            Severity::Warning,
            "retries have no budget: when the upstream fails, all are repeated; 0.1 is usual"
                .to_owned(),
        ),
    };
    findings.push(Finding {
        rule,
        severity,
        path,
        message,
    });
}

/// What would make the worst case fit: a budget, a limit. `first` is in flight without retries.
fn fitting(limit: u32, first: Exact, worst: Exact) -> String {
    let most = Exact::whole(limit.into()).over(first).minus(Exact::ONE);
    // Cut to thousandths, so that what is named does fit; a policy has no budget above 1.
    let thousandths = most.times(Exact::whole(1000)).floor().min(1000);
    let enough = worst.ceil();
    match thousandths {
        0 => format!("a limit of {enough} would hold it"),
        n => format!(
            "a budget of at most {} or a limit of {enough} would hold it",
            Exact::ratio(n, 1000)
        ),
    }
}

/// L6: one request that is repeated holds its permit for all its attempts.
fn long_permit(path: &Path, route: &Route, traffic: Option<&Traffic>, findings: &mut Vec<Finding>) {
    let (Some(traffic), Some(retry)) = (traffic, route.retry.as_ref()) else {
        return;
    };
    let attempts = retry.attempts;
    let longest = Exact::whole(attempts.into()).times(traffic.attempt);
    let fill = time_to_fill(traffic.limit, Exact::ZERO, traffic.rate);
    if longest >= fill {
        findings.push(Finding {
            rule: "L6",
            severity: Severity::Warning,
            path: path.clone(),
            message: format!(
                "one request may hold its permit {attempts} x {} = {}; the slots fill in {} / \
                 {}/s = {}: the budget alone keeps the worst case; a limit of {} would fit both",
                time(traffic.attempt),
                time(longest),
                traffic.limit,
                traffic.rate,
                time(fill),
                in_flight(traffic.rate, longest).next_whole()
            ),
        });
    }
}
