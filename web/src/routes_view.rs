//! Which routes the page shows, and which page of them.
//!
//! Separate because all of it comes from the address and goes back into it. It must never refuse
//! an address; what is not understood does not filter.

use compartment::policy::{Policy, Route};

use crate::url;

/// The longest text that is looked for, in characters.
const TEXT_CHARS_MAX: usize = 140;

/// What the address asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutesView {
    /// Only those in trouble.
    pub problems: bool,
    /// Only those with this text in name, host, path or owner.
    pub find: String,
    /// Only those of this upstream.
    pub upstream: String,
    /// Which page, from 1.
    pub page: usize,
}

impl RoutesView {
    /// From the values of the query.
    pub fn parse(state: &str, find: &str, upstream: &str, page: &str) -> Self {
        let text = |text: &str| text.trim().chars().take(TEXT_CHARS_MAX).collect();
        Self {
            problems: state == "problems",
            find: text(find),
            upstream: text(upstream),
            page: page.parse().unwrap_or(1).max(1),
        }
    }

    /// True when the texts fit.
    pub fn names(&self, policy: &Policy, route: &Route) -> bool {
        let has = |text: &str| text.contains(&self.find);
        let found = self.find.is_empty()
            || has(route.id.as_str())
            || has(route.path.text())
            || route.host.as_deref().is_some_and(has)
            || route.owner.as_deref().is_some_and(has);
        let upstream = policy.upstreams.get(route.upstream);
        let of_it = upstream.is_some_and(|one| one.id.as_str() == self.upstream);
        found && (self.upstream.is_empty() || of_it)
    }

    /// The address of the page.
    pub fn href(&self) -> String {
        let page = match self.page {
            0 | 1 => String::new(),
            page => page.to_string(),
        };
        let pairs = [
            ("state", if self.problems { "problems" } else { "" }),
            ("find", self.find.as_str()),
            ("upstream", self.upstream.as_str()),
            ("page", page.as_str()),
        ];
        url::with_query("/routes", &pairs)
    }

    /// The same with this page of it.
    pub fn page(&self, page: usize) -> String {
        let view = Self {
            page,
            ..self.clone()
        };
        view.href()
    }

    /// The same of all or of those in trouble, from the first.
    #[must_use]
    pub fn with_problems(&self, problems: bool) -> Self {
        Self {
            problems,
            page: 1,
            ..self.clone()
        }
    }

    /// True when anything is left out.
    pub fn is_narrow(&self) -> bool {
        self.problems || !self.find.is_empty() || !self.upstream.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_comes_from_the_address_and_goes_back_into_it() {
        let view = RoutesView::parse("problems", " a&b ", "main", "3");
        let href = "/routes?state=problems&find=a%26b&upstream=main&page=3";
        assert_eq!(view.href(), href);
        assert_eq!(
            view.with_problems(false).href(),
            "/routes?find=a%26b&upstream=main"
        );
        let odd = RoutesView::parse("nonsense", "", "", "-1");
        assert_eq!((odd.href().as_str(), odd.is_narrow()), ("/routes", false));
    }
}
