//! Did isolation hold? Sentences with their numbers, and one yes or no.
//!
//! Separate because it is the claim of the product and must be readable on one page. It must never
//! be softened by what was measured.

use std::time::Duration;

use super::figures::{Figures, Measured, Seen};
use super::scenario::{Phase, Route, SLOW};

/// 40 slots of 5 s each: 8 a second, give or take what a wave on the edge of the window counts.
const COMPLETED_PER_S: (f64, f64) = (6.5, 9.5);
/// The rest of 50 a second.
const REJECTED_PER_S: (f64, f64) = (39.0, 45.0);
/// A neighbour's p99 may be this many times its own healthy one …
const P99_FACTOR: f64 = 1.5;
/// … or this much more, whichever is larger.
const P99_MORE_MS: f64 = 25.0;
/// Sockets between threads of a call through a gateway, against those of a direct one.
const WAYS: f64 = 2.0;
/// What timers and the last answer may add to one latency.
const EMPTY_SLACK: Duration = Duration::from_millis(250);

/// One sentence and whether it is true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    pub(super) held: bool,
    pub(super) text: String,
}

/// All checks of one play.
pub(super) fn judge(seen: &Seen) -> Vec<Check> {
    let mut checks = vec![full(&seen.with)];
    for route in [Route::Payments, Route::Inventory] {
        checks.push(undisturbed(&seen.with, &seen.direct, route));
    }
    checks.push(empty(&seen.with, seen.left));
    for route in [Route::Payments, Route::Inventory] {
        checks.push(collapsed(&seen.without, route));
    }
    checks
}

fn within((low, high): (f64, f64), value: f64) -> bool {
    (low..=high).contains(&value)
}

fn full(with: &Measured) -> Check {
    let Some(full) = with.full else {
        let text = "with compartments, recommendations never filled its slice".to_owned();
        return Check { held: false, text };
    };
    let (completed, rejected) = (full.per_s(full.completed), full.per_s(full.rejected));
    Check {
        held: within(COMPLETED_PER_S, completed)
            && within(REJECTED_PER_S, rejected)
            && full.errors == 0
            && full.fallback == full.rejected,
        text: format!(
            "with compartments, recommendations while slow and full completes {completed:.1}/s \
             (40 slots / 5 s = 8/s) and {rejected:.1}/s get the fallback (50/s - 8/s = 42/s); \
             errors: {}",
            full.errors
        ),
    }
}

/// A neighbour loses nothing and its p99 stays where it was. What the machine itself added
/// meanwhile shows in the same calls made past the gateways; a call through a gateway has twice as
/// many ways to be held up by it.
fn undisturbed(with: &Measured, direct: &Measured, route: Route) -> Check {
    let lost: usize = Phase::ALL
        .iter()
        .map(|phase| with.figures(route, *phase).lost())
        .sum();
    let p99 = |of: &Measured, phase| of.figures(route, phase).p99_ms;
    let (healthy, slow) = (p99(with, Phase::Healthy), p99(with, Phase::Slow));
    let machine_ms = match (p99(direct, Phase::Healthy), p99(direct, Phase::Slow)) {
        (Some(before), Some(during)) => (during - before).max(0.0),
        _ => 0.0,
    };
    let allowed = healthy
        .map(|healthy| (healthy * P99_FACTOR).max(healthy + P99_MORE_MS) + machine_ms * WAYS);
    let flat = matches!((slow, allowed), (Some(slow), Some(allowed)) if slow <= allowed);
    Check {
        held: lost == 0 && flat,
        text: format!(
            "with compartments, {} loses {lost} requests; its p99 is {} ms healthy and {} ms while \
             recommendations is slow (at most {} ms; past the gateways it rose by {machine_ms:.0})",
            route.name(),
            milliseconds(healthy),
            milliseconds(slow),
            milliseconds(allowed),
        ),
    }
}

fn empty(with: &Measured, left: u64) -> Check {
    Check {
        held: with.empty <= SLOW + EMPTY_SLACK && left == 0,
        text: format!(
            "after recovery the last slow call leaves the compartment within {:.1} s (one latency \
             is 5 s), and when all calls have ended {left} permits are out",
            with.empty.as_secs_f64()
        ),
    }
}

fn collapsed(without: &Measured, route: Route) -> Check {
    let figures: Figures = without.figures(route, Phase::Slow);
    Check {
        held: figures.lost() > 0,
        text: format!(
            "without compartments, {} loses {} of {} requests while recommendations is slow",
            route.name(),
            figures.lost(),
            figures.offered
        ),
    }
}

pub(super) fn milliseconds(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

#[cfg(test)]
mod tests {
    use super::super::scenario::Play;
    use super::super::traffic::{Call, Outcome};
    use super::*;

    /// Payments' and inventory's calls with one more of payments in the slow phase.
    fn with(extra: Call) -> Measured {
        let play = Play::of_seconds(20);
        let mut calls: Vec<Call> = play
            .arrivals()
            .into_iter()
            .map(|(due, route)| Call {
                route,
                due,
                took: route.healthy(),
                outcome: Outcome::Completed,
            })
            .collect();
        calls.push(extra);
        Measured::of(&calls, play)
    }

    fn payments(took_ms: u64, outcome: Outcome) -> Call {
        let took = Duration::from_millis(took_ms);
        Call {
            route: Route::Payments,
            due: Duration::from_secs(9),
            took,
            outcome,
        }
    }

    fn judged(measured: &Measured) -> Check {
        let direct = with(payments(100, Outcome::Completed));
        undisturbed(measured, &direct, Route::Payments)
    }

    #[test]
    fn one_lost_request_is_too_many() {
        let fine = judged(&with(payments(100, Outcome::Completed)));
        assert!(fine.held, "{}", fine.text);
        for outcome in [Outcome::Refused, Outcome::Failed, Outcome::Fallback] {
            let check = judged(&with(payments(1, outcome)));
            assert!(!check.held, "{}", check.text);
        }
    }

    #[test]
    fn a_p99_that_moves_is_seen() {
        let mut measured = with(payments(100, Outcome::Completed));
        for (took_ms, held) in [(124.0, true), (149.0, true), (151.0, false)] {
            measured.routes[0].1[1].1.p99_ms = Some(took_ms);
            assert_eq!(judged(&measured).held, held, "{took_ms}");
        }
    }

    /// What moves for direct calls too is the machine, up to twice that.
    #[test]
    fn a_machine_that_stalls_is_not_taken_for_a_leak() {
        let mut measured = with(payments(100, Outcome::Completed));
        let mut direct = measured.clone();
        direct.routes[0].1[1].1.p99_ms = Some(140.0);
        for (took_ms, held) in [(229.0, true), (231.0, false)] {
            measured.routes[0].1[1].1.p99_ms = Some(took_ms);
            let check = undisturbed(&measured, &direct, Route::Payments);
            assert_eq!(check.held, held, "{}", check.text);
        }
    }

    #[test]
    fn a_permit_that_stays_out_fails_the_play() {
        let measured = with(payments(100, Outcome::Completed));
        assert!(empty(&measured, 0).held);
        assert!(!empty(&measured, 1).held);
        assert!(!full(&measured).held, "nothing was refused");
        assert!(!collapsed(&measured, Route::Inventory).held);
    }
}
