//! What the admin port says of upstreams and their endpoints.
//!
//! Separate because it is read from the endpoints themselves, whoever they serve. It must never
//! show a path, a credential or a file's content.

use serde_json::{Value, json};

use crate::live_policy::Live;
use crate::upstream::Target;

/// Every upstream of the policy in force.
pub(crate) fn of(live: &Live, now_us: u64) -> Value {
    let all = live.dependencies.all();
    let upstreams = all.iter().map(|(id, dependency)| {
        let targets = &dependency.targets;
        let endpoints = targets
            .iter()
            .map(|target| endpoint(target, targets.len() > 1, now_us));
        let out = targets
            .iter()
            .filter(|target| target.standing.is_out(now_us));
        let out = out.count();
        json!({
            "id": id.as_str(),
            "endpoints": endpoints.collect::<Vec<_>>(),
            "out": out,
            // More than half would be out: requests go to all of them.
            "all_used": targets.len() <= 1 || out > targets.len() / 2,
        })
    });
    json!({ "upstreams": upstreams.collect::<Vec<_>>() })
}

/// `several`: there are others to choose from. Of the only one nothing is counted that a choice
/// would need, and it is never out.
fn endpoint(target: &Target, several: bool, now_us: u64) -> Value {
    let seen = target.standing.seen(now_us);
    let state = match (seen.is_sick, several && seen.ejected_for_us > 0) {
        (true, _) => "unhealthy",
        (false, true) => "ejected",
        (false, false) => "in_use",
    };
    let check = target.last_check().map(|check| {
        json!({ "age_ms": now_us.saturating_sub(check.at_us) / 1_000, "error": check.error })
    });
    let name = target.last_look_up().map(|look_up| {
        json!({
            "addresses": look_up.addresses,
            "age_ms": now_us.saturating_sub(look_up.at_us) / 1_000,
            "error": look_up.error,
        })
    });
    json!({
        "url": target.endpoint.to_string(),
        "state": state,
        "in_flight": several.then_some(seen.in_flight),
        "latency_ms": several.then_some(seen.latency_us / 1_000),
        "failures_in_a_row": seen.failures,
        "failures": seen.failed,
        "ejections_in_a_row": several.then_some(seen.ejections),
        "ejected_for_ms": several.then_some(seen.ejected_for_us / 1_000),
        "check": check,
        "name": name,
    })
}
