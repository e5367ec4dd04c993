//! `[upstreams.ID]`.
//!
//! Separate because a dependency stands by itself: it must never know which routes use it.

use std::collections::HashSet;
use std::time::Duration;

use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::scalar::{duration, flag, limit, name};
use super::text::endpoint;
use super::types::{Endpoint, Upstream};
use crate::Limit;

/// The most upstreams of a policy.
pub const UPSTREAMS_MAX: usize = 1000;

/// The most endpoints of one upstream.
const ENDPOINTS_MAX: usize = 64;

const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);

const KEYS: Keys = Keys {
    known: &["endpoints", "http2", "limit", "connect_timeout"],
    unenforced: &["breaker", "health"],
};

/// `[upstreams]`.
pub(super) fn upstreams(node: Node<'_>, faults: &mut Faults) -> Option<Vec<Upstream>> {
    super::named::each_named(node, UPSTREAMS_MAX, faults, upstream)
}

fn upstream(id: Node<'_>, node: Node<'_>, faults: &mut Faults) -> Option<Upstream> {
    let id = name(id, faults);
    let table = Table::open(node, KEYS, faults)?;
    let endpoints = table.required("endpoints", faults, endpoints);
    let limit = table.or("limit", Limit::UNLIMITED, faults, limit);
    let connect_timeout = table.or("connect_timeout", CONNECT_TIMEOUT_DEFAULT, faults, duration);
    let http2 = table.or("http2", false, faults, flag);
    Some(Upstream {
        id: id?,
        endpoints: endpoints?,
        http2: http2?,
        limit: limit?,
        connect_timeout: connect_timeout?,
    })
}

fn endpoints(node: Node<'_>, faults: &mut Faults) -> Option<Vec<Endpoint>> {
    let endpoints = node.each(ENDPOINTS_MAX, faults, endpoint)?;
    if endpoints.is_empty() {
        return faults.broken(node, "must name at least one endpoint");
    }
    let mut seen = HashSet::new();
    for (index, endpoint) in endpoints.iter().enumerate() {
        if !seen.insert(endpoint) {
            let place = Place::Index(&node.place, index);
            let text = format!("\"http://{}:{}\"", endpoint.host, endpoint.port);
            return faults.add(&place, text, "is named twice");
        }
    }
    Some(endpoints)
}
