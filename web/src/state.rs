//! The state of a compartment in one word, and which states are problems.
//!
//! Separate so that the verdict, the filter, the order and the colour agree. It must never be
//! shown by colour alone: each state has its word.

use compartment::Figures;

/// How a compartment stands, from calm to urgent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing in flight.
    Idle,
    /// In use, with room.
    Busy,
    /// A limit of 0: nothing gets in, on purpose.
    Closed,
    /// Four fifths of the limit or more.
    Nearly,
    /// Permits outlived their bound: capacity is lost until the process ends.
    Leaking,
    /// Every slot is taken.
    Full,
}

impl State {
    /// From the figures of one gateway.
    pub fn of(figures: &Figures) -> Self {
        let in_flight = u64::from(figures.in_flight);
        match figures.limit.slots().map(u64::from) {
            Some(0) => Self::Closed,
            Some(limit) if in_flight >= limit => Self::Full,
            _ if figures.leaked > 0 => Self::Leaking,
            Some(limit) if in_flight * 5 >= limit * 4 => Self::Nearly,
            _ if in_flight > 0 => Self::Busy,
            _ => Self::Idle,
        }
    }

    /// Worth an operator's look.
    pub const fn is_problem(self) -> bool {
        match self {
            Self::Idle | Self::Busy => false,
            Self::Closed | Self::Nearly | Self::Leaking | Self::Full => true,
        }
    }

    /// The word on the page.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "in use",
            Self::Closed => "closed",
            Self::Nearly => "nearly full",
            Self::Leaking => "leaking",
            Self::Full => "full",
        }
    }

    /// The class in the style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "busy",
            Self::Closed => "closed",
            Self::Nearly => "nearly",
            Self::Leaking => "leaking",
            Self::Full => "full",
        }
    }
}

#[cfg(test)]
mod tests {
    use compartment::{Level, Limit};

    use super::*;
    use crate::samples::figures;

    #[test]
    fn states_follow_the_figures() {
        let of = |in_flight, limit: Option<u32>, leaked| {
            let mut figures = figures("route/a", Level::Route, in_flight, 0, 10);
            figures.limit = limit.map_or(Limit::UNLIMITED, |n| Limit::new(n).unwrap());
            figures.leaked = leaked;
            State::of(&figures)
        };
        assert_eq!(of(0, Some(10), 0), State::Idle);
        assert_eq!(of(1, Some(10), 0), State::Busy);
        assert_eq!(of(7, Some(10), 0), State::Busy);
        assert_eq!(of(8, Some(10), 0), State::Nearly);
        assert_eq!(of(10, Some(10), 0), State::Full);
        assert_eq!(of(12, Some(10), 1), State::Full);
        assert_eq!(of(0, Some(10), 1), State::Leaking);
        assert_eq!(of(0, Some(0), 0), State::Closed);
        assert_eq!(of(1_000_000, None, 0), State::Busy);
    }
}
