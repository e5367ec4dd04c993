//! All compartments of one gateway process.
//!
//! Separate because a policy meets the live compartments here: it changes their numbers. It
//! must never replace a live compartment, and nothing on the way of a request takes its lock.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::compartment::Compartment;
use crate::credit::Terms;
use crate::passage::Passage;
use crate::policy::{self, Policy, Tenant, Unknown};
use crate::roster::{Retire, Roster};
use crate::route::Route;
use crate::spare::Spare;
use crate::sync::{Mutex, OwnLine, lock};
use crate::{Figures, Key, Level, Limit, Name, TenantCompartment};

/// No name begins with an underscore that a policy could choose.
const DEPARTED: &str = "tenant/_departed";

/// All compartments of one process, and the spare slots.
#[derive(Debug)]
pub struct Hull {
    gateway: Arc<Compartment>,
    spare: Arc<OwnLine<Spare>>,
    /// Taken by those who apply, sweep or report; never by a request.
    rosters: Mutex<Rosters>,
}

#[derive(Debug)]
struct Rosters {
    next_id: u64,
    applied: bool,
    routes: Roster<Route>,
    /// The streams of those routes that have slots for them.
    streams: Roster<Route>,
    upstreams: Roster<Compartment>,
    tenants: Roster<TenantCompartment>,
    departed: Figures,
}

/// What a gateway builds its routes and tenants around.
#[derive(Debug)]
pub struct Fittings {
    /// By the index of the route in the policy.
    pub passages: Vec<Passage>,
    /// The same of its streams, where it has slots for them.
    pub streams: Vec<Option<Passage>>,
    /// In the order of the policy, then the shared unknown tenant if there is one.
    pub tenants: Vec<Arc<TenantCompartment>>,
}

impl Default for Hull {
    fn default() -> Self {
        Self::new()
    }
}

impl Hull {
    /// A hull without any compartment but the ceiling, which is closed until a policy comes.
    pub fn new() -> Self {
        Self {
            gateway: Arc::new(Compartment::new(&Key::Gateway, Limit::CLOSED)),
            spare: Arc::new(OwnLine(Spare::new())),
            rosters: Mutex::new(Rosters {
                next_id: 0,
                applied: false,
                routes: Roster::new(),
                streams: Roster::new(),
                upstreams: Roster::new(),
                tenants: Roster::new(),
                departed: Figures::new(DEPARTED.to_owned(), Level::Tenant, Limit::UNLIMITED),
            }),
        }
    }

    /// Puts the numbers of a policy into the live compartments and makes those that are missing.
    ///
    /// Requests go on meanwhile, under the numbers as they are at each moment. While spare slots
    /// move between routes the smaller number holds: what is taken away goes first.
    pub fn apply(&self, policy: &Policy, now_us: u64) -> Fittings {
        let mut rosters = lock(&self.rosters);
        let (spare, _) = self.spare();
        self.spare.0.set_limit(spare.min(policy.gateway.spare));
        self.gateway.resize(finite(policy.gateway.capacity));
        let upstreams = rosters.upstreams(policy);
        let tenants = rosters.tenants(policy);
        let routes = rosters.routes(policy, &self.spare, now_us);
        let streams = rosters.streams(policy, &self.spare, now_us);
        self.spare.0.set_limit(policy.gateway.spare);
        rosters.applied = true;
        rosters.let_go();
        let passages = policy
            .routes
            .iter()
            .zip(routes.iter())
            .filter_map(|(asked, route)| {
                Some(Passage {
                    route: Arc::clone(route),
                    home: Arc::clone(route),
                    upstream: Arc::clone(upstreams.get(asked.upstream)?),
                    gateway: Arc::clone(&self.gateway),
                    class_reserve: asked.compartment.class_reserve,
                    queue_max: asked.compartment.queue,
                    share: asked.compartment.tenant_share,
                })
            });
        let passages: Vec<Passage> = passages.collect();
        let streams = passages.iter().zip(streams).map(|(passage, streams)| {
            Some(Passage {
                route: streams?,
                class_reserve: 0,
                queue_max: 0,
                share: None,
                ..passage.clone()
            })
        });
        Fittings {
            streams: streams.collect(),
            passages,
            tenants: tenants.to_vec(),
        }
    }

    /// The spare slots that all routes borrow from: limit and used.
    pub fn spare(&self) -> (u32, u32) {
        self.spare.0.read()
    }

    /// Removes what nothing needs any more; to be called every few seconds.
    pub fn sweep(&self, now_us: u64) {
        let routes = {
            let mut rosters = lock(&self.rosters);
            rosters.routes.sweep(now_us);
            rosters.streams.sweep(now_us);
            rosters.upstreams.sweep(now_us);
            rosters.tenants.sweep(now_us);
            rosters.let_go();
            rosters.routes.all()
        };
        for route in routes.0.iter().chain(&routes.1) {
            route.sweep(now_us);
            route.cells.sweep(now_us);
        }
    }

    /// The counters of tenants that no policy names any more, summed: what was counted stays
    /// counted in every sum over tenants.
    pub fn departed_tenants(&self) -> Figures {
        lock(&self.rosters).departed.clone()
    }

    /// The figures of every compartment. `oldest_permit_ms` is the host's to fill.
    pub fn figures(&self) -> Vec<Figures> {
        let mut all = Vec::new();
        self.each_figures(&mut |figures| all.push(figures));
        all
    }

    /// The same one by one, without keeping them: ceiling, upstreams, routes each with its
    /// tenants' cells, their streams, tenants.
    pub fn each_figures(&self, each: &mut dyn FnMut(Figures)) {
        let (upstreams, routes, streams, tenants) = {
            let rosters = lock(&self.rosters);
            if !rosters.applied {
                return;
            }
            (
                rosters.upstreams.all(),
                rosters.routes.all(),
                rosters.streams.all(),
                rosters.tenants.all(),
            )
        };
        each(self.gateway.figures());
        for upstream in upstreams.0.iter().chain(&upstreams.1) {
            each(upstream.figures());
        }
        for route in routes.0.iter().chain(&routes.1) {
            each(route.slots.figures());
            route.cells.figures(each);
        }
        for streams in streams.0.iter().chain(&streams.1) {
            each(streams.slots.figures());
        }
        for tenant in tenants.0.iter().chain(&tenants.1) {
            each(tenant.figures());
        }
    }
}

impl Rosters {
    /// Lets go of what went out of use.
    fn let_go(&mut self) {
        for tenant in self.tenants.take_gone() {
            self.departed.count_in(&tenant.figures());
        }
        drop((
            self.routes.take_gone(),
            self.streams.take_gone(),
            self.upstreams.take_gone(),
        ));
    }

    fn upstreams(&mut self, policy: &Policy) -> Arc<Vec<Arc<Compartment>>> {
        let names = policy.upstreams.iter().map(|upstream| &upstream.id);
        let make = |name: &Name| Compartment::new(&Key::Upstream(name.clone()), Limit::CLOSED);
        let upstreams = self.upstreams.name_all(names, make, |_| ());
        for (asked, upstream) in policy.upstreams.iter().zip(upstreams.iter()) {
            upstream.resize(asked.limit);
        }
        upstreams
    }

    fn tenants(&mut self, policy: &Policy) -> Arc<Vec<Arc<TenantCompartment>>> {
        let unknown = match policy.identify.as_ref().map(|identify| identify.unknown) {
            Some(Unknown::Shared { limit }) => Some((Name::unknown_tenant(), limit)),
            Some(Unknown::Reject) | None => None,
        };
        let named = policy
            .tenants
            .iter()
            .map(|tenant| (&tenant.id, tenant.limit));
        let all = named.chain(unknown.as_ref().map(|(name, limit)| (name, *limit)));
        let next_id = &mut self.next_id;
        let make = |name: &Name| {
            *next_id += 1;
            TenantCompartment::new(*next_id, name.clone(), Limit::CLOSED)
        };
        let tenants = self
            .tenants
            .name_all(all.clone().map(|(name, _)| name), make, |_| ());
        for ((_, limit), tenant) in all.zip(tenants.iter()) {
            tenant.word.resize(limit, 0);
        }
        tenants
    }

    fn routes(
        &mut self,
        policy: &Policy,
        spare: &Arc<OwnLine<Spare>>,
        now_us: u64,
    ) -> Arc<Vec<Arc<Route>>> {
        let next_id = &mut self.next_id;
        let make = |name: &Name| {
            *next_id += 1;
            Route::new(*next_id, name, Arc::clone(spare))
        };
        let names = policy.routes.iter().map(|route| &route.id);
        let routes = self
            .routes
            .name_all(names, make, |route| route.give_up_guarantee(now_us));
        let terms = terms(policy);
        let by_name = OnceCell::new();
        for (index, (asked, route)) in policy.routes.iter().zip(routes.iter()).enumerate() {
            let own = &asked.compartment;
            route.set_terms(terms, now_us);
            route.resize(own.limit, own.reserved, own.class_reserve, now_us);
            route.cells.resize(|name| {
                let by_name: &HashMap<&Name, &Tenant> = by_name.get_or_init(|| {
                    policy
                        .tenants
                        .iter()
                        .map(|tenant| (&tenant.id, tenant))
                        .collect()
                });
                tenant_route_limit(policy, index, by_name.get(name).copied())
            });
        }
        routes
    }
}

impl Rosters {
    /// By the index of the route. All of their slots are spare slots.
    fn streams(
        &mut self,
        policy: &Policy,
        spare: &Arc<OwnLine<Spare>>,
        now_us: u64,
    ) -> Vec<Option<Arc<Route>>> {
        let next_id = &mut self.next_id;
        let make = |name: &Name| {
            *next_id += 1;
            Route::of_streams(*next_id, name, Arc::clone(spare))
        };
        let with_streams = policy
            .routes
            .iter()
            .filter(|route| route.compartment.stream.is_some());
        let names = with_streams.map(|route| &route.id);
        let streams = self.streams.name_all(names, make, |_| ());
        let mut streams = streams.iter();
        let routes = policy.routes.iter();
        let of_route = routes.map(|asked| {
            let limit = asked.compartment.stream?.limit;
            let streams = streams.next()?;
            streams.resize(limit, 0, 0, now_us);
            Some(Arc::clone(streams))
        });
        of_route.collect()
    }
}

/// One tenant's hard cap on one route: the tighter of the route's `tenant_limit` and the plan's
/// limit for this route; `None` when neither is set. No tenant: the shared unknown one.
pub fn tenant_route_limit(policy: &Policy, route: usize, tenant: Option<&Tenant>) -> Option<Limit> {
    let own = policy
        .routes
        .get(route)
        .and_then(|route| route.compartment.tenant_limit);
    let plan = tenant
        .and_then(|tenant| tenant.plan)
        .and_then(|plan| policy.plans.get(plan));
    let planned = plan.and_then(|plan| plan.routes.iter().find(|(index, _)| *index == route));
    match (own, planned.map(|(_, limit)| *limit)) {
        (Some(own), Some(planned)) => Some(own.tighter(planned)),
        (own, planned) => own.or(planned),
    }
}

/// Every route that can go beyond its guarantee earns the same part of the spare slots.
fn terms(policy: &Policy) -> Terms {
    let borrows = |route: &&policy::Route| {
        let own = &route.compartment;
        own.limit.slots().is_none_or(|slots| slots > own.reserved)
    };
    let borrowers = policy.routes.iter().filter(borrows).count();
    let borrowers = u32::try_from(borrowers).unwrap_or(u32::MAX);
    Terms::new(policy.gateway.spare, borrowers)
}

/// A capacity is checked to be in range; should one not be, nothing is admitted.
fn finite(slots: u32) -> Limit {
    Limit::new(slots).unwrap_or(Limit::CLOSED)
}

impl Retire for Compartment {
    fn retire(&self) -> bool {
        self.word.0.retire()
    }
}

impl Retire for Route {
    /// Not while a stream is in a tenant's cell of it, though it holds none of its slots.
    fn retire(&self) -> bool {
        self.cells.are_idle() && self.word().retire()
    }
}

impl Retire for TenantCompartment {
    fn retire(&self) -> bool {
        self.word.retire()
    }
}
