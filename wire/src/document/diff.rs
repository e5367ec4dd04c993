//! What differs between two documents.
//!
//! Separate because people read it before they apply a change. Routes are matched by id, not by
//! their place, so that a route put in front of the others is one difference, never a hundred.

use std::collections::{HashMap, HashSet};

use compartment::policy::{Path, Value};

/// One value that is not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where: in the new document, or in the old one when it is gone.
    pub path: Path,
    /// What stood there.
    pub old: Option<Value>,
    /// What stands there now.
    pub new: Option<Value>,
}

/// Everything that differs, in the order of the new document, then what is gone.
pub fn diff(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&Path::root(), old, new, &mut found);
    found
}

fn compare(path: &Path, old: &Value, new: &Value, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Table(before), Value::Table(after)) => tables(path, before, after, found),
        (Value::Array(before), Value::Array(after)) => match (by_id(before), by_id(after)) {
            (Some(before), Some(after)) => identified(path, &before, &after, found),
            _ => found.push(changed(path, Some(old), Some(new))),
        },
        _ => found.push(changed(path, Some(old), Some(new))),
    }
}

fn changed(path: &Path, old: Option<&Value>, new: Option<&Value>) -> Difference {
    Difference {
        path: path.clone(),
        old: old.cloned(),
        new: new.cloned(),
    }
}

fn tables(
    path: &Path,
    before: &[(String, Value)],
    after: &[(String, Value)],
    found: &mut Vec<Difference>,
) {
    let old: HashMap<&str, &Value> = before.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut kept = HashSet::new();
    for (key, value) in after {
        kept.insert(key.as_str());
        let path = path.key(key);
        match old.get(key.as_str()) {
            Some(old) => compare(&path, old, value, found),
            None => found.push(changed(&path, None, Some(value))),
        }
    }
    for (key, value) in before
        .iter()
        .filter(|(key, _)| !kept.contains(key.as_str()))
    {
        found.push(changed(&path.key(key), Some(value), None));
    }
}

/// An element with its id and its place.
type Identified<'a> = (&'a str, usize, &'a Value);

/// The elements of a list whose every element has an id of its own; `None` for other lists.
fn by_id(items: &[Value]) -> Option<Vec<Identified<'_>>> {
    let mut seen = HashSet::new();
    let mut identified = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let Some(Value::String(id)) = item.get("id") else {
            return None;
        };
        if !seen.insert(id.as_str()) {
            return None;
        }
        identified.push((id.as_str(), index, item));
    }
    Some(identified)
}

fn identified(
    path: &Path,
    before: &[Identified<'_>],
    after: &[Identified<'_>],
    found: &mut Vec<Difference>,
) {
    let old: HashMap<&str, &Value> = before.iter().map(|(id, _, item)| (*id, *item)).collect();
    let mut kept = HashSet::new();
    for (id, index, item) in after {
        kept.insert(*id);
        let path = path.index(*index);
        match old.get(id) {
            Some(old) => compare(&path, old, item, found),
            None => found.push(changed(&path, None, Some(item))),
        }
    }
    for (_, index, item) in before.iter().filter(|(id, ..)| !kept.contains(id)) {
        found.push(changed(&path.index(*index), Some(item), None));
    }
}
