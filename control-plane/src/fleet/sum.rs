//! One gateway's figures added to those of others.
//!
//! Separate from who is heard. It must never drop a figure: what a gateway tells is in the sum.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::breaker::BreakerFigures;
use compartment::{Balance, Figures, Limit, Mode, Rejection, RetryFigures};

/// Adds one gateway's figures to a sum.
pub(crate) fn add(total: &mut Figures, more: &Figures) {
    total.limit = match (total.limit.slots(), more.limit.slots()) {
        // A sum beyond one compartment's largest limit is no limit that anybody could reach.
        (Some(one), Some(other)) => {
            Limit::new(one.saturating_add(other)).unwrap_or(Limit::UNLIMITED)
        }
        _ => Limit::UNLIMITED,
    };
    total.reserved = total.reserved.saturating_add(more.reserved);
    total.in_flight = total.in_flight.saturating_add(more.in_flight);
    total.queued = total.queued.saturating_add(more.queued);
    total.borrowed = total.borrowed.saturating_add(more.borrowed);
    total.credit = credits(total.credit, more.credit);
    total.peak = total.peak.saturating_add(more.peak);
    total.left_queue = total.left_queue.saturating_add(more.left_queue);
    total.arrived = total.arrived.saturating_add(more.arrived);
    total.admitted = total.admitted.saturating_add(more.admitted);
    total.completed = total.completed.saturating_add(more.completed);
    total.leaked = total.leaked.saturating_add(more.leaked);
    total.leak_suspected |= more.leak_suspected;
    total.oldest_permit_ms = total.oldest_permit_ms.max(more.oldest_permit_ms);
    judged(total, more);
    for (sum, more) in [
        (&mut total.idle_us, more.idle_us),
        (&mut total.busy_us, more.busy_us),
        (&mut total.saturated_us, more.saturated_us),
        (&mut total.in_flight_us, more.in_flight_us),
    ] {
        *sum = sum.saturating_add(more);
    }
    compartment::StepFigures::add_all(&mut total.fallbacks, &more.fallbacks);
    total.breaker = match (total.breaker.take(), &more.breaker) {
        (Some(one), Some(other)) => Some(Box::new(breakers(&one, other))),
        (one, other) => one.or_else(|| other.clone()),
    };
    total.retry = match (total.retry.take(), &more.retry) {
        (Some(one), Some(other)) => Some(Box::new(retries(*one, other))),
        (one, other) => one.or_else(|| other.clone()),
    };
    match (&mut total.endpoints, &more.endpoints) {
        (Some(own), Some(more)) => own.add(more),
        (own @ None, Some(more)) => *own = Some(more.clone()),
        (_, None) => {}
    }
    total.hold.merge(&more.hold);
    total.wait.merge(&more.wait);
    add_reasons(&mut total.rejected, &more.rejected);
    total.saturation = wire::stream::saturation(total.limit, total.in_flight);
}

/// Says whose words the states of endpoints are, so that a sum can tell.
pub(crate) fn name_endpoints(figures: &mut [Figures], gateway: &str) {
    let gateway = Arc::from(gateway);
    for figures in figures {
        if let Some(own) = &mut figures.endpoints {
            own.seen_by(&gateway);
        }
    }
}

/// A gateway without credit adds none.
fn credits(total: Option<Balance>, more: Option<Balance>) -> Option<Balance> {
    let (Some(one), Some(other)) = (total, more) else {
        return total.or(more);
    };
    Some(Balance {
        slot_ms: one.slot_ms.saturating_add(other.slot_ms),
        full_slot_ms: one.full_slot_ms.saturating_add(other.full_slot_ms),
    })
}

/// The state of the one an operator has to know of first; what failed, of the calls of all.
fn breakers(one: &BreakerFigures, other: &BreakerFigures) -> BreakerFigures {
    let first = if other.state.urgency() > one.state.urgency() {
        other
    } else {
        one
    };
    let calls = one.calls.saturating_add(other.calls);
    BreakerFigures {
        state: first.state,
        since_ms: first.since_ms,
        opened: one.opened.saturating_add(other.opened),
        half_opened: one.half_opened.saturating_add(other.half_opened),
        closed: one.closed.saturating_add(other.closed),
        failure_rate: failed_of(&[one, other], calls),
        calls,
    }
}

fn retries(mut sum: RetryFigures, more: &RetryFigures) -> RetryFigures {
    sum.budget_left = sum.budget_left.saturating_add(more.budget_left);
    sum.retries = sum.retries.saturating_add(more.retries);
    for (why, count) in &more.refused {
        let own = sum.refused.entry(*why).or_default();
        *own = own.saturating_add(*count);
    }
    sum
}

/// A rate counts as often as it has calls: nothing of nothing is 0.
fn failed_of(parts: &[&BreakerFigures], calls: u64) -> f64 {
    // A window of calls is far below that.
    let exact = |calls: u64| f64::from(u32::try_from(calls).unwrap_or(u32::MAX));
    let failed = parts
        .iter()
        .map(|part| part.failure_rate * exact(part.calls));
    match calls {
        0 => 0.0,
        _ => failed.sum::<f64>() / exact(calls),
    }
}

/// Adds what was judged and not enforced.
fn judged(total: &mut Figures, more: &Figures) {
    // While a change travels, what refuses somewhere is what an operator has to know.
    total.mode = match (total.mode, more.mode) {
        (Mode::Enforce, _) | (_, Mode::Enforce) => Mode::Enforce,
        (Mode::Shadow, _) | (_, Mode::Shadow) => Mode::Shadow,
        (Mode::Off, Mode::Off) => Mode::Off,
    };
    let candidates = total.candidate.zip(more.candidate);
    total.candidate = candidates.map(|(one, other)| one.saturating_add(other));
    total.nominal = total.nominal.saturating_add(more.nominal);
    total.candidate_rejected = total
        .candidate_rejected
        .saturating_add(more.candidate_rejected);
    total.peak_recent = total.peak_recent.saturating_add(more.peak_recent);
    add_reasons(&mut total.shadow_rejected, &more.shadow_rejected);
}

fn add_reasons(sums: &mut BTreeMap<Rejection, u64>, more: &BTreeMap<Rejection, u64>) {
    for (reason, count) in more {
        let sum = sums.entry(*reason).or_default();
        *sum = sum.saturating_add(*count);
    }
}
