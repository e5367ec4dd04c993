//! What is sent again, and what never is.

use super::*;

const TWICE: &str = "retry = { attempts = 2, budget = 0.1, window = \"10s\", \
                     idempotency_header = \"idempotency-key\" }";

fn check(bench: &Bench, request: &str, status: u16, arrivals: usize) {
    let before = bench.stub.arrived();
    let answer = bench.ask(request);
    let arrived = bench.stub.arrived() - before;
    assert_eq!((answer.status, arrived), (status, arrivals), "{request}");
}

/// `id` tells one request's arrivals from another's.
fn with(method: &str, script: &str, id: &str, more: &str) -> String {
    request(method, "/one", script, &format!("x-id: {id}\r\n{more}"))
}

#[test]
fn safe_requests_are_sent_again_after_failures() {
    let bench = bench(&[("one", TWICE)]);
    for n in 0..60 {
        check(&bench, &with("GET", "ok", &format!("warm{n}"), ""), 200, 1);
    }
    for (n, (method, script, status, arrivals)) in [
        ("GET", "close | ok", 200, 2),
        ("DELETE", "reset | ok", 200, 2),
        ("GET", "502 | ok", 200, 2),
        ("GET", "503 | ok", 200, 2),
        ("OPTIONS", "504 | ok", 200, 2),
        ("GET", "500 | ok", 500, 1),
        // The upstream says when to come back: that is for everybody.
        ("GET", "503-later | ok", 503, 1),
        ("GET", "garbage | ok", 502, 1),
        ("POST", "503 | ok", 503, 1),
        ("PATCH", "close | ok", 502, 1),
    ]
    .into_iter()
    .enumerate()
    {
        check(
            &bench,
            &with(method, script, &format!("n{n}"), ""),
            status,
            arrivals,
        );
    }
    let keyed = with("POST", "close | ok", "keyed", "idempotency-key: 1\r\n");
    check(&bench, &keyed, 200, 2);
    bench.is_at_rest();
}

#[test]
fn a_body_is_sent_again_byte_for_byte_or_not_at_all() {
    let bench = bench(&[("one", TWICE)]);
    let small = "0123456789".repeat(5_000);
    let head = format!("content-length: {}\r\n", small.len());
    check(
        &bench,
        &(with("PUT", "close | ok", "small", &head) + &small),
        200,
        2,
    );
    let chunked = format!(
        "transfer-encoding: chunked\r\n\r\n{:x}\r\n{small}\r\n0\r\n",
        small.len()
    );
    check(
        &bench,
        &with("PUT", "close | ok", "chunked", &chunked),
        200,
        2,
    );
    let bodies = bench.stub.seen().into_iter().map(|seen| seen.body);
    assert!(bodies.into_iter().all(|body| body == small.as_bytes()));
    let large = "z".repeat(70_000);
    let head = format!("content-length: {}\r\n", large.len());
    check(
        &bench,
        &(with("PUT", "close | ok", "large", &head) + &large),
        502,
        1,
    );
    bench.is_at_rest();
}

#[test]
fn never_after_the_first_byte_was_passed_on() {
    let bench = bench(&[("one", TWICE)]);
    let answer = bench.ask(with("GET", "mid | ok", "a", ""));
    assert!(!answer.whole);
    assert_eq!(bench.stub.arrived(), 1);
}

#[test]
fn a_budget_bounds_them() {
    let bench = bench(&[("one", TWICE)]);
    // Nothing has ever succeeded: three in a window are allowed.
    for n in 0..10 {
        bench.ask(with("GET", "close", &format!("n{n}"), ""));
    }
    assert_eq!(bench.stub.arrived(), 13);
    assert_eq!(bench.figures("route/one")["admitted"], 10);
}

#[test]
fn our_own_timeout_is_repeated_only_when_asked_for() {
    let times = "[routes.timeout]\nattempt = \"100ms\"";
    let on = format!(
        "compartment = {{ limit = 1 }}\n{times}\n[routes.retry]\nattempts = 2\n\
                      budget = 0.1\non = [\"timeout\"]"
    );
    let bench = bench(&[("one", &format!("{TWICE}\n{times}")), ("slow", &on)]);
    check(&bench, &with("GET", "hold | ok", "a", ""), 504, 1);
    let slow = request("GET", "/slow", "hold | ok", "x-id: b\r\n");
    check(&bench, &slow, 200, 2);
}

#[test]
fn another_endpoint_is_no_retry() {
    let bench = bench(&[("half", "compartment = { limit = 9 }")]);
    for n in 0..10 {
        let request = if n % 2 == 0 {
            get("/half", "ok")
        } else {
            post("/half", "ok", "x")
        };
        check(&bench, &request, 200, 1);
    }
}

/// One failure for each reason not to send it again, and the figures that say so.
#[test]
fn why_a_request_was_not_sent_again_is_counted() {
    let short = "retry = { attempts = 2, budget = 0.1, on = [\"timeout\"] }\n\
                 timeout = { attempt = \"250ms\", total = \"400ms\" }";
    let thrice = "compartment = { limit = 1 }\nretry = { attempts = 3, budget = 0.1 }";
    let bench = bench(&[("one", TWICE), ("short", short), ("weak", thrice)]);
    let head = "content-length: 70000\r\n";
    let large = with("PUT", "close", "large", head) + &"z".repeat(70_000);
    bench.ask(&large);
    for (method, script) in [
        ("GET", "500"),
        ("POST", "close"),
        ("GET", "503-later"),
        ("GET", "close | close"),
        ("GET", "mid"),
    ] {
        bench.ask(with(method, script, &format!("{method}{script}"), ""));
    }
    // Two more are left of the three that are always allowed.
    for n in 0..3 {
        bench.ask(with("GET", "close | ok", &format!("budget{n}"), ""));
    }
    let retry = &bench.figures("route/one")["retry"];
    let want = serde_json::json!({
        "attempts": 1, "begun": 1, "body": 1, "budget": 1, "cause": 1, "method": 1,
        "retry_after": 1
    });
    assert_eq!(retry["refused"], want, "{retry}");
    assert_eq!(
        (&retry["retries"], &retry["budget_left"]),
        (&3.into(), &0.into())
    );
    // What is left after the attempt is less than a request takes here.
    for (n, status) in [(0, 200), (1, 504)] {
        let slow = request("GET", "/short", "hold | ok", &format!("x-id: short{n}\r\n"));
        assert_eq!(bench.ask(slow).status, status);
    }
    let retry = &bench.figures("route/short")["retry"]["refused"];
    assert_eq!(retry, &serde_json::json!({ "no_time": 1 }));
    // The second of four calls that fails opens the breaker: the request is not sent again.
    let arrived = bench.stub.arrived();
    for n in 0..3 {
        bench.ask(request(
            "GET",
            "/weak",
            "404 | 404",
            &format!("x-id: calm{n}\r\n"),
        ));
    }
    bench.ask(request(
        "GET",
        "/weak",
        "close | close | close",
        "x-id: w1\r\n",
    ));
    assert_eq!(
        bench.stub.arrived(),
        arrived + 5,
        "three, one, and its repeat"
    );
    let retry = &bench.figures("route/weak")["retry"]["refused"];
    assert_eq!(retry, &serde_json::json!({ "breaker_open": 1 }));
}

/// P27: who asks, for whom, and what is left of the time: on the repeated attempt too.
#[test]
fn context_reaches_the_upstream_on_every_attempt() {
    let terms = "retry = { attempts = 2, budget = 0.1, on = [\"timeout\"] }\n\
                 timeout = { attempt = \"200ms\", deadline_header = \"x-deadline-ms\" }";
    let bench = bench(&[("one", terms)]);
    let trace = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let more = format!("x-id: a\r\nx-deadline-ms: 5000\r\ngrpc-timeout: 9S\r\n{trace}");
    let answer = bench.ask(request("GET", "/one", "hold | ok", &more));
    assert_eq!(answer.status, 200);
    let field = |head: &str, name: &str| {
        let mut lines = head.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found
            .unwrap_or_else(|| panic!("{name} in {head}"))
            .to_owned()
    };
    let seen = bench.stub.seen();
    assert_eq!(seen.len(), 2);
    let left = |at: usize| {
        field(&seen[at].head, "x-deadline-ms")
            .parse::<u64>()
            .unwrap()
    };
    let (first, second) = (left(0), left(1));
    assert!(first <= 5_000 && first > 4_000, "{first}");
    assert!(
        second <= first - 200 && second > 3_000,
        "{second} after {first}"
    );
    let grpc = |at: usize| field(&seen[at].head, "grpc-timeout");
    assert_eq!(
        (grpc(0), grpc(1)),
        (format!("{first}m"), format!("{second}m"))
    );
    for name in ["x-request-id", "x-forwarded-for", "via"] {
        assert_eq!(
            field(&seen[0].head, name),
            field(&seen[1].head, name),
            "{name}"
        );
    }
    assert_eq!(
        Some(field(&seen[1].head, "x-request-id").as_str()),
        answer.field("x-request-id")
    );
    for attempt in &seen {
        let told = field(&attempt.head, "traceparent");
        assert!(told.contains("0af7651916cd43dd8448eb211c80319c"), "{told}");
    }
}
