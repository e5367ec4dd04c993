//! Two sets of edits of one document brought together.
//!
//! Separate because it is arithmetic over trees: what this side changed and the other did not, the
//! other way round, and what both changed. It must never choose between two people by itself.

use std::collections::HashSet;

use compartment::policy::{Path, Value};

/// Whose value counts where both changed the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefer {
    Ours,
    Theirs,
}

/// A value that both sides changed, each otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Clash {
    /// Where, in their document; in ours when it is gone there.
    pub path: Path,
    /// What stood there before both.
    pub base: Option<Value>,
    /// What the change says.
    pub ours: Option<Value>,
    /// What stands there now.
    pub theirs: Option<Value>,
}

/// The document of both, and what only a person can decide.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merged {
    pub(crate) document: Value,
    pub(crate) clashes: Vec<Clash>,
}

/// What `ours` did to `base`, done to `theirs`.
pub(crate) fn merge(base: &Value, ours: &Value, theirs: &Value, prefer: Prefer) -> Merged {
    let mut work = Work {
        prefer,
        clashes: Vec::new(),
    };
    let sides = Sides {
        base: Some(base),
        ours: Some(ours),
        theirs: Some(theirs),
    };
    let document = work.merge(&Path::root(), sides);
    Merged {
        document: document.unwrap_or(Value::Null),
        clashes: work.clashes,
    }
}

#[derive(Clone, Copy)]
struct Sides<'a> {
    base: Option<&'a Value>,
    ours: Option<&'a Value>,
    theirs: Option<&'a Value>,
}

struct Work {
    prefer: Prefer,
    clashes: Vec<Clash>,
}

impl Work {
    fn merge(&mut self, path: &Path, sides: Sides<'_>) -> Option<Value> {
        let Sides { base, ours, theirs } = sides;
        if ours == base || ours == theirs {
            return theirs.cloned();
        }
        if theirs == base {
            return ours.cloned();
        }
        match (base, ours, theirs) {
            (Some(Value::Table(base)), Some(Value::Table(ours)), Some(Value::Table(theirs))) => {
                Some(self.tables(path, [base, ours, theirs]))
            }
            (Some(Value::Array(base)), Some(Value::Array(ours)), Some(Value::Array(theirs)))
                if [base, ours, theirs].into_iter().all(|list| has_ids(list)) =>
            {
                Some(self.identified(path, [base, ours, theirs]))
            }
            (base, ours, theirs) if is_set(path) && [base, ours, theirs].into_iter().all(texts) => {
                sets([base, ours, theirs])
            }
            _ => {
                self.clashes.push(Clash {
                    path: path.clone(),
                    base: base.cloned(),
                    ours: ours.cloned(),
                    theirs: theirs.cloned(),
                });
                match self.prefer {
                    Prefer::Ours => ours.cloned(),
                    Prefer::Theirs => theirs.cloned(),
                }
            }
        }
    }

    /// Their order first, then what only we have.
    fn tables(&mut self, path: &Path, [base, ours, theirs]: [&[(String, Value)]; 3]) -> Value {
        let mut merged = Vec::with_capacity(theirs.len());
        let mut names: Vec<&str> = theirs.iter().map(|(name, _)| name.as_str()).collect();
        let known: HashSet<&str> = names.iter().copied().collect();
        names.extend(
            ours.iter()
                .map(|(name, _)| name.as_str())
                .filter(|name| !known.contains(name)),
        );
        for name in names {
            let sides = Sides {
                base: entry(base, name),
                ours: entry(ours, name),
                theirs: entry(theirs, name),
            };
            if let Some(value) = self.merge(&path.key(name), sides) {
                merged.push((name.to_owned(), value));
            }
        }
        Value::Table(merged)
    }

    /// Elements are matched by their ids, wherever they stand.
    fn identified(&mut self, path: &Path, [base, ours, theirs]: [&[Value]; 3]) -> Value {
        let mut ids: Vec<&str> = theirs.iter().filter_map(id_of).collect();
        let known: HashSet<&str> = ids.iter().copied().collect();
        ids.extend(
            ours.iter()
                .filter_map(id_of)
                .filter(|id| !known.contains(id)),
        );
        let mut merged = Vec::with_capacity(ids.len());
        for id in ids {
            let is_it = |item: &&Value| id_of(item) == Some(id);
            let at = theirs.iter().position(|item| id_of(item) == Some(id));
            let at = at.or_else(|| ours.iter().position(|item| id_of(item) == Some(id)));
            let sides = Sides {
                base: base.iter().find(is_it),
                ours: ours.iter().find(is_it),
                theirs: theirs.iter().find(is_it),
            };
            merged.extend(self.merge(&path.index(at.unwrap_or(0)), sides));
        }
        Value::Array(merged)
    }
}

/// Lists of texts in which only what is in them counts.
const SETS: [&str; 2] = ["api_keys", "hosts"];

fn is_set(path: &Path) -> bool {
    let pointer = path.pointer();
    let name = pointer.rsplit('/').next().unwrap_or_default();
    SETS.contains(&name)
}

/// A list of texts, or nothing.
fn texts(value: Option<&Value>) -> bool {
    match value {
        None => true,
        Some(Value::Array(list)) => list.iter().all(|item| matches!(item, Value::String(_))),
        Some(_) => false,
    }
}

/// What one side put in is in it, what one side took out is not: texts cannot clash. Theirs first.
fn sets([base, ours, theirs]: [Option<&Value>; 3]) -> Option<Value> {
    let list = |value: Option<&Value>| match value {
        Some(Value::Array(list)) => list.clone(),
        Some(_) | None => Vec::new(),
    };
    let (base, ours, mut merged) = (list(base), list(ours), list(theirs));
    merged.retain(|item| ours.contains(item) || !base.contains(item));
    for item in ours {
        if !base.contains(&item) && !merged.contains(&item) {
            merged.push(item);
        }
    }
    // Whoever took the whole list away left none to keep empty.
    let is_gone = merged.is_empty() && theirs.is_none();
    (!is_gone).then_some(Value::Array(merged))
}

fn entry<'a>(entries: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    let found = entries.iter().find(|(own, _)| own == name);
    found.map(|(_, value)| value)
}

fn id_of(item: &Value) -> Option<&str> {
    match item.get("id") {
        Some(Value::String(id)) => Some(id),
        _ => None,
    }
}

fn has_ids(list: &[Value]) -> bool {
    let mut seen = HashSet::new();
    list.iter()
        .all(|item| id_of(item).is_some_and(|id| seen.insert(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    fn merged(base: &str, ours: &str, theirs: &str) -> Merged {
        merge(&value(base), &value(ours), &value(theirs), Prefer::Theirs)
    }

    const BASE: &str =
        r#"{"g": {"c": 9}, "routes": [{"id": "a", "l": 1, "q": 1}, {"id": "b", "l": 2}]}"#;

    #[test]
    fn edits_of_different_values_come_together() {
        let ours =
            r#"{"g": {"c": 9}, "routes": [{"id": "a", "l": 5, "q": 1}, {"id": "b", "l": 2}]}"#;
        let theirs = r#"{"g": {"c": 8}, "routes": [{"id": "n", "l": 7}, {"id": "b", "l": 2},
            {"id": "a", "l": 1, "q": 3}]}"#;
        let both = merged(BASE, ours, theirs);
        assert_eq!(both.clashes, []);
        let want = r#"{"g": {"c": 8}, "routes": [{"id": "n", "l": 7}, {"id": "b", "l": 2},
            {"id": "a", "l": 5, "q": 3}]}"#;
        assert_eq!(both.document, value(want));
    }

    #[test]
    fn the_same_value_changed_twice_is_for_a_person_to_decide() {
        let ours = r#"{"g": {"c": 9}, "routes": [{"id": "a", "l": 5, "q": 1}]}"#;
        let theirs =
            r#"{"g": {"c": 9}, "routes": [{"id": "b", "l": 4}, {"id": "a", "l": 6, "q": 1}]}"#;
        let both = merged(BASE, ours, theirs);
        let paths: Vec<_> = both
            .clashes
            .iter()
            .map(|clash| clash.path.pointer())
            .collect();
        assert_eq!(
            paths,
            ["/routes/0", "/routes/1/l"],
            "gone here and changed there, too"
        );
        assert_eq!(both.document, value(theirs));
        let mine = merge(&value(BASE), &value(ours), &value(theirs), Prefer::Ours);
        assert_eq!(mine.document, value(ours));
    }

    #[test]
    fn the_same_edit_on_both_sides_is_no_clash() {
        let same =
            r#"{"g": {"c": 9}, "routes": [{"id": "a", "l": 5, "q": 1}, {"id": "b", "l": 2}]}"#;
        assert_eq!(merged(BASE, same, same).clashes, []);
        assert_eq!(merged(BASE, BASE, same).document, value(same));
        assert_eq!(merged(BASE, same, BASE).document, value(same));
    }

    #[test]
    fn keys_that_two_people_add_are_both_there_and_what_was_taken_out_is_not() {
        let both = merged(
            r#"{"api_keys": ["a", "b", "c"], "hosts": ["x"]}"#,
            r#"{"api_keys": ["a", "c", "n"], "hosts": ["x", "y"]}"#,
            r#"{"api_keys": ["m", "a", "b"], "hosts": ["y", "z"]}"#,
        );
        assert_eq!(both.clashes, []);
        let want = r#"{"api_keys": ["m", "a", "n"], "hosts": ["y", "z"]}"#;
        assert_eq!(both.document, value(want));
        // The first two keys of a tenant; the last one taken out beside one that is put in.
        let first = merged("{}", r#"{"api_keys": ["n"]}"#, r#"{"api_keys": ["m"]}"#);
        assert_eq!(first.clashes, []);
        assert_eq!(first.document, value(r#"{"api_keys": ["m", "n"]}"#));
        let gone = r#"{"api_keys": ["a"]}"#;
        let none = merged(gone, "{}", r#"{"api_keys": ["a", "m"]}"#);
        assert_eq!(none.document, value(r#"{"api_keys": ["m"]}"#));
        assert_eq!(
            merged(gone, r#"{"api_keys": []}"#, "{}").document,
            value("{}")
        );
    }

    #[test]
    fn a_list_without_ids_is_one_value() {
        let both = merged(
            r#"{"on": ["x"]}"#,
            r#"{"on": ["x", "y"]}"#,
            r#"{"on": ["z"]}"#,
        );
        assert_eq!(both.clashes.len(), 1);
    }
}
