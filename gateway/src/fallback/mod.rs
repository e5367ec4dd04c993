//! What answers in place of a rejection or a timeout, step by step in the order of the policy.
//!
//! Separate because full, timed out and open take one way, and it is walked here alone. It must
//! never stand in for a failure of the dependency or a fault of the request, and whatever the
//! request held is back before its first step.

mod fixed;
mod kept;
mod ladder;
mod made;
mod other;
mod stats;

use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::core::{Core, OnRoute};
use crate::error::mark;
use crate::held_body::AnswerBody;
use crate::visit::{Stop, Visit};

pub(crate) use self::kept::{Kept, begin_copy, keep, to_send};
use self::ladder::Step;
pub(crate) use self::ladder::{Kind, Ladder, What};
pub(crate) use self::other::rehearse;
use self::stats::StepStats;
pub(crate) use self::stats::{Kept as KeptStats, Miss};

const FALLBACK: HeaderName = HeaderName::from_static("x-bulkhead-fallback");

/// What a step came to.
#[derive(Debug)]
enum Given {
    /// A whole answer.
    Own(Response<Bytes>),
    /// An upstream's, on its way.
    Held(Box<Response<AnswerBody>>),
    Missed(Miss),
    /// The request itself is at an end: its client left, or its body is broken.
    Over(Stop),
}

/// True when nothing has to be waited or looked for: the error, or a fixed answer.
pub(crate) fn is_at_once(visit: &Visit, stop: &Stop) -> bool {
    let lane = visit.lane.as_ref().filter(|lane| takes(stop, lane));
    let first = lane.and_then(|lane| lane.0.route.fallback.steps.first());
    first.is_none_or(|step| step.what.kind() == Kind::Static)
}

/// The answer to a request that goes no further, where it is given at once.
pub(crate) fn at_once(visit: &Visit, stop: &Stop, mut room: HeaderMap) -> Response<AnswerBody> {
    room.clear();
    visit.count(stop);
    let lane = visit.lane.as_ref().filter(|lane| takes(stop, lane));
    let first = lane.and_then(|lane| lane.0.route.fallback.steps.first());
    match first.map(|step| (step, &step.what)) {
        Some((step, What::Static(fixed))) => {
            begins(visit, Kind::Static);
            let mut answer = fixed.answer(room);
            sign(visit, stop, Kind::Static, answer.headers_mut());
            answered(visit, step, visit.core.now.last_us());
            visit.finish(answer)
        }
        _ => visit.refuse(stop, room),
    }
}

/// The step has answered, asked since `began_us`.
fn answered(visit: &Visit, step: &Step, began_us: u64) {
    ends(visit, ANSWERED);
    let now_us = visit.core.now.last_us();
    step.stats.answered(now_us, now_us.saturating_sub(began_us));
    visit.core.outcomes().count_fallback(step.what.kind());
}

/// The outcome of a step that answered, where requests are told one by one.
const ANSWERED: &str = "answered";

fn begins(visit: &Visit, kind: Kind) {
    if let Some(trail) = &visit.trail {
        trail.step_begins(kind.as_str());
    }
}

fn ends(visit: &Visit, outcome: &'static str) {
    if let Some(trail) = &visit.trail {
        trail.step_ends(outcome);
    }
}

/// A step had no answer: the route's count and the process's go together.
fn missed_by(core: &Core, stats: &StepStats, kind: Kind, why: Miss) {
    stats.missed(why);
    core.outcomes().count_missed(kind, why);
}

/// The answer to a request that goes no further: of the first step that has one, or the error.
///
/// `room` are the request's fields, of which nothing is needed any more but their room. True:
/// an upstream has answered.
pub(crate) async fn answer(
    visit: &mut Visit,
    stop: &Stop,
    mut room: HeaderMap,
) -> (Response<AnswerBody>, bool) {
    room.clear();
    visit.count(stop);
    let lane = visit.lane.clone();
    let lane = lane.filter(|lane| takes(stop, lane));
    let kept = visit.kept.take();
    if let Some(lane) = &lane {
        for step in &lane.0.route.fallback.steps {
            let began_us = visit.core.now.last_us();
            begins(visit, step.what.kind());
            let given = match &step.what {
                What::Stale { .. } => stored(visit, kept.as_deref(), &mut room),
                // Boxed, as all that is rare: every request carries the size of this future.
                What::Upstream(_) => {
                    // Before the answer takes what is told of the request along with its body.
                    visit.stopped(stop, Some(Kind::Upstream));
                    let core = Rc::clone(&visit.core);
                    let mut ask = other::Ask::new(&core, &step.stats);
                    let given = Box::pin(other::ask(visit, lane, kept.as_deref())).await;
                    ask.is_over();
                    given
                }
                What::Static(fixed) => Given::Own(fixed.answer(std::mem::take(&mut room))),
            };
            let kind = step.what.kind();
            let given = match given {
                Given::Own(mut answer) => {
                    sign(visit, stop, kind, answer.headers_mut());
                    (visit.finish(answer), false)
                }
                Given::Held(mut answer) => {
                    sign(visit, stop, kind, answer.headers_mut());
                    (*answer, true)
                }
                Given::Missed(why) => {
                    ends(visit, why.as_str());
                    missed_by(&visit.core, &step.stats, kind, why);
                    continue;
                }
                Given::Over(stop) => {
                    ends(visit, Miss::Client.as_str());
                    missed_by(&visit.core, &step.stats, kind, Miss::Client);
                    visit.count(&stop);
                    return (visit.refuse(&stop, room), false);
                }
            };
            answered(visit, step, began_us);
            return given;
        }
    }
    (visit.refuse(stop, room), false)
}

fn takes(stop: &Stop, lane: &OnRoute) -> bool {
    stop.reason.takes_fallback() && !lane.0.route.fallback.steps.is_empty()
}

/// What every answer in place of another carries.
fn sign(visit: &Visit, stop: &Stop, kind: Kind, headers: &mut HeaderMap) {
    headers.insert(FALLBACK, HeaderValue::from_static(kind.as_str()));
    mark(headers, &visit.said(stop));
    visit.stopped(stop, Some(kind));
}

fn stored(visit: &Visit, kept: Option<&Kept>, room: &mut HeaderMap) -> Given {
    let asked = kept.and_then(|kept| Some((kept, kept.stored.as_ref()?)));
    let Some((kept, stored)) = asked else {
        return Given::Missed(Miss::NotForIt);
    };
    let core = &visit.core;
    // Read anew: it is a bound.
    let now_us = core.now.read_us();
    match stored.give(&core.live.stale, &kept.outgoing.headers, now_us, room) {
        Ok(answer) => Given::Own(answer),
        Err(without) => Given::Missed(without.into()),
    }
}
