//! The steps of a route's fallback, and what each has done.
//!
//! Separate from the figures of compartments because a step is none. It must never call a step
//! good that has not answered.

use std::collections::BTreeMap;

use compartment::StepFigures;
use compartment::policy::{Fallback, Policy, Route};

use crate::effective_words::fallbacks;
use crate::text;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rung {
    /// What the policy says of it.
    pub what: String,
    /// What it did; `None` while no gateway tells.
    pub figures: Option<StepFigures>,
}

/// What gateways said when they were last asked on purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rehearsal {
    /// When.
    pub at: String,
    /// Whether each gateway has a step that would answer.
    pub passed: bool,
    /// Gateway, step, and what came of it.
    pub rows: Vec<(String, String, String)>,
}

/// The ladder of one route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ladder {
    /// In the order of the policy.
    pub rungs: Vec<Rung>,
    /// The last time it was rehearsed.
    pub rehearsal: Option<Rehearsal>,
}

impl Ladder {
    /// The steps of this route, with what gateways tell of them.
    pub fn of(policy: &Policy, route: &Route, told: &[StepFigures]) -> Self {
        let by_kind: BTreeMap<&str, &StepFigures> =
            told.iter().map(|step| (&*step.kind, step)).collect();
        let rungs = route.fallback.iter().map(|step: &Fallback| Rung {
            what: fallbacks(policy, std::slice::from_ref(step)),
            figures: by_kind.get(step.kind()).map(|step| (*step).clone()),
        });
        Self {
            rungs: rungs.collect(),
            rehearsal: None,
        }
    }
}

impl Rung {
    /// How often it answered.
    pub fn answers(&self) -> String {
        let figures = self.figures.as_ref();
        figures.map_or_else(
            || "not told yet".to_owned(),
            |step| text::count(step.answers),
        )
    }

    /// How often it could not, and why.
    pub fn failed(&self) -> String {
        let Some(step) = self.figures.as_ref().filter(|step| step.failed > 0) else {
            return "0".to_owned();
        };
        let reasons = step.failures.iter();
        let reasons: Vec<String> = reasons
            .map(|(why, count)| format!("{} {}", text::count(*count), why.replace('_', " ")))
            .collect();
        reasons.join(", ")
    }

    /// How long its answers took to their heads.
    pub fn took(&self) -> String {
        let step = self.figures.as_ref();
        let mean = step.and_then(|step| Some((step.mean_us()?, step.slowest_us)));
        mean.map_or_else(String::new, |(mean_us, slowest_us)| {
            format!(
                "{}, at most {}",
                text::micros(mean_us),
                text::micros(slowest_us)
            )
        })
    }

    /// All of it in a line: `answered 12 times, last 3 min ago; could not: 4 too old`.
    pub fn did(&self) -> String {
        let Some(figures) = &self.figures else {
            return "no gateway tells what it did".to_owned();
        };
        let answered = match figures.answers {
            0 => "has not answered since the start".to_owned(),
            n => format!(
                "answered {}, last {}",
                text::plural(n, "time", "times"),
                self.last()
            ),
        };
        match figures.failed {
            0 => answered,
            _ => format!("{answered}; could not: {}", self.failed()),
        }
    }

    /// True when nothing shows that it works.
    pub fn is_unproven(&self) -> bool {
        self.figures.as_ref().is_none_or(|one| one.answers == 0)
    }

    /// When it last really answered.
    pub fn last(&self) -> String {
        let ago = self.figures.as_ref().and_then(|step| step.last_answer_ms);
        ago.map_or_else(|| "never".to_owned(), text::ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_says_what_it_did_and_what_it_did_not() {
        let step = StepFigures {
            kind: "upstream".to_owned(),
            answers: 1_200,
            failed: 3,
            failures: BTreeMap::from([("full".to_owned(), 1), ("status_5xx".to_owned(), 2)]),
            last_answer_ms: Some(5_000),
            took_us: 2_400_000,
            slowest_us: 9_000,
        };
        let mut rung = Rung {
            what: String::new(),
            figures: Some(step),
        };
        let plain = |text: String| text.replace(['\u{a0}', '\u{202f}'], " ");
        assert_eq!(plain(rung.failed()), "1 full, 2 status 5xx");
        assert_eq!(plain(rung.took()), "2 ms, at most 9 ms");
        assert_eq!(plain(rung.last()), "5 s ago");
        assert_eq!(
            plain(rung.did()),
            "answered 1,200 times, last 5 s ago; could not: 1 full, 2 status 5xx"
        );
        assert!(!rung.is_unproven());
        rung.figures = None;
        assert_eq!(rung.did(), "no gateway tells what it did");
        assert!(rung.is_unproven());
        assert_eq!(
            (rung.answers().as_str(), rung.last().as_str()),
            ("not told yet", "never")
        );
        assert_eq!((rung.failed().as_str(), rung.took().as_str()), ("0", ""));
    }
}
