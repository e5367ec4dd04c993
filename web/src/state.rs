//! The state of a compartment in one word, and which states are problems.
//!
//! Separate so that the verdict, the filter, the order and the colour agree. It must never be
//! shown by colour alone: each state has its word.

use compartment::{Figures, Mode};

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
    /// Requests were refused in the last seconds, though there is room at this moment.
    Rejecting,
    /// Permits outlived their bound: capacity is lost until the process ends.
    Leaking,
    /// Every slot is taken.
    Full,
}

impl State {
    /// Every state, from calm to urgent.
    pub const ALL: [Self; 7] = [
        Self::Idle,
        Self::Busy,
        Self::Closed,
        Self::Nearly,
        Self::Rejecting,
        Self::Leaking,
        Self::Full,
    ];

    /// From the figures of one gateway.
    pub fn of(figures: &Figures) -> Self {
        let in_flight = u64::from(figures.in_flight);
        // A limit that refuses nobody closes nothing and fills nothing, whatever is in flight.
        let limit = match figures.mode {
            Mode::Enforce => figures.limit.slots().map(u64::from),
            Mode::Off | Mode::Shadow => None,
        };
        match limit {
            Some(0) => Self::Closed,
            Some(limit) if in_flight >= limit => Self::Full,
            _ if figures.leaked > 0 || figures.leak_suspected => Self::Leaking,
            Some(limit) if in_flight * 5 >= limit * 4 => Self::Nearly,
            _ if in_flight > 0 => Self::Busy,
            _ => Self::Idle,
        }
    }

    /// The same, knowing how many requests were refused in the last seconds.
    pub const fn after(self, rejected_lately: u64) -> Self {
        match self {
            Self::Idle | Self::Busy | Self::Nearly if rejected_lately > 0 => Self::Rejecting,
            Self::Idle
            | Self::Busy
            | Self::Closed
            | Self::Nearly
            | Self::Rejecting
            | Self::Leaking
            | Self::Full => self,
        }
    }

    /// Worth an operator's look.
    pub const fn is_problem(self) -> bool {
        match self {
            Self::Idle | Self::Busy => false,
            Self::Closed | Self::Nearly | Self::Rejecting | Self::Leaking | Self::Full => true,
        }
    }

    /// The word on the page.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Busy => "in use",
            Self::Closed => "closed",
            Self::Nearly => "nearly full",
            Self::Rejecting => "rejecting",
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
            Self::Rejecting => "rejecting",
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
        for mode in [Mode::Off, Mode::Shadow] {
            let mut watched = figures("route/a", Level::Route, 12, 12, 10);
            watched.mode = mode;
            assert_eq!(
                State::of(&watched),
                State::Busy,
                "{mode}: nobody is refused"
            );
            watched.leak_suspected = true;
            assert_eq!(State::of(&watched), State::Leaking);
        }
        assert_eq!(State::Idle.after(1), State::Rejecting);
        assert_eq!(State::Nearly.after(0), State::Nearly);
        assert_eq!(State::Closed.after(7), State::Closed);
        assert_eq!(State::Full.after(7), State::Full);
    }
}
