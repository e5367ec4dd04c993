//! Measured figures in words.
//!
//! Separate because an article's figure comes out exactly, while a measured one has no more digits
//! than are worth reading. It must never be given a number that somebody chose.

use crate::sizing::Exact;

/// From here on a number has three digits before its point.
const ENOUGH: f64 = 100.0;
/// Most digits after the point.
const DECIMALS_MAX: usize = 6;

/// Three significant digits, without zeros at the end.
pub(crate) fn digits(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let mut decimals = 0_usize;
    let mut scaled = value.abs();
    while scaled > 0.0 && scaled < ENOUGH && decimals < DECIMALS_MAX {
        scaled *= 10.0;
        decimals += 1;
    }
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A share of one, in percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A measured number.
pub(super) fn near(value: Exact) -> String {
    digits(value.nearest_float())
}

/// A measured time, in the unit that suits it.
pub(super) fn near_time(seconds: Exact) -> String {
    let seconds = seconds.nearest_float();
    if seconds >= 1.0 {
        format!("{} s", digits(seconds))
    } else if seconds >= 0.001 || seconds == 0.0 {
        format!("{} ms", digits(seconds * 1e3))
    } else {
        format!("{} us", digits(seconds * 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_shown() {
        for (value, text) in [
            (0.0, "0"),
            (0.1, "0.1"),
            (1.0, "1"),
            (1.838_235_294, "1.84"),
            (0.618_901_146, "0.619"),
            (19.073_486, "19.1"),
            (1_359.4, "1359"),
            (0.000_012_345, "0.000012"),
            (100.0, "100"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(digits(value), text);
        }
        assert_eq!(percent(0.001), "0.1 %");
        assert_eq!(near_time(Exact::ratio(1_359_477, 1_000_000)), "1.36 s");
        assert_eq!(near_time(Exact::ratio(212, 1_000)), "212 ms");
        assert_eq!(near_time(Exact::ratio(48, 1_000_000)), "48 us");
    }
}
