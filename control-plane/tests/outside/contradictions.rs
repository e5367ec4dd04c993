//! Combinations that contradict themselves, by every way a policy can change. Separate because the
//! same table goes through PUT, PATCH and a dry run; a case must never be told apart by the door it
//! came through.

use crate::support::{Answer, Plane, policy};
use serde_json::{Value, json};

/// What the one change is.
struct Case {
    /// The compartment that a PATCH names.
    key: &'static str,
    /// Its fields.
    fields: Value,
    /// `None`: taken without a word. Else the severity, the pointer and words of the finding.
    said: Option<(&'static str, &'static str, &'static [&'static str])>,
}

const LIMIT: &str = "/routes/0/compartment/limit";

fn cases() -> Vec<Case> {
    let error = |key, fields, pointer, words| Case {
        key,
        fields,
        said: Some(("error", pointer, words)),
    };
    let warning = |key, fields, pointer, words| Case {
        key,
        fields,
        said: Some(("warning", pointer, words)),
    };
    let fine = |key, fields| Case {
        key,
        fields,
        said: None,
    };
    vec![
        fine("route/a", json!({"queue": 2, "queue_wait": "20ms"})),
        error(
            "route/a",
            json!({"queue": 2}),
            "/routes/0/compartment/queue_wait",
            &["required", "queue"],
        ),
        error(
            "route/a",
            json!({"queue": 2, "queue_wait": "61s"}),
            "/routes/0/compartment/queue_wait",
            &["61 s", "60 s"],
        ),
        warning(
            "route/a",
            json!({"queue": 2, "queue_wait": "14s"}),
            "/routes/0/compartment/queue_wait",
            &["14 s", "15 s", "3.75 s"],
        ),
        warning(
            "route/a",
            json!({"queue": 10, "queue_wait": "20ms"}),
            "/routes/0/compartment/queue",
            &["10 places", "9"],
        ),
        fine("route/a", json!({"limit": 30, "reserved": 30})),
        error(
            "route/a",
            json!({"limit": 30, "reserved": 31}),
            "/routes/0/compartment/reserved",
            &["31", "30"],
        ),
        error(
            "route/a",
            json!({"limit": 30, "class_reserve": 30}),
            "/routes/0/compartment/class_reserve",
            &["30"],
        ),
        warning(
            "route/a",
            json!({"limit": 30, "class_reserve": 29}),
            "/routes/0/compartment/class_reserve",
            &["standard"],
        ),
        warning(
            "route/a",
            json!({"max_hold": "14s"}),
            "/routes/0/compartment/max_hold",
            &["14 s", "15 s"],
        ),
        warning(
            "route/a",
            json!({"tenant_limit": 3}),
            "/routes/0/compartment/tenant_limit",
            &["3", "2"],
        ),
        warning(
            "route/a",
            json!({"limit": "unlimited", "tenant_share": 1.0}),
            "/routes/0/compartment/tenant_share",
            &["unlimited"],
        ),
        fine("route/a", json!({"candidate": 1, "mode": "shadow"})),
        error(
            "route/a",
            json!({"candidate": 1, "limit": "unlimited"}),
            "/routes/0/compartment/candidate",
            &["unlimited"],
        ),
        error(
            "route/a",
            json!({"candidate": -1}),
            "/routes/0/compartment/candidate",
            &["-1", "whole number"],
        ),
        error(
            "route/a",
            json!({"mode": "watch"}),
            "/routes/0/compartment/mode",
            &["watch", "shadow"],
        ),
        fine("route/a", json!({"stream": {"limit": 491}})),
        warning(
            "route/a",
            json!({"stream": {"limit": 492}}),
            "/routes/0/compartment/stream/limit",
            &["492", "491 spare"],
        ),
        warning(
            "route/a",
            json!({"stream": {"limit": 2, "idle": "2h", "max_age": "1h"}}),
            "/routes/0/compartment/stream/idle",
            &["never runs out", "max_age"],
        ),
        error(
            "route/a",
            json!({"stream": {"limit": 2}, "limit": 493}),
            "/routes/0/compartment/stream/limit",
            &["no stream gets in"],
        ),
        error(
            "route/a",
            json!({"stream": {"limit": 2, "idel": "1s"}}),
            "/routes/0/compartment/stream/idel",
            &["unknown key", "idle"],
        ),
        error(
            "route/a",
            json!({"stream": {"limit": 1.5}}),
            "/routes/0/compartment/stream/limit",
            &["1.5", "whole number"],
        ),
        // The guarantees of a, b and c are 2 + 3 + 4 = 9, whatever is changed to break the sum.
        fine("gateway", json!({"limit": 9})),
        error(
            "gateway",
            json!({"limit": 8}),
            "/gateway/capacity",
            &["2 + 3 + 4", "9", "8"],
        ),
        error(
            "gateway",
            json!({"limit": 10, "spare": 2}),
            "/gateway/capacity",
            &["9", "spare 2", "11", "10"],
        ),
        error(
            "route/a",
            json!({"limit": 494}),
            "/gateway/capacity",
            &["494 + 3 + 4", "501", "500"],
        ),
        error(
            "route/a",
            json!({"limit": 900, "reserved": 494}),
            "/gateway/capacity",
            &["494 + 3 + 4", "501"],
        ),
        warning(
            "route/a",
            json!({"limit": 500, "reserved": 400}),
            LIMIT,
            &["400 guaranteed + 93 spare = 493"],
        ),
        warning(
            "route/b",
            json!({"limit": 90}),
            "/upstreams/main/limit",
            &["2 + 90 + 4 = 96", "90"],
        ),
        // A tenant's or an upstream's limit guarantees nothing, so it never breaks the sum.
        fine("tenant/acme", json!({"limit": 900})),
        fine("upstream/main", json!({"limit": 900})),
    ]
}

/// The policy that every case starts from: the shared one, with a tenant.
fn start() -> (Plane, Value) {
    let mut document = policy();
    document["identify"] = json!({"by": [{"host": {}}]});
    document["tenants"] = json!({"acme": {"limit": 5, "hosts": ["acme.example"]}});
    let plane = Plane::start();
    let put = plane.api_with("PUT", "/policy", Some(&document), &[("if-match", "1")]);
    assert_eq!(put.status, 200, "{}", put.text());
    (plane, document)
}

/// The document with the fields set where the PATCH of this key sets them.
fn edited(mut document: Value, case: &Case) -> Value {
    for (field, value) in case.fields.as_object().unwrap() {
        let (table, field) = match case.key {
            "gateway" if field == "limit" => ("/gateway", "capacity"),
            "gateway" => ("/gateway", field.as_str()),
            "upstream/main" => ("/upstreams/main", field.as_str()),
            "tenant/acme" => ("/tenants/acme", field.as_str()),
            "route/a" => ("/routes/0/compartment", field.as_str()),
            _ => ("/routes/1/compartment", field.as_str()),
        };
        document.pointer_mut(table).unwrap()[field] = value.clone();
    }
    document
}

/// One answer against what the case says.
fn judge(door: &str, case: &Case, answer: &Answer) {
    let what = format!("{door} {} {}: {}", case.key, case.fields, answer.text());
    let body = answer.json();
    let Some((severity, pointer, words)) = case.said else {
        assert_eq!(answer.status, 200, "{what}");
        assert_eq!(body["findings"], json!([]), "{what}");
        return;
    };
    let (status, list) = match severity {
        "error" => (422, &body["errors"]),
        _ => (200, &body["findings"]),
    };
    assert_eq!(answer.status, status, "{what}");
    let found = list.as_array().unwrap().iter();
    let mut found = found.filter(|one| one["pointer"] == pointer);
    let one = found.next().unwrap_or(&Value::Null).to_string();
    for word in words {
        assert!(one.contains(word), "{word} in {what}");
    }
}

#[test]
fn a_contradiction_is_told_whichever_way_it_comes() {
    let (plane, document) = start();
    let generation = plane.generation();
    for case in cases() {
        let key = case.key.replace('/', "%2F");
        let dry = format!("/compartments/{key}?dry_run=true");
        judge(
            "PATCH",
            &case,
            &plane.api("PATCH", &dry, Some(&case.fields)),
        );
        let version = generation.to_string();
        let headers = [("if-match", version.as_str())];
        let whole = edited(document.clone(), &case);
        let answer = plane.api_with("PUT", "/policy?dry_run=true", Some(&whole), &headers);
        judge("PUT", &case, &answer);
    }
    assert_eq!(plane.generation(), generation, "dry runs store nothing");
}

#[test]
fn an_error_is_not_stored_and_a_warning_is() {
    let (plane, _) = start();
    for case in cases() {
        let before = plane.generation();
        let answer = plane.patch(case.key, &case.fields);
        judge("PATCH", &case, &answer);
        let stored = matches!(case.said, None | Some(("warning", ..)));
        assert_eq!(
            plane.generation(),
            before + u64::from(stored),
            "{}",
            case.fields
        );
        if stored {
            let back = plane.api("POST", &format!("/generations/{before}/restore"), None);
            assert_eq!(back.status, 200, "{}", back.text());
        }
    }
}
