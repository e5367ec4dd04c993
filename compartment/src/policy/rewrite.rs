//! `rewrite` of a route: what the upstream sees instead of what the client said.
//!
//! Separate because it is held against the route's path. It must never accept a prefix that some
//! request of the route does not begin with, or that ends within a segment.

use super::cursor::{Keys, Node, Table};
use super::fault::Faults;
use super::scalar::text;
use super::text::{canonical_host, path};
use super::types::{PathMatch, Rewrite};

const KEYS: Keys = Keys {
    known: &["strip_prefix", "host"],
    unenforced: &[],
};

/// `own`: the path of the route, if that can be read.
pub(super) fn rewrite(
    node: Node<'_>,
    own: Option<&PathMatch>,
    faults: &mut Faults,
) -> Option<Rewrite> {
    let table = Table::open(node, KEYS, faults)?;
    let strip_prefix = table.optional("strip_prefix", faults, |node, faults| {
        let prefix = path(node, true, faults)?;
        if prefix == "/" {
            return faults.broken(
                node,
                "must have at least one segment; leave it out for none",
            );
        }
        match own.map(PathMatch::text) {
            Some(own) if !is_below(own, &prefix) => {
                let rule = format!("must be whole segments at the beginning of the path {own:?}");
                faults.broken(node, rule)
            }
            Some(_) | None => Some(prefix),
        }
    });
    let host = table.optional("host", faults, host);
    Some(Rewrite {
        strip_prefix: strip_prefix?,
        host: host?,
    })
}

/// True when `path` is `prefix` or lies below it, on segment borders.
fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn host(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let written = text(node, faults)?.to_ascii_lowercase();
    let port = match written.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => Some(port.parse::<u16>().unwrap_or(0)),
        _ => None,
    };
    match canonical_host(&written) {
        Some(host) if port.is_none_or(|port| port > 0) => Some(match port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }),
        _ => faults.broken(
            node,
            "must be a host, such as \"api.internal\", or host:port",
        ),
    }
}
