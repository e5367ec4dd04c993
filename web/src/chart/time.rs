//! Wall-clock labels in UTC from milliseconds.
//!
//! Separate because a page has no clock and no time zone of its own: buckets are UTC, so none is
//! lost or doubled when clocks change. It must never be asked for the present.

const DAY_MS: i64 = 86_400_000;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `14:05`, or `14:05:30` where seconds matter.
pub(super) fn clock(unix_ms: i64, seconds: bool) -> String {
    let of_day = unix_ms.rem_euclid(DAY_MS) / 1_000;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    if seconds {
        format!("{hour:02}:{minute:02}:{second:02}")
    } else {
        format!("{hour:02}:{minute:02}")
    }
}

/// `3 Jul 14:05`.
pub(super) fn day_and_clock(unix_ms: i64) -> String {
    let (month, day) = month_and_day(unix_ms.div_euclid(DAY_MS));
    let name = usize::try_from(month - 1)
        .ok()
        .and_then(|at| MONTHS.get(at));
    format!("{day} {} {}", name.unwrap_or(&""), clock(unix_ms, false))
}

/// As in a `<time datetime>`.
pub(super) fn iso(unix_ms: i64) -> String {
    let days = unix_ms.div_euclid(DAY_MS);
    let (month, day) = month_and_day(days);
    format!(
        "{}-{month:02}-{day:02}T{}Z",
        year(days),
        clock(unix_ms, true)
    )
}

/// Days since 1970 in an era of 400 years that begins with March: leap days come last.
fn of_era(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    (era, year, day - (365 * year + year / 4 - year / 100))
}

fn month_and_day(days: i64) -> (i64, i64) {
    let (_, _, of_year) = of_era(days);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    (month, day)
}

fn year(days: i64) -> i64 {
    let (era, year, _) = of_era(days);
    let (month, _) = month_and_day(days);
    era * 400 + year + i64::from(month <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_000, "2024-02-29T23:59:59Z"),
            (1_796_083_200_000, "2026-12-01T00:00:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (-1_000, "1969-12-31T23:59:59Z"),
        ] {
            assert_eq!(iso(unix_ms), text);
        }
        assert_eq!(day_and_clock(1_782_907_500_000), "1 Jul 12:05");
        assert_eq!(clock(1_782_907_530_000, true), "12:05:30");
    }
}
