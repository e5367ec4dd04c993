//! A document that passed every check, with all that is derived from it.
//!
//! Separate from the write path because it is plain computation, run off the threads that serve:
//! a document may have 32 MiB. It must never touch the store.

use std::sync::Arc;

use compartment::policy::{Fault, Path, Policy, Value};
use serde_json::json;
use wire::document::Difference;
use wire::parts::Parts;

use super::{DIFFERENCES_MAX, Edit, LimitsError, entry, target};
use crate::linter::{self, Finding, Severity};
use crate::rollout::Published;
use crate::store::{Generation, StoreError};

/// A document that may be stored.
pub(crate) struct Checked {
    pub(crate) document: Value,
    pub(crate) policy: Policy,
    pub(crate) json: String,
    pub(crate) parts: Parts,
    pub(crate) digest: String,
    pub(crate) findings: Vec<Finding>,
    /// Against the generation before, as JSON.
    pub(crate) differences: String,
}

impl Checked {
    /// The same twice: to be told of, and to be published.
    pub(crate) fn again(self) -> (Self, Self) {
        let told = Self {
            document: self.document.clone(),
            policy: self.policy.clone(),
            json: String::new(),
            parts: self.parts.clone(),
            digest: self.digest.clone(),
            findings: Vec::new(),
            differences: String::new(),
        };
        (told, self)
    }

    /// As it is published once it is stored.
    pub(crate) fn publish(self, about: Generation, epoch: &str) -> Published {
        Published::written(about, epoch, self.document, self.parts, self.policy)
    }
}

/// Makes the document, checks and lints the whole of it; `before` is what it is to follow.
pub(crate) async fn check(
    edit: Edit,
    before: Option<Arc<Published>>,
) -> Result<Checked, LimitsError> {
    let work = move || {
        let nothing = Value::Null;
        let before = before
            .as_ref()
            .map_or(&nothing, |published| &published.document);
        let document = match edit {
            Edit::Whole(document) => Arc::unwrap_or_clone(document),
            Edit::Fields { key, values } => target::apply(before, &key, &values)?,
            Edit::Several(several) => {
                let mut document = before.clone();
                for (key, values) in several {
                    document = target::apply(&document, &key, &values)?;
                }
                document
            }
            Edit::Entry { named, id, entry } => entry::apply(before, named, &id, entry)?,
        };
        check_now(document, before)
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?
}

fn check_now(document: Value, before: &Value) -> Result<Checked, LimitsError> {
    let policy = match compartment::policy::check(&document) {
        Ok(policy) => policy,
        Err(faults) => return Err(LimitsError::Invalid { faults }),
    };
    let findings = linter::lint(&policy);
    let faults: Vec<_> = findings
        .iter()
        .filter(|finding| refuses(finding))
        .map(|f| fault(f, &document))
        .collect();
    if !faults.is_empty() {
        return Err(LimitsError::Invalid { faults });
    }
    let json = wire::document::to_json(&document);
    // A change may have made it larger than any gateway reads.
    if let Err(error) = wire::document::fits(&json) {
        let rule = error.to_string();
        let whole = Fault {
            path: Path::default(),
            value: String::new(),
            rule,
        };
        return Err(LimitsError::Invalid {
            faults: vec![whole],
        });
    }
    let digest = wire::document::digest(&document);
    let differences = wire::document::diff(before, &document);
    let differences = audit_text(&differences);
    Ok(Checked {
        document,
        policy,
        parts: Parts::of(json.clone().into()),
        json,
        digest,
        findings,
        differences,
    })
}

/// True for a finding that refuses the policy like a broken rule.
pub fn refuses(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}

fn fault(finding: &Finding, document: &Value) -> Fault {
    Fault {
        path: finding.path.clone(),
        value: document
            .at(&finding.path)
            .map(Value::excerpt)
            .unwrap_or_default(),
        rule: format!("{}: {}", finding.rule, finding.message),
    }
}

/// The differences for the audit: bounded, with excerpts of long values.
fn audit_text(differences: &[Difference]) -> String {
    let excerpt = |value: &Option<Value>| value.as_ref().map(Value::excerpt);
    let one = |difference: &Difference| {
        json!({
            "path": difference.path.to_string(),
            "old": excerpt(&difference.old),
            "new": excerpt(&difference.new),
        })
    };
    let listed: Vec<_> = differences.iter().take(DIFFERENCES_MAX).map(one).collect();
    let more = differences.len().saturating_sub(listed.len());
    json!({ "differences": listed, "more": more }).to_string()
}
