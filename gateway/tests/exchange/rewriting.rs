//! What a route changes on the way, in both directions.

use super::*;

const RULES: &str = "rewrite = { strip_prefix = \"/one\", host = \"inner.test:8080\" }\n\
    headers = { request_set = { x-env = \"prod\", user-agent = \"gw\" }, \
    request_remove = [\"x-debug\", \"authorization\"], \
    response_set = { cache-control = \"no-store\" }, response_remove = [\"X-N\", \"server\"] }";

#[test]
fn the_upstream_sees_what_the_route_says() {
    let bench = bench(&[("one", RULES)]);
    for (sent, want) in [
        ("/one", "/"),
        ("/one/", "/"),
        ("/one/a/b?x=/one&y", "/a/b?x=/one&y"),
        ("/one?x", "/?x"),
        ("/on%65/%61", "/a"),
    ] {
        let fields = "x-env: mine\r\nX-Debug: 1\r\nauthorization: secret\r\nx-kept: 1\r\n";
        let answer = bench.ask(request("GET", sent, "ok", fields));
        assert_eq!(answer.status, 200, "{sent}");
        let head = bench.stub.seen().last().unwrap().head.to_lowercase();
        let first = format!("get {want} http/1.1");
        assert_eq!(head.lines().next(), Some(&*first), "{sent}");
        for field in [
            "host: inner.test:8080",
            "x-env: prod",
            "user-agent: gw",
            "x-kept: 1",
            "x-forwarded-host: gw.test",
        ] {
            let count = head.lines().filter(|line| *line == field).count();
            assert_eq!(count, 1, "{sent}: {field}\n{head}");
        }
        for gone in ["x-debug:", "authorization:", "x-env: mine", "host: gw.test"] {
            assert!(
                !head.lines().any(|line| line.starts_with(gone)),
                "{gone}\n{head}"
            );
        }
    }
}

#[test]
fn the_client_sees_what_the_route_says_and_our_own_fields_stay() {
    let bench = bench(&[("one", RULES), ("two", "")]);
    let plain = bench.ask(get("/two", "fields"));
    assert!(plain.field("x-n").is_some() && plain.field("cache-control").is_none());
    let answer = bench.ask(get("/one", "fields"));
    assert_eq!((answer.status, answer.field("x-n")), (200, None));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    assert!(answer.field("x-request-id").is_some());
}

#[test]
fn paths_that_would_leave_their_prefix_never_arrive() {
    let bench = bench(&[("one", RULES)]);
    for sent in [
        "/one/../two",
        "/one//evil.test/x",
        "/one/%2e%2e/two",
        "/one\\x",
    ] {
        let answer = bench.ask(get(sent, "ok"));
        assert!(
            matches!(answer.status, 400 | 404),
            "{sent}: {}",
            answer.status
        );
    }
    assert_eq!(bench.stub.arrived(), 0);
}
