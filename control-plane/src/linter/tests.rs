//! What the linter says of whole policies, rule by rule. Separate because the cases outgrew the
//! file; a case must never look at more than the findings.

use wire::document::{Syntax, load};

use super::*;

/// A policy of two routes over one upstream; `route` are more lines of the first.
fn policy(upstream: &str, compartment: &str, route: &str) -> Policy {
    let text = format!(
        r#"
        schema = 1
        [gateway]
        capacity = 200
        [upstreams.main]
        endpoints = ["http://127.0.0.1:9001"]
        {upstream}
        [[routes]]
        id = "a"
        path = "/a"
        upstream = "main"
        compartment = {{ limit = 30, {compartment} }}
        {route}
        [[routes]]
        id = "b"
        path = "/b"
        upstream = "main"
        compartment = {{ limit = 30 }}
        "#
    );
    load(&text, Syntax::Toml)
        .unwrap_or_else(|error| panic!("{error}"))
        .policy
}

/// Exactly these findings: severity, rule, path, and words of the message.
fn check(policy: &Policy, want: &[(Severity, &str, &str, &[&str])]) {
    let findings = lint(policy);
    let seen: Vec<_> = findings
        .iter()
        .map(|finding| (finding.severity, finding.rule, finding.path.to_string()))
        .collect();
    let expected: Vec<_> = want
        .iter()
        .map(|(severity, rule, path, _)| (*severity, *rule, (*path).to_owned()))
        .collect();
    assert_eq!(seen, expected, "{findings:#?}");
    for (finding, (.., words)) in findings.iter().zip(want) {
        for word in *words {
            assert!(finding.message.contains(word), "{word} in {finding}");
        }
    }
}

const ASSUME: &str = r#"assume = { rate = 100, p99 = "200ms" }"#;
const RETRY_10: &str = r#"retry = { attempts = 2, budget = 0.10, window = "10s" }"#;

/// The article's own configuration: nothing to say.
#[test]
fn the_article_is_fine() {
    let route = format!("timeout = {{ attempt = \"250ms\" }}\n{RETRY_10}");
    check(&policy("", ASSUME, &route), &[]);
    check(&policy("", "", ""), &[]);
}

/// L1.
#[test]
fn a_limit_below_the_normal_peak_warns() {
    let assume = r#"assume = { rate = 100, p99 = "301ms" }"#;
    let route = r#"timeout = { attempt = "299ms" }"#;
    check(
        &policy("", assume, route),
        &[
            (
                Severity::Warning,
                "L1",
                "routes[0].compartment.limit",
                &["30.1", "301 ms", "100/s"],
            ),
            (
                Severity::Warning,
                "L4",
                "routes[0].timeout.attempt",
                &["299 ms", "301 ms"],
            ),
        ],
    );
}

/// L2 and P13: strict at the border.
#[test]
fn a_timeout_as_long_as_the_time_to_fill_is_an_error() {
    for (attempt, fine) in [
        ("250ms", true),
        ("299.999ms", true),
        ("300ms", false),
        ("1s", false),
    ] {
        let route = format!("timeout = {{ attempt = \"{attempt}\" }}");
        let l2: (_, _, _, &[&str]) = (
            Severity::Error,
            "L2",
            "routes[0].timeout.attempt",
            &["30 / 100/s = 300 ms", "must be shorter"],
        );
        check(
            &policy("", ASSUME, &route),
            if fine { &[] } else { std::slice::from_ref(&l2) },
        );
    }
    // The default attempt of 15 s is judged too.
    let default: (_, _, _, &[&str]) = (
        Severity::Error,
        "L2",
        "routes[0].timeout.attempt",
        &["15 s"],
    );
    check(&policy("", ASSUME, ""), &[default]);
}

/// L3 and P14.
#[test]
fn the_worst_case_with_retries_must_fit() {
    let route = |budget: &str| {
        format!("timeout.attempt = \"250ms\"\nretry = {{ attempts = 2, budget = {budget} }}")
    };
    check(&policy("", ASSUME, &route("0.10")), &[]);
    check(&policy("", ASSUME, &route("0.2")), &[]);
    check(
        &policy("", ASSUME, &route("0.25")),
        &[(
            Severity::Error,
            "L3",
            "routes[0].retry.budget",
            &["31.25", "30", "1.25"],
        )],
    );
}

/// L5.
#[test]
fn retries_need_a_budget() {
    let route = "timeout.attempt = \"250ms\"\nretry.attempts = 2";
    let path = "routes[0].retry.budget";
    check(
        &policy("", ASSUME, route),
        &[(Severity::Error, "L5", path, &["50", "30"])],
    );
    check(
        &policy("", "", route),
        &[(Severity::Warning, "L5", path, &["budget"])],
    );
    let calm = r#"assume = { rate = 10, p99 = "200ms" }"#;
    check(
        &policy("", calm, route),
        &[(Severity::Warning, "L5", path, &["5", "30"])],
    );
    check(
        &policy(
            "",
            ASSUME,
            "timeout.attempt = \"250ms\"\nretry.attempts = 1",
        ),
        &[],
    );
}

/// P2.
#[test]
fn long_queues_warn() {
    let queue = |places: u32| format!("queue = {places}, queue_wait = \"20ms\"");
    check(&policy("", &queue(9), ""), &[]);
    check(
        &policy("", &queue(10), ""),
        &[(
            Severity::Warning,
            "P2",
            "routes[0].compartment.queue",
            &["10", "9"],
        )],
    );
}

/// L14.
#[test]
fn guarantees_above_the_limit_of_their_upstream_warn() {
    check(&policy("limit = 60", "", ""), &[]);
    check(
        &policy("limit = 59", "", ""),
        &[(
            Severity::Warning,
            "L14",
            "upstreams.main.limit",
            &["30 + 30 = 60", "59"],
        )],
    );
}

#[test]
fn bounds_that_never_run_out_warn() {
    let bounds = |path, words| (Severity::Warning, "bounds", path, words);
    check(
        &policy("", "", r#"timeout = { attempt = "9s", total = "1s" }"#),
        &[bounds("routes[0].timeout.attempt", &["9 s", "1 s"][..])],
    );
    check(
        &policy("", r#"max_hold = "1s""#, ""),
        &[bounds(
            "routes[0].compartment.max_hold",
            &["1 s", "15 s"][..],
        )],
    );
    check(
        &policy(
            "",
            r#"queue = 1, queue_wait = "2s""#,
            r#"timeout = { attempt = "1s", total = "1s" }"#,
        ),
        &[bounds(
            "routes[0].compartment.queue_wait",
            &["2 s", "1 s"][..],
        )],
    );
}

#[test]
fn what_has_no_effect_warns() {
    let effect = |path| (Severity::Warning, "effect", path, &["no effect"][..]);
    check(
        &policy("", "tenant_limit = 3, tenant_share = 1.0", ""),
        &[
            effect("routes[0].compartment.tenant_share"),
            effect("routes[0].compartment.tenant_limit"),
        ],
    );
}

/// Errors stand first and are never the ones that are left out.
#[test]
fn findings_are_bounded() {
    let mut policy = policy("", r#"max_hold = "1s""#, "");
    let odd = policy.routes[0].clone();
    let bad = super::tests::policy("", ASSUME, "").routes[0].clone();
    policy.routes = vec![odd; 1000];
    policy.routes.push(bad);
    let findings = lint(&policy);
    assert_eq!(findings.len(), FINDINGS_MAX + 1);
    assert_eq!(findings[0].rule, "L2");
    assert_eq!(findings[FINDINGS_MAX].message, "801 more findings");
}

/// The example that people start from has nothing to think about.
#[test]
fn the_example_is_without_findings() {
    let example = include_str!("../../../examples/shop.toml");
    let loaded = load(example, Syntax::Toml).unwrap_or_else(|error| panic!("{error}"));
    check(&loaded.policy, &[]);
}
