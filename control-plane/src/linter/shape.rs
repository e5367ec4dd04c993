//! Findings that need no assumption: what has no effect, waits too long, or is sized apart.
//!
//! Separate from the sums over assumed traffic. These are warnings: a policy that is odd must
//! never be refused for it.

use std::collections::HashMap;

use compartment::policy::{Identifier, Path, Policy, Route, Unknown};
use compartment::{Limit, Mode};

use super::{Finding, Severity, bounds, protocols, reach};

/// The most places to wait that need no second thought.
const QUEUE_PLACES_FEW: u32 = 9;

/// The most terms of a sum that a message spells out.
const TERMS_SHOWN_MAX: usize = 8;

/// The terms of a sum as a message spells them out.
pub(super) fn sum_of(terms: &[impl ToString]) -> String {
    let shown = terms.iter().take(TERMS_SHOWN_MAX).map(ToString::to_string);
    let more = (terms.len() > TERMS_SHOWN_MAX).then(|| "…".to_owned());
    shown.chain(more).collect::<Vec<_>>().join(" + ")
}

pub(super) fn warning(rule: &'static str, path: Path, message: String) -> Finding {
    Finding {
        rule,
        severity: Severity::Warning,
        path,
        message,
    }
}

/// One route by itself.
pub(super) fn lint_route(path: &Path, policy: &Policy, route: &Route, findings: &mut Vec<Finding>) {
    let compartment = &route.compartment;
    let here = path.key("compartment");
    if compartment.queue > QUEUE_PLACES_FEW {
        let places = compartment.queue;
        let message =
            format!("{places} places to wait; above {QUEUE_PLACES_FEW} a queue hides an overload");
        findings.push(warning("P2", here.key("queue"), message));
    }
    if compartment.queue == 0 && !compartment.queue_wait.is_zero() {
        let message = "has no effect: queue is 0, so nobody waits".to_owned();
        findings.push(warning("effect", here.key("queue_wait"), message));
    }
    bounds::lint(path, route, findings);
    reach::lint(path, policy, route, findings);
    protocols::lint(path, policy, route, findings);
    unjudged(&here, route, findings);
    let unlimited = compartment.limit == Limit::UNLIMITED;
    let without_effect = [
        (
            unlimited && compartment.class_reserve > 0,
            "class_reserve",
            "the limit is unlimited",
        ),
        (
            unlimited && compartment.tenant_share.is_some(),
            "tenant_share",
            "the limit is unlimited",
        ),
        (
            policy.identify.is_none() && compartment.tenant_share.is_some(),
            "tenant_share",
            "there is no [identify], so no request has a tenant",
        ),
        (
            policy.identify.is_none() && compartment.tenant_limit.is_some(),
            "tenant_limit",
            "there is no [identify], so no request has a tenant",
        ),
    ];
    for (applies, key, why) in without_effect {
        if applies {
            findings.push(warning(
                "effect",
                here.key(key),
                format!("has no effect: {why}"),
            ));
        }
    }
}

/// What a limit that fills never, or always, or not at all, leaves without effect.
fn unjudged(here: &Path, route: &Route, findings: &mut Vec<Finding>) {
    let own = &route.compartment;
    let places = own.queue;
    let why = match own.limit.slots() {
        None => Some("the limit is unlimited, so nobody waits for a slot"),
        Some(0) => Some("limit 0 closes the route, and a closed route refuses at once"),
        Some(_) => None,
    };
    if let Some(why) = why.filter(|_| places > 0) {
        let message = format!("{places} places to wait have no effect: {why}");
        findings.push(warning("effect", here.key("queue"), message));
    }
    if let (Some(candidate), Mode::Off) = (own.candidate, own.mode) {
        let message = format!(
            "mode \"off\" puts no limit in force that candidate {candidate} could stand beside; to \
             watch {candidate} and refuse nobody, write limit = {candidate} and mode = \"shadow\""
        );
        findings.push(warning("effect", here.key("candidate"), message));
    }
}

/// L14: guarantees over one upstream against its own limit, which wins.
pub(super) fn lint_upstreams(policy: &Policy, findings: &mut Vec<Finding>) {
    let mut guarantees: HashMap<usize, Vec<u32>> = HashMap::new();
    for route in &policy.routes {
        if route.compartment.reserved > 0 {
            guarantees
                .entry(route.upstream)
                .or_default()
                .push(route.compartment.reserved);
        }
    }
    for (index, upstream) in policy.upstreams.iter().enumerate() {
        let Some(limit) = upstream.limit.slots() else {
            continue;
        };
        let Some(terms) = guarantees.get(&index) else {
            continue;
        };
        let sum: u64 = terms.iter().copied().map(u64::from).sum();
        if sum > limit.into() {
            let message = format!(
                "the routes over it are guaranteed {} = {sum} slots; its limit {limit} wins",
                sum_of(terms)
            );
            let path = Path::root()
                .key("upstreams")
                .key(upstream.id.as_str())
                .key("limit");
            findings.push(warning("L14", path, message));
        }
    }
}

/// Tenants that nobody can be, and identities that nobody has.
pub(super) fn lint_tenants(policy: &Policy, findings: &mut Vec<Finding>) {
    let root = Path::root();
    let Some(identify) = &policy.identify else {
        if !policy.tenants.is_empty() {
            let message = "has no effect: there is no [identify]".to_owned();
            findings.push(warning("effect", root.key("tenants"), message));
        }
        return;
    };
    if policy.tenants.is_empty() && identify.unknown == Unknown::Reject {
        let message = "there are no tenants, so every request is refused".to_owned();
        findings.push(warning(
            "effect",
            root.key("identify").key("unknown"),
            message,
        ));
    }
    let by = |found: fn(&Identifier) -> bool| identify.by.iter().any(found);
    let by_key = by(|identifier| matches!(identifier, Identifier::ApiKey { .. }));
    let by_host = by(|identifier| matches!(identifier, Identifier::Host));
    for tenant in &policy.tenants {
        let path = root.key("tenants").key(tenant.id.as_str());
        let checks = [
            (
                !by_key && !tenant.api_keys.is_empty(),
                "api_keys",
                "api_key",
            ),
            (!by_host && !tenant.hosts.is_empty(), "hosts", "host"),
        ];
        for (applies, key, way) in checks {
            if applies {
                let message = format!("has no effect: identify.by has no {way}");
                findings.push(warning("effect", path.key(key), message));
            }
        }
    }
}
