//! YAML into the neutral tree, and the lines of its entries.
//!
//! Separate because YAML has more ways to be surprising than the other two: anchors that multiply
//! and plain words that become numbers. The parser's budget bounds the first; a policy's types
//! refuse the second. Lines must never come from a text that was not read in full.

use std::fmt;

use compartment::policy::{Path, Step, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::{DEPTH_MAX, LoadError};

/// The most values of a document, aliases written out: a few times the largest policy.
const NODES_MAX: usize = 4_000_000;

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_events: 2 * NODES_MAX,
            max_nodes: NODES_MAX,
        },
    }
}

/// Reads a document.
pub(super) fn read(text: &str) -> Result<Value, LoadError> {
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error.location();
        let number = |number: u64| u32::try_from(number).ok().filter(|number| *number > 0);
        LoadError::Syntax {
            line: place.and_then(|place| number(place.line())),
            column: place.and_then(|place| number(place.column())),
            message: error.without_snippet().to_string(),
        }
    })
}

/// The line of each path in a text that was read before.
pub(super) fn lines_of(text: &str, paths: &[&Path]) -> Vec<Option<u32>> {
    let root = serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options());
    let Ok(root) = root else {
        return Vec::new();
    };
    paths.iter().map(|path| line_of(&root, path)).collect()
}

fn line_of(root: &Spanned<Node>, path: &Path) -> Option<u32> {
    let mut here = root;
    let mut line = None;
    for step in path.steps() {
        let next = match (step, &here.value) {
            (Step::Key(key), Node::Table(entries)) => entries
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            (Step::Index(index), Node::Array(items)) => items.get(*index),
            _ => None,
        };
        let Some(next) = next else { break };
        here = next;
        line = u32::try_from(here.referenced.line())
            .ok()
            .filter(|line| *line > 0)
            .or(line);
    }
    line
}

/// The tree with the place of every value.
enum Node {
    Scalar,
    Array(Vec<Spanned<Node>>),
    Table(Vec<(String, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Places)
    }
}

struct Places;

impl<'de> Visitor<'de> for Places {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Scalar)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Table(entries))
    }
}
