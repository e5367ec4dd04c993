//! What stands around a limit, in a sentence each: the breaker of an upstream, a route's retries.
//!
//! Separate because they are no compartments and have no bar: whoever reads the page learns here
//! why an upstream is not asked, or not asked again. It must never call them by a limit's words.

use compartment::breaker::{BreakerFigures, BreakerState};
use compartment::{RetryFigures, RetryRefusal};

use crate::text;

/// The breaker of an upstream.
pub fn breaker_sentence(figures: &BreakerFigures) -> String {
    let since = text::duration(figures.since_ms);
    let state = match figures.state {
        BreakerState::Closed => "The breaker is closed: everything passes",
        BreakerState::HalfOpen => "The breaker is half open: a few calls try the upstream",
        BreakerState::Open => "The breaker is open: the upstream is not asked",
        BreakerState::ForcedOpen => "The breaker is forced open by an operator: nothing passes",
        BreakerState::ForcedClosed => "The breaker is forced closed: nothing is judged",
    };
    let opened = match figures.opened {
        0 => "it never opened".to_owned(),
        1 => "it opened once".to_owned(),
        times => format!("it opened {} times", text::count(times)),
    };
    let rate = match (figures.calls, figures.failure_rate) {
        (0, _) => String::new(),
        (calls, rate) => format!(
            " {:.0} % of the last {} calls failed.",
            rate * 100.0,
            text::count(calls)
        ),
    };
    format!("{state}, for {since}; {opened}.{rate}")
}

/// The retries of a route.
pub fn retry_sentence(figures: &RetryFigures) -> String {
    let refused: Vec<String> = figures
        .refused
        .iter()
        .map(|(why, count)| format!("{} {}", text::count(*count), words(*why)))
        .collect();
    let refused = match refused.is_empty() {
        true => String::new(),
        false => format!(" Failed and not sent again: {}.", refused.join(", ")),
    };
    format!(
        "{} retries made, {} left in the budget now.{refused}",
        text::count(figures.retries),
        text::count(figures.budget_left),
    )
}

const fn words(why: RetryRefusal) -> &'static str {
    match why {
        RetryRefusal::Cause => "with a failure that is not repeated",
        RetryRefusal::Begun => "after the answer had begun",
        RetryRefusal::Method => "with a method that is not safe to repeat",
        RetryRefusal::Body => "with a body too large to keep",
        RetryRefusal::RetryAfter => "told when to come back",
        RetryRefusal::Attempts => "on the last attempt",
        RetryRefusal::BreakerOpen => "because the breaker opened",
        RetryRefusal::NoTime => "without enough time",
        RetryRefusal::Budget => "beyond the budget",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_in_a_sentence() {
        let mut breaker = BreakerFigures {
            state: BreakerState::Open,
            since_ms: 3_000,
            opened: 2,
            half_opened: 1,
            closed: 1,
            failure_rate: 0.0,
            calls: 0,
        };
        assert_eq!(
            breaker_sentence(&breaker),
            "The breaker is open: the upstream is not asked, for 3.0\u{a0}s; it opened 2 times."
        );
        (breaker.state, breaker.opened) = (BreakerState::Closed, 1);
        (breaker.failure_rate, breaker.calls) = (0.25, 20);
        assert!(
            breaker_sentence(&breaker)
                .ends_with("it opened once. 25 % of the last 20 calls failed.")
        );
        let all = RetryRefusal::ALL.map(|why| (why, 2));
        let retry = RetryFigures {
            budget_left: 3,
            retries: 1_200,
            refused: all.into(),
        };
        let said = retry_sentence(&retry);
        assert!(
            said.starts_with("1,200 retries made, 3 left in the budget now. Failed"),
            "{said}"
        );
        assert_eq!(said.matches(", 2 ").count(), 8, "{said}");
    }
}
