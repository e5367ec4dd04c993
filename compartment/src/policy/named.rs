//! Tables whose keys are names: `[plans.ID]`, `[tenants.ID]`, `[upstreams.ID]`; and references.
//!
//! Separate so that names and what refers to them are treated alike. It must never stop at the
//! first broken entry.

use std::collections::HashMap;

use super::cursor::{Node, Place};
use super::fault::Faults;
use super::nearest::nearest;
use super::scalar::text;
use super::value::Value;
use crate::Name;

/// The most known names that an error lists.
const NAMES_SHOWN_MAX: usize = 8;

/// The most names that are compared with a misspelt one.
const NAMES_COMPARED_MAX: usize = 1000;

/// Each entry of a table through `decode`, which gets the key as a value of its own.
pub(super) fn each_named<T>(
    node: Node<'_>,
    count_max: usize,
    faults: &mut Faults,
    mut decode: impl FnMut(Node<'_>, Node<'_>, &mut Faults) -> Option<T>,
) -> Option<Vec<T>> {
    let entries = node.entries(count_max, faults)?;
    let mut decoded = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let place = Place::Key(&node.place, key);
        let id = Value::String(key.clone());
        decoded.extend(decode(
            Node { value: &id, place },
            Node { value, place },
            faults,
        ));
    }
    (decoded.len() == entries.len()).then_some(decoded)
}

/// The names that others may refer to, with their places in the order of the document.
#[derive(Debug, Default)]
pub(super) struct Names<'a> {
    kind: &'static str,
    order: Vec<&'a str>,
    index: HashMap<&'a str, usize>,
}

impl<'a> Names<'a> {
    /// Names of this kind; of equal ones the first counts.
    pub(super) fn new(kind: &'static str, names: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Self {
            kind,
            ..Self::default()
        };
        for (at, name) in names.enumerate() {
            all.order.push(name);
            all.index.entry(name).or_insert(at);
        }
        all
    }

    /// The keys of a table, whether or not their values hold: a broken plan is still a known one.
    pub(super) fn of_table(kind: &'static str, table: Option<&'a Value>) -> Self {
        let entries = match table {
            Some(Value::Table(entries)) => entries.as_slice(),
            _ => &[],
        };
        Self::new(kind, entries.iter().map(|(key, _)| key.as_str()))
    }

    /// The place of the name that `node` spells.
    pub(super) fn find(&self, node: Node<'_>, faults: &mut Faults) -> Option<usize> {
        let name = text(node, faults)?;
        match self.index.get(name) {
            Some(at) => Some(*at),
            None => faults.broken_by(node, || self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> String {
        let kind = self.kind;
        if self.order.is_empty() {
            return format!("no such {kind}; the policy has none");
        }
        // What is no name is an error of its own and not shown here: it may hold anything.
        let named = || {
            self.order
                .iter()
                .copied()
                .filter(|name| Name::new(name).is_ok())
        };
        let compared: Vec<&str> = named().take(NAMES_COMPARED_MAX).collect();
        let guess = match nearest(name, &compared) {
            Some(near) => format!("; did you mean {near:?}?"),
            None => String::new(),
        };
        let shown: Vec<&str> = named().take(NAMES_SHOWN_MAX).collect();
        let more = if compared.len() > NAMES_SHOWN_MAX {
            ", …"
        } else {
            ""
        };
        format!("no such {kind}{guess}; known: {}{more}", shown.join(", "))
    }
}
