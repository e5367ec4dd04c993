//! The loss formula: what share is refused when nobody waits.
//!
//! Separate because it is a law of its own, used forwards and backwards: from a limit to a share,
//! and from a share to the smallest limit. It must never be asked about hold times: only their
//! mean counts, whatever their law.

use compartment::LIMIT_MAX;

/// The share of arrivals that `limit` slots refuse when `offered` slots are asked for on average:
/// Erlang's B, by its recursion `B(n) = A B(n-1) / (n + A B(n-1))`.
pub(crate) fn refused_share(offered: f64, limit: u32) -> f64 {
    if offered.is_nan() || offered <= 0.0 {
        return if limit == 0 { 1.0 } else { 0.0 };
    }
    let mut share = 1.0;
    for slots in 1..=limit {
        share = offered * share / (f64::from(slots) + offered * share);
        // Far above the load it only falls: nothing below this is ever shown.
        if share < 1e-15 {
            return 0.0;
        }
    }
    share
}

/// The smallest limit that refuses at most `target` of the arrivals; `None` beyond the range of
/// limits.
pub(crate) fn smallest_limit(offered: f64, target: f64) -> Option<u32> {
    if offered.is_nan() || offered <= 0.0 {
        return Some(1);
    }
    let mut share = 1.0;
    for slots in 1..=LIMIT_MAX {
        share = offered * share / (f64::from(slots) + offered * share);
        if share <= target {
            return Some(slots);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the algorithms: offered load, then the limits for 1 %, 0.1 % and 0.01 %.
    #[test]
    fn the_limits_of_the_table() {
        for (offered, limits) in [
            (0.2, [3, 4, 4]),
            (1.0, [5, 6, 7]),
            (3.0, [8, 10, 12]),
            (10.0, [18, 21, 24]),
            (20.0, [30, 35, 39]),
            (50.0, [64, 71, 77]),
            (100.0, [117, 128, 137]),
            (500.0, [527, 555, 574]),
        ] {
            let found = [0.01, 0.001, 0.0001].map(|target| smallest_limit(offered, target));
            assert_eq!(found, limits.map(Some), "offered {offered}");
        }
    }

    #[test]
    fn the_shares_of_the_table() {
        for (offered, limit, percent) in [
            (0.2, 1, 16.7),
            (1.0, 1, 50.0),
            (1.0, 2, 20.0),
            (3.0, 3, 34.6),
            (3.0, 6, 5.2),
            (10.0, 10, 21.5),
            (10.0, 20, 0.19),
            (20.0, 20, 15.9),
            (50.0, 50, 10.5),
            (100.0, 100, 7.6),
            (500.0, 500, 3.5),
        ] {
            let share = refused_share(offered, limit) * 100.0;
            assert!(
                (share - percent).abs() < 0.06,
                "{offered} on {limit}: {share}"
            );
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(refused_share(0.0, 3), 0.0);
        assert_eq!(refused_share(5.0, 0), 1.0);
        assert_eq!(refused_share(f64::NAN, 3), 0.0);
        assert_eq!(refused_share(0.1, 1_000_000), 0.0);
        assert_eq!(smallest_limit(0.0, 0.001), Some(1));
        assert_eq!(smallest_limit(1e9, 0.001), None);
    }
}
