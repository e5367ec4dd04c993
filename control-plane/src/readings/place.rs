//! Where a gateway's time lies on the control plane's.
//!
//! Separate because three clocks meet here: the gateway's that never jumps, its wall clock, which
//! is not believed, and ours, which may be set while we run. It must never look further back than
//! the last few reports: a clock that was set is followed.

/// How many reports are looked at: what waited together for a stalled connection counts as one.
const REPORTS: usize = 16;

/// The distance of the two clocks, as the quickest of the last reports had it.
#[derive(Debug, Default)]
pub(super) struct Place {
    distances_ms: [Option<i64>; REPORTS],
    next: usize,
}

impl Place {
    /// Our time of the gateway's start, seen from this report.
    pub(super) fn offset_ms(&mut self, received_unix_ms: i64, uptime_us: u64) -> i64 {
        let distance = received_unix_ms.saturating_sub(super::ledger::millis(uptime_us));
        if let Some(place) = self.distances_ms.get_mut(self.next) {
            *place = Some(distance);
        }
        self.next = (self.next + 1) % REPORTS;
        let known = self.distances_ms.iter().flatten();
        known.min().copied().unwrap_or(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports at these seconds since the boot, each this many milliseconds on its way, while our
    /// clock is this far off.
    fn offsets(reports: impl IntoIterator<Item = (u64, i64, i64)>) -> Vec<i64> {
        let mut place = Place::default();
        let one = |(second, late_ms, off_ms): (u64, i64, i64)| {
            let uptime_us = second * 1_000_000;
            place.offset_ms(
                1_000_000 + off_ms + late_ms + super::super::ledger::millis(uptime_us),
                uptime_us,
            )
        };
        reports.into_iter().map(one).collect()
    }

    #[test]
    fn a_report_that_was_held_up_lies_where_it_was_made() {
        let on_time = (1..5).map(|n| (n, 3, 0));
        // Five seconds of silence, then all that waited at once.
        let held_up = (5..10).map(|n| (n, 1_000 * (10 - i64::try_from(n).unwrap()), 0));
        for offset in offsets(on_time.chain(held_up)) {
            assert_eq!(offset, 1_000_003);
        }
    }

    #[test]
    fn a_clock_that_is_set_is_followed() {
        let before = (1..40).map(|n| (n, 3, 0));
        let back = (40..60).map(|n| (n, 3, -3_600_000));
        let seen = offsets(before.clone().chain(back));
        assert_eq!(seen.last(), Some(&(1_000_003 - 3_600_000)));
        let on = (40..80).map(|n| (n, 3, 3_600_000));
        assert_eq!(
            offsets(before.chain(on)).last(),
            Some(&(1_000_003 + 3_600_000))
        );
    }

    #[test]
    fn clocks_at_their_ends_do_not_overflow() {
        let mut place = Place::default();
        for (received, uptime) in [(i64::MIN, u64::MAX), (i64::MAX, 0), (0, u64::MAX)] {
            place.offset_ms(received, uptime);
        }
    }
}
