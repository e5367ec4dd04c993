//! `[gateway.http]`: what a client may not do, and what it is told.

use super::*;

#[test]
fn a_half_sent_head_is_told_408() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "header_timeout = \"200ms\"");
    let mut client = gateway.with("GET /one HTTP/1.1\r\nx-slow: ");
    let answer = client.answer();
    assert_eq!(answer.status, 408);
    answer
        .has("x-bulkhead-reason: request_timeout")
        .has("connection: close");
    answer.has("content-type: application/problem+json");
    assert!(
        answer.body.contains("\"reason\":\"request_timeout\""),
        "{}",
        answer.body
    );
    assert!(answer.body.contains("\"request_id\":\""), "{}", answer.body);
}

#[test]
fn heads_over_the_bounds_are_told_which() {
    let stub = Stub::start();
    let gateway = gateway(
        &stub,
        "max_header_bytes = \"2KiB\"\nmax_target_bytes = \"1KiB\"\nmax_header_fields = 10",
    );
    let head = |target: usize, field: usize, fields: usize| {
        let (target, field) = ("a".repeat(target), "b".repeat(field));
        let fields = "x: y\r\n".repeat(fields);
        format!("GET /one/{target} HTTP/1.1\r\nhost: a\r\nx-big: {field}\r\n{fields}\r\n")
    };
    for (bytes, status, reason) in [
        (head(900, 1_500, 5), 200, ""),
        // Just beyond, which hyper would let pass; and far beyond, which it would not.
        (head(1_100, 1, 1), 414, "uri_too_long"),
        (head(200_000, 1, 1), 414, "uri_too_long"),
        (head(1, 2_100, 1), 431, "header_too_large"),
        (head(1, 500_000, 1), 431, "header_too_large"),
        (head(1, 1, 11), 431, "header_too_large"),
        (head(1, 1, 5_000), 431, "header_too_large"),
    ] {
        let answer = gateway.with(bytes).answer();
        assert_eq!(answer.status, status);
        if status != 200 {
            answer.has(&format!("x-bulkhead-reason: {reason}"));
            assert!(answer.body.contains(reason), "{}", answer.body);
        }
    }
    assert_eq!(stub.arrived(), 1);
}

#[test]
fn an_unreadable_head_is_told_400_and_closed() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    for head in [
        "POST /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
         content-length: 4\r\n\r\n0\r\n\r\n",
        "POST /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5, 6\r\n\r\nhello",
        "GE(T /one HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET /one HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        "GET /one HTTP/1.1\r\n\r\n",
    ] {
        let mut client = gateway.with(head);
        let answer = client.answer();
        assert_eq!(answer.status, 400, "{head:?}");
        answer.has("x-bulkhead-reason: bad_request");
        assert_eq!(client.rest(), (Vec::new(), true), "{head:?}");
    }
    assert_eq!(stub.arrived(), 0);
}

#[test]
fn a_refused_upload_can_read_its_answer() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "max_body = \"30MB\"");
    let _held = gateway.with(get("/one/hold"));
    eventually("the slot to be taken", || stub.arrived() == 1);
    for size in [1_000, 20_000_000] {
        let mut client = gateway.with(post("/one", size));
        // All of it before the answer is looked at.
        client.send(vec![b'z'; size]);
        let answer = client.answer();
        assert_eq!(answer.status, 503);
        answer.has("x-bulkhead-reason: route_full");
        // Whoever is not read to the end must not be sent another request.
        assert!(
            size == 1_000 || answer.head.contains("connection: close"),
            "{}",
            answer.head
        );
    }
    stub.open();
}

#[test]
fn connections_beyond_the_bound_are_closed() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "max_connections = 3");
    let mut kept: Vec<_> = (0..3).map(|_| gateway.with(get("/many"))).collect();
    assert!(kept.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(gateway.client().rest().0, b"");
    kept.pop();
    eventually("a place", || {
        let mut client = gateway.client();
        use std::io::{Read, Write};
        let sent = client.stream.write_all(get("/many").as_bytes());
        sent.is_ok()
            && client
                .stream
                .read(&mut [0; 1])
                .is_ok_and(|count| count == 1)
    });
}

#[test]
fn a_client_that_does_not_read_gives_its_slot_back() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "write_stall = \"300ms\"");
    let _deaf = gateway.with(get("/one/stream"));
    eventually("the slot to be taken", || stub.arrived() == 1);
    eventually("the slot to come back", || {
        gateway.with(get("/one")).answer().status == 200
    });
    eventually("the upstream to be let go", || stub.gone() == 1);
}

#[test]
fn a_client_that_does_not_read_cannot_outstay_the_whole_exchange() {
    let stub = Stub::start();
    // Long before it would be called stalled.
    let gateway = gateway(&stub, "write_stall = \"60s\"");
    let _deaf = gateway.with(get("/brief/stream"));
    eventually("the slot to be taken", || stub.arrived() == 1);
    let free = || gateway.with(get("/brief")).answer().status == 200;
    assert!(!free());
    eventually("the slot to come back", free);
    eventually("the upstream to be let go", || stub.gone() == 1);
}
