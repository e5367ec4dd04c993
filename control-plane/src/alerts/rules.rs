//! The numbers of the alerts: windows, budget, thresholds.
//!
//! Separate because tests run the same rules at a fraction of the time, and because pages and
//! notices print the numbers that decide. It must never hold a measured figure.

use std::time::Duration;

/// Shortest and longest window that can be asked for.
pub const WINDOW_MS_MIN: u64 = 1_000;
/// An hour: its long window is then a day and a quarter.
pub const WINDOW_MS_MAX: u64 = 3_600_000;
/// Largest budget: a tenth of all requests.
pub const BUDGET_PPM_MAX: u64 = 100_000;

/// The fast rule fires above this many tenths of the budget.
const FAST_TENTHS: u64 = 144;
/// The slow rule fires above this many tenths of the budget.
const SLOW_TENTHS: u64 = 60;
/// The budget unless told otherwise: one request of a thousand, in millionths.
const BUDGET_PPM_DEFAULT: u64 = 1_000;
/// The window of the fast rule unless told otherwise.
const WINDOW_MS_DEFAULT: u64 = 120_000;

/// Everything that decides. All windows keep their proportions, so one number scales time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// "The last 2 minutes".
    pub window_ms: u64,
    /// Refusals that are within promise, in millionths of the arrivals.
    pub budget_ppm: u64,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            window_ms: WINDOW_MS_DEFAULT,
            budget_ppm: BUDGET_PPM_DEFAULT,
        }
    }
}

impl Rules {
    /// Percent of the window that must have been spent at the limit.
    pub const FULL_PERCENT: u64 = 80;
    /// Below this percent of the clear time at the limit, a compartment is no longer full.
    pub const CALM_PERCENT: u64 = 50;
    /// Percent of the clear time for which a gateway must have been heard.
    pub const HEARD_PERCENT: u64 = 90;
    /// Refusals below this number wake nobody.
    pub const REFUSALS_MIN: u64 = 20;
    /// A share of fewer arrivals says little: the window is stretched until it holds as many.
    pub const ARRIVALS_MIN: u64 = 100;
    /// From this many compartments of one upstream on there is one notice for all of them.
    pub const GROUP_MIN: usize = 5;

    /// 5 minutes: the short window of the slow rule.
    pub const fn short_ms(&self) -> u64 {
        self.window_ms * 5 / 2
    }

    /// 1 hour: the long window of the slow rule.
    pub const fn long_ms(&self) -> u64 {
        self.window_ms * 30
    }

    /// 1 minute: refusals within so short a time are a burst, and wake nobody.
    pub const fn burst_ms(&self) -> u64 {
        self.window_ms / 2
    }

    /// 5 minutes without trouble end an alert.
    pub const fn clear_ms(&self) -> u64 {
        self.short_ms()
    }

    /// 15 minutes without a word of a gateway: what it last said no longer counts.
    pub const fn missing_ms(&self) -> u64 {
        self.clear_ms() * 3
    }

    /// 30 minutes: what fires again by then is the same alert.
    pub const fn reopen_ms(&self) -> u64 {
        self.window_ms * 15
    }

    /// 10 seconds: what fires within them is told in one notice.
    pub const fn group_wait_ms(&self) -> u64 {
        self.window_ms / 12
    }

    /// How often the rules are looked at.
    pub fn period(&self) -> Duration {
        Duration::from_millis((self.window_ms / 120).clamp(50, 1_000))
    }

    /// Width of the fine slices: 2 s.
    pub(super) const fn fine_ms(&self) -> u64 {
        self.window_ms / 60
    }

    /// Width of the coarse slices: 1 min.
    pub(super) const fn coarse_ms(&self) -> u64 {
        self.window_ms / 2
    }

    /// True when `refused` of `arrived` is above 14.4 times the budget.
    pub fn above_fast(&self, refused: u64, arrived: u64) -> bool {
        self.above(refused, arrived, FAST_TENTHS)
    }

    /// True when `refused` of `arrived` is above 6 times the budget.
    pub fn above_slow(&self, refused: u64, arrived: u64) -> bool {
        self.above(refused, arrived, SLOW_TENTHS)
    }

    /// True when `refused` of `arrived` keeps the budget; one refusal is nobody's trend.
    pub fn within_budget(&self, refused: u64, arrived: u64) -> bool {
        !self.above(refused.saturating_sub(1), arrived, 10)
    }

    /// `refused / arrived > tenths/10 * budget`, without a division.
    fn above(&self, refused: u64, arrived: u64, tenths: u64) -> bool {
        // A refused request arrived, whatever a counter that was read late says.
        let arrived = u128::from(arrived.max(refused));
        let allowed = arrived * u128::from(tenths) * u128::from(self.budget_ppm);
        u128::from(refused) * 10_000_000 > allowed
    }

    /// 14.4 times the budget in percent, as it is written: `1.44`.
    pub fn fast_percent(&self) -> String {
        percent(self.budget_ppm.saturating_mul(FAST_TENTHS) / 10)
    }

    /// 6 times the budget in percent.
    pub fn slow_percent(&self) -> String {
        percent(self.budget_ppm.saturating_mul(SLOW_TENTHS) / 10)
    }

    /// The budget in percent.
    pub fn budget_percent(&self) -> String {
        percent(self.budget_ppm)
    }
}

/// Millionths as percent, without trailing zeros.
fn percent(ppm: u64) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_keep_their_proportions() {
        let rules = Rules::default();
        let minutes = |ms: u64| ms / 60_000;
        assert_eq!(minutes(rules.short_ms()), 5);
        assert_eq!(minutes(rules.long_ms()), 60);
        assert_eq!(minutes(rules.burst_ms()), 1);
        assert_eq!(minutes(rules.clear_ms()), 5);
        assert_eq!(minutes(rules.missing_ms()), 15);
        assert_eq!(minutes(rules.reopen_ms()), 30);
        assert_eq!(rules.group_wait_ms(), 10_000);
        assert_eq!((rules.fine_ms(), rules.coarse_ms()), (2_000, 60_000));
    }

    #[test]
    fn thresholds_are_exact() {
        let rules = Rules::default();
        assert!(!rules.above_fast(144, 10_000), "1.44 % is not above 1.44 %");
        assert!(rules.above_fast(145, 10_000));
        assert!(!rules.above_slow(6, 1_000) && rules.above_slow(7, 1_000));
        assert!(rules.within_budget(11, 10_000) && !rules.within_budget(12, 10_000));
        assert!(rules.within_budget(1, 1) && !rules.within_budget(2, 1));
        assert!(rules.above_fast(u64::MAX, u64::MAX) && !rules.above_fast(0, u64::MAX));
        let words = (
            rules.fast_percent(),
            rules.slow_percent(),
            rules.budget_percent(),
        );
        assert_eq!(
            words,
            ("1.44".to_owned(), "0.6".to_owned(), "0.1".to_owned())
        );
    }
}
