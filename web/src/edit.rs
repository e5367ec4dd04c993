//! The form that changes a compartment: what was typed, what is wrong with it, what it would do.
//!
//! Separate from the page because the same form is shown fresh, refused, in conflict and waiting
//! for a confirmation, and in each of them what was typed is kept. It must never decide whether a
//! change is stored: it says what an operator has to see before.

use compartment::{Limit, LimitError, Mode};

use crate::effective_words::not_set;
use crate::{Danger, Effective, Field, Moment, Origin};

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
    /// The fields, the limit first.
    pub fields: Vec<Field>,
    /// Why, as typed.
    pub comment: String,
    /// The confirmation, as typed.
    pub confirm: String,
    /// What is wrong with the comment.
    pub comment_error: Option<String>,
    /// What is wrong with the confirmation.
    pub confirm_error: Option<String>,
    /// What the policy would break, line by line.
    pub refusals: Vec<String>,
    /// What makes this change dangerous; empty: nothing.
    pub dangers: Vec<Danger>,
    /// Somebody published meanwhile.
    pub conflict: Option<Conflict>,
}

impl Edit {
    /// The form as first shown.
    pub fn new(generation: u64, fields: Vec<Field>) -> Self {
        Self {
            generation,
            fields,
            ..Self::default()
        }
    }

    /// With what holds where the policy says nothing, as the list of values in force has it.
    #[must_use]
    pub fn with_values(mut self, values: &[Effective]) -> Self {
        let value = |name: &str| {
            let mut values = values.iter().filter(|one| one.name == name);
            values.find(|one| one.origin == Origin::Default || name == "limit")
        };
        let limit = value("limit").map(|one| one.value.as_str());
        for field in self.fields.iter_mut().filter(|one| one.current.is_empty()) {
            let why = match field.name {
                "reserved" if value("reserved").map(|one| one.value.as_str()) == limit => {
                    "the limit"
                }
                "spare" => "what the guarantees leave",
                _ => "the default",
            };
            field.otherwise = value(field.name)
                .filter(|one| one.value != not_set())
                .map(|one| format!("{}, {why}", one.value));
        }
        self
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields that are always shown: limit and mode.
    pub fn main(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| matches!(field.name, "limit" | "mode"))
    }

    /// The others.
    pub fn more(&self) -> impl Iterator<Item = &Field> {
        self.fields
            .iter()
            .filter(|field| !matches!(field.name, "limit" | "mode"))
    }

    /// True when there are others.
    pub fn has_more(&self) -> bool {
        self.more().next().is_some()
    }

    /// True when one of the others is set, changed or wrong: then all of them are shown at once.
    pub fn is_open(&self) -> bool {
        self.more()
            .any(|field| field.is_changed() || field.error.is_some())
    }

    /// How many of the others the policy sets.
    pub fn set(&self) -> usize {
        self.more()
            .filter(|field| !field.current.is_empty())
            .count()
    }

    /// True when something has to be corrected or confirmed.
    pub fn needs_attention(&self) -> bool {
        self.conflict.is_some()
            || !self.dangers.is_empty()
            || !self.refusals.is_empty()
            || self.fields.iter().any(|field| field.error.is_some())
            || self.comment_error.is_some()
    }

    /// The words a mode can be.
    pub const fn modes(&self) -> [&'static str; 3] {
        [
            Mode::Enforce.as_str(),
            Mode::Shadow.as_str(),
            Mode::Off.as_str(),
        ]
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
    /// What the operator changed.
    pub values: Vec<Versus>,
}

/// One value that the operator changed, beside what it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versus {
    /// The field.
    pub name: &'static str,
    /// In the generation that the operator saw, when still known.
    pub before: Option<String>,
    /// Now.
    pub theirs: String,
    /// As typed.
    pub yours: String,
}

impl Conflict {
    /// True when somebody else changed one of the same values.
    pub fn same_value(&self) -> bool {
        self.values.iter().any(|one| {
            one.before
                .as_deref()
                .is_none_or(|before| before != one.theirs)
        })
    }

    /// `this very limit`, `these very values`.
    pub fn what(&self) -> &'static str {
        match self.values.as_slice() {
            [one] if one.name == "limit" => "limit",
            [_] => "value",
            _ => "values",
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
}
