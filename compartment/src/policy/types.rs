//! The shape of a checked policy. Plain data: a value of these types keeps every rule of the
//! document (ranges, references, sums). It must never hold text that still has to be checked.

use std::net::IpAddr;
use std::time::Duration;

use super::breaker::{BreakerRules, ForcedBreaker};
pub use super::endpoint::Endpoint;
use super::fallback::Fallback;
use crate::{Class, Limit, Mode, Name};

/// Everything a gateway must know.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Ceiling, spare slots and HTTP bounds of one gateway process.
    pub gateway: Gateway,
    /// How a request's tenant is found; `None`: no tenants and no tenant levels.
    pub identify: Option<Identify>,
    /// Plans, in the order of the document.
    pub plans: Vec<Plan>,
    /// Tenants, in the order of the document.
    pub tenants: Vec<Tenant>,
    /// Dependencies, in the order of the document.
    pub upstreams: Vec<Upstream>,
    /// Routes, in the order of the document.
    pub routes: Vec<Route>,
}

/// `[gateway]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Ceiling of one process; finite, default 1000.
    pub capacity: u32,
    /// Slots for bursts above guarantees; default: capacity less the sum of reserved.
    pub spare: u32,
    /// `[gateway.http]`.
    pub http: Http,
}

/// `[gateway.http]`: bounds of every client connection. They apply to new connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Http {
    /// Largest request body in bytes.
    pub body_bytes_max: u64,
    /// Largest head in bytes.
    pub header_bytes_max: u32,
    /// Most header fields.
    pub header_fields_max: u32,
    /// Longest request target in bytes.
    pub target_bytes_max: u32,
    /// Longest time for a head, and for protocol detection.
    pub header_timeout: Duration,
    /// Longest time without progress of a request body.
    pub body_idle_timeout: Duration,
    /// Longest idle time of a kept connection.
    pub keepalive_idle: Duration,
    /// Longest time a client may not read.
    pub write_stall: Duration,
    /// Most client connections.
    pub connections_max: u32,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: Vec<Network>,
}

/// An address prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// Leading bits that count: at most 32 or 128.
    pub prefix_bits: u8,
}

impl Network {
    /// True when `address` lies inside. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let bits = |address: IpAddr| match address.to_canonical() {
            IpAddr::V4(v4) => (true, u128::from(v4.to_bits()) << 96),
            IpAddr::V6(v6) => (false, v6.to_bits()),
        };
        let ((own_v4, own), (their_v4, theirs)) = (bits(self.address), bits(address));
        let differing = own ^ theirs;
        own_v4 == their_v4 && differing.leading_zeros() >= u32::from(self.prefix_bits)
    }
}

/// `[identify]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Identify {
    /// In the order of the document.
    pub by: Vec<Identifier>,
    /// What happens to callers that nobody knows.
    pub unknown: Unknown,
}

/// One way to find a tenant.
#[derive(Clone, Debug, PartialEq)]
pub enum Identifier {
    /// A credential: the digest of this header's value (lower-case name).
    ApiKey {
        /// Header name, lower case.
        header: String,
    },
    /// The request's host.
    Host,
    /// A segment of the path, counted from 0.
    PathSegment {
        /// Which segment.
        index: usize,
    },
    /// A header, believed from these peers only.
    Header {
        /// Header name, lower case.
        name: String,
        /// Peers that may set it.
        trust: Vec<Network>,
    },
}

/// What happens to unknown callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// 401.
    Reject,
    /// All of them share `tenant/_unknown`.
    Shared {
        /// Its limit.
        limit: Limit,
    },
}

/// `[plans.ID]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The name.
    pub id: Name,
    /// In flight over all routes, for each tenant on the plan.
    pub limit: Limit,
    /// Caps the class of requests; `None` leaves the route's.
    pub class: Option<Class>,
    /// Limits on single routes: index into [`Policy::routes`].
    pub routes: Vec<(usize, Limit)>,
}

/// `[tenants.ID]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// The name.
    pub id: Name,
    /// Index into [`Policy::plans`].
    pub plan: Option<usize>,
    /// Effective limit: its own, else its plan's.
    pub limit: Limit,
    /// SHA-256 digests of its API keys.
    pub api_keys: Vec<[u8; 32]>,
    /// Those of them that end, and when, in seconds since 1970.
    pub expiring: Vec<([u8; 32], u64)>,
    /// Hosts, lower case, without port.
    pub hosts: Vec<String>,
    /// Every request is answered 403.
    pub suspended: bool,
}

/// `[upstreams.ID]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// The name.
    pub id: Name,
    /// At least one.
    pub endpoints: Vec<Endpoint>,
    /// It speaks HTTP/2, without being asked first.
    pub http2: bool,
    /// Over all routes that use it; unlimited unless set.
    pub limit: Limit,
    /// Longest time to connect.
    pub connect_timeout: Duration,
    /// How its endpoints are checked; `None`: only what requests meet tells.
    pub health: Option<Health>,
    /// Whom its `https` endpoints are believed by; the system's roots unless set.
    pub tls: Option<UpstreamTls>,
    /// When it is not asked any more; `None`: it always is.
    pub breaker: Option<BreakerRules>,
    /// An operator's word, which goes before the rules.
    pub force_breaker: Option<ForcedBreaker>,
}

/// `health` of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Asked for by GET; a status of 200 to 299 is well.
    pub path: String,
    /// How often, a tenth more or less.
    pub interval: Duration,
}

/// `tls` of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// Absolute path, on the gateway's machine, of the only roots that are believed.
    pub ca_file: String,
}

/// `[[routes]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The name.
    pub id: Name,
    /// Lower case, without port; `None` matches every host.
    pub host: Option<String>,
    /// Which paths.
    pub path: PathMatch,
    /// Upper-case methods; `None` matches every method.
    pub methods: Option<Vec<String>>,
    /// Index into [`Policy::upstreams`].
    pub upstream: usize,
    /// Its class; a plan may lower it.
    pub class: Class,
    /// Who is asked about this route.
    pub owner: Option<String>,
    /// Replaces the gateway's bound on request bodies, in bytes.
    pub body_bytes_max: Option<u64>,
    /// What the upstream sees instead of what the client said.
    pub rewrite: Rewrite,
    /// Fields that are set and removed on the way.
    pub headers: Headers,
    /// `[routes.compartment]`.
    pub compartment: RouteCompartment,
    /// `[routes.timeout]`.
    pub timeout: Timeouts,
    /// `[routes.retry]`; `None`: one attempt.
    pub retry: Option<Retry>,
    /// `[[routes.fallback]]`, in the order they are tried.
    pub fallback: Vec<Fallback>,
}

/// `rewrite` of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// Whole segments at the beginning of the route's path that the upstream does not see.
    pub strip_prefix: Option<String>,
    /// The host that the upstream sees, with a port if that is named.
    pub host: Option<String>,
}

/// `headers` of a route. Names in lower case, each at most once in each direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// Set in what the upstream gets.
    pub request_set: Vec<(String, String)>,
    /// Removed from what the upstream gets.
    pub request_remove: Vec<String>,
    /// Set in what the client gets.
    pub response_set: Vec<(String, String)>,
    /// Removed from what the client gets.
    pub response_remove: Vec<String>,
}

/// Which paths a route takes. Canonical form, beginning with `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathMatch {
    /// This path and everything below it, on segment borders; without a trailing `/` but for `/`.
    Prefix(String),
    /// This path alone.
    Exact(String),
}

/// `[routes.compartment]`.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteCompartment {
    /// The limit.
    pub limit: Limit,
    /// Guaranteed slots; default: the limit, 0 when unlimited.
    pub reserved: u32,
    /// One tenant's hard cap on this route.
    pub tenant_limit: Option<Limit>,
    /// One tenant holds at most `max(1, floor(share x free slots))`.
    pub tenant_share: Option<Millionths>,
    /// Last slots kept from sheddable requests.
    pub class_reserve: u32,
    /// Places to wait.
    pub queue: u32,
    /// Longest wait; zero when the document does not say, which it must with a queue.
    pub queue_wait: Duration,
    /// Longest time a permit may be held.
    pub hold_max: Duration,
    /// When the permits come back.
    pub hold_until: HoldUntil,
    /// What the route does with its own decisions.
    pub mode: Mode,
    /// A limit judged beside the live one.
    pub candidate: Option<u32>,
    /// Slots of their own for long-lived exchanges; `None`: they are requests as all others.
    pub stream: Option<Streams>,
    /// What the author believed of the traffic.
    pub assume: Option<Assume>,
}

/// An exact fraction in millionths, so that arithmetic on it is whole-numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millionths(pub u32);

impl Millionths {
    /// The whole.
    pub const ONE: Self = Self(1_000_000);
}

/// `stream` of a route's compartment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// The limit.
    pub limit: Limit,
    /// Longest time in which nothing passes in either direction.
    pub idle: Duration,
    /// Longest time in all.
    pub age_max: Duration,
    /// Every gRPC call counts as a stream.
    pub grpc: bool,
}

/// When permits come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldUntil {
    /// With the last byte of the body.
    Body,
    /// With the response head.
    Headers,
}

/// What the author believed; linted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assume {
    /// Arrivals, in thousandths of a request per second.
    pub rate_milli: u64,
    /// 99th percentile of the latency.
    pub p99: Duration,
}

/// `[routes.timeout]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeouts {
    /// To the response head, each attempt.
    pub attempt: Duration,
    /// The whole exchange, waiting included.
    pub total: Duration,
    /// Longest time without progress from either side; `None`: the gateway's.
    pub body_idle: Option<Duration>,
    /// Header (lower case) with the caller's remaining budget in milliseconds.
    pub deadline_header: Option<String>,
}

/// `[routes.retry]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// In all, the first included.
    pub attempts: u32,
    /// Share of recent successes; `None` when the document does not say (a finding).
    pub budget: Option<Millionths>,
    /// How recent.
    pub window: Duration,
    /// What is repeated.
    pub on: RetryOn,
    /// Header (lower case) that makes any method safe to repeat.
    pub idempotency_header: Option<String>,
}

/// What a retry answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOn {
    /// No connection.
    pub connect: bool,
    /// The upstream closed before the head.
    pub reset: bool,
    /// Status 502.
    pub status_502: bool,
    /// Status 503.
    pub status_503: bool,
    /// Status 504.
    pub status_504: bool,
    /// Our own attempt timeout.
    pub timeout: bool,
}
