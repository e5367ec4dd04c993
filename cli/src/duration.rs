//! Spans of time as people write them: `250ms`, `5s`, `2m`, `1h`.
//!
//! Separate because flags, variables and the settings file share the form. It must never accept
//! a number without a unit: 30 could be seconds or milliseconds.

use std::time::Duration;

/// The longest span a setting may ask for: a day.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The rule, for messages.
pub(crate) const RULE: &str = "a span of time with its unit, like \"250ms\", \"30s\" or \"2m\", \
                               at most 24h";

/// Reads `text`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at_checked(split)?;
    let count: u64 = digits.parse().ok()?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let span = Duration::from_millis(count.checked_mul(unit_ms)?);
    (span <= SPAN_MAX).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        for (text, want_ms) in [("250ms", 250), ("0s", 0), ("5s", 5000), ("2m", 120_000)] {
            assert_eq!(parse(text), Some(Duration::from_millis(want_ms)), "{text}");
        }
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "1.5s",
            "5 s",
            "5d",
            "99999999999999999999s",
            "25h",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
