//! The step that asks another dependency.
//!
//! Separate because here a request that was let go of takes slots again: those of
//! `route/ID/fallback`, of the other upstream and of the ceiling, all or none, and by the same
//! attempt as any other. It must never send twice what its own upstream may have acted on.

use std::rc::Rc;

use compartment::{Caller, Class, Entry, enter};
use http::StatusCode;

use super::stats::StepStats;
use super::{Given, Kept, Kind, Miss, missed_by};
use crate::admission;
use crate::answer::{self, Exchange};
use crate::attempt::{Attempts, Fault, Reply};
use crate::breakers;
use crate::core::{Core, OnRoute};
use crate::held_body::{Bounds, Slots};
use crate::retry::{self, Outgoing, Terms};
use crate::running::{Mark, Marks};
use crate::timer::Timer;
use crate::visit::{Stop, Visit};

/// A step under way. Dropped with the future that it runs in, its client has left.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    core: &'a Core,
    stats: &'a StepStats,
    is_over: bool,
}

impl<'a> Ask<'a> {
    pub(super) const fn new(core: &'a Core, stats: &'a StepStats) -> Self {
        Self {
            core,
            stats,
            is_over: false,
        }
    }

    pub(super) const fn is_over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            missed_by(self.core, self.stats, Kind::Upstream, Miss::Client);
        }
    }
}

/// One attempt at the other upstream of this route.
pub(super) async fn ask(visit: &mut Visit, lane: &OnRoute, kept: Option<&Kept>) -> Given {
    let (Some(kept), Some(other)) = (kept, lane.for_fallback()) else {
        return Given::Missed(Miss::NotRepeatable);
    };
    let core = Rc::clone(&visit.core);
    let now_us = core.now.read_us();
    if kept.until_us <= now_us {
        return Given::Missed(Miss::NoTime);
    }
    let Some(pump) = kept.body() else {
        return Given::Missed(Miss::NotRepeatable);
    };
    // The same order as of a route: its breaker, its slots, one attempt with its time. What ends
    // is the request's own time here, which says nothing of this upstream.
    let Ok(mut leave) = breakers::ask(&core, &other, true) else {
        return Given::Missed(Miss::BreakerOpen);
    };
    let class = admission::class_of(&other, visit.who);
    let Some(slots) = admit(&core, &other, class) else {
        return Given::Missed(Miss::Full);
    };
    if let Some(trail) = &visit.trail {
        trail.goes(&other, visit.who);
    }
    let bounds = bounds(&other, now_us, kept.until_us);
    let mut timer = Timer::new(&core.timers);
    let trail = visit.trail.as_deref();
    let lanes = (&*core, &other);
    let mut attempts = Attempts::new(lanes, pump.clone(), &mut timer, bounds, trail, &mut leave);
    let mut outgoing = kept.outgoing.clone();
    outgoing.speaks(other.0.route.http2);
    let reply = retry::run(&mut attempts, &mut outgoing, &Terms::ONCE).await;
    let given = match reply {
        Ok(reply) if !reply.head.status().is_server_error() => Ok(reply),
        Ok(_) => {
            attempts.will_repeat(core.now.read_us());
            Err(Given::Missed(Miss::ServerError))
        }
        Err(fault) => Err(missed(fault)),
    };
    match given {
        Ok(reply) => pass_on(
            visit,
            &other,
            reply,
            Exchange {
                pump,
                timer,
                bounds,
                slots,
                of_body: leave.of_body(),
            },
        ),
        Err(given) => {
            // Its connection has gone before; now its slots, before the next step.
            drop(slots);
            if let Some(trail) = &visit.trail {
                trail.goes(lane, visit.who);
            }
            given
        }
    }
}

/// One attempt for nobody: the status of its answer, of which nothing more is read.
pub(crate) async fn rehearse(
    core: &Rc<Core>,
    other: &OnRoute,
    mut outgoing: Outgoing,
) -> Result<StatusCode, Miss> {
    let now_us = core.now.read_us();
    let leave = breakers::ask(core, other, true);
    let mut leave = leave.map_err(|_| Miss::BreakerOpen)?;
    let class = other.0.route.class;
    let slots = admit(core, other, class).ok_or(Miss::Full)?;
    let until_us = now_us.saturating_add(other.0.route.total_us);
    let mut timer = Timer::new(&core.timers);
    let bounds = bounds(other, now_us, until_us);
    let lanes = (&**core, other);
    let mut attempts = Attempts::new(lanes, None, &mut timer, bounds, None, &mut leave);
    let reply = retry::run(&mut attempts, &mut outgoing, &Terms::ONCE).await;
    let status = match reply {
        Ok(reply) => Ok(reply.head.status()),
        Err(fault) => Err(match missed(fault) {
            Given::Missed(miss) => miss,
            Given::Own(_) | Given::Held(_) | Given::Over(_) => Miss::Client,
        }),
    };
    // Its connection has gone before.
    drop(slots);
    status.and_then(|status| match status.is_server_error() {
        true => Err(Miss::ServerError),
        false => Ok(status),
    })
}

fn bounds(other: &OnRoute, now_us: u64, until_us: u64) -> Bounds {
    let route = &other.0.route;
    Bounds {
        total_at_us: until_us,
        hold_at_us: now_us.saturating_add(route.hold_us),
        body_idle_us: route.body_idle_us,
        of_stream: false,
    }
}

/// Slots of the fallback and of the other upstream; no tenant's, which are back and stay so.
fn admit(core: &Rc<Core>, other: &OnRoute, class: Class) -> Option<Slots> {
    let caller = Caller {
        tenant: None,
        class,
        route_limit: None,
        until_us: None,
    };
    let entry = enter(other.clone(), caller, &mut core.cells().borrow_mut());
    let permits = match entry {
        Entry::Admitted(permits) => permits,
        // Nobody waits for a slot of a fallback.
        Entry::Refused(_) | Entry::Waiting(_) => return None,
    };
    let marks = Marks {
        route: other.0.route.route_mark,
        upstream: other.0.route.upstream_mark,
        tenant: Mark::default(),
    };
    let entry = core.running.begin(core.now.last_us(), marks);
    Some(Slots::new(core, permits, entry))
}

fn pass_on(visit: &mut Visit, other: &OnRoute, reply: Reply, exchange: Exchange) -> Given {
    super::ends(visit, super::ANSWERED);
    match answer::of(visit, other, reply, exchange) {
        Ok(answer) => Given::Held(Box::new(answer)),
        Err(stop) => Given::Over(stop),
    }
}

/// What this says of the step; a client's own fault ends the request with its own face.
fn missed(fault: Fault) -> Given {
    match fault {
        Fault::Connect(_) => Given::Missed(Miss::Connect),
        Fault::Reset | Fault::Protocol => Given::Missed(Miss::Reset),
        Fault::Attempt | Fault::Bound(_) => Given::Missed(Miss::Timeout),
        Fault::BodyIdle | Fault::Client(_) => Given::Over(Stop::from(fault)),
    }
}
