//! Whoever is slow, a bound ends it: within its time, with its own reason, so that a cut answer
//! never looks whole. Over both protocols, for the bounds are kept in different places.

use ::h2::Reason;

use super::*;
use crate::h2::H2;

const STALL: &str = "write_stall = \"300ms\"\nbody_idle_timeout = \"10s\"";
const STALL_TIME: Duration = Duration::from_millis(300);
/// A bound, and a second more.
const IN_TIME: Duration = Duration::from_millis(1_300);
/// Long enough not to be the bound that a test means.
const TIMES: &str = "[routes.timeout]\nattempt = \"9s\"\ntotal = \"9s\"";

/// Waits for the slot of `one`, and for the end of the upstream call; tells how long it took.
#[track_caller]
fn freed(bench: &Bench, since: Instant) -> Duration {
    eventually("the slot", || bench.in_flight("route/one") == 0);
    let after = since.elapsed();
    eventually("the upstream to be let go", || {
        bench.stub.gone() == bench.stub.arrived()
    });
    after
}

#[track_caller]
fn ended_once(bench: &Bench, reason: &str) {
    eventually(reason, || bench.ended(reason) == 1);
    for other in [
        "slow_client",
        "client_gone",
        "total_timeout",
        "max_hold",
        "upstream_reset",
        "request_timeout",
        "bad_request",
        "body_too_large",
    ] {
        let count = bench.ended(other);
        assert_eq!(count, u64::from(other == reason), "{other} for {reason}");
    }
}

#[test]
fn a_client_that_does_not_read_over_http1() {
    for hold_until in ["body", "headers"] {
        let more = format!("compartment = {{ limit = 1, hold_until = \"{hold_until}\" }}\n{TIMES}");
        let bench = bench_with(STALL, &[("one", &more)]);
        let start = Instant::now();
        let mut client = bench.send(get("/one", "endless"));
        assert_eq!(client.head().status, 200);
        let after = freed(&bench, start);
        assert!(after < IN_TIME + STALL_TIME, "{after:?}");
        ended_once(&bench, "slow_client");
    }
}

#[test]
fn a_client_that_does_not_read_one_stream_of_http2() {
    // No room from the start, room for one frame, room for many.
    for window_bytes in [0, 16_384, 1 << 20] {
        let more = format!("compartment = {{ limit = 1 }}\n{TIMES}");
        let many = ("many", "compartment = { limit = 9 }");
        let bench = bench_with(STALL, &[("one", &more), many]);
        let mut client = H2::connect(bench.at, window_bytes);
        let start = Instant::now();
        let mut deaf = client.get("/one", "endless");
        assert_eq!(client.head(&mut deaf).0, 200);
        assert_eq!(bench.in_flight("route/one"), 1);
        eventually("the slot", || {
            // The others on the connection go on meanwhile; with no window nobody can.
            assert!(window_bytes == 0 || client.is_served("/many"));
            bench.in_flight("route/one") == 0
        });
        let after = start.elapsed();
        assert!(after >= STALL_TIME && after < IN_TIME, "{after:?}");
        let reset = client.cut(&mut deaf);
        assert_eq!(reset, Some(Reason::CANCEL), "window {window_bytes}");
        ended_once(&bench, "slow_client");
        assert!(window_bytes == 0 || client.is_served("/many"));
        eventually("the upstream to be let go", || bench.stub.gone() == 1);
        bench.is_at_rest();
    }
}

#[test]
fn a_client_that_reads_slowly_is_served() {
    let bench = bench_with("write_stall = \"1500ms\"", &[("one", TIMES)]);
    let mut client = H2::connect(bench.at, 16_384);
    let mut slow = client.get("/one", "large");
    assert_eq!(client.head(&mut slow).0, 200);
    // 16 KiB in a third of the bound; what the gateway has read of the answer takes longer.
    let mut read = 0;
    while read < 100_000 {
        read += client.piece(&mut slow);
        std::thread::sleep(Duration::from_millis(250));
    }
    assert_eq!(
        client.body(&mut slow).map(|rest| rest.len() + read),
        Ok(200_000)
    );
    assert_eq!(bench.ended("slow_client"), 0);
    bench.is_at_rest();
}

#[test]
fn the_whole_exchange_goes_first_when_bounds_run_out_together() {
    let both = "[routes.timeout]\nattempt = \"300ms\"\ntotal = \"300ms\"";
    let hold = "compartment = { limit = 1, max_hold = \"300ms\" }";
    let all = format!("{hold}\n{both}");
    for (more, reason) in [
        (both, "total_timeout"),
        (&all, "total_timeout"),
        (hold, "max_hold"),
    ] {
        let one = bench_with(STALL, &[("one", more)]);
        let mut client = one.send(get("/one", "endless"));
        assert_eq!(client.head().status, 200);
        assert!(freed(&one, Instant::now()) < IN_TIME);
        ended_once(&one, reason);

        let two = bench_with(STALL, &[("one", more)]);
        let mut client = H2::connect(two.at, 65_535);
        let mut asked = client.get("/one", "endless");
        assert_eq!(client.head(&mut asked).0, 200);
        assert!(freed(&two, Instant::now()) < IN_TIME);
        client.cut(&mut asked);
        ended_once(&two, reason);
    }
    // Before a head: the attempt's clock and the exchange's, at one time.
    let bench = bench_with(STALL, &[("one", both)]);
    assert_eq!(
        bench.ask(get("/one", "hold")).reason(),
        Some("total_timeout")
    );
}

#[test]
fn an_upstream_that_trickles_or_stops() {
    let total = "[routes.timeout]\nattempt = \"9s\"\ntotal = \"300ms\"";
    let hold = "compartment = { limit = 1, max_hold = \"300ms\" }";
    let idle = "[routes.timeout]\nbody_idle = \"300ms\"";
    for (more, script, reason) in [
        (total, "trickle", "total_timeout"),
        (hold, "trickle", "max_hold"),
        (idle, "hold-body", "upstream_reset"),
    ] {
        let one = bench_with(STALL, &[("one", more)]);
        let start = Instant::now();
        let answer = one.ask(get("/one", script));
        assert_eq!((answer.status, answer.whole), (200, false), "{reason}");
        let after = freed(&one, start);
        assert!(after >= STALL_TIME && after < IN_TIME, "{reason} {after:?}");
        ended_once(&one, reason);

        let two = bench_with(STALL, &[("one", more)]);
        let mut client = H2::connect(two.at, 65_535);
        let start = Instant::now();
        let mut asked = client.get("/one", script);
        assert_eq!(client.head(&mut asked).0, 200);
        assert!(client.body(&mut asked).is_err(), "{reason} must look cut");
        let after = freed(&two, start);
        assert!(after >= STALL_TIME && after < IN_TIME, "{reason} {after:?}");
        ended_once(&two, reason);
        two.is_at_rest();
    }
}

#[test]
fn an_upstream_that_does_not_answer() {
    let attempt = "[routes.timeout]\nattempt = \"300ms\"";
    let total = "[routes.timeout]\nattempt = \"9s\"\ntotal = \"300ms\"";
    let hold = "compartment = { limit = 1, max_hold = \"300ms\" }";
    for (more, reason) in [
        (attempt, "attempt_timeout"),
        (total, "total_timeout"),
        (hold, "max_hold"),
    ] {
        let bench = bench_with(STALL, &[("one", more)]);
        let mut client = H2::connect(bench.at, 65_535);
        let start = Instant::now();
        let mut asked = client.get("/one", "hold");
        let (status, headers) = client.head(&mut asked);
        assert_eq!(
            (status, &headers["x-bulkhead-reason"]),
            (504, &reason.parse().unwrap())
        );
        let after = freed(&bench, start);
        assert!(after >= STALL_TIME && after < IN_TIME, "{reason} {after:?}");
        bench.is_at_rest();
    }
}

#[test]
fn a_body_that_stops_before_the_answer() {
    let idle = "[routes.timeout]\nbody_idle = \"300ms\"";
    let bench = bench_with(STALL, &[("one", idle)]);
    let start = Instant::now();
    let upload = request("POST", "/one", "ok", "content-length: 50\r\n") + "part";
    let answer = bench.ask(upload);
    assert_eq!(
        (answer.status, answer.reason()),
        (408, Some("request_timeout"))
    );
    assert!(start.elapsed() < IN_TIME);

    let mut client = H2::connect(bench.at, 65_535);
    let start = Instant::now();
    let mut asked = client.send("POST", "/one", "ok", false);
    asked.upload.send_data("part".into(), false).unwrap();
    let (status, headers) = client.head(&mut asked);
    assert_eq!(
        (status, &headers["x-bulkhead-reason"]),
        (408, &"request_timeout".parse().unwrap())
    );
    assert!(start.elapsed() < IN_TIME);
    eventually("the upstream to be let go", || bench.stub.gone() == 2);
    bench.is_at_rest();
}

#[test]
fn a_body_that_stops_while_the_answer_is_there_is_the_clients_doing() {
    let idle = "[routes.timeout]\nbody_idle = \"300ms\"";
    let upload = request("POST", "/one", "answer-first", "content-length: 50\r\n");
    let one = bench_with(STALL, &[("one", idle)]);
    let start = Instant::now();
    let mut client = one.send(upload + "part");
    let answer = client.answer();
    assert_eq!((answer.status, answer.whole), (200, false));
    let after = freed(&one, start);
    assert!(after >= STALL_TIME && after < IN_TIME, "{after:?}");
    ended_once(&one, "request_timeout");
    one.is_at_rest();

    let two = bench_with(STALL, &[("one", idle)]);
    let mut client = H2::connect(two.at, 65_535);
    let start = Instant::now();
    let mut asked = client.send("POST", "/one", "answer-first", false);
    asked.upload.send_data("part".into(), false).unwrap();
    assert_eq!(client.head(&mut asked).0, 200);
    assert!(client.body(&mut asked).is_err(), "must look cut");
    let after = freed(&two, start);
    assert!(after >= STALL_TIME && after < IN_TIME, "{after:?}");
    ended_once(&two, "request_timeout");
    two.is_at_rest();
}

#[test]
fn a_broken_body_while_the_answer_is_there_is_the_clients_doing() {
    let chunked = |body: &str| {
        request(
            "POST",
            "/one",
            "answer-first",
            "transfer-encoding: chunked\r\n",
        ) + body
    };
    let large = format!("{:x}\r\n{}\r\n", 600_000, "z".repeat(600_000));
    for (rest, reason) in [
        ("5\r\nhelloXX0\r\n\r\n", "bad_request"),
        (&large.repeat(2), "body_too_large"),
    ] {
        let bench = bench_with(STALL, &[("one", TIMES)]);
        let mut client = bench.send(chunked("2\r\nok\r\n"));
        assert_eq!(client.head().status, 200);
        // The gateway may close while this is still being written.
        drop(std::io::Write::write_all(
            &mut client.stream,
            rest.as_bytes(),
        ));
        freed(&bench, Instant::now());
        ended_once(&bench, reason);
        bench.is_at_rest();
    }
}
