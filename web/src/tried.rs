//! A request that is tried without being sent: what was typed, and what would become of it.
//!
//! Separate because it is a form with an answer, beside the list. It must never take a key: who
//! calls is chosen by name, so that no credential gets into an address or a log.

use crate::url;

/// The form and its answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TryForm {
    /// As it was typed.
    pub method: String,
    /// As it was typed; empty: none.
    pub host: String,
    /// As it was typed; empty: nothing is tried.
    pub path: String,
    /// Name of the tenant that sends it; empty: nobody that credentials name.
    pub tenant: String,
    /// Names to choose from, and whether there are more.
    pub tenants: Vec<String>,
    /// The policy has tenants.
    pub has_tenants: bool,
    /// Which field cannot be read, and why.
    pub error: Option<(&'static str, String)>,
    /// What would become of it.
    pub answer: Option<Tried>,
}

/// What would become of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tried {
    /// In a sentence.
    pub verdict: String,
    /// The class of that sentence: `good`, `stale` or `bad`.
    pub class: &'static str,
    /// The compartment of the route that gets it.
    pub route: Option<String>,
    /// Why that route, or how far the nearest is.
    pub why: Vec<String>,
    /// Who it would be.
    pub who: Vec<String>,
    /// The limits that it would have to pass, in order.
    pub steps: Vec<TriedStep>,
    /// What the caller would get in place of an answer.
    pub instead: String,
}

/// One limit on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedStep {
    /// What it is.
    pub what: &'static str,
    /// Its compartment.
    pub key: String,
    /// In flight and limit, in words.
    pub now: String,
    /// What it would say.
    pub says: String,
    /// The class of that word.
    pub class: &'static str,
}

impl TryForm {
    /// The methods to choose from.
    pub const METHODS: [&'static str; 7] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

    /// True when `method` is to be chosen.
    pub fn is_method(&self, method: &str) -> bool {
        self.method == method
    }

    /// The error at this field.
    pub fn error_at(&self, field: &str) -> Option<&str> {
        let error = self.error.as_ref().filter(|(at, _)| *at == field);
        error.map(|(_, words)| words.as_str())
    }
}

impl TriedStep {
    /// Its page.
    pub fn href(&self) -> String {
        url::compartment(&self.key)
    }
}

impl Tried {
    /// The page of the route's compartment.
    pub fn href(&self) -> String {
        url::compartment(self.route.as_deref().unwrap_or_default())
    }
}
