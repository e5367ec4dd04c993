//! The request path: the layers in their order, on one screen.
//!
//! Separate so that the order can be read, and argued about, in one place. It must never contain a
//! rule of its own: each layer is a function of another module.

use std::rc::Rc;

use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

use crate::admission;
use crate::answer::{self, Exchange};
use crate::asked;
use crate::attempt::Attempts;
use crate::connection::Connection;
use crate::core::{Core, Snapshot};
use crate::fallback;
use crate::held_body::AnswerBody;
use crate::reason::Reason;
use crate::request_body::Pump;
use crate::retry;
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

/// The stack, outermost layer first.
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
    // Partitions first, the ceiling last, all or none, in one instant. Before anything of the
    // upstream is touched, so that a refusal costs next to nothing.
    let until_us = asked.until_us(visit);
    let entry = admission::ask(&visit.core, &asked.lane, visit.who, until_us);
    let (core, lane) = (Rc::clone(&visit.core), asked.lane.clone());
    let mut timer = Timer::new(&core.timers);
    let terms = retry::terms(lane.0.route.retry.as_ref(), &parts.method, &parts.headers);
    let limit = asked.body_bytes_max(visit);
    let keep = terms.is_some() || asked.may_be_sent_again();
    let body = body.take().filter(|body| !body.is_end_stream());
    let pump = body.map(|body| Pump::new(body, limit, keep));
    fallback::keep(visit, &mut asked, parts, pump.as_ref());
    let permits = match entry {
        Entry::Admitted(permits) => permits,
        Entry::Refused(refusal) => return Err(Stop::from(refusal).into()),
        // In line, inside the caller's own deadline: a wait that cannot pay off is not begun.
        // Boxed, as all that is rare: every request carries the size of this future.
        Entry::Waiting(place) => {
            let patience = asked.patience(visit);
            Box::pin(waiting::wait(
                &core,
                place,
                patience,
                pump.as_ref(),
                &mut timer,
            ))
            .await?
        }
    };
    // From here on whatever ends this future gives the permits back, after the connection.
    let bounds = asked.bounds(visit);
    let slots = answer::slots(visit, &lane, permits);
    // Attempts run inside the permits, each with a clock of its own: a retry takes no second slot,
    // and a hung call holds none for ever.
    let trail = visit.trail.as_deref();
    let mut attempts = Attempts::new(&core, &lane, pump.clone(), &mut timer, bounds, trail);
    let reply = match attempts.look_at_body().await {
        Ok(()) => {
            let mut outgoing = fallback::to_send(visit, &mut asked, parts, pump.is_some());
            retry::run(&mut attempts, &mut outgoing, terms).await
        }
        Err(fault) => Err(fault),
    };
    // On a failure the slots drop here, before any fallback is given.
    let reply = reply.map_err(Stop::from)?;
    // The permits go with the body, to its last byte.
    let answer = answer::of(
        visit,
        &lane,
        reply,
        Exchange {
            pump,
            timer,
            bounds,
            slots,
        },
    );
    Ok(answer?)
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
