//! How slowly a client may send a body.
//!
//! Separate because a byte now and then keeps every idle bound quiet: the whole time that a client
//! was waited for is held against what it sent. It must never count the time in which the upstream
//! did not read.

use std::time::Duration;

use crate::clock::whole_us;

/// A body of which less came is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeastRate {
    /// So long every body may take.
    pub after: Duration,
    /// From then on it must have brought so many bytes for each second of waiting.
    pub bytes_per_s: u32,
}

impl Default for LeastRate {
    fn default() -> Self {
        Self {
            after: Duration::from_secs(30),
            bytes_per_s: 1_024,
        }
    }
}

impl LeastRate {
    /// How long a client may be waited for in all that has sent so much.
    pub(crate) fn patience_us(self, sent_bytes: u64) -> u64 {
        let rate = u64::from(self.bytes_per_s.max(1));
        let earned_us = sent_bytes.saturating_mul(1_000_000) / rate;
        whole_us(self.after).max(earned_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_seconds_are_free_and_then_bytes_earn_time() {
        let rate = LeastRate::default();
        for (sent_bytes, seconds) in [(0, 30), (1_024, 30), (30 * 1_024, 30), (61_440, 60)] {
            assert_eq!(
                rate.patience_us(sent_bytes),
                seconds * 1_000_000,
                "{sent_bytes}"
            );
        }
        assert!(rate.patience_us(u64::MAX) > 1_000_000 * 86_400);
    }
}
