//! Where a value stands in a document: `routes[2].compartment.limit`, or as a JSON pointer
//! `/routes/2/compartment/limit`.
//!
//! Separate because people, scripts and the API's pointers name the same place in two spellings.
//! It must never be used to find out whether the place exists.

use std::fmt;

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into a list, counted from 0.
    Index(usize),
}

/// A place in a document. The empty path is the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Path(Vec<Step>);

impl Path {
    /// The document itself.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// A path of these steps.
    pub const fn new(steps: Vec<Step>) -> Self {
        Self(steps)
    }

    /// The steps from the root.
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The entry `key` below this place.
    pub fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// The element `index` below this place.
    pub fn index(&self, index: usize) -> Self {
        self.step(Step::Index(index))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The place around this one; `None` for the document itself.
    pub fn parent(&self) -> Option<Self> {
        self.0.split_last().map(|(_, before)| Self(before.to_vec()))
    }

    /// The JSON pointer (RFC 6901) of this place.
    pub fn pointer(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            text.push('/');
            match step {
                Step::Key(key) => text.push_str(&key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => text.push_str(&index.to_string()),
            }
        }
        text
    }

    /// Reads a JSON pointer; whole numbers are taken for elements of a list. `None` when malformed.
    pub fn from_pointer(pointer: &str) -> Option<Self> {
        if pointer.is_empty() {
            return Some(Self::root());
        }
        let steps = pointer.strip_prefix('/')?.split('/').map(|part| {
            let whole = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            match part.parse() {
                Ok(index) if whole => Step::Index(index),
                _ => Step::Key(part.replace("~1", "/").replace("~0", "~")),
            }
        });
        Some(Self(steps.collect()))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |key: &str| {
            !key.is_empty()
                && key
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
        };
        for (depth, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    f.write_str(if depth == 0 { "" } else { "." })?;
                    // Quoted as TOML would, and escaped: a key is the author's text.
                    if bare(key) {
                        f.write_str(key)?
                    } else {
                        write!(f, "{key:?}")?
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_two_spellings() {
        let check = |path: Path, text: &str, pointer: &str| {
            assert_eq!(
                (path.to_string().as_str(), path.pointer().as_str()),
                (text, pointer)
            );
            assert_eq!(Path::from_pointer(pointer), Some(path));
        };
        let routes = Path::root().key("routes");
        check(Path::root(), "", "");
        check(
            routes.index(2).key("compartment").key("limit"),
            "routes[2].compartment.limit",
            "/routes/2/compartment/limit",
        );
        check(
            Path::root().key("tenants").key("a.b"),
            "tenants.\"a.b\"",
            "/tenants/a.b",
        );
        check(Path::root().key("a/b~1"), "\"a/b~1\"", "/a~1b~01");
        assert_eq!(Path::from_pointer("routes"), None);
        assert_eq!(routes.index(2).parent(), Some(routes));
    }
}
