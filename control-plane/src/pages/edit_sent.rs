//! What a form of a compartment sends, against what the policy says.
//!
//! Separate because the fields of a form are names and texts: which of them the operator changed is
//! worked out here. It must never take a field for changed that was not sent.

use std::collections::HashMap;

use compartment::policy::Value;
use compartment::{Level, Limit, Mode};
use web::{Edit, Field, Standing, Versus, fields_of, parse_limit};

use crate::limits;

/// What the form sends: the fields of the compartment by their names, and these.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) generation: u64,
    pub(super) comment: String,
    /// There only when the page asked for a confirmation.
    pub(super) confirm: Option<String>,
    /// Everything else; names that are no field of the compartment are left alone.
    fields: HashMap<String, String>,
}

/// The form of a compartment as the document has it.
pub(super) fn fresh(document: &Value, generation: u64, key: &str, level: Level) -> Edit {
    let value = |name: &str| {
        let path = limits::place(document, key, name)?;
        document.at(&path)
    };
    let fields = fields_of(level).iter();
    let fields = fields.map(|name| Field::new(name, value(name)));
    Edit::new(generation, fields.collect())
}

impl Sent {
    /// From the pairs of a form; `None` for one that no page of ours sends.
    pub(super) fn of(pairs: Vec<(String, String)>) -> Option<Self> {
        let mut fields: HashMap<String, String> = pairs.into_iter().collect();
        Some(Self {
            generation: fields.remove("generation")?.parse().ok()?,
            comment: fields.remove("comment").unwrap_or_default(),
            confirm: fields.remove("confirm"),
            fields,
        })
    }

    /// The form with what was sent in it.
    pub(super) fn typed(&self, mut edit: Edit) -> Edit {
        for field in &mut edit.fields {
            if let Some(typed) = self.fields.get(field.name) {
                typed.clone_into(&mut field.typed);
            }
        }
        self.comment.clone_into(&mut edit.comment);
        edit.confirm = self.confirm.clone().unwrap_or_default();
        edit
    }

    /// The same on top of what somebody else stored: `before` is the form of the generation that
    /// the operator saw. What the operator left alone follows the newer one.
    pub(super) fn rebased(&self, edit: Edit, before: Option<&Edit>) -> (Edit, Vec<Versus>) {
        let mut edit = self.typed(edit);
        let mut values = Vec::new();
        for field in &mut edit.fields {
            let seen = before.and_then(|before| before.field(field.name));
            let Some(typed) = self.fields.get(field.name) else {
                continue;
            };
            if seen.is_some_and(|seen| seen.current == typed.trim()) {
                field.typed = field.current.clone();
            } else if seen.is_some() || field.is_changed() {
                values.push(Versus {
                    name: field.name,
                    before: seen.map(|seen| seen.in_force().to_owned()),
                    theirs: field.in_force().to_owned(),
                    yours: shown(typed),
                });
            }
        }
        (edit, values)
    }
}

/// The changed fields, as the write path takes them.
pub(super) fn changed(edit: &Edit) -> Vec<(String, Value)> {
    let changed = edit.fields.iter().filter(|field| field.is_changed());
    changed
        .map(|field| (field.name.to_owned(), field.value()))
        .collect()
}

/// What decides before and after; `None` while the limit is not one.
pub(super) fn standings(edit: &Edit) -> Option<(Standing, Standing)> {
    let limit = edit.field("limit")?;
    let mode = edit.field("mode");
    let read = |limit: &str, mode: Option<&str>| {
        let limit: Limit = parse_limit(limit).ok()?;
        let mode = mode.and_then(Mode::from_name).unwrap_or_default();
        Some(Standing { limit, mode })
    };
    let now = read(&limit.current, mode.map(|mode| mode.current.as_str()))?;
    let proposed = read(&limit.typed, mode.map(|mode| mode.typed.trim()))?;
    Some((now, proposed))
}

fn shown(typed: &str) -> String {
    match typed.trim() {
        "" => "not set".to_owned(),
        typed => typed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(limit: i128, queue: i128) -> Edit {
        let document = serde_json::json!({"routes": [
            {"id": "a", "compartment": {"limit": limit, "queue": queue}}]});
        let document: Value = serde_json::from_str(&document.to_string()).unwrap();
        fresh(&document, 2, "route/a", Level::Route)
    }

    fn sent(fields: &[(&str, &str)]) -> Sent {
        let generation = [("generation", "1")];
        let pairs = generation.iter().chain(fields);
        let pairs = pairs.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Sent::of(pairs.collect()).unwrap()
    }

    #[test]
    fn a_form_without_its_generation_is_none_of_ours() {
        for pairs in [&[][..], &[("generation", "x")], &[("limit", "3")]] {
            let pairs = pairs
                .iter()
                .map(|(n, t)| ((*n).to_owned(), (*t).to_owned()));
            assert!(Sent::of(pairs.collect()).is_none());
        }
    }

    #[test]
    fn only_what_was_sent_and_differs_is_changed() {
        let edit = sent(&[("limit", " 60 "), ("queue", "4"), ("else", "9")]).typed(form(60, 3));
        assert_eq!(changed(&edit), [("queue".to_owned(), Value::Integer(4))]);
        assert!(changed(&sent(&[]).typed(form(60, 3))).is_empty());
        let gone = sent(&[("queue", "")]).typed(form(60, 3));
        assert_eq!(changed(&gone), [("queue".to_owned(), Value::Null)]);
    }

    #[test]
    fn what_the_operator_left_alone_follows_the_newer_policy() {
        let before = form(60, 3);
        let both = sent(&[("limit", "60"), ("queue", "5")]);
        let (edit, values) = both.rebased(form(80, 4), Some(&before));
        assert_eq!(edit.field("limit").unwrap().typed, "80");
        assert_eq!(changed(&edit), [("queue".to_owned(), Value::Integer(5))]);
        let one = values.first().unwrap();
        assert_eq!(
            (values.len(), one.name, one.before.as_deref()),
            (1, "queue", Some("3"))
        );
        assert_eq!((one.theirs.as_str(), one.yours.as_str()), ("4", "5"));
        // Without the older policy everything that differs is the operator's.
        let (_, values) = both.rebased(form(80, 4), None);
        assert_eq!(values.len(), 2);
    }
}
