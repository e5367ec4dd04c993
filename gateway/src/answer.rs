//! An upstream's answer on its way to the client, from its head on.
//!
//! Separate because here the exchange hands what it holds to the body, or lets it go when there is
//! no body to wait for. It must never lose the permits on the way.

use std::rc::Rc;

use compartment::Permits;
use compartment::policy::HoldUntil;
use http::header::CONTENT_LENGTH;
use http::{Response, StatusCode, Version};
use http_body::Body;

use crate::admission;
use crate::attempt::Reply;
use crate::core::OnRoute;
use crate::headers;
use crate::held_body::{AnswerBody, Bounds, Held, Parts, Slots};
use crate::request_body::Pump;
use crate::running::Marks;
use crate::timer::Timer;
use crate::visit::Visit;

/// What an exchange holds when the head of its answer has come.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) pump: Option<Rc<Pump>>,
    pub(crate) timer: Timer,
    pub(crate) bounds: Bounds,
    pub(crate) slots: Slots,
}

/// Puts permits that were just given on the table of what runs.
pub(crate) fn slots(visit: &Visit, lane: &OnRoute, permits: Permits<OnRoute>) -> Slots {
    let route = &lane.0.route;
    let marks = Marks {
        route: route.route_mark,
        upstream: route.upstream_mark,
        tenant: admission::mark_of(&lane.0.policy, visit.who),
    };
    let core = &visit.core;
    Slots::new(core, permits, core.running.begin(core.now.last_us(), marks))
}

/// The answer to pass on.
pub(crate) fn of(
    visit: &Visit,
    lane: &OnRoute,
    reply: Reply,
    exchange: Exchange,
) -> Response<AnswerBody> {
    let Reply {
        response,
        wire,
        pool,
    } = reply;
    let Exchange {
        pump,
        timer,
        mut bounds,
        slots,
    } = exchange;
    let (mut head, incoming) = response.into_parts();
    headers::to_client(&mut head.headers, &visit.request_id, head.version);
    // What the client speaks is hyper's to know; the upstream's version ends here.
    head.version = Version::HTTP_11;
    if head.status == StatusCode::NO_CONTENT {
        head.headers.remove(CONTENT_LENGTH);
    }
    let mut parts = Parts {
        wire,
        pool,
        pump,
        timer,
        slots: Some(slots),
    };
    if incoming.is_end_stream() {
        parts.end(&visit.core);
        return Response::from_parts(head, AnswerBody::Own(None));
    }
    if lane.0.route.hold_until == HoldUntil::Headers {
        parts.slots = None;
        bounds.hold_at_us = u64::MAX;
    }
    let held = Held::new(incoming, parts, bounds, &visit.core, &visit.connection);
    Response::from_parts(head, AnswerBody::Held(held))
}
