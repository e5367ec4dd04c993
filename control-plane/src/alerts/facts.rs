//! What the policy says of compartments, as the alerts ask it every second.
//!
//! Separate so that a policy is read once for each generation, not once for each compartment. It
//! must never know a compartment by a name that the policy does not have.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use compartment::Class;
use compartment::policy::{Policy, Route};

use super::alert::Severity;
use super::evaluator::Facts;
use crate::rollout::Published;

/// One generation, by key.
#[derive(Debug, Default)]
pub(super) struct Known {
    generation: Option<u64>,
    /// Routes and upstreams; `None` while the policy is one that this build cannot read.
    named: Option<HashMap<String, Facts>>,
    tenants: HashSet<String>,
}

impl Known {
    /// Reads a generation that was not read yet.
    pub(super) fn refresh(&mut self, published: &Arc<Published>) {
        let generation = published.about.number;
        if self.generation == Some(generation) {
            return;
        }
        self.generation = Some(generation);
        let policy = published.policy.as_ref().ok();
        self.named = policy.map(named);
        let tenants = policy.into_iter().flat_map(|policy| &policy.tenants);
        self.tenants = tenants
            .map(|tenant| tenant.id.as_str().to_owned())
            .collect();
    }

    /// What is to be known of a compartment; `None` when the policy does not have it.
    pub(super) fn about(&self, key: &str) -> Option<Facts> {
        let plain = |severity| Facts {
            severity,
            upstreams: Vec::new(),
        };
        let Some(named) = &self.named else {
            return Some(plain(Severity::Page));
        };
        let mut words = key.splitn(4, '/');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("gateway"), None, None, None) => Some(plain(Severity::Page)),
            (Some("route"), Some(id), None, None) => named.get(&format!("route/{id}")).cloned(),
            (Some("route"), Some(id), Some("stream"), None) => {
                named.get(&format!("route/{id}")).cloned()
            }
            // A tenant at its own bound is what the bound is for: nobody is woken by a caller.
            (Some("route"), Some(id), Some("tenant"), Some(tenant)) => {
                let facts = named.get(&format!("route/{id}"))?;
                self.has_tenant(tenant).then(|| Facts {
                    severity: Severity::Ticket,
                    ..facts.clone()
                })
            }
            (Some("upstream"), Some(id), None, None) => {
                named.get(&format!("upstream/{id}")).cloned()
            }
            (Some("tenant"), Some(id), None, None) => {
                self.has_tenant(id).then(|| plain(Severity::Ticket))
            }
            _ => None,
        }
    }

    /// Names that begin with `_` are ours: callers that nobody knows, and sums.
    fn has_tenant(&self, id: &str) -> bool {
        id.starts_with('_') || self.tenants.contains(id)
    }
}

fn named(policy: &Policy) -> HashMap<String, Facts> {
    let mut named = HashMap::new();
    for (at, upstream) in policy.upstreams.iter().enumerate() {
        let behind = |route: &&Route| route.upstream == at;
        let users = policy.routes.iter().filter(behind);
        // An upstream of sheddable routes alone wakes nobody; one that nobody uses would.
        let severity = users.map(|route| severity(route.class)).min();
        let facts = Facts {
            severity: severity.unwrap_or(Severity::Page),
            upstreams: vec![upstream.id.as_str().to_owned()],
        };
        named.insert(format!("upstream/{}", upstream.id.as_str()), facts);
    }
    for route in &policy.routes {
        let upstream = policy.upstreams.get(route.upstream).into_iter();
        let facts = Facts {
            severity: severity(route.class),
            upstreams: upstream
                .map(|upstream| upstream.id.as_str().to_owned())
                .collect(),
        };
        named.insert(format!("route/{}", route.id.as_str()), facts);
    }
    named
}

/// Whose refusals wake somebody.
fn severity(class: Class) -> Severity {
    match class {
        Class::Critical | Class::Standard => Severity::Page,
        Class::Sheddable => Severity::Ticket,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let document = serde_json::json!({
            "schema": 1,
            "upstreams": {"db": {"endpoints": ["http://127.0.0.1:9"]},
                          "jobs": {"endpoints": ["http://127.0.0.1:9"]}},
            "routes": [
                {"id": "a", "path": "/a", "upstream": "db", "compartment": {"limit": 2}},
                {"id": "b", "path": "/b", "upstream": "jobs", "class": "sheddable",
                 "compartment": {"limit": 2}},
            ],
            "identify": {"by": [{"api_key": {"header": "x-api-key"}}]},
            "plans": {"pro": {"limit": 5}},
            "tenants": {"acme": {"plan": "pro"}},
        });
        let document = serde_json::from_str(&document.to_string()).unwrap();
        let policy = compartment::policy::check(&document).map_err(|faults| format!("{faults:?}"));
        let policy = policy.unwrap();
        Known {
            generation: Some(1),
            named: Some(named(&policy)),
            tenants: ["acme".to_owned()].into(),
        }
    }

    #[test]
    fn who_is_woken_is_in_the_policy() {
        let known = known();
        for (key, want) in [
            ("gateway", Some(Severity::Page)),
            ("route/a", Some(Severity::Page)),
            ("route/a/stream", Some(Severity::Page)),
            ("route/b", Some(Severity::Ticket)),
            ("upstream/db", Some(Severity::Page)),
            ("upstream/jobs", Some(Severity::Ticket)),
            ("tenant/acme", Some(Severity::Ticket)),
            ("tenant/_unknown", Some(Severity::Ticket)),
            ("route/a/tenant/acme", Some(Severity::Ticket)),
            ("route/c", None),
            ("upstream/none", None),
            ("tenant/gone", None),
            ("route/c/tenant/acme", None),
            ("route/a/tenant/gone", None),
            ("nonsense", None),
            ("", None),
        ] {
            assert_eq!(known.about(key).map(|facts| facts.severity), want, "{key}");
        }
        assert_eq!(known.about("route/a").unwrap().upstreams, ["db"]);
    }
}
