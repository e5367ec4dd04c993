//! Is more in flight than the hold times of ended requests explain?
//!
//! Separate because it is pure, and a second opinion: it knows no permit and no age, only two
//! sums that are counted apart. Over a window, what is in flight on average equals the hold times
//! of those who left in it, by the window, but for what began before or ends after. A permit that
//! never comes back adds exactly one, for ever; a step in latency adds much, but goes again. It
//! must never be asked by a request.

/// The least length of a window.
pub const LITTLE_WINDOW_US: u64 = 60_000_000;
/// A finding takes so many windows, one after the other.
pub const LITTLE_WINDOWS: usize = 3;
/// Each at least this far above nothing, in thousandths of a slot.
const RESIDUAL_MIN_MILLI: i64 = 800;
/// The last may be this much below the first and is still not falling.
const FALL_MAX_MILLI: i64 = 200;

/// The sums of one compartment at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// When.
    pub now_us: u64,
    /// In flight summed over time, as [`crate::Figures::in_flight_us`].
    pub in_flight_us: u64,
    /// The hold times of all that ended.
    pub held_us: u64,
}

/// Watches one compartment.
#[derive(Clone, Debug)]
pub struct Little {
    window_us: u64,
    before: Option<Sums>,
    /// The newest last, in thousandths of a slot.
    residuals: Vec<i64>,
}

impl Default for Little {
    fn default() -> Self {
        Self::new(LITTLE_WINDOW_US)
    }
}

impl Little {
    /// With windows of at least this length.
    pub const fn new(window_us: u64) -> Self {
        Self {
            window_us,
            before: None,
            residuals: Vec::new(),
        }
    }

    /// Takes note of the sums; the residual of the window that they end, if they end one.
    pub fn observe(&mut self, now: Sums) -> Option<i64> {
        let Some(before) = self.before else {
            self.before = Some(now);
            return None;
        };
        let window_us = now.now_us.saturating_sub(before.now_us);
        if window_us < self.window_us.max(1) {
            return None;
        }
        let in_flight_us = i128::from(now.in_flight_us) - i128::from(before.in_flight_us);
        let held_us = i128::from(now.held_us) - i128::from(before.held_us);
        let milli = (in_flight_us - held_us) * 1_000 / i128::from(window_us);
        let clamped = milli.clamp(i64::MIN.into(), i64::MAX.into());
        let residual = i64::try_from(clamped).unwrap_or(0);
        self.before = Some(now);
        if self.residuals.len() >= LITTLE_WINDOWS {
            self.residuals.remove(0);
        }
        self.residuals.push(residual);
        Some(residual)
    }

    /// True when the last windows all say that something does not come back.
    pub fn suspects(&self) -> bool {
        let high = self
            .residuals
            .iter()
            .all(|residual| *residual >= RESIDUAL_MIN_MILLI);
        let not_falling = match (self.residuals.first(), self.residuals.last()) {
            (Some(first), Some(last)) => *last >= first.saturating_sub(FALL_MAX_MILLI),
            (None, _) | (_, None) => false,
        };
        self.residuals.len() >= LITTLE_WINDOWS && high && not_falling
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const S: u64 = 1_000_000;

    /// Numbers that look random and are the same each time.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, most: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % most
        }
    }

    /// An hour of traffic, `gap_us` apart on average, held as `hold_us` says; every so many
    /// never come back. The window in which a leak is suspected first, and the largest residual.
    fn hour(
        gap_us: u64,
        hold_us: impl Fn(u64, &mut Dice) -> u64,
        leaks: impl Fn(u64) -> bool,
    ) -> (Option<u64>, i64) {
        let mut dice = Dice(7);
        let (mut now_us, mut ends) = (0, BTreeMap::<u64, Vec<u64>>::new());
        let mut events: Vec<(u64, i64, u64)> = Vec::new();
        let mut count = 0;
        while now_us < 3_600 * S {
            now_us += 1 + dice.below(2 * gap_us);
            count += 1;
            events.push((now_us, 1, 0));
            let held = hold_us(now_us, &mut dice);
            if !leaks(count) {
                ends.entry(now_us + held).or_default().push(held);
            }
        }
        let left = ends
            .into_iter()
            .flat_map(|(at, held)| held.into_iter().map(move |held| (at, -1, held)));
        events.extend(left);
        events.sort_unstable();
        let (mut little, mut largest, mut found) = (Little::default(), i64::MIN, None);
        let mut sums = Sums {
            now_us: 0,
            in_flight_us: 0,
            held_us: 0,
        };
        little.observe(sums);
        let (mut in_flight, mut window) = (0_i64, 0);
        for (at, step, held) in events {
            while sums.now_us < at {
                let next = at.min((sums.now_us / (60 * S) + 1) * 60 * S);
                let more = u64::try_from(in_flight).unwrap_or(0) * (next - sums.now_us);
                sums.in_flight_us += more;
                sums.now_us = next;
                if next % (60 * S) == 0 {
                    window += 1;
                    largest = largest.max(little.observe(sums).unwrap_or(i64::MAX));
                    if little.suspects() {
                        found = found.or(Some(window));
                    }
                }
            }
            in_flight += step;
            sums.held_us += held;
        }
        (found, largest)
    }

    fn usual(_: u64, dice: &mut Dice) -> u64 {
        50_000 + dice.below(100_000)
    }

    #[test]
    fn healthy_traffic_has_no_residual() {
        let (found, largest) = hour(10_000, usual, |_| false);
        assert_eq!(found, None);
        assert!(largest < 300, "{largest}");
    }

    #[test]
    fn one_lost_permit_is_found_within_three_windows_of_its_own() {
        // The first request of the third minute is lost.
        let lost = 120 * S / 10_000;
        let (found, _) = hour(10_000, usual, |count| count == lost + 50);
        // Lost within the third window, it fills the fourth to the sixth.
        assert!(matches!(found, Some(5 | 6)), "{found:?}");
    }

    #[test]
    fn many_lost_permits_are_found_too() {
        let (found, _) = hour(100_000, usual, |count| count.is_multiple_of(500));
        assert!(found.is_some_and(|window| window <= 5), "{found:?}");
    }

    #[test]
    fn a_step_in_latency_is_no_leak() {
        let step = |at: u64, dice: &mut Dice| {
            let slow = (1_500 * S..1_800 * S).contains(&at);
            usual(at, dice) * if slow { 50 } else { 1 }
        };
        let (found, largest) = hour(50_000, step, |_| false);
        assert_eq!(found, None);
        assert!(largest > 1_000, "the step shows: {largest}");
    }

    #[test]
    fn a_window_that_has_not_ended_says_nothing() {
        let mut little = Little::new(100);
        let at = |now_us| Sums {
            now_us,
            in_flight_us: now_us,
            held_us: 0,
        };
        assert_eq!(little.observe(at(50)), None);
        assert_eq!(little.observe(at(149)), None);
        assert_eq!(little.observe(at(150)), Some(1_000));
        assert_eq!(little.observe(at(10)), None, "a clock that went back");
        for now_us in [250, 350] {
            assert!(!little.suspects());
            little.observe(at(now_us));
        }
        assert!(little.suspects());
    }
}
