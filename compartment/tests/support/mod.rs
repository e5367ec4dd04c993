//! Policies and lanes for the tests of the mechanism.
//!
//! Separate because models, properties and stress tests need the same hosts. It must never
//! decide anything: every number is the test's.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use compartment::policy::{
    Endpoint, Gateway, HoldUntil, Http, Identify, Millionths, PathMatch, Policy, Route,
    RouteCompartment, Streams, Tenant, Timeouts, Unknown, Upstream,
};
use compartment::{
    Caller, CellCache, Class, Entry, Figures, Fittings, Hull, Lane, Limit, Mode, Name, Passage,
    Permits, Refusal, Seat, TenantCompartment, Waiting, enter, tenant_route_limit,
};

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn limit(slots: u32) -> Limit {
    Limit::new(slots).unwrap()
}

/// A route as a test thinks of it.
#[derive(Clone, Debug)]
pub(crate) struct R {
    pub(crate) id: String,
    pub(crate) upstream: usize,
    pub(crate) limit: Limit,
    pub(crate) reserved: u32,
    pub(crate) queue: u32,
    pub(crate) class_reserve: u32,
    pub(crate) tenant_limit: Option<Limit>,
    pub(crate) share: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) candidate: Option<u32>,
    pub(crate) streams: Option<Limit>,
}

pub(crate) fn route(id: &str, slots: u32) -> R {
    R {
        id: id.to_owned(),
        upstream: 0,
        limit: limit(slots),
        reserved: slots,
        queue: 0,
        class_reserve: 0,
        tenant_limit: None,
        share: None,
        mode: Mode::Enforce,
        candidate: None,
        streams: None,
    }
}

impl R {
    pub(crate) fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    pub(crate) fn candidate(self, slots: u32) -> Self {
        let candidate = Some(slots);
        Self { candidate, ..self }
    }

    pub(crate) fn reserved(self, reserved: u32) -> Self {
        Self { reserved, ..self }
    }

    pub(crate) fn queue(self, queue: u32) -> Self {
        Self { queue, ..self }
    }

    pub(crate) fn streams(self, slots: u32) -> Self {
        let streams = Some(limit(slots));
        Self { streams, ..self }
    }

    fn policy(&self) -> Route {
        let second = Duration::from_secs(1);
        Route {
            id: name(&self.id),
            host: None,
            path: PathMatch::Prefix(format!("/{}", self.id)),
            methods: None,
            upstream: self.upstream,
            class: Class::Standard,
            owner: None,
            body_bytes_max: None,
            rewrite: Default::default(),
            headers: Default::default(),
            compartment: RouteCompartment {
                limit: self.limit,
                reserved: self.reserved,
                tenant_limit: self.tenant_limit,
                tenant_share: self.share.map(Millionths),
                class_reserve: self.class_reserve,
                queue: self.queue,
                queue_wait: second,
                hold_max: second,
                hold_until: HoldUntil::Body,
                mode: self.mode,
                candidate: self.candidate,
                stream: self.streams.map(|limit| Streams {
                    limit,
                    idle: Duration::from_secs(60),
                    age_max: Duration::from_secs(3600),
                    grpc: false,
                }),
                assume: None,
            },
            timeout: Timeouts {
                attempt: second,
                total: second,
                body_idle: None,
                deadline_header: None,
            },
            retry: None,
            fallback: Vec::new(),
        }
    }
}

/// A policy of these routes over upstreams of these limits.
pub(crate) fn policy(capacity: u32, spare: u32, upstreams: &[Limit], routes: &[R]) -> Policy {
    let second = Duration::from_secs(1);
    let upstream = |(n, limit): (usize, &Limit)| Upstream {
        id: name(&format!("u{n}")),
        endpoints: vec![Endpoint {
            secure: false,
            host: "127.0.0.1".to_owned(),
            port: 1,
        }],
        http2: false,
        tls: None,
        health: None,
        limit: *limit,
        connect_timeout: second,
        breaker: None,
        force_breaker: None,
    };
    Policy {
        gateway: Gateway {
            capacity,
            spare,
            http: Http {
                body_bytes_max: 1,
                header_bytes_max: 1,
                header_fields_max: 1,
                target_bytes_max: 1,
                header_timeout: second,
                body_idle_timeout: second,
                keepalive_idle: second,
                write_stall: second,
                connections_max: 1,
                trusted_proxies: Vec::new(),
            },
        },
        identify: None,
        plans: Vec::new(),
        tenants: Vec::new(),
        upstreams: upstreams.iter().enumerate().map(upstream).collect(),
        routes: routes.iter().map(R::policy).collect(),
    }
}

/// Adds tenants of these limits, and a shared unknown one.
pub(crate) fn with_tenants(
    mut policy: Policy,
    tenants: &[(&str, Limit)],
    unknown: Limit,
) -> Policy {
    policy.identify = Some(Identify {
        by: Vec::new(),
        unknown: Unknown::Shared { limit: unknown },
    });
    let tenant = |(id, limit): &(&str, Limit)| Tenant {
        id: name(id),
        plan: None,
        limit: *limit,
        api_keys: Vec::new(),
        expiring: Vec::new(),
        hosts: Vec::new(),
        suspended: false,
    };
    policy.tenants = tenants.iter().map(tenant).collect();
    policy
}

/// One policy in force: what a gateway keeps of it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) policy: Policy,
    pub(crate) fittings: Fittings,
    pub(crate) clock: AtomicU64,
}

/// One request's handle.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) route: usize,
    /// On the way of the route's streams.
    pub(crate) stream: bool,
}

impl Lane for Here {
    fn passage(&self) -> &Passage {
        let fittings = &self.snapshot.fittings;
        match (self.stream, &fittings.streams[self.route]) {
            (true, Some(streams)) => streams,
            (true, None) => panic!("the route has no slots for streams"),
            (false, _) => &fittings.passages[self.route],
        }
    }

    fn tenant(&self, index: u32) -> Option<&TenantCompartment> {
        self.snapshot
            .fittings
            .tenants
            .get(index as usize)
            .map(|tenant| &**tenant)
    }

    fn now_us(&self) -> u64 {
        self.snapshot.clock.load(Ordering::Relaxed)
    }
}

/// For figures of which the time is not asked.
pub(crate) const NOW_US: u64 = 1;

/// A caller without a tenant.
pub(crate) const ANYBODY: Caller = Caller {
    tenant: None,
    class: Class::Standard,
    route_limit: None,
    until_us: None,
};

impl Snapshot {
    pub(crate) fn of(hull: &Hull, policy: &Policy) -> Arc<Self> {
        Self::at(hull, policy, 1)
    }

    /// The same at another time than the first microsecond.
    pub(crate) fn at(hull: &Hull, policy: &Policy, now_us: u64) -> Arc<Self> {
        let fittings = hull.apply(policy, now_us);
        Arc::new(Self {
            policy: policy.clone(),
            fittings,
            clock: AtomicU64::new(now_us),
        })
    }

    /// The caller that a gateway makes of this tenant on this route.
    pub(crate) fn caller(&self, route: usize, tenant: u32) -> Caller {
        let named = self.policy.tenants.get(tenant as usize);
        let route_limit = tenant_route_limit(&self.policy, route, named);
        Caller {
            tenant: Some(tenant),
            class: Class::Standard,
            route_limit,
            until_us: None,
        }
    }

    pub(crate) fn ask(
        self: &Arc<Self>,
        route: usize,
        caller: Caller,
        cache: &mut CellCache,
    ) -> Entry<Here> {
        enter(self.lane(route, false), caller, cache)
    }

    /// A request's handle.
    pub(crate) fn lane(self: &Arc<Self>, route: usize, stream: bool) -> Here {
        Here {
            snapshot: Arc::clone(self),
            route,
            stream,
        }
    }

    /// The same for a stream on the route.
    pub(crate) fn ask_stream(
        self: &Arc<Self>,
        route: usize,
        caller: Caller,
        cache: &mut CellCache,
    ) -> Entry<Here> {
        enter(self.lane(route, true), caller, cache)
    }

    /// The same for a caller without tenant.
    pub(crate) fn anybody(self: &Arc<Self>, route: usize) -> Entry<Here> {
        self.ask(route, ANYBODY, &mut CellCache::new())
    }
}

pub(crate) fn admitted(entry: Entry<Here>) -> Option<Permits<Here>> {
    match entry {
        Entry::Admitted(permits) => Some(permits),
        Entry::Refused(_) | Entry::Waiting(_) => None,
    }
}

pub(crate) fn waiting(entry: Entry<Here>) -> Option<Waiting<Here>> {
    match entry {
        Entry::Waiting(waiting) => Some(waiting),
        Entry::Refused(_) | Entry::Admitted(_) => None,
    }
}

pub(crate) fn refused(entry: Entry<Here>) -> Option<Refusal> {
    match entry {
        Entry::Refused(refusal) => Some(refusal),
        Entry::Waiting(_) | Entry::Admitted(_) => None,
    }
}

/// Reason and key of a refusal.
pub(crate) fn why(refusal: &Refusal) -> (&'static str, &str) {
    (refusal.rejection.as_str(), &refusal.key)
}

/// The figures of one key.
pub(crate) fn figures(hull: &Hull, key: &str) -> Option<Figures> {
    hull.figures(NOW_US)
        .into_iter()
        .find(|figures| figures.key == key)
}

/// What must hold in every compartment at any time.
pub(crate) fn identities(hull: &Hull) {
    for f in hull.figures(NOW_US) {
        let refusals: u64 = f.rejected.values().sum();
        assert_eq!(f.admitted, f.completed + u64::from(f.in_flight), "{f:?}");
        assert_eq!(
            f.arrived,
            f.admitted + refusals + u64::from(f.queued) + f.left_queue,
            "{f:?}"
        );
    }
}

/// When nobody is left: nothing is in flight, waits or is borrowed anywhere.
pub(crate) fn all_returned(hull: &Hull) {
    identities(hull);
    for f in hull.figures(NOW_US) {
        assert_eq!((f.in_flight, f.queued, f.borrowed), (0, 0, 0), "{f:?}");
    }
    for f in hull.figures(NOW_US) {
        // Counted apart from `completed`: of whoever came back, and of nobody twice.
        assert_eq!(f.hold.count(), f.completed, "{f:?}");
    }
    assert_eq!(hull.spare().1, 0, "spare slots in use by nobody");
    assert_eq!(hull.remains(), []);
}

/// A host whose thread has a seat, as a gateway's serving threads have.
#[derive(Clone, Debug)]
pub(crate) struct Seated {
    here: Here,
    seat: Rc<Seat>,
}

impl Seated {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, seat: &Rc<Seat>) -> Self {
        Self::on(snapshot, seat, 0, false)
    }

    pub(crate) fn on(
        snapshot: &Arc<Snapshot>,
        seat: &Rc<Seat>,
        route: usize,
        stream: bool,
    ) -> Self {
        let here = snapshot.lane(route, stream);
        let seat = Rc::clone(seat);
        Self { here, seat }
    }

    pub(crate) fn ask(&self, caller: Caller) -> Entry<Self> {
        enter(self.clone(), caller, &mut CellCache::new())
    }
}

impl Lane for Seated {
    fn passage(&self) -> &Passage {
        self.here.passage()
    }

    fn tenant(&self, index: u32) -> Option<&TenantCompartment> {
        self.here.tenant(index)
    }

    fn now_us(&self) -> u64 {
        self.here.now_us()
    }

    fn seat(&self) -> Option<&Seat> {
        Some(&self.seat)
    }
}
