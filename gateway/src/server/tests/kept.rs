//! Connections between requests, and how many there may be.

use super::*;

#[test]
fn a_connection_is_kept_and_pipelined_requests_answer_in_order() {
    let server = server(|_| {});
    let mut client = server.with(get("/a"));
    assert_eq!(client.answer().body, "/a 1");
    client.send([get("/b"), get("/c"), get("/d")].concat());
    let bodies: Vec<_> = (0..3).map(|_| client.answer().body).collect();
    assert_eq!(bodies, ["/b 1", "/c 1", "/d 1"]);
}

#[test]
fn a_silent_connection_is_closed_without_a_word() {
    let server = server(|bounds| bounds.header_timeout_us = 100_000);
    assert_eq!(server.client().rest(), (Vec::new(), true));
}

#[test]
fn a_kept_connection_is_closed_without_a_word_when_idle() {
    let server = server(|bounds| bounds.keepalive_idle_us = 100_000);
    let mut client = server.with(get("/a"));
    client.answer();
    assert_eq!(client.rest(), (Vec::new(), true));
}

#[test]
fn a_request_that_runs_is_not_idle() {
    let server = server(|bounds| {
        bounds.keepalive_idle_us = 50_000;
        bounds.header_timeout_us = 50_000;
    });
    assert_eq!(server.with(get("/slow")).answer().body, "late");
}

#[test]
fn a_connection_ends_after_its_last_request_and_says_so() {
    let server = server(|_| {});
    let mut client = server.client();
    for number in 1..=CONNECTION_REQUESTS_MAX {
        client.send(get("/a"));
        let last = client.answer().head.contains("connection: close");
        assert_eq!(last, number == CONNECTION_REQUESTS_MAX, "request {number}");
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), (Vec::new(), true));
}

#[test]
fn connections_beyond_the_bound_are_closed_and_the_others_go_on() {
    let server = server(|bounds| bounds.connections_max = 2);
    let mut kept: Vec<_> = (0..2).map(|_| server.with(get("/a"))).collect();
    assert!(kept.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(server.client().rest().0, b"");
    eventually("it to be counted", || server.census.turned_away() == 1);
    kept.remove(0);
    eventually("its place", || server.census.open() == 1);
    assert_eq!(server.with(get("/b")).answer().status, 200);
}

#[test]
fn a_connection_that_rests_goes_on_where_it_was() {
    let server = server(|bounds| bounds.rest_us = 1_000);
    let mut client = server.with(get("/a"));
    client.answer();
    let pause = || std::thread::sleep(Duration::from_millis(50));
    pause();
    client.send(get("/b"));
    assert_eq!(client.answer().body, "/b 1");
    // With a part of the next head behind the request that is answered before the rest.
    client.send(get("/c") + "GET /d HTTP/1.1\r\nho");
    assert_eq!(client.answer().body, "/c 1");
    pause();
    client.send("st: a\r\n\r\n");
    assert_eq!(client.answer().body, "/d 1");
    pause();
    client.send("POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 9000000\r\n\r\n");
    assert!(client.answer().head.contains("connection: close"));
}

#[test]
fn a_connection_that_rests_is_closed_when_idle_and_at_the_end() {
    let server = server(|bounds| {
        bounds.rest_us = 1_000;
        bounds.keepalive_idle_us = 200_000;
    });
    let mut client = server.with(get("/a"));
    client.answer();
    assert_eq!(client.rest(), (Vec::new(), true));
    let mut client = server.with(get("/a"));
    client.answer();
    server.stage.send_replace(Stage::Leaving);
    assert_eq!(client.rest(), (Vec::new(), true));
    assert!(server.census.wait_empty(PATIENCE));
}
