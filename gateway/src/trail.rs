//! What is remembered of a request until it is told: durations, a span, a line.
//!
//! Separate because it goes with the request from its arrival to its answer's last byte, and is
//! told exactly once, however that ends. It must never hold a permit; while nobody asks for traces
//! or lines it must neither allocate nor read a clock.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use telemetry::{Context, Example, SpanId};

use crate::core::{Core, OnRoute};
use crate::headers::TRACEPARENT;
use crate::http_stats::{Series, Verb};
use crate::ids::{self, RequestId};
use crate::reason::Reason;
use crate::tenant::Who;
use crate::told::{Call, Detail, FallbackStep, Summary};
use crate::upstream::EndpointPool;

/// One request on its way.
#[derive(Debug)]
pub(crate) struct Trail {
    core: Rc<Core>,
    arrived_us: u64,
    verb: Verb,
    /// 0: never.
    admitted_us: Cell<u64>,
    /// 0: not yet, or never admitted.
    released_us: Cell<u64>,
    /// 0: no answer.
    status: Cell<u16>,
    reason: Cell<Option<Reason>>,
    /// The answer did not come to its end.
    cut: Cell<bool>,
    over: Cell<bool>,
    bytes: Cell<u64>,
    lane: RefCell<Option<(OnRoute, Who)>>,
    attempt: Cell<Option<Attempt>>,
    /// `None` while no traces go out.
    pub(crate) context: Option<Context>,
    /// Of a request that is told by itself.
    detail: Option<Box<RefCell<Detail>>>,
}

/// The attempt under way.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    /// Place among the route's endpoints.
    endpoint: usize,
    since_us: u64,
    status: u16,
}

impl Trail {
    pub(crate) fn begin(
        core: &Rc<Core>,
        parts: &Parts,
        arrived_us: u64,
        request_id: &RequestId,
    ) -> Self {
        let caller = || parts.headers.get(TRACEPARENT);
        let context = core
            .sampler
            .map(|sampler| core.ids.context(caller(), sampler));
        let is_logged = core
            .tell
            .access_log
            .as_ref()
            .is_some_and(|log| log.takes(core.ids.next()));
        let is_told = is_logged || context.is_some_and(|context| context.sampled);
        let detail = is_told.then(|| {
            let detail = Detail::of(parts, request_id, is_logged, context);
            Box::new(RefCell::new(detail))
        });
        Self {
            core: Rc::clone(core),
            arrived_us,
            verb: Verb::of(&parts.method),
            admitted_us: Cell::new(0),
            released_us: Cell::new(0),
            status: Cell::new(0),
            reason: Cell::new(None),
            cut: Cell::new(false),
            over: Cell::new(false),
            bytes: Cell::new(0),
            lane: RefCell::new(None),
            attempt: Cell::new(None),
            context,
            detail,
        }
    }

    /// Where the request goes, and whose it is as far as that is known.
    pub(crate) fn goes(&self, lane: &OnRoute, who: Who) {
        *self.lane.borrow_mut() = Some((lane.clone(), who));
    }

    /// It has its permits.
    pub(crate) fn admitted(&self, now_us: u64) {
        self.admitted_us.set(now_us.max(1));
    }

    /// The permits went back before the answer's end.
    pub(crate) fn released(&self, now_us: u64) {
        self.released_us.set(now_us);
    }

    /// The head of the answer that the client gets. `bytes`: of its body, if all of it is known.
    pub(crate) fn answered(&self, status: http::StatusCode, bytes: usize) {
        self.status.set(status.as_u16());
        self.bytes.set(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// It got no upstream's answer: a compartment refused, or something went wrong.
    pub(crate) fn stopped(
        &self,
        reason: Reason,
        key: Option<&Arc<str>>,
        fallback: Option<&'static str>,
    ) {
        self.reason.set(Some(reason));
        if let Some(detail) = &self.detail {
            detail.borrow_mut().stopped(key, fallback);
        }
    }

    /// So many more bytes of the answer's body.
    pub(crate) fn passed(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// The answer ends here, before its end.
    pub(crate) fn cut(&self, reason: Reason) {
        self.reason.set(Some(reason));
        self.cut.set(true);
    }

    /// An endpoint is tried. The trace context to send, where it is another than the request's.
    pub(crate) fn tries(
        &self,
        endpoint: usize,
        pool: &EndpointPool,
        now_us: u64,
    ) -> Option<HeaderValue> {
        // One that gave no connection, before this one.
        self.attempt_ended(Some(Reason::UpstreamConnect), now_us);
        self.attempt.set(Some(Attempt {
            endpoint,
            since_us: now_us,
            status: 0,
        }));
        let context = self.context.filter(|context| context.sampled)?;
        let span_id: SpanId = (self.core.ids.next() | 1).to_be_bytes();
        let call = Call {
            span_id,
            began_us: now_us,
            ended_us: now_us,
            status: 0,
            error: None,
            endpoint: pool.target.endpoint.clone(),
            step: None,
        };
        self.detail.as_ref()?.borrow_mut().calls(call);
        let own = Context { span_id, ..context };
        self.core
            .tell
            .telemetry
            .propagates()
            .then(|| ids::traceparent_of(own))
    }

    /// A step of the fallback is asked; attempts until its end are its own.
    pub(crate) fn step_begins(&self, kind: &'static str) {
        let Some(detail) = self.sampled() else { return };
        let now_us = self.core.now.read_us();
        detail.borrow_mut().step_begins(FallbackStep {
            span_id: (self.core.ids.next() | 1).to_be_bytes(),
            kind,
            began_us: now_us,
            ended_us: now_us,
            outcome: None,
        });
    }

    /// What it came to: its answer has a head, or why there is none.
    pub(crate) fn step_ends(&self, outcome: &'static str) {
        if let Some(detail) = self.sampled() {
            let now_us = self.core.now.read_us();
            detail.borrow_mut().step_ends(now_us, outcome);
        }
    }

    fn sampled(&self) -> Option<&RefCell<Detail>> {
        self.context.filter(|context| context.sampled)?;
        self.detail.as_deref()
    }

    /// The head of an answer came.
    pub(crate) fn attempt_answered(&self, status: http::StatusCode) {
        if let Some(attempt) = self.attempt.get() {
            self.attempt.set(Some(Attempt {
                status: status.as_u16(),
                ..attempt
            }));
        }
        if let Some(detail) = &self.detail {
            detail.borrow_mut().head_came(self.core.now.read_us());
        }
    }

    /// The attempt is over; another one may follow.
    pub(crate) fn attempt_ended(&self, reason: Option<Reason>, now_us: u64) {
        let Some(attempt) = self.attempt.take() else {
            return;
        };
        let error = reason.map(Reason::as_str);
        let series = Series {
            status: attempt.status,
            verb: self.verb,
            error,
        };
        let lane = self.lane.borrow();
        let durations = lane
            .as_ref()
            .and_then(|(lane, _)| lane.0.client.get(attempt.endpoint));
        if let Some(durations) = durations {
            let us = now_us.saturating_sub(attempt.since_us);
            durations.record(&self.core.live.http, series, us, None);
        }
        if let Some(detail) = &self.detail {
            detail
                .borrow_mut()
                .call_ended(now_us, attempt.status, error);
        }
    }

    /// Everything is known. The clock was read when the permits went back.
    pub(crate) fn finish(&self) {
        if self.over.replace(true) {
            return;
        }
        let core = &self.core;
        let now_us = match self.detail {
            Some(_) => core.now.read_us(),
            None => core.now.last_us(),
        };
        let (status, reason) = (self.status.get(), self.reason.get());
        let failed = status == 0 || status >= 500 || self.cut.get();
        let error = reason.filter(|_| failed).map(Reason::as_str);
        self.attempt_ended(reason.filter(|_| self.cut.get() || status == 0), now_us);
        let series = Series {
            status,
            verb: self.verb,
            error,
        };
        let us = now_us.saturating_sub(self.arrived_us);
        let lane = self.lane.borrow();
        let durations = lane
            .as_ref()
            .map_or(&core.unrouted, |(lane, _)| &*lane.0.server);
        durations.record(&core.live.http, series, us, self.example(us, now_us));
        if let Some(detail) = &self.detail {
            detail.borrow().tell(
                core,
                lane.as_ref(),
                &Summary {
                    context: self.context,
                    arrived_us: self.arrived_us,
                    ended_us: now_us,
                    admitted_us: Some(self.admitted_us.get()).filter(|&us| us > 0),
                    released_us: Some(self.released_us.get()).filter(|&us| us > 0),
                    status,
                    verb: self.verb,
                    reason,
                    error,
                    bytes: self.bytes.get(),
                },
            );
        }
    }

    fn example(&self, us: u64, now_us: u64) -> Option<Example> {
        let context = self.context.filter(|context| context.sampled)?;
        self.core.tell.telemetry.takes_examples().then(|| Example {
            us,
            at_unix_ns: self.core.unix_ns(now_us),
            trace_id: context.trace_id,
            span_id: context.span_id,
        })
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        self.finish();
    }
}
