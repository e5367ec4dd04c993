//! Advice, what-if and findings over the API and on the page.

use serde_json::Value;

use super::support::Plane;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_evidence_advice_says_so_and_bad_questions_are_named() {
    let plane = Plane::start();
    let get = |path: &str| plane.api("GET", path, None);
    let card: Value = get("/compartments/route%2Fa/advice").json();
    assert_eq!(card["verdict"], "too_little_evidence", "{card}");
    assert_eq!(
        (&card["advised"], &card["limit"]),
        (&Value::Null, &Value::from(2))
    );
    assert_eq!(card["reporting"], "0 of 0");
    let asked: Value = get("/compartments/route%2Fa/what-if?limit=9").json();
    assert_eq!(
        (&asked["limit"], &asked["now"]),
        (&Value::from(9), &Value::from(2))
    );
    assert_eq!(asked["refused_share"], Value::Null);
    assert_eq!(asked["sum"]["guaranteed"], 16, "9 + 3 + 4: {asked}");
    for (path, status) in [
        ("/compartments/route%2Fa/what-if", 400),
        ("/compartments/route%2Fa/what-if?limit=-1", 400),
        ("/compartments/route%2Fa/what-if?limit=1000001", 400),
        ("/compartments/route%2Fa/what-if?limit=9&x=1", 400),
        ("/compartments/route%2Fa/what-if?limit=unlimited", 200),
        ("/compartments/route%2Fnone/advice", 404),
        ("/compartments/%2E%2E%2F/advice", 404),
        ("/advice?x=1", 400),
    ] {
        let answer = get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    let list: Value = get("/advice").json();
    assert!(
        list["advice"].is_array() && list["generation"] == 1,
        "{list}"
    );
    let found: Value = get("/findings").json();
    let from = |finding: &Value| finding["from"] == "policy";
    assert!(
        found["findings"].as_array().unwrap().iter().all(from),
        "{found}"
    );
}
