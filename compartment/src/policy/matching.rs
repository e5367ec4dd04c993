//! Which route a request takes, by a look at each of them, and which came nearest.
//!
//! Separate from a gateway's table, which has to cost the same for ten thousand routes: this one
//! answers people and says why. A test holds the two together. It must never be asked for live
//! traffic: it takes time in proportion to the routes.

use std::cmp::Reverse;

use super::types::{PathMatch, Route};

/// What of a request chooses its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// As [`super::canonical_host`] spells it.
    pub host: Option<&'a str>,
    /// In canonical form, without the query.
    pub path: &'a str,
    /// In upper case.
    pub method: &'a str,
}

/// What of a route a request does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// It asks for another host.
    pub host: bool,
    /// It asks for another path.
    pub path: bool,
    /// It asks by another method.
    pub method: bool,
}

impl Misses {
    /// What of `target` does not fit `route`.
    pub fn of(route: &Route, target: Target<'_>) -> Self {
        let methods = route.methods.as_ref();
        Self {
            host: route
                .host
                .as_deref()
                .is_some_and(|h| Some(h) != target.host),
            path: !route.path.takes(target.path),
            method: methods.is_some_and(|methods| methods.iter().all(|m| m != target.method)),
        }
    }

    /// True when all fits.
    pub const fn is_none(self) -> bool {
        !(self.host || self.path || self.method)
    }

    fn count(self) -> u8 {
        u8::from(self.host) + u8::from(self.path) + u8::from(self.method)
    }
}

impl PathMatch {
    /// True when a route with this match takes the canonical path.
    pub fn takes(&self, path: &str) -> bool {
        match self {
            Self::Exact(own) => own == path,
            Self::Prefix(own) if own == "/" => path.starts_with('/'),
            Self::Prefix(own) => path
                .strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        }
    }

    /// As the policy has it.
    pub fn text(&self) -> &str {
        match self {
            Self::Prefix(path) | Self::Exact(path) => path,
        }
    }
}

/// Every route that takes the request, the one that gets it first: a host before none, an exact
/// path before the longest prefix, methods before none.
pub fn takers(routes: &[Route], target: Target<'_>) -> Vec<usize> {
    let fits = |(_, route): &(usize, &Route)| Misses::of(route, target).is_none();
    let mut takers: Vec<_> = routes.iter().enumerate().filter(fits).collect();
    takers.sort_by_key(|(_, route)| {
        let exact = matches!(route.path, PathMatch::Exact(_));
        let length = route.path.text().len();
        Reverse((route.host.is_some(), exact, length, route.methods.is_some()))
    });
    takers.into_iter().map(|(index, _)| index).collect()
}

/// The route that nearly takes a request that none takes, and what is in the way.
pub fn nearest_route(routes: &[Route], target: Target<'_>) -> Option<(usize, Misses)> {
    let judged = routes.iter().enumerate().map(|(index, route)| {
        let misses = Misses::of(route, target);
        let same = route.path.text().bytes().zip(target.path.bytes());
        let shared = same.take_while(|(one, other)| one == other).count();
        let rank = (misses.count(), misses.path, misses.host, Reverse(shared));
        (rank, index, misses)
    });
    let nearest = judged.min_by_key(|(rank, index, _)| (*rank, *index));
    nearest.map(|(_, index, misses)| (index, misses))
}
