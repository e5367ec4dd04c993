//! Numbers as a person reads them: counts with commas, percent, durations.
//!
//! Separate so that a figure looks the same on every page, and in whole-number arithmetic so that
//! nothing rounds up to a limit it has not reached. It must never know what a figure means.

/// A whole number that is not negative, by value or as templates pass it, by reference.
pub trait Whole {
    /// The number.
    fn wide(&self) -> u64;
}

impl Whole for u64 {
    fn wide(&self) -> u64 {
        *self
    }
}

impl Whole for u32 {
    fn wide(&self) -> u64 {
        (*self).into()
    }
}

impl Whole for usize {
    fn wide(&self) -> u64 {
        u64::try_from(*self).unwrap_or(u64::MAX)
    }
}

impl<T: Whole> Whole for &T {
    fn wide(&self) -> u64 {
        (**self).wide()
    }
}

/// A count with commas: `1,043`.
pub fn count(n: impl Whole) -> String {
    let digits = n.wide().to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Millionths as a decimal fraction without trailing zeros.
pub fn millionths(n: u32) -> String {
    let text = format!("{}.{:06}", n / 1_000_000, n % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// All of a count by reason.
pub(crate) fn sum(by_reason: &std::collections::BTreeMap<compartment::Rejection, u64>) -> u64 {
    by_reason.values().fold(0, |sum, n| sum.saturating_add(*n))
}

/// A duration in microseconds: below a millisecond in those, else as [`duration`].
pub fn micros(us: u64) -> String {
    match us {
        0..1_000 => format!("{us}\u{a0}µs"),
        _ => duration(us / 1_000),
    }
}

/// `part` of `whole`: one digit after the point below 10 %, whole numbers above, and 100 % only
/// when it is all of it.
pub fn percent(part: impl Whole, whole: impl Whole) -> String {
    let (part, whole) = (part.wide(), whole.wide());
    if part == 0 || whole == 0 {
        return "0\u{a0}%".to_owned();
    }
    if part >= whole {
        return format!("{}\u{a0}%", count(wide_ratio(part, whole, 100)));
    }
    let tenths = wide_ratio(part, whole, 1000);
    match tenths {
        0 => "<\u{a0}0.1\u{a0}%".to_owned(),
        1..100 => format!("{}.{}\u{a0}%", tenths / 10, tenths % 10),
        _ => format!("{}\u{a0}%", wide_ratio(part, whole, 100).min(99)),
    }
}

/// `part * scale / whole`, rounded to the nearest, without overflow. 0 when `whole` is 0.
pub(crate) fn wide_ratio(part: u64, whole: u64, scale: u32) -> u64 {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let scaled = part * u128::from(scale) + whole / 2;
    u64::try_from(scaled.checked_div(whole).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// A duration: milliseconds below one second, then seconds with up to three digits, then the two
/// largest units.
pub fn duration(ms: impl Whole) -> String {
    let ms = ms.wide();
    let (seconds, minutes, hours) = (ms / 1000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms}\u{a0}ms"),
        1_000..10_000 => format!("{seconds}.{}\u{a0}s", ms % 1000 / 100),
        10_000..60_000 => format!("{seconds}\u{a0}s"),
        60_000..3_600_000 => two(minutes, "min", seconds % 60, "s"),
        3_600_000..86_400_000 => two(hours, "h", minutes % 60, "min"),
        _ => two(hours / 24, "d", hours % 24, "h"),
    }
}

/// Two units, or one when the second is zero.
fn two(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    let large = format!("{}\u{a0}{large_unit}", count(large));
    if small == 0 {
        large
    } else {
        format!("{large} {small}\u{a0}{small_unit}")
    }
}

/// How long ago, in one unit: `just now`, `5 min ago`.
pub fn ago(ms: u64) -> String {
    match ms {
        0..2_000 => "just now".to_owned(),
        2_000..60_000 => format!("{}\u{a0}s ago", ms / 1000),
        60_000..3_600_000 => format!("{}\u{a0}min ago", ms / 60_000),
        3_600_000..172_800_000 => format!("{}\u{a0}h ago", ms / 3_600_000),
        _ => format!("{}\u{a0}days ago", count(ms / 86_400_000)),
    }
}

/// `4:59`.
pub fn countdown(seconds: u64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// `1 gateway`, `3 gateways`.
pub fn plural(n: impl Whole, one: &str, many: &str) -> String {
    let n = n.wide();
    format!("{}\u{a0}{}", count(n), if n == 1 { one } else { many })
}

/// Longer pieces of a name may be broken anywhere.
const PIECE_CHARS_MAX: usize = 28;

/// A name in pieces: it may be broken after each slash, and within a piece only where that is
/// long; the second says so.
pub fn pieces(name: &str) -> Vec<(&str, bool)> {
    let pieces = name.split_inclusive('/');
    pieces
        .map(|piece| (piece, piece.chars().count() > PIECE_CHARS_MAX))
        .collect()
}

/// A word of a command line as every shell takes it. Also zsh, which looks for files by `?`, `*`,
/// `[` and a `=` or `~` in front.
pub fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/:._-%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn names_break_after_slashes() {
        assert_eq!(pieces("gateway"), [("gateway", false)]);
        let long = "x".repeat(29);
        let name = format!("route/a/tenant/{long}");
        let expected = [
            ("route/", false),
            ("a/", false),
            ("tenant/", false),
            (&long, true),
        ];
        assert_eq!(pieces(&name), expected);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn counts_have_commas() {
        for (n, text) in [
            (0_u64, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn percent_has_one_digit_below_ten_and_is_whole_only_when_it_is_all() {
        for (part, whole, text) in [
            (0_u64, 0_u64, "0 %"),
            (0, 9, "0 %"),
            (1, 1_000_000, "< 0.1 %"),
            (13, 1000, "1.3 %"),
            (996, 10_000, "10 %"),
            (994, 10_000, "9.9 %"),
            (42, 100, "42 %"),
            (999_999, 1_000_000, "99 %"),
            (7, 7, "100 %"),
            (14, 7, "200 %"),
            (u64::MAX - 1, u64::MAX, "99 %"),
        ] {
            assert_eq!(plain(&percent(part, whole)), text, "{part} of {whole}");
        }
    }

    #[test]
    fn durations_use_the_largest_units() {
        for (ms, text) in [
            (0_u64, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (59_999, "59 s"),
            (60_000, "1 min"),
            (61_000, "1 min 1 s"),
            (7_500_000, "2 h 5 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(plain(&duration(ms)), text);
        }
        assert_eq!(plain(&micros(999)), "999 µs");
        assert_eq!(plain(&micros(1_500)), "1 ms");
        assert_eq!(plain(&ago(1_999)), "just now");
        assert_eq!(plain(&ago(300_000)), "5 min ago");
        assert_eq!(plain(&ago(260_000_000)), "3 days ago");
    }

    #[test]
    fn a_word_for_a_shell_is_one_word_and_no_pattern() {
        for (word, typed) in [
            ("route/a-b_c.d", "route/a-b_c.d"),
            ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
            ("http://[::1]:8081", "'http://[::1]:8081'"),
            ("http://h/x%2Fy", "http://h/x%2Fy"),
            ("http://h/x?limit=N", "'http://h/x?limit=N'"),
            ("it's; rm", "'it'\\''s; rm'"),
            ("", "''"),
        ] {
            assert_eq!(shell(word), typed);
        }
    }
}
