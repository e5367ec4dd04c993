//! `bulkhead check`: parses and lints a policy file, offline.
//!
//! Separate because it needs no server: what it accepts, a control plane accepts. It must never
//! let an error through that the control plane would refuse.

use control_plane::document::{self, LoadError, Syntax};
use control_plane::linter::{self, Finding, Severity};
use control_plane::policy::Policy;
use serde_json::{Value, json};

use crate::args::Format;
use crate::args_tools::CheckArgs;
use crate::error::{Failure, exit};
use crate::output::{self, printable_lines};
use crate::remote::read_policy;

/// Exit 0 fine (warnings allowed), 1 errors, 2 unreadable.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let name = args.file.display().to_string();
    let (text, syntax) = match read_policy(&args.file) {
        Ok(read) => read,
        Err(unreadable @ Failure::Unreadable { .. }) => {
            unreadable.report();
            return Err(Failure::Said(exit::USAGE));
        }
        Err(other) => return Err(other),
    };
    let verdict = match document::load(&text, syntax) {
        Ok(loaded) => Verdict::linted(&text, syntax, &loaded.policy),
        Err(error) => Verdict::refused(&error),
    };
    match args.output {
        Format::Json => output::print_json(&verdict.json())?,
        Format::Table => output::print(&verdict.text(&name))?,
    }
    if verdict.fine() {
        Ok(())
    } else {
        Err(Failure::Said(exit::TROUBLE))
    }
}

struct Verdict {
    /// What does not parse or does not keep the rules.
    faults: Vec<Value>,
    fault_lines: String,
    /// What the linter says, each with its line.
    findings: Vec<(Option<u32>, Finding)>,
    /// Routes, upstreams and tenants of a policy that keeps the rules.
    counts: [usize; 3],
}

impl Verdict {
    fn linted(text: &str, syntax: Syntax, policy: &Policy) -> Self {
        let findings = linter::lint(policy);
        let paths: Vec<_> = findings.iter().map(|finding| &finding.path).collect();
        let lines = document::lines_of(text, syntax, &paths);
        Self {
            faults: Vec::new(),
            fault_lines: String::new(),
            findings: lines.into_iter().zip(findings).collect(),
            counts: [
                policy.routes.len(),
                policy.upstreams.len(),
                policy.tenants.len(),
            ],
        }
    }

    fn refused(error: &LoadError) -> Self {
        let faults = match error {
            LoadError::Refused(located) => located
                .iter()
                .map(|located| {
                    let fault = &located.fault;
                    json!({"line": located.line, "path": fault.path.to_string(),
                           "value": fault.value, "rule": fault.rule})
                })
                .collect(),
            LoadError::Syntax { line, .. } => {
                vec![json!({"line": line, "rule": error.to_string()})]
            }
            LoadError::TooLarge { .. } => vec![json!({"rule": error.to_string()})],
        };
        Self {
            faults,
            fault_lines: printable_lines(&error.to_string()),
            findings: Vec::new(),
            counts: [0; 3],
        }
    }

    fn errors(&self) -> usize {
        let of_linter = self
            .findings
            .iter()
            .filter(|(_, finding)| finding.severity == Severity::Error)
            .count();
        self.faults.len().saturating_add(of_linter)
    }

    fn fine(&self) -> bool {
        self.errors() == 0
    }

    fn text(&self, name: &str) -> String {
        let mut out = String::new();
        for line in self.fault_lines.lines() {
            out.push_str(&format!("error {line}\n"));
        }
        for (line, finding) in &self.findings {
            let line = line.map_or_else(String::new, |line| format!("line {line}: "));
            let (severity, rule) = (finding.severity.as_str(), finding.rule);
            out.push_str(&format!(
                "{severity} {rule} {line}{}: {}\n",
                finding.path, finding.message
            ));
        }
        let others = self.findings.len().saturating_sub(self.errors());
        let name = output::printable(name);
        out.push_str(&match (self.errors(), others) {
            (0, 0) => {
                let [routes, upstreams, tenants] = self.counts;
                format!(
                    "{name} is fine: routes: {routes}, upstreams: {upstreams}, tenants: {tenants}; \
                     every sum holds\n"
                )
            }
            (0, n) => format!("{name} is fine, with {n} to think about\n"),
            (errors, _) => format!("{name} has {errors} to put right\n"),
        });
        out
    }

    fn json(&self) -> Value {
        let findings: Vec<Value> = self
            .findings
            .iter()
            .map(|(line, finding)| {
                json!({"rule": finding.rule, "severity": finding.severity, "line": line,
                       "path": finding.path.to_string(), "message": finding.message})
            })
            .collect();
        json!({ "fine": self.fine(), "errors": self.faults, "findings": findings })
    }
}
