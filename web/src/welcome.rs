//! The first steps: an upstream, a route, a tenant with its key, a request that arrives.
//!
//! Separate because it is read once, by somebody new. What is done it knows from the policy alone,
//! so that it can be left and gone on with; it must never ask again for what is there.

use askama::Template;

use crate::{Frame, MadeKey, text, url};

/// The page of the first steps.
#[derive(Debug, Clone, Template)]
#[template(path = "welcome.html", blocks = ["strip", "arrived"])]
pub struct WelcomePage {
    /// What stands around it.
    pub frame: Frame,
    /// The upstreams that are there.
    pub upstreams: Vec<String>,
    /// The routes that are there, with their paths.
    pub routes: Vec<(String, String)>,
    /// The tenants that are there; the first few.
    pub tenants: Vec<String>,
    /// The header that keys come in, where the policy looks for keys.
    pub key_header: Option<String>,
    /// The policy looks for tenants in requests.
    pub identifies: bool,
    /// Somebody wants no tenants.
    pub skips_tenants: bool,
    /// The form of the step, as it was sent.
    pub typed: Typed,
    /// A key that was just made, and whose.
    pub made: Option<(String, MadeKey)>,
    /// What came to the last route of those that are shown; `None`: no gateway reports.
    pub arrived: Option<Arrived>,
}

/// What came to a route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Requests whose decision was made there.
    pub arrived: u64,
    /// Those of them that were admitted.
    pub admitted: u64,
    /// Refusals, in words; empty: none.
    pub refused: String,
}

/// A form as it was sent, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Typed {
    /// Names and texts.
    pub values: Vec<(String, String)>,
    /// Fields and rules; without a field a rule is about all of it.
    pub errors: Vec<(String, String)>,
}

/// Where somebody stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The first upstream.
    Upstream,
    /// The first route.
    Route,
    /// The first tenant.
    Tenant,
    /// All is there.
    Try,
}

impl Typed {
    /// What was typed, or this.
    pub fn value<'a>(&'a self, name: &str, otherwise: &'a str) -> &'a str {
        let mut own = self.values.iter().filter(|(field, _)| field == name);
        own.next().map_or(otherwise, |(_, text)| text)
    }

    /// What is wrong with a field.
    pub fn error(&self, name: &str) -> Option<&str> {
        let mut own = self.errors.iter().filter(|(field, _)| field == name);
        own.next().map(|(_, rule)| rule.as_str())
    }
}

impl WelcomePage {
    /// The parts that a live page replaces.
    pub fn fragment(&self) -> askama::Result<String> {
        let parts = [self.as_strip().render()?, self.as_arrived().render()?];
        Ok(parts.join(crate::BETWEEN))
    }

    /// The step that is next.
    pub fn step(&self) -> Step {
        if self.upstreams.is_empty() {
            Step::Upstream
        } else if self.routes.is_empty() {
            Step::Route
        } else if self.tenants.is_empty() && !self.skips_tenants {
            Step::Tenant
        } else {
            Step::Try
        }
    }

    /// The request that tries it.
    pub fn curl(&self) -> String {
        let path = self.routes.last().map_or("/", |(_, path)| path.as_str());
        let target = text::shell(&format!("http://127.0.0.1:8080{path}"));
        let key = match (&self.made, self.tenants.is_empty()) {
            (Some((_, made)), _) => made.key.as_str(),
            (None, false) if self.key_header.is_some() => "KEY",
            (None, _) => return format!("curl -i {target}"),
        };
        let header = self.key_header.as_deref().unwrap_or("x-api-key");
        let field = text::shell(&format!("{header}: {key}"));
        format!("curl -i -H {field} {target}")
    }

    /// The page of the route's compartment.
    pub fn route_href(&self) -> String {
        let id = self.routes.last().map_or("", |(id, _)| id.as_str());
        url::compartment(&format!("route/{id}"))
    }

    /// A step in the list of steps: `done`, `now` or `later`.
    pub fn mark(&self, step: Step) -> &'static str {
        match step.cmp(&self.step()) {
            std::cmp::Ordering::Less => "done",
            std::cmp::Ordering::Equal => "now",
            std::cmp::Ordering::Greater => "later",
        }
    }
}
