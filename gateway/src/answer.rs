//! An upstream's answer on its way to the client, from its head on.
//!
//! Separate because here the exchange hands what it holds to the body, or lets it go when there is
//! no body to wait for. It must never lose the permits on the way.

use std::rc::Rc;

use compartment::Permits;
use compartment::policy::HoldUntil;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode, Version};

use crate::admission;
use crate::attempt::Reply;
use crate::breakers::OfBody;
use crate::core::OnRoute;
use crate::fallback;
use crate::headers;
use crate::held_body::{AnswerBody, Bounds, Held, Parts, Slots};
use crate::request_body::Pump;
use crate::running::Marks;
use crate::stale;
use crate::streams;
use crate::timer::Timer;
use crate::tunnel;
use crate::visit::{Stop, Visit};

/// What an exchange holds when the head of its answer has come.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) pump: Option<Rc<Pump>>,
    pub(crate) timer: Timer,
    pub(crate) bounds: Bounds,
    pub(crate) slots: Slots,
    pub(crate) of_body: Option<OfBody>,
}

/// Puts permits that were just given on the table of what runs.
pub(crate) fn slots(visit: &Visit, lane: &OnRoute, permits: Permits<OnRoute>) -> Slots {
    let route = &lane.0.route;
    let marks = Marks {
        route: lane
            .stream_terms()
            .map_or(route.route_mark, |terms| terms.mark),
        upstream: route.upstream_mark,
        tenant: lane.0.people.mark(visit.who),
    };
    let core = &visit.core;
    if let Some(trail) = &visit.trail {
        trail.admitted(core.now.last_us());
    }
    Slots::new(core, permits, core.running.begin(core.now.last_us(), marks))
}

/// The answer to pass on.
pub(crate) fn of(
    visit: &mut Visit,
    lane: &OnRoute,
    reply: Reply,
    exchange: Exchange,
) -> Result<Response<AnswerBody>, Stop> {
    let Reply { head, source } = reply;
    let Exchange {
        pump,
        timer,
        mut bounds,
        slots,
        of_body,
    } = exchange;
    let (mut head, ()) = head.into_parts();
    let switched = head.status == StatusCode::SWITCHING_PROTOCOLS;
    let is_events = streams::is_event_stream(&head.headers);
    let begun = fallback::begin_copy(visit, lane, &head).filter(|_| !is_events);
    let via = visit.core.live.via.of(head.version);
    headers::to_client(&mut head.headers, &visit.request_id, via);
    if let Some(fields) = &lane.0.route.fields {
        fields.to_client(&mut head.headers);
    }
    // What the client speaks is hyper's to know; the upstream's version ends here.
    head.version = Version::HTTP_11;
    if head.status == StatusCode::NO_CONTENT {
        head.headers.remove(CONTENT_LENGTH);
    }
    if let Some(trail) = &visit.trail {
        trail.answered(head.status, 0);
    }
    let mut parts = Parts {
        source,
        pump,
        timer,
        slots: Some(slots),
        copy: stale::copy(begun, &head, &visit.core),
        of_body,
        trail: None,
    };
    if switched {
        headers::switch_to_websocket(&mut head.headers);
        tunnel::prepare(visit, parts, bounds)?;
        return Ok(Response::from_parts(head, AnswerBody::Own(None)));
    }
    if parts.source.is_end_stream() {
        parts.trail = visit.trail.take();
        parts.end(&visit.core);
        return Ok(Response::from_parts(head, AnswerBody::Own(None)));
    }
    if is_events && let Some(streams) = lane.for_streams(visit.who) {
        // Refused, the upstream's connection goes first, then the permits.
        become_stream(visit, &streams, &mut parts, &mut bounds)?;
    }
    // Nothing can refuse it any more: it is told with its body.
    parts.trail = visit.trail.take();
    if lane.0.route.hold_until == HoldUntil::Headers && !bounds.of_stream {
        parts.slots = None;
        if let Some(trail) = &parts.trail {
            trail.released(visit.core.now.last_us());
        }
        bounds.hold_at_us = u64::MAX;
    }
    let held = Held::new(parts, bounds, visit);
    Ok(Response::from_parts(head, AnswerBody::Held(held)))
}

/// The answer is a stream that nobody had asked for by name.
fn become_stream(
    visit: &Visit,
    streams: &OnRoute,
    parts: &mut Parts,
    bounds: &mut Bounds,
) -> Result<(), Stop> {
    let class = admission::class_of(streams, visit.who);
    if let Some(slots) = &mut parts.slots {
        slots.move_to(streams, class).map_err(Stop::from)?;
        // What it is told by must not hold the policy for as long as it lasts.
        visit.goes(streams);
    }
    if let Some(terms) = streams.stream_terms() {
        *bounds = bounds.of_stream(terms, visit.core.now.last_us());
    }
    Ok(())
}
