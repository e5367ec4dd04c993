//! Who may: every call of the description without a token, other names, other origins.

use crate::support::{Answer, Plane, call, config, policy, policy_file};
use control_plane::Config;
use serde_json::Value;

/// Every route of the description, with a number or key in its places.
fn calls(plane: &Plane) -> Vec<(String, String)> {
    let description = call(plane.address, "GET", "/api/v1/openapi.json", &[], b"").json();
    let mut calls = Vec::new();
    for (path, item) in description["paths"].as_object().unwrap() {
        let path = path.replace("{key}", "route%2Fa").replace("{number}", "1");
        for method in item.as_object().unwrap().keys() {
            if ["get", "put", "post", "patch", "delete"].contains(&method.as_str()) {
                calls.push((method.to_uppercase(), format!("/api/v1{path}")));
            }
        }
    }
    assert!(calls.len() > 8, "{calls:?}");
    calls
}

#[test]
fn everything_but_the_description_needs_a_token() {
    let plane = Plane::start();
    let before = plane.policy();
    let wrong = format!("Bearer {}", "x".repeat(40));
    let gateway = format!("Bearer {}", plane.token().expose());
    for (method, path) in calls(&plane) {
        for token in [None, Some(&wrong), Some(&gateway)] {
            let mut headers = vec![("content-type", "application/json"), ("if-match", "1")];
            if let Some(token) = token {
                headers.push(("authorization", token));
            }
            let body = if method == "GET" {
                ""
            } else {
                r#"{"limit": 1}"#
            };
            let answer = call(plane.address, &method, &path, &headers, body.as_bytes());
            let public = path == "/api/v1/openapi.json";
            let want = if public { 200 } else { 401 };
            assert_eq!(
                answer.status,
                want,
                "{method} {path} {token:?}: {}",
                answer.text()
            );
            assert!(
                !answer.text().contains(&"x".repeat(40)),
                "a token is never repeated"
            );
        }
    }
    for path in ["/api/v1/nothing", "/api/v1/audit", "/api/v2"] {
        assert_eq!(
            call(plane.address, "GET", path, &[], b"").status,
            401,
            "{path}"
        );
    }
    assert_eq!(plane.policy(), before);
}

#[test]
fn every_answer_carries_its_id_and_headers() {
    let plane = Plane::start();
    let check = |answer: &Answer, what: &str| {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{what}");
        }
        assert!(answer.header("content-security-policy").is_some(), "{what}");
        let referrer = answer.header("referrer-policy").unwrap();
        assert!(["no-referrer", "same-origin"].contains(&referrer), "{what}");
        assert!(
            answer.header("x-request-id").is_some_and(|id| id.len() > 8),
            "{what}"
        );
    };
    for (method, path) in calls(&plane) {
        check(&call(plane.address, &method, &path, &[], b""), &path);
        let own = path.strip_prefix("/api/v1").unwrap();
        // A stream of events does not end; its refusal does.
        let own = own.replace("/events", "/events?refused");
        check(&plane.api(&method, &own, None), &path);
    }
    for path in ["/", "/login", "/nothing", "/api/v1/nothing"] {
        check(&call(plane.address, "GET", path, &[], b""), path);
    }
    let named = [("x-request-id", "from-the-caller.1")];
    let answer = plane.api_with("GET", "/policy", None, &named);
    assert_eq!(answer.header("x-request-id"), Some("from-the-caller.1"));
    let hostile = [("x-request-id", "<script>")];
    let answer = plane.api_with("GET", "/policy", None, &hostile);
    assert_ne!(answer.header("x-request-id"), Some("<script>"));
}

/// What somebody gets for a call, as far as it is about who they are.
fn verdict(plane: &Plane, method: &str, path: &str, token: Option<&str>) -> u16 {
    // Neither does anything with a name that nobody has, nor without a body.
    let path = path
        .replace("{key}", "route%2Fnone")
        .replace("{number}", "999")
        .replace("{n}", "999");
    let mut path = path
        .split('{')
        .map(|part| {
            part.split_once('}')
                .map_or(part.to_owned(), |(_, rest)| format!("nothing{rest}"))
        })
        .collect::<String>();
    if path.ends_with("/events") {
        // A stream does not end; its refusal does.
        path.push_str("?refused");
    }
    let bearer = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<_> = bearer
        .iter()
        .map(|bearer| ("authorization", bearer.as_str()))
        .collect();
    call(plane.address, method, &path, &headers, b"").status
}

#[test]
fn every_route_is_open_to_its_roles_and_shut_to_all_others() {
    let plane = Plane::start();
    let roles = ["viewer", "operator", "approver", "admin"];
    let tokens = roles.map(|role| {
        let body = serde_json::json!({"name": role, "role": role});
        let made = plane.api("POST", "/tokens", Some(&body)).json();
        made["token"].as_str().unwrap().to_owned()
    });
    let gateway = plane.token();
    let matrix = control_plane::access_matrix();
    assert!(matrix.len() > 70, "{}", matrix.len());
    let before = plane.policy();
    println!("| method | path | needs |\n|---|---|---|");
    for (method, path, need) in &matrix {
        println!("| {method} | `{path}` | {need} |");
        let is_public = *need == "anybody";
        for token in [None, Some(gateway.expose()), Some("bhk_0_0")] {
            let status = verdict(&plane, method, path, token);
            let to_sign_in = status == 303 && token.is_none() && method == "GET";
            let shut = status == 401 || (to_sign_in && !path.starts_with("/api/"));
            assert_ne!(shut, is_public, "{method} {path} with {token:?}: {status}");
        }
        let least = roles.iter().position(|role| role == need).unwrap_or(0);
        for (place, token) in tokens.iter().enumerate() {
            let status = verdict(&plane, method, path, Some(token));
            let is_open = ![401, 403].contains(&status) || (is_public && method == "POST");
            assert_eq!(
                is_open,
                place >= least,
                "{method} {path} {}: {status}",
                roles[place]
            );
            assert_ne!(status, 500, "{method} {path}");
        }
    }
    assert_eq!(plane.policy(), before);
}

fn open() -> Plane {
    let folder = tempfile::tempdir().unwrap();
    let import = Some(policy_file(folder.path(), &policy()));
    let config = Config {
        no_login: true,
        admin_token: None,
        import,
        ..config(folder.path())
    };
    Plane::start_with(folder, config).unwrap()
}

#[test]
fn without_a_login_host_and_origin_are_checked() {
    let plane = open();
    let own = format!("http://{}", plane.address);
    let patch = |headers: &[(&str, &str)]| {
        let mut all = vec![("content-type", "application/json")];
        all.extend(headers);
        let path = "/api/v1/compartments/route%2Fa";
        call(plane.address, "PATCH", path, &all, br#"{"limit": 9}"#).status
    };
    assert_eq!(patch(&[("origin", own.as_str())]), 200);
    for headers in [
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("sec-fetch-site", "cross-site")],
        vec![("host", "evil.example"), ("origin", "http://evil.example")],
    ] {
        assert_eq!(patch(&headers), 403, "{headers:?}");
    }
    let read = |host: &str| {
        call(
            plane.address,
            "GET",
            "/api/v1/policy",
            &[("host", host)],
            b"",
        )
        .status
    };
    assert_eq!((read("localhost"), read("evil.example")), (200, 403));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let path = "/api/v1/compartments/route%2Fa";
    let sent = call(plane.address, "PATCH", path, &form, b"limit=1");
    assert_eq!(sent.status, 415, "a form of another site is no change");
}

#[test]
fn a_store_without_a_policy_starts_with_an_empty_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let plane = Plane::start_with(folder, config).unwrap();
    let (document, version) = plane.policy();
    assert_eq!(
        (document, version.as_str()),
        (serde_json::json!({"schema": 1}), "\"1\"")
    );
    let compartments = plane.api("GET", "/compartments", None).json();
    assert_eq!(compartments["reporting"], Value::from("0 of 0"));
}
