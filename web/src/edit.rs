//! The form that changes a limit: what was typed, what is wrong with it, what it would do.
//!
//! Separate from the page because the same form is shown fresh, refused, in conflict and waiting
//! for a confirmation, and in each of them what was typed is kept. It must never decide whether a
//! change is stored: it says what an operator has to see before.

use compartment::{Limit, LimitError};

use crate::Moment;

/// The longest comment, in characters.
pub const COMMENT_CHARS_MAX: usize = 500;

/// Whether this compartment has a limit of its own to set.
#[derive(Debug, Clone)]
pub enum Settable {
    /// It has.
    Form(Box<Edit>),
    /// It has not, because.
    No(&'static str),
}

/// The form.
#[derive(Debug, Clone, Default)]
pub struct Edit {
    /// The generation that the operator saw.
    pub generation: u64,
    /// The limit in force, as the policy says.
    pub current: String,
    /// The limit, as typed.
    pub limit: String,
    /// Why, as typed.
    pub comment: String,
    /// The confirmation, as typed.
    pub confirm: String,
    /// What is wrong with the limit.
    pub limit_error: Option<String>,
    /// What is wrong with the comment.
    pub comment_error: Option<String>,
    /// What is wrong with the confirmation.
    pub confirm_error: Option<String>,
    /// What else the policy would break, line by line.
    pub refusals: Vec<String>,
    /// What makes this change dangerous; empty: nothing.
    pub dangers: Vec<Danger>,
    /// Somebody published meanwhile.
    pub conflict: Option<Conflict>,
}

impl Edit {
    /// The form as first shown.
    pub fn new(generation: u64, current: Limit) -> Self {
        let current = current.to_string();
        Self {
            generation,
            limit: current.clone(),
            current,
            ..Self::default()
        }
    }

    /// True when something has to be corrected or confirmed.
    pub fn needs_attention(&self) -> bool {
        self.conflict.is_some()
            || !self.dangers.is_empty()
            || !self.refusals.is_empty()
            || self.limit_error.is_some()
            || self.comment_error.is_some()
    }

    /// What `aria-describedby` of the limit names.
    pub fn limit_described_by(&self) -> &'static str {
        if self.limit_error.is_some() {
            "limit-help limit-error"
        } else {
            "limit-help"
        }
    }
}

/// Two people changed the policy at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The generation that the operator saw.
    pub seen: u64,
    /// The generation that is newest now.
    pub newest: u64,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// When.
    pub at: Moment,
    /// This limit in the generation that the operator saw, when still known.
    pub before: Option<String>,
    /// This limit now.
    pub theirs: String,
    /// What the operator typed.
    pub yours: String,
}

impl Conflict {
    /// True when somebody else changed the same limit.
    pub fn same_limit(&self) -> bool {
        self.before
            .as_deref()
            .is_none_or(|before| before != self.theirs)
    }
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
    /// Below what one gateway has in flight now.
    BelowInFlight {
        /// On the fullest gateway.
        in_flight: u32,
    },
}

impl Danger {
    /// Everything that makes the step from `current` to `proposed` dangerous.
    pub fn of(current: Limit, proposed: Limit, in_flight: u32) -> Vec<Self> {
        if current == proposed {
            return Vec::new();
        }
        let Some(slots) = proposed.slots() else {
            return vec![Self::Unlimited];
        };
        let mut dangers = Vec::new();
        if slots == 0 {
            dangers.push(Self::Closes);
        }
        if current
            .slots()
            .is_none_or(|now| u64::from(slots) * 2 < u64::from(now))
        {
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
            Self::BelowInFlight { in_flight } => format!(
                "It is below the {in_flight} in flight on one gateway now: those finish, and \
                 until then every new request is refused."
            ),
        }
    }
}

/// The limit that was typed: a whole number, or the word. Blanks around it are forgiven.
pub fn parse_limit(typed: &str) -> Result<Limit, LimitError> {
    let typed = typed.trim();
    if typed.eq_ignore_ascii_case("unlimited") {
        return Ok(Limit::UNLIMITED);
    }
    // `parse` would take a plus sign.
    if typed.is_empty() || !typed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(LimitError);
    }
    typed
        .parse::<u32>()
        .map_err(|_| LimitError)
        .and_then(Limit::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_limit_is_a_whole_number_or_the_word() {
        assert_eq!(parse_limit(" 60 "), Limit::new(60));
        assert_eq!(parse_limit("Unlimited"), Ok(Limit::UNLIMITED));
        for bad in [
            "",
            " ",
            "-7",
            "+7",
            "1.5",
            "1e3",
            "0x10",
            "1000001",
            "99999999999999",
            "٣",
        ] {
            assert!(parse_limit(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn dangers_are_those_of_the_house_rules() {
        let limit = |n| Limit::new(n).unwrap();
        let of = |from, to, in_flight| Danger::of(limit(from), limit(to), in_flight);
        assert_eq!(of(60, 30, 0), []);
        assert_eq!(of(60, 29, 0), [Danger::Halves]);
        assert_eq!(of(60, 0, 0), [Danger::Closes, Danger::Halves]);
        assert_eq!(of(60, 50, 51), [Danger::BelowInFlight { in_flight: 51 }]);
        assert_eq!(of(60, 60, 70), []);
        assert_eq!(of(60, 600, 60), []);
        assert_eq!(
            Danger::of(limit(5), Limit::UNLIMITED, 0),
            [Danger::Unlimited]
        );
        assert_eq!(Danger::of(Limit::UNLIMITED, limit(5), 0), [Danger::Halves]);
    }
}
