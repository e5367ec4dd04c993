//! What the page of a compartment says of the policy: values, origins, what is shared.
//!
//! Separate from the samples because these are derived from a whole document.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a document that is refused fails the test"
)]

use compartment::policy::{Policy, Value, check};
use web::{Origin, effective_values, not_isolated};

const DOCUMENT: &str = r#"{
    "schema": 1,
    "gateway": {"capacity": 200, "http": {"body_idle_timeout": "9s", "max_body": "1MiB"}},
    "identify": {"by": [{"api_key": {"header": "x-api-key"}}], "unknown": "shared",
                 "unknown_limit": 5},
    "plans": {"free": {"limit": 5, "class": "sheddable", "routes": {"a": 3}}},
    "tenants": {"acme": {"plan": "free", "limit": 8}, "small": {"plan": "free"}},
    "upstreams": {
        "main": {"endpoints": ["http://127.0.0.1:9001"], "limit": 60},
        "other": {"endpoints": ["http://127.0.0.1:9002"]}
    },
    "routes": [
        {"id": "a", "path": "/a", "upstream": "main", "class": "critical",
         "compartment": {"limit": 40, "reserved": 30, "tenant_limit": 20, "tenant_share": 0.25},
         "timeout": {"attempt": "250ms"},
         "fallback": [{"kind": "static", "status": 200, "content_type": "text/plain",
                       "body": "-"}]},
        {"id": "b", "path": "/b", "upstream": "main",
         "compartment": {"limit": 10, "mode": "shadow", "candidate": 7, "stream": {"limit": 4}}},
        {"id": "c", "path": "/c", "upstream": "other", "compartment": {"limit": "unlimited"}}
    ]
}"#;

fn policy() -> (Value, Policy) {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let policy = check(&document).unwrap_or_else(|faults| panic!("{faults:?}"));
    (document, policy)
}

/// Value and origin of one name, in plain words.
fn value(key: &str, name: &str) -> (String, Origin) {
    let (document, policy) = policy();
    let values = effective_values(&document, &policy, &key.parse().unwrap());
    let found = values.into_iter().find(|one| one.name == name);
    let found = found.unwrap_or_else(|| panic!("{key} says nothing of {name}"));
    (found.value.replace('\u{a0}', " "), found.origin)
}

#[test]
fn each_value_says_who_set_it() {
    let route = |id: &str| Origin::Route(id.to_owned());
    let free = || Origin::Plan("free".to_owned());
    for (key, name, shown, origin) in [
        ("route/a", "limit", "40", route("a")),
        ("route/a", "reserved", "30", route("a")),
        ("route/b", "reserved", "10", Origin::Default),
        ("route/a", "tenant_share", "0.25", route("a")),
        ("route/b", "tenant_limit", "not set", Origin::Default),
        ("route/c", "limit", "unlimited", route("c")),
        ("route/c", "reserved", "0", Origin::Default),
        ("route/a", "max_hold", "1 min", Origin::Default),
        ("route/a", "timeout.attempt", "250 ms", route("a")),
        ("route/b", "timeout.attempt", "15 s", Origin::Default),
        ("route/a", "timeout.body_idle", "9.0 s", Origin::Gateway),
        ("route/a", "mode", "enforce", Origin::Default),
        ("route/b", "mode", "shadow", route("b")),
        ("route/b", "candidate", "7", route("b")),
        ("route/a", "candidate", "not set", Origin::Default),
        ("route/b", "stream", "4 slots of their own", route("b")),
        ("route/a", "class", "critical", route("a")),
        ("route/b", "class", "standard", Origin::Default),
        (
            "route/a",
            "fallback",
            "a fixed answer, status 200",
            route("a"),
        ),
        (
            "upstream/main",
            "limit",
            "60",
            Origin::Upstream("main".to_owned()),
        ),
        ("upstream/other", "limit", "unlimited", Origin::Default),
        (
            "upstream/other",
            "connect_timeout",
            "2.0 s",
            Origin::Default,
        ),
        (
            "tenant/acme",
            "limit",
            "8",
            Origin::Tenant("acme".to_owned()),
        ),
        ("tenant/small", "limit", "5", free()),
        ("tenant/small", "class", "sheddable at most", free()),
        ("tenant/_unknown", "unknown_limit", "5", Origin::Identify),
        ("route/a/tenant/acme", "tenant_limit", "20", route("a")),
        (
            "route/a/tenant/acme",
            "plan's limit on the route",
            "3",
            free(),
        ),
        ("route/a/tenant/acme", "class", "sheddable", free()),
        ("gateway", "capacity", "200", Origin::Gateway),
        ("gateway", "http.max_body", "1 MiB", Origin::Gateway),
        (
            "gateway",
            "http.max_header_bytes",
            "32 KiB",
            Origin::Default,
        ),
    ] {
        assert_eq!(value(key, name), (shown.to_owned(), origin), "{key} {name}");
    }
}

#[test]
fn a_key_that_the_policy_does_not_name_has_no_values() {
    let (document, policy) = policy();
    for key in ["route/x", "upstream/x", "tenant/x", "route/x/tenant/acme"] {
        assert!(
            effective_values(&document, &policy, &key.parse().unwrap()).is_empty(),
            "{key}"
        );
    }
}

#[test]
fn everything_shared_is_named() {
    let (_, policy) = policy();
    let shared = |key: &str| -> Vec<(String, Vec<String>)> {
        let all = not_isolated(&policy, &key.parse().unwrap());
        let keys = |with: Vec<(String, String)>| with.into_iter().map(|(key, _)| key).collect();
        all.into_iter()
            .map(|one| (one.what, keys(one.with)))
            .collect()
    };
    let named = |key: &str, what: &str| -> Vec<String> {
        let found = shared(key)
            .into_iter()
            .find(|(sentence, _)| sentence.contains(what));
        found
            .unwrap_or_else(|| panic!("{key} does not say: {what}"))
            .1
    };
    assert_eq!(
        named("route/a", "The upstream main is shared with"),
        ["route/b"]
    );
    assert_eq!(
        named("route/a", "A host of the upstream also serves"),
        ["upstream/other"]
    );
    assert_eq!(named("route/a", "The ceiling of 200"), ["gateway"]);
    assert!(named("route/a", "Slots beyond its 30 guaranteed ones").is_empty());
    assert!(
        !shared("route/b")
            .iter()
            .any(|(what, _)| what.contains("guaranteed"))
    );
    let alone = shared("route/c")
        .iter()
        .any(|(what, _)| what.contains("The upstream other"));
    assert!(!alone, "nobody else uses that upstream");
    assert!(named("route/c", "Slots beyond its 0 guaranteed ones").is_empty());
    assert_eq!(
        named("upstream/main", "Its slots are shared by"),
        ["route/a", "route/b"]
    );
    assert_eq!(
        named("route/a/tenant/acme", "shared with every other tenant"),
        ["route/a"]
    );
    assert!(
        !shared("gateway")
            .iter()
            .any(|(what, _)| what.contains("ceiling of"))
    );
    for key in ["gateway", "tenant/acme"] {
        assert!(!shared(key).is_empty(), "{key}");
    }
}

/// A plan's cap on a route is in force there too, and says which plan.
#[test]
fn a_plans_cap_is_among_the_values_of_its_route() {
    let (document, policy) = policy();
    let values = effective_values(&document, &policy, &"route/a".parse().unwrap());
    let caps: Vec<_> = values
        .iter()
        .filter(|one| one.name == "tenant_limit")
        .collect();
    let shown: Vec<_> = caps
        .iter()
        .map(|one| (one.value.as_str(), one.origin.words()))
        .collect();
    assert_eq!(
        shown,
        [
            ("20", "route a".to_owned()),
            ("3 for a tenant of the plan", "plan free".to_owned())
        ]
    );
}
