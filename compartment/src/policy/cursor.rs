//! Walking a document with its path, table by table.
//!
//! Separate so that no decoder builds a path by hand: a place is a chain on the stack and becomes
//! a [`Path`] only when a rule is broken. It must never accept a key that nobody reads.

use super::fault::Faults;
use super::nearest::nearest;
use super::path::{Path, Step};
use super::value::Value;

/// A place in the document, linked to the places around it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The path of this place.
    pub(super) fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut here = self;
        loop {
            here = match here {
                Place::Root => break,
                Place::Key(around, key) => {
                    steps.push(Step::Key((*key).to_owned()));
                    around
                }
                Place::Index(around, index) => {
                    steps.push(Step::Index(*index));
                    around
                }
            };
        }
        steps.reverse();
        Path::new(steps)
    }
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pub(super) value: &'a Value,
    pub(super) place: Place<'a>,
}

impl<'a> Node<'a> {
    /// The elements, when this is a list of at most `count_max`.
    pub(super) fn items(self, count_max: usize, faults: &mut Faults) -> Option<&'a [Value]> {
        let Value::Array(items) = self.value else {
            return faults.broken(self, "must be a list");
        };
        if items.len() > count_max {
            let value = format!("{} entries", items.len());
            return faults.add(
                &self.place,
                value,
                format!("must have at most {count_max} entries"),
            );
        }
        Some(items)
    }

    /// Each element through `decode`; `None` when one of them is broken.
    pub(super) fn each<T>(
        self,
        count_max: usize,
        faults: &mut Faults,
        mut decode: impl FnMut(Node<'_>, &mut Faults) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.items(count_max, faults)?;
        let mut decoded = Vec::with_capacity(items.len());
        for (index, value) in items.iter().enumerate() {
            let place = Place::Index(&self.place, index);
            decoded.extend(decode(Node { value, place }, faults));
        }
        (decoded.len() == items.len()).then_some(decoded)
    }

    /// The entries, when this is a table of at most `count_max` whose keys are names.
    pub(super) fn entries(
        self,
        count_max: usize,
        faults: &mut Faults,
    ) -> Option<&'a [(String, Value)]> {
        let Value::Table(entries) = self.value else {
            return faults.broken(self, "must be a table");
        };
        if entries.len() > count_max {
            let value = format!("{} entries", entries.len());
            return faults.add(
                &self.place,
                value,
                format!("must have at most {count_max} entries"),
            );
        }
        Some(entries)
    }
}

/// The keys of one kind of table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    /// Those that this build reads.
    pub(super) known: &'static [&'static str],
    /// Those of the document that this build does not enforce: an error with words of its own.
    pub(super) unenforced: &'static [&'static str],
}

/// What is said of a key or a value that belongs to the document but not to this build.
pub(super) const NOT_ENFORCED: &str = "is not enforced by this build";

/// A table whose keys have been compared with those that are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    entries: &'a [(String, Value)],
    pub(super) place: Place<'a>,
}

impl<'a> Table<'a> {
    /// Opens `node`, reporting every key that is not in `keys`.
    pub(super) fn open(node: Node<'a>, keys: Keys, faults: &mut Faults) -> Option<Self> {
        let Value::Table(entries) = node.value else {
            return faults.broken(node, "must be a table");
        };
        for (key, value) in entries {
            let here = Node {
                value,
                place: Place::Key(&node.place, key),
            };
            let known = keys.known.contains(&key.as_str());
            if !known && keys.unenforced.contains(&key.as_str()) {
                let _: Option<()> = faults.broken(here, NOT_ENFORCED);
            } else if !known {
                let _: Option<()> = faults.broken_by(here, || unknown_key(key, keys));
            }
        }
        Some(Self {
            entries,
            place: node.place,
        })
    }

    /// The value of `key`.
    pub(super) fn get<'s>(&'s self, key: &'s str) -> Option<Node<'s>> {
        let (_, value) = self.entries.iter().find(|(name, _)| name == key)?;
        Some(Node {
            value,
            place: Place::Key(&self.place, key),
        })
    }

    /// The decoded value of `key`; a missing one is a fault.
    pub(super) fn required<T>(
        &self,
        key: &str,
        faults: &mut Faults,
        decode: impl FnOnce(Node<'_>, &mut Faults) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(node) => decode(node, faults),
            None => self.missing(key, "is required", faults),
        }
    }

    /// The decoded value of `key`, or `default` when it is not there.
    pub(super) fn or<T>(
        &self,
        key: &str,
        default: T,
        faults: &mut Faults,
        decode: impl FnOnce(Node<'_>, &mut Faults) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(node) => decode(node, faults),
            None => Some(default),
        }
    }

    /// The decoded value of `key`, if it is there. The outer `None`: it is there and broken.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        faults: &mut Faults,
        decode: impl FnOnce(Node<'_>, &mut Faults) -> Option<T>,
    ) -> Option<Option<T>> {
        match self.get(key) {
            Some(node) => decode(node, faults).map(Some),
            None => Some(None),
        }
    }

    /// Reports that `key` is not there although `rule` asks for it.
    pub(super) fn missing<T>(&self, key: &str, rule: &str, faults: &mut Faults) -> Option<T> {
        faults.add(&Place::Key(&self.place, key), String::new(), rule)
    }
}

fn unknown_key(key: &str, keys: Keys) -> String {
    match nearest(key, keys.known) {
        Some(near) => format!("unknown key; did you mean `{near}`?"),
        None => format!("unknown key; the keys here are {}", keys.known.join(", ")),
    }
}
