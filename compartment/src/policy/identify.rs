//! `[identify]`: how a request's tenant is found.
//!
//! Separate because it decides who a caller is. It must never accept a header that anybody on the
//! way may set or remove without saying so.

use std::collections::HashMap;

use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::scalar::{limit, whole, word};
use super::text::{header_name, network};
use super::types::{Identifier, Identify, Unknown};

/// The most ways to find a tenant.
const IDENTIFIERS_MAX: usize = 16;
const TRUSTED_NETWORKS_MAX: usize = 1000;
const SEGMENT_MAX: u32 = 63;

const KEYS: Keys = Keys {
    known: &["by", "unknown", "unknown_limit"],
    unenforced: &[],
};
const BY_KEYS: Keys = Keys {
    known: &["api_key", "host", "path_segment", "header"],
    unenforced: &["jwt", "client_cert"],
};

/// `[identify]`.
pub(super) fn identify(node: Node<'_>, faults: &mut Faults) -> Option<Identify> {
    let table = Table::open(node, KEYS, faults)?;
    let by = table.required("by", faults, by);
    let shared = table.or("unknown", false, faults, |node, faults| {
        word(node, &[("reject", false), ("shared", true)], faults)
    });
    let unknown_limit = table.optional("unknown_limit", faults, limit);
    let unknown = match (shared?, unknown_limit?) {
        (false, _) => Some(Unknown::Reject),
        (true, Some(limit)) => Some(Unknown::Shared { limit }),
        (true, None) => table.missing(
            "unknown_limit",
            "is required when unknown is \"shared\"",
            faults,
        ),
    };
    Some(Identify {
        by: by?,
        unknown: unknown?,
    })
}

fn by(node: Node<'_>, faults: &mut Faults) -> Option<Vec<Identifier>> {
    let by = node.each(IDENTIFIERS_MAX, faults, identifier)?;
    if by.is_empty() {
        return faults.broken(node, "must name at least one way to find a tenant");
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, identifier) in by.iter().enumerate() {
        let reads = match identifier {
            // One header cannot be both a credential and a plain name: a caller without a key
            // would then choose its tenant.
            Identifier::ApiKey { header } | Identifier::Header { name: header, .. } => {
                format!("the header {header:?}")
            }
            Identifier::Host => "the host".to_owned(),
            Identifier::PathSegment { index } => format!("path segment {index}"),
        };
        if let Some(first) = seen.insert(reads.clone(), index) {
            let place = Place::Index(&node.place, index);
            let rule = format!("reads {reads}, which {}[{first}] reads", node.place.path());
            return faults.add(&place, String::new(), rule);
        }
    }
    Some(by)
}

fn identifier(node: Node<'_>, faults: &mut Faults) -> Option<Identifier> {
    let entries = node.entries(usize::MAX, faults)?;
    let table = Table::open(node, BY_KEYS, faults)?;
    if entries.len() != 1 {
        let rule = "must have exactly one of api_key, host, path_segment, header";
        return faults.broken(node, rule);
    }
    let api_key = table.optional("api_key", faults, api_key)?;
    let host = table.optional("host", faults, host)?;
    let path_segment = table.optional("path_segment", faults, path_segment)?;
    let header = table.optional("header", faults, header)?;
    api_key.or(host).or(path_segment).or(header)
}

fn api_key(node: Node<'_>, faults: &mut Faults) -> Option<Identifier> {
    let table = Table::open(
        node,
        Keys {
            known: &["header"],
            unenforced: &[],
        },
        faults,
    )?;
    let header = table.required("header", faults, header_name)?;
    Some(Identifier::ApiKey { header })
}

fn host(node: Node<'_>, faults: &mut Faults) -> Option<Identifier> {
    if node.entries(usize::MAX, faults)?.is_empty() {
        return Some(Identifier::Host);
    }
    faults.broken(node, "must be an empty table: the hosts are the tenants'")
}

fn path_segment(node: Node<'_>, faults: &mut Faults) -> Option<Identifier> {
    let table = Table::open(
        node,
        Keys {
            known: &["index"],
            unenforced: &[],
        },
        faults,
    )?;
    let index = table.required("index", faults, |node, faults| {
        whole(node, 0, SEGMENT_MAX, faults).and_then(|index| usize::try_from(index).ok())
    })?;
    Some(Identifier::PathSegment { index })
}

fn header(node: Node<'_>, faults: &mut Faults) -> Option<Identifier> {
    let table = Table::open(
        node,
        Keys {
            known: &["name", "trust"],
            unenforced: &[],
        },
        faults,
    )?;
    let name = table.required("name", faults, header_name);
    let trust = table.required("trust", faults, |node, faults| {
        let networks = node.each(TRUSTED_NETWORKS_MAX, faults, network)?;
        if networks.is_empty() {
            return faults.broken(
                node,
                "must name at least one network that may set the header",
            );
        }
        Some(networks)
    });
    Some(Identifier::Header {
        name: name?,
        trust: trust?,
    })
}
