//! What of a route's slots can be reached: by anybody, by a tenant, by a class.
//!
//! Separate because these compare a limit with the numbers around it. A limit that is above what it
//! can ever reach is odd, never refused: lowering one in an incident must stay one change. Only a
//! route that nothing can enter is an error.

use compartment::Class;
use compartment::policy::{Path, Policy, Route};

use super::shape::{sum_of, warning};
use super::{Finding, Severity};
use crate::sizing::{Exact, time};

/// Judges one route.
pub(super) fn lint(path: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let here = path.key("compartment");
    slots(&here, policy, route, findings);
    tenants(&here, policy, route, findings);
    classes(&here, policy, route, findings);
    streams(&here, policy, route, findings);
}

/// What is guaranteed and what can be borrowed, against the limit.
fn slots(here: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let (limit, reserved) = (route.compartment.limit.slots(), route.compartment.reserved);
    let spare = policy.gateway.spare;
    let reach = u64::from(reserved).saturating_add(spare.into());
    if limit == Some(0) {
        return;
    }
    if reach == 0 {
        findings.push(Finding {
            rule: "L12",
            severity: Severity::Error,
            path: here.key("limit"),
            message: "no request gets in: 0 slots are guaranteed here and the gateway has 0 spare \
                      slots to borrow"
                .to_owned(),
        });
    } else if let Some(limit) = limit
        && u64::from(limit) > reach
    {
        let message = format!(
            "limit {limit} is never reached: {reserved} guaranteed + {spare} spare = {reach}"
        );
        findings.push(warning("L12", here.key("limit"), message));
    }
}

/// A cap of one tenant above the cap of all.
fn tenants(here: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let Some(limit) = route.compartment.limit.slots().filter(|limit| *limit > 0) else {
        return;
    };
    let above = |cap: compartment::Limit| cap.slots().filter(|cap| *cap > limit);
    if let Some(cap) = route.compartment.tenant_limit.and_then(above) {
        let message = format!("has no effect: {cap} for one tenant, {limit} for all of them");
        findings.push(warning("effect", here.key("tenant_limit"), message));
    }
    for plan in &policy.plans {
        let here = plan
            .routes
            .iter()
            .filter(|(at, _)| policy.routes.get(*at).map(|own| &own.id) == Some(&route.id));
        for cap in here.filter_map(|(_, cap)| above(*cap)) {
            let at = Path::root().key("plans").key(plan.id.as_str());
            let message = format!(
                "has no effect: {cap} for one tenant of the plan, {limit} for all on the route"
            );
            let at = at.key("routes").key(route.id.as_str());
            findings.push(warning("effect", at, message));
        }
    }
}

/// Slots kept from sheddable requests, where there are none or nothing else.
fn classes(here: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let kept = route.compartment.class_reserve;
    let Some(limit) = route.compartment.limit.slots().filter(|limit| *limit > 0) else {
        return;
    };
    if kept == 0 {
        return;
    }
    let lowered = || {
        let mut plans = policy.plans.iter();
        policy.identify.is_some() && plans.any(|plan| plan.class == Some(Class::Sheddable))
    };
    let message = if route.class == Class::Sheddable {
        let left = limit.saturating_sub(kept);
        format!("every request here is sheddable, so {limit} - {kept} = {left} slots are used")
    } else if lowered() {
        return;
    } else {
        let class = route.class.as_str();
        format!("has no effect: the route is {class} and no plan is sheddable")
    };
    findings.push(warning("effect", here.key("class_reserve"), message));
}

/// Streams have no guarantee: each of their slots is a spare one.
fn streams(here: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let Some(stream) = route.compartment.stream else {
        return;
    };
    let here = here.key("stream");
    let spare = policy.gateway.spare;
    let limit = stream.limit.slots();
    if limit == Some(0) {
        return;
    }
    if spare == 0 {
        findings.push(Finding {
            rule: "L12",
            severity: Severity::Error,
            path: here.key("limit"),
            message: "no stream gets in: its slots are spare ones, and the gateway has 0"
                .to_owned(),
        });
    } else if let Some(limit) = limit
        && limit > spare
    {
        let message = format!("limit {limit} is never reached: there are {spare} spare slots");
        findings.push(warning("L12", here.key("limit"), message));
    }
    if stream.idle > stream.age_max {
        let written = |duration| time(Exact::seconds(duration));
        let message = format!(
            "a silence of {} never runs out: max_age {} does",
            written(stream.idle),
            written(stream.age_max)
        );
        findings.push(warning("bounds", here.key("idle"), message));
    }
}

/// All streams together against the spare that bursts need too.
pub(super) fn lint_spare(policy: &Policy, findings: &mut Vec<Finding>) {
    let limits = policy
        .routes
        .iter()
        .filter_map(|route| route.compartment.stream);
    let slots: Vec<u64> = limits
        .filter_map(|stream| stream.limit.slots().map(u64::from))
        .filter(|slots| *slots > 0)
        .collect();
    let sum = slots.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    let spare = u64::from(policy.gateway.spare);
    if slots.len() < 2 || sum < spare || spare == 0 {
        return;
    }
    let message = format!(
        "streams may hold {} = {sum} of {spare} spare slots: then no route gets beyond its \
         guarantee",
        sum_of(&slots)
    );
    let gateway = Path::root().key("gateway").key("spare");
    findings.push(warning("L12", gateway, message));
}
