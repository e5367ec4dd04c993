//! The whole policy over the API: versions, refusals, history.

use crate::support::{Plane, call, policy};
use serde_json::{Value, json};

fn put(plane: &Plane, document: &Value, version: &str) -> crate::support::Answer {
    plane.api_with("PUT", "/policy", Some(document), &[("if-match", version)])
}

fn with_limit(limit: Value) -> Value {
    let mut document = policy();
    document["routes"][0]["compartment"]["limit"] = limit;
    document
}

#[test]
fn what_is_put_is_what_is_read() {
    let plane = Plane::start();
    let (document, version) = plane.policy();
    assert_eq!((document, version.as_str()), (policy(), "\"1\""));
    for version in ["\"1\"", "W/\"2\"", "3"] {
        let seen: u64 = version.trim_matches(['W', '/', '"']).parse().unwrap();
        let answer = put(&plane, &with_limit(json!(10 + seen)), version);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["generation"], json!(seen + 1));
        assert!(answer.json()["findings"].is_array());
        assert_eq!(plane.policy().0, with_limit(json!(10 + seen)));
    }
}

#[test]
fn a_version_is_required_and_checked() {
    let plane = Plane::start();
    let answer = plane.api("PUT", "/policy", Some(&with_limit(json!(9))));
    assert_eq!(answer.status, 428);
    assert_eq!(put(&plane, &with_limit(json!(9)), "*").status, 400);
    assert_eq!(put(&plane, &with_limit(json!(5)), "\"1\"").status, 200);
    let lost = put(&plane, &with_limit(json!(9)), "\"1\"");
    assert_eq!(lost.status, 412);
    let body = lost.json();
    assert_eq!((&body["seen"], &body["current"]), (&json!(1), &json!(2)));
    let difference = &body["differences"][0];
    assert_eq!(
        (&difference["old"], &difference["new"]),
        (&json!(2), &json!(5))
    );
    assert_eq!(put(&plane, &with_limit(json!(9)), "\"77\"").status, 412);
    assert_eq!(plane.policy().0, with_limit(json!(5)));
}

#[test]
fn a_refusal_names_everything_and_stores_nothing() {
    let plane = Plane::start();
    let before = plane.policy();
    let mut document = with_limit(json!(-4));
    document["routes"][1]["compartment"]["limitt"] = json!(3);
    document["routes"][2]["upstream"] = json!("none");
    let answer = put(&plane, &document, "\"1\"");
    assert_eq!(answer.status, 422);
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    let pointers = answer.pointers();
    for pointer in [
        "/routes/0/compartment/limit",
        "/routes/1/compartment/limitt",
        "/routes/2/upstream",
    ] {
        assert!(
            pointers.iter().any(|own| own == pointer),
            "{pointer} in {pointers:?}"
        );
    }
    assert_eq!(plane.policy(), before);
    assert_eq!(
        plane
            .api("GET", "/generations", None)
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn an_error_of_the_linter_refuses_like_a_broken_rule() {
    let plane = Plane::start();
    // 10 a second fill 2 slots in 0.2 s, long before a timeout of 15 s.
    let mut document = policy();
    document["routes"][0]["compartment"]["assume"] = json!({"rate": 10, "p99": "100ms"});
    let answer = put(&plane, &document, "\"1\"");
    assert_eq!(answer.status, 422, "{}", answer.text());
    assert!(
        answer.pointers()[0].starts_with("/routes/0"),
        "{}",
        answer.text()
    );
    assert_eq!(plane.generation(), 1);
}

#[test]
fn what_cannot_be_a_document_is_refused() {
    let plane = Plane::start();
    let bearer = format!("Bearer {}", crate::support::TOKEN);
    let send = |kind: &str, body: &[u8]| {
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", kind),
            ("if-match", "1"),
        ];
        call(plane.address, "PUT", "/api/v1/policy", &headers, body)
    };
    let json = "application/json";
    let twice = br#"{"schema": 1, "schema": 1}"#;
    let deep = "[".repeat(100_000);
    // Within the size, but more pieces than a gateway reads: it must not be stored.
    let pieces = format!("{{\"schema\": 1, \"x\": \"{}\"}}", ",".repeat(6_000_001));
    for (kind, body, status) in [
        ("text/plain", b"{\"schema\": 1}".as_slice(), 415),
        (json, b"", 400),
        (json, b"{", 400),
        (json, b"\xff", 400),
        (json, twice.as_slice(), 400),
        (json, deep.as_bytes(), 400),
        (json, pieces.as_bytes(), 400),
        (json, b"[]", 422),
        (json, b"null", 422),
        (json, b"{}", 422),
        (json, b"{\"schema\": 2}", 422),
    ] {
        let answer = send(kind, body);
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]);
        assert_eq!(answer.status, status, "{kind} {shown}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
    }
    assert_eq!(plane.generation(), 1);
}

#[test]
fn a_document_beyond_the_bound_is_refused() {
    let plane = Plane::start();
    let bearer = format!("Bearer {}", crate::support::TOKEN);
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("if-match", "1"),
    ];
    let mut body = vec![b' '; control_plane::DOCUMENT_BYTES_MAX + 1];
    body[0] = b'1';
    assert_eq!(
        call(plane.address, "PUT", "/api/v1/policy", &headers, &body).status,
        413
    );
}

#[test]
fn a_dry_run_stores_nothing() {
    let plane = Plane::start();
    let dry = |document: &Value| {
        let version = [("if-match", "1")];
        plane.api_with("PUT", "/policy?dry_run=true", Some(document), &version)
    };
    let answer = dry(&with_limit(json!(7)));
    assert_eq!(
        (answer.status, answer.json()["stored"].clone()),
        (200, json!(false))
    );
    assert_eq!(dry(&with_limit(json!(-7))).status, 422);
    assert_eq!((plane.generation(), plane.policy().0), (1, policy()));
    let misspelt = [("if-match", "1")];
    let answer = plane.api_with("PUT", "/policy?dryrun=true", Some(&policy()), &misspelt);
    assert_eq!(answer.status, 400, "a misspelt dry run must not store");
}

#[test]
fn an_equal_document_makes_no_generation() {
    let plane = Plane::start();
    let answer = put(&plane, &policy(), "\"1\"");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["generation"], json!(1));
    assert_eq!(plane.generation(), 1);
}

/// An old generation of which only the row is left: it is listed, and nothing else asks in vain.
#[test]
fn a_generation_whose_document_is_gone_says_so_everywhere() {
    let plane = Plane::start();
    assert_eq!(plane.patch("route/a", &json!({"limit": 5})).status, 200);
    assert_eq!(plane.patch("route/b", &json!({"limit": 8})).status, 200);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = format!("sqlite://{}", plane.store().display());
    let gone = runtime.block_on(async {
        let store = control_plane::store::Store::open(&url).await.unwrap();
        let old = control_plane::store::Old {
            newest_kept: 2,
            before: "9999-01-01T00:00:00.000Z".to_owned(),
            at_most: 9,
        };
        let gone = store.forget_documents(old).await.unwrap();
        store.close().await;
        gone
    });
    assert_eq!(gone, 1);
    let list = plane.api("GET", "/generations", None).json();
    let kept: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["kept"])
        .collect();
    assert_eq!(kept, [true, true, false]);
    for (method, path) in [
        ("GET", "/generations/1"),
        ("GET", "/generations/2/diff"),
        ("GET", "/generations/3/diff?against=1"),
        ("POST", "/generations/1/restore"),
    ] {
        let answer = plane.api(method, path, None);
        assert_eq!(answer.status, 410, "{path}: {}", answer.text());
        let said = answer.json()["detail"].to_string();
        let words = "the document of generation 1 is no longer kept; the newest 1,000 and those \
                     of the last 90 days are";
        assert!(said.contains(words), "{said}");
    }
    let limit = json!({"limit": 9});
    let seen = [("if-match", "\"1\"")];
    let path = "/compartments/route%2Fa";
    let late = plane.api_with("PATCH", path, Some(&limit), &seen);
    assert_eq!(late.status, 412, "{}", late.text());
    assert_eq!(late.json()["differences"], json!([]));
    let page = crate::pages::get(&plane, "/generations/1");
    assert_eq!(page.status, 410, "{}", page.text());
    assert!(page.text().contains("no longer kept"), "{}", page.text());
    // The first generation is known by its row: the same file is imported again.
    let plane = plane.restart();
    assert_eq!(plane.generation(), 3);
}

#[test]
fn history_is_listed_compared_and_restored() {
    let plane = Plane::start();
    assert_eq!(
        plane
            .patch("route/a", &json!({"limit": 5, "comment": "the sale"}))
            .status,
        200
    );
    assert_eq!(plane.patch("route/b", &json!({"limit": 8})).status, 200);
    let list = plane.api("GET", "/generations", None).json();
    let numbers: Vec<_> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["number"].clone())
        .collect();
    assert_eq!(numbers, [3, 2, 1]);
    assert_eq!(
        (&list[1]["comment"], &list[1]["author"]),
        (&json!("the sale"), &json!("admin token"))
    );
    assert_eq!(list[2]["author"], json!("import"));
    let page = plane
        .api("GET", "/generations?before=3&count=1", None)
        .json();
    assert_eq!(
        (page.as_array().unwrap().len(), page[0]["number"].clone()),
        (1, json!(2))
    );
    let old = plane.api("GET", "/generations/1", None).json();
    assert_eq!(old["document"], policy());
    let diff = plane
        .api("GET", "/generations/3/diff?against=1", None)
        .json();
    let differences = diff["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{diff}");
    let restored = plane.api("POST", "/generations/1/restore", None);
    assert_eq!(
        (restored.status, restored.json()["generation"].clone()),
        (200, json!(4))
    );
    assert_eq!(plane.policy().0, policy());
    for (method, path, status) in [
        ("GET", "/generations/99", 404),
        ("GET", "/generations/x", 404),
        ("GET", "/generations/18446744073709551616", 404),
        ("GET", "/generations/3/diff?against=99", 404),
        ("GET", "/generations?count=0", 400),
        ("POST", "/generations/99/restore", 404),
        ("GET", "/generations/1/restore", 405),
        ("DELETE", "/policy", 405),
        ("GET", "/nothing", 404),
    ] {
        let answer = plane.api(method, path, None);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
    }
    assert_eq!(plane.generation(), 4);
}
