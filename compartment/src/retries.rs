//! What is counted of a route's retries.
//!
//! Separate because a retry that was not made has one reason, of a closed list: who asks why an
//! upstream was not asked again finds it. It must never decide.

use std::array::from_fn;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sync::statistics::{AtomicU64, Ordering};

/// Why a request that failed was not sent once more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryRefusal {
    /// The route does not repeat after such a failure.
    Cause,
    /// A part of the answer was passed on already.
    Begun,
    /// The method is not safe to repeat, and the request has no idempotency key.
    Method,
    /// The body is larger than what is kept of one.
    Body,
    /// The upstream said when to come back: that is for everybody.
    RetryAfter,
    /// It was sent as often as the route allows.
    Attempts,
    /// The breaker would not let it through any more.
    BreakerOpen,
    /// Too little is left of the exchange's time.
    NoTime,
    /// The route's budget is used up.
    Budget,
}

impl RetryRefusal {
    /// Every reason.
    pub const ALL: [Self; 9] = [
        Self::Cause,
        Self::Begun,
        Self::Method,
        Self::Body,
        Self::RetryAfter,
        Self::Attempts,
        Self::BreakerOpen,
        Self::NoTime,
        Self::Budget,
    ];

    /// The name in figures and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cause => "cause",
            Self::Begun => "begun",
            Self::Method => "method",
            Self::Body => "body",
            Self::RetryAfter => "retry_after",
            Self::Attempts => "attempts",
            Self::BreakerOpen => "breaker_open",
            Self::NoTime => "no_time",
            Self::Budget => "budget",
        }
    }

    /// The reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

/// What a route says of its retries.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct RetryFigures {
    /// Retries that the budget would allow now.
    pub budget_left: u32,
    /// Attempts beyond the first, since the start.
    pub retries: u64,
    /// Failed requests that were not sent again, by reason; those that never happened are absent.
    pub refused: BTreeMap<RetryRefusal, u64>,
}

/// The counts of one route. They start with the process and never go down.
#[derive(Debug)]
pub struct RetryCounts {
    retries: AtomicU64,
    refused: [AtomicU64; RetryRefusal::ALL.len()],
}

impl Default for RetryCounts {
    fn default() -> Self {
        Self {
            retries: AtomicU64::new(0),
            refused: from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl RetryCounts {
    /// One more attempt.
    pub fn retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// None, for this reason.
    pub fn refuse(&self, why: RetryRefusal) {
        if let Some(count) = self.refused.get(why as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All of them, beside what a budget has left.
    pub fn figures(&self, budget_left: u32) -> RetryFigures {
        let counts = self.refused.iter().map(|n| n.load(Ordering::Relaxed));
        let refused = RetryRefusal::ALL.into_iter().zip(counts);
        RetryFigures {
            budget_left,
            retries: self.retries.load(Ordering::Relaxed),
            refused: refused.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_its_name() {
        let counts = RetryCounts::default();
        counts.retry();
        for (place, why) in RetryRefusal::ALL.into_iter().enumerate() {
            assert_eq!(RetryRefusal::from_name(why.as_str()), Some(why));
            (0..=place).for_each(|_| counts.refuse(why));
        }
        let figures = counts.figures(3);
        assert_eq!((figures.budget_left, figures.retries), (3, 1));
        let told: Vec<u64> = figures.refused.into_values().collect();
        assert_eq!(told, [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
