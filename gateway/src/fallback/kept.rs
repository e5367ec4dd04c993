//! What a step can still use of a request that got no answer.
//!
//! Separate because it is put aside before the request goes anywhere, on routes whose ladder looks
//! at the request, and on no other. It must never hold a permit or a connection.

use std::cell::Cell;
use std::rc::Rc;

use http::request::Parts;

use crate::asked::Asked;
use crate::core::OnRoute;
use crate::request_body::Pump;
use crate::retry::{self, Outgoing};
use crate::stale::{self, Allows};
use crate::streams::Asks;
use crate::visit::Visit;

/// The request, as it is or would have been sent.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) outgoing: Outgoing,
    pub(crate) pump: Option<Rc<Pump>>,
    /// When the whole exchange is over.
    pub(crate) until_us: u64,
    pub(crate) stored: Option<stale::Asked>,
    /// When it was sent to its own upstream; 0: it was not.
    sent_us: Cell<u64>,
    /// Twice is as good as once.
    is_repeatable: bool,
}

/// Puts aside what the ladder of the request's route may need.
///
/// A stream has none of it: it is no answer that could be stored, and what it asks for would
/// hold a slot of the fallback for as long as it likes.
pub(crate) fn keep(
    visit: &mut Visit,
    asked: &mut Asked,
    parts: &mut Parts,
    pump: Option<&Rc<Pump>>,
) {
    let ladder = &asked.lane.0.route.fallback;
    if !ladder.uses_request() || asked.asks != Asks::Call || asked.lane.stream_terms().is_some() {
        return;
    }
    let age_us_max = ladder.age_us_max();
    let retry = asked.lane.0.route.retry.as_ref();
    let is_repeatable = retry::is_safe(retry, &parts.method, &parts.headers);
    let allows = Allows::of(&parts.method, &parts.headers, pump.is_some());
    let outgoing = asked.outgoing(visit, parts, pump.is_some());
    let stored = age_us_max.and_then(|age_us_max| {
        let sent = stale::Sent {
            method: &outgoing.method,
            uri: &outgoing.uri,
            headers: &outgoing.headers,
        };
        stale::Asked::of(&asked.lane, visit.who, sent, allows, age_us_max)
    });
    visit.kept = Some(Box::new(Kept {
        is_repeatable,
        outgoing,
        pump: pump.cloned(),
        until_us: asked.until_us(visit),
        stored,
        sent_us: Cell::new(0),
    }));
}

impl Kept {
    /// The body to send to another upstream; `None` when the request may not go there, because
    /// its own may have acted on it, or because what was read of the body is gone.
    pub(crate) fn body(&self) -> Option<Option<Rc<Pump>>> {
        let is_new = self.sent_us.get() == 0;
        if !is_new && !self.is_repeatable {
            return None;
        }
        let Some(pump) = &self.pump else {
            return Some(None);
        };
        if !is_new {
            if !pump.can_resend() {
                return None;
            }
            pump.rewind();
        }
        Some(Some(Rc::clone(pump)))
    }
}

/// The head to send to its own upstream, which it goes to now.
pub(crate) fn to_send(
    visit: &Visit,
    asked: &mut Asked,
    parts: &mut Parts,
    has_body: bool,
) -> Outgoing {
    let Some(kept) = &visit.kept else {
        return asked.outgoing(visit, parts, has_body);
    };
    kept.sent_us.set(visit.core.now.last_us().max(1));
    kept.outgoing.clone()
}

/// The head of an answer is here, as its upstream sent it: whether a copy of it is to be made.
pub(crate) fn begin_copy(
    visit: &Visit,
    lane: &OnRoute,
    head: &http::response::Parts,
) -> Option<stale::Begun> {
    let kept = visit.kept.as_ref()?;
    let stored = kept.stored.as_ref()?;
    // The other upstream's answers are marked, and are not this route's.
    lane.0.route.fallback.age_us_max()?;
    stored.answered(&visit.core.live.stale, head.status);
    let came = stale::came(&visit.core, kept.sent_us.get());
    stored.begin(head, &kept.outgoing.headers, head.version, came)
}
