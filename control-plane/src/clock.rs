//! The crate's one clock.
//!
//! Separate so that nothing else reads the time: what depends on it takes it as a parameter and
//! can be tested at any moment. It must never be called from a function that could be handed a
//! time instead.

use std::time::Instant;

/// A moment that only moves forward, for ages and waits.
#[expect(clippy::disallowed_methods, reason = "the crate's one clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The wall clock in milliseconds since 1970.
pub(crate) fn unix_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// The wall clock.
pub(crate) fn timestamp() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// The wall clock as people and stores write it: UTC, ISO 8601, milliseconds.
pub(crate) fn utc() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_wall_clock_is_written_in_utc() {
        let text = super::utc();
        assert_eq!(text.len(), "2026-01-01T00:00:00.000Z".len(), "{text}");
        assert!(
            text.ends_with('Z') && text.parse::<jiff::Timestamp>().is_ok(),
            "{text}"
        );
    }
}
