//! What makes a change dangerous, so that it needs a typed confirmation and a reason.
//!
//! Separate from the form because the rule is about numbers, not about fields. It must never refuse
//! a change: it says what an operator has to see before.

use compartment::{Limit, Mode};

/// What decides about requests before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The limit.
    pub limit: Limit,
    /// Whether it refuses.
    pub mode: Mode,
}

/// Why a change needs a typed confirmation and a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Danger {
    /// A limit of 0.
    Closes,
    /// No limit any more.
    Unlimited,
    /// Less than half of what was.
    Halves,
    /// Nothing is refused any more.
    StopsRefusing,
    /// Below what one gateway has in flight now.
    BelowInFlight {
        /// On the fullest gateway.
        in_flight: u32,
    },
}

impl Danger {
    /// Everything that makes the step from `now` to `proposed` dangerous.
    pub fn of(now: Standing, proposed: Standing, in_flight: u32) -> Vec<Self> {
        if now == proposed {
            return Vec::new();
        }
        match (now.mode, proposed.mode) {
            (Mode::Enforce, Mode::Off | Mode::Shadow) => return vec![Self::StopsRefusing],
            (_, Mode::Off | Mode::Shadow) => return Vec::new(),
            (_, Mode::Enforce) => {}
        }
        let begins = now.mode != Mode::Enforce;
        let Some(slots) = proposed.limit.slots() else {
            return match begins {
                true => Vec::new(),
                false => vec![Self::Unlimited],
            };
        };
        let mut dangers = Vec::new();
        if slots == 0 {
            dangers.push(Self::Closes);
        }
        let halves = |limit: u32| u64::from(slots) * 2 < u64::from(limit);
        if !begins && now.limit.slots().is_none_or(halves) {
            dangers.push(Self::Halves);
        }
        if slots < in_flight {
            dangers.push(Self::BelowInFlight { in_flight });
        }
        dangers
    }

    /// What the operator reads.
    pub fn words(self) -> String {
        match self {
            Self::Closes => "It closes the compartment: every request is refused.".to_owned(),
            Self::Unlimited => "It takes the limit away: nothing is refused here any more, and \
                                a slow dependency can take every slot of the gateway."
                .to_owned(),
            Self::Halves => "It cuts the limit by more than half.".to_owned(),
            Self::StopsRefusing => "It leaves enforcement: this limit refuses nobody any more, \
                                    and a slow dependency can take every spare slot."
                .to_owned(),
            Self::BelowInFlight { in_flight } => format!(
                "It is below the {in_flight} in flight on one gateway now: those finish, and \
                 until then every new request is refused."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(n: u32) -> Limit {
        Limit::new(n).unwrap()
    }

    #[test]
    fn dangers_are_those_of_the_house_rules() {
        let standing = |limit| Standing {
            limit,
            mode: Mode::Enforce,
        };
        let of =
            |from, to, in_flight| Danger::of(standing(limit(from)), standing(limit(to)), in_flight);
        assert_eq!(of(60, 30, 0), []);
        assert_eq!(of(60, 29, 0), [Danger::Halves]);
        assert_eq!(of(60, 0, 0), [Danger::Closes, Danger::Halves]);
        assert_eq!(of(60, 50, 51), [Danger::BelowInFlight { in_flight: 51 }]);
        assert_eq!(of(60, 60, 70), []);
        assert_eq!(of(60, 600, 60), []);
        let unlimited = standing(Limit::UNLIMITED);
        assert_eq!(
            Danger::of(standing(limit(5)), unlimited, 0),
            [Danger::Unlimited]
        );
        assert_eq!(
            Danger::of(unlimited, standing(limit(5)), 0),
            [Danger::Halves]
        );
    }

    #[test]
    fn leaving_enforcement_is_dangerous_and_beginning_it_below_what_is_in_flight() {
        let of = |from, to, slots, in_flight| {
            let limit = limit(slots);
            let now = Standing { limit, mode: from };
            Danger::of(now, Standing { limit, mode: to }, in_flight)
        };
        for to in [Mode::Off, Mode::Shadow] {
            assert_eq!(of(Mode::Enforce, to, 9, 3), [Danger::StopsRefusing]);
        }
        assert_eq!(of(Mode::Off, Mode::Shadow, 9, 30), []);
        assert_eq!(of(Mode::Shadow, Mode::Enforce, 9, 9), []);
        assert_eq!(
            of(Mode::Shadow, Mode::Enforce, 9, 10),
            [Danger::BelowInFlight { in_flight: 10 }]
        );
        assert_eq!(of(Mode::Shadow, Mode::Enforce, 0, 0), [Danger::Closes]);
    }
}
