//! One request's attempts at its upstream, inside the permits it already holds.
//!
//! Separate because three clocks, a client that may leave and an upstream that may do anything
//! meet here, in one place that is polled as a whole: dropping it drops the connection. It must
//! never send a request twice unless its route, its method and the budget allow it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::header::UPGRADE;
use http::{Request, Response, StatusCode};

use crate::breakers::Leave;
use crate::core::{Choice, Core, OnRoute, RouteLane};
use crate::framing::{Framing, framing};
use crate::headers::{TRACEPARENT, names_websocket};
use crate::held_body::Bounds;
use crate::reason::Reason;
use crate::remaining;
use crate::request_body::{BodyFault, Pump, RequestBody};
use crate::timer::Timer;
use crate::trail::Trail;
use crate::upstream::{Aim, EndpointPool, Source, Tried, Unreached};

/// Most endpoints that one attempt tries to connect to.
const ENDPOINTS_TRIED_MAX: u32 = 3;

/// Why an attempt brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No connection.
    Connect(Unreached),
    /// The upstream closed before the head.
    Reset,
    /// What the upstream sent cannot be read without doubt.
    Protocol,
    /// The attempt's own time.
    Attempt,
    /// A bound of the whole exchange.
    Bound(Reason),
    /// The client's body stopped coming, or comes too slowly.
    BodyIdle,
    /// The client's body.
    Client(BodyFault),
}

impl Fault {
    /// The endpoint's own, and neither the client's nor a bound's that others had a part in.
    const fn is_of_upstream(self) -> bool {
        match self {
            Self::Connect(_) | Self::Reset | Self::Protocol | Self::Attempt => true,
            Self::Bound(_) | Self::BodyIdle | Self::Client(_) => false,
        }
    }

    pub(crate) const fn reason(self) -> Reason {
        match self {
            Self::Connect(_) => Reason::UpstreamConnect,
            Self::Reset => Reason::UpstreamReset,
            Self::Protocol => Reason::UpstreamProtocol,
            Self::Attempt => Reason::AttemptTimeout,
            Self::Bound(reason) => reason,
            Self::BodyIdle => Reason::RequestTimeout,
            Self::Client(BodyFault::TooLarge) => Reason::BodyTooLarge,
            Self::Client(BodyFault::Broken) => Reason::BadRequest,
            Self::Client(BodyFault::Gone) => Reason::ClientGone,
        }
    }
}

/// What an error of hyper's client says about the upstream.
pub(crate) fn fault_of(error: &hyper::Error) -> Fault {
    if error.is_parse() {
        return Fault::Protocol;
    }
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let io = error
            .downcast_ref::<std::io::Error>()
            .map(std::io::Error::kind);
        if let Some(std::io::ErrorKind::InvalidData | std::io::ErrorKind::InvalidInput) = io {
            return Fault::Protocol;
        }
        cause = error.source();
    }
    Fault::Reset
}

/// The head of an answer, and the connection that its body comes from.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Response<()>,
    pub(crate) source: Source,
}

/// One request at its upstream.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    pub(crate) core: &'a Core,
    pub(crate) lane: &'a OnRoute,
    pub(crate) pump: Option<Rc<Pump>>,
    pub(crate) timer: &'a mut Timer,
    pub(crate) bounds: Bounds,
    trail: Option<&'a Trail>,
    /// Learns what each attempt came to.
    pub(crate) leave: &'a mut Leave,
    /// About to be sent. Kept here and not handed from call to call: it is large.
    pub(crate) request: Option<Request<RequestBody>>,
    attempt_at_us: u64,
    waits: Option<Waits>,
    /// How long the client was waited for before that.
    waited_us: u64,
    /// Until when a connection may be waited for. `None`: none was needed yet.
    connect_until_us: Option<u64>,
    /// By this attempt.
    tried: Tried,
    /// Where this attempt or an earlier one came to nothing: the last ones to be tried.
    failed: Tried,
    /// The request asks for another protocol.
    pub(crate) asks_switch: bool,
}

/// Since when the upstream waits for the client's own bytes.
#[derive(Clone, Copy, Debug)]
struct Waits {
    since_us: u64,
    progress: u64,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(
        (core, lane): (&'a Core, &'a OnRoute),
        pump: Option<Rc<Pump>>,
        timer: &'a mut Timer,
        bounds: Bounds,
        trail: Option<&'a Trail>,
        leave: &'a mut Leave,
    ) -> Self {
        Self {
            core,
            lane,
            pump,
            timer,
            bounds,
            trail,
            leave,
            request: None,
            attempt_at_us: u64::MAX,
            waits: None,
            waited_us: 0,
            connect_until_us: None,
            tried: Tried::default(),
            failed: Tried::default(),
            asks_switch: false,
        }
    }

    /// Reads the beginning of the client's body, if it is here already: what is broken from the
    /// start must not reach the upstream.
    pub(crate) async fn look_at_body(&mut self) -> Result<(), Fault> {
        let Some(pump) = self.pump.clone() else {
            return Ok(());
        };
        let mut looked = false;
        poll_fn(|cx| {
            pump.fill(cx).map_err(Fault::Client)?;
            if pump.is_end_awaited() {
                return self.poll_bounds(cx).map(Err);
            }
            if looked || pump.has_begun() {
                return Poll::Ready(Ok(()));
            }
            // hyper reads for us only when it is polled again.
            looked = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// What the next attempt sends.
    pub(crate) fn set_request(&mut self, request: Request<RequestBody>) {
        self.asks_switch = request.headers().contains_key(UPGRADE);
        self.request = Some(request);
    }

    /// One attempt, which may try several endpoints but sends the request once.
    pub(crate) async fn attempt(&mut self) -> Result<Reply, Fault> {
        let result = self.at_endpoints().await;
        let pump = self.pump.as_ref();
        let waits = pump.is_some_and(|pump| pump.waits_for_client());
        // A bound that was over before any endpoint was tried is nobody's failure.
        let is_sent = self.tried.count() > 0;
        self.leave.tell(self.core, &result, waits || !is_sent);
        let Some(trail) = self.trail else {
            return result;
        };
        match &result {
            Ok(reply) => trail.attempt_answered(reply.head.status()),
            Err(fault) => trail.attempt_ended(Some(fault.reason()), self.core.now.read_us()),
        }
        result
    }

    /// Says which endpoint is tried, and gives the request the context of this attempt and what
    /// is left of its time.
    fn tries(&mut self, index: usize, pool: &EndpointPool, now_us: u64) {
        let trail = self.trail;
        let context = trail.and_then(|trail| trail.tries(index, pool, now_us));
        let Some(request) = self.request.as_mut() else {
            return;
        };
        let headers = request.headers_mut();
        if let Some(context) = context {
            headers.insert(TRACEPARENT, context);
        }
        let field = self.lane.0.route.deadline_header.as_ref();
        remaining::tell(headers, field, self.bounds.total_at_us, now_us);
    }

    async fn at_endpoints(&mut self) -> Result<Reply, Fault> {
        let now_us = self.core.now.last_us();
        self.attempt_at_us = now_us.saturating_add(self.lane.0.route.attempt_us);
        self.waits = None;
        self.tried = Tried::default();
        let (first_us, reason) = self.bounds.first();
        if first_us <= now_us {
            // A deadline that had passed when the request came: nobody waits for the answer.
            return Err(Fault::Bound(reason));
        }
        let lane = Rc::clone(&self.lane.0);
        // Of several endpoints the last one's trouble is told. A policy has at least one.
        let mut unreached = Unreached::Name;
        self.connect_until_us = None;
        while self.tried.count() < ENDPOINTS_TRIED_MAX
            && let Some((index, pool)) = self.choose(&lane)
        {
            // Little is kept over an await: every request carries the size of this future.
            let aim = self.aim_at(index, pool);
            let asked = match lane.route.http2 {
                // Boxed: other upstreams' requests carry no room for it.
                true => Box::pin(self.over_http2(pool)).await,
                false => self.over_http1(pool).await,
            };
            match asked {
                Ok(Ok(mut reply)) => {
                    let aim = aim.answered(reply.head.status(), &self.core.now);
                    reply.source.keep(aim);
                    return Ok(reply);
                }
                Ok(Err(why)) => {
                    aim.failed(self.core.now.read_us());
                    unreached = why;
                }
                Err(fault) => {
                    if fault.is_of_upstream() {
                        aim.failed(self.core.now.read_us());
                    }
                    return Err(fault);
                }
            }
        }
        Err(Fault::Connect(unreached))
    }

    fn choose<'l>(&self, lane: &'l RouteLane) -> Option<Choice<'l>> {
        let (core, tried) = (self.core, (self.tried, self.failed));
        lane.choose(core.now.last_us(), tried, &core.ids)
    }

    /// The request goes to this endpoint. Until that brings an answer to pass on, later attempts
    /// prefer others.
    fn aim_at(&mut self, index: usize, pool: &Rc<EndpointPool>) -> Aim {
        self.tried = self.tried.with(index);
        self.failed = self.failed.with(index);
        let now_us = self.core.now.last_us();
        self.tries(index, pool, now_us);
        Aim::at(pool, now_us, self.lane.0.pools.len() > 1)
    }

    /// How long the endpoint under way may take to connect: each gets its part of what is left, so
    /// that one that is silent leaves some, and all together no more than the policy says.
    pub(crate) fn connect_share(&mut self) -> Duration {
        let now_us = self.core.now.read_us();
        let route = &self.lane.0.route;
        let until_us = *self
            .connect_until_us
            .get_or_insert_with(|| now_us.saturating_add(route.connect_us));
        let endpoints = u32::try_from(self.lane.0.pools.len()).unwrap_or(u32::MAX);
        let tries = endpoints.min(ENDPOINTS_TRIED_MAX);
        let left = u64::from(tries.saturating_sub(self.tried.count()).saturating_add(1));
        Duration::from_micros(until_us.saturating_sub(now_us) / left)
    }

    /// This attempt's answer is not passed on.
    pub(crate) fn will_repeat(&self, now_us: u64) {
        if let Some(trail) = self.trail {
            trail.attempt_ended(None, now_us);
        }
    }

    /// Waits before the next attempt.
    pub(crate) async fn back_off(&mut self, pause_us: u64) -> Result<(), Fault> {
        let until_us = self.core.now.read_us().saturating_add(pause_us);
        poll_fn(|cx| {
            self.poll_client(cx)?;
            let (first_us, reason) = self.bounds.first();
            ready!(self.timer.poll_until(until_us.min(first_us), cx));
            let over = self.core.now.read_us() >= first_us;
            Poll::Ready(if over {
                Err(Fault::Bound(reason))
            } else {
                Ok(())
            })
        })
        .await
    }

    /// Keeps reading the client's body: that is how a client that leaves is noticed.
    pub(crate) fn poll_client(&self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let Some(pump) = &self.pump else {
            return Ok(());
        };
        pump.fill(cx).map_err(Fault::Client)
    }

    /// Ready when a bound has run out. The attempt's clock stands while the upstream waits for
    /// the client, who has a bound of its own.
    pub(crate) fn poll_bounds(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let waits = self.look_at_waits();
        let (first_us, reason) = self.bounds.first();
        let (at_us, fault) = match waits {
            None => (self.attempt_at_us, Fault::Attempt),
            Some(since_us) => {
                let patience_us = self.bounds.body_idle_us.min(self.patience_us());
                (since_us.saturating_add(patience_us), Fault::BodyIdle)
            }
        };
        let (at_us, fault) = if at_us < first_us {
            (at_us, fault)
        } else {
            (first_us, Fault::Bound(reason))
        };
        let rests_us = waits.map_or(u64::MAX, |us| self.leave.rests_us(us, self.waited_us));
        if rests_us < at_us {
            ready!(self.timer.poll_until(rests_us, cx));
            self.leave.rest();
        }
        self.timer.poll_until(at_us, cx).map(|_| fault)
    }

    /// How much longer the client may be waited for, after all that it was waited for before. A
    /// stream may be silent for as long as its own bounds allow.
    fn patience_us(&self) -> u64 {
        if self.bounds.of_stream {
            return u64::MAX;
        }
        let sent_bytes = self.pump.as_ref().map_or(0, |pump| pump.read_bytes());
        let rate = self.core.live.least_rate;
        rate.patience_us(sent_bytes).saturating_sub(self.waited_us)
    }

    /// Since when the client has sent nothing that the upstream waits for.
    fn look_at_waits(&mut self) -> Option<u64> {
        let pump = self.pump.as_ref()?;
        let (waiting, progress) = (pump.waits_for_client(), pump.progress());
        match self.waits {
            Some(known) if waiting && known.progress == progress => Some(known.since_us),
            None if !waiting => None,
            known => {
                let now_us = self.core.now.read_us();
                let stood_us = known.map_or(0, |known| now_us.saturating_sub(known.since_us));
                self.attempt_at_us = self.attempt_at_us.saturating_add(stood_us);
                self.waited_us = self.waited_us.saturating_add(stood_us);
                self.waits = waiting.then_some(Waits {
                    since_us: now_us,
                    progress,
                });
                self.waits.map(|waits| waits.since_us)
            }
        }
    }
}

/// One framing, or a switch to the protocol that was asked for and no other.
pub(crate) fn is_readable<B>(response: &Response<B>, asks_switch: bool) -> bool {
    match framing(response.headers()) {
        Ok(framing) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            asks_switch && framing == Framing::None && names_websocket(response.headers())
        }
        Ok(_) => true,
        Err(_) => false,
    }
}
