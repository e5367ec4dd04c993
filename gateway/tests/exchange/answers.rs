//! What each side gets to see of the other.

use super::*;

#[test]
fn trailers_pass_and_bring_nothing_of_ours() {
    let bench = bench(&[("one", "")]);
    let answer = bench.ask(request("GET", "/one", "trailers", "te: trailers\r\n"));
    assert!(answer.whole);
    assert_eq!(answer.field("grpc-status"), Some("0"));
    assert_eq!(answer.reason(), None);
}

#[test]
fn trailers_of_a_request_do_not_reach_the_upstream() {
    let bench = bench(&[("one", "")]);
    let body = "2\r\nok\r\n0\r\nx-bulkhead-tenant: evil\r\nhost: evil\r\n\r\n";
    let more = "transfer-encoding: chunked\r\ntrailer: x-bulkhead-tenant\r\n";
    let answer = bench.ask(request("POST", "/one", "ok", more) + body);
    assert_eq!(answer.status, 200);
    let seen = bench.stub.seen();
    assert_eq!(seen[0].body, b"ok");
    assert!(!seen[0].head.contains("evil") && !seen[0].head.contains("trailer"));
}

#[test]
fn the_upstream_gets_one_clean_head() {
    let bench = bench(&[("one", "")]);
    let more = "connection: x-drop, close\r\nx-drop: 1\r\nupgrade: foo\r\nexpect: 100-continue\r\n\
                x-forwarded-for: 6.6.6.6\r\ncontent-length: 2\r\n";
    let mut client = bench.send(request("POST", "/./one/%7Ea?q=%2f", "ok", more));
    assert_eq!(client.head().status, 100);
    client.send("ok");
    let answer = client.answer();
    assert_eq!(answer.status, 200);
    let head = &bench.stub.seen()[0].head;
    assert!(
        head.starts_with("POST /one/~a?q=%2f HTTP/1.1\r\n"),
        "{head}"
    );
    for gone in ["x-drop", "upgrade", "expect", "6.6.6.6", "connection"] {
        assert!(!head.contains(gone), "{gone} in {head}");
    }
    for (field, count) in [
        ("\nhost: ", 1),
        ("content-length: 2", 1),
        ("x-request-id: ", 1),
        ("via: 1.1 bulkhead", 1),
    ] {
        assert_eq!(head.matches(field).count(), count, "{field} in {head}");
    }
    let id = answer.field("x-request-id").unwrap();
    assert!(head.contains(id), "{id} in {head}");
}

#[test]
fn an_old_client_gets_a_body_that_ends_with_the_connection() {
    let bench = bench(&[("one", "")]);
    let mut client = bench.send("GET /one HTTP/1.0\r\nx-do: chunks\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    assert!(client.is_closed());
    // The upstream speaks HTTP/1.1, which needs a host.
    assert!(
        bench.stub.seen()[0]
            .head
            .contains(&format!("host: {}", bench.stub.at))
    );
}

#[test]
fn a_kept_connection_goes_on_after_every_refusal_that_allows_it() {
    let bench = bench(&[("one", "")]);
    let mut held = bench.send(get("/one", "hold-body"));
    held.head();
    let mut client = Client::connect(bench.at);
    for (request, reason) in [
        (get("/one", "ok"), "route_full"),
        (get("/nowhere", "ok"), "no_route"),
        (post("/one", "ok", "small"), "route_full"),
        (get("/one", "ok"), "route_full"),
    ] {
        client.send(request);
        assert_eq!(client.answer().reason(), Some(reason));
    }
    client.send(request("HEAD", "/one", "ok", ""));
    let head = client.head();
    assert_eq!((head.status, head.reason()), (503, Some("route_full")));
    client.send("GET //one HTTP/1.1\r\nhost: a\r\n\r\n");
    let answer = client.answer();
    assert_eq!(
        (answer.status, answer.field("connection")),
        (400, Some("close"))
    );
    assert!(client.is_closed());
}

#[test]
fn grpc_callers_get_trailers_only() {
    let bench = bench(&[("one", "compartment = { limit = 0, reserved = 0 }")]);
    let answer = bench.ask(request(
        "POST",
        "/one",
        "ok",
        "content-type: application/grpc\r\n",
    ));
    assert_eq!(
        (answer.status, answer.field("grpc-status")),
        (200, Some("14"))
    );
    assert_eq!(answer.reason(), Some("closed"));
}

#[test]
fn a_request_that_comes_round_again_is_stopped() {
    let bench = bench(&[("one", "")]);
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    let seen = bench.stub.seen()[0].head.clone();
    let via = seen.lines().find(|line| line.starts_with("via: ")).unwrap();
    // Behind others that have added themselves.
    let round = request("GET", "/one", "ok", &format!("{via}, 1.1 other\r\n"));
    let answer = bench.ask(round);
    assert_eq!(
        (answer.status, answer.reason()),
        (508, Some("loop_detected"))
    );
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("proxy_loop_detected")
    );
    // Another gateway's name is no circle.
    let chain = request(
        "GET",
        "/one",
        "ok",
        "via: 1.1 bulkhead-0123456789abcdef\r\n",
    );
    assert_eq!(bench.ask(chain).status, 200);
    assert_eq!((bench.stub.arrived(), bench.ended("loop_detected")), (2, 1));
    bench.is_at_rest();
}

#[test]
fn an_upgrade_to_http2_is_refused() {
    let bench = bench(&[("one", "")]);
    let more =
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n";
    let answer = bench.ask(request("GET", "/one", "ok", more));
    assert_eq!((answer.status, answer.reason()), (400, Some("bad_request")));
    assert_eq!(bench.stub.arrived(), 0);
}

#[test]
fn a_connection_that_hammers_is_answered_later_and_nobody_else() {
    let bench = bench(&[("one", ""), ("two", "")]);
    let mut held = bench.send(get("/one", "hold-body"));
    held.head();
    let refused = |client: &mut Client| {
        let start = Instant::now();
        client.send(get("/one", "ok"));
        assert_eq!(client.answer().reason(), Some("route_full"));
        start.elapsed()
    };
    let mut client = Client::connect(bench.at);
    let first: Vec<Duration> = (0..4).map(|_| refused(&mut client)).collect();
    let hold = Duration::from_millis(5);
    assert!(first.iter().any(|took| *took < hold), "{first:?}");
    let later: Vec<Duration> = (0..20).map(|_| refused(&mut client)).collect();
    assert!(later.iter().all(|took| *took >= hold), "{later:?}");
    // Another connection begins anew, and so does this one with an answer that is none.
    let mut others: Vec<Client> = (0..8).map(|_| Client::connect(bench.at)).collect();
    assert!(others.iter_mut().any(|other| refused(other) < hold));
    client.send(get("/two", "ok"));
    assert_eq!(client.answer().status, 200);
    let again: Vec<Duration> = (0..4).map(|_| refused(&mut client)).collect();
    assert!(again.iter().any(|took| *took < hold), "{again:?}");
    // One that leaves while it is held ends that.
    for _ in 0..10 {
        client.send(get("/one", "ok"));
    }
    drop(client);
    bench.stub.open();
    bench.is_at_rest();
}

/// A connection is used on, or its last answer has said that it ends.
fn goes_on(client: &mut Client, last: &Answer) -> bool {
    if last.field("connection") == Some("close") {
        assert!(client.is_closed(), "it was said to end");
        return false;
    }
    client.send(get("/two", "ok"));
    let next = client.answer();
    assert_eq!((next.status, next.body.as_str()), (200, "ok"));
    true
}

#[test]
fn early_answers_to_uploads_do_not_break_the_connection_they_came_on() {
    let bench = bench(&[("one", ""), ("two", "compartment = { limit = 9 }")]);
    let mut held = bench.send(get("/one", "hold-body"));
    assert_eq!(held.head().status, 200);
    let upload = |path: &str, script: &str, length: usize| {
        let length_field = format!("content-length: {length}\r\n");
        request("POST", path, script, &length_field) + &"z".repeat(length)
    };
    // All of it is sent before the answer is looked at; refused by us, answered early by the
    // upstream, and larger than the room of any socket.
    for (path, script, length, status, stays) in [
        ("/one", "ok", 1_000, 503, true),
        ("/two", "early-reads", 1_000, 200, true),
        ("/one", "ok", 900_000, 503, false),
        ("/two", "early-reads", 900_000, 200, false),
    ] {
        for _ in 0..5 {
            let mut client = bench.send(upload(path, script, length));
            let answer = client.answer();
            assert_eq!(
                (answer.status, answer.whole),
                (status, true),
                "{path} {length}"
            );
            let went_on = goes_on(&mut client, &answer);
            assert!(went_on || !stays, "{path} {length}: closed without need");
        }
    }
    drop(held);
    bench.stub.open();
    bench.is_at_rest();
}

#[test]
fn an_upload_that_waits_for_leave_gets_it_or_its_answer() {
    let bench = bench(&[("one", ""), ("two", "compartment = { limit = 9 }")]);
    let mut held = bench.send(get("/one", "hold-body"));
    assert_eq!(held.head().status, 200);
    let waits = "content-length: 5\r\nexpect: 100-continue\r\n";
    let mut allowed = bench.send(request("POST", "/two", "ok", waits));
    assert_eq!(allowed.head().status, 100);
    allowed.send("12345");
    let answer = allowed.answer();
    assert_eq!(answer.status, 200);
    assert!(goes_on(&mut allowed, &answer));
    assert_eq!(
        bench
            .stub
            .seen()
            .iter()
            .filter(|seen| seen.body == b"12345")
            .count(),
        1
    );
    // Refused, it is told so at once: nothing of the body was asked for, and none of it is taken
    // for the next request.
    let mut refused = bench.send(request("POST", "/one", "ok", waits));
    let answer = refused.answer();
    assert_eq!((answer.status, answer.reason()), (503, Some("route_full")));
    assert!(!goes_on(&mut refused, &answer), "the body may come or not");
    drop(held);
    bench.stub.open();
    bench.is_at_rest();
}
