//! The linter: what is allowed and still wrong, or likely to be.
//!
//! Separate from the check of the policy, which knows what can be enforced; this knows what
//! isolates. All sums are in whole numbers. It must never read a measurement: what it says
//! follows from the policy alone.

mod assumed;
mod bounds;
mod breaker;
mod ladder;
mod protocols;
mod reach;
mod shape;
mod slices;

use std::fmt;

use compartment::policy::{Path, Policy};
use serde::Serialize;

/// The most findings of one policy; a last one says how many more there were.
pub const FINDINGS_MAX: usize = 200;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FindingSeverity)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Allowed, and probably not meant.
    Warning,
    /// Refuses the policy.
    Error,
}

impl Severity {
    /// The word for answers and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Something the linter says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule: `L1` to `L20`, or the principle it follows from.
    pub rule: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Where.
    pub path: Path,
    /// The arithmetic and what must hold.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            severity,
            path,
            message,
        } = self;
        write!(f, "{} {rule} {path}: {message}", severity.as_str())
    }
}

/// Everything there is to say of a policy: errors first, otherwise in the order of the document.
pub fn lint(policy: &Policy) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, route) in policy.routes.iter().enumerate() {
        let path = Path::root().key("routes").index(index);
        assumed::lint(&path, route, &mut findings);
        shape::lint_route(&path, policy, route, &mut findings);
        ladder::lint(&path, policy, route, &mut findings);
    }
    shape::lint_upstreams(policy, &mut findings);
    ladder::lint_upstreams(policy, &mut findings);
    breaker::lint(policy, &mut findings);
    slices::lint(policy, &mut findings);
    reach::lint_spare(policy, &mut findings);
    shape::lint_tenants(policy, &mut findings);
    findings.sort_by_key(|finding| finding.severity != Severity::Error);
    let more = findings.len().saturating_sub(FINDINGS_MAX);
    if more > 0 {
        // Errors stand first, so that none of them can be the one that is cut off unseen: the
        // policy is refused all the same.
        findings.truncate(FINDINGS_MAX);
        findings.push(Finding {
            rule: "more",
            severity: Severity::Warning,
            path: Path::root(),
            message: format!("{more} more findings"),
        });
    }
    findings
}

#[cfg(test)]
mod combinations;
#[cfg(test)]
mod tests;
