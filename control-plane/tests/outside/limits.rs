//! Single limits over the API: values, places, racing writers.

use std::thread;

use crate::support::Plane;
use serde_json::{Value, json};

#[test]
fn a_limit_is_changed_where_it_stands() {
    let plane = Plane::start();
    for (key, change, pointer, value) in [
        (
            "route/b",
            json!({"limit": 80}),
            "/routes/1/compartment/limit",
            json!(80),
        ),
        (
            "route/a",
            json!({"limit": "unlimited"}),
            "/routes/0/compartment/limit",
            json!("unlimited"),
        ),
        (
            "route/c",
            json!({"limit": 0}),
            "/routes/2/compartment/limit",
            json!(0),
        ),
        (
            "upstream/main",
            json!({"limit": 70}),
            "/upstreams/main/limit",
            json!(70),
        ),
        (
            "gateway",
            json!({"limit": 600}),
            "/gateway/capacity",
            json!(600),
        ),
    ] {
        let answer = plane.patch(key, &change);
        assert_eq!(answer.status, 200, "{key}: {}", answer.text());
        let body = answer.json();
        assert!(body["generation"].is_u64() && body["findings"].is_array());
        assert_eq!(plane.policy().0.pointer(pointer), Some(&value), "{key}");
    }
}

#[test]
fn bad_values_are_refused_by_name() {
    let plane = Plane::start();
    let before = plane.policy();
    for bad in [
        json!(-1),
        json!(1.5),
        json!(1e19),
        json!(9_223_372_036_854_775_808_u64),
        json!(1_000_001),
        json!(""),
        json!("ten"),
        Value::Null,
        json!([]),
        json!({}),
        json!(true),
    ] {
        for key in ["route/a", "upstream/main"] {
            let answer = plane.patch(key, &json!({"limit": bad}));
            assert_eq!(answer.status, 422, "{key} {bad}: {}", answer.text());
            let pointers = answer.pointers();
            assert!(
                pointers.iter().any(|p| p.ends_with("limit")),
                "{key} {bad}: {pointers:?}"
            );
        }
    }
    for (key, change, status) in [
        ("route/none", json!({"limit": 3}), 404),
        ("upstream/none", json!({"limit": 3}), 404),
        ("tenant/none", json!({"limit": 3}), 404),
        ("nonsense", json!({"limit": 3}), 404),
        ("route/a", json!({"limitt": 3}), 422),
        ("route/a", json!({"comment": "nothing else"}), 422),
        ("route/a", json!({"limit": 3, "comment": 7}), 422),
        (
            "route/a",
            json!({"limit": 3, "comment": "x".repeat(5_000)}),
            422,
        ),
        ("upstream/main", json!({"queue": 3}), 422),
        ("route/a", json!([3]), 422),
        ("gateway", json!({"limit": "unlimited"}), 422),
    ] {
        let answer = plane.patch(key, &change);
        assert_eq!(answer.status, status, "{key} {change}: {}", answer.text());
    }
    assert_eq!(plane.policy(), before);
}

#[test]
fn a_version_is_honoured_when_it_is_sent() {
    let plane = Plane::start();
    let change = |limit: u32, version: &str| {
        let body = json!({"limit": limit});
        let headers = [("if-match", version)];
        plane.api_with("PATCH", "/compartments/route%2Fa", Some(&body), &headers)
    };
    assert_eq!(change(5, "\"1\"").status, 200);
    let lost = change(6, "\"1\"");
    assert_eq!(
        (lost.status, lost.json()["current"].clone()),
        (412, json!(2))
    );
    assert_eq!(change(6, "\"2\"").status, 200);
}

/// Every parallel change is acknowledged and none is lost: each writer owns one field.
#[test]
fn parallel_writers_lose_nothing() {
    const WRITERS: u32 = 50;
    let plane = Plane::start();
    let fields = ["limit", "tenant_limit", "class_reserve"];
    thread::scope(|scope| {
        for n in 0..WRITERS {
            let plane = &plane;
            scope.spawn(move || {
                let route = ["a", "b", "c"][n as usize % 3];
                // Guarantees stay put, so that any order of these changes is a valid policy.
                let body = match fields[(n as usize / 3) % 3] {
                    "limit" => json!({"limit": 20 + n, "reserved": 1}),
                    field => json!({field: 1, "limit": 100 + n, "reserved": 1}),
                };
                let answer = plane.patch(&format!("route/{route}"), &body);
                assert_eq!(answer.status, 200, "{}", answer.text());
                assert_eq!(plane.api("GET", "/compartments", None).status, 200);
                assert_eq!(plane.api("GET", "/generations", None).status, 200);
            });
        }
    });
    assert_eq!(
        plane.generation(),
        u64::from(WRITERS) + 1,
        "one generation for each change"
    );
    let (document, _) = plane.policy();
    for route in document["routes"].as_array().unwrap() {
        assert_eq!(route["compartment"]["reserved"], json!(1));
        assert_eq!(route["compartment"]["tenant_limit"], json!(1));
        assert_eq!(route["compartment"]["class_reserve"], json!(1));
    }
}

/// Racing editors that all saw the same version: one is taken, the others are told.
#[test]
fn of_racing_editors_one_wins() {
    let plane = Plane::start();
    for round in 1..=10_u64 {
        let version = format!("\"{round}\"");
        let statuses: Vec<(u64, u16)> = thread::scope(|scope| {
            let editors: Vec<_> = (0..8)
                .map(|n: u64| {
                    let (plane, version) = (&plane, version.as_str());
                    scope.spawn(move || {
                        let body = json!({"limit": 10 * round + n});
                        let headers = [("if-match", version)];
                        let path = "/compartments/route%2Fa";
                        (
                            10 * round + n,
                            plane.api_with("PATCH", path, Some(&body), &headers).status,
                        )
                    })
                })
                .collect();
            editors
                .into_iter()
                .map(|editor| editor.join().unwrap())
                .collect()
        });
        let won: Vec<_> = statuses
            .iter()
            .filter(|(_, status)| *status == 200)
            .collect();
        assert_eq!(won.len(), 1, "{statuses:?}");
        assert!(
            statuses
                .iter()
                .all(|(_, status)| matches!(status, 200 | 412)),
            "{statuses:?}"
        );
        let limit = plane.policy().0["routes"][0]["compartment"]["limit"].clone();
        assert_eq!(
            limit,
            json!(won[0].0),
            "what was acknowledged is what is there"
        );
    }
}

#[test]
fn a_path_that_is_no_text_is_a_problem_document() {
    let plane = Plane::start();
    let change = json!({"limit": 3});
    for (method, body) in [("GET", None), ("PATCH", Some(&change))] {
        let answer = plane.api(method, "/compartments/%ff", body);
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
    }
}
