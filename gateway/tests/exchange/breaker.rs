//! An upstream that is not worth asking, and the way back. Kind 7 of what others got wrong.

use super::*;

const ROUTES: &[(&str, &str)] = &[
    ("weak", "compartment = { limit = 5 }"),
    ("one", "compartment = { limit = 1 }"),
];

/// Four failures of four open it for 300 ms; then two may try.
fn open(bench: &Bench) {
    for n in 0..4 {
        let answer = bench.ask(get("/weak", "500"));
        assert_eq!(answer.status, 500, "call {n}");
    }
    assert_eq!(breaker(bench)["state"], "open");
}

fn breaker(bench: &Bench) -> Value {
    bench.figures("upstream/weak")["breaker"].clone()
}

fn is_refused(answer: &Answer) -> bool {
    let reason = answer.field("x-bulkhead-reason");
    answer.status == 503 && reason == Some("breaker_open")
}

#[track_caller]
fn until_half_open(bench: &Bench) {
    eventually("half open", || {
        let told: u64 = breaker(bench)["since_ms"].as_u64().unwrap();
        told >= 300
    });
}

/// P6: it is asked before any permit, counts at the upstream alone, and the stub is left alone.
#[test]
fn an_open_breaker_spends_no_permit_and_asks_nobody() {
    let bench = bench(ROUTES);
    open(&bench);
    let (arrived, route) = (bench.stub.arrived(), bench.figures("route/weak"));
    for _ in 0..3 {
        let answer = bench.ask(get("/weak", "ok"));
        assert!(is_refused(&answer), "{answer:?}");
        assert_eq!(
            answer.field("x-bulkhead-compartment"),
            Some("upstream/weak")
        );
        let after: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=3).contains(&after), "{after}");
    }
    assert_eq!(bench.stub.arrived(), arrived);
    let now = bench.figures("route/weak");
    for count in ["arrived", "admitted", "rejected", "in_flight"] {
        assert_eq!(
            now[count], route[count],
            "{count} of the route did not move"
        );
    }
    let upstream = bench.figures("upstream/weak");
    assert_eq!(upstream["rejected"]["breaker_open"], 3);
    assert_eq!(upstream["arrived"], 7, "four calls and three refusals");
    assert_eq!(upstream["breaker"]["opened"], 1);
    assert_eq!(bench.ask(get("/one", "ok")).status, 200, "another upstream");
}

#[test]
fn two_probes_pass_at_once_and_two_good_ones_close_it() {
    let bench = bench(ROUTES);
    open(&bench);
    until_half_open(&bench);
    let arrived = bench.stub.arrived();
    let held: Vec<_> = (0..2).map(|_| bench.send(get("/weak", "hold"))).collect();
    eventually("both probes", || bench.stub.arrived() == arrived + 2);
    for _ in 0..20 {
        assert!(is_refused(&bench.ask(get("/weak", "ok"))));
    }
    // Clients that leave say nothing of the upstream: their places come back.
    drop(held);
    eventually("room for probes", || {
        bench.ask(get("/weak", "ok")).status == 200
    });
    eventually("closed", || {
        bench.ask(get("/weak", "ok")).status == 200 && breaker(&bench)["state"] == "closed"
    });
    for _ in 0..5 {
        assert_eq!(bench.ask(get("/weak", "ok")).status, 200);
    }
    assert_eq!(breaker(&bench)["closed"], 1);
}

#[test]
fn a_failed_probe_opens_it_anew() {
    let bench = bench(ROUTES);
    open(&bench);
    until_half_open(&bench);
    assert_eq!(bench.ask(get("/weak", "close")).status, 502);
    let answer = bench.ask(get("/weak", "ok"));
    assert!(is_refused(&answer) && answer.field("retry-after") != Some("0"));
    let now = breaker(&bench);
    assert_eq!(
        (&now["opened"], &now["half_opened"]),
        (&2.into(), &1.into())
    );
    until_half_open(&bench);
    assert_eq!(bench.ask(get("/weak", "ok")).status, 200);
}

/// Client errors, clients that leave and refusals of ours are no failures; cut answers are.
#[test]
fn what_counts_is_what_the_upstream_did() {
    let bench = bench(ROUTES);
    for _ in 0..8 {
        assert_eq!(bench.ask(get("/weak", "404")).status, 404);
        let arrived = bench.stub.arrived();
        let leaver = bench.send(get("/weak", "hold"));
        eventually("there", || bench.stub.arrived() > arrived);
        drop(leaver);
        eventually("gone", || bench.in_flight("route/weak") == 0);
    }
    let held: Vec<_> = (0..5).map(|_| bench.send(get("/weak", "hold"))).collect();
    eventually("full", || bench.in_flight("route/weak") == 5);
    for _ in 0..8 {
        let answer = bench.ask(get("/weak", "ok"));
        assert_eq!(answer.field("x-bulkhead-reason"), Some("route_full"));
    }
    drop(held);
    eventually("free", || bench.in_flight("route/weak") == 0);
    assert_eq!(breaker(&bench)["state"], "closed");
    // Half of the last four.
    for _ in 0..2 {
        assert!(!bench.ask(get("/weak", "mid")).whole);
    }
    eventually("open", || is_refused(&bench.ask(get("/weak", "ok"))));
}

const LINE: &[(&str, &str)] = &[
    ("weak", "compartment = { limit = 5 }"),
    (
        "line",
        "compartment = { limit = 1, queue = 4, queue_wait = \"10s\" }",
    ),
];

/// One route's line must not keep the others from finding out that their upstream is well.
#[test]
fn who_waits_in_line_is_no_probe() {
    let bench = bench(LINE);
    let held = bench.send(get("/line", "hold"));
    eventually("held", || bench.in_flight("route/line") == 1);
    open(&bench);
    until_half_open(&bench);
    let waiters: Vec<_> = (0..2).map(|_| bench.send(get("/line", "ok"))).collect();
    eventually("in line", || bench.figures("route/line")["queued"] == 2);
    assert_eq!(breaker(&bench)["state"], "half_open");
    for _ in 0..2 {
        assert_eq!(bench.ask(get("/weak", "ok")).status, 200);
    }
    assert_eq!(breaker(&bench)["state"], "closed");
    drop(held);
    for mut waiter in waiters {
        assert_eq!(waiter.answer().status, 200);
    }
}

#[test]
fn who_waited_is_asked_again_on_its_turn() {
    let bench = bench(LINE);
    let held = bench.send(get("/line", "hold"));
    eventually("held", || bench.in_flight("route/line") == 1);
    let mut waiter = bench.send(get("/line", "ok"));
    eventually("in line", || bench.figures("route/line")["queued"] == 1);
    open(&bench);
    let arrived = bench.stub.arrived();
    let before = ["upstream/weak", "route/line"].map(|key| bench.figures(key));
    drop(held);
    assert!(is_refused(&waiter.answer()));
    assert_eq!(bench.stub.arrived(), arrived);
    eventually("nothing left", || bench.in_flight("upstream/weak") == 0);
    let now = ["upstream/weak", "route/line"].map(|key| bench.figures(key));
    let more = |at: usize, name: &str| {
        let count = |of: &Value| of[name].as_u64().unwrap();
        count(&now[at]) - count(&before[at])
    };
    assert_eq!(now[0]["rejected"]["breaker_open"], 1);
    assert_eq!((more(0, "arrived"), more(0, "admitted")), (1, 0));
    let of_route = ["admitted", "left_queue", "completed"].map(|name| more(1, name));
    assert_eq!(
        of_route,
        [0, 1, 1],
        "one was completed, which had held the slot"
    );
    assert_eq!(more(0, "completed"), 1);
}

/// What is left of a request's time after our own line says nothing of the upstream.
#[test]
fn who_waited_and_is_late_is_no_failure_of_the_upstream() {
    let timeout = "compartment = { limit = 5, queue = 5, queue_wait = \"10s\" }\n\
                   [routes.timeout]\ntotal = \"2s\"";
    let bench = bench(&[("line", timeout)]);
    let held: Vec<_> = (0..5).map(|_| bench.send(get("/line", "hold"))).collect();
    eventually("held", || bench.stub.arrived() == 5);
    let waiters: Vec<_> = (0..5).map(|_| bench.send(get("/line", "hold"))).collect();
    eventually("in line", || bench.figures("route/line")["queued"] == 5);
    drop(held);
    eventually("their turn", || bench.stub.arrived() == 10);
    for mut waiter in waiters {
        let answer = waiter.answer();
        assert_eq!(answer.field("x-bulkhead-reason"), Some("total_timeout"));
    }
    let now = breaker(&bench);
    assert_eq!(
        (&now["state"], &now["opened"]),
        (&"closed".into(), &0.into())
    );
}

/// A head without the body that it promises.
fn upload(bench: &Bench) -> Client {
    bench.send(request("POST", "/weak", "ok", "content-length: 9\r\n"))
}

#[test]
fn slow_clients_keep_no_probes_places() {
    let bench = bench_with("body_idle_timeout = \"20s\"", ROUTES);
    open(&bench);
    until_half_open(&bench);
    let uploads: Vec<_> = (0..2).map(|_| upload(&bench)).collect();
    eventually("both", || bench.in_flight("route/weak") == 2);
    eventually("room for others", || {
        bench.ask(get("/weak", "ok")).status == 200
    });
    assert_eq!(bench.in_flight("route/weak"), 2, "they are still coming");
    drop(uploads);
}

#[test]
fn what_slow_clients_use_up_is_no_failure_of_the_upstream() {
    let timeout = "compartment = { limit = 5 }\n[routes.timeout]\ntotal = \"300ms\"";
    let bench = bench_with("body_idle_timeout = \"20s\"", &[("weak", timeout)]);
    let uploads: Vec<_> = (0..5).map(|_| upload(&bench)).collect();
    for mut one in uploads {
        let answer = one.answer();
        assert_eq!(answer.field("x-bulkhead-reason"), Some("total_timeout"));
    }
    let now = breaker(&bench);
    assert_eq!(
        (&now["state"], &now["opened"]),
        (&"closed".into(), &0.into())
    );
}
