//! The texts of HTTP in a policy: hosts, paths, methods, header names, networks, endpoints.
//!
//! Separate so that a document's spelling becomes the one spelling that is compared with requests.
//! What has no canonical spelling is refused here and must never be repaired elsewhere.

use std::net::{IpAddr, Ipv6Addr};

use super::cursor::Node;
use super::fault::Faults;
use super::scalar::text;
use super::types::{Endpoint, Network};

const HOST_BYTES_MAX: usize = 253;
const PATH_BYTES_MAX: usize = 8192;
const METHOD_BYTES_MAX: usize = 32;
const HEADER_NAME_BYTES_MAX: usize = 128;

/// Header fields that belong to the connection, to framing, to routing or to the gateway: no
/// identity, deadline or key may travel in them.
const HEADERS_RESERVED: [&str; 21] = [
    "connection",
    "content-length",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-request-id",
    "traceparent",
    "tracestate",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
];

/// The one spelling of a host: lower case, without port and final dot; IPv6 in brackets.
///
/// `None` when the text is no host. Requests must be compared in this spelling too.
pub fn canonical_host(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let port = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        let address: Ipv6Addr = inside.parse().ok()?;
        return port.then(|| format!("[{address}]"));
    }
    let host = match text.split_once(':') {
        Some((host, port)) if is_port(port) => host,
        Some(_) => return None,
        None => text,
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    (host.len() <= HOST_BYTES_MAX && host.split('.').all(label)).then(|| host.to_ascii_lowercase())
}

fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

/// A host.
pub(super) fn host(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    match canonical_host(text(node, faults)?) {
        Some(host) => Some(host),
        None => faults.broken(node, "must be a host such as \"api.example.com\""),
    }
}

/// A method: an upper-case token.
pub(super) fn method(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let method = text(node, faults)?;
    let upper = |b: u8| is_token(b) && !b.is_ascii_lowercase();
    if method.is_empty() || method.len() > METHOD_BYTES_MAX || !method.bytes().all(upper) {
        return faults.broken(node, "must be a method in upper case, such as \"GET\"");
    }
    if method == "CONNECT" {
        return faults.broken(node, "must not be CONNECT: the gateway is no tunnel");
    }
    Some(method.to_owned())
}

/// The name of a header that callers may set, in lower case.
pub(super) fn header_name(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let name = text(node, faults)?;
    if name.is_empty() || name.len() > HEADER_NAME_BYTES_MAX || !name.bytes().all(is_token) {
        return faults.broken(node, "must be the name of a header, such as \"x-api-key\"");
    }
    let name = name.to_ascii_lowercase();
    if name.starts_with("x-bulkhead-") || HEADERS_RESERVED.contains(&name.as_str()) {
        return faults.broken(
            node,
            "must not be a header of the connection, of framing, of routing or of the gateway",
        );
    }
    Some(name)
}

pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A media type: what may stand in a header.
pub(super) fn media_type(node: Node<'_>, faults: &mut Faults) -> Option<String> {
    let value = text(node, faults)?;
    let visible = value.bytes().all(|b| (b' '..=b'~').contains(&b));
    let (kind, sub) = value.split_once('/').unwrap_or(("", ""));
    let kind = !kind.is_empty() && kind.bytes().all(is_token);
    let sub = sub.bytes().next().is_some_and(is_token) && !value.ends_with(' ');
    if value.len() > HEADER_NAME_BYTES_MAX || !visible || !kind || !sub {
        return faults.broken(node, "must be a media type such as \"application/json\"");
    }
    Some(value.to_owned())
}

/// The path of a route; a prefix loses its final `/`.
pub(super) fn path(node: Node<'_>, prefix: bool, faults: &mut Faults) -> Option<String> {
    match canonical_path(text(node, faults)?, prefix) {
        Ok(path) => Some(path),
        Err(rule) => faults.broken(node, rule),
    }
}

/// The path of a request as routes are matched with it, or the rule that it breaks.
pub fn request_path(path: &str) -> Result<String, &'static str> {
    canonical_path(path, false)
}

fn canonical_path(path: &str, prefix: bool) -> Result<String, &'static str> {
    if !path.starts_with('/') {
        return Err("must begin with /");
    }
    if path.len() > PATH_BYTES_MAX {
        return Err("must have at most 8192 bytes");
    }
    if path.contains("//") {
        return Err("must not have empty segments (//): no request matches them");
    }
    let path = match path.strip_suffix('/') {
        Some(shorter) if prefix && !shorter.is_empty() => shorter,
        _ => path,
    };
    let mut canonical = String::with_capacity(path.len());
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = rest.next().zip(rest.next());
            let hex = |byte: u8| char::from(byte).to_digit(16);
            let value = digits.and_then(|(high, low)| Some((hex(high)? << 4) | hex(low)?));
            let value = value.and_then(|value| u8::try_from(value).ok());
            let value = value.ok_or("must have two hexadecimal digits after each %")?;
            if matches!(value, b'/' | b'\\' | 0..=0x1f | 0x7f) {
                return Err(
                    "must not encode a separator or a control character: such requests are refused",
                );
            }
            if is_unreserved(value) {
                return Err("must not percent-encode a letter, a digit or one of - . _ ~");
            }
            decoded.push(value);
            canonical.push_str(&format!("%{value:02X}"));
        } else if is_unreserved(byte) || b"/!$&'()*+,;=:@".contains(&byte) {
            decoded.push(byte);
            canonical.push(char::from(byte));
        } else {
            return Err("must have only characters of a path; encode others with %");
        }
    }
    if std::str::from_utf8(&decoded).is_err() {
        return Err("must be UTF-8 once decoded: other requests are refused");
    }
    // With a parameter behind the dots too: what follows may take them for a step up.
    let steps = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if canonical.split('/').any(steps) {
        return Err("must not have . or .. as a segment: no request matches them");
    }
    Ok(canonical)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// An address prefix, or one address.
pub(super) fn network(node: Node<'_>, faults: &mut Faults) -> Option<Network> {
    match parse_network(text(node, faults)?) {
        Some(network) => Some(network),
        None => faults.broken(
            node,
            "must be a network such as \"10.0.0.0/8\" or one address",
        ),
    }
}

/// Reads `10.0.0.0/8`, `fd00::/8`, `127.0.0.1`.
pub fn parse_network(text: &str) -> Option<Network> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let prefix_bits = match bits {
        Some(bits) if bits.bytes().all(|b| b.is_ascii_digit()) => bits.parse::<u8>().ok()?,
        Some(_) => return None,
        None => bits_max,
    };
    (prefix_bits <= bits_max).then_some(Network {
        address,
        prefix_bits,
    })
}

/// Where an upstream listens: `http://host:port` or `https://host:port`.
pub(super) fn endpoint(node: Node<'_>, faults: &mut Faults) -> Option<Endpoint> {
    match parse_endpoint(text(node, faults)?) {
        Some(endpoint) => Some(endpoint),
        None => faults.broken(
            node,
            "must be http://host or https://host, with a port or not, without user, path or query",
        ),
    }
}

/// Reads `http://host:port` and `https://host:port`; the port is 80 or 443 unless given.
pub fn parse_endpoint(url: &str) -> Option<Endpoint> {
    let (scheme, rest) = url.split_once("://")?;
    let secure = scheme.eq_ignore_ascii_case("https");
    if !secure && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let host = canonical_host(rest)?;
    let port = match rest.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => port.parse::<u16>().ok().filter(|p| *p > 0)?,
        _ if secure => 443,
        _ => 80,
    };
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    Some(Endpoint { secure, host, port })
}

/// A digest of an API key: `sha256:` and 64 hexadecimal digits.
pub(super) fn key_digest(node: Node<'_>, faults: &mut Faults) -> Option<[u8; 32]> {
    match parse_digest(text(node, faults)?) {
        Some(digest) => Some(digest),
        None => faults.broken(node, "must be \"sha256:\" and 64 hexadecimal digits"),
    }
}

fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:")?.as_bytes();
    let mut digest = [0_u8; 32];
    let (pairs, rest) = hex.as_chunks::<2>();
    if pairs.len() != digest.len() || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
        let digit = |byte: u8| char::from(byte).to_digit(16);
        *byte = u8::try_from((digit(*high)? << 4) | digit(*low)?).ok()?;
    }
    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, want) in [
            ("API.Example.com", Some("api.example.com")),
            ("api.example.com:8080", Some("api.example.com")),
            ("api.example.com.", Some("api.example.com")),
            ("localhost", Some("localhost")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]:80", Some("[::1]")),
            ("[0:0::1]", Some("[::1]")),
            ("", None),
            (".", None),
            ("a..b", None),
            ("a b", None),
            ("*.example.com", None),
            ("a/b", None),
            ("user@a", None),
            ("a:b", None),
            ("a:99999", None),
            ("é.example", None),
        ] {
            assert_eq!(canonical_host(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn paths_have_one_spelling() {
        for (text, prefix, want) in [
            ("/", true, Some("/")),
            ("/", false, Some("/")),
            ("/a/", true, Some("/a")),
            ("/a/", false, Some("/a/")),
            ("/a/b-c_d~e.f/:x@y;z=1", true, Some("/a/b-c_d~e.f/:x@y;z=1")),
            ("/caf%c3%a9", true, Some("/caf%C3%A9")),
            ("", true, None),
            ("a", true, None),
            ("//", true, None),
            ("//", false, None),
            ("/a//b", true, None),
            ("/a//", true, None),
            ("/a//", false, None),
            ("/a/../b", true, None),
            ("/.", true, None),
            ("/%2e%2e", true, None),
            ("/..;x/a", true, None),
            ("/%ff", true, None),
            ("/%41", true, None),
            ("/a%2Fb", true, None),
            ("/a%5cb", true, None),
            ("/a%00", true, None),
            ("/a%", true, None),
            ("/a%4", true, None),
            ("/a%zz", true, None),
            ("/a?b", true, None),
            ("/a#b", true, None),
            ("/a b", true, None),
            ("/a\\b", true, None),
            ("/é", true, None),
        ] {
            assert_eq!(canonical_path(text, prefix).ok().as_deref(), want, "{text}");
        }
    }

    #[test]
    fn endpoints_are_a_scheme_a_host_and_a_port() {
        for (text, want) in [
            ("http://127.0.0.1:9001", Some(("127.0.0.1", 9001))),
            ("http://payments", Some(("payments", 80))),
            ("HTTP://Payments:8080/", Some(("payments", 8080))),
            ("http://[::1]:9001", Some(("::1", 9001))),
            ("http://[::1]", Some(("::1", 80))),
            ("https://Payments/", Some(("payments", 443))),
            ("HTTPS://[::1]:9443", Some(("::1", 9443))),
            ("https://a:", None),
            ("https//a", None),
            ("http://a:0", None),
            ("http://a:", None),
            ("http://a/x", None),
            ("http://a?x", None),
            ("http://u@a", None),
            ("http://", None),
            ("ftp://a", None),
            ("a:80", None),
            ("é", None),
        ] {
            let want = want.map(|(host, port)| Endpoint {
                secure: text.to_ascii_lowercase().starts_with("https"),
                host: host.to_owned(),
                port,
            });
            assert_eq!(parse_endpoint(text), want, "{text}");
        }
    }

    #[test]
    fn networks_and_digests() {
        for (text, bits) in [
            ("10.0.0.0/8", Some(8)),
            ("0.0.0.0/0", Some(0)),
            ("127.0.0.1", Some(32)),
            ("::1", Some(128)),
            ("fd00::/8", Some(8)),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0/8", None),
        ] {
            assert_eq!(parse_network(text).map(|n| n.prefix_bits), bits, "{text}");
        }
        let good = format!("sha256:{}", "0aF".repeat(21) + "1");
        assert_eq!(
            parse_digest(&good).map(|d| (d[0], d[31])),
            Some((0x0a, 0xf1))
        );
        for bad in [
            "",
            "sha256:",
            "sha256:00",
            &good.replace('F', "g"),
            &good[7..],
        ] {
            assert_eq!(parse_digest(bad), None, "{bad}");
        }
    }
}
