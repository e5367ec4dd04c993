//! The document forms through their public door: what each reads alike, where errors are, what is
//! written back. Separate from the policy's own cases; a case must never depend on one syntax
//! where it is about all three.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step fails the test"
)]

use std::path::Path as FilePath;

use compartment::policy::{Path, Value};
use proptest::prelude::*;
use wire::document::{
    DOCUMENT_BYTES_MAX, LoadError, Syntax, diff, digest, load, to_json, to_toml, value_of,
};

const SHOP: &str = include_str!("../../examples/shop.toml");

const GOOD: &str = r#"schema = 1

[gateway]
capacity = 200

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
compartment = { limit = -7 }
"#;

/// Path and line of every broken rule.
fn refused(text: &str, syntax: Syntax) -> Vec<(String, Option<u32>)> {
    match load(text, syntax) {
        Err(LoadError::Refused(faults)) => faults
            .iter()
            .map(|located| (located.fault.path.to_string(), located.line))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn check(text: &str, syntax: Syntax, want: &[(&str, u32)]) {
    let want: Vec<_> = want
        .iter()
        .map(|(path, line)| ((*path).to_owned(), Some(*line)))
        .collect();
    assert_eq!(refused(text, syntax), want, "{text}");
}

fn line_of(text: &str, entry: &str) -> u32 {
    let index = text.lines().position(|line| line == entry).unwrap();
    u32::try_from(index + 1).unwrap()
}

#[test]
fn an_error_names_path_value_rule_and_line() {
    let line = line_of(GOOD, "compartment = { limit = -7 }");
    check(GOOD, Syntax::Toml, &[("routes[1].compartment.limit", line)]);
    let text = load(GOOD, Syntax::Toml).unwrap_err().to_string();
    let start = format!("line {line}: routes[1].compartment.limit = -7: must be a whole number");
    assert!(text.starts_with(&start), "{text}");
}

/// A missing value is looked for on the line of the table around it.
#[test]
fn lines_are_those_of_the_entry_or_of_the_table_around_it() {
    let good = GOOD.replace("-7", "7");
    let cases = [
        (
            good.replace("limit = 7", ""),
            "routes[1].compartment.limit",
            "compartment = {  }",
        ),
        (
            good.replace(
                "compartment = { limit = 7 }",
                "[routes.compartment]\n# none",
            ),
            "routes[1].compartment.limit",
            "[routes.compartment]",
        ),
        (
            good.replace("capacity", "capacty"),
            "gateway.capacty",
            "capacty = 200",
        ),
        (
            good.replace(
                "\"main\"\ncompartment = { limit = 7 }",
                "\"x\"\ncompartment.limit = 7",
            ),
            "routes[1].upstream",
            "upstream = \"x\"",
        ),
        (
            good.replace(
                "compartment = { limit = 7 }",
                "compartment.limit = 1.5 # many",
            ),
            "routes[1].compartment.limit",
            "compartment.limit = 1.5 # many",
        ),
        (
            good.replace("endpoints = [", "endpoints = [\n")
                .replace("9001\"]", "0\"\n]"),
            "upstreams.main.endpoints[0]",
            "\"http://127.0.0.1:0\"",
        ),
    ];
    for (text, path, entry) in cases {
        check(&text, Syntax::Toml, &[(path, line_of(&text, entry))]);
    }
    // Missing in an element of [[routes]]: the line of its header, the second one here.
    let text = good.replace("path = \"/b\"\n", "");
    check(
        &text,
        Syntax::Toml,
        &[("routes[1].path", line_of(&text, "id = \"b\"") - 1)],
    );
    // At the root there is no table around it.
    assert_eq!(refused("", Syntax::Toml), [("schema".to_owned(), None)]);
    assert!(
        load("", Syntax::Toml)
            .unwrap_err()
            .to_string()
            .contains("schema")
    );
}

#[test]
fn every_syntax_knows_its_lines() {
    let json = "{\n \"schema\": 1,\n \"x\\\"y\": [\"}\", {\"a\": [1, 2]}],\n \"upstreams\": {\n  \
                \"main\":\n   {\"endpoints\": [\"http://a\",\n    3]}}}";
    check(
        json,
        Syntax::Json,
        &[("\"x\\\"y\"", 3), ("upstreams.main.endpoints[1]", 7)],
    );
    let yaml = "schema: 1\nupstreams:\n  main:\n    endpoints:\n      - http://a\n      - 3\n\
                routes:\n  - id: a\n    path: /a\n    upstream: main\n    compartment:\n      \
                limit: -7\n";
    check(
        yaml,
        Syntax::Yaml,
        &[
            ("upstreams.main.endpoints[1]", 6),
            ("routes[0].compartment.limit", 12),
        ],
    );
}

#[test]
fn a_syntax_error_has_its_line() {
    let broken = format!("{GOOD}\nnonsense 30\n");
    let last = u32::try_from(GOOD.lines().count() + 2).unwrap();
    let cases = [
        (broken.as_str(), Syntax::Toml, last),
        ("schema = 1\nschema = 1\n", Syntax::Toml, 2),
        ("a = 1\nb = 2020-01-01\n", Syntax::Toml, 2),
        ("a = \"é\n", Syntax::Toml, 1),
        ("{\"schema\": 1,\n\"schema\": 1}", Syntax::Json, 2),
        ("{\"schema\": 1,\n}", Syntax::Json, 2),
        ("{} {}", Syntax::Json, 1),
        ("schema: 1\nschema: 1\n", Syntax::Yaml, 2),
        ("schema: 1\n  x: [\n", Syntax::Yaml, 2),
    ];
    for (text, syntax, want) in cases {
        match load(text, syntax) {
            Err(error @ LoadError::Syntax { line, .. }) => {
                assert_eq!(line, Some(want), "{error}");
                assert!(
                    error.to_string().contains(&format!("line {want}")),
                    "{error}"
                );
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        load("", Syntax::Json),
        Err(LoadError::Syntax { .. })
    ));
}

#[test]
fn all_errors_come_one_a_line() {
    let text = GOOD.replace("200", "1.5").replace("\"/a\"", "\"a\"");
    let shown = load(&text, Syntax::Toml).unwrap_err().to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3, "{shown}");
    for (line, word) in lines
        .iter()
        .zip(["gateway.capacity", "routes[0].path", "routes[1]"])
    {
        assert!(line.starts_with("line ") && line.contains(word), "{line}");
    }
}

/// The same policy in three syntaxes is one document.
#[test]
fn three_syntaxes_one_policy() {
    let toml = value_of(SHOP, Syntax::Toml).unwrap();
    let json = value_of(&to_json(&toml), Syntax::Json).unwrap();
    assert_eq!(json, toml);
    // JSON is YAML; so every quoted word stays a word there.
    let yaml = value_of(&to_json(&toml), Syntax::Yaml).unwrap();
    assert_eq!(yaml, toml);
    let plain = "schema: 1\nupstreams:\n  a:\n    endpoints: [http://a]\n    http2: false\n";
    let same = "schema = 1\nupstreams.a = { endpoints = [\"http://a\"], http2 = false }";
    assert_eq!(value_of(plain, Syntax::Yaml), value_of(same, Syntax::Toml));
}

#[test]
fn the_example_is_fine() {
    let loaded = load(SHOP, Syntax::Toml).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(loaded.policy.routes.len(), 4);
    assert_eq!(loaded.policy.tenants.len(), 2);
}

fn round_trip(value: &Value) -> String {
    let text = to_toml(value);
    let read = value_of(&text, Syntax::Toml).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(digest(&read), digest(value), "{text}");
    text
}

#[test]
fn toml_is_written_as_it_is_read() {
    let shop = value_of(SHOP, Syntax::Toml).unwrap();
    let text = round_trip(&shop);
    for line in [
        "[gateway.http]",
        "[tenants.corner-store]",
        "[[routes]]",
        "[routes.compartment]",
        "[[routes.fallback]]",
        "assume = { rate = 50, p99 = \"400ms\" }",
        "tenant_share = 1.0",
        "  { api_key = { header = \"x-api-key\" } },",
    ] {
        assert!(text.lines().any(|have| have == line), "{line} in\n{text}");
    }
    assert!(!text.contains("[tenants]\n"), "{text}");
    assert_eq!(
        load(&text, Syntax::Toml).unwrap().policy,
        load(SHOP, Syntax::Toml).unwrap().policy
    );
}

#[test]
fn odd_values_round_trip() {
    let json = r#"{
        "plain": "a", "quoted": "a\"b\\c", "lines": "a\nb\tc\r\u0000\u007f\u001b é 💡",
        "a.b": {"c d": {"": {"é": 1}}}, "": 0, "float": 1.0, "tiny": 1e-9, "large": 1e300,
        "minus": -0.5, "long": 12345678901234567890, "none": {}, "empty": [],
        "mixed": [1, {"a": []}, [[]], "x"], "tables": [{}, {"a": {"b": {"c": {}}}}],
        "deep": [{"list": [{"list": [{"x": 1}]}], "after": 1}]
    }"#;
    round_trip(&value_of(json, Syntax::Json).unwrap());
    round_trip(&value_of("{}", Syntax::Json).unwrap());
    // What TOML cannot say is left out.
    let null = value_of(r#"{"a": null, "b": [null, 1]}"#, Syntax::Json).unwrap();
    assert_eq!(to_toml(&null), "b = [1]\n");
}

#[test]
fn a_digest_does_not_depend_on_the_order_of_keys() {
    let one = value_of(r#"{"a": 1, "b": {"c": [1, 2], "d": 2}}"#, Syntax::Json).unwrap();
    let other = value_of(r#"{"b": {"d": 2, "c": [1, 2]}, "a": 1}"#, Syntax::Json).unwrap();
    let third = value_of(r#"{"a": 1, "b": {"c": [2, 1], "d": 2}}"#, Syntax::Json).unwrap();
    assert_eq!(digest(&one), digest(&other));
    assert_ne!(digest(&one), digest(&third));
    let known = value_of(r#"{"a":1}"#, Syntax::Json).unwrap();
    let want = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
    assert_eq!(digest(&known), want, "SHA-256 of {{\"a\":1}}");
}

#[test]
fn differences_match_routes_by_id() {
    let old = value_of(&GOOD.replace("-7", "3"), Syntax::Toml).unwrap();
    let check = |new: &str, want: &[(&str, &str, &str)]| {
        let new = value_of(new, Syntax::Toml).unwrap();
        let shown = |value: Option<Value>| value.map_or("-".to_owned(), |v| v.excerpt());
        let seen: Vec<_> = diff(&old, &new)
            .into_iter()
            .map(|d| (d.path.to_string(), shown(d.old), shown(d.new)))
            .collect();
        let want: Vec<_> = want
            .iter()
            .map(|(path, old, new)| ((*path).to_owned(), (*old).to_owned(), (*new).to_owned()))
            .collect();
        assert_eq!(seen, want);
    };
    check(&GOOD.replace("-7", "3"), &[]);
    check(
        &GOOD.replace("-7", "17"),
        &[("routes[1].compartment.limit", "3", "17")],
    );
    check(
        &GOOD
            .replace("-7", "3, queue = 1")
            .replace("capacity = 200\n", ""),
        &[
            ("gateway.capacity", "200", "-"),
            ("routes[1].compartment.queue", "-", "1"),
        ],
    );
    // Routes in another order are the same routes; one in front of them is one difference.
    let (head, routes) = GOOD.split_once("[[routes]]").unwrap();
    let (a, b) = routes.split_once("[[routes]]").unwrap();
    let swapped = format!("{head}[[routes]]{b}[[routes]]{a}").replace("-7", "3");
    check(&swapped, &[]);
    let more = format!("{head}[[routes]]\nid = \"c\"\n[[routes]]{a}[[routes]]{b}");
    check(
        &more.replace("-7", "3"),
        &[("routes[0]", "-", "{ id = \"c\" }")],
    );
    let fewer = format!("{head}[[routes]]{b}").replace("-7", "4");
    let gone = diff(&old, &value_of(&fewer, Syntax::Toml).unwrap());
    let paths: Vec<String> = gone.iter().map(|d| d.path.to_string()).collect();
    assert_eq!(paths, ["routes[0].compartment.limit", "routes[0]"]);
    assert!(gone[1].new.is_none());
}

#[test]
fn the_name_of_a_file_promises_its_syntax() {
    for (name, syntax) in [
        ("p.toml", Syntax::Toml),
        ("p.json", Syntax::Json),
        ("p.YAML", Syntax::Yaml),
        ("p.yml", Syntax::Yaml),
        ("p", Syntax::Toml),
    ] {
        assert_eq!(Syntax::of_path(FilePath::new(name)), syntax, "{name}");
    }
}

/// 50 MiB, 100,000 routes, a nest without end, anchors that multiply: refused, and soon.
#[test]
fn what_is_too_large_is_refused() {
    let large = " ".repeat(50 << 20);
    for syntax in [Syntax::Toml, Syntax::Json, Syntax::Yaml] {
        let error = load(&large, syntax).unwrap_err();
        assert_eq!(error, LoadError::TooLarge { bytes: 50 << 20 });
        assert!(error.to_string().contains(&DOCUMENT_BYTES_MAX.to_string()));
    }
    let route = "[[routes]]\nid = \"r\"\npath = \"/r\"\nupstream = \"u\"\ncompartment.limit = 1\n";
    let routes = format!("schema = 1\n{}", route.repeat(100_000));
    check(&routes, Syntax::Toml, &[("routes", 2)]);
    for (text, syntax) in [
        (format!("a = {}", "[".repeat(1_000_000)), Syntax::Toml),
        (
            format!("a = {}{}", "[".repeat(70), "]".repeat(70)),
            Syntax::Toml,
        ),
        (format!("{}a = 1", "a.".repeat(1_000_000)), Syntax::Toml),
        (format!("[{}a]", "a.".repeat(1_000_000)), Syntax::Toml),
        (format!("a = {}", "{a=".repeat(1_000_000)), Syntax::Toml),
        ("[".repeat(1_000_000), Syntax::Json),
        ("{\"a\":".repeat(1_000_000), Syntax::Json),
        ("[".repeat(1_000_000), Syntax::Yaml),
        ("{a: ".repeat(1_000_000), Syntax::Yaml),
    ] {
        let error = load(&text, syntax).unwrap_err();
        assert!(
            matches!(error, LoadError::Syntax { .. }),
            "{syntax:?}: {}",
            text.len()
        );
        assert!(
            error.to_string().len() < 1000,
            "{}",
            error.to_string().len()
        );
    }
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        laughs.push_str(&format!(
            "a{level}: &a{level} [{}]\n",
            [before.as_str(); 10].join(", ")
        ));
    }
    assert!(load(&laughs, Syntax::Yaml).is_err());
}

/// Every cut and every changed byte of a sound text is read or refused, never a panic.
#[test]
fn no_damaged_text_panics() {
    let json = to_json(&value_of(SHOP, Syntax::Toml).unwrap());
    for (text, syntax) in [
        (SHOP, Syntax::Toml),
        (&json, Syntax::Json),
        (&json, Syntax::Yaml),
        (GOOD, Syntax::Yaml),
    ] {
        for at in (0..text.len())
            .step_by(31)
            .filter(|at| text.is_char_boundary(*at))
        {
            let _ = load(&text[..at], syntax);
            for byte in ["\"", "{", "]", "\n", "9", "é", "\u{0}"] {
                let mut damaged = text.to_owned();
                damaged.insert_str(at, byte);
                if let Err(LoadError::Refused(faults)) = load(&damaged, syntax) {
                    assert!(!faults.is_empty());
                }
            }
        }
    }
}

#[test]
fn a_byte_order_mark_says_nothing() {
    let text = format!("\u{feff}{}", GOOD.replace("-7", "7"));
    assert!(load(&text, Syntax::Toml).is_ok());
}

#[test]
fn values_are_found_by_path() {
    let value = value_of(GOOD, Syntax::Toml).unwrap();
    let path = Path::from_pointer("/routes/1/compartment/limit").unwrap();
    assert_eq!(value.at(&path), Some(&Value::Integer(-7)));
}

fn any_tree() -> impl Strategy<Value = Value> {
    let finite = prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::NEGATIVE;
    let scalar = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| Value::Integer(number.into())),
        finite.prop_map(Value::Float),
        any::<String>().prop_map(Value::String),
    ];
    scalar.prop_recursive(5, 48, 6, |inner| {
        let key = prop_oneof!["[a-z_-]{1,3}", any::<String>()];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|entries| Value::Table(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever a document holds, TOML and JSON say the same.
    #[test]
    fn any_document_round_trips(tree in any_tree()) {
        let document = Value::Table(vec![("a".to_owned(), tree.clone()), ("z".to_owned(), tree)]);
        round_trip(&document);
        assert_eq!(value_of(&to_json(&document), Syntax::Json).as_ref(), Ok(&document));
        assert!(diff(&document, &document).is_empty());
    }
}
