//! Heads that do not end, are too large, or cannot be read.

use super::*;

#[test]
fn a_half_sent_head_is_answered_408_and_closed() {
    let server = server(|bounds| bounds.header_timeout_us = 200_000);
    for first in ["", &get("/kept")] {
        let mut client = server.client();
        if !first.is_empty() {
            client.send(first);
            client.answer();
        }
        client.send("GET / HTTP/1.1\r\nx-slow: ");
        let got = client.answer();
        assert_eq!(got.status, 408);
        assert!(
            got.head.contains("x-bulkhead-reason: request_timeout"),
            "{}",
            got.head
        );
        assert!(got.head.contains("connection: close"), "{}", got.head);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), (Vec::new(), true));
    }
}

#[test]
fn bytes_that_drip_in_do_not_extend_the_time_for_a_head() {
    let server = server(|bounds| bounds.header_timeout_us = 200_000);
    let mut client = server.with("GET / HTTP/1.1\r\n");
    client
        .stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut answered = [0; 12];
    eventually("an answer", || {
        drop(client.stream.write_all(b"x-a: b\r\n"));
        client.stream.read_exact(&mut answered).is_ok()
    });
    assert_eq!(&answered, b"HTTP/1.1 408");
}

#[test]
fn heads_that_are_too_large_get_our_document_before_they_end() {
    let server = server(|_| {});
    let target = format!("GET /{} HTTP/1.1\r\n", "a".repeat(200_000));
    let field = format!("GET / HTTP/1.1\r\nx-big: {}\r\n", "b".repeat(500_000));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(101));
    for (bytes, status, reason) in [
        (target, 414, "uri_too_long"),
        (field, 431, "header_too_large"),
        (fields, 431, "header_too_large"),
    ] {
        let got = server.with(bytes).answer();
        assert_eq!(got.status, status);
        assert!(
            got.head.contains(&format!("x-bulkhead-reason: {reason}")),
            "{}",
            got.head
        );
        assert_eq!(got.body, "{}");
    }
    assert_eq!(count(&server.seen.started), 0);
}

#[test]
fn a_malformed_head_gets_our_document() {
    let server = server(|_| {});
    for head in [
        "GE(T / HTTP/1.1\r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nfoo bar: x\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 5, 6\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let mut client = server.with(head);
        let got = client.answer();
        assert_eq!((got.status, got.body.as_str()), (400, "{}"), "{head:?}");
        assert!(
            got.head.contains("x-bulkhead-reason: bad_request"),
            "{head:?}: {}",
            got.head
        );
        assert_eq!(client.rest(), (Vec::new(), true), "{head:?}");
    }
}

#[test]
fn a_malformed_pipelined_head_follows_the_answer_before_it() {
    let server = server(|_| {});
    let mut client = server.with([get("/a").as_bytes(), b"NO(NO\r\n\r\n"].concat());
    assert_eq!(client.answer().body, "/a 1");
    assert_eq!(client.answer().status, 400);
}
