//! Connections that take their time, or never come.

use super::http2_upstream::{Log, Upstream, WIDE, at_rest, before};
use super::*;

const CONNECT: Duration = Duration::from_millis(500);

/// An upstream whose endpoint never answers; the route `h2` leads there.
fn before_silence(http2: bool) -> (Stub, Bench) {
    let silent = Stub::start();
    let at = silent.silent();
    let upstream =
        format!("endpoints = [\"http://{at}\"]\nhttp2 = {http2}\nconnect_timeout = \"500ms\"");
    let bench = bench_over(&upstream, "", &[("h2", WIDE)]);
    (silent, bench)
}

#[test]
fn the_time_to_connect_counts_once() {
    for http2 in [false, true] {
        let (_silent, bench) = before_silence(http2);
        let asked = Instant::now();
        let answer = bench.ask(get("/h2", ""));
        let after = asked.elapsed();
        let told = (answer.status, answer.reason());
        assert_eq!(told, (502, Some("upstream_connect")), "{http2}");
        assert!(
            after >= CONNECT && after < CONNECT * 3 / 2,
            "{http2}: {after:?}"
        );
        at_rest(&bench);
    }
}

#[test]
fn nobody_dials_one_after_another_at_a_silent_upstream() {
    let (_silent, bench) = before_silence(true);
    let asked = Instant::now();
    let mut all: Vec<Client> = (0..50).map(|_| bench.send(get("/h2", ""))).collect();
    for client in &mut all {
        let answer = client.answer();
        assert_eq!(
            (answer.status, answer.reason()),
            (502, Some("upstream_connect"))
        );
    }
    let after = asked.elapsed();
    assert!(after < CONNECT * 2, "{after:?}");
    at_rest(&bench);
}

#[test]
fn whoever_dialled_and_leaves_cancels_it_for_nobody() {
    let upstream = Upstream::start(100, 1, "late");
    let bench = before(&upstream, WIDE);
    let first = bench.send(get("/h2", ""));
    eventually("the dial", || Log::of(&upstream.log.connections) == 1);
    let mut others: Vec<Client> = (0..10).map(|_| bench.send(get("/h2", ""))).collect();
    eventually("all of them", || bench.in_flight("route/h2") == 11);
    first.reset();
    for client in &mut others {
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(Log::of(&upstream.log.connections), 1);
    assert_eq!(Log::of(&upstream.log.requests), 10);
    at_rest(&bench);
}

#[test]
fn more_endpoints_than_one_share_the_time_to_connect() {
    let stub = Stub::start();
    let (other, third) = (Stub::start(), Stub::start());
    let upstream = format!(
        "endpoints = [\"http://{}\", \"http://{}\", \"http://{}\"]\nconnect_timeout = \"900ms\"",
        stub.silent(),
        other.silent(),
        third.at
    );
    let bench = bench_over(&upstream, "", &[("h2", WIDE)]);
    for _ in 0..6 {
        let asked = Instant::now();
        assert_eq!(bench.ask(get("/h2", "ok")).status, 200);
        assert!(
            asked.elapsed() < Duration::from_millis(900),
            "{:?}",
            asked.elapsed()
        );
    }
    assert_eq!(third.arrived(), 6);
}
