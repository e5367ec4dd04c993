//! What the mechanism needs of its host, and the way of a request through the levels.
//!
//! Separate because these are the types that a gateway builds its own routes around. A passage
//! belongs to one policy and points at live compartments, which outlast it. It must never own a
//! number that is counted.

use std::sync::Arc;

use crate::compartment::Compartment;
use crate::policy::Millionths;
use crate::route::Route;
use crate::{Balance, Class, Level, Limit, Moment, Seat, TenantCompartment};

/// The host's side of one request: a cheap handle that the permits keep to the end.
///
/// It must give the same passage, and the same tenant for the same index, as long as it lives.
pub trait Lane {
    /// The way through the levels.
    fn passage(&self) -> &Passage;
    /// The tenant of this index, in the order of the policy; after the last one the shared
    /// unknown tenant. `None`: no such tenant, and then no tenant levels.
    fn tenant(&self, index: u32) -> Option<&TenantCompartment>;
    /// Microseconds on a clock that never goes back.
    fn now_us(&self) -> u64;
    /// The seat of the thread that all of this happens on, one of the same hull. Without one
    /// the counts are shared with every other thread.
    fn seat(&self) -> Option<&Seat> {
        None
    }
}

/// Now, and who says so.
pub(crate) fn moment<L: Lane>(lane: &L) -> Moment<'_> {
    Moment {
        seat: lane.seat(),
        now_us: lane.now_us(),
    }
}

/// Who asks, as the host has found out.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// Index into the tenants of the policy; their number means the shared unknown tenant.
    pub tenant: Option<u32>,
    /// The lower class of route and plan.
    pub class: Class,
    /// The tighter of the route's `tenant_limit` and the plan's limit on this route.
    pub route_limit: Option<Limit>,
    /// When the caller's own time is over, on the lane's clock; `None`: it has all the time.
    pub until_us: Option<u64>,
}

/// One route's way through the levels under one policy.
#[derive(Clone, Debug)]
pub struct Passage {
    /// Never used twice in a process.
    pub(crate) id: u64,
    /// Longest that a permit may be out.
    pub(crate) hold_us: u64,
    pub(crate) route: Arc<Route>,
    /// Whose tenants' cells count: the route itself, and of its streams the route they are on.
    pub(crate) home: Arc<Route>,
    pub(crate) upstream: Arc<Compartment>,
    pub(crate) gateway: Arc<Compartment>,
    pub(crate) class_reserve: u32,
    pub(crate) queue_max: u32,
    pub(crate) share: Option<Millionths>,
}

/// A live compartment to look at. It cannot be entered or resized through this: a route's slot
/// taken past its spare slots and its line would never be accounted for.
#[derive(Clone, Copy, Debug)]
pub struct Gauge<'a>(&'a Compartment);

impl<'a> Gauge<'a> {
    /// The key as text.
    pub fn key(&self) -> &'a Arc<str> {
        self.0.key()
    }

    /// The limit in force.
    pub fn limit(&self) -> Limit {
        self.0.limit()
    }

    /// Slots taken now.
    pub fn in_flight(&self) -> u32 {
        self.0.in_flight()
    }

    /// The mean time a permit is held, in microseconds; 0 before the first came back.
    pub fn mean_hold_us(&self) -> u64 {
        self.0.mean_hold_us()
    }
}

impl Passage {
    /// Everything but the number is the same.
    pub(crate) fn is_same_way(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.route, &other.route)
            && Arc::ptr_eq(&self.home, &other.home)
            && Arc::ptr_eq(&self.upstream, &other.upstream)
            && Arc::ptr_eq(&self.gateway, &other.gateway)
            && (self.hold_us, self.class_reserve) == (other.hold_us, other.class_reserve)
            && (self.queue_max, self.share) == (other.queue_max, other.share)
    }

    /// The way of a long-lived exchange: its slots are not the route's own.
    pub(crate) fn is_of_streams(&self) -> bool {
        self.route.slots.level() == Level::Stream
    }

    /// The route's own compartment; on the way of a stream that of the route's streams.
    pub fn route(&self) -> Gauge<'_> {
        Gauge(&self.route.slots)
    }

    /// The compartment of the dependency.
    pub fn upstream(&self) -> Gauge<'_> {
        Gauge(&self.upstream)
    }

    /// The ceiling of the process.
    pub fn gateway(&self) -> Gauge<'_> {
        Gauge(&self.gateway)
    }

    /// Requests that wait for a slot of the route now.
    pub fn queued(&self) -> u32 {
        self.route.slots.stats.queued()
    }

    /// The spare slots that all routes borrow from: limit and used.
    pub fn spare(&self) -> (u32, u32) {
        self.route.spare().read()
    }

    /// What is left of the slot-seconds that the route's borrowing is paid from; `None`: it
    /// borrows for nothing.
    pub fn credit(&self, now_us: u64) -> Option<Balance> {
        self.route.credit(now_us)
    }
}
