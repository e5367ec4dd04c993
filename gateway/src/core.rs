//! What one serving thread keeps between requests.
//!
//! Separate so that a request finds everything it needs on its own thread: the snapshot, the
//! routes as this core uses them, idle connections, timers, ids. It must never be borrowed across
//! an await, nor be shared with another thread.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use compartment::{CellCache, Lane, Passage, Seat, TenantCompartment};
use telemetry::Sampler;

use crate::clock::{self, Clock};
use crate::headers::PeerText;
use crate::http_stats::{Durations, Place, Verb};
use crate::ids::{Ids, RequestId};
use crate::live_policy::{Live, LivePolicy, LiveRoute, LiveStreams};
use crate::newest::Gates;
use crate::now::Now;
use crate::outcomes::Outcomes;
use crate::people::People;
use crate::resolve::Resolver;
use crate::running::Running;
use crate::tarpit::Tarpit;
use crate::tell::Tell;
use crate::tenant::Who;
use crate::timer::Timers;
use crate::upstream::{Dialler, EndpointPool, Pools, Purpose, Tried, choose};

/// How often idle connections are looked through.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Log lines about refused requests that one core writes in a second.
const REJECTION_LOGS_PER_S_MAX: u32 = 5;

/// Peers whose address is kept as text.
const PEERS_MAX: usize = 256;

/// One serving thread.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) live: Arc<Live>,
    pub(crate) now: Rc<Now>,
    pub(crate) ids: Ids,
    pub(crate) timers: Rc<Timers>,
    pub(crate) running: Rc<Running>,
    pub(crate) dialler: Rc<Dialler>,
    pub(crate) tarpit: Tarpit,
    /// Wall-clock microseconds when the monotonic clock was at 0: for ids and for what is told,
    /// never for a bound.
    origin_unix_us: u64,
    pub(crate) tell: Tell,
    /// `None` while no traces go out.
    pub(crate) sampler: Option<Sampler>,
    /// Durations of requests on no route.
    pub(crate) unrouted: Durations,
    number: usize,
    pools: Pools,
    /// This thread counts in cells of its own.
    seat: Rc<Option<Seat>>,
    cells: RefCell<CellCache>,
    /// The version and the snapshot that belongs to it.
    snapshot: RefCell<(u64, Option<Rc<Snapshot>>)>,
    peers: RefCell<Vec<Option<KnownPeer>>>,
    logged: Cell<(u64, u32)>,
    /// When rejections are noted for the next report.
    pub(crate) gates: Gates,
}

type KnownPeer = (IpAddr, Rc<PeerText>);

/// One policy as one core uses it.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) policy: Arc<LivePolicy>,
    lanes: RefCell<Vec<Option<Rc<RouteLane>>>>,
}

/// One route as one core uses it. Dies with the last request on it, or with its policy.
#[derive(Debug)]
pub(crate) struct RouteLane {
    pub(crate) route: Arc<LiveRoute>,
    pub(crate) people: People,
    /// In the order of the upstream's endpoints.
    pub(crate) pools: Vec<Rc<EndpointPool>>,
    /// The way of the route's streams, which share no connection with its calls.
    pub(crate) streams: Option<Rc<RouteLane>>,
    /// The way to the other upstream of its fallback, which shares no connection with either.
    fallback: Option<Rc<RouteLane>>,
    /// This is the way of streams.
    pub(crate) is_of_streams: bool,
    pub(crate) server: Rc<Durations>,
    /// In the order of the pools.
    pub(crate) client: Vec<Rc<Durations>>,
    now: Rc<Now>,
    seat: Rc<Option<Seat>>,
}

/// The handle that permits keep.
#[derive(Clone, Debug)]
pub(crate) struct OnRoute(pub(crate) Rc<RouteLane>);

impl Lane for OnRoute {
    fn passage(&self) -> &Passage {
        let route = &self.0.route;
        match &route.streams {
            Some(streams) if self.0.is_of_streams => &streams.passage,
            Some(_) | None => &route.passage,
        }
    }

    fn tenant(&self, index: u32) -> Option<&TenantCompartment> {
        self.0.people.tenant(index)
    }

    fn now_us(&self) -> u64 {
        self.0.now.last_us()
    }

    fn seat(&self) -> Option<&Seat> {
        self.0.seat.as_ref().as_ref()
    }
}

impl Core {
    /// `own` are the listeners of this process.
    pub(crate) fn new(live: Arc<Live>, clock: Clock, own: Vec<SocketAddr>, tell: Tell) -> Rc<Self> {
        let number = live.http.join();
        let resolver = Resolver::new(clock);
        let running = live.running.join();
        let seat = live.hull().seat();
        Rc::new(Self {
            live,
            now: Now::new(clock),
            ids: Ids::random(),
            timers: Timers::new(clock),
            running,
            dialler: Rc::new(Dialler::new(resolver, clock, own)),
            tarpit: Tarpit::default(),
            origin_unix_us: clock::unix_us().saturating_sub(clock.now_us()),
            sampler: tell.telemetry.traces(),
            tell,
            unrouted: Durations::new(Place::Server(None), number),
            number,
            pools: Pools::default(),
            seat: Rc::new(seat),
            cells: RefCell::new(CellCache::new()),
            snapshot: RefCell::new((u64::MAX, None)),
            peers: RefCell::new(vec![None; PEERS_MAX]),
            logged: Cell::new((0, 0)),
            gates: Gates::default(),
        })
    }

    /// Looks after what is idle. Never ends; run it beside the connections of the thread.
    pub(crate) async fn keep_house(self: Rc<Self>) {
        loop {
            tokio::time::sleep(HOUSEKEEPING).await;
            // An idle core follows the policy too, or it would keep an old one alive.
            drop(self.snapshot());
            self.pools.sweep(self.now.read_us());
        }
    }

    /// The policy in force; one atomic read when it has not changed.
    pub(crate) fn snapshot(&self) -> Option<Rc<Snapshot>> {
        let version = self.live.version();
        let mut kept = self.snapshot.borrow_mut();
        if kept.0 != version {
            let snapshot = self.live.current().map(|policy| {
                let lanes = RefCell::new(vec![None; policy.routes.len()]);
                Rc::new(Snapshot { policy, lanes })
            });
            *kept = (version, snapshot);
        }
        kept.1.clone()
    }

    /// The route of this index; made with its first request.
    pub(crate) fn lane(&self, snapshot: &Snapshot, index: usize) -> Option<Rc<RouteLane>> {
        let mut lanes = snapshot.lanes.borrow_mut();
        let place = lanes.get_mut(index)?;
        if let Some(lane) = place {
            return Some(Rc::clone(lane));
        }
        let route = Arc::clone(snapshot.policy.routes.get(index)?);
        let new = |route, purpose| self.new_lane(snapshot, route, index, purpose);
        let mut lane = new(&route, Purpose::Calls);
        if route.streams.is_some() {
            lane.streams = Some(Rc::new(new(&route, Purpose::Streams)));
        }
        if let Some(other) = route.fallback.other() {
            lane.fallback = Some(Rc::new(new(other, Purpose::Fallback)));
        }
        let lane = Rc::new(lane);
        *place = Some(Rc::clone(&lane));
        Some(lane)
    }

    fn new_lane(
        &self,
        snapshot: &Snapshot,
        route: &Arc<LiveRoute>,
        index: usize,
        purpose: Purpose,
    ) -> RouteLane {
        let endpoints = route.endpoints.iter();
        let pool = |target| self.pools.of(&route.id, purpose, target);
        let (server, client) = self.durations(route, index, &snapshot.policy);
        RouteLane {
            server,
            client,
            route: Arc::clone(route),
            people: People::All(Arc::clone(&snapshot.policy)),
            pools: endpoints.map(pool).collect(),
            streams: None,
            fallback: None,
            is_of_streams: purpose == Purpose::Streams,
            now: Rc::clone(&self.now),
            seat: Rc::clone(&self.seat),
        }
    }

    /// Where durations of this route are counted on this core.
    fn durations(
        &self,
        route: &LiveRoute,
        index: usize,
        policy: &LivePolicy,
    ) -> (Rc<Durations>, Vec<Rc<Durations>>) {
        let asked = policy.policy.routes.get(index);
        let upstream = &route.upstream;
        let methods = asked.and_then(|route| route.methods.as_ref());
        let first = methods.and_then(|methods| methods.first()?.parse().ok());
        let verb = Verb::of(&first.unwrap_or(http::Method::GET));
        let of = |place| {
            Rc::new(Durations::prepared(
                place,
                self.number,
                &self.live.http,
                verb,
            ))
        };
        let client = route.endpoints.iter().map(|target| {
            of(Place::Client {
                upstream: Arc::clone(upstream),
                host: target.endpoint.host.as_str().into(),
                port: target.endpoint.port,
            })
        });
        let server = Place::Server(Some(route.id.as_str().into()));
        (of(server), client.collect())
    }

    /// The moment in nanoseconds since 1970, for what is told.
    pub(crate) fn unix_ns(&self, at_us: u64) -> u64 {
        self.origin_unix_us
            .saturating_add(at_us)
            .saturating_mul(1_000)
    }

    /// The way to tenants' cells on routes.
    pub(crate) fn cells(&self) -> &RefCell<CellCache> {
        &self.cells
    }

    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.live.outcomes
    }

    /// A new id for a request that came at `now_us`.
    pub(crate) fn request_id(&self, now_us: u64) -> RequestId {
        self.ids
            .request_id(self.origin_unix_us.saturating_add(now_us) / 1_000)
    }

    /// The peer's address as text. A newcomer takes the place of whoever had it.
    pub(crate) fn peer_text(&self, peer: IpAddr) -> Rc<PeerText> {
        let mut peers = self.peers.borrow_mut();
        let Some(place) = peers.get_mut(place_of(peer)) else {
            return Rc::new(PeerText::new(peer));
        };
        match place {
            Some((known, text)) if *known == peer => Rc::clone(text),
            _ => {
                let text = Rc::new(PeerText::new(peer));
                *place = Some((peer, Rc::clone(&text)));
                text
            }
        }
    }

    /// True when one more line about a refusal may be logged in this second.
    pub(crate) fn may_log(&self, now_us: u64) -> bool {
        let second = now_us / 1_000_000;
        let (of, lines) = self.logged.get();
        let lines = if of == second { lines } else { 0 };
        self.logged.set((second, lines.saturating_add(1)));
        lines < REJECTION_LOGS_PER_S_MAX
    }
}

impl OnRoute {
    /// The same route as this caller's streams pass it, if it has slots for them.
    pub(crate) fn for_streams(&self, who: Who) -> Option<Self> {
        let streams = self.0.streams.as_ref();
        streams.map(|lane| Self(Rc::new(lane.alone(who))))
    }

    /// The way to the other upstream of its fallback.
    pub(crate) fn for_fallback(&self) -> Option<Self> {
        self.0.fallback.as_ref().map(|lane| Self(Rc::clone(lane)))
    }

    /// What holds for the exchange when it is a stream.
    pub(crate) fn stream_terms(&self) -> Option<&LiveStreams> {
        let streams = self.0.route.streams.as_ref();
        streams.filter(|_| self.0.is_of_streams)
    }
}

impl RouteLane {
    /// The same for this caller alone, without anything of the policy but the route.
    fn alone(&self, who: Who) -> Self {
        Self {
            route: Arc::clone(&self.route),
            people: self.people.alone(&self.route, who),
            pools: self.pools.clone(),
            streams: None,
            fallback: None,
            is_of_streams: self.is_of_streams,
            server: Rc::clone(&self.server),
            client: self.client.clone(),
            now: Rc::clone(&self.now),
            seat: Rc::clone(&self.seat),
        }
    }

    /// The endpoint to try next, of those that this attempt has not tried; those that earlier
    /// attempts failed at come last.
    pub(crate) fn choose(
        &self,
        now_us: u64,
        (tried, failed): (Tried, Tried),
        ids: &Ids,
    ) -> Option<Choice<'_>> {
        let all = self.pools.iter().map(|pool| &pool.target.standing);
        let random = if self.pools.len() > 1 { ids.next() } else { 0 };
        let index = choose(all, now_us, (tried, failed), random)?;
        Some((index, self.pools.get(index)?))
    }
}

/// One of a route's endpoints: its place, and its connections.
pub(crate) type Choice<'a> = (usize, &'a Rc<EndpointPool>);

fn place_of(peer: IpAddr) -> usize {
    let bits = match peer {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let spread = (bits ^ (bits >> 64)) % 251;
    const { assert!(PEERS_MAX > 251, "every place exists") };
    usize::try_from(spread).unwrap_or(0)
}
