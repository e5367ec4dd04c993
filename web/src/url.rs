//! Addresses of pages and calls, with keys percent-encoded.
//!
//! Separate so that a key is encoded in one place: it holds slashes, and what a gateway reports as
//! a key is not trusted to be one. It must never build an address from unencoded text.

use crate::text::Whole;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but the unreserved characters of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Encoded for one path segment or one query value.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The page of a compartment.
pub fn compartment(key: &str) -> String {
    format!("/compartments/{}", encode(key))
}

/// The page of a tenant.
pub fn tenant(id: &str) -> String {
    format!("/tenants/{}", encode(id))
}

/// The advice for a compartment.
pub fn advice(key: &str) -> String {
    with_query("/advice", &[("key", key)])
}

/// The API resource of a compartment.
pub fn compartment_api(key: &str) -> String {
    format!("/api/v1/compartments/{}", encode(key))
}

/// A path with a query of these pairs; empty values are left out.
pub(crate) fn with_query(path: &str, pairs: &[(&str, &str)]) -> String {
    let query: Vec<String> = pairs
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name}={}", encode(value)))
        .collect();
    if query.is_empty() {
        path.to_owned()
    } else {
        format!("{path}?{}", query.join("&"))
    }
}

/// The page of one change.
pub fn change(number: impl Whole) -> String {
    format!("/changes/{}", number.wide())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_one_segment() {
        assert_eq!(
            compartment("route/a.b/tenant/c"),
            "/compartments/route%2Fa.b%2Ftenant%2Fc"
        );
        assert_eq!(
            compartment("\"><é?#"),
            "/compartments/%22%3E%3C%C3%A9%3F%23"
        );
        assert_eq!(
            with_query("/", &[("find", "a&b"), ("level", "")]),
            "/?find=a%26b"
        );
        assert_eq!(with_query("/", &[("find", "")]), "/");
    }
}
