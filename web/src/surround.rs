//! What stands around a compartment: its dependency's endpoints and breaker, retries, and the
//! fallback ladder.
//!
//! Separate because the Routes page and the page of a compartment say the same of them. It must
//! never say of a step that it works: only when it last really answered.

use compartment::breaker::{BreakerFigures, BreakerState};
use compartment::policy::{BreakerRules, Policy, Route, Upstream};
use compartment::{Figures, RetryFigures, RetryRefusal};

use crate::effective_words::{retry, time};
use crate::{EndpointsRow, Ladder, Rung, text};

/// All of it, as far as the route or the upstream has it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Surround {
    /// The fallback ladder, in the order of the policy.
    pub steps: Vec<Rung>,
    /// The breaker of its upstream.
    pub breaker: Option<BreakerRow>,
    /// Its retries.
    pub retry: Option<RetryRow>,
    /// The endpoints of its upstream.
    pub endpoints: Option<EndpointsRow>,
}

/// A breaker.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerRow {
    /// Its rules.
    pub rules: String,
    /// What it says; `None` while no gateway tells.
    pub figures: Option<BreakerFigures>,
}

/// The retries of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRow {
    /// Its rules.
    pub rules: String,
    /// What was done; `None` while no gateway tells.
    pub figures: Option<RetryFigures>,
}

impl Surround {
    /// Of a route, by the figures of its own compartment and of its upstream's.
    pub fn of_route(
        policy: &Policy,
        route: &Route,
        own: Option<&Figures>,
        upstream: Option<&Figures>,
    ) -> Self {
        let told = own.map_or(&[][..], |figures| figures.fallbacks.as_slice());
        let retry = route.retry.as_ref().map(|rules| RetryRow {
            rules: retry(rules),
            figures: own.and_then(|figures| figures.retry.as_deref().cloned()),
        });
        let dependency = policy.upstreams.get(route.upstream);
        Self {
            steps: Ladder::of(policy, route, told).rungs,
            breaker: dependency.and_then(|one| BreakerRow::of(one, upstream)),
            retry,
            endpoints: dependency.and_then(|one| EndpointsRow::if_notable(one, upstream)),
        }
    }

    /// Of an upstream.
    pub fn of_upstream(upstream: &Upstream, own: Option<&Figures>) -> Self {
        Self {
            breaker: BreakerRow::of(upstream, own),
            endpoints: EndpointsRow::of(own),
            ..Self::default()
        }
    }

    /// True when there is nothing to show.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl BreakerRow {
    fn of(upstream: &Upstream, figures: Option<&Figures>) -> Option<Self> {
        let rules = upstream.breaker.as_ref().map(rules);
        let figures = figures.and_then(|figures| figures.breaker.as_deref().cloned());
        let forced = upstream.force_breaker.is_some() || figures.is_some();
        (rules.is_some() || forced).then(|| Self {
            rules: rules.unwrap_or_else(|| "by an operator's word alone".to_owned()),
            figures,
        })
    }

    /// Its state in a word.
    pub fn word(&self) -> &'static str {
        match self.figures.as_ref().map(|figures| figures.state) {
            None => "not reported",
            Some(BreakerState::Closed) => "closed",
            Some(BreakerState::HalfOpen) => "half open",
            Some(BreakerState::Open) => "open",
            Some(BreakerState::ForcedOpen) => "forced open",
            Some(BreakerState::ForcedClosed) => "forced closed",
        }
    }

    /// The class of its word.
    pub fn class(&self) -> &'static str {
        match self.figures.as_ref().map(|figures| figures.state.urgency()) {
            None | Some(0) => "idle",
            Some(1 | 2) => "nearly",
            Some(_) => "full",
        }
    }

    /// True when it lets nothing or little through.
    pub fn is_problem(&self) -> bool {
        let figures = self.figures.as_ref();
        figures.is_some_and(|figures| figures.state.is_trouble())
    }

    /// Since when, how often it opened, and what fails now.
    pub fn did(&self) -> String {
        let Some(figures) = &self.figures else {
            return String::new();
        };
        let opened = match figures.opened {
            0 => "never opened since the start".to_owned(),
            n => format!("opened {}", text::plural(n, "time", "times")),
        };
        let failing = match figures.calls {
            0 => String::new(),
            n => format!(
                ", {} of the last {} failed",
                percent_of(figures.failure_rate),
                text::plural(n, "call", "calls")
            ),
        };
        format!(
            "for {}; {opened}{failing}",
            text::duration(figures.since_ms)
        )
    }
}

/// A fraction as a percentage, to a tenth.
fn percent_of(fraction: f64) -> String {
    match fraction {
        f if f >= 0.1 => format!("{:.0}\u{a0}%", f * 100.0),
        f => format!("{:.1}\u{a0}%", f * 100.0),
    }
}

fn rules(rules: &BreakerRules) -> String {
    format!(
        "opens when {} of {} calls fail, for {}, then {}",
        text::percent(rules.failure_rate.0, 1_000_000_u64),
        text::count(rules.calls),
        time(rules.open),
        text::plural(rules.probes, "probe", "probes"),
    )
}

impl RetryRow {
    /// What is left and what was done.
    pub fn did(&self) -> String {
        let Some(figures) = &self.figures else {
            return "no gateway tells what was repeated".to_owned();
        };
        format!(
            "{} left in the budget, {} made",
            text::plural(figures.budget_left, "retry", "retries"),
            text::count(figures.retries)
        )
    }

    /// True when the next failure is not repeated for want of budget.
    pub fn is_spent(&self) -> bool {
        let figures = self.figures.as_ref();
        figures.is_some_and(|one| one.budget_left == 0 && one.retries > 0)
    }

    /// Retries that were not made: why, and how many; the most first.
    pub fn refused(&self) -> Vec<(&'static str, &'static str, String)> {
        let told = self.figures.iter().flat_map(|figures| &figures.refused);
        let mut told: Vec<_> = told.map(|(why, n)| (*why, *n)).collect();
        told.sort_by_key(|(why, n)| (std::cmp::Reverse(*n), *why));
        told.into_iter()
            .map(|(why, n)| (why.as_str(), words(why), text::count(n)))
            .collect()
    }
}

const fn words(why: RetryRefusal) -> &'static str {
    match why {
        RetryRefusal::Cause => "not after such a failure",
        RetryRefusal::Begun => "part of the answer was passed on",
        RetryRefusal::Method => "method not safe to repeat",
        RetryRefusal::Body => "body too large to keep",
        RetryRefusal::RetryAfter => "the upstream said when to come back",
        RetryRefusal::Attempts => "sent as often as allowed",
        RetryRefusal::BreakerOpen => "breaker open",
        RetryRefusal::NoTime => "too little time left",
        RetryRefusal::Budget => "budget used up",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn plain(text: &str) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn a_breaker_says_its_state_and_what_fails() {
        for (state, word, problem) in [
            (BreakerState::Closed, "closed", false),
            (BreakerState::HalfOpen, "half open", true),
            (BreakerState::Open, "open", true),
            (BreakerState::ForcedOpen, "forced open", true),
            (BreakerState::ForcedClosed, "forced closed", false),
        ] {
            let row = BreakerRow {
                rules: String::new(),
                figures: Some(BreakerFigures {
                    state,
                    since_ms: 12_000,
                    opened: 2,
                    half_opened: 1,
                    closed: 1,
                    failure_rate: 0.625,
                    calls: 16,
                }),
            };
            assert_eq!((row.word(), row.is_problem()), (word, problem));
            assert_eq!(
                plain(&row.did()),
                "for 12 s; opened 2 times, 62 % of the last 16 calls failed"
            );
        }
    }

    #[test]
    fn retries_not_made_are_told_the_most_first() {
        let row = RetryRow {
            rules: String::new(),
            figures: Some(RetryFigures {
                budget_left: 0,
                retries: 7,
                refused: BTreeMap::from([(RetryRefusal::Method, 2), (RetryRefusal::Budget, 30)]),
            }),
        };
        let told: Vec<_> = row.refused().into_iter().map(|(name, ..)| name).collect();
        assert_eq!(told, ["budget", "method"]);
        assert!(row.is_spent());
        assert_eq!(plain(&row.did()), "0 retries left in the budget, 7 made");
    }
}
