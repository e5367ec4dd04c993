//! Which compartments the Overview lists, and in which order.
//!
//! Separate because all of it comes from the address and goes back into it: a view can be sent to
//! somebody. It must never refuse an address; what is not understood does not filter.

use std::cmp::Reverse;

use compartment::Level;

use crate::{Reading, State, text, url};

/// The longest text that a search looks for, in characters.
const FIND_CHARS_MAX: usize = 140;

/// What the address asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only this level.
    pub level: Option<Level>,
    /// Only problems.
    pub problems: bool,
    /// Only keys with this text.
    pub find: String,
    /// In which order.
    pub sort: Sort,
}

/// The order of the table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Problems first, then by level and key.
    #[default]
    Problems,
    /// Most refusals since the start first.
    Rejected,
    /// Fullest first.
    Fullest,
    /// By key.
    Key,
}

impl Filter {
    /// From the values of the query; what is not understood does not filter.
    pub fn parse(level: &str, problems: &str, find: &str, sort: &str) -> Self {
        let level = Self::LEVELS
            .into_iter()
            .find(|known| known.as_str() == level);
        let find = find.trim().chars().take(FIND_CHARS_MAX).collect();
        let sort = Sort::ALL
            .into_iter()
            .find(|known| known.as_str() == sort)
            .unwrap_or_default();
        Self {
            level,
            problems: problems == "1",
            find,
            sort,
        }
    }

    /// The levels that can be asked for.
    pub const LEVELS: [Level; 7] = [
        Level::Route,
        Level::Stream,
        Level::Fallback,
        Level::Upstream,
        Level::Tenant,
        Level::TenantRoute,
        Level::Gateway,
    ];

    /// The address of this view.
    pub fn href(&self) -> String {
        let level = self.level.map_or("", Level::as_str);
        let sort = if self.sort == Sort::default() {
            ""
        } else {
            self.sort.as_str()
        };
        let problems = if self.problems { "1" } else { "" };
        let pairs = [
            ("problems", problems),
            ("level", level),
            ("find", &self.find),
            ("sort", sort),
        ];
        url::with_query("/", &pairs)
    }

    /// True when anything is left out.
    pub fn is_narrow(&self) -> bool {
        self.level.is_some() || self.problems || !self.find.is_empty()
    }

    pub(crate) fn takes(&self, reading: &Reading) -> bool {
        self.level.is_none_or(|level| level == reading.level)
            && (!self.problems || reading.state.is_problem())
            && (self.find.is_empty() || reading.key.contains(&self.find))
    }
}

impl Sort {
    /// Every order.
    pub const ALL: [Self; 4] = [Self::Problems, Self::Rejected, Self::Fullest, Self::Key];

    /// The value in the address.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Problems => "problems",
            Self::Rejected => "rejected",
            Self::Fullest => "fullest",
            Self::Key => "key",
        }
    }

    /// The words on the page.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Problems => "Problems first",
            Self::Rejected => "Most rejected",
            Self::Fullest => "Fullest",
            Self::Key => "Name",
        }
    }

    /// Smallest first.
    pub(crate) fn rank(self, reading: &Reading) -> (Reverse<u64>, Reverse<Level>, &str) {
        let urgency = match self {
            Self::Problems => severity(reading.state),
            Self::Rejected => reading.rejected_all(),
            Self::Fullest => text::wide_ratio(reading.in_flight, reading.limit.unwrap_or(0), 100),
            Self::Key => 0,
        };
        let level = if self == Self::Problems {
            reading.level
        } else {
            Level::Tenant
        };
        (Reverse(urgency), Reverse(level), &reading.key)
    }
}

/// Calm states are one group, so that a row does not jump with each request.
const fn severity(state: State) -> u64 {
    match state {
        State::Idle | State::Busy => 0,
        State::Closed => 1,
        State::Nearly => 2,
        State::Rejecting => 3,
        State::Leaking => 4,
        State::Full => 5,
    }
}
