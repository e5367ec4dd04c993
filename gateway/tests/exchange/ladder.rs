//! What stands in for an answer: who leaves during a step takes nothing along, what fails makes
//! way for the next one, and nothing is sent or given twice that must not be.

use super::*;

/// Another name for the same stub: what is shared shows there.
const OTHER: &str = "compartment = { limit = 1 }\n[routes.timeout]\nattempt = \"300ms\"\n\
                     [[routes.fallback]]\nkind = \"upstream\"\nupstream = \"other\"\nlimit = 2\n";
const STATIC: &str = "[[routes.fallback]]\nkind = \"static\"\nstatus = 203\nbody = \"fixed\"\n";
const STALE: &str = "compartment = { limit = 1 }\n[routes.timeout]\nattempt = \"300ms\"\n\
                     [[routes.fallback]]\nkind = \"stale\"\nmax_age = \"60s\"\n";

/// One request, whose arrivals at the stub follow the script.
fn with_id(method: &str, id: &str, script: &str, more: &str) -> String {
    request(method, "/one", script, &format!("x-id: {id}\r\n{more}"))
}

fn steps(bench: &Bench) -> Value {
    bench.figures("route/one")["fallbacks"].clone()
}

/// The one slot of the route, until the stub is opened.
fn fill(bench: &Bench) -> Client {
    let mut held = bench.send(with_id("GET", "held", "hold-body", ""));
    assert_eq!(held.head().status, 200);
    held
}

#[test]
fn who_leaves_during_a_step_takes_no_slot_along() {
    let bench = bench(&[("one", OTHER)]);
    let held = fill(&bench);
    let upload = with_id("POST", "u", "ok", "content-length: 50\r\n") + "part";
    let cases = [
        ("waits for the head", with_id("GET", "w", "hold", ""), false),
        ("uploads", upload, false),
        (
            "reads a body that stops",
            with_id("GET", "b", "hold-body", ""),
            true,
        ),
        (
            "reads a body without end",
            with_id("GET", "e", "endless", ""),
            true,
        ),
    ];
    for by_reset in [false, true] {
        for (phase, request, has_head) in &cases {
            for _ in 0..3 {
                let (gone, arrived) = (bench.stub.gone(), bench.stub.arrived());
                let mut client = bench.send(request);
                eventually("the request at the stub", || bench.stub.arrived() > arrived);
                if *has_head {
                    let head = client.head();
                    assert_eq!(
                        head.field("x-bulkhead-fallback"),
                        Some("upstream"),
                        "{phase}"
                    );
                }
                assert_eq!(bench.in_flight("route/one/fallback"), 1, "{phase}");
                if by_reset {
                    client.reset();
                } else {
                    drop(client);
                }
                eventually(phase, || bench.in_flight("route/one/fallback") == 0);
                eventually("the upstream to be let go", || bench.stub.gone() > gone);
            }
        }
    }
    let answer = bench.ask(with_id("GET", "last", "ok", ""));
    assert_eq!((answer.status, answer.reason()), (200, Some("route_full")));
    bench.stub.open();
    drop(held);
    for key in ["route/one/fallback", "upstream/other"] {
        let seen = bench.figures(key);
        assert_eq!(
            (&seen["in_flight"], &seen["admitted"]),
            (&0.into(), &seen["completed"])
        );
    }
    bench.is_at_rest();
}

#[test]
fn what_a_step_cannot_answer_the_next_one_does() {
    let bench = bench(&[("one", &(OTHER.to_owned() + STATIC)), ("two", "")]);
    let held = fill(&bench);
    for (script, why) in [
        ("500", "status_5xx"),
        ("503-later", "status_5xx"),
        ("close", "reset"),
        ("garbage", "reset"),
        ("two-lengths", "reset"),
        ("hold", "timeout"),
    ] {
        let answer = bench.ask(with_id("GET", script, script, ""));
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (203, "fixed"),
            "{script}"
        );
        assert_eq!(
            answer.field("x-bulkhead-fallback"),
            Some("static"),
            "{script}"
        );
        assert_eq!(answer.reason(), Some("route_full"), "{script}");
        assert!(
            steps(&bench)[0]["failures"][why].as_u64() > Some(0),
            "{script}"
        );
        assert_eq!(bench.in_flight("route/one/fallback"), 0, "{script}");
    }
    // What the other upstream says of the request is an answer.
    let answer = bench.ask(with_id("GET", "304", "304", ""));
    assert_eq!(
        (answer.status, answer.field("x-bulkhead-fallback")),
        (304, Some("upstream"))
    );
    let seen = steps(&bench);
    assert_eq!(
        (&seen[0]["kind"], &seen[1]["kind"]),
        (&"upstream".into(), &"static".into())
    );
    assert_eq!(
        (&seen[0]["answers"], &seen[0]["failed"]),
        (&1.into(), &6.into())
    );
    assert_eq!(
        (&seen[1]["answers"], &seen[1]["failed"]),
        (&6.into(), &0.into())
    );
    assert!(seen[1]["last_answer_ms"].as_u64().is_some());
    // Two hold its slots: the third gets the fixed answer at once.
    let mut others: Vec<Client> = Vec::new();
    for id in ["x", "y"] {
        let mut other = bench.send(with_id("GET", id, "hold-body", ""));
        assert_eq!(other.head().field("x-bulkhead-fallback"), Some("upstream"));
        others.push(other);
    }
    assert_eq!(bench.ask(with_id("GET", "z", "ok", "")).status, 203);
    assert_eq!(
        bench.figures("route/one/fallback")["rejected"]["route_full"],
        1
    );
    drop((held, others));
    bench.stub.open();
    bench.is_at_rest();
}

#[test]
fn an_upstream_that_is_away_makes_way_for_the_next_step() {
    let dead = OTHER.replace("\"other\"", "\"dead\"") + STATIC;
    let bench = bench(&[("one", &dead)]);
    let held = fill(&bench);
    assert_eq!(bench.ask(with_id("GET", "a", "ok", "")).status, 203);
    assert_eq!(steps(&bench)[0]["failures"]["connect"], 1);
    drop(held);
    bench.is_at_rest();
}

#[test]
fn calls_and_their_fallback_share_no_connection() {
    let bench = bench(&[("one", OTHER)]);
    for n in 0..5 {
        assert_eq!(
            bench
                .ask(with_id("GET", &format!("own{n}"), "ok", ""))
                .reason(),
            None
        );
        let answer = bench.ask(with_id("GET", &format!("both{n}"), "hold | ok", ""));
        assert_eq!(answer.reason(), Some("attempt_timeout"));
        assert_eq!(answer.field("x-bulkhead-fallback"), Some("upstream"));
    }
    let seen = bench.stub.seen();
    let over = |wanted: bool| {
        let mut arrivals = std::collections::HashMap::new();
        let mut over = std::collections::BTreeSet::new();
        for one in &seen {
            let id = one
                .head
                .lines()
                .find(|line| line.starts_with("x-id: "))
                .unwrap();
            let earlier = arrivals.insert(id, ()).is_some();
            if earlier == wanted {
                over.insert(one.over);
            }
        }
        over
    };
    let (own, fallback) = (over(false), over(true));
    assert!(own.is_disjoint(&fallback), "{own:?} {fallback:?}");
    // It is kept from one fallback to the next, and the two kinds of fields reach it unchanged.
    assert_eq!(fallback.len(), 1);
    let last = seen.last().unwrap();
    for field in [
        "x-request-id: ",
        "traceparent: ",
        "via: ",
        "x-forwarded-for: ",
    ] {
        assert!(last.head.contains(field), "{field} in {}", last.head);
    }
    bench.is_at_rest();
}

#[test]
fn what_may_have_been_acted_on_is_not_sent_elsewhere() {
    let bench = bench(&[("one", &(OTHER.to_owned() + STATIC))]);
    let body = "b".repeat(50_000);
    let length = format!("content-length: {}\r\n", body.len());
    // It may be done: no second one.
    let answer = bench.ask(with_id("POST", "a", "hold | ok", &length) + &body);
    assert_eq!(
        (answer.status, answer.reason()),
        (203, Some("attempt_timeout"))
    );
    assert_eq!(bench.stub.arrived(), 1);
    assert_eq!(steps(&bench)[0]["failures"]["not_repeatable"], 1);
    // Twice is as good as once: sent again, byte for byte.
    let answer = bench.ask(with_id("PUT", "b", "hold | ok", &length) + &body);
    assert_eq!(
        (answer.status, answer.field("x-bulkhead-fallback")),
        (200, Some("upstream"))
    );
    assert_eq!(bench.stub.seen().last().unwrap().body, body.as_bytes());
    assert_eq!(bench.stub.arrived(), 3);
    // Larger than what is kept: not at all.
    let large = "l".repeat(100_000);
    let length_large = format!("content-length: {}\r\n", large.len());
    let answer = bench.ask(with_id("PUT", "c", "hold | ok", &length_large) + &large);
    assert_eq!((answer.status, bench.stub.arrived()), (203, 4));
    // Never sent, it goes there whole, whatever its method and size.
    let held = fill(&bench);
    let answer = bench.ask(with_id("POST", "d", "ok", &length_large) + &large);
    assert_eq!(
        (answer.status, answer.field("x-bulkhead-fallback")),
        (200, Some("upstream"))
    );
    assert_eq!(bench.stub.seen().last().unwrap().body, large.as_bytes());
    drop(held);
    bench.is_at_rest();
}

#[test]
fn a_fallback_has_what_the_total_leaves_and_no_more() {
    let total = OTHER.replace("attempt = \"300ms\"", "attempt = \"9s\"\ntotal = \"300ms\"");
    let bench = bench(&[("one", &(total + STATIC))]);
    let began = Instant::now();
    let answer = bench.ask(with_id("GET", "a", "hold | ok", ""));
    assert_eq!(
        (answer.status, answer.reason()),
        (203, Some("total_timeout"))
    );
    assert_eq!(steps(&bench)[0]["failures"]["no_time_left"], 1);
    let held = fill(&bench);
    let answer = bench.ask(with_id("GET", "b", "hold", ""));
    assert_eq!((answer.status, answer.reason()), (203, Some("route_full")));
    assert_eq!(steps(&bench)[0]["failures"]["timeout"], 1);
    assert!(began.elapsed() < Duration::from_secs(3));
    drop(held);
    bench.is_at_rest();
}

#[test]
fn only_what_came_whole_is_stored() {
    let bench = bench(&[("one", STALE)]);
    let stored = |script: &str| {
        let path = format!("/one/{script}");
        let client = bench.send(get(&path, script));
        if script == "endless" {
            // Its client leaves in the middle.
            let mut client = client;
            client.head();
            drop(client);
        } else {
            let mut client = client;
            client.answer();
        }
        eventually(script, || bench.in_flight("route/one") == 0);
        let held = fill(&bench);
        let answer = bench.ask(get(&path, "ok"));
        drop(held);
        eventually("the slot", || bench.in_flight("route/one") == 0);
        (answer.status == 200).then(|| {
            assert_eq!(answer.field("x-bulkhead-fallback"), Some("stale"));
            assert_eq!(answer.reason(), Some("route_full"));
            let field = |name| answer.field(name).map(str::to_owned);
            assert_eq!(field("age").as_deref(), Some("0"), "{script}");
            assert!(
                field("cache-status")
                    .unwrap()
                    .starts_with("bulkhead; hit; ttl=")
            );
            assert!(field("date").is_some() && field("x-request-id").is_some());
            answer.body
        })
    };
    for script in ["ok", "chunks"] {
        assert_eq!(stored(script).as_deref(), Some("ok"), "{script}");
    }
    for script in [
        "mid",
        "bad-chunk",
        "old",
        "trailers",
        "500",
        "endless",
        "fields",
    ] {
        let kept = stored(script);
        assert_eq!(kept.is_some(), script == "fields", "{script}: {kept:?}");
    }
    bench.is_at_rest();
}

#[test]
fn head_is_answered_from_what_get_was() {
    let bench = bench(&[("one", STALE)]);
    bench.ask(get("/one?q=1", "ok"));
    let held = fill(&bench);
    let mut client = bench.send(request("HEAD", "/one?q=1", "ok", ""));
    let head = client.head();
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("2"))
    );
    assert_eq!(head.field("x-bulkhead-fallback"), Some("stale"));
    // Nothing but the head was sent: the next answer begins where it should.
    client.send(get("/one?q=1", "ok"));
    assert_eq!(client.answer().body, "ok");
    for other in ["/one?q=2", "/one?q=1&", "/one/?q=1", "/one"] {
        assert_eq!(bench.ask(get(other, "ok")).status, 503, "{other}");
    }
    let seen = steps(&bench);
    assert_eq!(
        (&seen[0]["answers"], &seen[0]["failures"]["nothing_stored"]),
        (&2.into(), &4.into())
    );
    drop(held);
    bench.is_at_rest();
}

#[test]
fn who_asks_for_no_stored_answer_or_a_younger_one_gets_none() {
    let patient = STALE.replace("300ms\"", "300ms\"\nbody_idle = \"20s\"");
    let bench = bench(&[("one", &(patient + STATIC))]);
    bench.ask(get("/one", "ok"));
    let held = fill(&bench);
    let given = |control: &str| {
        let answer = bench.ask(request("GET", "/one", "ok", control));
        answer.field("x-bulkhead-fallback").unwrap().to_owned()
    };
    assert_eq!(given(""), "stale");
    for control in [
        "no-cache",
        "no-store",
        "min-fresh=1",
        "max-age=60, no-cache",
    ] {
        assert_eq!(
            given(&format!("cache-control: {control}\r\n")),
            "static",
            "{control}"
        );
    }
    // In whole seconds, as ages are told.
    eventually("it to be older than nothing", || {
        given("cache-control: max-age=0\r\n") == "static"
    });
    assert_eq!(given("cache-control: max-age=60\r\n"), "stale");
    drop(held);
    bench.is_at_rest();
}
