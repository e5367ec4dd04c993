//! All compartments of one gateway process.
//!
//! Separate because a policy meets the live compartments here: it changes their numbers. It
//! must never replace a live compartment, and nothing on the way of a request takes its lock.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::compartment::Compartment;
use crate::numbers::{Caps, Make, Numbers, terms};
use crate::passage::Passage;
use crate::policy::{Policy, Unknown};
use crate::roster::{Retire, Roster};
use crate::route::Route;
use crate::seat::Seats;
use crate::spare::Spare;
use crate::stats::Look;
use crate::sync::{Mutex, OwnLine, lock};
use crate::ways::{Through, Ways};
use crate::{Figures, Key, Level, Limit, Mode, Moment, Name, Seat, TenantCompartment};

/// No name begins with an underscore that a policy could choose.
const DEPARTED: &str = "tenant/_departed";

/// All compartments of one process, and the spare slots.
#[derive(Debug)]
pub struct Hull {
    gateway: Arc<Compartment>,
    spare: Arc<OwnLine<Spare>>,
    pub(crate) seats: Arc<Seats>,
    /// Taken by those who apply, sweep or report; never by a request.
    pub(crate) rosters: Mutex<Rosters>,
}

#[derive(Debug)]
pub(crate) struct Rosters {
    /// Cells of counts that each shared compartment has.
    pub(crate) cores: usize,
    pub(crate) next_id: u64,
    applied: bool,
    pub(crate) routes: Roster<Route>,
    /// The streams of those routes that have slots for them.
    pub(crate) streams: Roster<Route>,
    /// Those of the routes that ask another dependency in place of their own.
    pub(crate) fallbacks: Roster<Route>,
    upstreams: Roster<Compartment>,
    pub(crate) tenants: Roster<TenantCompartment>,
    pub(crate) ways: Ways,
    departed: Figures,
}

/// What a gateway builds its routes and tenants around.
#[derive(Debug)]
pub struct Fittings {
    /// By the index of the route in the policy.
    pub passages: Vec<Passage>,
    /// The same of its streams, where it has slots for them.
    pub streams: Vec<Option<Passage>>,
    /// The way to the other dependency, where a step of its fallback asks one.
    pub fallbacks: Vec<Option<Passage>>,
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
        Self::with_cores(0)
    }

    /// The same for a process with so many serving threads: each counts in cells of its own.
    pub fn with_cores(cores: usize) -> Self {
        let gateway = Compartment::made(&Key::Gateway, Limit::CLOSED, cores, 0);
        Self {
            gateway: Arc::new(gateway),
            spare: Arc::new(OwnLine(Spare::new())),
            seats: Seats::new(cores),
            rosters: Mutex::new(Rosters {
                cores,
                next_id: 0,
                applied: false,
                routes: Roster::new(),
                streams: Roster::new(),
                fallbacks: Roster::new(),
                upstreams: Roster::new(),
                tenants: Roster::new(),
                ways: Ways::default(),
                departed: Figures::new(DEPARTED.to_owned(), Level::Tenant, Limit::UNLIMITED),
            }),
        }
    }

    /// A seat for one serving thread; `None` when all are taken.
    pub fn seat(&self) -> Option<Seat> {
        self.seats.take()
    }

    /// Puts the numbers of a policy into the live compartments and makes those that are missing.
    ///
    /// Requests go on meanwhile, under the numbers as they are at each moment. While spare slots
    /// move between routes the smaller number holds: what is taken away goes first.
    pub fn apply(&self, policy: &Policy, now_us: u64) -> Fittings {
        let mut rosters = lock(&self.rosters);
        let (spare, _) = self.spare();
        self.spare.0.set_limit(spare.min(policy.gateway.spare));
        self.gateway.resize(finite(policy.gateway.capacity), now_us);
        let upstreams = rosters.upstreams(policy, now_us);
        let tenants = rosters.tenants(policy, now_us);
        let routes = rosters.routes(policy, &self.spare, now_us);
        let streams = rosters.streams(policy, &self.spare, now_us);
        let fallbacks = rosters.fallbacks(policy, &self.spare, now_us);
        self.spare.0.set_limit(policy.gateway.spare);
        rosters.applied = true;
        rosters.let_go(now_us);
        let through = Through {
            policy,
            routes: &routes,
            streams,
            fallbacks,
            upstreams: &upstreams,
            gateway: &self.gateway,
        };
        let paths = rosters.ways.replace(through, now_us);
        rosters.ways.bound(|| self.ways_in_use());
        Fittings {
            passages: paths.calls,
            streams: paths.streams,
            fallbacks: paths.fallbacks,
            tenants: tenants.to_vec(),
        }
    }

    /// The spare slots that all routes borrow from: limit and used.
    pub fn spare(&self) -> (u32, u32) {
        self.spare.0.read()
    }

    /// Removes what nothing needs any more; to be called every few seconds.
    pub fn sweep(&self, now_us: u64) {
        let in_use = self.ways_in_use();
        let routes = {
            let mut rosters = lock(&self.rosters);
            rosters.routes.sweep(now_us);
            rosters.streams.sweep(now_us);
            rosters.fallbacks.sweep(now_us);
            rosters.upstreams.sweep(now_us);
            rosters.tenants.sweep(now_us);
            rosters.let_go(now_us);
            rosters.ways.sweep(now_us, &in_use);
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
    pub fn figures(&self, now_us: u64) -> Vec<Figures> {
        let mut all = Vec::new();
        self.each_figures(now_us, &mut |figures| all.push(figures));
        all
    }

    /// The same one by one, without keeping them: ceiling, upstreams, routes each with its
    /// tenants' cells, their streams, tenants.
    pub fn each_figures(&self, now_us: u64, each: &mut dyn FnMut(Figures)) {
        self.look(Look::at(now_us), each);
    }

    /// The same for a report: the recent peaks begin anew.
    pub fn report(&self, now_us: u64, each: &mut dyn FnMut(Figures)) {
        let takes_peak = true;
        self.look(Look { now_us, takes_peak }, each);
    }

    /// The figures of what all tenants share: ceiling, upstreams, routes and their streams.
    pub fn shared_figures(&self, now_us: u64) -> Vec<Figures> {
        let mut all = Vec::new();
        self.each_shared(&mut |compartment| all.push(compartment.look(Look::at(now_us))));
        all
    }

    pub(crate) fn each_shared(&self, each: &mut dyn FnMut(&Compartment)) {
        let rosters = lock(&self.rosters);
        if !rosters.applied {
            return;
        }
        let (upstreams, gone) = rosters.upstreams.all();
        let routes = rosters.routes.all();
        let sides = rosters.sides();
        drop(rosters);
        each(&self.gateway);
        for upstream in upstreams.iter().chain(&gone) {
            each(upstream);
        }
        for route in routes.0.iter().chain(&routes.1).chain(&sides) {
            each(&route.slots);
        }
    }

    fn look(&self, look: Look, each: &mut dyn FnMut(Figures)) {
        let (upstreams, routes, sides, tenants) = {
            let rosters = lock(&self.rosters);
            if !rosters.applied {
                return;
            }
            (
                rosters.upstreams.all(),
                rosters.routes.all(),
                rosters.sides(),
                rosters.tenants.all(),
            )
        };
        each(self.gateway.look(look));
        for upstream in upstreams.0.iter().chain(&upstreams.1) {
            each(upstream.look(look));
        }
        for route in routes.0.iter().chain(&routes.1) {
            let figures = route.look(look);
            let mode = figures.mode;
            each(figures);
            route.cells.figures(look, mode, each);
        }
        for side in sides {
            each(side.look(look));
        }
        for tenant in tenants.0.iter().chain(&tenants.1) {
            each(tenant.look(look));
        }
    }
}

impl Rosters {
    /// Lets go of what went out of use.
    fn let_go(&mut self, now_us: u64) {
        for tenant in self.tenants.take_gone() {
            self.departed.count_in(&tenant.look(Look::at(now_us)));
        }
        drop((
            self.routes.take_gone(),
            self.streams.take_gone(),
            self.fallbacks.take_gone(),
            self.upstreams.take_gone(),
        ));
    }

    fn upstreams(&mut self, policy: &Policy, now_us: u64) -> Arc<Vec<Arc<Compartment>>> {
        let names = policy.upstreams.iter().map(|upstream| &upstream.id);
        let cores = self.cores;
        let make = |name: &Name| {
            let key = Key::Upstream(name.clone());
            Compartment::made(&key, Limit::CLOSED, cores, now_us)
        };
        let upstreams = self.upstreams.name_all(names, make, |_| ());
        for (asked, upstream) in policy.upstreams.iter().zip(upstreams.iter()) {
            upstream.resize(asked.limit, now_us);
        }
        upstreams
    }

    fn tenants(&mut self, policy: &Policy, now_us: u64) -> Arc<Vec<Arc<TenantCompartment>>> {
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
            TenantCompartment::new(*next_id, name.clone(), Limit::CLOSED, now_us)
        };
        let tenants = self
            .tenants
            .name_all(all.clone().map(|(name, _)| name), make, |_| ());
        for ((_, limit), tenant) in all.zip(tenants.iter()) {
            tenant.resize(limit, Moment::at(now_us));
        }
        tenants
    }

    fn routes(
        &mut self,
        policy: &Policy,
        spare: &Arc<OwnLine<Spare>>,
        now_us: u64,
    ) -> Arc<Vec<Arc<Route>>> {
        let (cores, next_id) = (self.cores, &mut self.next_id);
        let make = |name: &Name| {
            *next_id += 1;
            let id = *next_id;
            Route::new(
                name,
                Make {
                    id,
                    cores,
                    now_us,
                    spare,
                },
            )
        };
        let names = policy.routes.iter().map(|route| &route.id);
        let routes = self
            .routes
            .name_all(names, make, |route| route.give_up_guarantee(now_us));
        let terms = terms(policy);
        let caps = OnceCell::new();
        for (index, (asked, route)) in policy.routes.iter().zip(routes.iter()).enumerate() {
            let own = &asked.compartment;
            route.set_terms(terms, now_us);
            let at = Moment::at(now_us);
            route.resize(at, Numbers::of(own));
            let lax = own.mode != Mode::Enforce;
            route.cells.resize(at, lax, |name| {
                let caps = caps.get_or_init(|| Caps::of(policy));
                caps.on(index, name)
            });
        }
        routes
    }
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
