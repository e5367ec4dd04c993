//! `[[routes]]`: which requests, to which upstream, under which compartment.
//!
//! Separate from the compartment's own keys. Rules between routes are checked elsewhere; this must
//! never look at another route.

use super::behaviour::{retry, timeouts, timeouts_default};
use super::cursor::{Keys, Node, Table};
use super::fallback::{Around, fallbacks};
use super::fault::Faults;
use super::fields::headers;
use super::gateway::body_bytes;
use super::named::Names;
use super::rewrite::rewrite;
use super::route_compartment::compartment;
use super::scalar::{class, line, name};
use super::text::{host, method, path};
use super::types::{Headers, PathMatch, Rewrite, Route};
use crate::Class;

/// The most routes of a policy.
pub const ROUTES_MAX: usize = 10_000;

const METHODS_MAX: usize = 32;
const OWNER_CHARS_MAX: usize = 200;

const KEYS: Keys = Keys {
    known: &[
        "id",
        "host",
        "path",
        "path_exact",
        "methods",
        "upstream",
        "class",
        "owner",
        "max_body",
        "compartment",
        "timeout",
        "retry",
        "fallback",
        "rewrite",
        "headers",
    ],
    unenforced: &[],
};

/// One of `[[routes]]`.
pub(super) fn route(node: Node<'_>, upstreams: &Names<'_>, faults: &mut Faults) -> Option<Route> {
    let table = Table::open(node, KEYS, faults)?;
    let id = table.required("id", faults, name);
    let host = table.optional("host", faults, host);
    let path = path_match(&table, faults);
    let methods = table.optional("methods", faults, methods);
    let upstream = table.required("upstream", faults, |node, faults| {
        upstreams.find(node, faults)
    });
    let class = table.or("class", Class::default(), faults, class);
    let owner = table.optional("owner", faults, |node, faults| {
        line(node, OWNER_CHARS_MAX, faults)
    });
    let body = table.optional("max_body", faults, body_bytes);
    let rewrite = table.or("rewrite", Rewrite::default(), faults, |node, faults| {
        rewrite(node, path.as_ref(), faults)
    });
    let headers = table.or("headers", Headers::default(), faults, headers);
    let compartment = compartment(&table, faults);
    let timeout = table.or("timeout", timeouts_default(), faults, timeouts);
    let retry = table.optional("retry", faults, retry);
    let around = Around {
        upstreams,
        upstream,
        methods: methods.as_ref().and_then(Option::as_deref),
        timeout: timeout.as_ref(),
    };
    let fallback = table.or("fallback", Vec::new(), faults, |node, faults| {
        fallbacks(node, around, faults)
    });
    Some(Route {
        id: id?,
        host: host?,
        path: path?,
        methods: methods?,
        upstream: upstream?,
        class: class?,
        owner: owner?,
        body_bytes_max: body?,
        rewrite: rewrite?,
        headers: headers?,
        compartment: compartment?,
        timeout: timeout?,
        retry: retry?,
        fallback: fallback?,
    })
}

fn path_match(table: &Table<'_>, faults: &mut Faults) -> Option<PathMatch> {
    let prefix = table.optional("path", faults, |node, faults| path(node, true, faults))?;
    let exact = table.optional("path_exact", faults, |node, faults| {
        path(node, false, faults)
    })?;
    match (prefix, exact) {
        (Some(prefix), None) => Some(PathMatch::Prefix(prefix)),
        (None, Some(exact)) => Some(PathMatch::Exact(exact)),
        (None, None) => table.missing("path", "is required, or path_exact", faults),
        (Some(_), Some(_)) => {
            let node = table.get("path_exact")?;
            faults.broken(node, "must not stand beside path: a route has one of them")
        }
    }
}

fn methods(node: Node<'_>, faults: &mut Faults) -> Option<Vec<String>> {
    let mut methods = node.each(METHODS_MAX, faults, method)?;
    if methods.is_empty() {
        return faults.broken(
            node,
            "must name at least one method; leave it out for every method",
        );
    }
    methods.sort_unstable();
    if methods
        .windows(2)
        .any(|pair| matches!(pair, [a, b] if a == b))
    {
        return faults.broken(node, "must not name a method twice");
    }
    Some(methods)
}
