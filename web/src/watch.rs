//! One limit that is watched: what it would have refused, of whom, for how long, what to do next.
//!
//! Separate from the page that lists them, because the API tells the same of one route. It must
//! never call a limit ready on a handful of calls.

use compartment::{Class, Mode};

use crate::reason::{ReasonRow, reason_rows};
use crate::{Holder, Moment, Reading, text, url};

/// The most tenants of one of them.
const WATCH_TENANTS_MAX: usize = 10;

/// Nothing is called ready before it was watched so long.
const WATCHED_MS_MIN: u64 = 15 * 60 * 1_000;
/// So many refusals are no accident: then a limit may be called too small at any time.
const REFUSED_CERTAIN: u64 = 20;
/// So many calls for each one that a target allows to refuse.
const CALLS_PER_REFUSAL: u64 = 10;

/// Which limit is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// The route's own, in shadow.
    Shadow,
    /// Another one, beside the one in force.
    Candidate,
}

/// One limit that is watched.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Its place on the page.
    pub place: usize,
    /// The route's key.
    pub key: String,
    /// Which of its limits.
    pub watched: Watched,
    /// That limit, as the policy spells it.
    pub judged: String,
    /// The route's own, beside a candidate.
    pub beside: Beside,
    /// How much the route matters.
    pub class: Class,
    /// What was counted since this limit is what it is; `None` while no gateway did.
    pub reading: Option<Reading>,
    /// Since when, on the gateway that counts longest.
    pub since: Option<Moment>,
    /// Gateways that report and do not run it as it is now: they are in no sum.
    pub elsewhere: u32,
    /// Tenants of whom it would have refused most.
    pub tenants: Vec<Holder>,
}

/// The route's own limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// As the policy spells it.
    pub limit: String,
    /// What it does.
    pub mode: Mode,
}

/// What to do about a watched limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing came yet.
    Send,
    /// Too little is known.
    Watch,
    /// It holds its target.
    Ready,
    /// It refuses too much.
    TooSmall,
}

impl Watch {
    /// The page of the route.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }

    /// The route's resource of the API.
    pub fn api(&self) -> String {
        url::compartment_api(&self.key)
    }

    /// What this limit would have refused, and of how many calls.
    pub fn counts(&self) -> (u64, u64) {
        self.reading
            .as_ref()
            .map_or((0, 0), |reading| (self.would(reading), reading.arrived))
    }

    fn would(&self, reading: &Reading) -> u64 {
        match self.watched {
            Watched::Shadow => reading.shadow_all(),
            Watched::Candidate => reading.candidate_rejected,
        }
    }

    /// `This limit of 20 would have refused 0.3 % of its calls: 12 of 4,000 in 2 h.`
    pub fn sentence(&self) -> String {
        let Some(reading) = &self.reading else {
            return match self.elsewhere {
                0 => "No gateway reports it yet.",
                _ => "No gateway runs it as it is now yet: what was counted before says nothing.",
            }
            .to_owned();
        };
        let (would, of) = self.counts();
        let which = match self.watched {
            Watched::Shadow => "Its limit",
            Watched::Candidate => "A limit",
        };
        if of == 0 {
            return format!("{which} of {} has seen no call yet.", self.judged);
        }
        format!(
            "{which} of {} would have refused {} of its calls: {} of {} in {}.",
            self.judged,
            text::percent(would, of),
            text::count(would),
            text::count(of),
            text::duration(reading.counted_ms)
        )
    }

    /// What stands beside the route's name: which limit, and beside which.
    pub fn which(&self) -> String {
        let Beside { limit, mode } = &self.beside;
        match (self.watched, mode) {
            (Watched::Shadow, _) => "in shadow".to_owned(),
            (Watched::Candidate, Mode::Enforce) => {
                format!("candidate {}, beside {limit} in force", self.judged)
            }
            (Watched::Candidate, Mode::Shadow) => {
                format!("candidate {}, beside {limit} in shadow", self.judged)
            }
            (Watched::Candidate, Mode::Off) => {
                format!("candidate {}, beside {limit} switched off", self.judged)
            }
        }
    }

    /// Which gateways are in no sum; empty when all are.
    pub fn left_out(&self) -> String {
        match (self.elsewhere, &self.reading) {
            (0, _) | (_, None) => String::new(),
            (n, Some(_)) => format!(
                "Without {} where it is not in force as it is now.",
                text::plural(n, "gateway", "gateways")
            ),
        }
    }

    /// `0.3 % of its calls (12 of 4,000)`, of one tenant.
    pub fn of_tenant(&self, tenant: &Holder) -> String {
        let reading = &tenant.reading;
        let would = self.would(reading);
        format!(
            "{} of its calls ({} of {})",
            text::percent(would, reading.arrived),
            text::count(would),
            text::count(reading.arrived)
        )
    }

    /// By reason; a candidate has the limit alone.
    pub fn reasons(&self) -> Vec<ReasonRow> {
        match (&self.reading, self.watched) {
            (Some(reading), Watched::Shadow) => {
                reason_rows(&reading.shadow_rejected, reading.arrived)
            }
            (Some(_), Watched::Candidate) | (None, _) => Vec::new(),
        }
    }

    /// Of a million calls, as many may be refused.
    const fn target(&self) -> u64 {
        match self.class {
            Class::Critical => 100,
            Class::Standard => 1_000,
            Class::Sheddable => 10_000,
        }
    }

    /// The same in words.
    pub const fn target_text(&self) -> &'static str {
        match self.class {
            Class::Critical => "0.01\u{a0}%",
            Class::Standard => "0.1\u{a0}%",
            Class::Sheddable => "1\u{a0}%",
        }
    }

    /// Calls without which a share as small as the target cannot be seen.
    fn calls_min(&self) -> u64 {
        1_000_000 / self.target() * CALLS_PER_REFUSAL
    }

    /// What to do.
    pub fn next(&self) -> Next {
        let (would, of) = self.counts();
        let watched_ms = self.reading.as_ref().map_or(0, |r| r.counted_ms);
        let above = u128::from(would) * 1_000_000 > u128::from(of) * u128::from(self.target());
        match () {
            () if of == 0 => Next::Send,
            () if above && would >= REFUSED_CERTAIN => Next::TooSmall,
            () if watched_ms < WATCHED_MS_MIN || of < self.calls_min() => Next::Watch,
            () if above => Next::TooSmall,
            () => Next::Ready,
        }
    }

    /// What to do, for a person.
    pub fn advice(&self) -> String {
        let peak = self.reading.as_ref().map_or(0, |reading| reading.peak_max);
        let target = self.target_text();
        let class = self.class.as_str();
        match self.next() {
            Next::Send => "Send it traffic: nothing is known before.".to_owned(),
            Next::Watch => format!(
                "Watch on. A target of {target} for a {class} route takes {} calls and \
                 15\u{a0}min at least, best a busy hour.",
                text::count(self.calls_min())
            ),
            Next::Ready => format!("Ready: within {target}, the target for a {class} route."),
            Next::TooSmall => format!(
                "Too small for its traffic: above {target}, the target for a {class} route. Look \
                 first whether a tenant or a slow upstream fills it. The most in flight since \
                 then was {} on one gateway: that limit would have refused nobody.",
                text::count(peak)
            ),
        }
    }

    /// The word of [`Watch::next`].
    pub fn word(&self) -> &'static str {
        match self.next() {
            Next::Send => "no calls",
            Next::Watch => "watching",
            Next::Ready => "ready",
            Next::TooSmall => "too small",
        }
    }

    /// The class in the style sheet.
    pub fn class(&self) -> &'static str {
        match self.next() {
            Next::Send => "idle",
            Next::Watch => "watch",
            Next::Ready => "busy",
            Next::TooSmall => "nearly",
        }
    }

    /// What the button does.
    pub fn button(&self) -> String {
        match self.watched {
            Watched::Shadow => format!("Enforce {}", self.judged),
            Watched::Candidate => format!("Make {} the limit", self.judged),
        }
    }

    /// The change that the button makes, as JSON.
    pub fn change_json(&self) -> String {
        match self.watched {
            Watched::Shadow => "\"mode\": \"enforce\"".to_owned(),
            Watched::Candidate => format!("\"limit\": {}, \"candidate\": null", self.judged),
        }
    }

    /// True when the button is the thing to do.
    pub fn is_ready(&self) -> bool {
        self.next() == Next::Ready
    }

    /// True for a limit that refuses nobody.
    pub fn is_shadow(&self) -> bool {
        self.watched == Watched::Shadow
    }

    /// Chooses its tenants.
    pub fn choose_tenants(&self, mut all: Vec<Holder>) -> Vec<Holder> {
        all.retain(|one| self.would(&one.reading) > 0);
        all.sort_by_key(|one| std::cmp::Reverse(self.would(&one.reading)));
        all.truncate(WATCH_TENANTS_MAX);
        all
    }
}

#[cfg(test)]
mod tests {
    use compartment::{Figures, Level, Rejection};

    use super::*;
    use crate::Look;
    use crate::samples::figures;

    fn watch(arrived: u64, would: u64, minutes: u64) -> Watch {
        let mut one = figures("route/a", Level::Route, 1, 37, 20);
        one.mode = Mode::Shadow;
        one.arrived = arrived;
        one.busy_us = minutes * 60_000_000;
        if would > 0 {
            one.shadow_rejected = [(Rejection::RouteFull, would)].into();
        }
        one.candidate_rejected = would;
        let read = |one: &Figures| {
            let now = std::slice::from_ref(one);
            Reading::sum([Look { now, earlier: None }]).pop()
        };
        Watch {
            place: 0,
            key: "route/a".to_owned(),
            watched: Watched::Shadow,
            judged: "20".to_owned(),
            beside: Beside {
                limit: "20".to_owned(),
                mode: Mode::Shadow,
            },
            class: Class::Standard,
            reading: read(&one),
            since: None,
            elsewhere: 0,
            tenants: Vec::new(),
        }
    }

    #[test]
    fn a_limit_is_ready_only_after_enough_calls_and_time() {
        for (arrived, would, minutes, next) in [
            (0, 0, 60, Next::Send),
            (10_000, 0, 14, Next::Watch),
            (9_999, 0, 60, Next::Watch),
            (10_000, 0, 15, Next::Ready),
            (10_000, 10, 15, Next::Ready),
            (10_000, 11, 15, Next::TooSmall),
            (100, 19, 1, Next::Watch),
            (100, 20, 1, Next::TooSmall),
        ] {
            let watch = watch(arrived, would, minutes);
            assert_eq!(watch.next(), next, "{arrived} {would} {minutes}");
            assert!(watch.advice().ends_with('.'), "{}", watch.advice());
        }
    }

    #[test]
    fn the_target_follows_the_class() {
        let next = |class| {
            Watch {
                class,
                ..watch(1_000_000, 5_000, 60)
            }
            .next()
        };
        assert_eq!(next(Class::Critical), Next::TooSmall);
        assert_eq!(next(Class::Standard), Next::TooSmall);
        assert_eq!(next(Class::Sheddable), Next::Ready);
    }

    #[test]
    fn the_sentence_has_share_counts_and_time() {
        let plain = |watch: &Watch| watch.sentence().replace('\u{a0}', " ");
        let mut watch = watch(4_000, 12, 125);
        assert_eq!(
            plain(&watch),
            "Its limit of 20 would have refused 0.3 % of its calls: 12 of 4,000 in 2 h 5 min."
        );
        assert!(watch.advice().contains("10,000 calls"));
        watch.watched = Watched::Candidate;
        assert!(plain(&watch).starts_with("A limit of 20 would"));
        assert_eq!(watch.change_json(), r#""limit": 20, "candidate": null"#);
        assert_eq!(watch.which(), "candidate 20, beside 20 in shadow");
        watch.elsewhere = 1;
        assert!(watch.left_out().contains("Without 1\u{a0}gateway "));
        watch.reading = None;
        assert_eq!(watch.next(), Next::Send);
        assert!(
            watch
                .sentence()
                .starts_with("No gateway runs it as it is now")
        );
        assert_eq!(watch.left_out(), "");
    }
}
