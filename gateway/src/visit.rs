//! One request from its arrival to its answer: what every layer knows of it.
//!
//! Separate so that each layer is a function of the visit and says no in one way. A visit that
//! ends early becomes an answer here, counted and logged once. It must never hold a permit.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use compartment::Refusal;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version};

use telemetry::names::event;

use crate::attempt::Fault;
use crate::connection::{Connection, Fate};
use crate::core::{Core, OnRoute};
use crate::error::{REQUEST_ID, Refuser, Said, own_answer};
use crate::fallback::{Kept, Kind};
use crate::headers::TRACEPARENT;
use crate::held_body::AnswerBody;
use crate::ids::{RequestId, trace_id};
use crate::live_policy::LivePolicy;
use crate::newest::Noted;
use crate::reason::Reason;
use crate::streams::is_grpc;
use crate::tenant::Who;
use crate::trail::Trail;

/// What is known of a request.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) core: Rc<Core>,
    pub(crate) connection: Rc<Connection>,
    pub(crate) arrived_us: u64,
    pub(crate) version: Version,
    pub(crate) is_head: bool,
    pub(crate) request_id: RequestId,
    /// The peer's forwarding fields are believed.
    pub(crate) trusted: bool,
    /// The caller's own, for the log.
    traceparent: Option<HeaderValue>,
    pub(crate) grpc: bool,
    /// Once it is known.
    pub(crate) lane: Option<OnRoute>,
    pub(crate) who: Who,
    /// It came to an answer. If not, the client left before.
    pub(crate) ended: bool,
    /// What a step of its route's fallback can still use of it.
    pub(crate) kept: Option<Box<Kept>>,
    /// What is told of it; goes on with the answer's body. Boxed: a connection carries the room
    /// of a request all its life.
    pub(crate) trail: Option<Box<Trail>>,
}

/// A request goes no further.
#[derive(Debug)]
pub(crate) struct Stop {
    pub(crate) reason: Reason,
    /// What the compartment said that refused.
    pub(crate) refusal: Option<Refusal>,
    /// What the caller can do about it, in fixed words.
    pub(crate) detail: Option<&'static str>,
    /// Says more than the reason's own.
    pub(crate) proxy_status: Option<&'static str>,
}

/// A request that ends before the upstream is asked, or without its answer.
#[derive(Debug)]
pub(crate) enum Early {
    Stop(Stop),
    /// It asked about the gateway itself.
    Options,
}

impl From<Stop> for Early {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            refusal: None,
            detail: None,
            proxy_status: None,
        }
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        let reason = Reason::Rejected(refusal.rejection);
        Self {
            reason,
            refusal: Some(refusal),
            detail: None,
            proxy_status: None,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        let proxy_status = match fault {
            Fault::Connect(why) => Some(why.proxy_status()),
            Fault::Reset
            | Fault::Protocol
            | Fault::Attempt
            | Fault::Bound(_)
            | Fault::BodyIdle
            | Fault::Client(_) => None,
        };
        Self {
            proxy_status,
            ..Self::from(fault.reason())
        }
    }
}

impl Stop {
    pub(crate) const fn with(reason: Reason, detail: &'static str) -> Self {
        Self {
            reason,
            refusal: None,
            detail: Some(detail),
            proxy_status: None,
        }
    }
}

impl Visit {
    /// Reads the clock: everything about this request is counted from here.
    pub(crate) fn begin(
        core: Rc<Core>,
        connection: Rc<Connection>,
        parts: &Parts,
        policy: Option<&LivePolicy>,
    ) -> Self {
        let arrived_us = core.now.read_us();
        let trusted = policy.is_some_and(|policy| policy.trusts(connection.peer().ip()));
        let given = parts.headers.get(REQUEST_ID).filter(|_| trusted);
        let request_id = given.and_then(RequestId::of_proxy);
        let request_id = request_id.unwrap_or_else(|| core.request_id(arrived_us));
        Self {
            trail: Some(Box::new(Trail::begin(
                &core,
                parts,
                arrived_us,
                &request_id,
            ))),
            request_id,
            core,
            connection,
            arrived_us,
            version: parts.version,
            is_head: parts.method == Method::HEAD,
            trusted,
            traceparent: parts.headers.get(TRACEPARENT).cloned(),
            grpc: is_grpc(&parts.headers),
            lane: None,
            who: Who::Nobody,
            kept: None,
            ended: false,
        }
    }

    /// Where it goes and whose it is, as far as that is known.
    pub(crate) fn goes(&self, lane: &OnRoute) {
        if let Some(trail) = &self.trail {
            trail.goes(lane, self.who);
        }
    }

    /// Counts and logs that the request goes no further. Whatever it held is back by now.
    pub(crate) fn count(&self, stop: &Stop) {
        self.core.outcomes().count(stop.reason);
        self.log(stop);
        self.note(stop);
    }

    /// The error, where nothing stands in for it. `room` is a map whose room is used again.
    pub(crate) fn refuse(&self, stop: &Stop, room: HeaderMap) -> Response<AnswerBody> {
        self.stopped(stop, None);
        self.finish(own_answer(&self.said(stop), room))
    }

    /// Remembers why, and what stood in.
    pub(crate) fn stopped(&self, stop: &Stop, fallback: Option<Kind>) {
        if let Some(trail) = &self.trail {
            let key = stop.refusal.as_ref().map(|refusal| &refusal.key);
            trail.stopped(stop.reason, key, fallback.map(Kind::as_str));
        }
    }

    /// What an answer of ours says about it.
    pub(crate) fn said<'a>(&'a self, stop: &'a Stop) -> Said<'a> {
        Said {
            reason: stop.reason,
            request_id: &self.request_id,
            refuser: stop.refusal.as_ref().map(|refusal| Refuser {
                key: &refusal.key,
                level: refusal.level,
                limit: refusal.limit.slots(),
                drain_us: refusal.drain_us,
                tenant: self.own_limit(),
            }),
            detail: stop.detail,
            proxy_status: stop.proxy_status,
            random: self.core.ids.next(),
            version: self.version,
            grpc: self.grpc,
        }
    }

    /// The trace it belongs to: ours while traces go out, else as the caller says.
    fn trace_hex(&self) -> Option<String> {
        let own = self.trail.as_ref().and_then(|trail| trail.context);
        let told = || {
            self.traceparent
                .as_ref()
                .and_then(trace_id)
                .map(str::to_owned)
        };
        own.map(|context| telemetry::trace_hex(context.trace_id))
            .or_else(told)
    }

    /// Its span, where that is kept.
    fn span_hex(&self) -> Option<String> {
        let own = self.trail.as_ref().and_then(|trail| trail.context);
        let kept = own.filter(|context| context.sampled);
        kept.map(|context| telemetry::span_hex(context.span_id))
    }

    /// The identified tenant's limit, and how much of it is left.
    fn own_limit(&self) -> Option<(u32, u32)> {
        let own = self.lane.as_ref()?.0.people.identified(self.who)?;
        let limit = own.limit().slots()?;
        Some((limit, limit.saturating_sub(own.in_flight())))
    }

    /// The answer to a request about the gateway itself.
    pub(crate) fn options(&self) -> Response<AnswerBody> {
        let mut answer = Response::new(Bytes::new());
        *answer.status_mut() = StatusCode::NO_CONTENT;
        let methods = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        answer.headers_mut().insert(http::header::ALLOW, methods);
        answer
            .headers_mut()
            .insert(REQUEST_ID, self.request_id.header());
        self.finish(answer)
    }

    /// HEAD is answered without a body, whatever the answer.
    pub(crate) fn finish(&self, answer: Response<Bytes>) -> Response<AnswerBody> {
        if let Some(trail) = &self.trail {
            let bytes = if self.is_head { 0 } else { answer.body().len() };
            trail.answered(answer.status(), bytes);
        }
        answer.map(|body| AnswerBody::Own((!self.is_head && !body.is_empty()).then_some(body)))
    }

    /// A sample of the newest rejections, for the page of the compartment.
    fn note(&self, stop: &Stop) {
        let Some(refusal) = &stop.refusal else { return };
        if !self.core.gates.opens(&refusal.key, self.arrived_us) {
            return;
        }
        let lane = self.lane.as_ref().map(|lane| &lane.0);
        let tenant = lane.and_then(|lane| lane.people.name(self.who));
        self.core.live.newest.note(Noted {
            key: Arc::clone(&refusal.key),
            reason: stop.reason.as_str(),
            tenant: tenant.map(str::to_owned),
            trace_id: self.trace_hex(),
            request_id: self.request_id.as_text().unwrap_or_default().to_owned(),
            at_us: self.arrived_us,
        });
    }

    /// A refusal by a limit, sampled: a line for each would make a flood of requests a flood of
    /// writes.
    fn log(&self, stop: &Stop) {
        let Some(refusal) = &stop.refusal else { return };
        if !self.core.may_log(self.arrived_us) {
            return;
        }
        let lane = self.lane.as_ref().map(|lane| &lane.0);
        let passage = lane.map(|lane| &lane.route.passage);
        tracing::info!(
            reason = stop.reason.as_str(),
            compartment.key = &*refusal.key,
            compartment.limit = %refusal.limit,
            compartment.queued = passage.map(|passage| passage.queued()),
            route.id = lane.map(|lane| lane.route.id.as_str()),
            tenant.id = lane.and_then(|lane| lane.people.name(self.who)),
            trace.id = self.trace_hex(),
            span.id = self.span_hex(),
            request.id = std::str::from_utf8(self.request_id.as_bytes()).unwrap_or_default(),
            "{}",
            event::REQUEST_REJECTED
        );
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.ended || std::thread::panicking() {
            return;
        }
        // Dropped while the answer was being waited for: nobody is there to get it, or it is told
        // of the end of the process, and counted with that.
        let reason = gone(&self.connection);
        if let Some(trail) = &self.trail {
            trail.cut(reason);
        }
        if reason != Reason::Draining {
            self.core.outcomes().count(reason);
        }
    }
}

/// Why a client got no answer, or only a part of it.
pub(crate) fn gone(connection: &Connection) -> Reason {
    match connection.fate() {
        Fate::SlowClient => Reason::SlowClient,
        Fate::Refused => Reason::Draining,
        Fate::Open | Fate::ClientGone | Fate::Abuser => Reason::ClientGone,
    }
}
