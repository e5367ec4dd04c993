//! Whether a request gets its slots.
//!
//! Separate because everything about it happens in one instant, on numbers: no await, no lock, no
//! look at anything but the snapshot that the request began with. It must never be asked twice
//! for one request.

use compartment::{Caller, Class, Entry, Limit, enter};

use crate::core::{Core, OnRoute};
use crate::live_policy::{LivePolicy, LiveRoute};
use crate::tenant::Who;

/// Asks every level for a slot, for a caller whose time is over at `until_us`.
pub(crate) fn ask(core: &Core, lane: &OnRoute, who: Who, until_us: u64) -> Entry<OnRoute> {
    let caller = Caller {
        until_us: Some(until_us),
        ..lane.0.people.caller(&lane.0.route, who)
    };
    // Borrowed for this one call, which cannot come back here.
    enter(lane.clone(), caller, &mut core.cells().borrow_mut())
}

/// The class of this caller's requests.
pub(crate) fn class_of(lane: &OnRoute, who: Who) -> Class {
    lane.0.people.caller(&lane.0.route, who).class
}

/// What the mechanism is told of one of this policy's callers.
pub(crate) fn caller(policy: &LivePolicy, route: &LiveRoute, who: Who) -> Caller {
    let Who::Tenant(tenant) = who else {
        let tenant = index_of(policy, who).and_then(|index| u32::try_from(index).ok());
        return Caller {
            tenant,
            class: route.class,
            route_limit: route.tenant_limit,
            until_us: None,
        };
    };
    let plan = policy.tenants.plan(tenant);
    let plan_limit = plan.and_then(|plan| route.plan_limits.get(&plan).copied());
    Caller {
        tenant: u32::try_from(tenant).ok(),
        class: lower(route, policy.tenants.class(tenant)),
        route_limit: tighter(route.tenant_limit, plan_limit),
        until_us: None,
    }
}

/// Index of the caller's compartment; the shared unknown tenant comes after the last one.
pub(crate) fn index_of(policy: &LivePolicy, who: Who) -> Option<usize> {
    match who {
        Who::Nobody => None,
        Who::Tenant(tenant) => Some(tenant),
        Who::SharedUnknown => Some(policy.policy.tenants.len()),
    }
}

fn lower(route: &LiveRoute, plan: Option<Class>) -> Class {
    plan.map_or(route.class, |plan| plan.min(route.class))
}

fn tighter(one: Option<Limit>, other: Option<Limit>) -> Option<Limit> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.tighter(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_counts() {
        let limit = |slots| Some(Limit::new(slots).unwrap());
        assert_eq!(tighter(None, None), None);
        assert_eq!(tighter(limit(3), None), limit(3));
        assert_eq!(tighter(limit(3), limit(2)), limit(2));
        assert_eq!(tighter(Some(Limit::UNLIMITED), limit(2)), limit(2));
        assert_eq!(tighter(limit(0), limit(2)), limit(0));
    }
}
