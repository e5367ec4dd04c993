//! The one place of this crate that reads a clock.
//!
//! Separate because time is a parameter everywhere else. It must never give wall-clock time: what
//! is measured here are spans.

use std::time::Instant;

/// Now, on the monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate that reads the clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}
