//! `[gateway]` and `[gateway.http]`.
//!
//! Separate because these are bounds of the process, not of a route. The spare slots are settled
//! elsewhere, when the guarantees are known; this must never look at a route.

use std::time::Duration;

use super::cursor::{Keys, Node, Table};
use super::fault::Faults;
use super::scalar::{bytes, bytes_u32, duration, slots, whole};
use super::text::network;
use super::types::Http;

/// The ceiling of one gateway process unless the document says otherwise.
pub(super) const CAPACITY_DEFAULT: u32 = 1000;

const KIB: u32 = 1024;
const BODY_BYTES_MAX: u64 = 1 << 40;
const HEADER_BYTES_MIN: u32 = KIB;
const HEADER_BYTES_MAX: u32 = 1024 * KIB;
const HEADER_FIELDS_MAX: u32 = 10_000;
const TARGET_BYTES_MIN: u32 = 16;
/// The longest target that the HTTP library can represent.
const TARGET_BYTES_MAX: u32 = 65_534;
const CONNECTIONS_MAX: u32 = 1_000_000;
const NETWORKS_MAX: usize = 1000;

const KEYS: Keys = Keys {
    known: &["capacity", "spare", "http"],
    unenforced: &[],
};

const HTTP_KEYS: Keys = Keys {
    known: &[
        "max_body",
        "max_header_bytes",
        "max_header_fields",
        "max_target_bytes",
        "header_timeout",
        "body_idle_timeout",
        "keepalive_idle",
        "write_stall",
        "max_connections",
        "trusted_proxies",
    ],
    unenforced: &[],
};

/// `[gateway]` before the spare slots are settled.
#[derive(Debug)]
pub(super) struct GatewaySection {
    pub(super) capacity: u32,
    pub(super) spare: Option<u32>,
    pub(super) http: Http,
}

/// What holds without a `[gateway]`.
pub(super) fn defaults() -> GatewaySection {
    GatewaySection {
        capacity: CAPACITY_DEFAULT,
        spare: None,
        http: http_defaults(),
    }
}

/// `[gateway]`.
pub(super) fn gateway(node: Node<'_>, faults: &mut Faults) -> Option<GatewaySection> {
    let table = Table::open(node, KEYS, faults)?;
    let capacity = table.or("capacity", CAPACITY_DEFAULT, faults, slots);
    let spare = table.optional("spare", faults, slots);
    let http = table.or("http", http_defaults(), faults, http);
    Some(GatewaySection {
        capacity: capacity?,
        spare: spare?,
        http: http?,
    })
}

fn http_defaults() -> Http {
    Http {
        body_bytes_max: 10 << 20,
        header_bytes_max: 32 * KIB,
        header_fields_max: 100,
        target_bytes_max: 8 * KIB,
        header_timeout: Duration::from_secs(10),
        body_idle_timeout: Duration::from_secs(15),
        keepalive_idle: Duration::from_secs(60),
        write_stall: Duration::from_secs(15),
        connections_max: 10_000,
        trusted_proxies: Vec::new(),
    }
}

fn http(node: Node<'_>, faults: &mut Faults) -> Option<Http> {
    let default = http_defaults();
    let table = Table::open(node, HTTP_KEYS, faults)?;
    let body = table.or("max_body", default.body_bytes_max, faults, body_bytes);
    let header_bytes = table.or(
        "max_header_bytes",
        default.header_bytes_max,
        faults,
        |node, faults| bytes_u32(node, HEADER_BYTES_MIN, HEADER_BYTES_MAX, faults),
    );
    let header_fields = table.or(
        "max_header_fields",
        default.header_fields_max,
        faults,
        |node, faults| whole(node, 1, HEADER_FIELDS_MAX, faults),
    );
    let target = table.or(
        "max_target_bytes",
        default.target_bytes_max,
        faults,
        |node, faults| bytes_u32(node, TARGET_BYTES_MIN, TARGET_BYTES_MAX, faults),
    );
    let header_timeout = table.or("header_timeout", default.header_timeout, faults, duration);
    let body_idle = table.or(
        "body_idle_timeout",
        default.body_idle_timeout,
        faults,
        duration,
    );
    let keepalive_idle = table.or("keepalive_idle", default.keepalive_idle, faults, duration);
    let write_stall = table.or("write_stall", default.write_stall, faults, duration);
    let connections = table.or(
        "max_connections",
        default.connections_max,
        faults,
        |node, faults| whole(node, 1, CONNECTIONS_MAX, faults),
    );
    let proxies = table.or("trusted_proxies", Vec::new(), faults, |node, faults| {
        node.each(NETWORKS_MAX, faults, network)
    });
    Some(Http {
        body_bytes_max: body?,
        header_bytes_max: header_bytes?,
        header_fields_max: header_fields?,
        target_bytes_max: target?,
        header_timeout: header_timeout?,
        body_idle_timeout: body_idle?,
        keepalive_idle: keepalive_idle?,
        write_stall: write_stall?,
        connections_max: connections?,
        trusted_proxies: proxies?,
    })
}

/// The largest body of a request, here and on a route.
pub(super) fn body_bytes(node: Node<'_>, faults: &mut Faults) -> Option<u64> {
    bytes(node, 0, BODY_BYTES_MAX, faults)
}
