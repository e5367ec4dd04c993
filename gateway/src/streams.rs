//! Which exchanges are streams.
//!
//! Separate because the question is asked twice: of a request, before anything is taken, and of
//! an answer, when its head has come. It must never look at a body, and it decides no limit.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Version};

use crate::framing::Framing;
use crate::headers::names_websocket;
use crate::live_policy::LiveRoute;

const EVENT_STREAM: &str = "text/event-stream";

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// One answer.
    Call,
    /// An answer that may go on for long.
    Stream,
    /// Another protocol on its connection.
    Switch,
}

/// What the request asks for, where streams have slots of their own.
///
/// An upstream that speaks HTTP/2 is never asked for a switch: that protocol has none.
pub(crate) fn asked(parts: &Parts, framing: Framing, route: &LiveRoute) -> Asks {
    let Some(terms) = &route.streams else {
        return Asks::Call;
    };
    if !route.http2 && is_switch(parts, framing) {
        Asks::Switch
    } else if accepts_events(&parts.headers) || (terms.grpc && is_grpc(&parts.headers)) {
        Asks::Stream
    } else {
        Asks::Call
    }
}

/// A WebSocket handshake of HTTP/1.1. Whatever else names an upgrade is a request as all others,
/// and the upstream never hears of it.
fn is_switch(parts: &Parts, framing: Framing) -> bool {
    parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && matches!(framing, Framing::None | Framing::Length(0))
        && names_websocket(&parts.headers)
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT).iter();
    lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|range| is_media_type(range, EVENT_STREAM))
}

/// True for an answer that is a stream of events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::to_str);
    matches!(media_type, Some(Ok(text)) if is_media_type(text, EVENT_STREAM))
}

/// True when the body is messages of gRPC, in whatever encoding.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let Some(rest) = media_type.and_then(|text| text.strip_prefix(b"application/grpc")) else {
        return false;
    };
    // Not gRPC-Web, which is another protocol.
    matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

/// Without parameters, in any case of letters.
fn is_media_type(text: &str, media_type: &str) -> bool {
    let bare = text.split(';').next().unwrap_or_default();
    bare.trim().eq_ignore_ascii_case(media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, fields: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri("/");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn handshakes_are_told_from_other_upgrades() {
        let check = |method: &str, fields: &[(&str, &str)], want: bool| {
            let parts = parts(method, fields);
            assert_eq!(
                is_switch(&parts, Framing::None),
                want,
                "{method} {fields:?}"
            );
        };
        let (connection, upgrade) = (("connection", "Upgrade"), ("upgrade", "websocket"));
        check("GET", &[connection, upgrade], true);
        check(
            "GET",
            &[
                ("connection", "keep-alive, UPGRADE"),
                ("upgrade", "WebSocket"),
            ],
            true,
        );
        check("GET", &[connection, ("upgrade", "foo, websocket")], true);
        check("GET", &[upgrade], false);
        check("GET", &[connection], false);
        check("GET", &[connection, ("upgrade", "h2c")], false);
        check("GET", &[connection, ("upgrade", "websockets")], false);
        check("POST", &[connection, upgrade], false);
        let with_body = parts("GET", &[connection, upgrade]);
        assert!(!is_switch(&with_body, Framing::Length(1)));
        assert!(!is_switch(&with_body, Framing::Chunked));
        let mut http2 = parts("GET", &[connection, upgrade]);
        http2.version = Version::HTTP_2;
        assert!(!is_switch(&http2, Framing::None));
    }

    #[test]
    fn event_streams_are_asked_for_by_name() {
        for (accept, want) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("*/*", false),
            ("text/event-streams", false),
            ("text/*", false),
        ] {
            let headers = parts("GET", &[("accept", accept)]).headers;
            assert_eq!(accepts_events(&headers), want, "{accept}");
        }
        let of = |text: &str| is_event_stream(&parts("GET", &[("content-type", text)]).headers);
        assert!(of("text/event-stream") && of("TEXT/event-stream; charset=utf-8"));
        assert!(!of("text/plain") && !of("text/event-stream-not"));
    }

    #[test]
    fn grpc_is_told_by_its_media_type() {
        for (text, want) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/grpcx", false),
            ("application/json", false),
        ] {
            let headers = parts("POST", &[("content-type", text)]).headers;
            assert_eq!(is_grpc(&headers), want, "{text}");
        }
    }
}
