//! Which measured intervals advice may rest on.
//!
//! Separate because leaving out is a decision that must be shown: an incident teaches nothing
//! about normal traffic. It must never drop an interval without saying so.

use compartment::Histogram;
use serde::Serialize;

/// A window is an incident when its mean hold is more than this many times the slow average.
const INCIDENT_FACTOR: u64 = 2;
/// The weight of one window in the slow average is one in so many.
const SLOW_WEIGHT: u64 = 16;

/// One measured interval of one compartment on one gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// When it began, in milliseconds of Unix time.
    pub from_ms: i64,
    /// When it ended.
    pub to_ms: i64,
    /// How long it was heard of; of several gateways, each one's time added up, so that what is
    /// divided by it is one gateway's.
    pub elapsed_us: u64,
    /// Everybody who asked, refused ones included.
    pub arrived: u64,
    /// Everybody who was refused here.
    pub rejected: u64,
    /// Those of them whom an open breaker refused.
    pub breaker_open: u64,
    /// Most in flight at once.
    pub peak: u32,
    /// In flight, summed over time.
    pub in_flight_us: u64,
    /// How long those who ended held their slot, the wait excluded.
    pub hold: Histogram,
}

/// An interval that advice does not rest on, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct LeftOut {
    /// From, in milliseconds of Unix time.
    pub from_ms: i64,
    /// To.
    pub to_ms: i64,
    /// The mean hold in it; `None` when nothing ended.
    #[schema(required)]
    pub mean_hold_us: Option<u64>,
    /// What is usual.
    pub usual_hold_us: u64,
    /// Why.
    pub why: Why,
}

/// Why an interval is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LeftOutWhy)]
pub enum Why {
    /// The hold time was more than twice its slow average.
    Incident,
    /// Calls that began in an incident may still end in it.
    CoolDown,
    /// The breaker was open: most who would have come were never let in.
    BreakerOpen,
}

/// The usable ones, oldest first, and the others.
#[derive(Debug)]
pub(super) struct Sorted<'a> {
    pub(super) usable: Vec<&'a Window>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Tells incidents from normal traffic. `windows` are in the order of time; those without
/// arrivals say nothing and are in neither list.
pub(super) fn sort(windows: &[Window]) -> Sorted<'_> {
    let mut sorted = Sorted {
        usable: Vec::new(),
        left_out: Vec::new(),
    };
    let Some(mut usual_us) = median_hold(windows) else {
        // Nothing ever ended: there is nothing to compare with.
        sorted.usable.extend(
            windows
                .iter()
                .filter(|window| window.arrived > window.breaker_open),
        );
        return sorted;
    };
    let mut cooling_until_ms = i64::MIN;
    for window in windows {
        let mean_us = window.hold.mean_us();
        let why = match mean_us {
            Some(mean_us) if mean_us > usual_us.saturating_mul(INCIDENT_FACTOR) => {
                // At least the next window, and as long as its slowest calls may last.
                let slowest_us = window.hold.quantile_us(990).unwrap_or(mean_us);
                let lasts_us = slowest_us.max(window.elapsed_us);
                let lasts_ms = i64::try_from(lasts_us / 1_000).unwrap_or(i64::MAX);
                cooling_until_ms = cooling_until_ms.max(window.to_ms.saturating_add(lasts_ms));
                Some(Why::Incident)
            }
            _ if window.breaker_open > 0 => Some(Why::BreakerOpen),
            _ if window.from_ms < cooling_until_ms => Some(Why::CoolDown),
            _ => None,
        };
        match (why, mean_us) {
            (Some(why), _) => sorted.left_out.push(LeftOut {
                from_ms: window.from_ms,
                to_ms: window.to_ms,
                mean_hold_us: mean_us,
                usual_hold_us: usual_us,
                why,
            }),
            (None, mean_us) => {
                if let Some(mean_us) = mean_us {
                    usual_us = usual_us - usual_us / SLOW_WEIGHT + mean_us / SLOW_WEIGHT;
                }
                if window.arrived > 0 {
                    sorted.usable.push(window);
                }
            }
        }
    }
    sorted
}

/// The median of the windows' means: an incident of less than half of the time does not move it.
fn median_hold(windows: &[Window]) -> Option<u64> {
    let mut means: Vec<u64> = windows
        .iter()
        .filter_map(|window| window.hold.mean_us())
        .collect();
    means.sort_unstable();
    means
        .get(means.len() / 2)
        .copied()
        .map(|mean_us| mean_us.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_US: u64 = 60_000_000;

    fn window(minute: i64, mean_hold_us: u64) -> Window {
        let mut hold = Histogram::new();
        hold.record_n(mean_hold_us, 100);
        Window {
            from_ms: minute * 60_000,
            to_ms: (minute + 1) * 60_000,
            elapsed_us: MINUTE_US,
            arrived: 100,
            rejected: 0,
            breaker_open: 0,
            peak: 3,
            in_flight_us: 100 * mean_hold_us,
            hold,
        }
    }

    #[test]
    fn an_incident_and_the_window_after_it_are_left_out_and_listed() {
        let holds = [50, 52, 48, 5_000, 51, 50, 49].map(|ms| ms * 1_000);
        let windows: Vec<Window> = (0..).zip(holds).map(|(n, us)| window(n, us)).collect();
        let sorted = sort(&windows);
        let whys: Vec<(i64, Why)> = sorted
            .left_out
            .iter()
            .map(|left| (left.from_ms / 60_000, left.why))
            .collect();
        assert_eq!(whys, [(3, Why::Incident), (4, Why::CoolDown)]);
        assert_eq!(sorted.usable.len(), 5);
    }

    #[test]
    fn the_cool_down_is_as_long_as_the_slowest_call() {
        let holds = [50, 50, 50, 50, 50, 50, 180_000, 50, 50, 50, 50].map(|ms| ms * 1_000);
        let windows: Vec<Window> = (0..).zip(holds).map(|(n, us)| window(n, us)).collect();
        // Beyond the histogram's range a call counts with the upper edge: a minute and more.
        let cooling = sort(&windows)
            .left_out
            .iter()
            .filter(|left| left.why == Why::CoolDown)
            .count();
        assert!((1..=3).contains(&cooling), "{cooling}");
    }

    /// Quick failures and refusals shorten the mean: only the refusals tell.
    #[test]
    fn windows_with_an_open_breaker_are_left_out() {
        let mut windows: Vec<Window> = (0..9).map(|n| window(n, 50_000)).collect();
        windows[4].breaker_open = 1;
        let sorted = sort(&windows);
        let whys: Vec<_> = sorted.left_out.iter().map(|left| left.why).collect();
        assert_eq!((whys, sorted.usable.len()), (vec![Why::BreakerOpen], 8));
        // Also where nothing ever ended.
        let mut window = window(0, 0);
        (window.hold, window.breaker_open) = (Histogram::new(), 100);
        assert!(sort(&[window]).usable.is_empty());
    }

    #[test]
    fn a_slow_drift_is_no_incident() {
        let windows: Vec<Window> = (0..100)
            .map(|n| window(n, 30_000 + 900 * u64::try_from(n).unwrap()))
            .collect();
        assert!(sort(&windows).left_out.is_empty());
    }

    #[test]
    fn a_window_without_traffic_says_nothing() {
        let quiet = Window {
            arrived: 0,
            hold: Histogram::new(),
            ..window(1, 0)
        };
        let all = [window(0, 50_000), quiet];
        let sorted = sort(&all);
        assert_eq!((sorted.usable.len(), sorted.left_out.len()), (1, 0));
        assert!(sort(&[]).usable.is_empty());
    }
}
