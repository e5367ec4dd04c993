//! A limit: how many requests may be in flight at once.
//!
//! Separate so that the range is checked once. It must never hold a number that the word of a
//! compartment cannot: 0 to 1,000,000, or unlimited as a value of its own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The largest finite limit.
pub const LIMIT_MAX: u32 = 1_000_000;

/// 0 (closed) to 1,000,000 requests in flight, or unlimited, which is spelt out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "LimitForm", into = "LimitForm")]
pub struct Limit(Option<u32>);

/// Why a number is not a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a whole number from 0 to 1000000, or \"unlimited\"")]
pub struct LimitError;

impl Limit {
    /// No limit of its own.
    pub const UNLIMITED: Self = Self(None);
    /// Nothing is admitted.
    pub const CLOSED: Self = Self(Some(0));

    /// A finite limit.
    pub const fn new(slots: u32) -> Result<Self, LimitError> {
        if slots <= LIMIT_MAX {
            Ok(Self(Some(slots)))
        } else {
            Err(LimitError)
        }
    }

    /// The number of slots; `None` when unlimited.
    pub const fn slots(self) -> Option<u32> {
        self.0
    }

    /// The smaller of two.
    #[must_use]
    pub const fn tighter(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(own), Some(theirs)) if own <= theirs => self,
            (Some(_), None) => self,
            (_, _) => other,
        }
    }

    /// True when nothing can be admitted.
    pub const fn is_closed(self) -> bool {
        matches!(self.0, Some(0))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(slots) => slots.fmt(f),
            None => f.write_str("unlimited"),
        }
    }
}

/// The form on the wire: a number or the word.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LimitForm {
    Slots(u32),
    Word(String),
}

impl TryFrom<LimitForm> for Limit {
    type Error = LimitError;

    fn try_from(form: LimitForm) -> Result<Self, LimitError> {
        match form {
            LimitForm::Slots(slots) => Self::new(slots),
            LimitForm::Word(word) if word == "unlimited" => Ok(Self::UNLIMITED),
            LimitForm::Word(_) => Err(LimitError),
        }
    }
}

impl From<Limit> for LimitForm {
    fn from(limit: Limit) -> Self {
        match limit.0 {
            Some(slots) => Self::Slots(slots),
            None => Self::Word("unlimited".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_is_closed_at_both_ends() {
        assert_eq!(Limit::new(0), Ok(Limit::CLOSED));
        assert_eq!(Limit::new(LIMIT_MAX).map(Limit::slots), Ok(Some(LIMIT_MAX)));
        assert_eq!(Limit::new(LIMIT_MAX + 1), Err(LimitError));
        assert_eq!(Limit::UNLIMITED.to_string(), "unlimited");
    }

    #[test]
    fn the_tighter_of_two() {
        let (two, three) = (Limit(Some(2)), Limit(Some(3)));
        for (one, other, tighter) in [
            (two, three, two),
            (three, two, two),
            (two, Limit::UNLIMITED, two),
            (Limit::UNLIMITED, two, two),
            (Limit::UNLIMITED, Limit::UNLIMITED, Limit::UNLIMITED),
        ] {
            assert_eq!(one.tighter(other), tighter);
        }
    }
}
