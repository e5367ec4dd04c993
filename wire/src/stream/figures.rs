//! The parts of one compartment's figures as messages, and back.
//!
//! Separate from the stream and its bounds: here is only what a part looks like on both sides. It
//! must never fail: what a newer peer says and this build does not know is left out.

use std::collections::BTreeMap;

use compartment::breaker::{BreakerFigures, BreakerState};
use compartment::{Balance, Level, Rejection, RetryFigures, RetryRefusal, StepFigures};

use super::{FAILURE_BYTES_MAX, FAILURES_MAX, FALLBACK_STEPS_MAX, proto};

pub(super) fn credit_of(slot_ms: Option<i64>, full_slot_ms: Option<i64>) -> Option<Balance> {
    let both = slot_ms.zip(full_slot_ms);
    both.map(|(slot_ms, full_slot_ms)| Balance {
        slot_ms,
        full_slot_ms,
    })
}

pub(super) fn breaker_message(figures: &BreakerFigures) -> proto::Breaker {
    proto::Breaker {
        state: figures.state.as_str().to_owned(),
        since_ms: figures.since_ms,
        opened: figures.opened,
        half_opened: figures.half_opened,
        closed: figures.closed,
        failure_rate: figures.failure_rate,
        calls: figures.calls,
    }
}

/// A state that this build does not know (a newer gateway's) is left out, not an error.
pub(super) fn breaker_of(message: proto::Breaker) -> Option<BreakerFigures> {
    Some(BreakerFigures {
        state: BreakerState::from_name(&message.state)?,
        since_ms: message.since_ms,
        opened: message.opened,
        half_opened: message.half_opened,
        closed: message.closed,
        // Of a peer: no number that arithmetic or JSON would stumble over.
        failure_rate: Some(message.failure_rate)
            .filter(|rate| (0.0..=1.0).contains(rate))
            .unwrap_or_default(),
        calls: message.calls,
    })
}

pub(super) fn retry_message(figures: &RetryFigures) -> proto::Retry {
    let named = |(why, count): (&RetryRefusal, &u64)| (why.as_str().to_owned(), *count);
    proto::Retry {
        budget_left: figures.budget_left,
        retries: figures.retries,
        refused: figures.refused.iter().map(named).collect(),
    }
}

pub(super) fn retry_of(message: proto::Retry) -> RetryFigures {
    let known = |(name, count): (String, u64)| Some((RetryRefusal::from_name(&name)?, count));
    RetryFigures {
        budget_left: message.budget_left,
        retries: message.retries,
        refused: message.refused.into_iter().filter_map(known).collect(),
    }
}

pub(super) fn level_of(name: &str) -> Option<Level> {
    use Level::{Fallback, Gateway, Route, Stream, Tenant, TenantRoute, Upstream};

    [
        Tenant,
        TenantRoute,
        Route,
        Stream,
        Fallback,
        Upstream,
        Gateway,
    ]
    .into_iter()
    .find(|l| l.as_str() == name)
}

pub(super) fn step_message(step: &StepFigures) -> proto::FallbackStep {
    let failures = step.failures.iter();
    proto::FallbackStep {
        kind: step.kind.clone(),
        answers: step.answers,
        failures: failures.map(|(why, count)| (why.clone(), *count)).collect(),
        last_answer_ms: step.last_answer_ms,
        took_us: step.took_us,
        slowest_us: step.slowest_us,
    }
}

/// Bounded in number and length: a peer's text is kept in memory and shown.
pub(super) fn steps_of(messages: Vec<proto::FallbackStep>) -> Vec<StepFigures> {
    let known = |message: &proto::FallbackStep| {
        let kinds = ["stale", "upstream", "static"];
        kinds.contains(&message.kind.as_str())
    };
    let messages = messages.into_iter().filter(known).take(FALLBACK_STEPS_MAX);
    let steps = messages.map(|message| {
        let is_word = |why: &str| {
            let letters = why.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            letters && (1..=FAILURE_BYTES_MAX).contains(&why.len())
        };
        let failures = message.failures.into_iter();
        let failures = failures.filter(|(why, _)| is_word(why)).take(FAILURES_MAX);
        let failures: BTreeMap<String, u64> = failures.collect();
        StepFigures {
            kind: message.kind,
            answers: message.answers,
            failed: failures.values().fold(0, |sum, n| sum.saturating_add(*n)),
            failures,
            last_answer_ms: message.last_answer_ms,
            took_us: message.took_us,
            slowest_us: message.slowest_us,
        }
    });
    steps.collect()
}

/// A reason that this build does not know (a newer gateway's) is left out, not an error.
pub(super) fn reasons(counts: &std::collections::HashMap<String, u64>) -> BTreeMap<Rejection, u64> {
    let known = |(name, count): (&String, &u64)| Some((Rejection::from_name(name)?, *count));
    counts.iter().filter_map(known).collect()
}
