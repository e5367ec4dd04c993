//! The body of an answer, which holds what the exchange holds.
//!
//! Separate because this is where permits end: with the last byte, with a failure, or with the
//! drop of a body that nobody wants any more; exactly one of the three. It must never be possible
//! to send a byte of an upstream's answer without it.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use compartment::{Class, Permits, Refusal};
use http::Version;
use http_body::{Body, Frame, SizeHint};

use crate::attempt::Fault;
use crate::breakers::OfBody;
use crate::connection::Connection;
use crate::core::{Core, OnRoute};
use crate::error::grpc_end;
use crate::headers::clean_trailers;
use crate::live_policy::LiveStreams;
use crate::reason::Reason;
use crate::request_body::Pump;
use crate::running;
use crate::stale::Copy;
use crate::timer::Timer;
use crate::trail::Trail;
use crate::upstream::{self, Source};
use crate::visit::{Visit, gone};

/// Permits, and the entry that says how old they are. Dropping it gives both back.
#[derive(Debug)]
pub(crate) struct Slots {
    core: Rc<Core>,
    permits: Permits<OnRoute>,
    entry: running::Entry,
}

impl Slots {
    pub(crate) fn new(core: &Rc<Core>, permits: Permits<OnRoute>, entry: running::Entry) -> Self {
        Self {
            core: Rc::clone(core),
            permits,
            entry,
        }
    }

    /// The exchange turned out to be a stream: a slot of those for one of the route's own.
    pub(crate) fn move_to(&mut self, streams: &OnRoute, class: Class) -> Result<(), Refusal> {
        let terms = streams.stream_terms();
        self.core.now.read_us();
        let sheddable = class == Class::Sheddable;
        self.permits.move_to(streams.clone(), sheddable)?;
        terms.inspect(|terms| self.entry.move_to(terms.mark));
        Ok(())
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // The permits, dropped right after, record how long they were held.
        self.core.now.read_us();
    }
}

/// The body of every answer.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an allocation for each answer would cost more than the room"
)]
pub(crate) enum AnswerBody {
    /// Of our own making, or nothing.
    Own(Option<Bytes>),
    /// An upstream's.
    Held(Held),
}

/// The answer was cut on purpose, or by its upstream. The client must see that.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut: {}", .0.as_str())]
pub(crate) struct Cut(Reason);

/// When an exchange ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) total_at_us: u64,
    /// `u64::MAX` once the permits are back.
    pub(crate) hold_at_us: u64,
    pub(crate) body_idle_us: u64,
    /// These are the bounds of a stream, and run out with reasons of their own.
    pub(crate) of_stream: bool,
}

impl Bounds {
    /// The bounds of an exchange that is a stream from `now_us` on.
    pub(crate) const fn of_stream(self, terms: &LiveStreams, now_us: u64) -> Self {
        Self {
            total_at_us: u64::MAX,
            hold_at_us: now_us.saturating_add(terms.age_us),
            body_idle_us: terms.idle_us,
            of_stream: true,
        }
    }

    /// The bound that runs out first. On a tie the whole exchange goes first.
    pub(crate) fn first(&self) -> (u64, Reason) {
        if self.total_at_us <= self.hold_at_us {
            (self.total_at_us, Reason::TotalTimeout)
        } else {
            let reason = match self.of_stream {
                true => Reason::StreamAge,
                false => Reason::MaxHold,
            };
            (self.hold_at_us, reason)
        }
    }
}

/// An upstream's body on its way to the client.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) parts: Option<Parts>,
    bounds: Bounds,
    /// `None`: something moved, and nobody has looked at a clock since.
    progress_us: Option<u64>,
    /// What the client had sent of its own body when we last looked.
    uploaded: u64,
    /// Why the answer is about to be cut.
    cut: Option<Reason>,
    /// The client reads gRPC's own end.
    grpc: bool,
    core: Rc<Core>,
    connection: Rc<Connection>,
}

/// What is given back when the body ends. The connection first: while a permit is out, whatever
/// the upstream does for it may still be going on.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) source: Source,
    pub(crate) pump: Option<Rc<Pump>>,
    pub(crate) timer: Timer,
    /// `None`: they were given back at the head.
    pub(crate) slots: Option<Slots>,
    /// Of an answer that is stored when its end has come.
    pub(crate) copy: Option<Box<Copy>>,
    /// Learns when the upstream cuts what had begun well.
    pub(crate) of_body: Option<OfBody>,
    /// Last, so told when the permits are back and the clock was read for them.
    pub(crate) trail: Option<Box<Trail>>,
}

impl Held {
    pub(crate) fn new(parts: Parts, bounds: Bounds, visit: &Visit) -> Self {
        let (core, connection) = (&visit.core, &visit.connection);
        let grpc = visit.grpc && visit.version == Version::HTTP_2;
        Self {
            parts: Some(parts),
            bounds,
            progress_us: None,
            uploaded: 0,
            cut: None,
            grpc,
            core: Rc::clone(core),
            connection: Rc::clone(connection),
        }
    }

    /// The last byte was read: everything goes back, the connection to its pool.
    fn end(&mut self) {
        if let Some(parts) = self.parts.take() {
            parts.end(&self.core);
        }
    }

    /// Everything goes back now. The client is told with the next look at this body: what was
    /// passed on before must have left first, or hyper would throw it away with the connection.
    fn fail<T>(&mut self, reason: Reason, cx: &mut Context<'_>) -> Poll<T> {
        self.core.outcomes().count(reason);
        self.cut_trail(reason);
        let parts = self.parts.take();
        if let Some(of_body) = parts.as_ref().and_then(|parts| parts.of_body.as_ref()) {
            of_body.cut(&self.core, reason);
        }
        drop(parts);
        self.cut = Some(reason);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let Some(parts) = &mut self.parts else {
            return Poll::Ready(self.cut.take().map(|reason| match self.grpc {
                true => Ok(Frame::trailers(grpc_end(reason))),
                false => Err(Cut(reason)),
            }));
        };
        // What is there already goes out first; then the connection is moved, and looked at again.
        for moved in [false, true] {
            if moved {
                // Before the connection is moved: it would end with the client's fault, and the
                // upstream would be blamed for it.
                if let Some(Err(fault)) = parts.pump.as_ref().map(|pump| pump.fill(cx)) {
                    return self.fail(Fault::Client(fault).reason(), cx);
                }
                parts.source.poll(cx);
            }
            match parts.source.next_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => return Poll::Ready(Some(Ok(self.pass(frame)))),
                Poll::Ready(Some(Err(cut))) => {
                    let fault = match cut {
                        upstream::Cut::Http1(error) => crate::attempt::fault_of(&error),
                        upstream::Cut::Http2(broken) => broken.into(),
                    };
                    return self.fail(fault.reason(), cx);
                }
                Poll::Ready(None) => {
                    self.end();
                    return Poll::Ready(None);
                }
                Poll::Pending => {}
            }
        }
        if parts.source.has_ended() {
            // Never seen; without it such a body would only end by its bounds.
            return self.fail(Reason::UpstreamReset, cx);
        }
        let reason = ready!(self.poll_bounds(cx));
        self.fail(reason, cx)
    }

    fn cut_trail(&self, reason: Reason) {
        if let Some(trail) = self.parts.as_ref().and_then(|parts| parts.trail.as_ref()) {
            trail.cut(reason);
        }
    }

    fn trail_passed(&self, bytes: usize) {
        if let Some(trail) = self.parts.as_ref().and_then(|parts| parts.trail.as_ref()) {
            trail.passed(bytes);
        }
    }

    /// A client that does not read keeps this body from being looked at; a bound of the exchange
    /// that ran out meanwhile goes first all the same.
    fn why_abandoned(&self) -> Reason {
        let reason = gone(&self.connection);
        let (first_us, bound) = self.bounds.first();
        // Whoever cuts has just read the clock.
        if reason == Reason::SlowClient && first_us <= self.core.now.last_us() {
            return bound;
        }
        reason
    }

    fn pass(&mut self, mut frame: Frame<Bytes>) -> Frame<Bytes> {
        if let Some(trailers) = frame.trailers_mut() {
            clean_trailers(trailers);
        }
        self.trail_passed(frame.data_ref().map_or(0, Bytes::len));
        self.copy(&frame);
        let source = self.parts.as_ref().map(|parts| &parts.source);
        if frame.is_trailers() || source.is_none_or(Source::is_end_stream) {
            // Before the last byte can reach the client, whose next request may need the slot.
            self.end();
        } else {
            self.progress_us = None;
        }
        frame
    }

    /// What has trailers is no answer that could be given again without them.
    fn copy(&mut self, frame: &Frame<Bytes>) {
        let Some(parts) = &mut self.parts else { return };
        let Some(copy) = &mut parts.copy else { return };
        if !frame.data_ref().is_some_and(|data| copy.take(data)) {
            parts.copy = None;
        }
    }

    fn poll_bounds(&mut self, cx: &mut Context<'_>) -> Poll<Reason> {
        let Some(parts) = &mut self.parts else {
            return Poll::Pending;
        };
        // Progress of either side counts.
        let uploaded = parts.pump.as_ref().map_or(0, |pump| pump.progress());
        if uploaded != self.uploaded {
            self.uploaded = uploaded;
            self.progress_us = None;
        }
        let progress_us = *self
            .progress_us
            .get_or_insert_with(|| self.core.now.read_us());
        let (first_us, reason) = self.bounds.first();
        let idle_us = progress_us.saturating_add(self.bounds.body_idle_us);
        // Silence in the middle of an answer is the dependency's failure, not a timeout of ours
        // that a retry or a fallback could still repair; unless it waits for the client.
        let (at_us, reason) = if idle_us < first_us {
            let client = parts
                .pump
                .as_ref()
                .is_some_and(|pump| pump.waits_for_client());
            let reason = match client {
                _ if self.bounds.of_stream => Reason::StreamIdle,
                true => Fault::BodyIdle.reason(),
                false => Fault::Reset.reason(),
            };
            (idle_us, reason)
        } else {
            (first_us, reason)
        };
        parts.timer.poll_until(at_us, cx).map(|_| reason)
    }
}

impl Parts {
    /// The exchange came to its clean end.
    pub(crate) fn end(self, core: &Core) {
        let Self {
            source,
            slots,
            copy,
            trail,
            ..
        } = self;
        // Reads the clock. The connection is at rest by now, so the order does not matter.
        drop(slots);
        source.end(core.now.last_us());
        if let Some(copy) = copy {
            copy.end(&core.live.stale);
        }
        drop(trail);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Ended and failed bodies hold nothing any more: this one was abandoned.
        if let Some(mut parts) = self.parts.take() {
            let trail = parts.trail.take();
            drop(parts);
            let reason = self.why_abandoned();
            self.core.outcomes().count(reason);
            if let Some(trail) = trail {
                trail.cut(reason);
            }
        }
    }
}

impl AnswerBody {
    /// When it ends at the latest. A client that hardly reads keeps it from being looked at, so
    /// the connection keeps this bound too.
    pub(crate) fn ends_at_us(&self) -> u64 {
        match self {
            Self::Own(_) => u64::MAX,
            Self::Held(held) => held.bounds.first().0,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match &mut *self {
            Self::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Held(held) => held.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.as_ref().is_none_or(Bytes::is_empty),
            Self::Held(held) => held.parts.is_none() && held.cut.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => {
                let length = body.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Self::Held(held) => match &held.parts {
                Some(parts) => parts.source.size_hint(),
                None => SizeHint::default(),
            },
        }
    }
}
