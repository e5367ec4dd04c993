//! `[upstreams.ID]`.
//!
//! Separate because a dependency stands by itself: it must never know which routes use it.

use std::collections::HashSet;
use std::time::Duration;

use super::breaker::{breaker, forced};
use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::scalar::{duration, flag, limit, line, name};
use super::text::{endpoint, path};
use super::types::{Endpoint, Health, Upstream, UpstreamTls};
use crate::Limit;

/// The most upstreams of a policy.
pub const UPSTREAMS_MAX: usize = 1000;

/// The most endpoints of one upstream.
const ENDPOINTS_MAX: usize = 64;

const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);

const KEYS: Keys = Keys {
    known: &[
        "endpoints",
        "http2",
        "limit",
        "connect_timeout",
        "tls",
        "health",
        "breaker",
        "force_breaker",
    ],
    unenforced: &[],
};

const TLS_KEYS: Keys = Keys {
    known: &["ca_file"],
    unenforced: &[],
};

const HEALTH_KEYS: Keys = Keys {
    known: &["path", "interval"],
    unenforced: &[],
};

const INTERVAL_DEFAULT: Duration = Duration::from_secs(5);

/// The shortest time between two checks of one endpoint.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

const FILE_CHARS_MAX: usize = 1_024;

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
    let health = table.optional("health", faults, health);
    let tls = table.optional("tls", faults, tls);
    let breaker = table.optional("breaker", faults, breaker);
    let force_breaker = table.optional("force_breaker", faults, forced);
    // From here on nothing is read: all that is wrong is told by now.
    let endpoints = endpoints?;
    if matches!(tls, Some(Some(_)))
        && !endpoints.iter().any(|endpoint| endpoint.secure)
        && let Some(node) = table.get("tls")
    {
        return faults.broken(node, "has no effect: none of the endpoints is https");
    }
    Some(Upstream {
        id: id?,
        endpoints,
        http2: http2?,
        limit: limit?,
        connect_timeout: connect_timeout?,
        health: health?,
        tls: tls?,
        breaker: breaker?,
        force_breaker: force_breaker?,
    })
}

fn health(node: Node<'_>, faults: &mut Faults) -> Option<Health> {
    let table = Table::open(node, HEALTH_KEYS, faults)?;
    let path = table.required("path", faults, |node, faults| path(node, false, faults));
    let interval = table.or("interval", INTERVAL_DEFAULT, faults, |node, faults| {
        let interval = duration(node, faults)?;
        match interval >= INTERVAL_MIN {
            true => Some(interval),
            false => faults.broken(node, "must be at least 100ms"),
        }
    });
    Some(Health {
        path: path?,
        interval: interval?,
    })
}

fn tls(node: Node<'_>, faults: &mut Faults) -> Option<UpstreamTls> {
    let table = Table::open(node, TLS_KEYS, faults)?;
    let ca_file = table.required("ca_file", faults, |node, faults| {
        let path = line(node, FILE_CHARS_MAX, faults)?;
        if !path.starts_with('/') {
            return faults.broken(
                node,
                "must be an absolute path: gateways read it where they run",
            );
        }
        Some(path)
    });
    Some(UpstreamTls { ca_file: ca_file? })
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
            let text = format!("\"{endpoint}\"");
            return faults.add(&place, text, "is named twice");
        }
    }
    Some(endpoints)
}
