//! What a route is made of: the numbers of its policy, and what a new one needs.
//!
//! Separate from the route because a policy is read here and nowhere near a request. It must
//! never hold a count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::compartment::Compartment;
use crate::credit;
use crate::ghost::Terms;
use crate::policy::{self, Policy, RouteCompartment, Tenant};
use crate::spare::Spare;
use crate::sync::OwnLine;
use crate::{Key, Limit, Mode, Name};

/// Saturates after half a million years.
pub(crate) fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What a policy says of a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) limit: Limit,
    pub(crate) reserved: u32,
    pub(crate) class_reserve: u32,
    pub(crate) queue: u32,
    pub(crate) mode: Mode,
    pub(crate) candidate: Option<u32>,
}

impl Numbers {
    pub(crate) fn of(asked: &RouteCompartment) -> Self {
        Self {
            limit: asked.limit,
            reserved: asked.reserved,
            class_reserve: asked.class_reserve,
            queue: asked.queue,
            mode: asked.mode,
            candidate: asked.candidate,
        }
    }

    /// Of the route's streams: all of their slots are spare slots, and nobody waits for one.
    pub(crate) fn of_streams(asked: &RouteCompartment, limit: Limit) -> Self {
        Self {
            limit,
            reserved: 0,
            class_reserve: 0,
            queue: 0,
            mode: asked.mode,
            candidate: None,
        }
    }

    /// Of the route's fallback: spare slots too, and always enforced, because the next step
    /// stands in for what it refuses.
    pub(crate) fn of_fallback(limit: Limit) -> Self {
        Self {
            limit,
            reserved: 0,
            class_reserve: 0,
            queue: 0,
            mode: Mode::Enforce,
            candidate: None,
        }
    }

    pub(crate) fn terms(self) -> Terms {
        Terms {
            mode: self.mode,
            limit: self.limit.slots(),
            queue: self.queue,
            candidate: self.candidate,
        }
    }
}

/// What a new route is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Make<'a> {
    pub(crate) id: u64,
    pub(crate) cores: usize,
    pub(crate) now_us: u64,
    pub(crate) spare: &'a Arc<OwnLine<Spare>>,
}

impl Make<'_> {
    pub(crate) fn slots(self, key: &Key) -> Compartment {
        Compartment::made(key, Limit::CLOSED, self.cores, self.now_us)
    }
}

/// One tenant's hard cap on one route: the tighter of the route's `tenant_limit` and the plan's
/// limit for this route; `None` when neither is set. No tenant: the shared unknown one.
pub fn tenant_route_limit(policy: &Policy, route: usize, tenant: Option<&Tenant>) -> Option<Limit> {
    let plan = tenant
        .and_then(|tenant| tenant.plan)
        .and_then(|plan| policy.plans.get(plan));
    let planned = plan.and_then(|plan| plan.routes.iter().find(|(index, _)| *index == route));
    cap(policy, route, planned.map(|(_, limit)| *limit))
}

fn cap(policy: &Policy, route: usize, planned: Option<Limit>) -> Option<Limit> {
    let route = policy.routes.get(route);
    let own = route.and_then(|route| route.compartment.tenant_limit);
    match (own, planned) {
        (Some(own), Some(planned)) => Some(own.tighter(planned)),
        (own, planned) => own.or(planned),
    }
}

/// The same of every tenant on every route: each list is looked through once, however many
/// tenants' cells are live.
#[derive(Debug)]
pub(crate) struct Caps<'a> {
    policy: &'a Policy,
    plans: HashMap<&'a Name, usize>,
    planned: HashMap<(usize, usize), Limit>,
}

impl<'a> Caps<'a> {
    pub(crate) fn of(policy: &'a Policy) -> Self {
        let tenants = policy.tenants.iter();
        let plans = tenants.filter_map(|tenant| Some((&tenant.id, tenant.plan?)));
        let planned = policy.plans.iter().enumerate().flat_map(|(plan, terms)| {
            let routes = terms.routes.iter();
            routes.map(move |(route, limit)| ((plan, *route), *limit))
        });
        Self {
            policy,
            plans: plans.collect(),
            planned: planned.collect(),
        }
    }

    pub(crate) fn on(&self, route: usize, tenant: &Name) -> Option<Limit> {
        let plan = self.plans.get(tenant);
        let planned = plan.and_then(|plan| self.planned.get(&(*plan, route)));
        cap(self.policy, route, planned.copied())
    }
}

/// Every route that can go beyond its guarantee earns the same part of the spare slots.
pub(crate) fn terms(policy: &Policy) -> credit::Terms {
    let borrows = |route: &&policy::Route| {
        let own = &route.compartment;
        own.limit.slots().is_none_or(|slots| slots > own.reserved)
    };
    let borrowers = policy.routes.iter().filter(borrows).count();
    let borrowers = u32::try_from(borrowers).unwrap_or(u32::MAX);
    credit::Terms::new(policy.gateway.spare, borrowers)
}
