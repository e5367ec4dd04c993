//! The one place of this crate that reads a clock.
//!
//! Separate so that time is a parameter everywhere else. It must never be read more than twice
//! on the path of a request that does not wait.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time in microseconds since the start of the process. A jump of the wall clock does
/// nothing to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts at 0.
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Microseconds since the start.
    #[expect(clippy::disallowed_methods, reason = "this is the clock module")]
    pub(crate) fn now_us(self) -> u64 {
        whole_us(Instant::now().saturating_duration_since(self.origin))
    }

    /// The time of an instant that somebody else read.
    pub(crate) fn us_of(self, instant: Instant) -> u64 {
        whole_us(instant.saturating_duration_since(self.origin))
    }

    /// The instant of `at_us`, for timers.
    pub(crate) fn instant(self, at_us: u64) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.origin + Duration::from_micros(at_us))
    }
}

/// Microseconds of a duration; saturates after half a million years.
pub(crate) fn whole_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Microseconds of wall-clock time since 1970, for what is written down; never for a bound.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn unix_us() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    whole_us(since)
}

/// The same in whole seconds.
pub(crate) fn unix_s() -> u64 {
    unix_us() / 1_000_000
}

/// The same in milliseconds.
pub(crate) fn unix_ms() -> u64 {
    unix_us() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back_and_instants_agree() {
        let clock = Clock::start();
        let (first, second) = (clock.now_us(), clock.now_us());
        assert!(first <= second);
        assert_eq!(
            clock.instant(7) - clock.instant(2),
            Duration::from_micros(5)
        );
    }
}
