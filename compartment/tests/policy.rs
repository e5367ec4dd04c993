//! Whole documents through `check`: what is accepted, and every way to be refused. Separate from
//! the files under test because a rule is only as good as the path it names; a case must never
//! call a decoder by itself.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use compartment::policy::*;
use compartment::{Class, Limit};

const GOOD: &str = r#"
schema = 1
[gateway]
capacity = 200
[identify]
by = [{ api_key = { header = "X-API-Key" } }, { host = {} }]
[plans.free]
limit = 5
routes = { a = 2 }
[tenants.acme]
plan = "free"
[upstreams.main]
endpoints = ["http://127.0.0.1:9001"]
[[routes]]
id = "a"
path = "/a"
upstream = "main"
compartment = { limit = 30 }
[[routes]]
id = "b"
path = "/b"
upstream = "main"
compartment = { limit = 30 }
"#;

fn read(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

fn path(pointer: &str) -> Path {
    Path::from_pointer(pointer).unwrap()
}

/// The good document with the value at `pointer` replaced by the TOML `value`.
fn with(pointer: &str, value: &str) -> Value {
    edit(read(GOOD), pointer, value)
}

fn edit(mut document: Value, pointer: &str, value: &str) -> Value {
    let value = match value {
        "null" => Value::Null,
        value => read(&format!("v = {value}")).get("v").unwrap().clone(),
    };
    assert!(document.set(&path(pointer), value), "{pointer}");
    document
}

fn without(pointer: &str) -> Value {
    let mut document = read(GOOD);
    assert!(document.remove(&path(pointer)), "{pointer}");
    document
}

/// Refused with exactly one fault: at this path, showing this value, with these words.
fn refused(document: &Value, at: &str, value: &str, words: &[&str]) {
    let faults = check(document).expect_err(at);
    let seen: Vec<(String, &str)> = faults
        .iter()
        .map(|fault| (fault.path.to_string(), fault.value.as_str()))
        .collect();
    assert_eq!(seen, [(at.to_owned(), value)], "{faults:?}");
    for word in words {
        assert!(faults[0].rule.contains(word), "{word} in {}", faults[0]);
    }
}

fn accepted(document: &Value) -> Policy {
    check(document).unwrap_or_else(|faults| panic!("{faults:?}"))
}

#[test]
fn defaults_are_those_of_the_contract() {
    let policy = accepted(&read(GOOD));
    let gateway = &policy.gateway;
    assert_eq!(
        (gateway.capacity, gateway.spare),
        (200, 140),
        "spare: capacity less reserved"
    );
    assert_eq!(
        (gateway.http.body_bytes_max, gateway.http.header_bytes_max),
        (10 << 20, 32 << 10)
    );
    assert_eq!(
        (
            gateway.http.header_fields_max,
            gateway.http.target_bytes_max
        ),
        (100, 8 << 10)
    );
    assert_eq!(gateway.http.header_timeout, Duration::from_secs(10));
    assert_eq!(gateway.http.body_idle_timeout, Duration::from_secs(15));
    assert_eq!(gateway.http.keepalive_idle, Duration::from_secs(60));
    assert_eq!(gateway.http.write_stall, Duration::from_secs(15));
    assert_eq!(gateway.http.connections_max, 10_000);
    let upstream = &policy.upstreams[0];
    assert_eq!(upstream.limit, Limit::UNLIMITED);
    assert_eq!(upstream.connect_timeout, Duration::from_secs(2));
    let route = &policy.routes[0];
    assert_eq!(
        (route.class, route.upstream, route.retry.is_none()),
        (Class::Standard, 0, true)
    );
    assert_eq!(route.timeout.attempt, Duration::from_secs(15));
    assert_eq!(route.timeout.total, Duration::from_secs(60));
    let compartment = &route.compartment;
    assert_eq!(
        (compartment.reserved, compartment.queue),
        (30, 0),
        "reserved: the limit"
    );
    assert_eq!(compartment.hold_max, Duration::from_secs(60));
    assert_eq!(compartment.hold_until, HoldUntil::Body);
    assert_eq!(
        policy.tenants[0].limit,
        Limit::new(5).unwrap(),
        "its plan's"
    );
    assert_eq!(policy.plans[0].routes, [(0, Limit::new(2).unwrap())]);

    let bare = accepted(&read("schema = 1"));
    assert_eq!((bare.gateway.capacity, bare.gateway.spare), (1000, 1000));
    assert!(bare.identify.is_none() && bare.routes.is_empty());
    let open = accepted(&with("/routes/0/compartment/limit", "\"unlimited\""));
    assert_eq!(
        open.routes[0].compartment.reserved, 0,
        "an unlimited one guarantees nothing"
    );
}

/// -1, 1.5, 1e19 and everything else that is no limit, wherever a limit stands.
#[test]
fn limits_are_whole_and_in_range() {
    let places = [
        ("/routes/1/compartment/limit", "routes[1].compartment.limit"),
        (
            "/routes/1/compartment/tenant_limit",
            "routes[1].compartment.tenant_limit",
        ),
        ("/plans/free/limit", "plans.free.limit"),
        ("/plans/free/routes/a", "plans.free.routes.a"),
        ("/tenants/acme/limit", "tenants.acme.limit"),
        ("/upstreams/main/limit", "upstreams.main.limit"),
    ];
    let values = [
        ("-1", "-1"),
        ("-7", "-7"),
        ("1.5", "1.5"),
        ("1e19", "1e19"),
        ("1.0", "1.0"),
        ("1000001", "1000001"),
        ("9223372036854775807", "9223372036854775807"),
        ("true", "true"),
        ("\"\"", "\"\""),
        ("\"5\"", "\"5\""),
        ("\"Unlimited\"", "\"Unlimited\""),
        ("[1]", "[1]"),
        ("{}", "{ }"),
        ("nan", "NaN"),
        ("null", "null"),
    ];
    for (pointer, at) in places {
        for (value, shown) in values {
            refused(
                &with(pointer, value),
                at,
                shown,
                &["0 to 1000000", "unlimited"],
            );
        }
        accepted(&with(pointer, "0"));
        accepted(&with(pointer, "\"unlimited\""));
    }
    let huge = Value::Integer(i128::MAX);
    let mut document = read(GOOD);
    document.set(&path("/routes/0/compartment/limit"), huge);
    let faults = check(&document).unwrap_err();
    assert_eq!(faults[0].path.to_string(), "routes[0].compartment.limit");
}

/// Where it is put | what | where the error is | the value shown | words of the rule. `=` stands
/// for the place where it was put, and for the value as it was put.
const WRONG_VALUES: &str = r#"
/schema | 2 | = | = | from 1 to 1
/schema | "1" | = | = | whole number
/gateway | 3 | = | = | table
/gateway/capacity | "unlimited" | = | = | 1000000
/gateway/spare | -1 | = | = | whole number
/gateway/http/max_body | "10 MiB" | = | = | size
/gateway/http/max_header_bytes | 1 | = | = | 1024
/gateway/http/max_target_bytes | "1MiB" | = | = | 65534
/gateway/http/max_connections | 0 | = | = | from 1
/gateway/http/header_timeout | "0s" | = | = | above 0
/gateway/http/write_stall | "25h" | = | = | 24h
/gateway/http/keepalive_idle | 60 | = | = | 250ms
/gateway/http/trusted_proxies | ["10.0.0.0/33"] | =[0] | "10.0.0.0/33" | network
/identify/by | [] | = | = | at least one
/identify/by/0 | {} | = | { } | exactly one
/identify/by/1 | { host = { a = 1 } } | =.host | { a = 1 } | empty
/identify/by/1 | { path_segment = { index = -1 } } | =.path_segment.index | -1 | whole
/identify/by/1 | { header = { name = "x-t", trust = [] } } | =.header.trust | [] | network
/identify/by/1 | { header = { name = "x-t" } } | =.header.trust |  | required
/identify/by/1 | { header = { name = "x-api-key", trust = ["::1"] } } | = |  | identify.by[0]
/identify/unknown | "open" | = | = | "reject" or "shared"
/identify/unknown | "shared" | =_limit |  | required
/plans/free/class | "high" | = | = | sheddable
/plans/free/routes/nowhere | 1 | = | "nowhere" | a, b
/tenants/acme/plan | "fre" | = | = | did you mean "free"
/tenants/acme/api_keys | ["sha256:00"] | =[0] | "sha256:00" | 64
/tenants/acme/hosts | ["a b"] | =[0] | "a b" | host
/tenants/_unknown | { limit = 1 } | = | "_unknown" | begin with a letter
/upstreams/main/http2 | 2 | = | = | true or false
/upstreams/main/endpoints | [] | = | = | at least one
/upstreams/main/endpoints/0 | "http://a/x" | = | = | path
/upstreams/main/endpoints/0 | "ftp://a" | = | = | https://host
/upstreams/main/endpoints | ["https://a", "HTTPS://A:443"] | =[1] | "https://a:443" | twice
/upstreams/main/tls | { ca_file = "/ca.pem" } | = | = | none of the endpoints is https
/upstreams/main/health | {} | =.path |  | required
/upstreams/main/health | { path = "x" } | =.path | "x" | begin with /
/upstreams/main/health | { path = "/", interval = "99ms" } | =.interval | "99ms" | at least 100ms
/upstreams/main/health | { path = "/", port = 1 } | =.port | 1 | unknown key
/upstreams/main/tls | {} | =.ca_file |  | required
/upstreams/main/tls | { ca_file = "ca.pem" } | =.ca_file | "ca.pem" | absolute path
/routes/1/rewrite | { strip_prefix = "/x" } | =.strip_prefix | "/x" | at the beginning of the path
/routes/1/rewrite | { strip_prefix = "/" } | =.strip_prefix | "/" | at least one segment
/routes/1/rewrite | { strip_prefix = "b" } | =.strip_prefix | "b" | begin with /
/routes/1/rewrite | { host = "a/b" } | =.host | "a/b" | must be a host
/routes/1/rewrite | { host = "a:0" } | =.host | "a:0" | must be a host
/routes/1/rewrite | { path = "/x" } | =.path | "/x" | unknown key
/routes/1/headers | { request_set = { host = "a" } } | =.request_set.host | "host" | rewrite.host
/routes/1/headers | { request_remove = ["a b"] } | =.request_remove[0] | "a b" | name of a header
/routes/1/headers | { request_remove = ["a", "A"] } | =.request_remove[1] | "a" | twice
/routes/1/headers | { request_set = { a = "x\ny" } } | =.request_set.a | "x\ny" | visible
/routes/1/headers | { request_set = { a = 1 } } | =.request_set.a | 1 | text
/upstreams/main/endpoints | ["http://a", "http://A:80"] | =[1] | "http://a:80" | twice
/routes/1/upstream | "nobody" | = | = | known: main
/routes/1/id | "a" | = | = | routes[0] has the same id
/routes/1/id | "a b" | = | = | begin with a letter
/routes/1/path | "/x/../y" | = | = | segment
/routes/1/path_exact | "/x" | = | = | one of them
/routes/1/host | "a/b" | = | = | host
/routes/1/methods | [] | = | = | at least one
/routes/1/methods | ["get"] | =[0] | "get" | upper case
/routes/1/methods | ["GET", "GET"] | = | = | twice
/routes/1/class | "urgent" | = | = | critical
/routes/1/owner | "a\nb" | = | = | one line
/routes/1/max_body | -1 | = | = | bytes
/routes/1/compartment | 3 | = | = | table
/routes/1/compartment/reserved | 31 | = | = | limit 30
/routes/1/compartment/class_reserve | 30 | = | = | below the limit 30
/routes/1/compartment/tenant_share | 0 | = | = | above 0
/routes/1/compartment/tenant_share | 1001 | = | = | 1000
/routes/1/compartment/tenant_share | 0.0000001 | = | 1e-7 | 6 decimals
/routes/1/compartment/queue | 3 | =_wait |  | queue
/routes/1/compartment/queue | 9223372036854775807 | = | = | 10000
/routes/1/compartment/queue_wait | "0ms" | = | = | above 0
/routes/1/compartment/max_hold | "x" | = | = | time
/routes/1/compartment/hold_until | "end" | = | = | "body" or "headers"
/routes/1/compartment/mode | "on" | = | = | "off" or "shadow" or "enforce"
/routes/1/compartment/candidate | -1 | = | = | 1000000
/routes/1/compartment/candidate | 1000001 | = | = | 1000000
/routes/1/compartment/candidate | "unlimited" | = | = | 1000000
/routes/1/compartment | { limit = "unlimited", candidate = 3 } | =.candidate | 3 | needs a limit
/routes/1/compartment/stream | 3 | = | = | table
/routes/1/compartment/stream | {} | =.limit |  | required
/routes/1/compartment/stream | { limit = -1 } | =.limit | -1 | 0 to
/routes/1/compartment/stream | { limit = 1, idle = "0s" } | =.idle | "0s" | above 0
/routes/1/compartment/stream | { limit = 1, max_age = 5 } | =.max_age | 5 | time
/routes/1/compartment/stream | { limit = 1, grpc = "yes" } | =.grpc | "yes" | true or false
/routes/1/compartment/assume | { rate = 1 } | =.p99 |  | required
/routes/1/compartment/assume | { rate = 0, p99 = "1s" } | =.rate | 0 | above 0
/routes/1/timeout/attempt | "-1s" | = | = | above 0
/routes/1/timeout/deadline_header | "host" | = | = | routing
/routes/1/retry | {} | =.attempts |  | required
/routes/1/retry | { attempts = 11 } | =.attempts | 11 | 10
/routes/1/retry | { attempts = 2, budget = 1.1 } | =.budget | 1.1 | 0 to 1
/routes/1/retry | { attempts = 2, on = ["500"] } | =.on[0] | "500" | "connect" or "reset"
/routes/1/retry | { attempts = 2, on = [502] } | =.on[0] | 502 | "502"
/routes/1/retry | { attempts = 2, on = [] } | =.on | [] | at least one
/routes/1/retry | { attempts = 2, on = ["502", "502"] } | =.on[1] | "502" | twice
/routes/1/fallback | [{}] | =[0].kind |  | required
/routes/1/fallback | [3] | =[0] | 3 | table
/routes/1/fallback | [{ kind = "stale" }] | =[0].max_age |  | required
/routes/1/fallback | [{ kind = "stale", max_age = "0s" }] | =[0].max_age | "0s" | above 0
/routes/1/fallback | [{ kind = "stale", max_age = "25h" }] | =[0].max_age | "25h" | at most 24h
/routes/1/fallback | [{ kind = "stale", max_age = "1s", body = "" }] | =[0].body | "" | unknown key
/routes/1/fallback | [{ kind = "upstream", limit = 1 }] | =[0].upstream |  | required
/routes/1/fallback | [{ kind = "fixed" }] | =[0].kind | "fixed" | "static"
/routes/1/fallback | [{ kind = "static", status = 199 }] | =[0].status | 199 | 200 to 599
/routes/1/fallback | [{ kind = "static", status = 204, body = "x" }] | =[0].body | "x" | no body
/routes/1/fallback | [{ kind = "static", content_type = "\n" }] | =[0].content_type | "\n" | media
/routes/1/fallback | [{ kind = "static" }, { kind = "static" }] | =[1] |  | never reached
/routes/1/fallback | [3, 3, 3, 3] | = | 4 entries | at most 3
"#;

/// One wrong value at a time: path, value, rule.
#[test]
fn wrong_values_are_named() {
    for row in WRONG_VALUES.lines().filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
        let [pointer, value, at, shown, words] = cells[..] else {
            panic!("{row}")
        };
        let at = match at.strip_prefix('=') {
            Some(below) => format!("{}{below}", path(pointer)),
            None => at.to_owned(),
        };
        let shown = if shown == "=" { value } else { shown };
        refused(&with(pointer, value), &at, shown, &[words]);
    }
}

/// A fallback upstream has no ladder of its own, so that the one thing left that could go in a
/// circle is a route that falls back to where it came from.
#[test]
fn a_ladder_that_cannot_answer_or_goes_in_a_circle_is_refused() {
    let two = |steps: &str| {
        let document = edit(
            read(GOOD),
            "/upstreams/replica",
            "{ endpoints = [\"http://127.0.0.1:9002\"] }",
        );
        edit(document, "/routes/1/fallback", steps)
    };
    let step = |more: &str| format!("[{{ kind = \"upstream\", upstream = \"replica\", {more} }}]");
    for (steps, at, value, rule) in [
        (
            "[{ kind = \"upstream\", upstream = \"main\", limit = 5 }]".to_owned(),
            "[0].upstream",
            "\"main\"",
            "another upstream than the route's own",
        ),
        (
            "[{ kind = \"upstream\", upstream = \"replica\" }]".to_owned(),
            "[0].limit",
            "",
            "required",
        ),
        (
            "[{ kind = \"static\" }, { kind = \"stale\", max_age = \"1s\" }]".to_owned(),
            "[1]",
            "",
            "never reached",
        ),
        (
            "[{ kind = \"stale\", max_age = \"1s\" }, \
              { kind = \"stale\", max_age = \"2s\" }]"
                .to_owned(),
            "[1]",
            "",
            "second stale",
        ),
        (
            "[{ kind = \"static\", headers = { host = \"x\" } }]".to_owned(),
            "[0].headers.host",
            "\"host\"",
            "the host",
        ),
        (
            "[{ kind = \"static\", headers = { Content_Length = \"3\" } }]".to_owned(),
            "[0].headers.Content_Length",
            "\"Content_Length\"",
            "framing",
        ),
        (
            "[{ kind = \"static\", headers = { X_Request_Id = \"3\" } }]".to_owned(),
            "[0].headers.X_Request_Id",
            "\"X_Request_Id\"",
            "gateway's own",
        ),
        (
            "[{ kind = \"static\", headers = { x-a = \"1\", X-A = \"2\" } }]".to_owned(),
            "[0].headers.X-A",
            "\"X-A\"",
            "named twice",
        ),
        (
            "[{ kind = \"static\", headers = { Content-Type = \"a/b\" } }]".to_owned(),
            "[0].headers.Content-Type",
            "",
            "by itself",
        ),
        (
            "[{ kind = \"static\", headers = { x-a = \" \" } }]".to_owned(),
            "[0].headers.x-a",
            "\" \"",
            "visible",
        ),
        (step("limit = 0"), "[0].limit", "0", "from 1 to 1000000"),
        (
            step("limit = \"unlimited\""),
            "[0].limit",
            "\"unlimited\"",
            "from 1",
        ),
        (
            step("limit = 1, timeout = \"61s\""),
            "[0].timeout",
            "\"61s\"",
            "at most the route's total of 60000 ms",
        ),
        (
            step("limit = 1, fallback = []"),
            "[0].fallback",
            "[]",
            "unknown key",
        ),
        (
            "[{ kind = \"upstream\", upstream = \"replica\", limit = 1 }, \
              { kind = \"upstream\", upstream = \"replica\", limit = 1 }]"
                .to_owned(),
            "[1]",
            "",
            "route/ID/fallback",
        ),
    ] {
        let at = format!("routes[1].fallback{at}");
        refused(&two(&steps), &at, value, &[rule]);
    }
    let document = two("[{ kind = \"stale\", max_age = \"24h\" }]");
    accepted(&document);
    let posts = edit(document, "/routes/1/methods", "[\"POST\"]");
    refused(
        &posts,
        "routes[1].fallback[0].kind",
        "\"stale\"",
        &["GET alone"],
    );
    // In any order that ends with the fixed answer; the time of an attempt holds unless one is set.
    let policy = accepted(&two(
        "[{ kind = \"upstream\", upstream = \"replica\", limit = 5 }, \
          { kind = \"stale\", max_age = \"60s\" }, \
          { kind = \"static\", headers = { Retry-After = \"9\" } }]",
    ));
    let kinds: Vec<&str> = policy.routes[1]
        .fallback
        .iter()
        .map(Fallback::kind)
        .collect();
    assert_eq!(kinds, ["upstream", "stale", "static"]);
    assert_eq!(
        policy.routes[1].fallback[0],
        Fallback::Upstream {
            upstream: 1,
            limit: Limit::new(5).unwrap(),
            timeout: Duration::from_secs(15),
        }
    );
    assert_eq!(policy.routes[1].fallback_limit(), Limit::new(5).ok());
}

#[test]
fn missing_values_are_named_where_they_belong() {
    for (pointer, at) in [
        ("/schema", "schema"),
        ("/routes/0/id", "routes[0].id"),
        ("/routes/1/path", "routes[1].path"),
        ("/routes/1/upstream", "routes[1].upstream"),
        ("/routes/1/compartment", "routes[1].compartment.limit"),
        ("/routes/1/compartment/limit", "routes[1].compartment.limit"),
        ("/upstreams/main/endpoints", "upstreams.main.endpoints"),
        ("/plans/free/limit", "plans.free.limit"),
        ("/identify/by", "identify.by"),
        ("/tenants/acme/plan", "tenants.acme.limit"),
    ] {
        let document = without(pointer);
        // A plan's routes refer to a route's id: that reference is the only fault beside it.
        let document = match pointer {
            "/routes/0/id" => edit(document, "/plans/free/routes", "{}"),
            _ => document,
        };
        refused(&document, at, "", &["required"]);
    }
    refused(&Value::Table(Vec::new()), "schema", "", &["required"]);
    refused(&Value::Null, "", "null", &["table"]);
}

#[test]
fn unknown_keys_name_the_nearest_known_one() {
    for (pointer, at, words) in [
        ("/scheme", "scheme", "did you mean `schema`?"),
        ("/gateway/capacty", "gateway.capacty", "`capacity`"),
        (
            "/gateway/http/max_bdy",
            "gateway.http.max_bdy",
            "`max_body`",
        ),
        (
            "/routes/0/compartment/limitt",
            "routes[0].compartment.limitt",
            "`limit`",
        ),
        (
            "/routes/0/colour",
            "routes[0].colour",
            "the keys here are id, host",
        ),
        (
            "/routes/0/timeout/atempt",
            "routes[0].timeout.atempt",
            "`attempt`",
        ),
        (
            "/upstreams/main/endpoint",
            "upstreams.main.endpoint",
            "`endpoints`",
        ),
        (
            "/tenants/acme/api_key",
            "tenants.acme.api_key",
            "`api_keys`",
        ),
        ("/plans/free/rutes", "plans.free.rutes", "`routes`"),
        ("/identify/unknow", "identify.unknow", "`unknown`"),
    ] {
        refused(&with(pointer, "3"), at, "3", &["unknown key", words]);
    }
}

#[test]
fn streams_have_the_bounds_of_the_contract_unless_they_say_otherwise() {
    let at = "/routes/1/compartment/stream";
    let of = |value: &str| {
        accepted(&with(at, value)).routes[1]
            .compartment
            .stream
            .unwrap()
    };
    let plain = of("{ limit = 3 }");
    assert_eq!(plain.limit, Limit::new(3).unwrap());
    assert_eq!(
        (plain.idle, plain.age_max, plain.grpc),
        (Duration::from_secs(60), Duration::from_secs(3_600), false)
    );
    let own = of(r#"{ limit = "unlimited", idle = "1s", max_age = "2s", grpc = true }"#);
    assert_eq!(own.limit, Limit::UNLIMITED);
    assert_eq!(
        (own.idle, own.age_max, own.grpc),
        (Duration::from_secs(1), Duration::from_secs(2), true)
    );
    assert_eq!(accepted(&read(GOOD)).routes[1].compartment.stream, None);
}

/// Keys of the document that nothing here would act on.
#[test]
fn what_this_build_does_not_enforce_is_an_error() {
    for (pointer, at) in [
        ("/identify/by/1/jwt", "identify.by[1].jwt"),
        ("/identify/by/1/client_cert", "identify.by[1].client_cert"),
        ("/routes/0/compartment/auto", "routes[0].compartment.auto"),
    ] {
        let document = match pointer.strip_prefix("/identify/by/1/") {
            Some(way) => with("/identify/by/1", &format!("{{ {way} = 1 }}")),
            None => with(pointer, "1"),
        };
        refused(&document, at, "1", &["is not enforced by this build"]);
    }
    accepted(&with("/upstreams/main/http2", "false"));
    for mode in ["off", "shadow", "enforce"] {
        accepted(&with("/routes/0/compartment/mode", &format!("\"{mode}\"")));
    }
    for candidate in ["0", "1000000"] {
        accepted(&with("/routes/0/compartment/candidate", candidate));
    }
}

#[test]
fn headers_of_others_carry_no_identity() {
    for name in [
        "host",
        "Connection",
        "transfer-encoding",
        "content-length",
        "te",
        "upgrade",
        "via",
        "x-bulkhead-tenant",
        "X-Bulkhead-Reason",
        "x-forwarded-for",
        "forwarded",
        "traceparent",
    ] {
        let way = format!("{{ header = {{ name = \"{name}\", trust = [\"10.0.0.0/8\"] }} }}");
        let shown = format!("\"{name}\"");
        let at = "identify.by[1].header.name";
        refused(
            &with("/identify/by/1", &way),
            at,
            &shown,
            &["must not be a header"],
        );
    }
    refused(
        &with("/identify/by/0", "{ api_key = { header = \"a b\" } }"),
        "identify.by[0].api_key.header",
        "\"a b\"",
        &["name of a header"],
    );
}

/// Same host, path and methods in two routes; a host, a method or an exact path is a difference.
#[test]
fn routes_for_the_same_requests_are_refused() {
    let second = |keys: &str| {
        let route = format!("{{ id = \"b\", upstream = \"main\", compartment.limit = 1, {keys} }}");
        with("/routes/1", &route)
    };
    for keys in ["path = \"/a\"", "path = \"/a/\""] {
        refused(
            &second(keys),
            "routes[1]",
            "\"b\"",
            &["routes[0]", "(a)", "/a"],
        );
    }
    for keys in [
        "path = \"/a\", methods = [\"GET\"]",
        "path = \"/a\", host = \"a.example\"",
        "path_exact = \"/a\"",
        "path = \"/A\"",
        "path = \"/a/b\"",
    ] {
        accepted(&second(keys));
    }
    let first = |document, methods| edit(document, "/routes/0/methods", methods);
    let both = second("path = \"/a\", methods = [\"PUT\", \"POST\", \"GET\"]");
    let document = first(both.clone(), "[\"GET\", \"HEAD\"]");
    refused(&document, "routes[1]", "\"b\"", &["GET /a", "routes[0]"]);
    accepted(&first(both, "[\"HEAD\"]"));
    let hosts = second("path = \"/a\", host = \"A.example:8080\"");
    let hosts = edit(hosts, "/routes/0/host", "\"a.EXAMPLE.\"");
    refused(&hosts, "routes[1]", "\"b\"", &["a.example/a"]);
}

#[test]
fn a_key_or_a_host_belongs_to_one_tenant() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let upper = format!("sha256:{}", "AB".repeat(32));
    let document = with("/tenants/acme/api_keys", &format!("[\"{digest}\"]"));
    let document = edit(
        document,
        "/tenants/zeta",
        &format!("{{ limit = 1, api_keys = [\"{upper}\"] }}"),
    );
    refused(&document, "tenants.zeta.api_keys[0]", "", &["tenants.acme"]);
    let document = with("/tenants/acme/hosts", "[\"a.example\"]");
    let document = edit(
        document,
        "/tenants/zeta",
        "{ limit = 1, hosts = [\"x\", \"A.example.\"] }",
    );
    refused(
        &document,
        "tenants.zeta.hosts[1]",
        "",
        &["same host", "tenants.acme"],
    );
}

/// P15: the sum is the constraint.
#[test]
fn guarantees_fit_into_the_capacity() {
    let routes = |limits: &[u32], capacity: u32| {
        let mut text = format!(
            "schema = 1\ngateway.capacity = {capacity}\n\
             upstreams.main.endpoints = [\"http://a\"]\n"
        );
        for (index, limit) in limits.iter().enumerate() {
            text.push_str(&format!(
                "[[routes]]\nid = \"r{index}\"\npath = \"/r{index}\"\nupstream = \"main\"\n\
                 compartment.limit = {limit}\n"
            ));
        }
        read(&text)
    };
    refused(
        &routes(&[50, 50, 50, 50], 120),
        "gateway.capacity",
        "120",
        &["200 guaranteed slots (50 + 50 + 50 + 50) exceed capacity 120"],
    );
    assert_eq!(accepted(&routes(&[30, 30, 40], 200)).gateway.spare, 100);
    assert_eq!(accepted(&routes(&[50, 50, 50, 50], 200)).gateway.spare, 0);
    // More than 32 bits, and too many terms to spell out.
    refused(
        &routes(&[1_000_000; 5000], 1_000_000),
        "gateway.capacity",
        "1000000",
        &["5000000000 guaranteed slots", "1000000 + …)"],
    );
    let spare = |spare: &str| edit(routes(&[30, 30, 40], 200), "/gateway/spare", spare);
    assert_eq!(accepted(&spare("100")).gateway.spare, 100);
    assert_eq!(accepted(&spare("0")).gateway.spare, 0);
    refused(
        &spare("101"),
        "gateway.capacity",
        "200",
        &["201", "30 + 30 + 40 = 100", "spare 101"],
    );
    // Without a [gateway], and beside a fault of another kind.
    let document = edit(
        read("schema = 1"),
        "/upstreams",
        "{ main = { endpoints = [\"http://a\"] } }",
    );
    let route = "{ id = \"a\", path = \"/\", upstream = \"nobody\", compartment.limit = 1001 }";
    let faults = check(&edit(document, "/routes", &format!("[{route}]"))).unwrap_err();
    let paths: Vec<String> = faults.iter().map(|fault| fault.path.to_string()).collect();
    assert_eq!(paths, ["routes[0].upstream", "gateway"]);
}

/// What the document may set and must come out as it was set.
#[test]
fn values_arrive() {
    let document = with(
        "/routes/0/retry",
        "{ attempts = 3, budget = 0.1, on = [\"timeout\"] }",
    );
    let document = edit(
        document,
        "/routes/0/compartment",
        "{ limit = 10, reserved = 4, tenant_limit = 3, tenant_share = 0.5, class_reserve = 2, \
         queue = 3, queue_wait = \"20ms\", max_hold = \"1.5s\", hold_until = \"headers\", \
         assume = { rate = 0.5, p99 = \"200ms\" } }",
    );
    let document = edit(document, "/routes/0/path", "\"/a/\"");
    let document = edit(document, "/routes/0/methods", "[\"POST\", \"GET\"]");
    let document = edit(document, "/routes/0/max_body", "\"1KiB\"");
    let document = edit(
        document,
        "/routes/0/fallback",
        "[{ kind = \"static\", status = 203, content_type = \"application/json\", body = \"[]\" }]",
    );
    let document = edit(document, "/identify/unknown", "\"shared\"");
    let document = edit(document, "/identify/unknown_limit", "5");
    let policy = accepted(&document);
    let route = &policy.routes[0];
    let retry = route.retry.as_ref().unwrap();
    assert_eq!(
        (retry.attempts, retry.budget),
        (3, Some(Millionths(100_000)))
    );
    assert!(retry.on.timeout && !retry.on.connect);
    assert_eq!(route.path, PathMatch::Prefix("/a".to_owned()));
    assert_eq!(
        route.methods.as_deref(),
        Some(&["GET".to_owned(), "POST".to_owned()][..])
    );
    assert_eq!(route.body_bytes_max, Some(1024));
    let compartment = &route.compartment;
    assert_eq!(
        (
            compartment.reserved,
            compartment.class_reserve,
            compartment.queue
        ),
        (4, 2, 3)
    );
    assert_eq!(compartment.tenant_share, Some(Millionths(500_000)));
    assert_eq!(compartment.queue_wait, Duration::from_millis(20));
    assert_eq!(compartment.hold_max, Duration::from_millis(1500));
    assert_eq!(compartment.hold_until, HoldUntil::Headers);
    assert_eq!(
        compartment.assume,
        Some(Assume {
            rate_milli: 500,
            p99: Duration::from_millis(200)
        })
    );
    assert_eq!(
        route.fallback,
        [Fallback::Static {
            status: 203,
            content_type: "application/json".to_owned(),
            headers: Vec::new(),
            body: "[]".to_owned()
        }]
    );
    let identify = policy.identify.unwrap();
    assert_eq!(
        identify.by[0],
        Identifier::ApiKey {
            header: "x-api-key".to_owned()
        }
    );
    assert_eq!(
        identify.unknown,
        Unknown::Shared {
            limit: Limit::new(5).unwrap()
        }
    );
    // Closing a route is a change of its limit alone.
    let closed = with("/routes/0/compartment", "{ limit = 0, class_reserve = 2 }");
    assert_eq!(accepted(&closed).routes[0].compartment.limit, Limit::CLOSED);
}

#[test]
fn every_error_comes_at_once_and_the_list_is_bounded() {
    let document = with("/routes/0/compartment/limit", "-1");
    let document = edit(document, "/routes/1/upstream", "\"nobody\"");
    let document = edit(document, "/gateway/capacity", "1.5");
    let document = edit(document, "/colour", "1");
    let faults = check(&document).unwrap_err();
    let paths: BTreeSet<String> = faults.iter().map(|fault| fault.path.to_string()).collect();
    let want = [
        "colour",
        "gateway.capacity",
        "routes[0].compartment.limit",
        "routes[1].upstream",
    ];
    assert_eq!(paths, want.map(str::to_owned).into());

    let route = "{ id = \"\", path = \"\", upstream = \"\", compartment.limit = -1 }";
    let many = with("/routes", &format!("[{}]", [route; 1000].join(", ")));
    let faults = check(&many).unwrap_err();
    assert_eq!(faults.len(), FAULTS_MAX + 1);
    assert!(
        faults[FAULTS_MAX].to_string().contains("more errors"),
        "{}",
        faults[FAULTS_MAX]
    );
}

#[test]
fn too_many_of_anything_is_one_error() {
    let list = |count| Value::Array(vec![Value::Null; count]);
    let table = |count| {
        Value::Table(
            (0..count)
                .map(|index| (format!("n{index}"), Value::Null))
                .collect(),
        )
    };
    for (at, value, shown, rule) in [
        ("routes", list(100_000), "100000 entries", "at most 10000"),
        ("upstreams", table(1001), "1001 entries", "at most 1000"),
        (
            "tenants",
            table(100_001),
            "100001 entries",
            "at most 100000",
        ),
        ("plans", table(1001), "1001 entries", "at most 1000"),
    ] {
        let mut document = read("schema = 1");
        document.set(&Path::root().key(at), value);
        refused(&document, at, shown, &[rule]);
    }
}

/// The largest policy takes time in proportion: this ends in moments, or a rule is quadratic.
#[test]
fn the_largest_policy_is_accepted() {
    let text = |text: &str| Value::String(text.to_owned());
    let table = |entries: Vec<(&str, Value)>| {
        Value::Table(
            entries
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        )
    };
    let named = |count: usize, entry: &dyn Fn(usize) -> Value| {
        Value::Table(
            (0..count)
                .map(|index| (format!("n{index}"), entry(index)))
                .collect(),
        )
    };
    let routes = (0..ROUTES_MAX).map(|index| {
        table(vec![
            ("id", text(&format!("r{index}"))),
            ("path", text(&format!("/r{index}"))),
            ("upstream", text(&format!("n{}", index % UPSTREAMS_MAX))),
            ("compartment", table(vec![("limit", Value::Integer(1))])),
        ])
    });
    let document = table(vec![
        ("schema", Value::Integer(1)),
        ("gateway", table(vec![("capacity", Value::Integer(10_000))])),
        ("routes", Value::Array(routes.collect())),
        (
            "upstreams",
            named(UPSTREAMS_MAX, &|index| {
                let endpoint = text(&format!("http://u{index}"));
                table(vec![("endpoints", Value::Array(vec![endpoint]))])
            }),
        ),
        (
            "plans",
            named(1, &|_| table(vec![("limit", Value::Integer(5))])),
        ),
        (
            "tenants",
            named(TENANTS_MAX, &|index| {
                let key = text(&format!("sha256:{index:064x}"));
                table(vec![
                    ("plan", text("n0")),
                    ("api_keys", Value::Array(vec![key])),
                ])
            }),
        ),
    ]);
    let policy = accepted(&document);
    assert_eq!(
        (policy.routes.len(), policy.tenants.len()),
        (ROUTES_MAX, TENANTS_MAX)
    );
    assert_eq!(policy.gateway.spare, 0);
}

fn any_scalar() -> impl Strategy<Value = Value> {
    const WORDS: &[&str] = &[
        "",
        "GET",
        "/a",
        "unlimited",
        "a",
        "b",
        "main",
        "10ms",
        "http://a:1",
        "static",
    ];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i128>().prop_map(Value::Integer),
        (-3_i128..70).prop_map(Value::Integer),
        any::<f64>().prop_map(Value::Float),
        ".{0,12}".prop_map(Value::String),
        prop::sample::select(WORDS).prop_map(|word: &str| Value::String(word.to_owned())),
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    const KNOWN: &[&str] = &[
        "schema",
        "gateway",
        "routes",
        "upstreams",
        "tenants",
        "plans",
        "identify",
        "id",
        "path",
        "upstream",
        "compartment",
        "limit",
        "reserved",
        "queue",
        "queue_wait",
        "retry",
        "fallback",
        "kind",
        "endpoints",
        "api_keys",
        "hosts",
        "plan",
        "by",
        "header",
        "host",
        "http",
    ];
    let known = prop::sample::select(KNOWN).prop_map(|key: &str| key.to_owned());
    prop_oneof![4 => known, 1 => ".{0,8}"]
}

fn any_value() -> impl Strategy<Value = Value> {
    any_scalar().prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((any_key(), inner), 0..8).prop_map(Value::Table),
        ]
    })
}

/// Every place of a document, outermost first.
fn places(value: &Value, here: &Path, all: &mut Vec<Path>) {
    all.push(here.clone());
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &here.index(index), all);
            }
        }
        Value::Table(entries) => {
            for (key, value) in entries {
                places(value, &here.key(key), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Integer(_) | Value::Float(_) | Value::String(_) => {}
    }
}

/// Whatever stands in a document, the check ends, and what it names is there or could be.
fn faults_are_places(document: &Value) {
    let Err(faults) = check(document) else { return };
    assert!(!faults.is_empty() && faults.len() <= FAULTS_MAX + 1);
    for fault in faults {
        // A missing compartment is reported by the limit it lacks: two steps that are not there.
        let around = fault.path.parent().unwrap_or_default();
        let before = around.parent().unwrap_or_default();
        let there = [&fault.path, &around, &before]
            .iter()
            .any(|path| document.at(path).is_some());
        assert!(there, "{fault}");
        assert!(fault.value.chars().count() <= EXCERPT_CHARS_MAX && !fault.rule.is_empty());
        assert!(!fault.to_string().contains(char::is_control), "{fault:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_document_panics(document in any_value()) {
        faults_are_places(&document);
    }

    #[test]
    fn no_mutated_policy_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4),
    ) {
        let mut document = read(GOOD);
        for (place, value) in changes {
            let mut all = Vec::new();
            places(&document, &Path::root(), &mut all);
            document.set(place.get(&all), value);
        }
        faults_are_places(&document);
    }
}

/// P25: without a word the breaker of the articles, without the key none.
#[test]
fn a_breaker_is_that_of_the_articles_unless_it_says_otherwise() {
    let of = |text: &str| {
        let policy = accepted(&with("/upstreams/main/breaker", text));
        policy.upstreams[0].breaker
    };
    let plain = BreakerRules {
        failure_rate: Millionths(500_000),
        calls: 20,
        open: Duration::from_secs(5),
        probes: 3,
        count_rejections: false,
    };
    assert_eq!(of("{}"), Some(plain));
    let text =
        r#"{ failure_rate = 0.25, calls = 4, open = "1s", probes = 2, count_rejections = true }"#;
    let own = BreakerRules {
        failure_rate: Millionths(250_000),
        calls: 4,
        open: Duration::from_secs(1),
        probes: 2,
        count_rejections: true,
    };
    assert_eq!(of(text), Some(own));
    let bare = accepted(&read(GOOD));
    assert_eq!(
        (bare.upstreams[0].breaker, bare.upstreams[0].force_breaker),
        (None, None)
    );
    for (key, value, rule) in [
        ("failure_rate", "0", "above 0"),
        ("failure_rate", "1.5", "above 0 to 1"),
        ("calls", "0", "from 1 to 1000"),
        ("calls", "1001", "from 1 to 1000"),
        ("probes", "0", "from 1 to 100"),
        ("count_rejections", "1", "true or false"),
    ] {
        let document = with("/upstreams/main/breaker", &format!("{{ {key} = {value} }}"));
        refused(
            &document,
            &format!("upstreams.main.breaker.{key}"),
            value,
            &[rule],
        );
    }
    for (word, forced) in [
        ("open", ForcedBreaker::Open),
        ("closed", ForcedBreaker::Closed),
    ] {
        let policy = accepted(&with(
            "/upstreams/main/force_breaker",
            &format!("\"{word}\""),
        ));
        assert_eq!(policy.upstreams[0].force_breaker, Some(forced));
    }
    let document = with("/upstreams/main/force_breaker", "\"auto\"");
    refused(
        &document,
        "upstreams.main.force_breaker",
        "\"auto\"",
        &["\"open\" or \"closed\""],
    );
}

#[test]
fn an_upstream_tells_all_that_is_wrong_with_it_at_once() {
    let document = edit(
        with("/upstreams/main/endpoints", "[\"nonsense\"]"),
        "/upstreams/main/breaker",
        "{ failure_rate = 7 }",
    );
    let document = edit(document, "/upstreams/main/force_breaker", "\"auto\"");
    let faults = check(&document).unwrap_err();
    let told: Vec<String> = faults.iter().map(|fault| fault.path.to_string()).collect();
    for at in ["endpoints[0]", "breaker.failure_rate", "force_breaker"] {
        assert!(told.contains(&format!("upstreams.main.{at}")), "{told:?}");
    }
}

#[test]
fn what_is_said_of_a_key_belongs_to_one_of_the_list() {
    let digest = "ab".repeat(32);
    let tenant = |keys: &str| {
        let tenant = format!("{{ limit = 1, api_keys = [\"sha256:{digest}\"], keys = {keys} }}");
        with("/tenants/zeta", &tenant)
    };
    let id = "ab".repeat(8);
    let policy = accepted(&tenant(&format!(
        "{{ {id} = {{ label = \"ci\", ending = \"wxyz\", created = \"2026-07-01T12:00:00Z\", \
         expires = \"1970-01-02T00:00:00Z\" }} }}"
    )));
    let zeta = policy.tenants.iter().find(|one| one.id.as_str() == "zeta");
    assert_eq!(zeta.unwrap().expiring, [([0xab; 32], 86_400)]);
    let at = format!("tenants.zeta.keys.{id}");
    for (note, at, value, words) in [
        ("{ label = \"\" }", format!("{at}.label"), "\"\"", "1 to 64"),
        (
            "{ ending = \"xyz\" }",
            format!("{at}.ending"),
            "\"xyz\"",
            "last 4",
        ),
        (
            "{ expires = \"soon\" }",
            format!("{at}.expires"),
            "\"soon\"",
            "moment in UTC",
        ),
        (
            "{ created = 7 }",
            format!("{at}.created"),
            "7",
            "must be text",
        ),
        (
            "{ expire = \"x\" }",
            format!("{at}.expire"),
            "\"x\"",
            "`expires`",
        ),
    ] {
        refused(
            &tenant(&format!("{{ {id} = {note} }}")),
            &at,
            value,
            &[words],
        );
    }
    let other = "cd".repeat(8);
    let at = format!("tenants.zeta.keys.{other}");
    let document = tenant(&format!("{{ {other} = {{ }} }}"));
    refused(&document, &at, "{ }", &["names no key of api_keys"]);
}
