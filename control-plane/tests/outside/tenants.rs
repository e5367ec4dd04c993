//! Tenants, their keys and plans over the API: made, changed, listed, taken away.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{Answer, Plane, policy, postgres};

fn with_tenants(tenants: Value) -> Value {
    let mut document = policy();
    document["identify"] = json!({"by": [{"api_key": {"header": "x-api-key"}}, {"host": {}}]});
    document["plans"] = json!({"pro": {"limit": 50, "class": "sheddable", "routes": {"a": 2}},
        "free": {"limit": 5}});
    document["tenants"] = tenants;
    document
}

fn put(plane: &Plane, document: &Value) -> Answer {
    let etag = plane.policy().1;
    plane.api_with("PUT", "/policy", Some(document), &[("if-match", &etag)])
}

fn start() -> Plane {
    let plane = Plane::start();
    let stored = put(&plane, &with_tenants(json!({"acme": {"plan": "pro"}})));
    assert_eq!(stored.status, 200, "{}", stored.text());
    plane
}

fn digest(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn keys_of(plane: &Plane, id: &str) -> Value {
    plane.policy().0["tenants"][id]["api_keys"].clone()
}

/// From the first to the last day of a tenant.
fn life(plane: &Plane) {
    let new = json!({"id": "beta", "plan": "free", "hosts": ["Beta.example"], "comment": "signed"});
    let dry = plane.api("POST", "/tenants?dry_run=true", Some(&new));
    assert_eq!(
        (dry.status, &dry.json()["stored"]),
        (200, &json!(false)),
        "{}",
        dry.text()
    );
    let made = plane.api("POST", "/tenants", Some(&new));
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("location"), Some("/api/v1/tenants/beta"));
    let body = made.json();
    assert!(body["generation"].is_u64() && body["findings"].is_array());
    assert_eq!(plane.api("POST", "/tenants", Some(&new)).status, 409);

    let beta = plane.api("GET", "/tenants/beta", None).json();
    let own = ["plan", "limit", "limit_from", "suspended"].map(|name| beta[name].clone());
    assert_eq!(
        own,
        [json!("free"), json!(5), json!("plan free"), json!(false)]
    );
    assert_eq!(beta["live"], Value::Null, "nobody reports");
    assert_eq!(beta["hosts"], json!(["beta.example"]));
    let acme = plane.api("GET", "/tenants/acme", None).json();
    assert_eq!(acme["class"], json!("sheddable"));
    assert_eq!(acme["routes"][0]["from"], json!("plan pro"));
    assert_eq!(
        acme["recognised"][0],
        json!({"by": "api_key", "header": "x-api-key",
        "index": null, "usable": false})
    );

    let change = json!({"limit": 7, "suspended": true, "comment": "owes us"});
    let changed = plane.api("PATCH", "/tenants/beta", Some(&change));
    assert_eq!(changed.status, 200, "{}", changed.text());
    let beta = plane.api("GET", "/tenants/beta", None).json();
    assert_eq!(
        [&beta["limit"], &beta["limit_from"]],
        [&json!(7), &json!("tenant beta")]
    );
    assert_eq!(beta["suspended"], json!(true));
    let told = plane.api("GET", "/generations", None).text();
    assert!(told.contains("owes us"), "{told}");

    let seen = [("if-match", "\"1\"")];
    let back = json!({"limit": null});
    let old = plane.api_with("PATCH", "/tenants/beta", Some(&back), &seen);
    assert_eq!(old.status, 412, "{}", old.text());
    assert_eq!(
        plane
            .api_with("DELETE", "/tenants/beta", None, &seen)
            .status,
        412
    );
    assert_eq!(plane.api("PATCH", "/tenants/beta", Some(&back)).status, 200);
    assert_eq!(
        plane.api("GET", "/tenants/beta", None).json()["limit"],
        json!(5)
    );

    let generation = plane.generation();
    let dry = plane.api("DELETE", "/tenants/beta?dry_run=true", None);
    assert_eq!((dry.status, plane.generation()), (200, generation));
    let gone = plane.api("DELETE", "/tenants/beta?comment=left%20us", None);
    assert_eq!(gone.status, 200, "{}", gone.text());
    let told = plane.api("GET", "/generations", None).text();
    assert!(told.contains("left us"), "{told}");
    for method in ["GET", "DELETE"] {
        assert_eq!(
            plane.api(method, "/tenants/beta", None).status,
            404,
            "{method}"
        );
    }
    assert_eq!(plane.api("PATCH", "/tenants/beta", Some(&back)).status, 404);
    assert!(plane.policy().0["tenants"].get("beta").is_none());
}

/// Keys are made, shown once, rotated and revoked; the policy alone says which there are.
fn keys(plane: &Plane) {
    let path = "/tenants/acme/keys";
    let asked = json!({"label": "=cmd|' /C calc'!A0", "comment": "for ci"});
    let made = plane.api("POST", path, Some(&asked));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let (first, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert!(
        first.starts_with("bht_") && first.len() >= 4 + 32,
        "{}",
        first.len()
    );
    assert_eq!(keys_of(plane, "acme"), json!([digest(first)]));

    let second = json!({"replaces": id, "overlap": "1h", "expires_at": "2099-01-01T00:00:00Z"});
    let second = plane.api("POST", path, Some(&second));
    assert_eq!(second.status, 201, "{}", second.text());
    let second = second.json();
    assert_eq!(second["replaces"]["id"], made["id"]);
    let acme = plane.api("GET", "/tenants/acme", None);
    let rows = acme.json()["api_keys"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        [&rows[0]["state"], &rows[1]["state"]],
        [&json!("ending"), &json!("ending")]
    );
    assert_eq!(rows[0]["label"], asked["label"]);
    assert_eq!(
        rows[1]["ending"].as_str(),
        second["key"].as_str().map(|key| &key[key.len() - 4..])
    );

    // No answer but those two ever holds a key; a digest stands in the policy alone.
    let new = second["key"].as_str().unwrap();
    let told: Vec<String> = ["/tenants", "/tenants/acme", "/policy", "/generations"]
        .iter()
        .map(|path| plane.api("GET", path, None).text())
        .collect();
    assert!(
        told.iter()
            .all(|text| !text.contains(first) && !text.contains(new))
    );
    assert!(!told[0].contains("sha256:") && !told[1].contains("sha256:"));

    // What is exported and applied again is the same.
    let (document, etag) = plane.policy();
    let again = plane.api_with("PUT", "/policy", Some(&document), &[("if-match", &etag)]);
    assert_eq!(again.json()["stored"], json!(false), "{}", again.text());
    let before = plane.generation();

    let gone = plane.api("DELETE", &format!("{path}/{id}"), None);
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(keys_of(plane, "acme"), json!([digest(new)]));
    assert_eq!(
        plane.api("DELETE", &format!("{path}/{id}"), None).status,
        404
    );
    // A generation of before brings it back, with all that was said of it.
    let restored = plane.api("POST", &format!("/generations/{before}/restore"), None);
    assert_eq!(restored.status, 200, "{}", restored.text());
    let acme = plane.api("GET", "/tenants/acme", None).json();
    assert_eq!(acme["api_keys"], json!(rows));

    let generation = plane.generation();
    let dry = plane.api("POST", &format!("{path}?dry_run=true"), Some(&json!({})));
    assert_eq!(
        (dry.status, &dry.json()["key"]),
        (200, &Value::Null),
        "{}",
        dry.text()
    );
    for (bad, pointer) in [
        (json!({"label": 7}), "/label"),
        (json!({"label": "a\nb"}), "/label"),
        (json!({"expires_at": "2020-01-01T00:00:00Z"}), "/expires_at"),
        (json!({"overlap": "1h"}), "/overlap"),
        (json!({"replaces": id, "overlap": "long"}), "/overlap"),
        (json!({"key": "mine"}), "/key"),
    ] {
        let refused = plane.api("POST", path, Some(&bad));
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text());
        assert_eq!(refused.pointers(), [pointer], "{bad}");
    }
    let unknown = plane.api("POST", path, Some(&json!({"replaces": "0123456789abcdef"})));
    assert_eq!(unknown.status, 404, "{}", unknown.text());
    assert_eq!(
        plane
            .api("POST", "/tenants/none/keys", Some(&json!({})))
            .status,
        404
    );
    assert_eq!(plane.generation(), generation, "nothing was stored");
}

fn both(test: impl Fn(&Plane)) {
    test(&start());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(database) = runtime.block_on(postgres::Database::new()) {
        let plane = crate::postgres::plane(&database.url);
        let stored = put(&plane, &with_tenants(json!({"acme": {"plan": "pro"}})));
        assert_eq!(stored.status, 200, "{}", stored.text());
        test(&plane);
    }
}

#[test]
fn a_tenant_lives_from_post_to_delete() {
    both(life);
}

#[test]
fn keys_are_shown_once_and_lie_in_the_policy_alone() {
    both(keys);
}

#[test]
fn names_that_are_none_are_refused_by_field() {
    let plane = start();
    let before = plane.policy();
    for id in [
        "",
        "_unknown",
        "<script>alert(1)</script>",
        "{{7*7}}",
        "a\u{202e}b",
        "=1+1",
        "../policy",
        "a/b",
        &"x".repeat(129),
    ] {
        let refused = plane.api("POST", "/tenants", Some(&json!({"id": id, "limit": 1})));
        assert_eq!(
            (refused.status, refused.pointers()),
            (422, vec!["/id".to_owned()]),
            "{id}"
        );
        assert!(
            refused.text().contains("must be 1 to 128"),
            "{}",
            refused.text()
        );
    }
    for (bad, pointer) in [
        (json!({"id": 7}), "/id"),
        (json!({"limit": 1}), "/id"),
        (json!({"id": "new"}), "/tenants/new/limit"),
        (json!({"id": "new", "limit": -1}), "/tenants/new/limit"),
        (json!({"id": "new", "plan": "none"}), "/tenants/new/plan"),
        (
            json!({"id": "new", "limit": 1, "colour": 1}),
            "/tenants/new/colour",
        ),
        (
            json!({"id": "new", "limit": 1, "hosts": ["a b"]}),
            "/tenants/new/hosts/0",
        ),
    ] {
        let refused = plane.api("POST", "/tenants", Some(&bad));
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text());
        assert_eq!(refused.pointers(), [pointer], "{bad}");
    }
    for path in ["%3Cscript%3E", "..%2Fpolicy", "_unknown", "a%2Fb"] {
        let path = format!("/tenants/{path}");
        assert_eq!(plane.api("GET", &path, None).status, 404, "{path}");
        let change = plane.api("PATCH", &path, Some(&json!({"limit": 1})));
        assert_eq!(change.status, 404, "{path}: {}", change.text());
    }
    for query in [
        "sort=size",
        "after=x",
        "limit=0",
        "limit=1001",
        "find=a&find=b",
        "page=2",
        "suspended=maybe",
        "sort=share&after=id:0:a",
    ] {
        let bad = plane.api("GET", &format!("/tenants?{query}"), None);
        assert_eq!(bad.status, 400, "{query}: {}", bad.text());
    }
    assert_eq!(plane.policy(), before);
}

#[test]
fn plans_are_made_and_stay_while_tenants_are_on_them() {
    let plane = start();
    let plans = plane.api("GET", "/plans", None).json();
    assert_eq!(plans["plans"][1]["id"], json!("pro"), "{plans}");
    assert_eq!(plans["plans"][1]["tenants"], json!(1));
    assert_eq!(plane.api("DELETE", "/plans/pro", None).status, 409);
    let gold = json!({"limit": 9, "routes": {"b": 1}, "comment": "sold"});
    assert_eq!(plane.api("PUT", "/plans/gold", Some(&gold)).status, 200);
    let moved = plane.api("PATCH", "/tenants/acme", Some(&json!({"plan": "gold"})));
    assert_eq!(moved.status, 200, "{}", moved.text());
    assert_eq!(
        plane.api("GET", "/tenants/acme", None).json()["limit"],
        json!(9)
    );
    assert_eq!(plane.api("DELETE", "/plans/pro", None).status, 200);
    assert_eq!(plane.api("DELETE", "/plans/pro", None).status, 404);
    let bad = plane.api("PUT", "/plans/gold", Some(&json!({"limit": "x"})));
    assert_eq!(bad.pointers(), ["/plans/gold/limit"], "{}", bad.text());
}

/// Follows the cursor to the end; the answer is every name, and the longest wait for a page.
#[expect(
    clippy::disallowed_methods,
    reason = "how long a page takes is of the real clock"
)]
fn all_pages(plane: &Plane, query: &str) -> (Vec<String>, Duration) {
    let (mut names, mut longest, mut after) = (Vec::new(), Duration::ZERO, String::new());
    loop {
        let start = Instant::now();
        let answer = plane.api("GET", &format!("/tenants?{query}{after}"), None);
        longest = longest.max(start.elapsed());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let page = answer.json();
        let rows = page["tenants"].as_array().unwrap();
        names.extend(
            rows.iter()
                .map(|row| row["id"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (names, longest),
        }
    }
}

#[test]
fn pages_of_many_tenants_are_cut_by_name() {
    let plane = Plane::start();
    let tenants: serde_json::Map<_, _> = (0..2_500)
        .map(|n| {
            let plan = if n % 5 == 0 { "pro" } else { "free" };
            (
                format!("t{n:05}"),
                json!({"plan": plan, "suspended": n % 100 == 0}),
            )
        })
        .collect();
    let stored = put(&plane, &with_tenants(tenants.into()));
    assert_eq!(stored.status, 200, "{}", stored.text());
    let (names, _) = all_pages(&plane, "limit=1000");
    assert_eq!(names.len(), 2_500);
    assert!(names.is_sorted());
    let mut found = vec!["t00042".to_owned()];
    found.extend((420..430).map(|n| format!("t{n:05}")));
    assert_eq!(all_pages(&plane, "limit=7&find=0042").0, found);
    assert_eq!(all_pages(&plane, "plan=pro&limit=300").0.len(), 500);
    assert_eq!(all_pages(&plane, "suspended=true&plan=pro").0.len(), 25);
    assert!(all_pages(&plane, "saturated=true").0.is_empty());
}
