//! How long to wait before the next attempt to reach the control plane.
//!
//! Separate so that the arithmetic is tested without a network: chance is a parameter. It must
//! never wait for a fixed time, or every gateway would come back in the same instant.

use std::time::Duration;

/// The first wait after a good connection.
const FIRST_MS: u64 = 100;
/// No wait is longer.
const LAST_MS: u64 = 5_000;

/// Doubles from 100 ms to 5 s; each wait lies between half of that and all of it.
#[derive(Debug)]
pub(crate) struct BackOff {
    next_ms: u64,
}

impl BackOff {
    pub(crate) const fn new() -> Self {
        Self { next_ms: FIRST_MS }
    }

    /// The connection was good: the next failure starts from the beginning.
    pub(crate) const fn reset(&mut self) {
        self.next_ms = FIRST_MS;
    }

    /// The next wait; `chance` is any number, evenly spread.
    pub(crate) fn next(&mut self, chance: u64) -> Duration {
        let whole_ms = self.next_ms;
        let half_ms = whole_ms / 2;
        self.next_ms = whole_ms.saturating_mul(2).min(LAST_MS);
        let extra_ms = chance
            .checked_rem(half_ms.saturating_add(1))
            .unwrap_or_default();
        Duration::from_millis(half_ms.saturating_add(extra_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(chance: u64) -> Vec<u128> {
        let mut back_off = BackOff::new();
        (0..8).map(|_| back_off.next(chance).as_millis()).collect()
    }

    #[test]
    fn waits_double_up_to_the_cap() {
        assert_eq!(waits(0), [50, 100, 200, 400, 800, 1600, 2500, 2500]);
        let longest = (0..5_000).map(|chance| waits(chance)[7]).max();
        assert_eq!(longest, Some(5_000));
    }

    #[test]
    fn a_good_connection_starts_over() {
        let mut back_off = BackOff::new();
        for _ in 0..9 {
            back_off.next(7);
        }
        back_off.reset();
        assert!(back_off.next(u64::MAX) <= Duration::from_millis(FIRST_MS));
    }
}
