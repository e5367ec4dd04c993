//! The three widths of the history's rows, and the grid they lie on.
//!
//! Separate so that writing, rolling up, expiring and reading mean the same seconds. It must
//! never know a clock: slots are counted from 1970 in UTC, so none is lost or doubled when clocks
//! are changed.

/// Most points of one answer.
pub const POINTS_MAX: i64 = 10_000;
/// What is chosen for a reader who names no width: the finest that gives no more points.
const POINTS_FIT: i64 = 1_500;

/// How wide a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Kept for a day, by gateway.
    TenSeconds,
    /// Kept for two weeks.
    Minute,
    /// Kept for 400 days.
    Hour,
}

impl Step {
    /// Finest first.
    pub const ALL: [Self; 3] = [Self::TenSeconds, Self::Minute, Self::Hour];

    /// Its width.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::TenSeconds => 10,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    /// How long rows of this width are kept.
    pub const fn keep_seconds(self) -> i64 {
        const DAY: i64 = 86_400;
        match self {
            Self::TenSeconds => DAY,
            Self::Minute => 14 * DAY,
            Self::Hour => 400 * DAY,
        }
    }

    /// The name in addresses and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TenSeconds => "10s",
            Self::Minute => "1m",
            Self::Hour => "1h",
        }
    }

    /// The width of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|step| step.as_str() == name)
    }

    /// The start of the slot that holds this second.
    pub const fn slot(self, at_s: i64) -> i64 {
        at_s.saturating_sub(at_s.rem_euclid(self.seconds()))
    }

    /// The finest width that is still kept at the start of a range and gives few enough points.
    pub fn fitting(from_s: i64, to_s: i64, now_s: i64) -> Self {
        let fits = |step: &Self| {
            to_s.saturating_sub(from_s) / step.seconds() <= POINTS_FIT
                && now_s.saturating_sub(from_s) <= step.keep_seconds()
        };
        Self::ALL.into_iter().find(fits).unwrap_or(Self::Hour)
    }
}

/// Whole slots from one second up to and without another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first second.
    pub from_s: i64,
    /// The first second behind.
    pub to_s: i64,
}

impl Range {
    /// The slots of this width that hold any of it.
    pub const fn on_grid(self, step: Step) -> Self {
        let last = self.to_s.saturating_add(step.seconds() - 1);
        Self {
            from_s: step.slot(self.from_s),
            to_s: step.slot(last),
        }
    }

    /// How many slots of this width.
    pub const fn count(self, step: Step) -> i64 {
        let length = self.to_s.saturating_sub(self.from_s);
        if length <= 0 {
            0
        } else {
            length / step.seconds()
        }
    }

    /// What of it lies at or behind a second.
    pub fn since(self, at_s: i64) -> Self {
        Self {
            from_s: self.from_s.max(at_s),
            to_s: self.to_s,
        }
    }

    /// What of it lies before a second.
    pub fn until(self, at_s: i64) -> Self {
        Self {
            from_s: self.from_s,
            to_s: self.to_s.min(at_s),
        }
    }

    /// True when there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.from_s >= self.to_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_fits_the_range_and_what_is_kept() {
        let now = 1_700_000_000;
        let fitting = |length: i64, ago: i64| Step::fitting(now - ago - length, now - ago, now);
        assert_eq!(fitting(3_600, 0), Step::TenSeconds);
        assert_eq!(fitting(4 * 3_600, 0), Step::TenSeconds);
        assert_eq!(fitting(5 * 3_600, 0), Step::Minute);
        assert_eq!(fitting(86_400, 0), Step::Minute);
        assert_eq!(fitting(3_600, 2 * 86_400), Step::Minute);
        assert_eq!(fitting(3_600, 20 * 86_400), Step::Hour);
        assert_eq!(fitting(400 * 86_400, 0), Step::Hour);
        for step in Step::ALL {
            assert_eq!(Step::from_name(step.as_str()), Some(step));
        }
    }

    #[test]
    fn slots_lie_on_one_grid_also_before_1970() {
        for step in Step::ALL {
            for at in [-3_601, -1, 0, 1, 59, 3_599, 3_600, 1_700_000_123] {
                let slot = step.slot(at);
                assert!(slot <= at && at - slot < step.seconds() && slot % step.seconds() == 0);
            }
            step.slot(i64::MIN);
        }
        let range = Range {
            from_s: 61,
            to_s: 119,
        }
        .on_grid(Step::Minute);
        assert_eq!(
            (range.from_s, range.to_s, range.count(Step::Minute)),
            (60, 120, 1)
        );
    }
}
