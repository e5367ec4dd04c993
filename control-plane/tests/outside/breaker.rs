//! An operator's word on a breaker: stored, audited, pushed and taken back like a limit.

use serde_json::{Value, json};

use crate::support::Plane;

fn force(plane: &Plane, id: &str, body: &Value) -> (u16, Value) {
    let answer = plane.api("POST", &format!("/upstreams/{id}/breaker"), Some(body));
    (answer.status, answer.json())
}

#[test]
fn an_operators_word_is_a_generation_with_a_way_back() {
    let plane = Plane::start();
    let before = plane.generation();
    let word = json!({"state": "open", "comment": "the database is being restored"});
    let (status, body) = force(&plane, "main", &word);
    assert_eq!(
        (status, body["generation"].as_u64()),
        (200, Some(before + 1)),
        "{body}"
    );
    let stored = |plane: &Plane| plane.policy().0["upstreams"]["main"]["force_breaker"].clone();
    assert_eq!(stored(&plane), "open");
    let newest = plane.api("GET", "/generations", None).json()[0].clone();
    assert_eq!(newest["comment"], "the database is being restored");
    assert_eq!(force(&plane, "main", &json!({"state": "closed"})).0, 200);
    assert_eq!(stored(&plane), "closed");
    assert_eq!(force(&plane, "main", &json!({"state": "auto"})).0, 200);
    assert_eq!(stored(&plane), Value::Null);
    assert_eq!(
        force(&plane, "main", &json!({"state": "auto"})).0,
        200,
        "it is so already"
    );
}

#[test]
fn what_is_no_word_changes_nothing() {
    let plane = Plane::start();
    let before = plane.policy();
    for (id, body, status) in [
        ("main", json!({"state": "ajar"}), 422),
        ("main", json!({"state": 1}), 422),
        ("main", json!({}), 422),
        ("main", json!([]), 422),
        ("main", json!({"state": "open", "for": "1h"}), 422),
        ("main", json!({"state": "open", "comment": 1}), 422),
        ("none", json!({"state": "open"}), 404),
    ] {
        let (seen, answer) = force(&plane, id, &body);
        assert_eq!(seen, status, "{body}: {answer}");
    }
    assert_eq!(plane.policy(), before);
}
