//! Every name that telemetry uses: instruments, attributes, log events.
//!
//! Separate so that a name stands once, whoever uses it. It must never take text from a caller.

use InstrumentKind::{Counter, Gauge, Histogram};

/// How an instrument behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKind {
    /// A value that goes up and down.
    Gauge,
    /// A sum since the start that never goes down.
    Counter,
    /// Durations, counted by size.
    Histogram,
}

macro_rules! instruments {
    ($($variant:ident $name:literal $kind:ident $unit:literal $help:literal)*) => {
        /// One instrument.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Instrument {
            $(#[doc = $help] $variant,)*
        }

        impl Instrument {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in OTLP.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How it behaves.
            pub const fn kind(self) -> InstrumentKind {
                match self { $(Self::$variant => $kind,)* }
            }

            /// The unit, in UCUM.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// What it says, in a sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $help,)* }
            }
        }
    };
}

instruments! {
    InFlight "bulkhead.compartment.in_flight" Gauge "{request}" "Requests that hold a slot."
    Limit "bulkhead.compartment.limit" Gauge "{request}" "Slots; absent where unlimited."
    Peak "bulkhead.compartment.peak" Gauge "{request}" "Most requests in flight since the start."
    Utilization "bulkhead.compartment.utilization" Gauge "1" "In flight by limit."
    Time "bulkhead.compartment.time" Counter "s" "Time by state; saturated is at the limit."
    Requests "bulkhead.compartment.requests" Counter "{request}" "Requests by outcome."
    Rejections "bulkhead.compartment.rejections" Counter "{request}" "Rejections by reason."
    QueueDepth "bulkhead.compartment.queue.depth" Gauge "{request}" "Requests that wait for a slot."
    LeftQueue "bulkhead.compartment.queue.left" Counter "{request}"
        "Requests that left while they waited."
    QueueWait "bulkhead.compartment.queue.wait.duration" Histogram "s"
        "Time in line of requests that waited."
    PermitHold "bulkhead.compartment.permit.hold.duration" Histogram "s"
        "Time that permits were held."
    Leaked "bulkhead.permits.leaked" Counter "{request}" "Permits that outlived their bound."
    Ended "bulkhead.requests.ended" Counter "{request}"
        "Requests that got no whole answer of an upstream for a reason beside a limit."
    Fallbacks "bulkhead.fallback.answers" Counter "{request}"
        "Designed answers given in place of a rejection or a timeout."
    FallbackFailures "bulkhead.fallback.failures" Counter "{request}"
        "Steps of a fallback that had no answer, by kind and reason."
    StaleAnswers "bulkhead.stale.answers" Gauge "{answer}" "Stored answers."
    StaleSize "bulkhead.stale.size" Gauge "By"
        "Memory of stored answers and of copies under way, keys and fields included."
    StaleEvents "bulkhead.stale.events" Counter "{answer}"
        "What became of answers that could be stored."
    BreakerState "bulkhead.breaker.state" Gauge "1" "1 for the state that the breaker is in."
    BreakerChanges "bulkhead.breaker.changes" Counter "{change}" "Changes to a state."
    Endpoints "bulkhead.endpoints" Gauge "{endpoint}" "Endpoints of an upstream by state."
    EndpointState "bulkhead.endpoint.state" Gauge "1" "1 for the state that the endpoint is in."
    EndpointInFlight "bulkhead.endpoint.in_flight" Gauge "{request}"
        "Exchanges at an endpoint; absent for an only one."
    EndpointLatency "bulkhead.endpoint.latency" Gauge "s"
        "Moving average of the time to a head; absent for an only one."
    EndpointFailures "bulkhead.endpoint.failures" Counter "{request}"
        "Attempts that got no connection, no head, or a 502, 503 or 504 of the endpoint's own."
    EndpointNameAge "bulkhead.endpoint.name.age" Gauge "s"
        "Since a name server said where the endpoint is; when it was last dialled."
    EndpointNameFailing "bulkhead.endpoint.name.failing" Gauge "1"
        "1 when the last question for it was not answered and the last good addresses are used."
    Retries "bulkhead.retries" Counter "{request}" "Attempts beyond the first."
    RetriesRefused "bulkhead.retries.refused" Counter "{request}"
        "Failed requests that were not sent again, by the reason for that."
    Generation "bulkhead.policy.generation" Gauge "1" "Number of the running policy."
    PolicyAge "bulkhead.policy.age" Gauge "s" "Since the running policy was applied."
    PolicyHeldBack "bulkhead.policy.held_back" Gauge "1"
        "1 while the control plane offers an older policy than the one that runs."
    ControlConnected "bulkhead.control.connected" Gauge "1"
        "1 while the control plane is connected."
    ControlInUse "bulkhead.control.in_use" Gauge "1"
        "1 for the control plane whose stream is open; absent without one."
    ControlLeads "bulkhead.control.leads" Gauge "1"
        "1 while this control plane does the periodic work."
    Gateways "bulkhead.control.gateways" Gauge "{gateway}"
        "Gateways by how they stand to the newest policy."
    AlertActive "bulkhead.alert.active" Gauge "1" "1 while an alert fires."
    ServerDuration "http.server.request.duration" Histogram "s"
        "From a request's arrival to the last byte of its answer."
    ClientDuration "http.client.request.duration" Histogram "s"
        "From an attempt at an upstream to the last byte of the answer, or its failure."
    AlertNotices "bulkhead.alert.notices" Counter "{notice}"
        "Tries to tell of alerts by outcome: taken, failed (tried again), lost."
    ControlLag "bulkhead.control.lag" Gauge "{generation}"
        "Generations that the connected gateway furthest behind is behind."
    ClockSkew "bulkhead.control.clock.skew" Gauge "s"
        "Distance of the gateway's wall clock that is furthest off; nothing is measured by it."
    StoreSize "bulkhead.store.size" Gauge "By"
        "Files with their logs by kind: policy, history."
    HistoryPending "bulkhead.history.pending" Gauge "{row}" "Rows that are not on disk yet."
    HistoryLost "bulkhead.history.lost" Counter "{row}" "Rows that the disk did not take in time."
    HistoryFailing "bulkhead.history.failing" Gauge "1" "1 while the disk takes no figures."
    ReadingsGaps "bulkhead.readings.gaps" Counter "{gap}"
        "Silences of gateways that were too long to be a reading."
    ReadingsGapTime "bulkhead.readings.gap.time" Counter "s" "All of these silences together."
    ReadingsMissed "bulkhead.readings.missed" Counter "{request}"
        "Arrivals in these silences, at every compartment they passed: in no reading."
    Dropped "bulkhead.telemetry.dropped" Counter "{item}"
        "Spans, log records, metric points and access log lines that were dropped."
}

macro_rules! labels {
    ($($variant:ident $name:literal)*) => {
        /// An attribute of a metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Label {
            $(#[doc = $name] $variant,)*
        }

        impl Label {
            /// The name in OTLP.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

labels! {
    Compartment "bulkhead.compartment"
    Level "bulkhead.level"
    Kind "kind"
    State "state"
    Outcome "outcome"
    Reason "reason"
    Alert "alert"
    Severity "severity"
    Signal "signal"
    Method "http.request.method"
    Status "http.response.status_code"
    Route "http.route"
    ErrorType "error.type"
    Scheme "url.scheme"
    ServerAddress "server.address"
    ServerPort "server.port"
}

/// Attributes of spans and log records beside those of metrics.
pub mod attribute {
    /// The tenant's id, of identified callers only.
    pub const TENANT: &str = "bulkhead.tenant";
    /// The compartment that refused, or the route's own.
    pub const COMPARTMENT: &str = "bulkhead.compartment";
    /// Why the request did not get its upstream's answer, whole.
    pub const REASON: &str = "bulkhead.reason";
    /// Seconds from the arrival to the permits.
    pub const WAIT: &str = "bulkhead.queue.wait.duration";
    /// Seconds that the permits were held.
    pub const HOLD: &str = "bulkhead.permit.hold.duration";
    /// Which fallback answered.
    pub const FALLBACK: &str = "bulkhead.fallback";
    /// What a step of it came to: `answered`, or why it could not.
    pub const FALLBACK_OUTCOME: &str = "bulkhead.fallback.outcome";
    /// The id that the client is told.
    pub const REQUEST_ID: &str = "bulkhead.request.id";
    /// How often this request was tried before.
    pub const RESEND_COUNT: &str = "http.request.resend_count";
    /// The method.
    pub const METHOD: &str = "http.request.method";
    /// The method as it came, where it is none of the known.
    pub const METHOD_ORIGINAL: &str = "http.request.method_original";
    /// The status.
    pub const STATUS: &str = "http.response.status_code";
    /// The route's id.
    pub const ROUTE: &str = "http.route";
    /// The kind of the failure.
    pub const ERROR_TYPE: &str = "error.type";
    /// `http` or `https`.
    pub const SCHEME: &str = "url.scheme";
    /// The path, without the query.
    pub const PATH: &str = "url.path";
    /// Who was asked.
    pub const SERVER_ADDRESS: &str = "server.address";
    /// On which port.
    pub const SERVER_PORT: &str = "server.port";
    /// Who asked.
    pub const CLIENT_ADDRESS: &str = "client.address";
    /// The version of HTTP.
    pub const PROTOCOL_VERSION: &str = "network.protocol.version";
    /// Bytes of the answer's body.
    pub const RESPONSE_BYTES: &str = "http.response.body.size";
}

/// Log events: what a log line and an OTLP record say as their name.
pub mod event {
    /// A compartment is at its limit, and has been for the dwell time.
    pub const SATURATION_STARTED: &str = "bulkhead.saturation.started";
    /// It has been below its limit for the dwell time.
    pub const SATURATION_ENDED: &str = "bulkhead.saturation.ended";
    /// An alert fires.
    pub const ALERT_FIRED: &str = "bulkhead.alert.fired";
    /// It does not any more.
    pub const ALERT_RESOLVED: &str = "bulkhead.alert.resolved";
    /// A policy came into force.
    pub const POLICY_APPLIED: &str = "bulkhead.policy.applied";
    /// A policy did not.
    pub const POLICY_REFUSED: &str = "bulkhead.policy.refused";
    /// A drill came to its end.
    pub const DRILL_FINISHED: &str = "bulkhead.drill.finished";
    /// The breaker of an upstream opened, closed, or let a few through.
    pub const BREAKER_CHANGED: &str = "bulkhead.breaker.changed";
    /// A compartment refused a request. Sampled.
    pub const REQUEST_REJECTED: &str = "bulkhead.request.rejected";
    /// What all of them begin with.
    pub const PREFIX: &str = "bulkhead.";
}
