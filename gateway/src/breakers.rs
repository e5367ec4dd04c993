//! The breakers of this process, and what a request has to do with its upstream's.
//!
//! Separate because a breaker is pure: here its changes are logged, and what became of an attempt
//! is put into its words. It must never count what a client, or a limit of ours, did.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use compartment::breaker::{Breaker, BreakerFigures, BreakerState, Change, Outcome, Pass};
use compartment::policy::Policy;
use compartment::{Refusal, Rejection, RetryRefusal, refuse_by_breaker};
use telemetry::names::event;

use crate::attempt::{Fault, Reply};
use crate::core::{Core, OnRoute};
use crate::error::GRPC_STATUS;
use crate::reason::Reason;
use crate::visit::Stop;

/// How long a probe may wait for its client in all: how the upstream does is not told meanwhile.
const PROBE_PATIENCE_US: u64 = 1_000_000;

/// By upstream. A name keeps its breaker as long as a policy has it, whatever its rules.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<HashMap<String, Arc<Breaker>>>);

impl Breakers {
    /// Puts a policy's rules in force.
    pub(crate) fn apply(&self, policy: &Policy, now_us: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named: HashSet<&str> = policy.upstreams.iter().map(|own| own.id.as_str()).collect();
        kept.retain(|name, _| named.contains(name.as_str()));
        for upstream in &policy.upstreams {
            let breaker = kept.entry(upstream.id.as_str().to_owned()).or_default();
            let change = breaker.set(upstream.breaker.as_ref(), upstream.force_breaker, now_us);
            tell(&format!("upstream/{}", upstream.id), change);
        }
    }

    /// The breaker of an upstream of the policy.
    pub(crate) fn of(&self, upstream: &str) -> Arc<Breaker> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(upstream).cloned().unwrap_or_default()
    }

    /// What those that have rules say of themselves, by the key of the upstream.
    pub(crate) fn figures(&self, now_us: u64) -> HashMap<String, BreakerFigures> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.iter();
        let said = all.filter_map(|(name, own)| {
            let figures = own.figures(now_us)?;
            Some((format!("upstream/{name}"), figures))
        });
        said.collect()
    }
}

/// The breaker of a route's upstream, found by the route.
#[derive(Clone, Debug)]
struct OfRoute(OnRoute);

impl Deref for OfRoute {
    type Target = Breaker;

    fn deref(&self) -> &Breaker {
        &self.0.0.route.breaker
    }
}

/// The breaker let this request through: it tells what its attempts came to. Dropped without a
/// word, it gives the place of a probe back.
#[derive(Debug)]
pub(crate) struct Leave {
    pass: Pass<OfRoute>,
    /// The whole exchange ends by the caller's own deadline, or spent some of its time in our own
    /// line: that it ends by its bound says nothing of the upstream.
    is_hurried: bool,
    /// The last attempt was answered well.
    is_answered: bool,
}

/// Asks the breaker of the lane's upstream. A refusal counts there and nowhere else.
pub(crate) fn ask(core: &Core, lane: &OnRoute, is_hurried: bool) -> Result<Leave, Refusal> {
    let (answer, change) = Breaker::ask(OfRoute(lane.clone()), core.now.last_us());
    tell(lane.0.route.passage.upstream().key(), change);
    match answer {
        Ok(pass) => Ok(Leave {
            pass,
            is_hurried,
            is_answered: false,
        }),
        Err(shut) => Err(refuse_by_breaker(lane, shut.wait_us)),
    }
}

impl Leave {
    fn lane(&self) -> &OnRoute {
        &self.pass.holder().0
    }

    /// The request waits for something that is not the upstream: no place of a probe waits with it.
    pub(crate) fn rest(&mut self) {
        self.pass.rest();
    }

    /// When a probe that waits for its client since then, and has waited for so long before, keeps
    /// its place from others no longer.
    pub(crate) fn rests_us(&self, since_us: u64, waited_us: u64) -> u64 {
        match self.pass.is_probe() {
            true => since_us.saturating_add(PROBE_PATIENCE_US.saturating_sub(waited_us)),
            false => u64::MAX,
        }
    }

    /// On its turn after a wait: what held when it came may not hold any more.
    pub(crate) fn again(&mut self, core: &Core) -> Result<(), Refusal> {
        *self = ask(core, &self.lane().clone(), true)?;
        Ok(())
    }

    /// One attempt is over. `waits`: for bytes that the client has not sent, or for nobody yet, so
    /// that the time it took was not the upstream's.
    pub(crate) fn tell(&mut self, core: &Core, result: &Result<Reply, Fault>, waits: bool) {
        self.is_answered = false;
        let outcome = match result {
            Err(Fault::Bound(_)) if waits => return,
            Ok(reply) if is_failure(&reply.head) => Outcome::Failed,
            Ok(_) => Outcome::Answered,
            Err(fault) if is_its_own(*fault, self.is_hurried) => Outcome::Failed,
            Err(_) => return,
        };
        self.is_answered = outcome == Outcome::Answered;
        let now_us = match outcome {
            Outcome::Answered => core.now.last_us(),
            Outcome::Failed => core.now.read_us(),
        };
        let change = self.pass.tell(outcome, now_us);
        tell(self.lane().0.route.passage.upstream().key(), change);
    }

    /// A limit refused the request, or its wait came to nothing.
    pub(crate) fn refused(&self, core: &Core, stop: &Stop) {
        let Reason::Rejected(rejection) = stop.reason else {
            return;
        };
        if speaks_of_all(rejection) {
            let change = self.pass.refused(core.now.last_us());
            tell(self.lane().0.route.passage.upstream().key(), change);
        }
    }

    /// True while another attempt would be let through.
    pub(crate) fn is_good(&self) -> bool {
        self.pass.is_good()
    }

    /// What goes with the body of an answer that began well.
    pub(crate) fn of_body(&self) -> Option<OfBody> {
        self.is_answered.then(|| OfBody {
            lane: self.lane().clone(),
            era: self.pass.era(),
        })
    }
}

/// An answer that was counted as good when its head came.
#[derive(Debug)]
pub(crate) struct OfBody {
    lane: OnRoute,
    era: u64,
}

impl OfBody {
    /// It came to an end before its end, for this reason.
    pub(crate) fn cut(&self, core: &Core, reason: Reason) {
        if let Reason::UpstreamReset | Reason::UpstreamProtocol = reason {
            let route = &self.lane.0.route;
            if let Some(retry) = &route.retry {
                retry.counts.refuse(RetryRefusal::Begun);
            }
            let change = route.breaker.cut(self.era, core.now.read_us());
            tell(route.passage.upstream().key(), change);
        }
    }
}

/// An answer from 500 on, or what gRPC says in its place when it has nothing else to say.
fn is_failure<B>(head: &http::Response<B>) -> bool {
    let grpc = head.headers().get(GRPC_STATUS);
    // UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS.
    let failed = [b"2".as_slice(), b"4", b"13", b"14", b"15"];
    head.status().is_server_error() || grpc.is_some_and(|code| failed.contains(&code.as_bytes()))
}

/// The dependency's doing.
const fn is_its_own(fault: Fault, is_hurried: bool) -> bool {
    match fault {
        Fault::Connect(_) | Fault::Reset | Fault::Protocol | Fault::Attempt => true,
        Fault::Bound(Reason::TotalTimeout) => !is_hurried,
        // Before the head it is the dependency's time, unless the client was waited for.
        Fault::Bound(_) => true,
        Fault::BodyIdle | Fault::Client(_) => false,
    }
}

/// A refusal that could be a sign of the dependency: not what one caller used up or was late for,
/// nor what an operator closed.
const fn speaks_of_all(rejection: Rejection) -> bool {
    match rejection {
        Rejection::RouteFull
        | Rejection::ClassReserve
        | Rejection::StreamFull
        | Rejection::UpstreamFull
        | Rejection::GatewayFull
        | Rejection::SpareExhausted
        | Rejection::QueueFull
        | Rejection::QueueTimeout => true,
        Rejection::TenantFull
        | Rejection::TenantRouteFull
        | Rejection::TenantShare
        | Rejection::DeadlineTooShort
        | Rejection::Closed
        | Rejection::BreakerOpen => false,
    }
}

fn tell(key: &str, change: Option<Change>) {
    let Some(change) = change else { return };
    let (failed, of) = change.failed_of.unzip();
    match change.to {
        BreakerState::Open | BreakerState::ForcedOpen => tracing::warn!(
            compartment.key = key,
            breaker.from = change.from.as_str(),
            breaker.to = change.to.as_str(),
            breaker.failed = failed,
            breaker.calls = of,
            "{}",
            event::BREAKER_CHANGED
        ),
        BreakerState::Closed | BreakerState::HalfOpen | BreakerState::ForcedClosed => {
            tracing::info!(
                compartment.key = key,
                breaker.from = change.from.as_str(),
                breaker.to = change.to.as_str(),
                "{}",
                event::BREAKER_CHANGED
            );
        }
    }
}
