//! Which connection a request is sent over.

use super::*;

#[test]
fn the_last_used_is_used_again() {
    let bench = bench(&[("one", "")]);
    for script in ["ok", "chunks", "204", "304", "ok", "interim", "fields"] {
        assert!(bench.ask(get("/one", script)).status < 400, "{script}");
    }
    assert_eq!(bench.ask(post("/one", "ok", "body")).status, 200);
    assert_eq!(bench.stub.connections(), 1);
}

#[test]
fn compartments_share_none() {
    let bench = bench(&[("one", ""), ("two", "")]);
    for _ in 0..3 {
        bench.ask(get("/one", "ok"));
        bench.ask(get("/two", "ok"));
    }
    let seen = bench.stub.seen();
    let over: Vec<usize> = seen.iter().map(|seen| seen.over).collect();
    assert_eq!(over, [1, 2, 1, 2, 1, 2]);
}

#[test]
fn one_that_is_not_clean_is_never_used_again() {
    let bench = bench(&[("one", "")]);
    let mut connections = 0;
    for script in ["surplus", "bad-chunk", "mid", "old", "early"] {
        let before = bench.stub.connections();
        // A body that the upstream does not read, for `early`.
        let upload = request("POST", "/one", script, "content-length: 500000\r\n");
        let mut client = bench.send(if script == "early" {
            upload + &"z".repeat(1_000)
        } else {
            get("/one", script)
        });
        client.answer();
        drop(client);
        eventually("the slot", || bench.in_flight("route/one") == 0);
        let answer = bench.ask(get("/one", "ok"));
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (200, "ok"),
            "after {script}"
        );
        assert!(bench.stub.connections() > before, "after {script}");
        connections = bench.stub.connections();
    }
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    assert_eq!(bench.stub.connections(), connections, "a clean one is");
}

#[test]
fn one_that_was_closed_while_idle_costs_nothing() {
    let bench = bench(&[("one", "")]);
    for n in 0..50 {
        // Not to be repeated, so a failure would be seen.
        let answer = bench.ask(post("/one", "ok-close", "pay"));
        assert_eq!(answer.status, 200, "request {n}");
        eventually("its close", || bench.stub.closed() == n + 1);
    }
    assert_eq!((bench.stub.arrived(), bench.stub.connections()), (50, 50));
}

#[test]
fn cancelled_calls_are_not_reused_and_never_mixed_up() {
    let bench = bench(&[("one", "compartment = { limit = 5 }")]);
    for _ in 0..20 {
        drop(bench.send(get("/one", "hold")));
        drop(bench.send(get("/one", "hold-body")));
    }
    // All of them, also those whose client was gone before the gateway looked.
    eventually("every request", || {
        bench.figures("route/one")["arrived"] == 40
    });
    bench.is_at_rest();
    for _ in 0..10 {
        assert_eq!(bench.ask(get("/one", "ok")).body, "ok");
    }
}
