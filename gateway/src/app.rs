//! The request path: the layers in their order, on one screen.
//!
//! Separate so that the order can be read, and argued about, in one place. It must never contain a
//! rule of its own: each layer is a function of another module.

use std::rc::Rc;

use http::request::Parts;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::admission;
use crate::answer::{self, Exchange};
use crate::asked;
use crate::attempt::Attempts;
use crate::breakers;
use crate::connection::Connection;
use crate::core::{Core, Snapshot};
use crate::fallback;
use crate::held_body::AnswerBody;
use crate::reason::Reason;
use crate::retry::{self, Terms};
use crate::tarpit;
use crate::timer::Timer;
use crate::visit::{Early, Stop, Visit};
use crate::waiting;

use compartment::Entry;

/// Answers one request; every failure is an answer.
pub(crate) fn serve(
    core: Rc<Core>,
    connection: Rc<Connection>,
    request: Request<Incoming>,
) -> impl Future<Output = Response<AnswerBody>> {
    let (parts, body) = request.into_parts();
    answer_to(core, connection, parts, Some(body))
}

async fn answer_to(
    core: Rc<Core>,
    connection: Rc<Connection>,
    mut parts: Parts,
    mut body: Option<Incoming>,
) -> Response<AnswerBody> {
    // One look at the policy: whatever changes meanwhile, this request has one set of rules.
    let snapshot = core.snapshot();
    let policy = snapshot.as_ref().map(|snapshot| &*snapshot.policy);
    let mut visit = Visit::begin(core, connection, &parts, policy);
    let passed = pass(&mut visit, snapshot, &mut parts, &mut body).await;
    match passed {
        Ok(answer) => {
            visit.ended = true;
            visit.connection.refusals().set(0);
            answer
        }
        // Full and timed out take the same fallback; everything else keeps its own face. What the
        // request held is back by now.
        Err(Early::Stop(stop)) => {
            let (answer, is_served) = match fallback::is_at_once(&visit, &stop) {
                true => (fallback::at_once(&visit, &stop, parts.headers), false),
                // Boxed, as all that is rare: every request carries the size of this future.
                false => Box::pin(fallback::answer(&mut visit, &stop, parts.headers)).await,
            };
            visit.ended = true;
            if is_served {
                visit.connection.refusals().set(0);
            } else if tarpit::holds(stop.reason, visit.connection.refusals()) {
                // A caller that asks again the instant it is refused takes the neighbours' core.
                Box::pin(tarpit::hold(&visit.core)).await;
            }
            answer
        }
        Err(Early::Options) => {
            visit.ended = true;
            visit.options()
        }
    }
}

/// The stack, outermost layer first. P6 stands here, top to bottom: breaker, permits, retry, the
/// attempt's time. The total bound runs from the arrival: over the wait, every attempt, every
/// back-off and the body.
async fn pass(
    visit: &mut Visit,
    snapshot: Option<Rc<Snapshot>>,
    parts: &mut Parts,
    body: &mut Option<Incoming>,
) -> Result<Response<AnswerBody>, Early> {
    // Without a policy nothing is known, so nothing is let through: never unlimited.
    let snapshot = snapshot.ok_or(Stop::from(Reason::NoPolicy))?;
    // The head, the route, the caller: free to refuse, and nothing is taken yet.
    let mut asked = asked::identify(visit, &snapshot, parts)?;
    drop(snapshot);
    let (core, lane) = (Rc::clone(&visit.core), asked.lane.clone());
    let terms = Terms::of(lane.0.route.retry.as_ref(), &parts.method, &parts.headers);
    let pump = asked.pump(visit, body, terms.may_repeat());
    // Before anything can refuse: what a step of the fallback may need.
    fallback::keep(visit, &mut asked, parts, pump.as_ref());
    let mut timer = Timer::new(&core.timers);
    // 1. The breaker: an upstream that is not worth asking costs nobody a slot.
    let mut leave = breakers::ask(&core, &lane, asked.is_hurried()).map_err(Stop::from)?;
    // 2. The permits. Partitions first, the ceiling last, all or none, in one instant; before
    //    anything of the upstream is touched, so that a refusal costs next to nothing.
    let entry = admission::ask(&core, &lane, visit.who, asked.until_us(visit));
    let permits = match entry {
        Entry::Admitted(permits) => Ok(permits),
        Entry::Refused(refusal) => Err(Stop::from(refusal)),
        // In line, inside the caller's own deadline: a wait that cannot pay off is not begun.
        // Boxed, as all that is rare: every request carries the size of this future.
        Entry::Waiting(place) => {
            let patience = asked.patience(visit);
            leave.rest();
            // On its turn its upstream may not be worth asking any more: nothing is admitted then.
            let may_go = || leave.again(&core);
            let (line, pump) = ((place, patience), pump.as_ref());
            Box::pin(waiting::wait(&core, line, pump, &mut timer, may_go)).await
        }
    };
    let permits = permits.inspect_err(|stop| leave.refused(&core, stop))?;
    // From here on whatever ends this future gives the permits back, after the connection.
    let bounds = asked.bounds(visit);
    let slots = answer::slots(visit, &lane, permits);
    let trail = visit.trail.as_deref();
    let mut attempts = Attempts::new(
        (&core, &lane),
        pump.clone(),
        &mut timer,
        bounds,
        trail,
        &mut leave,
    );
    let reply = match attempts.look_at_body().await {
        Ok(()) => {
            let mut outgoing = fallback::to_send(visit, &mut asked, parts, pump.is_some());
            // 3. Retries, inside the permits: another attempt takes no second slot.
            // 4. Each attempt has its time, in `Attempts::attempt`: no hung call holds a slot.
            retry::run(&mut attempts, &mut outgoing, &terms).await
        }
        Err(fault) => Err(fault),
    };
    // On a failure the slots drop here, before any fallback is given.
    let reply = reply.map_err(Stop::from)?;
    let exchange = Exchange {
        pump,
        timer,
        bounds,
        slots,
        of_body: leave.of_body(),
    };
    // The permits go with the body, to its last byte.
    Ok(answer::of(visit, &lane, reply, exchange)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The future is moved a few times for every request, a refused one too.
    #[test]
    fn the_future_of_a_request_is_small() {
        fn size_of<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
            std::mem::size_of::<F>()
        }
        let bytes = size_of(serve);
        assert!(bytes <= 3_100, "{bytes}");
    }
}
