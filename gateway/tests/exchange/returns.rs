//! The permits come back on every path, once. `one` has a single slot, so whatever keeps it shows
//! at the next request.

use super::*;

const ONE: (&str, &str) = ("one", "");

#[test]
fn after_success_in_every_framing() {
    let bench = bench(&[ONE]);
    let mut client = Client::connect(bench.at);
    for script in [
        "ok", "chunks", "204", "304", "ok", "trailers", "500", "old", "ok",
    ] {
        for _ in 0..5 {
            client.send(get("/one", script));
            let answer = client.answer();
            assert_eq!((answer.reason(), answer.whole), (None, true), "{script}");
        }
    }
    client.send(request("HEAD", "/one", "head-of-9", ""));
    let head = client.head();
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("9"))
    );
    client.send(get("/one", "ok"));
    assert_eq!(client.answer().status, 200);
    bench.is_at_rest();
    assert_eq!(bench.figures("route/one")["completed"], 47);
}

#[test]
fn after_a_client_leaves_in_any_phase() {
    let bench = bench(&[ONE]);
    let upload = request("POST", "/one", "ok", "content-length: 50\r\n") + "part";
    let unread = request("POST", "/one", "unread", "content-length: 900000\r\n");
    let unread = unread + &"z".repeat(100_000);
    let cases = [
        ("waits for the head", get("/one", "hold"), false),
        ("uploads", upload, false),
        ("uploads what nobody reads", unread, false),
        ("reads a body that stops", get("/one", "hold-body"), true),
        ("reads a body without end", get("/one", "endless"), true),
    ];
    for by_reset in [false, true] {
        for (phase, request, has_head) in &cases {
            let gone = bench.stub.gone();
            let arrived = bench.stub.arrived();
            let mut client = bench.send(request);
            eventually("the request at the stub", || bench.stub.arrived() > arrived);
            if *has_head {
                client.head();
            }
            assert_eq!(
                bench.ask(get("/one", "ok")).reason(),
                Some("route_full"),
                "{phase}"
            );
            let left = Instant::now();
            if by_reset {
                client.reset();
            } else {
                drop(client);
            }
            eventually(phase, || bench.in_flight("route/one") == 0);
            eventually("the upstream to be let go", || bench.stub.gone() > gone);
            assert!(
                left.elapsed() < Duration::from_secs(2),
                "{phase}: {:?}",
                left.elapsed()
            );
            assert_eq!(bench.ask(get("/one", "ok")).status, 200, "{phase}");
        }
    }
    bench.is_at_rest();
}

#[test]
fn after_the_upstream_fails_in_any_phase() {
    let bench = bench(&[ONE]);
    for (script, status, reason) in [
        ("close", 502, "upstream_reset"),
        ("reset", 502, "upstream_reset"),
        ("garbage", 502, "upstream_protocol"),
        ("two-framings", 502, "upstream_protocol"),
        ("two-lengths", 502, "upstream_protocol"),
        ("bare-lf", 502, "upstream_protocol"),
        ("101", 502, "upstream_protocol"),
        ("interims", 502, "upstream_protocol"),
        ("fieldss", 502, "upstream_protocol"),
        ("long", 502, "upstream_protocol"),
    ] {
        for body in ["", "with a body"] {
            let request = if body.is_empty() {
                get("/one", script)
            } else {
                post("/one", script, body)
            };
            let answer = bench.ask(request);
            assert_eq!(
                (answer.status, answer.reason()),
                (status, Some(reason)),
                "{script}"
            );
        }
    }
    for script in ["mid", "bad-chunk"] {
        let answer = bench.ask(get("/one", script));
        assert_eq!(
            (answer.status, answer.whole),
            (200, false),
            "{script} must look cut"
        );
    }
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    bench.is_at_rest();
}

#[test]
fn after_no_connection() {
    let bench = bench(&[ONE, ("dead", ""), ("silent", ""), ("nameless", "")]);
    for (route, error) in [
        ("dead", "error=connection_refused;"),
        ("silent", "error=connection_timeout;"),
        // No answer, or none in time: as the machine's name servers are.
        ("nameless", "error=dns_"),
    ] {
        for _ in 0..3 {
            let answer = bench.ask(get(&format!("/{route}"), "ok"));
            assert_eq!(
                (answer.status, answer.reason()),
                (502, Some("upstream_connect"))
            );
            let said = answer.field("proxy-status").unwrap();
            assert!(said.contains(error), "{said}");
        }
        assert_eq!(bench.in_flight(&format!("route/{route}")), 0);
    }
}

#[test]
fn after_every_timeout() {
    let times = "[routes.timeout]\nattempt = \"300ms\"";
    let total = "[routes.timeout]\nattempt = \"9s\"\ntotal = \"300ms\"";
    let hold = "[routes.compartment]\nlimit = 1\nmax_hold = \"300ms\"";
    let idle = "[routes.timeout]\nbody_idle = \"300ms\"";
    let bench = bench(&[
        ("one", times),
        ("total", total),
        ("hold", hold),
        ("idle", idle),
    ]);
    for (path, script, reason) in [
        ("/one", "hold", "attempt_timeout"),
        ("/total", "hold", "total_timeout"),
        ("/hold", "hold", "max_hold"),
    ] {
        for _ in 0..3 {
            let start = Instant::now();
            let answer = bench.ask(get(path, script));
            assert_eq!(
                (answer.status, answer.reason()),
                (504, Some(reason)),
                "{path}"
            );
            assert!(start.elapsed() >= Duration::from_millis(300), "{path}");
            assert!(start.elapsed() < Duration::from_secs(2), "{path}");
        }
    }
    // Within a body: cut so that the client can see it, a trickle too.
    for (path, script) in [
        ("/total", "trickle"),
        ("/hold", "trickle"),
        ("/idle", "hold-body"),
        ("/hold", "hold-body"),
    ] {
        let start = Instant::now();
        let answer = bench.ask(get(path, script));
        assert_eq!(
            (answer.status, answer.whole),
            (200, false),
            "{path} {script}"
        );
        assert!(start.elapsed() < Duration::from_secs(2), "{path} {script}");
    }
    for key in ["route/total", "route/hold", "route/idle"] {
        eventually(key, || bench.in_flight(key) == 0);
    }
    eventually("every call to be cancelled", || {
        bench.stub.gone() == bench.stub.arrived()
    });
    bench.is_at_rest();
}

#[test]
fn after_a_body_that_is_too_large_broken_or_stops() {
    let bench = bench(&[ONE]);
    let chunked =
        |body: &str| request("POST", "/one", "ok", "transfer-encoding: chunked\r\n") + body;
    let announced = request("POST", "/one", "ok", "content-length: 2000000\r\n");
    let long = format!("{:x}\r\n{}\r\n", 900_000, "z".repeat(900_000)).repeat(2);
    for (request, status, reason, arrives) in [
        (announced, 413, "body_too_large", false),
        (
            chunked("zz\r\nhello\r\n0\r\n\r\n"),
            400,
            "bad_request",
            false,
        ),
        (chunked("5\r\nhelloXX0\r\n\r\n"), 400, "bad_request", true),
        (chunked(&long), 413, "body_too_large", true),
        (chunked("5\r\nhello\r\n"), 408, "request_timeout", true),
    ] {
        let before = bench.stub.arrived();
        let mut client = Client::connect(bench.at);
        // The gateway may close while this is still being written.
        drop(std::io::Write::write_all(
            &mut client.stream,
            request.as_bytes(),
        ));
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.reason()),
            (status, Some(reason)),
            "{status}"
        );
        assert_eq!(answer.field("connection"), Some("close"), "{status}");
        assert!(
            arrives || bench.stub.arrived() == before,
            "{status} reached the upstream"
        );
    }
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    bench.is_at_rest();
}

#[test]
fn at_the_head_when_a_route_says_so() {
    let heads = "[routes.compartment]\nlimit = 1\nhold_until = \"headers\"";
    let bench = bench(&[("one", heads)]);
    let mut first = bench.send(get("/one", "hold-body"));
    assert_eq!(first.head().status, 200);
    eventually("the slot", || bench.in_flight("route/one") == 0);
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    bench.stub.open();
    bench.is_at_rest();
}

#[test]
fn before_a_fallback_is_given() {
    let fallback = "compartment = { limit = 1 }\n[routes.timeout]\nattempt = \"300ms\"\n\
                    [[routes.fallback]]\nkind = \"static\"\nstatus = 203\n\
                    content_type = \"application/json\"\nbody = \"[]\"";
    let bench = bench(&[("one", fallback)]);
    let answer = bench.ask(get("/one", "hold"));
    assert_eq!((answer.status, answer.body.as_str()), (203, "[]"));
    assert_eq!(answer.reason(), Some("attempt_timeout"));
    assert_eq!(answer.field("x-bulkhead-fallback"), Some("static"));
    let mut held = bench.send(get("/one", "hold-body"));
    held.head();
    let answer = bench.ask(get("/one", "ok"));
    assert_eq!((answer.status, answer.reason()), (203, Some("route_full")));
    assert_eq!(answer.field("x-bulkhead-compartment"), Some("route/one"));
    assert_eq!(bench.figures("route/one")["rejected"]["route_full"], 1);
    // A failure of the dependency keeps its own face.
    drop(held);
    eventually("the slot", || bench.in_flight("route/one") == 0);
    assert_eq!(
        bench.ask(get("/one", "close")).reason(),
        Some("upstream_reset")
    );
    bench.is_at_rest();
}

#[test]
fn while_a_body_runs_they_are_out() {
    let bench = bench(&[ONE]);
    let mut held = bench.send(get("/one", "hold-body"));
    held.head();
    assert_eq!(bench.in_flight("route/one"), 1);
    eventually("an age", || {
        bench.figures("route/one")["oldest_permit_ms"]
            .as_u64()
            .unwrap()
            > 20
            && bench.figures("gateway")["oldest_permit_ms"]
                .as_u64()
                .unwrap()
                > 20
    });
    assert_eq!(bench.ask(get("/one", "ok")).reason(), Some("route_full"));
    bench.stub.open();
    bench.is_at_rest();
}
