//! How exchanges and connections end, by whichever side.

use super::*;

#[test]
fn a_client_that_leaves_ends_its_exchange() {
    let server = server(|_| {});
    let head = |path, length| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
    };
    let requests = [
        get("/hang"),
        get("/endless"),
        // While it uploads.
        head("/upload", 9) + "abc",
        // While nobody takes what it uploads, behind which its end hides.
        head("/hang", 100_000) + &"z".repeat(100_000),
        // Behind a second request, which nobody reads yet.
        get("/hang") + &get("/b"),
        get("/hang") + &head("/c", 100_000) + &"z".repeat(100_000),
    ];
    for (number, bytes) in requests.into_iter().enumerate() {
        for (turn, by_reset) in [(0, false), (1, true)] {
            let client = server.with(&bytes);
            let nth = number * 2 + turn + 1;
            eventually("the request to start", || {
                count(&server.seen.started) == nth
            });
            if by_reset {
                client.reset();
            } else {
                drop(client);
            }
            eventually("its end", || count(&server.seen.dropped) == nth);
        }
    }
    eventually("no connection left", || server.census.open() == 0);
    assert_eq!(count(&server.seen.slow), 0);
}

#[test]
fn a_request_whose_client_left_at_once_is_seen_all_the_same() {
    let server = server(|_| {});
    for nth in 1..=50 {
        drop(server.with(get("/hang")));
        eventually("the request to start", || {
            count(&server.seen.started) == nth
        });
        eventually("its end", || count(&server.seen.dropped) == nth);
    }
}

#[test]
fn a_client_that_does_not_read_is_cut_and_named() {
    let server = server(|bounds| bounds.write_stall_us = 200_000);
    let mut client = server.with(get("/endless"));
    eventually("the exchange to end", || count(&server.seen.dropped) == 1);
    assert_eq!(count(&server.seen.slow), 1);
    assert!(!client.rest().1, "expected a reset");
}

#[test]
fn a_panic_costs_its_own_connection_only() {
    let server = server(|_| {});
    let mut other = server.with(get("/a"));
    other.answer();
    assert_eq!(server.with(get("/panic")).answer().status, 500);
    assert_eq!(count(&server.seen.dropped), 2);
    other.send(get("/b"));
    assert_eq!(other.answer().body, "/b 1");
    eventually("one connection left", || server.census.open() == 1);
}

#[test]
fn a_panic_in_a_body_cuts_its_answer_and_nothing_else() {
    let server = server(|_| {});
    let mut other = server.with(get("/a"));
    other.answer();
    let (bytes, _) = server.with(get("/break")).rest();
    assert!(
        find(&bytes, b"\r\n0\r\n").is_none(),
        "a cut answer looks whole"
    );
    eventually("one connection left", || server.census.open() == 1);
    assert_eq!(count(&server.seen.dropped), 2);
    other.send(get("/b"));
    assert_eq!(other.answer().body, "/b 1");
}

#[test]
fn a_refused_upload_can_read_its_answer() {
    let server = server(|_| {});
    let size = 20_000_000;
    let mut client = server.with(format!(
        "POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n"
    ));
    // All of it is sent before the answer is looked at.
    client.send(vec![b'z'; size]);
    let got = client.answer();
    assert_eq!(got.status, 503);
    assert!(got.head.contains("connection: close"), "{}", got.head);
}

#[test]
fn a_cut_answer_never_looks_whole() {
    let server = server(|_| {});
    let (bytes, _) = server.with(get("/cut")).rest();
    assert!(find(&bytes, b"\r\n0\r\n").is_none());
    // In HTTP/1.0 the end of the connection is the end of the body.
    let (_, clean) = server.with("GET /cut HTTP/1.0\r\nhost: a\r\n\r\n").rest();
    assert!(!clean, "expected a reset");
}

#[test]
fn leaving_closes_idle_connections_and_ends_busy_ones_well() {
    let server = server(|_| {});
    let (mut idle, mut silent) = (server.with(get("/a")), server.client());
    idle.answer();
    let mut busy = server.with(get("/slow"));
    let mut half = server.with("GET /never HTTP/1.1\r\n");
    eventually("all of them", || {
        count(&server.seen.started) == 2 && server.census.open() == 4
    });
    server.stage.send_replace(Stage::Leaving);
    let got = busy.answer();
    assert_eq!(got.body, "late");
    assert!(got.head.contains("connection: close"), "{}", got.head);
    assert_eq!(idle.rest(), (Vec::new(), true));
    assert_eq!(silent.rest(), (Vec::new(), true));
    assert_eq!(half.answer().status, 408);
    drop((busy, half));
    assert!(server.census.wait_empty(PATIENCE));
    assert!(TcpStream::connect(server.at).is_err(), "the port is closed");
}

#[test]
fn a_kept_connection_may_send_one_more_request_while_leaving() {
    let server = server(|_| {});
    let mut client = server.with(get("/a"));
    client.answer();
    server.stage.send_replace(Stage::Leaving);
    client.send(get("/b"));
    let got = client.answer();
    assert_eq!(got.body, "/b 1");
    assert!(got.head.contains("connection: close"), "{}", got.head);
}

#[test]
fn a_small_refused_upload_leaves_the_connection_usable() {
    let server = server(|_| {});
    let mut client =
        server.with("POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello");
    let got = client.answer();
    assert_eq!(got.status, 503);
    assert!(!got.head.contains("connection: close"), "{}", got.head);
    client.send(get("/a"));
    assert_eq!(client.answer().body, "/a 1");
}
