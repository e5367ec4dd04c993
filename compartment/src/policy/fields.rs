//! `headers` of a route: fields that are set and removed on the way.
//!
//! Separate because each name is held against what belongs to the connection, to framing and to
//! the gateway. It must never accept a name or a value that a message could be split by.

use std::collections::HashSet;

use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::scalar::text;
use super::text::is_token;
use super::types::Headers;
use super::value::Value;

/// Most fields that a route sets, and removes, in one direction.
const FIELDS_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 4_096;

const KEYS: Keys = Keys {
    known: &[
        "request_set",
        "request_remove",
        "response_set",
        "response_remove",
    ],
    unenforced: &[],
};

/// They speak of one connection or of where a message ends.
const CONNECTION: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// The gateway's own, by contract.
const OWN: [&str; 4] = ["x-request-id", "traceparent", "tracestate", "via"];

/// `headers`.
pub(super) fn headers(node: Node<'_>, faults: &mut Faults) -> Option<Headers> {
    let table = Table::open(node, KEYS, faults)?;
    let request_set = table.or("request_set", Vec::new(), faults, |node, faults| {
        set(node, FIELDS_MAX, faults)
    });
    let request_remove = table.or("request_remove", Vec::new(), faults, removed);
    let response_set = table.or("response_set", Vec::new(), faults, |node, faults| {
        set(node, FIELDS_MAX, faults)
    });
    let response_remove = table.or("response_remove", Vec::new(), faults, removed);
    let headers = Headers {
        request_set: request_set?,
        request_remove: request_remove?,
        response_set: response_set?,
        response_remove: response_remove?,
    };
    let ways = [
        (
            "request_remove",
            &headers.request_set,
            &headers.request_remove,
        ),
        (
            "response_remove",
            &headers.response_set,
            &headers.response_remove,
        ),
    ];
    for (key, set, removed) in ways {
        let both = removed
            .iter()
            .position(|name| set.iter().any(|(set, _)| set == name));
        if let (Some(index), Some(list)) = (both, table.get(key)) {
            let place = Place::Index(&list.place, index);
            let name = removed.get(index).cloned().unwrap_or_default();
            return faults.add(
                &place,
                format!("{name:?}"),
                "is set too: setting replaces a field",
            );
        }
    }
    Some(headers)
}

/// Names in lower case, each once, with their values.
pub(super) fn set(
    node: Node<'_>,
    most: usize,
    faults: &mut Faults,
) -> Option<Vec<(String, String)>> {
    let entries = node.entries(most, faults)?;
    let mut fields: Vec<(String, String)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let place = Place::Key(&node.place, key);
        let name = name(key, &place, faults);
        let value = field_value(Node { value, place }, faults);
        let (Some(name), Some(value)) = (name, value) else {
            continue;
        };
        if fields.iter().any(|(known, _)| *known == name) {
            let _: Option<()> = faults.add(&place, format!("{key:?}"), "is named twice");
            continue;
        }
        fields.push((name, value));
    }
    (fields.len() == entries.len()).then_some(fields)
}

fn removed(node: Node<'_>, faults: &mut Faults) -> Option<Vec<String>> {
    let names = node.each(FIELDS_MAX, faults, |node, faults| {
        name(text(node, faults)?, &node.place, faults)
    })?;
    let mut seen = HashSet::new();
    for (index, name) in names.iter().enumerate() {
        if !seen.insert(name) {
            let place = Place::Index(&node.place, index);
            return faults.add(&place, format!("{name:?}"), "is named twice");
        }
    }
    Some(names)
}

fn name(written: &str, place: &Place<'_>, faults: &mut Faults) -> Option<String> {
    let shown = || Value::String(written.to_owned()).excerpt();
    let token = !written.is_empty() && written.bytes().all(is_token);
    if !token || written.len() > NAME_BYTES_MAX {
        return faults.add(
            place,
            shown(),
            "must be the name of a header, such as \"x-env\"",
        );
    }
    let name = written.to_ascii_lowercase();
    // Many servers cannot tell `_` from `-`.
    let folded = name.replace('_', "-");
    let rule = if CONNECTION.contains(&&*folded) {
        "must not be a header of the connection or of framing: the gateway writes those"
    } else if folded == "host" {
        "must not be the host: rewrite.host says which one the upstream sees"
    } else if folded.starts_with("x-bulkhead-") || OWN.contains(&&*folded) {
        "must not be a header of the gateway's own"
    } else {
        return Some(name);
    };
    faults.add(place, shown(), rule)
}

fn field_value(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let value = text(node, faults)?;
    let visible = value
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    let trimmed = value.trim_matches([' ', '\t']) == value;
    if !visible || !trimmed || value.len() > VALUE_BYTES_MAX {
        let rule = format!(
            "must be at most {VALUE_BYTES_MAX} visible ASCII characters, without space at its ends"
        );
        return faults.broken(node, rule);
    }
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_connection_of_framing_and_of_the_gateway_are_refused() {
        for (written, words) in [
            ("Content_Length", "framing"),
            ("transfer-encoding", "framing"),
            ("KEEP-ALIVE", "connection"),
            ("proxy-authorization", "connection"),
            ("Host", "rewrite.host"),
            ("x-bulkhead-reason", "gateway's own"),
            ("X_Bulkhead_Tenant", "gateway's own"),
            ("x-request-id", "gateway's own"),
            ("traceparent", "gateway's own"),
            ("", "name of a header"),
            ("a:b", "name of a header"),
            ("a\r\nb", "name of a header"),
        ] {
            let mut faults = Faults::default();
            assert_eq!(
                name(written, &Place::Root, &mut faults),
                None,
                "{written:?}"
            );
            let told = faults.into_list();
            assert!(
                told[0].rule.contains(words),
                "{written:?}: {}",
                told[0].rule
            );
        }
        let mut faults = Faults::default();
        assert_eq!(
            name("X-Env", &Place::Root, &mut faults).as_deref(),
            Some("x-env")
        );
        assert!(faults.is_empty());
    }
}
