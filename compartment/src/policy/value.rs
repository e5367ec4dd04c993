//! The neutral tree that every document form is read into.
//!
//! Separate from the forms (TOML, JSON, YAML) so that the policy is checked once, on one shape,
//! with one notion of a path. It must never know a syntax, a file or a line.

use std::fmt::{self, Write};

use super::path::{Path, Step};

/// The longest excerpt of a value that an error shows, in characters.
pub const EXCERPT_CHARS_MAX: usize = 80;

/// One value of a document. Tables keep the order of the document.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing, as JSON and YAML can say.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number, also a whole one beyond [`Value::Integer`].
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Keys and values; a key occurs once.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// The value of `key`, when this is a table that has it.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Table(entries) = self else {
            return None;
        };
        entries
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// The value of `key`, to change it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Table(entries) = self else {
            return None;
        };
        entries
            .iter_mut()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    }

    /// What stands at `path`.
    pub fn at(&self, path: &Path) -> Option<&Self> {
        path.steps()
            .iter()
            .try_fold(self, |value, step| match step {
                Step::Key(key) => value.get(key),
                Step::Index(index) => {
                    let Self::Array(items) = value else {
                        return None;
                    };
                    items.get(*index)
                }
            })
    }

    /// Puts `value` at `path`, making the tables on the way; false when something else is there.
    pub fn set(&mut self, path: &Path, value: Self) -> bool {
        let mut here = self;
        for step in path.steps() {
            let next = match (step, here) {
                (Step::Key(key), Self::Table(entries)) => {
                    let found = entries.iter().position(|(name, _)| name == key);
                    let at = found.unwrap_or_else(|| {
                        entries.push((key.clone(), Self::Table(Vec::new())));
                        entries.len().saturating_sub(1)
                    });
                    entries.get_mut(at).map(|(_, value)| value)
                }
                (Step::Index(index), Self::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = next else { return false };
            here = next;
        }
        *here = value;
        true
    }

    /// Takes away the entry of a table at `path`; false when there is none.
    pub fn remove(&mut self, path: &Path) -> bool {
        let Some((Step::Key(last), before)) = path.steps().split_last() else {
            return false;
        };
        let mut here = self;
        for step in before {
            let next = match (step, here) {
                (Step::Key(key), table @ Self::Table(_)) => table.get_mut(key),
                (Step::Index(index), Self::Array(items)) => items.get_mut(*index),
                _ => None,
            };
            let Some(next) = next else { return false };
            here = next;
        }
        let Self::Table(entries) = here else {
            return false;
        };
        let count = entries.len();
        entries.retain(|(name, _)| name != last);
        entries.len() < count
    }

    /// The value on one line, at most [`EXCERPT_CHARS_MAX`] characters, safe for a terminal.
    pub fn excerpt(&self) -> String {
        let mut excerpt = Excerpt {
            text: String::new(),
            left: EXCERPT_CHARS_MAX,
        };
        // The writer fails when it is full, which also bounds the depth of the walk: every level
        // of nesting costs a character before it is entered.
        if self.write(&mut excerpt).is_err() {
            excerpt.text.pop();
            excerpt.text.push('…');
        }
        excerpt.text
    }

    fn write(&self, to: &mut Excerpt) -> fmt::Result {
        match self {
            Self::Null => to.write_str("null"),
            Self::Bool(value) => write!(to, "{value}"),
            Self::Integer(value) => write!(to, "{value}"),
            Self::Float(value) => write!(to, "{value:?}"),
            Self::String(value) => write!(to, "{value:?}"),
            Self::Array(items) => {
                to.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    to.write_str(if index == 0 { "" } else { ", " })?;
                    item.write(to)?;
                }
                to.write_str("]")
            }
            Self::Table(entries) => {
                to.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    to.write_str(if index == 0 { " " } else { ", " })?;
                    write!(to, "{} = ", key.escape_debug())?;
                    value.write(to)?;
                }
                to.write_str(" }")
            }
        }
    }
}

/// Text that refuses to grow beyond its bound.
struct Excerpt {
    text: String,
    left: usize,
}

impl Write for Excerpt {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        for char in part.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(char);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(pointer: &str) -> Path {
        Path::from_pointer(pointer).unwrap()
    }

    #[test]
    fn excerpts_are_short_and_safe() {
        let deep = (0..500).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        for (value, want) in [
            (Value::Integer(-7), "-7".to_owned()),
            (Value::Float(1.0), "1.0".to_owned()),
            (Value::Float(1e19), "1e19".to_owned()),
            (
                Value::String("a\u{1b}\"b".to_owned()),
                r#""a\u{1b}\"b""#.to_owned(),
            ),
            (
                Value::String("x".repeat(500)),
                format!("\"{}…", "x".repeat(78)),
            ),
            (deep, format!("{}…", "[".repeat(79))),
        ] {
            assert_eq!(value.excerpt(), want);
        }
    }

    #[test]
    fn values_are_set_and_removed_by_path() {
        let mut value = Value::Table(vec![(
            "routes".to_owned(),
            Value::Array(vec![Value::Table(Vec::new())]),
        )]);
        assert!(value.set(&path("/routes/0/compartment/limit"), Value::Integer(3)));
        assert_eq!(
            value.at(&path("/routes/0/compartment/limit")),
            Some(&Value::Integer(3))
        );
        assert!(
            !value.set(&path("/routes/1/compartment"), Value::Null),
            "no such route"
        );
        assert!(
            !value.set(&path("/routes/0/compartment/limit/x"), Value::Null),
            "not a table"
        );
        assert!(value.remove(&path("/routes/0/compartment/limit")));
        assert!(!value.remove(&path("/routes/0/compartment/limit")));
    }
}
