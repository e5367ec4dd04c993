//! What the linter says of what surrounds a compartment: breaker, retries, the ladder. Separate
//! because it needs a second upstream; a case must never look at more than the findings.

use wire::document::{Syntax, load};

use crate::linter::*;

/// Routes `a` and `b` over `main`, and `c` over `other`. Lines of the upstreams, of each route,
/// and keys of each compartment are given as `PLACE: text`.
fn policy(parts: &[(&str, &str)]) -> Policy {
    let of = |place: &str| {
        let texts = parts.iter().filter(|(at, _)| *at == place);
        texts.map(|(_, text)| *text).collect::<Vec<_>>().join("\n")
    };
    let limit = |place: &str, otherwise: &str| match of(place) {
        text if text.is_empty() => otherwise.to_owned(),
        text => text,
    };
    let text = format!(
        r#"
        schema = 1
        [gateway]
        capacity = 200
        {}
        [upstreams.main]
        endpoints = ["http://127.0.0.1:9001"]
        {}
        [upstreams.other]
        endpoints = {}
        {}
        [[routes]]
        id = "a"
        path = "/a"
        upstream = "main"
        compartment = {{ {} }}
        {}
        [[routes]]
        id = "b"
        path = "/b"
        upstream = "main"
        compartment = {{ {} }}
        {}
        [[routes]]
        id = "c"
        path = "/c"
        upstream = "other"
        compartment = {{ {} }}
        {}
        "#,
        of("gateway"),
        of("main"),
        limit("endpoints", r#"["http://127.0.0.1:9002"]"#),
        of("other"),
        limit("in a", ARTICLE),
        of("a"),
        limit("in b", "limit = 0"),
        of("b"),
        limit("in c", "limit = 30"),
        of("c"),
    );
    load(&text, Syntax::Toml)
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
        .policy
}

const ARTICLE: &str = r#"limit = 30, assume = { rate = 100, p99 = "200ms" }"#;
const QUICK: (&str, &str) = ("a", r#"timeout.attempt = "250ms""#);

/// These findings, as `severity rule path`, each with these words of its message.
fn check(parts: &[(&str, &str)], want: &[(&str, &str)]) {
    let findings = lint(&policy(parts));
    let seen: Vec<String> = findings
        .iter()
        .map(|one| format!("{} {} {}", one.severity.as_str(), one.rule, one.path))
        .collect();
    let expected: Vec<&str> = want.iter().map(|(finding, _)| *finding).collect();
    assert_eq!(seen, expected, "{parts:?}: {findings:#?}");
    for (finding, (_, words)) in findings.iter().zip(want) {
        assert!(finding.message.contains(words), "{words} in {finding}");
    }
}

const L9: &str = "info L9 upstreams.main.breaker";

/// L9 to L11 of the article's own configuration, and L9 by each of its terms.
#[test]
fn the_time_until_a_total_hang_opens_a_breaker_is_told() {
    check(
        &[QUICK, ("main", "breaker = {}")],
        &[(L9, "after 250 ms + 10 / 100/s = 350 ms")],
    );
    // Slots bound what can time out: 5 / 0.25 s = 20/s.
    check(
        &[
            ("a", r#"timeout.attempt = "250ms""#),
            ("main", "breaker = {}"),
            (
                "in a",
                r#"limit = 5, assume = { rate = 19, p99 = "200ms" }"#,
            ),
        ],
        &[(L9, "250 ms + 10 / 19/s")],
    );
    check(
        &[
            ("a", "timeout = { attempt = \"1s\", total = \"500ms\" }"),
            ("main", "breaker = { failure_rate = 0.26, calls = 4 }"),
            ("in a", r#"limit = 4, assume = { rate = 2, p99 = "200ms" }"#),
        ],
        &[
            ("warning bounds routes[0].timeout.attempt", "1 s"),
            (L9, "500 ms + 2 / 2/s = 1.5 s"),
        ],
    );
    // Two routes: 10/s from 100 ms on, and 10/s more from 600 ms on. 5 failures + 5 at twice the
    // rate: 600 ms + 250 ms.
    check(
        &[
            ("a", r#"timeout.attempt = "100ms""#),
            ("b", r#"timeout.attempt = "600ms""#),
            ("main", "breaker = {}"),
            ("in a", r#"limit = 9, assume = { rate = 10, p99 = "50ms" }"#),
            ("in b", r#"limit = 9, assume = { rate = 10, p99 = "50ms" }"#),
        ],
        &[(L9, "10 failures of 2 routes at 20/s = 850 ms")],
    );
    // One route that says nothing: no sum.
    let silent = [
        QUICK,
        ("main", "breaker = {}"),
        ("in b", "limit = 4, reserved = 4"),
    ];
    check(&silent, &[]);
}

/// L9 where calls are few: by the failures over time, or never.
#[test]
fn a_breaker_that_never_sees_enough_is_told() {
    let with = |limit: &str, rate: &str, rules: &str, want: &[(&str, &str)]| {
        let own = format!("{limit}, assume = {{ rate = {rate}, p99 = \"200ms\" }}");
        let rules = format!("breaker = {{ open = \"24h\", {rules} }}");
        let attempt = r#"timeout.attempt = "250ms""#;
        check(&[("a", attempt), ("main", &rules), ("in a", &own)], want);
    };
    // 10 failures at 0.4/s take 25 s; the first is there after 2.75 s, and 15 s more suffice.
    with(
        "limit = 3",
        "0.4",
        "calls = 20",
        &[(L9, "17.75 s, by the failures over time")],
    );
    // The sixth failure is 5 / 0.2/s = 25 s after the first.
    with(
        "limit = 3",
        "0.2",
        "calls = 20",
        &[(L9, "30.25 s, by the failures over time")],
    );
    let never = "upstreams.main.breaker.calls";
    // 5 / 0.16/s = 31.25 s; in 30 s come 1 + 4 failures, half of 10 calls.
    with(
        "limit = 3",
        "0.16",
        "calls = 20",
        &[(&format!("error L9 {never}"), "at most 10 calls")],
    );
    with(
        "limit = 3",
        "0.16",
        "calls = 10",
        &[(L9, "250 ms + 5 / 0.16/s = 31.5 s")],
    );
    with(
        "limit = 3",
        "0.16",
        "calls = 11",
        &[(&format!("error L9 {never}"), "at most 10 calls")],
    );
    // At the assumed rate it would open; that the slots bound it is no reason to refuse.
    check(
        &[
            ("a", r#"timeout = { attempt = "20s", total = "60s" }"#),
            ("main", "breaker = {}"),
            ("in a", r#"limit = 3, assume = { rate = 8, p99 = "19s" }"#),
        ],
        &[
            ("error L2 routes[0].timeout.attempt", "3 / 8/s = 375 ms"),
            ("warning L1 routes[0].compartment.limit", "152"),
            (&format!("warning L9 {never}"), "at most 10 calls"),
        ],
    );
}

/// L10, at its border.
#[test]
fn a_window_longer_than_the_open_time_warns() {
    let with = |rules: &str, want: &[(&str, &str)]| {
        let rules = format!("breaker = {{ {rules} }}");
        check(
            &[
                QUICK,
                ("main", &rules),
                ("in a", r#"limit = 3, assume = { rate = 4, p99 = "200ms" }"#),
            ],
            want,
        );
    };
    with("calls = 20", &[(L9, "250 ms")]);
    let l10 = "warning L10 upstreams.main.breaker.calls";
    with(
        "calls = 21",
        &[
            (L9, "250 ms"),
            (
                l10,
                "21 / 4/s = 5.25 s of calls, longer than it stays open (5 s): at most 20 calls, \
                 or open of 5.25 s would do",
            ),
        ],
    );
    with(
        "calls = 20, open = \"100ms\"",
        &[(L9, ""), (l10, "(100 ms): open of 5 s would do")],
    );
}

/// L11, at its border.
#[test]
fn probes_without_slots_warn() {
    let l11 = "warning L11 upstreams.other.breaker.probes";
    let with = |limit: &str, other: &str, want: &[(&str, &str)]| {
        check(&[QUICK, ("in c", limit), ("other", other)], want);
    };
    with("limit = 3", "breaker = {}", &[]);
    with(
        "limit = 2",
        "breaker = {}",
        &[(l11, "3 probes at once, and 2 slots lead to it")],
    );
    with(
        "limit = 3",
        "breaker = {}\nlimit = 2",
        &[
            ("warning L14 upstreams.other.limit", "3"),
            (l11, "at most 2 would fit, or limits that add up to 3"),
        ],
    );
    with("limit = \"unlimited\", reserved = 3", "breaker = {}", &[]);
    with("limit = 2, mode = \"shadow\"", "breaker = {}", &[]);
    with("limit = 0", "breaker = {}", &[]);
    with(
        "limit = 2",
        "breaker = { count_rejections = true, calls = 4 }",
        &[
            (l11, "counts as a failure and opens it again"),
            (
                "warning L19 upstreams.other.breaker.count_rejections",
                "2 of 4 calls refused in a burst open it for 5 s",
            ),
        ],
    );
    // Slots of a step that falls back to it lead there too.
    let step = format!("{}\n{}", QUICK.1, step("limit = 25"));
    check(
        &[
            ("a", &step),
            ("in c", "limit = 2"),
            ("other", "breaker = {}"),
        ],
        &[],
    );
}

fn step(more: &str) -> String {
    format!("fallback = [{{ kind = \"upstream\", upstream = \"other\", {more} }}]")
}

/// L20 and P21: what comes when the own upstream fails, at its border.
#[test]
fn a_fallback_too_small_for_what_it_takes_over_warns() {
    let with = |more: &str, further: &[(&str, &str)], want: &[(&str, &str)]| {
        let route = format!("{}\n{}", QUICK.1, step(more));
        let mut parts = vec![("a", route.as_str())];
        parts.extend(further);
        check(&parts, want);
    };
    let l20 = "warning L20 routes[0].fallback[0].limit";
    with("limit = 25", &[], &[]);
    with(
        "limit = 24",
        &[],
        &[(
            l20,
            "when main fails, 100/s come here x timeout 250 ms = 25 in flight; limit 24 is below \
             it: 25 would hold them, or a timeout of at most 240 ms",
        )],
    );
    with("limit = 24, timeout = \"240ms\"", &[], &[]);
    // What is known of the other upstream goes before its timeout.
    let known = r#"limit = 30, assume = { rate = 1, p99 = "100ms" }"#;
    let calm = ("c", r#"timeout.attempt = "200ms""#);
    with("limit = 10", &[("in c", known), calm], &[]);
    with(
        "limit = 9",
        &[("in c", known), calm],
        &[(
            l20,
            "p99 100 ms = 10 in flight; limit 9 is below it: 10 would hold them",
        )],
    );
}

/// What of the step's limit can be reached.
#[test]
fn a_fallback_that_nothing_gets_into_is_told() {
    let limit = "routes[0].fallback[0].limit";
    let with = |slots: &str, further: &[(&str, &str)], want: &[(&str, &str)]| {
        let route = format!("{}\n{}", QUICK.1, step(slots));
        let mut parts = vec![("a", route.as_str())];
        parts.extend(further);
        check(&parts, want);
    };
    with(
        "limit = 30",
        &[("gateway", "spare = 0")],
        &[(&format!("error L12 {limit}"), "nothing gets in")],
    );
    with("limit = 30", &[("gateway", "spare = 30")], &[]);
    with(
        "limit = 31",
        &[("gateway", "spare = 30")],
        &[(
            &format!("warning L12 {limit}"),
            "31 is never reached: there are 30",
        )],
    );
    with("limit = 40", &[("other", "limit = 40")], &[]);
    with(
        "limit = 41",
        &[("other", "limit = 40")],
        &[(
            &format!("warning L14 {limit}"),
            "upstreams.other.limit 40 wins",
        )],
    );
    with(
        "limit = 40",
        &[("other", "limit = 0")],
        &[
            (&format!("warning effect {limit}"), "never answers"),
            ("warning L14 upstreams.other.limit", "30"),
        ],
    );
    let second = ("b", step("limit = 15"));
    let open = ("in b", "limit = 1");
    let cap = |cap: &'static str| ("other", cap);
    with(
        "limit = 25",
        &[(second.0, &second.1), open, cap("limit = 40")],
        &[],
    );
    with(
        "limit = 25",
        &[(second.0, &second.1), open, cap("limit = 39")],
        &[(
            "warning L20 upstreams.other.limit",
            "25 + 15 = 40 times at once; its limit 39",
        )],
    );
}

/// L8 of a step: the attempts leave it time.
#[test]
fn a_fallback_without_time_warns() {
    let with = |total: &str, want: &[(&str, &str)]| {
        let route = format!(
            "timeout = {{ attempt = \"250ms\", total = \"{total}\" }}\n{}",
            step("limit = 30, timeout = \"100ms\"")
        );
        check(&[("a", &route)], want);
    };
    with("350ms", &[]);
    with(
        "349ms",
        &[(
            "warning L8 routes[0].fallback[0].timeout",
            "after 250 ms of waiting and attempts, total 349 ms leaves it 99 ms of its 100 ms: a \
             total of 350 ms would",
        )],
    );
}

/// L18: a retry that is none of the policy's, and two that stand in for each other.
#[test]
fn a_retry_outside_the_permit_warns() {
    let at = "routes[0].fallback[0].upstream";
    let route = format!("{}\n{}", QUICK.1, step("limit = 30"));
    let same = r#"["http://127.0.0.1:9003", "http://127.0.0.1:9001"]"#;
    check(
        &[("a", &route), ("endpoints", same)],
        &[(
            &format!("warning L18 {at}"),
            "upstreams.other is 127.0.0.1:9001, and so is upstreams.main",
        )],
    );
    let back = "fallback = [{ kind = \"upstream\", upstream = \"main\", limit = 9 }]";
    check(
        &[("a", &route), ("c", back)],
        &[
            (
                &format!("warning L20 {at}"),
                "main and other stand in for each other",
            ),
            (
                "warning L20 routes[2].fallback[0].upstream",
                "other and main stand in for each other",
            ),
        ],
    );
    let retry = |hold: &str| format!("limit = 9, max_hold = \"{hold}\"");
    let twice = "timeout.attempt = \"250ms\"\nretry = { attempts = 2, budget = 0.1 }";
    check(&[("a", twice), ("in a", &retry("500ms"))], &[]);
    check(
        &[("a", twice), ("in a", &retry("499ms"))],
        &[(
            "warning L18 routes[0].compartment.max_hold",
            "2 x attempt 250 ms, at most total 60 s = 500 ms; a hold of at most 499 ms",
        )],
    );
}

/// The bound of the age, at its borders.
#[test]
fn a_stored_answer_that_is_too_old_when_it_is_needed_is_told() {
    let with = |age: &str, further: &[(&str, &str)], want: &[(&str, &str)]| {
        let route = format!(
            "{}\nfallback = [{{ kind = \"stale\", max_age = \"{age}\" }}]",
            QUICK.1
        );
        let mut parts = vec![("a", route.as_str()), ("in a", "limit = 30")];
        parts.extend(further);
        check(&parts, want);
    };
    let at = "routes[0].fallback[0].max_age";
    with("251ms", &[], &[]);
    with(
        "250ms",
        &[],
        &[(
            &format!("warning stale {at}"),
            "is 250 ms old when the call is given up",
        )],
    );
    let breaker = ("main", "breaker = { open = \"4s\" }");
    with("4.25s", &[breaker], &[]);
    with(
        "4.249s",
        &[breaker],
        &[(
            &format!("info stale {at}"),
            "250 ms until a hang is given up + 4 s of an open breaker = 4.25 s",
        )],
    );
}
