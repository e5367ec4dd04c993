//! The one place of this crate that reads a clock.
//!
//! Separate so that time is a parameter elsewhere. It must never be used for a bound: what it
//! gives is wall-clock time, for what is written down.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}
