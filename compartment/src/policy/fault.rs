//! One broken rule of a policy, and the bounded list of them.
//!
//! Separate because every error names the same three things: path, value, rule. The list must
//! never grow with the document, however broken that is.

use std::fmt;

use super::cursor::{Node, Place};
use super::path::Path;

/// The most errors that one check reports; a last one says how many more there were.
pub const FAULTS_MAX: usize = 100;

/// The longest rule text that is kept, in characters.
const RULE_CHARS_MAX: usize = 400;

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub path: Path,
    /// What stands there, at most 80 characters; empty when nothing does.
    pub value: String,
    /// What must hold.
    pub rule: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.steps().is_empty() {
            f.write_str("policy")?;
        } else {
            write!(f, "{}", self.path)?;
        }
        if !self.value.is_empty() {
            write!(f, " = {}", self.value)?;
        }
        write!(f, ": {}", self.rule)
    }
}

impl std::error::Error for Fault {}

/// Every fault found so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    list: Vec<Fault>,
    more: usize,
}

impl Faults {
    /// The value of `node` breaks `rule`. Returns `None`, which is what the caller then has.
    pub(super) fn broken<T>(&mut self, node: Node<'_>, rule: impl Into<String>) -> Option<T> {
        let value = if self.is_full() {
            String::new()
        } else {
            node.value.excerpt()
        };
        self.add(&node.place, value, rule)
    }

    /// The same with a rule that takes work to word: it is only worded while there is room, or a
    /// document of nothing but faults would take long to refuse.
    pub(super) fn broken_by<T>(
        &mut self,
        node: Node<'_>,
        rule: impl FnOnce() -> String,
    ) -> Option<T> {
        let rule = if self.is_full() {
            String::new()
        } else {
            rule()
        };
        self.broken(node, rule)
    }

    /// A value that was derived, or is missing, breaks `rule` at `place`.
    pub(super) fn add<T>(
        &mut self,
        place: &Place<'_>,
        value: String,
        rule: impl Into<String>,
    ) -> Option<T> {
        if self.is_full() {
            self.more = self.more.saturating_add(1);
        } else {
            let mut rule: String = rule.into();
            if let Some((at, _)) = rule.char_indices().nth(RULE_CHARS_MAX) {
                rule.truncate(at);
                rule.push('…');
            }
            self.list.push(Fault {
                path: place.path(),
                value,
                rule,
            });
        }
        None
    }

    fn is_full(&self) -> bool {
        self.list.len() >= FAULTS_MAX
    }

    /// True while no rule is broken.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, closed by a count of those that were left out.
    pub(super) fn into_list(mut self) -> Vec<Fault> {
        if self.more > 0 {
            let rule = format!("{} more errors", self.more);
            self.list.push(Fault {
                path: Path::root(),
                value: String::new(),
                rule,
            });
        }
        self.list
    }
}
