//! What the linter says of whole policies, rule by rule. Separate because the cases outgrew the
//! file; a case must never look at more than the findings.

mod surroundings;

use wire::document::{Syntax, load};

use super::*;

/// A policy of two routes over one upstream; `route` are more lines of the first.
pub(super) fn policy(upstream: &str, compartment: &str, route: &str) -> Policy {
    policy_with("", upstream, compartment, route)
}

/// Tenants, one of whom is on a plan whose requests give way first.
pub(super) const IDENTIFY: &str = r#"
        [identify]
        by = [{ host = {} }]
        [plans.free]
        limit = 5
        class = "sheddable"
        [tenants.acme]
        plan = "free"
        "#;

/// The same with more tables before the routes.
pub(super) fn policy_with(tables: &str, upstream: &str, compartment: &str, route: &str) -> Policy {
    let text = format!(
        r#"
        schema = 1
        [gateway]
        capacity = 200
        {tables}
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
pub(super) fn check(policy: &Policy, want: &[(Severity, &str, &str, &[&str])]) {
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

/// What L6 says of the article's own configuration, and only that is said of it.
const ARTICLE_L6: (Severity, &str, &str, &[&str]) = (
    Severity::Warning,
    "L6",
    "routes[0].retry.attempts",
    &["2 x 250 ms = 500 ms", "30 / 100/s = 300 ms", "limit of 51"],
);

/// The article's own configuration: fine, but for the permit that is held for both attempts.
#[test]
fn the_article_is_fine() {
    let route = format!("timeout = {{ attempt = \"250ms\" }}\n{RETRY_10}");
    check(&policy("", ASSUME, &route), &[ARTICLE_L6]);
    check(&policy("", "", ""), &[]);
    let short = format!("timeout = {{ attempt = \"149ms\" }}\n{RETRY_10}");
    let quick = r#"assume = { rate = 100, p99 = "100ms" }"#;
    check(&policy("", quick, &short), &[]);
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
        &["15 s", "limit of 1501"],
    );
    check(&policy("", ASSUME, ""), &[default]);
}

/// L3 and P14.
#[test]
fn the_worst_case_with_retries_must_fit() {
    let route = |budget: &str| {
        format!("timeout.attempt = \"250ms\"\nretry = {{ attempts = 2, budget = {budget} }}")
    };
    check(&policy("", ASSUME, &route("0.10")), &[ARTICLE_L6]);
    check(&policy("", ASSUME, &route("0.2")), &[ARTICLE_L6]);
    check(
        &policy("", ASSUME, &route("0.25")),
        &[(
            Severity::Error,
            "L3",
            "routes[0].retry.budget",
            &["31.25", "30", "1.25", "at most 0.2 or a limit of 32"],
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
        &[(
            Severity::Error,
            "L5",
            path,
            &["50", "30", "at most 0.2 or a limit of 50"],
        )],
    );
    // Room for more than is allowed: 100/s x 0.1s = 10, limit 30, and all may be sent five times.
    let often = "timeout.attempt = \"100ms\"\nretry.attempts = 5";
    let quick = r#"assume = { rate = 100, p99 = "50ms" }"#;
    check(
        &policy("", quick, often),
        &[(
            Severity::Error,
            "L5",
            path,
            &["50", "30", "a budget of at most 1 or a limit of 50"],
        )],
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

/// A limit against what is guaranteed and spare (L12).
#[test]
fn slots_that_nobody_can_reach_are_told() {
    let text = |spare: u32, first: &str| {
        let mut policy = policy("", first, "");
        policy.gateway.spare = spare;
        policy
    };
    check(&text(10, "reserved = 20"), &[]);
    check(
        &text(9, "reserved = 20"),
        &[(
            Severity::Warning,
            "L12",
            "routes[0].compartment.limit",
            &["20 guaranteed + 9 spare = 29", "limit 30"],
        )],
    );
    check(
        &text(0, "reserved = 0"),
        &[(
            Severity::Error,
            "L12",
            "routes[0].compartment.limit",
            &["no request gets in", "0 spare"],
        )],
    );
}

/// Streams have no slots but the spare ones, which bursts need too.
#[test]
fn streams_that_use_up_the_spare_are_told() {
    let mut policy = policy("", "stream = { limit = 70 }", "");
    check(&policy, &[]);
    policy.routes[1].compartment.stream = policy.routes[0].compartment.stream;
    check(
        &policy,
        &[(
            Severity::Warning,
            "L12",
            "gateway.spare",
            &["70 + 70 = 140 of 140"],
        )],
    );
    policy.gateway.spare = 0;
    let none = |index: usize| -> (_, _, String) {
        let path = format!("routes[{index}].compartment.stream.limit");
        (Severity::Error, "L12", path)
    };
    let seen: Vec<_> = lint(&policy)
        .into_iter()
        .map(|finding| (finding.severity, finding.rule, finding.path.to_string()))
        .collect();
    assert_eq!(seen, [none(0), none(1)]);
}

/// A plan's cap on a route that is above what the route gives to all.
#[test]
fn a_plan_above_the_route_warns() {
    let plan = |cap: u32| format!("{IDENTIFY}\n[plans.big]\nlimit = 90\nroutes = {{ a = {cap} }}");
    check(&policy_with(&plan(30), "", "", ""), &[]);
    check(
        &policy_with(&plan(31), "", "", ""),
        &[(
            Severity::Warning,
            "effect",
            "plans.big.routes.a",
            &["31", "30"],
        )],
    );
}

/// L15 and P17: 20 slots in five fours refuse 9.52 % of what 20 together refuse 0.19 % of.
#[test]
fn slots_cut_too_small_warn() {
    let mut policy = policy(
        "",
        r#"assume = { rate = 10, p99 = "200ms" }"#,
        "timeout.attempt = \"300ms\"",
    );
    let mut slice = policy.routes[0].clone();
    slice.compartment.limit = compartment::Limit::new(4).unwrap();
    slice.compartment.reserved = 4;
    policy.routes = vec![slice; 5];
    check(
        &policy,
        &[(
            Severity::Warning,
            "L15",
            "routes[0].compartment.limit",
            &["4 + 4 + 4 + 4 + 4 = 20", "9.52 %", "0.19 %"],
        )],
    );
    policy.routes.truncate(1);
    check(&policy, &[]);
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
