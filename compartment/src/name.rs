//! Names of routes, upstreams, plans and tenants.
//!
//! One type so that a name is checked once, where it enters, and is plain text from there on:
//! safe in a key, a header, a metric label and a file name. It must never carry caller-made text.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A checked name: 1 to 128 of `A-Z a-z 0-9 . _ -`, beginning with a letter or a digit.
///
/// A name that begins with `_` is reserved for the product (`_unknown`, `_idle`).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 128 of A-Z a-z 0-9 . _ - and begin with a letter or a digit")]
pub struct NameError;

impl Name {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let first = text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if first && rest && text.len() <= NAME_BYTES_MAX {
            Ok(Self(text.into()))
        } else {
            Err(NameError)
        }
    }

    /// The tenant that all unknown callers share. Reserved: no policy can spell it.
    pub fn unknown_tenant() -> Self {
        Self("_unknown".into())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(&text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_text() {
        for good in ["a", "checkout", "A.b_c-9", "9", &"x".repeat(128)] {
            assert_eq!(Name::new(good).map(String::from), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "_unknown",
            "-a",
            ".a",
            "a/b",
            "a b",
            "é",
            "a\n",
            &"x".repeat(129),
        ] {
            assert_eq!(Name::new(bad), Err(NameError), "{bad:?}");
        }
    }
}
