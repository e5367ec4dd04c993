//! A request that is told by itself: as spans, as a line of the access log, or as both.
//!
//! Separate because few requests are, and those may cost something. It must never hold a header's
//! value but those that name the trace, nor a query, nor a body.

use std::sync::Arc;

use compartment::Name;
use compartment::policy::Endpoint;
use http::request::Parts;
use http::{HeaderMap, Version};
use telemetry::names::attribute as a;
use telemetry::{Context, Kind, Record, SpanId, Status, Text, Value, bounded, trace_hex};

use crate::access_log::Line;
use crate::core::{Core, OnRoute};
use crate::http_stats::Verb;
use crate::ids::RequestId;
use crate::reason::Reason;
use crate::tenant::Who;

/// Attempts of one request that are told.
const CALLS_MAX: usize = 16;
/// Steps of one fallback that are told.
const FALLBACK_STEPS_MAX: usize = 8;

/// What is known of the request's head, and what was tried for it.
#[derive(Debug)]
pub(crate) struct Detail {
    is_logged: bool,
    method: http::Method,
    /// Bounded, and without control characters.
    path: Text,
    version: Version,
    request_id: RequestId,
    trace_state: Option<Text>,
    compartment: Option<Text>,
    /// What stood in.
    fallback: Option<&'static str>,
    calls: Vec<Call>,
    steps: Vec<FallbackStep>,
    head_us: Option<u64>,
}

/// One step of a fallback.
#[derive(Debug)]
pub(crate) struct FallbackStep {
    pub(crate) span_id: SpanId,
    pub(crate) kind: &'static str,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    /// `None`: it is asked.
    pub(crate) outcome: Option<&'static str>,
}

/// One attempt at an upstream.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) span_id: SpanId,
    pub(crate) began_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) status: u16,
    pub(crate) error: Option<&'static str>,
    pub(crate) endpoint: Endpoint,
    /// The step of a fallback that it is made for; `None`: for the request itself.
    pub(crate) step: Option<SpanId>,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) context: Option<Context>,
    pub(crate) arrived_us: u64,
    pub(crate) ended_us: u64,
    pub(crate) admitted_us: Option<u64>,
    pub(crate) released_us: Option<u64>,
    pub(crate) status: u16,
    pub(crate) verb: Verb,
    pub(crate) reason: Option<Reason>,
    pub(crate) error: Option<&'static str>,
    pub(crate) bytes: u64,
}

impl Summary {
    /// From the arrival to the permits, or to the refusal.
    fn wait_us(&self) -> u64 {
        self.admitted_us
            .unwrap_or(self.ended_us)
            .saturating_sub(self.arrived_us)
    }

    /// `None`: never admitted.
    fn hold_us(&self) -> Option<u64> {
        let since_us = self.admitted_us?;
        Some(
            self.released_us
                .unwrap_or(self.ended_us)
                .saturating_sub(since_us),
        )
    }
}

impl Detail {
    pub(crate) fn of(
        parts: &Parts,
        request_id: &RequestId,
        is_logged: bool,
        context: Option<Context>,
    ) -> Self {
        let goes_on = context.is_some_and(|context| context.parent.is_some());
        Self {
            is_logged,
            method: parts.method.clone(),
            path: bounded(parts.uri.path()),
            version: parts.version,
            request_id: request_id.clone(),
            trace_state: goes_on.then(|| trace_state(&parts.headers)).flatten(),
            compartment: None,
            fallback: None,
            calls: Vec::new(),
            steps: Vec::new(),
            head_us: None,
        }
    }

    pub(crate) fn stopped(&mut self, key: Option<&Arc<str>>, fallback: Option<&'static str>) {
        self.compartment = key.map(|key| Text::Shared(Arc::clone(key)));
        self.fallback = fallback;
    }

    pub(crate) fn calls(&mut self, mut call: Call) {
        let step = self.steps.last().filter(|step| step.outcome.is_none());
        call.step = step.map(|step| step.span_id);
        if self.calls.len() < CALLS_MAX {
            self.calls.push(call);
        }
    }

    pub(crate) fn step_begins(&mut self, step: FallbackStep) {
        if self.steps.len() < FALLBACK_STEPS_MAX {
            self.steps.push(step);
        }
    }

    pub(crate) fn step_ends(&mut self, now_us: u64, outcome: &'static str) {
        if let Some(step) = self.steps.last_mut() {
            (step.ended_us, step.outcome) = (now_us, Some(outcome));
        }
    }

    pub(crate) fn head_came(&mut self, now_us: u64) {
        self.head_us = Some(now_us);
    }

    pub(crate) fn call_ended(&mut self, now_us: u64, status: u16, error: Option<&'static str>) {
        if let Some(call) = self.calls.last_mut() {
            (call.ended_us, call.status, call.error) = (now_us, status, error);
        }
    }

    /// Hands it to whoever wants it. `lane`: the route, and whose the request is.
    pub(crate) fn tell(&self, core: &Core, lane: Option<&(OnRoute, Who)>, how: &Summary) {
        let tenant = lane.and_then(|(lane, who)| lane.0.people.name(*who));
        let route = lane.map(|(lane, _)| &lane.0.route.id);
        if let Some(context) = how.context.filter(|context| context.sampled) {
            for step in &self.steps {
                core.tell
                    .telemetry
                    .push(self.step_span(core, context, step));
            }
            for call in &self.calls {
                core.tell
                    .telemetry
                    .push(self.client_span(core, context, call, how.verb));
            }
            core.tell
                .telemetry
                .push(self.server_span(core, context, route, tenant, how));
        }
        if let Some(log) = core.tell.access_log.as_ref().filter(|_| self.is_logged) {
            log.push(self.line(core, route, tenant, how));
        }
    }

    fn compartment(&self, route: Option<&Name>) -> Option<Text> {
        let own = || route.map(|route| Text::from(format!("route/{route}")));
        self.compartment.clone().or_else(own)
    }

    fn server_span(
        &self,
        core: &Core,
        context: Context,
        route: Option<&Name>,
        tenant: Option<&str>,
        how: &Summary,
    ) -> Record {
        let text = |text: &str| Value::from(text.to_owned());
        let mut all = Attributes(Vec::with_capacity(16));
        all.put(a::METHOD, Some(how.verb.as_str().into()));
        let other = (how.verb == Verb::Other).then(|| bounded(self.method.as_str()).into());
        all.put(a::METHOD_ORIGINAL, other);
        all.put(a::SCHEME, Some("http".into()));
        all.put(a::PATH, Some(self.path.clone().into()));
        all.put(a::PROTOCOL_VERSION, Some(version(self.version).into()));
        all.put(
            a::STATUS,
            (how.status > 0).then_some(Value::Whole(how.status.into())),
        );
        all.put(a::ROUTE, route.map(|route| text(route.as_str())));
        all.put(a::TENANT, tenant.map(text));
        all.put(a::COMPARTMENT, self.compartment(route).map(Value::from));
        all.put(a::REASON, how.reason.map(|reason| reason.as_str().into()));
        all.put(
            a::ERROR_TYPE,
            how.error
                .map(Value::from)
                .or_else(|| status_error(how.status, 500)),
        );
        all.put(a::FALLBACK, self.fallback.map(Value::from));
        all.put(a::WAIT, Some(seconds(how.wait_us())));
        all.put(a::HOLD, how.hold_us().map(seconds));
        all.put(
            a::RESPONSE_BYTES,
            i64::try_from(how.bytes).ok().map(Value::Whole),
        );
        all.put(a::REQUEST_ID, self.request_id.as_text().map(text));
        let method = how.verb.as_str();
        let method = if how.verb == Verb::Other {
            "HTTP"
        } else {
            method
        };
        Record {
            kind: Kind::Server,
            name: route.map_or(Text::Fixed(method), |route| {
                Text::from(format!("{method} {route}"))
            }),
            event: None,
            context: Some(context),
            trace_state: self.trace_state.clone(),
            began_unix_ns: core.unix_ns(how.arrived_us),
            ended_unix_ns: core.unix_ns(how.ended_us),
            status: failed(how.error.is_some() || how.status >= 500),
            attributes: all.0,
        }
    }

    fn step_span(&self, core: &Core, context: Context, step: &FallbackStep) -> Record {
        let mut all = Attributes(Vec::with_capacity(2));
        all.put(a::FALLBACK, Some(step.kind.into()));
        // Whoever left in the middle of it let it come to nothing.
        all.put(
            a::FALLBACK_OUTCOME,
            Some(step.outcome.unwrap_or("left").into()),
        );
        Record {
            kind: Kind::Internal,
            name: Text::from(format!("fallback {}", step.kind)),
            event: None,
            context: Some(Context {
                parent: Some(context.span_id),
                span_id: step.span_id,
                ..context
            }),
            trace_state: self.trace_state.clone(),
            began_unix_ns: core.unix_ns(step.began_us),
            ended_unix_ns: core.unix_ns(step.ended_us),
            status: Status::Unset,
            attributes: all.0,
        }
    }

    fn client_span(&self, core: &Core, context: Context, call: &Call, verb: Verb) -> Record {
        let mut all = Attributes(Vec::with_capacity(8));
        all.put(a::METHOD, Some(verb.as_str().into()));
        all.put(
            a::SERVER_ADDRESS,
            Some(call.endpoint.host.to_string().into()),
        );
        all.put(
            a::SERVER_PORT,
            Some(Value::Whole(call.endpoint.port.into())),
        );
        all.put(
            a::STATUS,
            (call.status > 0).then_some(Value::Whole(call.status.into())),
        );
        all.put(
            a::ERROR_TYPE,
            call.error
                .map(Value::from)
                .or_else(|| status_error(call.status, 400)),
        );
        let before = self
            .calls
            .iter()
            .position(|known| known.span_id == call.span_id);
        let before = before
            .and_then(|count| i64::try_from(count).ok())
            .filter(|&n| n > 0);
        all.put(a::RESEND_COUNT, before.map(Value::Whole));
        let name = if verb == Verb::Other {
            "HTTP"
        } else {
            verb.as_str()
        };
        Record {
            kind: Kind::Client,
            name: Text::Fixed(name),
            event: None,
            context: Some(Context {
                parent: Some(call.step.unwrap_or(context.span_id)),
                span_id: call.span_id,
                ..context
            }),
            trace_state: self.trace_state.clone(),
            began_unix_ns: core.unix_ns(call.began_us),
            ended_unix_ns: core.unix_ns(call.ended_us),
            status: failed(call.error.is_some() || call.status >= 400),
            attributes: all.0,
        }
    }

    fn line(&self, core: &Core, route: Option<&Name>, tenant: Option<&str>, how: &Summary) -> Line {
        let upstream_us = self.head_us.zip(how.admitted_us);
        Line {
            at_unix_ms: core.unix_ns(how.arrived_us) / 1_000_000,
            method: bounded(self.method.as_str()),
            path: self.path.clone(),
            protocol: version(self.version),
            status: how.status,
            route: route.map(|route| Text::from(route.as_str().to_owned())),
            tenant: tenant.map(|tenant| Text::from(tenant.to_owned())),
            compartment: self.compartment(route),
            reason: how.reason.map(Reason::as_str),
            fallback: self.fallback,
            wait_us: how.wait_us(),
            hold_us: how.hold_us(),
            upstream_us: upstream_us.map(|(head, since)| head.saturating_sub(since)),
            duration_us: how.ended_us.saturating_sub(how.arrived_us),
            bytes: how.bytes,
            request_id: self.request_id.clone().into_text(),
            trace_id: how.context.map(|context| trace_hex(context.trace_id)),
        }
    }
}

struct Attributes(Vec<(Text, Value)>);

impl Attributes {
    fn put(&mut self, key: &'static str, value: Option<Value>) {
        self.0.extend(value.map(|value| (Text::Fixed(key), value)));
    }
}

const fn failed(failed: bool) -> Status {
    if failed { Status::Error } else { Status::Unset }
}

fn status_error(status: u16, from: u16) -> Option<Value> {
    (status >= from).then(|| status.to_string().into())
}

#[expect(clippy::cast_precision_loss, reason = "285 years are exact")]
fn seconds(us: u64) -> Value {
    Value::Number(us as f64 / 1_000_000.0)
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

fn trace_state(headers: &HeaderMap) -> Option<Text> {
    let value = headers.get(crate::headers::TRACESTATE)?;
    value.to_str().ok().map(bounded)
}
