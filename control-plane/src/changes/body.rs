//! What a change is beside its columns, as it is stored and shown.
//!
//! Separate because it is kept: names here are those of the API and of rows that other builds read.
//! It must never hold the document.

use compartment::policy::{Path, Step as PathStep, Value};
use serde::{Deserialize, Serialize};
use wire::document::Difference;

use super::state::Step;
use crate::limits::{Author, DIFFERENCES_MAX};

/// Most steps that one change takes.
pub const STEPS_MAX: usize = 200;
/// Most compartments that a change names as touched.
pub const KEYS_MAX: usize = 200;

/// One value that a change makes another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ChangeDiffers)]
pub struct Differs {
    /// JSON pointer, in the document that is proposed.
    pub pointer: String,
    /// The same as people write it.
    pub path: String,
    /// The compartment, or what else has a name there.
    #[serde(default)]
    #[schema(required)]
    pub key: Option<String>,
    /// What stood there, shortened; `null`: nothing.
    pub old: Option<String>,
    /// What is to stand there, shortened; `null`: nothing.
    pub new: Option<String>,
}

/// One step that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ChangeTaken)]
pub struct Taken {
    /// `open`, or the name of the step.
    pub step: String,
    /// Who.
    pub by: String,
    /// When, in UTC.
    pub at: String,
    /// Why.
    pub comment: String,
    /// Without the second person that the setting asks for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emergency: bool,
}

/// Somebody agreed to what the change is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ChangeApproval)]
pub struct Approval {
    /// Who.
    pub by: String,
    /// When, in UTC.
    pub at: String,
    /// What was said.
    pub comment: String,
}

/// What takes a published change back by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ChangeGuard)]
pub struct Guard {
    /// Refusals of all arrivals, in thousandths, beyond which it goes.
    pub refused_milli: u32,
    /// Until when it watches, in milliseconds since 1970.
    pub until_ms: i64,
    /// Compartments that refused before; they are not held against it.
    pub unhealthy: Vec<String>,
}

/// The whole of a change that is not in a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = ChangeBody)]
pub struct Body {
    /// Why.
    pub comment: String,
    /// Through which door it came: `draft`, `put`, `patch`, `restore`.
    pub source: String,
    /// The generation that it was made on.
    pub base: u64,
    /// Compartments that it touches.
    pub keys: Vec<String>,
    /// What differs from that.
    pub differences: Vec<Differs>,
    /// How many more.
    pub more: usize,
    /// Who wrote what it is: none of them can approve it.
    pub contributors: Vec<String>,
    /// Who agreed to what it is now.
    pub approvals: Vec<Approval>,
    /// Everything that was done, the oldest first.
    pub steps: Vec<Taken>,
    /// The generation that was in force when it was published.
    pub before: Option<u64>,
    /// When it was published, in milliseconds since 1970.
    pub published_ms: Option<i64>,
    /// The generation that the staged one was built on.
    pub staged_on: Option<u64>,
    /// Goes by itself at this time unless somebody keeps it, in milliseconds since 1970.
    pub confirm_by_ms: Option<i64>,
    /// Goes by itself when this says so.
    pub guard: Option<Guard>,
}

impl Body {
    /// What it proposes, told in differences.
    pub(crate) fn proposes(&mut self, base: u64, old: &Value, new: &Value) {
        let differences = wire::document::diff(old, new);
        self.base = base;
        self.keys = keys(&differences, old, new);
        let excerpt = |value: &Option<Value>| value.as_ref().map(Value::excerpt);
        let one = |difference: &Difference| Differs {
            pointer: difference.path.pointer(),
            path: difference.path.to_string(),
            key: key_of(&difference.path, side(difference, old, new)),
            old: excerpt(&difference.old),
            new: excerpt(&difference.new),
        };
        self.differences = differences.iter().take(DIFFERENCES_MAX).map(one).collect();
        self.more = differences.len().saturating_sub(DIFFERENCES_MAX);
    }

    /// Notes a step.
    pub(crate) fn took(&mut self, step: &str, at: &str, comment: &str, author: &Author) {
        self.steps.push(Taken {
            step: step.to_owned(),
            by: author.name.clone(),
            at: at.to_owned(),
            comment: comment.to_owned(),
            emergency: author.emergency,
        });
    }

    /// Whether one more step has room, with some left for the control plane's own.
    pub(crate) fn has_room(&self, step: Step) -> bool {
        let kept = match step {
            Step::Edit | Step::Rebase | Step::Approve | Step::Stage => 10,
            Step::Publish | Step::Keep | Step::Revert | Step::Abandon => 0,
        };
        self.steps.len() + kept < STEPS_MAX
    }

    /// Who wrote it, once.
    pub(crate) fn wrote(&mut self, author: &Author) {
        if !self.contributors.contains(&author.person) {
            self.contributors.push(author.person.clone());
        }
    }
}

/// The document that the path of a difference is of.
fn side<'a>(difference: &Difference, old: &'a Value, new: &'a Value) -> &'a Value {
    match difference.new {
        Some(_) => new,
        None => old,
    }
}

/// The compartments that differences are about.
fn keys(differences: &[Difference], old: &Value, new: &Value) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for difference in differences {
        let document = side(difference, old, new);
        if let Some(key) = key_of(&difference.path, document).filter(|key| !keys.contains(key)) {
            keys.push(key);
        }
        if keys.len() >= KEYS_MAX {
            break;
        }
    }
    keys
}

fn key_of(path: &Path, document: &Value) -> Option<String> {
    match path.steps() {
        [PathStep::Key(table), PathStep::Index(_), ..] if table == "routes" => {
            let mut route = Path::root().key("routes");
            if let Some(PathStep::Index(at)) = path.steps().get(1) {
                route = route.index(*at);
            }
            match document.at(&route.key("id")) {
                Some(Value::String(id)) => Some(format!("route/{id}")),
                _ => None,
            }
        }
        [PathStep::Key(table), PathStep::Key(id), ..] if table == "upstreams" => {
            Some(format!("upstream/{id}"))
        }
        [PathStep::Key(table), PathStep::Key(id), ..] if table == "tenants" => {
            Some(format!("tenant/{id}"))
        }
        [PathStep::Key(table), ..] if table == "gateway" => Some("gateway".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_names_the_compartments_that_it_touches() {
        let old = r#"{"gateway": {"capacity": 9}, "tenants": {"t": {"limit": 1}},
            "upstreams": {"u": {"limit": 1}}, 
            "routes": [{"id": "a", "l": 1}, {"id": "b", "l": 2}]}"#;
        let new = r#"{"gateway": {"capacity": 8}, "tenants": {"t": {"limit": 2}},
            "upstreams": {"u": {"limit": 1}}, 
            "routes": [{"id": "c"}, {"id": "b", "l": 3, "q": 1}]}"#;
        let (old, new) = [old, new]
            .map(|text| serde_json::from_str::<Value>(text).unwrap())
            .into();
        let mut body = Body::default();
        body.proposes(3, &old, &new);
        assert_eq!(
            body.keys,
            ["gateway", "tenant/t", "route/c", "route/b", "route/a"]
        );
        assert_eq!((body.base, body.more), (3, 0));
        let limit = &body.differences[1];
        assert_eq!(limit.path, "tenants.t.limit");
        assert_eq!(limit.key.as_deref(), Some("tenant/t"));
        assert_eq!(
            (limit.old.as_deref(), limit.new.as_deref()),
            (Some("1"), Some("2"))
        );
    }
}
