//! What one step of a route's fallback says of itself.
//!
//! Separate from the figures of a compartment because a step is none: it answers in the place of
//! one that refused. It must never be counted as a rejection, which happened before it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counts of one step. They start with the process and never go down.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct StepFigures {
    /// `stale`, `upstream` or `static`.
    pub kind: String,
    /// How often it answered.
    pub answers: u64,
    /// How often it could not, so that the next step was asked.
    pub failed: u64,
    /// The same by reason; reasons that never happened are absent.
    #[serde(default)]
    pub failures: BTreeMap<String, u64>,
    /// How long ago it last answered, in milliseconds; `None`: never.
    #[serde(default)]
    pub last_answer_ms: Option<u64>,
    /// How long its answers took to their heads, summed, in microseconds.
    #[serde(default)]
    pub took_us: u64,
    /// The longest of them.
    #[serde(default)]
    pub slowest_us: u64,
}

impl StepFigures {
    /// Adds what the same step did in another process.
    pub fn count_in(&mut self, other: &Self) {
        self.answers = self.answers.saturating_add(other.answers);
        self.failed = self.failed.saturating_add(other.failed);
        self.took_us = self.took_us.saturating_add(other.took_us);
        self.slowest_us = self.slowest_us.max(other.slowest_us);
        for (reason, count) in &other.failures {
            let sum = self.failures.entry(reason.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        // The latest of all.
        let both = [self.last_answer_ms, other.last_answer_ms];
        self.last_answer_ms = both.into_iter().flatten().min();
    }

    /// The mean time to the head of an answer.
    pub fn mean_us(&self) -> Option<u64> {
        self.took_us.checked_div(self.answers)
    }

    /// Adds each of these to the one of its kind, or puts it at the end.
    pub fn add_all(sums: &mut Vec<Self>, more: &[Self]) {
        for step in more {
            match sums.iter_mut().find(|sum| sum.kind == step.kind) {
                Some(sum) => sum.count_in(step),
                None => sums.push(step.clone()),
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn steps_of_several_processes_add_up_by_kind() {
        let step = |kind: &str, answers, last_answer_ms| StepFigures {
            kind: kind.to_owned(),
            answers,
            failed: 2,
            failures: BTreeMap::from([("full".to_owned(), 2)]),
            last_answer_ms,
            took_us: answers * 10,
            slowest_us: answers,
        };
        let mut sums = vec![step("stale", 1, None)];
        StepFigures::add_all(
            &mut sums,
            &[step("stale", 3, Some(7)), step("static", 1, None)],
        );
        StepFigures::add_all(&mut sums, &[step("stale", 0, Some(9))]);
        assert_eq!(sums.len(), 2);
        let stale = &sums[0];
        assert_eq!(
            (stale.answers, stale.failed, stale.failures["full"]),
            (4, 6, 6)
        );
        assert_eq!(
            (stale.last_answer_ms, stale.mean_us(), stale.slowest_us),
            (Some(7), Some(10), 3)
        );
        assert_eq!(StepFigures::default().mean_us(), None);
    }
}
