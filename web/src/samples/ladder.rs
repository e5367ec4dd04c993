//! A fallback in the middle of an incident.
//!
//! Separate because more than one page shows it. It must never hold a step that no policy could.

use compartment::StepFigures;

use crate::{Ladder, Rehearsal, Rung};

pub(super) fn ladder() -> Ladder {
    let step = |kind: &str, answers: u64, failures: &[(&str, u64)]| StepFigures {
        kind: kind.to_owned(),
        answers,
        failed: failures.iter().map(|(_, count)| count).sum(),
        failures: failures
            .iter()
            .map(|(why, count)| ((*why).to_owned(), *count))
            .collect(),
        last_answer_ms: (answers > 0).then_some(4_000),
        took_us: answers * 1_500,
        slowest_us: 9_000,
    };
    let rung = |what: &str, figures| Rung {
        what: what.to_owned(),
        figures,
    };
    let row = |step: &str, came: &str| ("gw-1".to_owned(), step.to_owned(), came.to_owned());
    Ladder {
        rungs: vec![
            rung(
                "a stored answer, at most 60\u{a0}s old",
                Some(step(
                    "stale",
                    1_204,
                    &[("nothing_stored", 31), ("too_old", 4)],
                )),
            ),
            rung(
                "upstream replica with 5 slots",
                Some(step("upstream", 0, &[])),
            ),
            rung("a fixed answer, status 200", None),
        ],
        rehearsal: Some(Rehearsal {
            at: "2026-11-30T12:00:00.000Z".to_owned(),
            passed: false,
            rows: vec![
                row("stale", "yes: 12 stored"),
                row("upstream", "no: connect"),
                (
                    "gw-2".to_owned(),
                    String::new(),
                    "did not answer".to_owned(),
                ),
            ],
        }),
    }
}
