//! Which route a request takes.
//!
//! Separate because it must cost the same for the first and the last of ten thousand routes: a
//! tree over path segments for each host, built off the serving threads, walked once along the
//! path. It must never allocate, await or scan the routes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use compartment::policy::{PathMatch, Route};

/// Index into the policy's routes.
type RouteIndex = u32;

type Quick<K, V> = HashMap<K, V, BuildHasherDefault<Fnv>>;

/// Routes by host, then path, then method. Most specific first, whatever the document's order:
/// an exact host before none, an exact path before the longest prefix, methods before none.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    hosts: Quick<Box<str>, Tree>,
    any_host: Tree,
}

/// One host's paths. Node 0 is the root.
#[derive(Debug)]
struct Tree {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    children: Quick<Box<str>, u32>,
    exact: Candidates,
    prefix: Candidates,
}

/// Routes of one host and path; they differ by method.
#[derive(Debug, Default)]
struct Candidates {
    by_method: Vec<(Box<str>, RouteIndex)>,
    any_method: Option<RouteIndex>,
}

impl RouteTable {
    /// The table of a checked policy: no two of its routes match the same requests.
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut table = Self::default();
        for (index, route) in (0..).zip(routes) {
            let tree = match &route.host {
                Some(host) => table.hosts.entry(host.as_str().into()).or_default(),
                None => &mut table.any_host,
            };
            tree.insert(index, route);
        }
        table
    }

    /// The most specific route for this host (lower case), canonical path and method.
    pub(crate) fn find(&self, host: Option<&str>, path: &str, method: &str) -> Option<usize> {
        let own = host.and_then(|host| self.hosts.get(host));
        let found = own.and_then(|tree| tree.find(path, method));
        let found = found.or_else(|| self.any_host.find(path, method))?;
        usize::try_from(found).ok()
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }
}

impl Tree {
    fn insert(&mut self, index: RouteIndex, route: &Route) {
        let (path, exact) = match &route.path {
            PathMatch::Exact(path) => (path, true),
            PathMatch::Prefix(path) => (path, false),
        };
        // The prefix `/` is the root itself; the exact path `/` is its empty child.
        let segments = if !exact && path == "/" {
            None
        } else {
            path.strip_prefix('/')
        };
        let mut at = 0;
        for segment in segments.into_iter().flat_map(|path| path.split('/')) {
            at = self.child(at, segment);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            let candidates = if exact {
                &mut node.exact
            } else {
                &mut node.prefix
            };
            candidates.insert(index, route.methods.as_deref());
        }
    }

    fn child(&mut self, parent: usize, segment: &str) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(parent) else {
            return 0;
        };
        if let Some(&known) = node.children.get(segment) {
            return usize::try_from(known).unwrap_or(0);
        }
        // 10,000 routes of a bounded document cannot reach four thousand million nodes.
        node.children
            .insert(segment.into(), u32::try_from(next).unwrap_or(0));
        self.nodes.push(Node::default());
        next
    }

    fn find(&self, path: &str, method: &str) -> Option<RouteIndex> {
        let mut node = self.nodes.first()?;
        let mut best = node.prefix.find(method);
        let mut segments = path.strip_prefix('/')?.split('/');
        loop {
            let Some(segment) = segments.next() else {
                return node.exact.find(method).or(best);
            };
            let child = node
                .children
                .get(segment)
                .and_then(|&at| usize::try_from(at).ok());
            let Some(child) = child.and_then(|at| self.nodes.get(at)) else {
                return best;
            };
            node = child;
            // A longer prefix replaces a shorter one only if it takes this method.
            best = node.prefix.find(method).or(best);
        }
    }
}

impl Candidates {
    fn insert(&mut self, index: RouteIndex, methods: Option<&[String]>) {
        match methods {
            None => self.any_method = Some(index),
            Some(methods) => {
                let named = methods.iter().map(|method| (method.as_str().into(), index));
                self.by_method.extend(named);
            }
        }
    }

    fn find(&self, method: &str) -> Option<RouteIndex> {
        let named = self.by_method.iter().find(|(name, _)| **name == *method);
        named.map(|&(_, index)| index).or(self.any_method)
    }
}

/// FNV-1a. The keys of these maps come from the policy alone, so nobody outside can make them
/// collide, and the standard hasher's defence against that would be paid on every segment.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        // The map takes its control bits from the top, where short keys leave little.
        self.0 ^ (self.0 >> 29)
    }
}

#[cfg(test)]
mod tests {
    use compartment::policy::{Target, nearest_route, takers};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::route;

    fn at(id: &str, path: PathMatch) -> Route {
        Route {
            path,
            ..route(id, "/")
        }
    }

    fn prefix(id: &str, path: &str) -> Route {
        at(id, PathMatch::Prefix(path.to_owned()))
    }

    fn exact(id: &str, path: &str) -> Route {
        at(id, PathMatch::Exact(path.to_owned()))
    }

    fn methods(route: Route, methods: &[&str]) -> Route {
        Route {
            methods: Some(methods.iter().map(|&m| m.to_owned()).collect()),
            ..route
        }
    }

    fn host(route: Route, host: &str) -> Route {
        Route {
            host: Some(host.to_owned()),
            ..route
        }
    }

    fn check(routes: &[Route], cases: &[(&str, &str, &str, Option<&str>)]) {
        let forward: Vec<Route> = routes.to_vec();
        let backward: Vec<Route> = routes.iter().rev().cloned().collect();
        for routes in [forward, backward] {
            let table = RouteTable::new(&routes);
            for &(name, path, method, want) in cases {
                let name = (!name.is_empty()).then_some(name);
                let found = table.find(name, path, method);
                let found = found
                    .and_then(|index| routes.get(index))
                    .map(|r| r.id.as_str());
                assert_eq!(found, want, "{name:?} {path} {method}");
            }
        }
    }

    #[test]
    fn the_most_specific_wins_whatever_the_order() {
        let routes = [
            prefix("any", "/"),
            prefix("short", "/shop"),
            prefix("long", "/shop/cart"),
            exact("exact", "/shop/cart"),
            methods(exact("exact-post", "/shop/cart"), &["POST"]),
            host(prefix("host", "/"), "shop.example"),
        ];
        check(
            &routes,
            &[
                ("gw.test", "/shop/cart", "GET", Some("exact")),
                ("gw.test", "/shop/cart", "POST", Some("exact-post")),
                ("gw.test", "/shop/cart/7", "GET", Some("long")),
                ("gw.test", "/shop/cart/", "GET", Some("long")),
                ("gw.test", "/shop/x", "GET", Some("short")),
                ("gw.test", "/shopping", "GET", Some("any")),
                ("gw.test", "/Shop/cart", "GET", Some("any")),
                ("", "/", "GET", Some("any")),
                ("shop.example", "/shop/cart", "POST", Some("host")),
            ],
        );
    }

    #[test]
    fn what_nobody_takes_finds_nothing() {
        let routes = [
            methods(prefix("read", "/r"), &["GET", "HEAD"]),
            host(exact("only", "/x"), "a.example"),
            exact("root", "/"),
            prefix("outer", "/a"),
            methods(prefix("inner", "/a/b"), &["POST"]),
        ];
        check(
            &routes,
            &[
                ("", "/r", "POST", None),
                ("", "/r/deep", "HEAD", Some("read")),
                ("", "/rest", "GET", None),
                ("a.example", "/x", "GET", Some("only")),
                ("a.example", "/x/y", "GET", None),
                ("a.example", "/r", "GET", Some("read")),
                ("b.example", "/x", "GET", None),
                ("", "/", "GET", Some("root")),
                ("", "/other", "GET", None),
                ("", "/a/b/c", "POST", Some("inner")),
                ("", "/a/b/c", "GET", Some("outer")),
            ],
        );
    }

    #[test]
    fn ten_thousand_routes_are_each_found() {
        let routes: Vec<Route> = (0..10_000)
            .map(|n| prefix(&format!("r{n}"), &format!("/t{n}/api")))
            .collect();
        let table = RouteTable::new(&routes);
        for n in [0, 1, 4_999, 9_999] {
            assert_eq!(table.find(None, &format!("/t{n}/api/x"), "GET"), Some(n));
        }
        assert_eq!(table.find(None, "/t10000/api", "GET"), None);
    }

    /// Routes and targets from few pieces, so that they meet often. No two routes match the same.
    fn meeting() -> impl Strategy<Value = (Vec<Route>, Vec<(usize, String, usize)>)> {
        let segment = prop::sample::select(vec!["a", "b", "ab"]);
        let path = prop::collection::vec(segment, 0..4).prop_map(|s| format!("/{}", s.join("/")));
        let of_methods = prop::option::of(prop::sample::select(METHODS.to_vec()));
        let one = (0..HOSTS.len(), path.clone(), any::<bool>(), of_methods);
        let routes = prop::collection::vec(one, 0..12).prop_map(|parts| {
            let mut seen = std::collections::HashSet::new();
            let fresh = parts.into_iter().filter(|part| seen.insert(part.clone()));
            let route = |(n, (at_host, path, is_exact, method)): (usize, Parts)| {
                let id = format!("r{n}");
                let made = if is_exact {
                    exact(&id, &path)
                } else {
                    prefix(&id, &path)
                };
                let made = method.map_or(made.clone(), |method| methods(made, &[method]));
                HOSTS[at_host].map_or(made.clone(), |name| host(made, name))
            };
            fresh.enumerate().map(route).collect::<Vec<_>>()
        });
        let tail = prop::sample::select(vec!["", "/", "/a", "b"]);
        let asked = (path, tail).prop_map(|(path, tail)| format!("{path}{tail}"));
        let asked = asked.prop_map(|path| path.replace("//", "/"));
        let asked = (0..HOSTS.len(), asked, 0..METHODS.len());
        (routes, prop::collection::vec(asked, 1..12))
    }

    type Parts = (usize, String, bool, Option<&'static str>);

    const HOSTS: [Option<&str>; 3] = [None, Some("one.example"), Some("two.example")];
    const METHODS: [&str; 3] = ["GET", "POST", "PUT"];

    proptest! {
        #[test]
        fn the_table_and_the_plain_look_agree((routes, asked) in meeting()) {
            let table = RouteTable::new(&routes);
            for (at_host, path, method) in asked {
                let target = Target { host: HOSTS[at_host], path: &path, method: METHODS[method] };
                let takers = takers(&routes, target);
                let found = table.find(target.host, target.path, target.method);
                prop_assert_eq!(found, takers.first().copied(), "{:?} of {:?}", target, routes);
                let nearest = nearest_route(&routes, target);
                prop_assert_eq!(nearest.is_none(), routes.is_empty());
                if let Some((_, misses)) = nearest {
                    prop_assert_eq!(misses.is_none(), found.is_some());
                }
            }
        }
    }
}
