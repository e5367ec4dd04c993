//! What holds of every call, asked of each call of the description.
//!
//! Separate because no call may be left out: the list is the one that is served. A test here must
//! never know a call by name where it can take all of them.

use serde_json::{Value, json};

use crate::support::{Answer, Plane, TOKEN, call};

/// One call, with something in the places of its path.
struct Asked {
    method: String,
    path: String,
    entry: Value,
}

fn calls(plane: &Plane) -> Vec<Asked> {
    let description = call(plane.address, "GET", "/api/v1/openapi.json", &[], b"").json();
    let mut calls = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        let mut filled = path.replace("{key}", "route%2Fa").replace("{number}", "1");
        while let Some((before, rest)) = filled.split_once('{') {
            filled = format!("{before}nothing{}", rest.split_once('}').unwrap().1);
        }
        for (method, entry) in item.as_object().unwrap() {
            if ["get", "put", "post", "patch", "delete"].contains(&method.as_str()) {
                calls.push(Asked {
                    method: method.to_uppercase(),
                    path: format!("/api/v1{filled}"),
                    entry: entry.clone(),
                });
            }
        }
    }
    assert!(calls.len() > 25, "{}", calls.len());
    calls
}

fn ask(plane: &Plane, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let bearer = format!("Bearer {TOKEN}");
    let mut all = vec![("authorization", bearer.as_str())];
    all.extend(headers);
    call(plane.address, method, path, &all, body.as_bytes())
}

/// A refusal is a problem document that says what is wrong.
fn is_problem(answer: &Answer, status: u16, what: &str) {
    assert_eq!(answer.status, status, "{what}: {}", answer.text());
    let kind = answer.header("content-type");
    assert_eq!(kind, Some("application/problem+json"), "{what}");
    let body = answer.json();
    assert_eq!(body["status"], status, "{what}");
    assert!(body["errors"].is_array(), "{what}: {body}");
    assert!(!body["detail"].as_str().unwrap().is_empty(), "{what}");
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn what_no_call_takes_is_refused_by_each_of_them() {
    let plane = Plane::start();
    let before = plane.policy();
    for Asked {
        method,
        path,
        entry,
    } in calls(&plane)
    {
        if path.ends_with("/events") {
            continue;
        }
        let what = format!("{method} {path}");
        let public = entry["x-role"].is_null();
        if !public {
            let odd = ask(
                &plane,
                &method,
                &format!("{path}?nonsense=1"),
                &[JSON, ("if-match", "1")],
                "",
            );
            is_problem(&odd, 400, &what);
            assert_eq!(odd.json()["errors"][0]["parameter"], "nonsense", "{what}");
        }
        let long = format!("{path}?x={}", "y".repeat(9_000));
        is_problem(&ask(&plane, &method, &long, &[], ""), 414, &what);
        if method == "GET" {
            continue;
        }
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            let form = ask(&plane, &method, &path, &[("content-type", kind)], "limit=1");
            is_problem(&form, 415, &what);
            assert_eq!(form.json()["errors"][0]["header"], "content-type", "{what}");
        }
        let foreign = [JSON, ("origin", "https://elsewhere.example")];
        let cookie = call(plane.address, &method, &path, &foreign, b"{}");
        assert_eq!(cookie.status, 401, "{what}: no token, another site");
        if entry["requestBody"].is_null() {
            let body = ask(&plane, &method, &path, &[JSON], r#"{"a": 1}"#);
            assert!([400, 404].contains(&body.status), "{what}: {}", body.text());
            continue;
        }
        for body in ["{", "[1, 2", "nonsense", "{\"a\": 1, \"a\": 2}"] {
            let broken = ask(&plane, &method, &path, &[JSON, ("if-match", "1")], body);
            is_problem(&broken, 400, &what);
            assert_eq!(broken.json()["errors"][0]["pointer"], "", "{what}");
        }
        let list = ask(&plane, &method, &path, &[JSON, ("if-match", "1")], "[]");
        is_problem(&list, 422, &what);
        let large = format!("{{\"comment\": \"{}\"}}", "x".repeat(33 << 20));
        is_problem(
            &ask(&plane, &method, &path, &[JSON, ("if-match", "1")], &large),
            413,
            &what,
        );
    }
    assert_eq!(plane.policy(), before);
}

#[test]
fn methods_that_a_path_does_not_have_are_named_in_allow() {
    let plane = Plane::start();
    let calls = calls(&plane);
    for Asked { path, .. } in &calls {
        let own: Vec<&str> = calls
            .iter()
            .filter(|other| other.path == *path)
            .map(|other| other.method.as_str())
            .collect();
        for method in ["GET", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"] {
            if own.contains(&method) {
                continue;
            }
            let answer = ask(&plane, method, path, &[JSON], "");
            is_problem(&answer, 405, &format!("{method} {path}"));
            let allow = answer.header("allow").unwrap();
            assert!(own.iter().all(|own| allow.contains(own)), "{path}: {allow}");
        }
    }
}

#[test]
fn addresses_that_are_none_are_told_so_and_lead_nowhere() {
    let plane = Plane::start();
    for (path, status) in [
        ("/api/v1/nothing", 404),
        ("/api/v1/", 404),
        ("/api/v1//policy", 404),
        ("/api/v1/policy/", 404),
        ("/api/v1/%2e%2e/policy", 404),
        ("/api/v1/compartments/%2e%2e", 404),
        ("/api/v1/compartments/..%2f..%2fpolicy", 404),
        ("/api/v1/compartments/route%2Fa%00", 400),
        ("/api/v1/drills/%00", 400),
        ("/api/v1/drills/%0d%0aset-cookie:a=b", 400),
        ("/api/v1/compartments/%ff", 400),
        ("/api/v1/generations/-1", 404),
        ("/api/v1/generations/99999999999999999999999999", 404),
    ] {
        is_problem(&ask(&plane, "GET", path, &[], ""), status, path);
    }
}

#[test]
fn reading_changes_nothing() {
    let plane = Plane::start();
    let before = plane.policy();
    for asked in calls(&plane) {
        if asked.path.ends_with("/events") {
            continue;
        }
        for method in ["GET", "HEAD"] {
            let answer = ask(&plane, method, &asked.path, &[JSON], "");
            assert!(answer.status < 500, "{method} {}", asked.path);
        }
    }
    assert_eq!(plane.policy(), before);
    assert_eq!(plane.api("GET", "/tokens", None).json(), json!([]));
}

fn make_token(plane: &Plane, name: &str, gateway: &str) -> Answer {
    let body = json!({ "gateway": gateway });
    plane.api_with("POST", "/tokens", Some(&body), &[("idempotency-key", name)])
}

#[test]
fn a_request_that_is_sent_again_does_nothing_a_second_time() {
    let mut plane = Plane::start();
    let restore = |plane: &Plane, name: &str, number: u64| {
        let path = format!("/generations/{number}/restore");
        plane.api_with("POST", &path, None, &[("idempotency-key", name)])
    };
    let first = restore(&plane, "again-1", 1);
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(first.header("idempotency-replayed"), None);
    // Over a restart too: it lies in the store.
    for restarts in [false, true] {
        if restarts {
            plane = plane.restart();
        }
        let second = restore(&plane, "again-1", 1);
        assert_eq!(second.status, 200);
        assert_eq!(second.header("idempotency-replayed"), Some("true"));
        assert_eq!(second.json(), first.json());
        assert_eq!(second.header("etag"), first.header("etag"));
    }
    assert_eq!(plane.generation(), 2);
    let other = restore(&plane, "again-1", 2);
    is_problem(&other, 422, "another request");
    assert_eq!(other.json()["errors"][0]["header"], "idempotency-key");
    let refused = restore(&plane, "again-2", 77);
    is_problem(&refused, 404, "a refusal leaves the name free");
    assert_eq!(restore(&plane, "again-2", 1).status, 200);
    assert_eq!(plane.generation(), 3);
    let long = "x".repeat(256);
    for bad in ["", "two words", long.as_str()] {
        is_problem(&restore(&plane, bad, 1), 400, bad);
    }
}

#[test]
fn a_secret_is_shown_once_and_kept_nowhere() {
    let plane = Plane::start();
    let first = make_token(&plane, "secret-1", "eu-1");
    assert_eq!(first.status, 201, "{}", first.text());
    let token = first.json()["token"].as_str().unwrap().to_owned();
    let second = make_token(&plane, "secret-1", "eu-1");
    is_problem(&second, 409, "shown once");
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(second.json()["made"]["id"], first.json()["id"]);
    assert!(!second.text().contains(&token));
    assert_eq!(
        plane
            .api("GET", "/tokens", None)
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for file in std::fs::read_dir(plane.folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap_or_default();
        let found = bytes
            .windows(token.len())
            .any(|part| part == token.as_bytes());
        assert!(!found, "the token lies on disk");
    }
}

#[test]
fn of_requests_at_once_with_one_name_one_is_done() {
    let plane = Plane::start();
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| make_token(&plane, "race", "eu-1").status);
        let all: Vec<_> = (0..8).map(|_| one()).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let done = answers.iter().filter(|status| **status == 201).count();
    assert_eq!(done, 1, "{answers:?}");
    assert!(
        answers.iter().all(|status| [201, 409].contains(status)),
        "{answers:?}"
    );
    assert_eq!(
        plane
            .api("GET", "/tokens", None)
            .json()
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
