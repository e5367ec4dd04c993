//! What the bodies of calls about changes say.
//!
//! Separate for length. Nothing is taken without effect: a key that a call does not take is named.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::policy::{Value, parse_duration};
use utoipa::ToSchema;

use super::Problem;
use super::policy::PolicyDocument;
use crate::changes::{CONFIRM_MAX_MS, Prefer, Terms};
use crate::limits::{COMMENT_BYTES_MAX, Edit};

const SPAN_RULE: &str = "a span of 1 s to 24 h such as \"5m\"";

/// A whole document, or fields of compartments.
#[derive(ToSchema)]
#[expect(
    dead_code,
    reason = "it is described; the document is read by the policy's own reader"
)]
pub(super) struct Proposal {
    #[schema(required = false)]
    document: PolicyDocument,
    /// Fields by compartment: `{"route/a": {"limit": 80}}`.
    #[schema(required = false)]
    compartments: BTreeMap<String, serde_json::Map<String, serde_json::Value>>,
    /// Why, for the history.
    #[schema(required = false, max_length = 2000)]
    comment: String,
}

/// Why a step is taken.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is described")]
pub(super) struct Said {
    /// For the history.
    #[schema(required = false, max_length = 2000)]
    comment: String,
}

/// Where a change is staged.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is described")]
pub(super) struct Staging {
    /// A gateway that is connected.
    gateway: String,
    /// For the history.
    #[schema(required = false, max_length = 2000)]
    comment: String,
}

/// What takes a published change back by itself.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is described")]
pub(super) struct Publishing {
    /// Unless somebody keeps it within this span: 1 s to 24 h.
    #[schema(required = false)]
    confirm_within: String,
    /// When a compartment that was healthy refuses more than this within a minute, in percent.
    #[schema(required = false, minimum = 0.1, maximum = 100.0)]
    guard_percent: f64,
    /// For how long that is watched; without it as long as `confirm_within`, or 15 minutes.
    #[schema(required = false)]
    watch_for: String,
    /// For the history.
    #[schema(required = false, max_length = 2000)]
    comment: String,
}

/// Whose values count where both changed the same.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "it is described")]
pub(super) enum Side {
    Mine,
    Theirs,
}

/// What becomes of values that both changed.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is described")]
pub(super) struct Rebasing {
    /// Without it: refused where there are any.
    #[schema(required = false)]
    prefer: Side,
    /// For the history.
    #[schema(required = false, max_length = 2000)]
    comment: String,
}

/// What the body of a call about a change says.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) comment: String,
    pub(super) edit: Option<Edit>,
    pub(super) gateway: Option<String>,
    pub(super) terms: Terms,
    pub(super) prefer: Option<Prefer>,
}

impl Asked {
    pub(super) fn of(body: Value, takes: &[&str]) -> Result<Self, Problem> {
        let Value::Table(entries) = body else {
            return Err(Problem::invalid("", "the body must be an object"));
        };
        let mut asked = Self::default();
        for (name, value) in entries {
            if name != "comment" && !takes.contains(&name.as_str()) {
                let rule = match takes.is_empty() {
                    true => "this call takes comment".to_owned(),
                    false => format!("this call takes comment, {}", takes.join(", ")),
                };
                let name = wire::stream::bounded_text(&name, 80);
                return Err(Problem::invalid(&format!("/{name}"), &rule));
            }
            asked.take(&name, value)?;
        }
        Ok(asked)
    }

    fn take(&mut self, name: &str, value: Value) -> Result<(), Problem> {
        let bad = |rule: &str| Err(Problem::invalid(&format!("/{name}"), rule));
        match (name, value) {
            ("comment", Value::String(text)) if text.len() <= COMMENT_BYTES_MAX => {
                self.comment = text;
            }
            ("comment", _) => {
                return bad(&format!(
                    "must be text of at most {COMMENT_BYTES_MAX} bytes"
                ));
            }
            ("gateway", Value::String(gateway)) => self.gateway = Some(gateway),
            ("gateway", _) => return bad("must be the name of a gateway"),
            ("document", document @ Value::Table(_)) if self.edit.is_none() => {
                self.edit = Some(Edit::Whole(Arc::new(document)));
            }
            ("compartments", Value::Table(keys)) if self.edit.is_none() && !keys.is_empty() => {
                let mut several = Vec::new();
                for (key, fields) in keys {
                    let Value::Table(fields) = fields else {
                        return bad("must hold an object of fields for each compartment");
                    };
                    several.push((key, fields));
                }
                self.edit = Some(Edit::Several(several));
            }
            ("document" | "compartments", _) => {
                return bad("give a document, or compartments with their fields, not both");
            }
            ("confirm_within", value) => self.terms.confirm_within_ms = Some(span(name, &value)?),
            ("watch_for", value) => self.terms.watch_for_ms = Some(span(name, &value)?),
            ("guard_percent", value) => self.terms.guard_milli = Some(milli(&value)?),
            ("prefer", Value::String(side)) if side == "mine" => self.prefer = Some(Prefer::Ours),
            ("prefer", Value::String(side)) if side == "theirs" => {
                self.prefer = Some(Prefer::Theirs);
            }
            ("prefer", _) => return bad("must be mine or theirs"),
            _ => return bad("is not known"),
        }
        Ok(())
    }
}

fn span(name: &str, value: &Value) -> Result<u64, Problem> {
    let parsed = match value {
        Value::String(text) => parse_duration(text),
        Value::Null
        | Value::Bool(_)
        | Value::Integer(_)
        | Value::Float(_)
        | Value::Array(_)
        | Value::Table(_) => None,
    };
    let ms = parsed.and_then(|span| u64::try_from(span.as_millis()).ok());
    let ms = ms.filter(|ms| (1_000..=CONFIRM_MAX_MS).contains(ms));
    ms.ok_or_else(|| Problem::invalid(&format!("/{name}"), &format!("must be {SPAN_RULE}")))
}

/// Percent, to a tenth.
fn milli(value: &Value) -> Result<u32, Problem> {
    let text = match value {
        Value::Integer(_) | Value::Float(_) => value.excerpt(),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Table(_) => {
            String::new()
        }
    };
    let milli = compartment::policy::decimal(&text, 10);
    let milli = milli.and_then(|milli| u32::try_from(milli).ok());
    milli
        .filter(|milli| (1..=1_000).contains(milli))
        .ok_or_else(|| {
            Problem::invalid(
                "/guard_percent",
                "must be a number from 0.1 to 100, to a tenth",
            )
        })
}

pub(super) fn no_edit() -> Problem {
    Problem::invalid("", "say what changes: `document`, or `compartments`")
}
