//! Which fields cross the gateway, in both directions.
//!
//! Separate because hygiene is one pass over the names, with one list of what belongs to us. It
//! must never let a client's or an upstream's field stand where one of ours is meant, and never
//! let a `Connection` field take one of ours away.

use http::header::{
    CONNECTION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, UPGRADE, VIA,
};

use telemetry::Context;

use crate::error::REQUEST_ID;
use crate::ids::{Continued, Ids, RequestId, ascii, traceparent_of};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const TENANT: HeaderName = HeaderName::from_static("x-bulkhead-tenant");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(crate) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Fields that are removed without an allocation.
const FEW: usize = 8;

/// What a field is to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It means what it says at the other end.
    EndToEnd,
    /// It speaks of one connection.
    HopByHop,
    /// Ours, whoever sent it.
    Own,
    /// It would change what the request is behind our back.
    Override,
    /// It says where the request comes from: believed from trusted proxies only.
    Origin,
}

/// By name alone. `_` counts as `-`: many servers cannot tell the two apart.
fn kind_of(name: &HeaderName) -> Kind {
    let name = name.as_str();
    if !name.contains('_') {
        return kind_of_plain(name);
    }
    match name.replace('_', "-").as_str() {
        // Spelt as it should be, each of these is read, checked or set here.
        "content-length" | "x-request-id" | "cache-control" | "content-type" => Kind::Own,
        plain => kind_of_plain(plain),
    }
}

/// True when both would be one field to a server that cannot tell `_` from `-`.
fn is_alike(one: &str, other: &str) -> bool {
    let folded = |byte: u8| if byte == b'_' { b'-' } else { byte };
    one.len() == other.len() && one.bytes().map(folded).eq(other.bytes().map(folded))
}

/// Another spelling of a field that says who the caller is.
fn is_disguised(name: &HeaderName, identity: &[HeaderName]) -> bool {
    let alike = |own: &HeaderName| own != name && is_alike(own.as_str(), name.as_str());
    identity.iter().any(alike)
}

fn kind_of_plain(name: &str) -> Kind {
    match name {
        "connection"
        | "keep-alive"
        | "proxy-connection"
        | "te"
        | "transfer-encoding"
        | "upgrade"
        | "http2-settings"
        | "proxy-authenticate"
        | "proxy-authorization" => Kind::HopByHop,
        "x-original-url"
        | "x-rewrite-url"
        | "x-http-method-override"
        | "x-http-method"
        | "x-method-override" => Kind::Override,
        "forwarded"
        | "x-real-ip"
        | "true-client-ip"
        | "cf-connecting-ip"
        | "x-client-ip"
        | "x-cluster-client-ip" => Kind::Origin,
        name if name.starts_with("x-bulkhead-") => Kind::Own,
        name if name.starts_with("x-forwarded-") => Kind::Origin,
        _ => Kind::EndToEnd,
    }
}

/// What the gateway knows of a request, for the fields it sets.
#[derive(Debug)]
pub(crate) struct Sender<'a> {
    /// The client's address as text.
    pub(crate) peer: &'a PeerText,
    /// The peer is one of the trusted proxies.
    pub(crate) trusted: bool,
    pub(crate) via: HeaderValue,
    pub(crate) tenant: Option<&'a str>,
    /// The fields that the policy reads an identity from.
    pub(crate) identity: &'a [HeaderName],
    pub(crate) request_id: &'a RequestId,
    /// Where the request belongs, while traces go out.
    pub(crate) trace: Option<Context>,
    /// A caller's trace goes on.
    pub(crate) propagates: bool,
}

/// The client's address as the forwarding fields spell it. One per client connection.
#[derive(Debug)]
pub(crate) struct PeerText {
    plain: HeaderValue,
    /// RFC 7239 quotes IPv6 addresses.
    node: String,
}

impl PeerText {
    pub(crate) fn new(peer: std::net::IpAddr) -> Self {
        let peer = peer.to_canonical();
        let plain = peer.to_string();
        let node = if peer.is_ipv6() {
            format!("\"[{plain}]\"")
        } else {
            plain.clone()
        };
        Self {
            plain: ascii(plain.into_bytes()),
            node,
        }
    }
}

/// Turns the client's fields into those for the upstream. `host` goes as it is.
pub(crate) fn to_upstream(headers: &mut HeaderMap, sender: &Sender<'_>, ids: &Ids) {
    let drop = |name: &HeaderName| match kind_of(name) {
        Kind::HopByHop | Kind::Own | Kind::Override => true,
        Kind::Origin => !sender.trusted,
        Kind::EndToEnd => is_disguised(name, sender.identity),
    };
    strip(headers, drop);
    // Trailers of requests are not passed on: none may become an identity or a length.
    headers.remove(TRAILER);
    headers.remove(http::header::EXPECT);
    set_origin(headers, sender);
    if sender.propagates {
        set_trace(headers, sender.trace, ids);
    }
    headers.insert(REQUEST_ID, sender.request_id.header());
    headers.append(VIA, sender.via.clone());
    if let Some(tenant) = sender.tenant {
        headers.insert(TENANT, ascii(tenant.as_bytes().to_vec()));
    }
}

/// The caller's trace goes on under a span of ours; without one a new trace begins.
fn set_trace(headers: &mut HeaderMap, trace: Option<Context>, ids: &Ids) {
    let (traceparent, continued) = match trace {
        None => ids.traceparent(headers.get(TRACEPARENT)),
        Some(context) if context.parent.is_some() => (traceparent_of(context), Continued::Yes),
        Some(context) => (traceparent_of(context), Continued::No),
    };
    if continued == Continued::No {
        headers.remove(TRACESTATE);
    }
    headers.insert(TRACEPARENT, traceparent);
}

/// Turns the upstream's fields into those for the client.
pub(crate) fn to_client(headers: &mut HeaderMap, request_id: &RequestId, via: HeaderValue) {
    let drop = |name: &HeaderName| match kind_of(name) {
        Kind::HopByHop | Kind::Own => true,
        Kind::Override | Kind::Origin | Kind::EndToEnd => false,
    };
    strip(headers, drop);
    headers.insert(REQUEST_ID, request_id.header());
    headers.append(VIA, via);
}

/// The one protocol that connections are switched to here.
pub(crate) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Asks the other side for the switch, or grants it.
pub(crate) fn switch_to_websocket(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, WEBSOCKET);
}

/// True when a message speaks of a switch to that protocol, among others or alone.
pub(crate) fn names_websocket(headers: &HeaderMap) -> bool {
    has_token(headers, &CONNECTION, "upgrade") && has_token(headers, &UPGRADE, "websocket")
}

/// True when the sender reads trailers.
pub(crate) fn accepts_trailers(headers: &HeaderMap) -> bool {
    has_token(headers, &TE, "trailers")
}

/// One of the tokens of a list, over all of its lines.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    let lists = headers.get_all(name).iter();
    lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|one| one.trim().eq_ignore_ascii_case(token))
}

/// Removes what `drop` names and what the message itself calls hop-by-hop.
fn strip(headers: &mut HeaderMap, drop: impl Fn(&HeaderName) -> bool) {
    let by_connection = named(headers);
    // Mostly there is one such field or none, and then nothing is allocated.
    let mut few = [const { None }; FEW];
    let mut places = few.iter_mut();
    let mut others = Vec::new();
    for name in headers.keys().filter(|name| drop(name)) {
        match places.next() {
            Some(place) => *place = Some(name.clone()),
            None => others.push(name.clone()),
        }
    }
    for name in few.iter().flatten().chain(&others).chain(&by_connection) {
        headers.remove(name);
    }
}

/// The fields that `Connection` names, but for those that a message cannot be read without, and
/// for its own usual words.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    // As bytes: a value that is not text names fields all the same.
    let tokens = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let words = [
        "close",
        "keep-alive",
        "upgrade",
        "te",
        "host",
        "content-length",
    ];
    let names = tokens.map(<[u8]>::trim_ascii).filter(|token| {
        let is_word = |word: &&str| token.eq_ignore_ascii_case(word.as_bytes());
        !words.iter().any(is_word)
    });
    names
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .collect()
}

/// Says where the request comes from. A trusted proxy's word is continued, anybody else's was
/// removed before.
fn set_origin(headers: &mut HeaderMap, sender: &Sender<'_>) {
    let host = headers.get(HOST).cloned();
    let mut forwarded = Vec::with_capacity(96);
    for part in [b"for=".as_slice(), sender.peer.node.as_bytes()] {
        forwarded.extend_from_slice(part);
    }
    // The host was checked: nothing in it ends a quoted string.
    if let Some(host) = &host {
        for part in [b";host=\"".as_slice(), host.as_bytes(), b"\""] {
            forwarded.extend_from_slice(part);
        }
    }
    forwarded.extend_from_slice(b";proto=http");
    continue_list(headers, FORWARDED, ascii(forwarded));
    continue_list(headers, FORWARDED_FOR, sender.peer.plain.clone());
    headers
        .entry(FORWARDED_PROTO)
        .or_insert(HeaderValue::from_static("http"));
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert(host);
    }
}

/// One field line with all the values there were and ours at its end.
fn continue_list(headers: &mut HeaderMap, name: HeaderName, own: HeaderValue) {
    let mut list = Vec::new();
    for value in headers.get_all(&name) {
        list.extend_from_slice(value.as_bytes());
        list.extend_from_slice(b", ");
    }
    let continued = if list.is_empty() {
        own
    } else {
        list.extend_from_slice(own.as_bytes());
        HeaderValue::try_from(list).unwrap_or(own)
    };
    headers.insert(name, continued);
}

/// Fields that a trailer may not bring into a message.
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    let dropped: Vec<HeaderName> = trailers
        .keys()
        .filter(|name| {
            let framing = matches!(name.as_str(), "content-length" | "host" | "trailer");
            framing || kind_of(name) != Kind::EndToEnd || **name == REQUEST_ID
        })
        .cloned()
        .collect();
    for name in dropped {
        trailers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn sent(fields: &[(&str, &str)], trusted: bool) -> HeaderMap {
        let mut headers = map(fields);
        headers.insert(HOST, HeaderValue::from_static("gw.test"));
        let ids = Ids::new(3);
        let identity = [HeaderName::from_static("x-tenant-id")];
        let peer = PeerText::new([192, 0, 2, 1].into());
        let request_id = ids.request_id(1);
        let sender = Sender {
            peer: &peer,
            trusted,
            via: HeaderValue::from_static("1.1 bulkhead-7"),
            identity: &identity,
            tenant: Some("acme"),
            request_id: &request_id,
            trace: None,
            propagates: true,
        };
        to_upstream(&mut headers, &sender, &ids);
        headers
    }

    fn all<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
        headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect()
    }

    #[test]
    fn strangers_say_nothing_of_their_origin() {
        let headers = sent(
            &[
                ("x-forwarded-for", "6.6.6.6"),
                ("x_forwarded_for", "6.6.6.6"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-port", "1"),
                ("forwarded", "for=6.6.6.6"),
                ("x-real-ip", "6.6.6.6"),
                ("true-client-ip", "6.6.6.6"),
                ("cf-connecting-ip", "6.6.6.6"),
            ],
            false,
        );
        assert_eq!(all(&headers, "x-forwarded-for"), ["192.0.2.1"]);
        assert_eq!(all(&headers, "x-forwarded-proto"), ["http"]);
        assert_eq!(all(&headers, "x-forwarded-host"), ["gw.test"]);
        let forwarded = ["for=192.0.2.1;host=\"gw.test\";proto=http"];
        assert_eq!(all(&headers, "forwarded"), forwarded);
        assert!(!headers.values().any(|value| value.as_bytes() == b"6.6.6.6"));
    }

    #[test]
    fn trusted_proxies_are_continued() {
        let known = [
            ("x-forwarded-for", "1.1.1.1"),
            ("x-forwarded-for", "2.2.2.2"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "outer.example"),
            ("forwarded", "for=1.1.1.1"),
        ];
        let headers = sent(&known, true);
        assert_eq!(
            all(&headers, "x-forwarded-for"),
            ["1.1.1.1, 2.2.2.2, 192.0.2.1"]
        );
        assert_eq!(all(&headers, "x-forwarded-proto"), ["https"]);
        assert_eq!(all(&headers, "x-forwarded-host"), ["outer.example"]);
        assert!(all(&headers, "forwarded")[0].starts_with("for=1.1.1.1, for=192.0.2.1"));
    }

    #[test]
    fn what_is_ours_comes_from_us() {
        let headers = sent(
            &[
                (
                    "connection",
                    "close, x-bulkhead-tenant, x-drop, host, x-request-id",
                ),
                ("x-drop", "1"),
                ("x-bulkhead-tenant", "evil"),
                ("x_bulkhead_tenant", "evil"),
                ("x_tenant_id", "evil"),
                ("x-tenant_id", "evil"),
                ("content_length", "7"),
                ("transfer_encoding", "chunked"),
                ("x_request_id", "evil"),
                ("my_field", "kept"),
                ("x-bulkhead-anything", "1"),
                ("x-original-url", "/admin"),
                ("x-rewrite-url", "/admin"),
                ("x-http-method-override", "DELETE"),
                ("te", "trailers"),
                ("upgrade", "foo"),
                ("expect", "100-continue"),
                ("trailer", "x-bulkhead-tenant"),
                ("proxy-connection", "keep-alive"),
                ("keep-alive", "timeout=9"),
                ("via", "1.1 outer"),
                ("x-mine", "kept"),
            ],
            false,
        );
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        let want = [
            "forwarded",
            "host",
            "my_field",
            "traceparent",
            "via",
            "x-bulkhead-tenant",
            "x-forwarded-for",
            "x-forwarded-host",
            "x-forwarded-proto",
            "x-mine",
            "x-request-id",
        ];
        assert_eq!(names, want);
        assert_eq!(all(&headers, "x-bulkhead-tenant"), ["acme"]);
        assert_eq!(all(&headers, "via"), ["1.1 outer", "1.1 bulkhead-7"]);
    }

    #[test]
    fn a_connection_field_that_is_no_text_names_fields_all_the_same() {
        let mut headers = map(&[("x-hop", "1"), ("x-other", "1"), ("x-kept", "1")]);
        let value = HeaderValue::from_bytes(b"x-hop, \xff\xfe ,x-other").unwrap();
        headers.append(CONNECTION, value);
        let request_id = Ids::new(1).request_id(1);
        to_client(&mut headers, &request_id, HeaderValue::from_static("1.1 b"));
        assert!(!headers.contains_key("x-hop") && !headers.contains_key("x-other"));
        assert!(headers.contains_key("x-kept"));
    }

    #[test]
    fn answers_lose_what_is_ours_and_what_is_the_hops() {
        let mut headers = map(&[
            ("connection", "x-hop-secret, keep-alive"),
            ("x-hop-secret", "s3cr3t"),
            ("keep-alive", "timeout=99"),
            ("proxy-connection", "keep-alive"),
            ("x-bulkhead-reason", "route_full"),
            ("x-bulkhead-fallback", "static"),
            ("x-request-id", "theirs"),
            ("etag", "\"e\""),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
        ]);
        let request_id = Ids::new(1).request_id(1);
        to_client(
            &mut headers,
            &request_id,
            HeaderValue::from_static("1.1 bulkhead-7"),
        );
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["etag", "set-cookie", "via", "x-request-id"]);
        assert_eq!(all(&headers, "set-cookie"), ["a=1", "b=2"]);
        assert_eq!(headers[REQUEST_ID], request_id.header());
    }

    #[test]
    fn trailers_bring_no_identity_and_no_framing() {
        let mut trailers = map(&[
            ("x-bulkhead-tenant", "bravo"),
            ("content-length", "50"),
            ("host", "blocked.example"),
            ("x-forwarded-for", "6.6.6.6"),
            ("grpc-status", "0"),
        ]);
        clean_trailers(&mut trailers);
        let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["grpc-status"]);
    }
}
