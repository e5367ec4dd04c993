//! One compartment on one gateway, or over all of them, and what the rules say of it.
//!
//! Separate because this is where an alert is decided, in whole numbers, from nothing but slices
//! of time. It must never know a name, a state of an alert or a clock.

use serde::{Deserialize, Serialize};

use super::rules::Rules;
use super::window::{Counts, Ring};

/// Which rule holds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[schema(as = AlertRule)]
pub enum Rule {
    /// Full, and nobody is refused.
    Full,
    /// Little by little: the hour and the last 5 minutes.
    Slow,
    /// Full for most of 2 minutes, and refusing.
    Fast,
}

/// What the rules say of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Finding {
    /// Nothing.
    Calm,
    /// Trouble that has not lasted.
    Pending,
    /// A rule holds.
    Holds(Rule),
}

/// The figures that decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = AlertEvidence)]
pub struct Evidence {
    /// The last 2 minutes.
    pub window: Counts,
    /// For how long these 2 minutes count: longer over several gateways.
    pub heard_ms: u64,
    /// The 5 minutes, or as much longer as it takes to see enough, without their worst minute.
    pub short: Counts,
    /// How long that is with the worst minute.
    pub short_ms: u64,
    /// The last hour.
    pub long: Counts,
}

/// The slices of one compartment.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) fine: Ring,
    pub(super) coarse: Ring,
    /// When it last refused or was at its limit.
    pub(super) trouble_ms: u64,
}

impl Series {
    pub(super) fn new(rules: &Rules) -> Self {
        Self {
            fine: Ring::new(rules.fine_ms(), rules.short_ms()),
            coarse: Ring::new(rules.coarse_ms(), rules.long_ms()),
            trouble_ms: 0,
        }
    }

    /// Takes in one interval.
    pub(super) fn add(&mut self, rules: &Rules, from_ms: u64, to_ms: u64, counts: &Counts) {
        if counts.refused > 0 || counts.time_ms > 0 {
            self.trouble_ms = self.trouble_ms.max(to_ms);
        }
        for ring in [&mut self.fine, &mut self.coarse] {
            // Over a long interval nobody knows when the refusals were: they count as a burst at
            // its end, which wakes nobody unless it goes on.
            if to_ms.saturating_sub(from_ms) > rules.burst_ms() / 4 {
                let when = to_ms.saturating_sub(1);
                let refused = Counts {
                    refused: counts.refused,
                    ..Counts::default()
                };
                ring.spread(when, to_ms, &refused);
                ring.spread(from_ms, to_ms, &counts.without(&refused));
            } else {
                ring.spread(from_ms, to_ms, counts);
            }
        }
    }

    /// Adds what happened elsewhere.
    pub(super) fn merge(&mut self, other: &Self) {
        self.fine.merge(&other.fine);
        self.coarse.merge(&other.coarse);
        self.trouble_ms = self.trouble_ms.max(other.trouble_ms);
    }

    /// True when nothing that still counts happened here.
    pub(super) fn is_calm(&self, rules: &Rules, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.trouble_ms) > rules.long_ms()
    }

    /// What holds now. `heard_ms` is for how long the gateways were heard in the window.
    pub(super) fn judge(&self, rules: &Rules, now_ms: u64, heard_ms: u64) -> (Finding, Evidence) {
        let mut evidence = Evidence {
            heard_ms: heard_ms.max(rules.window_ms),
            ..Evidence::default()
        };
        if now_ms.saturating_sub(self.trouble_ms) > rules.short_ms() {
            return (Finding::Calm, evidence);
        }
        evidence.window = self.fine.sum(now_ms, rules.window_ms);
        evidence.long = self.coarse.sum(now_ms, rules.long_ms());
        let (window, long) = (evidence.window, evidence.long);
        let enough = evidence.heard_ms.saturating_mul(Rules::FULL_PERCENT) / 100;
        let is_full = window.time_ms >= enough;
        let many = window.refused >= Rules::REFUSALS_MIN;
        let wide = || self.wide(rules, now_ms, window);
        let above = |wide: Counts| rules.above_fast(wide.refused, wide.arrived);
        let burns = window.refused > 0 && above(wide());
        let hour =
            long.refused >= Rules::REFUSALS_MIN && rules.above_slow(long.refused, long.arrived);
        let slow = hour && self.lasts(rules, now_ms, &mut evidence);
        let finding = match () {
            () if is_full && many && burns => Finding::Holds(Rule::Fast),
            () if slow => Finding::Holds(Rule::Slow),
            () if is_full && !burns => Finding::Holds(Rule::Full),
            () if is_full || (many && burns) => Finding::Pending,
            () => Finding::Calm,
        };
        (finding, evidence)
    }

    /// True when the 5 minutes refuse too much, even without their worst minute.
    fn lasts(&self, rules: &Rules, now_ms: u64, evidence: &mut Evidence) -> bool {
        let worst = self.fine.worst(now_ms, rules.short_ms(), rules.burst_ms());
        let lasting = self.fine.sum(now_ms, rules.short_ms()).without(&worst);
        (evidence.short, evidence.short_ms) = self.stretched(rules, now_ms, lasting);
        lasting.refused > 0 && rules.above_slow(evidence.short.refused, evidence.short.arrived)
    }

    /// The window, stretched until it holds enough arrivals to speak of a share of them.
    fn wide(&self, rules: &Rules, now_ms: u64, window: Counts) -> Counts {
        let longer = stretches(rules).map(|span| self.coarse.sum(now_ms, span));
        let five = std::iter::once_with(|| self.fine.sum(now_ms, rules.short_ms()));
        enough(std::iter::once(window).chain(five).chain(longer))
    }

    /// The same for the 5 minutes without their worst minute.
    fn stretched(&self, rules: &Rules, now_ms: u64, lasting: Counts) -> (Counts, u64) {
        if lasting.arrived >= Rules::ARRIVALS_MIN {
            return (lasting, rules.short_ms());
        }
        let mut last = (lasting, rules.short_ms());
        for span_ms in stretches(rules) {
            let worst = self.coarse.worst(now_ms, span_ms, rules.burst_ms());
            last = (self.coarse.sum(now_ms, span_ms).without(&worst), span_ms);
            if last.0.arrived >= Rules::ARRIVALS_MIN {
                break;
            }
        }
        last
    }

    /// True when the clear time saw refusals within the budget only.
    pub(super) fn refuses_no_more(&self, rules: &Rules, now_ms: u64) -> bool {
        let sum = self.fine.sum(now_ms, rules.clear_ms());
        rules.within_budget(sum.refused, sum.arrived)
    }

    /// True when it had room for most of the clear time.
    pub(super) fn has_room(&self, rules: &Rules, now_ms: u64) -> bool {
        let sum = self.fine.sum(now_ms, rules.clear_ms());
        sum.time_ms < rules.clear_ms().saturating_mul(Rules::CALM_PERCENT) / 100
    }

    /// When this trouble began.
    pub(super) fn since(&self, rules: &Rules, now_ms: u64) -> u64 {
        self.fine
            .since(now_ms, rules.short_ms(), rules.burst_ms() / 2)
    }
}

/// Longer and longer, up to the hour.
fn stretches(rules: &Rules) -> impl Iterator<Item = u64> + use<> {
    let (short, long) = (rules.short_ms(), rules.long_ms());
    [2, 4, 8, 12]
        .into_iter()
        .map(move |n| short.saturating_mul(n).min(long))
}

/// The first that holds enough arrivals, or the last.
fn enough(windows: impl Iterator<Item = Counts>) -> Counts {
    let mut last = Counts::default();
    for counts in windows {
        last = counts;
        if counts.arrived >= Rules::ARRIVALS_MIN {
            break;
        }
    }
    last
}
