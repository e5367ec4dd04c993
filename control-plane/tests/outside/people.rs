//! People from outside: set-up, sign-in, sessions, tokens, and what each role may.

use crate::support::browser::{Browser, form_token};
use crate::support::{Answer, Plane, TOKEN, call, config, eventually, policy, policy_file};
use control_plane::Config;
use serde_json::{Value, json};

const PASSWORD: &str = "a long pass phrase of 2026";
const OTHER: &str = "another long pass phrase";

/// A user who has set a password.
pub(crate) fn user(plane: &Plane, name: &str, role: &str) {
    let body = json!({"name": name, "role": role});
    let made = plane.api("POST", "/users", Some(&body));
    assert_eq!(made.status, 201, "{}", made.text());
    let link = made.json()["setup"].as_str().unwrap().to_owned();
    let fields = format!("username=ignored&password={}", PASSWORD.replace(' ', "+"));
    let set = Browser::new(plane).send(&link, &link, &fields);
    assert_eq!(set.status, 303, "{}", set.text());
}

pub(crate) fn signed_in(plane: &Plane, name: &str) -> Browser {
    let mut browser = Browser::new(plane);
    let answer = browser.sign_in(name, PASSWORD);
    assert_eq!(answer.status, 303, "{}", answer.text());
    assert!(browser.reads());
    browser
}

fn as_token(plane: &Plane, token: &str, method: &str, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    call(plane.address, method, path, &headers, body.as_bytes())
}

pub(crate) fn token(plane: &Plane, body: &Value) -> (String, String) {
    let made = plane.api("POST", "/tokens", Some(body));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Rows of the audit, newest first: action, subject, who.
fn audit(plane: &Plane) -> Vec<(String, String, String)> {
    let rows = audit_rows(plane).into_iter();
    rows.map(|row| (row.action, row.subject, row.who)).collect()
}

/// The same, whole.
pub(crate) fn audit_rows(plane: &Plane) -> Vec<control_plane::store::AuditRow> {
    let url = format!("sqlite://{}", plane.store().display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = control_plane::store::Store::open(&url).await.unwrap();
        let rows = store.audit(200).await.unwrap();
        store.close().await;
        rows
    })
}

#[test]
fn the_first_user_is_made_by_a_link_that_works_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = Config {
        admin_token: None,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, open).unwrap();
    let code = plane.running.as_ref().unwrap().setup_code().unwrap();
    assert!(code.expose().len() >= 32);
    let link = format!("/setup?code={}", code.expose());
    let mut browser = Browser::new(&plane);
    let wrong = browser.get(&format!("/setup?code={}", "0".repeat(64)));
    assert_eq!(wrong.status, 404);
    assert!(
        browser
            .get("/login")
            .text()
            .contains("Nobody was set up yet")
    );
    for (name, password) in [
        ("ann", "short"),
        ("<script>", "a+long+pass+phrase"),
        ("ann", "ann"),
    ] {
        let fields = format!("username={name}&password={password}");
        let bad = browser.send(&link, &link, &fields);
        assert_eq!(bad.status, 422, "{name} {password}");
        assert!(!bad.text().contains("<script>") && !bad.text().contains("value=\"short"));
    }
    let fields = format!("username=Ann&password={}", PASSWORD.replace(' ', "+"));
    let without_proof = browser.post(&link, &fields);
    assert_eq!(without_proof.status, 403, "a form of another page");
    assert_eq!(browser.send(&link, &link, &fields).status, 303);
    assert_eq!(browser.get(&link).status, 404, "once");
    let mut ann = signed_in(&plane, "ann");
    let users = ann.get("/api/v1/users").json();
    assert_eq!(
        (&users[0]["id"], &users[0]["role"]),
        (&json!("ann"), &json!("admin"))
    );
    let plane = plane.restart();
    assert!(
        plane.running.as_ref().unwrap().setup_code().is_none(),
        "there is somebody"
    );
    let rows = audit(&plane);
    assert!(
        rows.contains(&("user-create".into(), "user:ann".into(), "ann".into())),
        "{rows:?}"
    );
    assert!(rows.contains(&("sign-in".into(), "user:ann".into(), "ann".into())));
}

#[test]
fn a_session_is_new_at_each_sign_in_and_over_after_it_was_ended() {
    let plane = Plane::start();
    user(&plane, "ann", "operator");
    let mut browser = Browser::new(&plane);
    // Somebody else's idea of what the session should be called.
    browser.jar.push(("bulkhead".to_owned(), "f".repeat(64)));
    assert_eq!(browser.sign_in("ann", PASSWORD).status, 303);
    let first = browser.cookie();
    assert!(!first.contains(&"f".repeat(64)), "fixation");
    let mut second = signed_in(&plane, "ann");
    assert_ne!(first, second.cookie());
    let sessions = second.get("/api/v1/sessions").json();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    let stolen = browser.jar.clone();
    assert_eq!(browser.send("/", "/logout", "").status, 303);
    browser.jar = stolen;
    assert!(!browser.reads(), "replay after the end");
    assert!(second.reads(), "the other one holds");
    // Over a start too, and what lies in the store opens nothing.
    let plane = plane.restart();
    let mut again = Browser::new(&plane);
    again.jar = second.jar.clone();
    assert!(again.reads(), "sessions are in the store");
    let bytes = std::fs::read(plane.store()).unwrap();
    let (_, value) = &again
        .jar
        .iter()
        .find(|(name, _)| name == "bulkhead")
        .unwrap();
    let held = bytes
        .windows(value.len())
        .any(|part| part == value.as_bytes());
    assert!(!held, "the store holds a session's id");
    assert!(
        !bytes
            .windows(PASSWORD.len())
            .any(|part| part == PASSWORD.as_bytes())
    );
}

#[test]
fn a_change_of_what_somebody_may_ends_the_sessions_of_before() {
    let plane = Plane::start();
    user(&plane, "ann", "admin");
    user(&plane, "bob", "operator");
    for change in [
        json!({"role": "viewer"}),
        json!({"disabled": true}),
        json!({"disabled": false, "role": "operator"}),
        json!({"reset": true}),
    ] {
        let mut bob = Browser::new(&plane);
        let entered = bob.sign_in("bob", PASSWORD).status == 303;
        let changed = plane.api("PATCH", "/users/bob", Some(&change));
        assert_eq!(changed.status, 200, "{}", changed.text());
        assert!(!bob.reads(), "{change}");
        assert_eq!(entered, change["disabled"] != json!(false), "{change}");
    }
    let mut bob = Browser::new(&plane);
    assert_eq!(
        bob.sign_in("bob", PASSWORD).status,
        401,
        "the password is gone"
    );
    assert_eq!(plane.api("DELETE", "/users/bob", None).status, 204);
    assert_eq!(plane.api("DELETE", "/users/bob", None).status, 404);
    let patch = json!({"disabled": true});
    let last = plane.api("PATCH", "/users/ann", Some(&patch));
    assert_eq!(last.status, 409, "{}", last.text());
    assert_eq!(plane.api("DELETE", "/users/ann", None).status, 409);
    let patch = json!({"role": "approver"});
    assert_eq!(plane.api("PATCH", "/users/ann", Some(&patch)).status, 409);
    assert!(signed_in(&plane, "ann").reads());
}

#[test]
fn ones_own_password_is_changed_and_ones_own_sessions_alone_are_ended() {
    let plane = Plane::start();
    user(&plane, "ann", "viewer");
    user(&plane, "bob", "viewer");
    let (mut ann, mut other, mut bob) = (
        signed_in(&plane, "ann"),
        signed_in(&plane, "ann"),
        signed_in(&plane, "bob"),
    );
    let of_bob = bob.get("/api/v1/sessions").json()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/api/v1/sessions/{of_bob}");
    let origin = format!("http://{}", plane.address);
    let own_site = [("origin", origin.as_str())];
    assert_eq!(
        ann.ask("DELETE", &path, &own_site, "").status,
        404,
        "not theirs"
    );
    let fields = format!("id={of_bob}");
    assert_eq!(
        ann.send("/settings", "/settings/sessions/end", &fields)
            .status,
        404
    );
    assert!(bob.reads());
    let before = ann.cookie();
    let new = OTHER.replace(' ', "+");
    let form = |now: &str| format!("password={}&new={new}", now.replace(' ', "+"));
    let wrong = ann.send("/settings", "/settings/password", &form("not my password"));
    assert_eq!(wrong.status, 422);
    let changed = ann.send("/settings", "/settings/password", &form(PASSWORD));
    assert_eq!(changed.status, 303, "{}", changed.text());
    assert!(ann.reads() && ann.cookie() != before && !other.reads());
    let old = call(
        plane.address,
        "GET",
        "/api/v1/policy",
        &[("cookie", &before)],
        b"",
    );
    assert_eq!(old.status, 401, "the id of before");
    assert_eq!(Browser::new(&plane).sign_in("ann", PASSWORD).status, 401);
    assert_eq!(Browser::new(&plane).sign_in("ann", OTHER).status, 303);
    assert_eq!(bob.ask("DELETE", &path, &own_site, "").status, 204);
    assert!(!bob.reads());
}

#[test]
fn each_guard_of_a_form_stands_alone() {
    let plane = Plane::start();
    user(&plane, "ann", "operator");
    let mut ann = signed_in(&plane, "ann");
    let page = ann.get("/compartments/route%2Fb").text();
    let proof = form_token(&page).unwrap();
    let own = format!("http://{}", plane.address);
    let path = "/compartments/route%2Fb";
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let good = format!("generation=1&limit=7&form_token={proof}");
    let theirs = {
        let page = signed_in(&plane, "ann").get("/").text();
        form_token(&page).unwrap()
    };
    let foreign = format!("generation=1&limit=7&form_token={theirs}");
    for (headers, body) in [
        (vec![kind, ("origin", own.as_str())], "generation=1&limit=7"),
        (vec![kind, ("origin", own.as_str())], foreign.as_str()),
        (vec![kind, ("origin", "http://evil.example")], good.as_str()),
        (vec![kind, ("origin", "null")], good.as_str()),
        (vec![kind, ("sec-fetch-site", "cross-site")], good.as_str()),
        (vec![kind, ("sec-fetch-site", "same-site")], good.as_str()),
    ] {
        let answer = ann.ask("POST", path, &headers, body);
        assert_eq!(answer.status, 403, "{headers:?} {body}");
    }
    let sent = call(
        plane.address,
        "POST",
        path,
        &[kind, ("origin", &own)],
        good.as_bytes(),
    );
    assert_eq!(sent.status, 401, "without the cookie");
    assert_eq!(plane.generation(), 1, "nothing was changed");
    let sent = ann.ask("POST", path, &[kind, ("origin", own.as_str())], &good);
    assert_eq!((sent.status, plane.generation()), (303, 2));
    let set = Browser::new(&plane).sign_in("ann", PASSWORD);
    assert!(
        set.header("set-cookie")
            .unwrap()
            .contains("SameSite=Strict")
    );
}

#[test]
fn ten_thousand_tries_are_refused_and_shut_nobody_else_out() {
    let plane = Plane::start();
    user(&plane, "ann", "operator");
    let mut ann = signed_in(&plane, "ann");
    let mut browser = Browser::new(&plane);
    let proof = form_token(&browser.get("/login").text()).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..10_000 {
        let name = if number % 2 == 0 {
            "ann".to_owned()
        } else {
            format!("nobody-{number}")
        };
        let body = format!("username={name}&password=wrong+{number}+wrong&form_token={proof}");
        *seen
            .entry(browser.post("/login", &body).status)
            .or_insert(0) += 1;
    }
    let refused: u32 = seen
        .iter()
        .filter(|(status, _)| **status == 429)
        .map(|(_, n)| n)
        .sum();
    let wrong = seen.get(&401).copied().unwrap_or(0);
    assert!(wrong <= 20 && refused + wrong == 10_000, "{seen:?}");
    assert!(ann.reads(), "a session goes on");
    assert_eq!(plane.api("GET", "/policy", None).status, 200);
    let by_token = browser.post("/login", &format!("token={TOKEN}&form_token={proof}"));
    assert_eq!(
        by_token.status, 303,
        "the admin token is never made to wait"
    );
    let rows = audit(&plane);
    assert!(
        rows.len() < 20,
        "tries do not fill the audit: {}",
        rows.len()
    );
}

#[test]
fn the_answer_is_the_same_for_names_that_nobody_has() {
    let plane = Plane::start();
    user(&plane, "ann", "operator");
    user(&plane, "off", "operator");
    let patch = json!({"disabled": true});
    assert_eq!(plane.api("PATCH", "/users/off", Some(&patch)).status, 200);
    let answer = |name: &str| {
        let mut browser = Browser::new(&plane);
        let answer = browser.sign_in(name, "wrong wrong wrong");
        let proof = browser.jar[0].1.clone();
        let text = answer.text();
        let token = form_token(&text).unwrap_or_default();
        let text = text.replace(&token, "").replace(&proof, "");
        // What was typed stays in its field, whoever it names.
        let field = "name=\"username\" type=\"text\" value=\"";
        let (before, rest) = text.split_once(field).unwrap();
        let (_, after) = rest.split_once('"').unwrap();
        (answer.status, format!("{before}{field}{after}"))
    };
    let known = answer("ann");
    assert_eq!(known.0, 401);
    for name in ["nobody", "off", "%3Cscript%3E", ""] {
        assert_eq!(answer(name), known, "{name}");
    }
}

#[test]
fn tokens_have_a_role_an_end_and_are_shown_once() {
    let plane = Plane::start();
    let body = json!({"name": "deploy", "role": "operator", "scopes": ["emergency"]});
    let (id, secret) = token(&plane, &body);
    assert!(secret.starts_with("bhk_"), "{secret}");
    let limit = json!({"limit": 5});
    let path = "/api/v1/compartments/route%2Fa";
    assert_eq!(as_token(&plane, &secret, "PATCH", path, &limit).status, 200);
    let users = as_token(&plane, &secret, "GET", "/api/v1/users", &Value::Null);
    assert_eq!(
        (users.status, &users.json()["role"]),
        (403, &json!("admin"))
    );
    let (_, reader) = token(&plane, &json!({"name": "reader"}));
    assert_eq!(
        as_token(&plane, &reader, "GET", "/api/v1/policy", &Value::Null).status,
        200
    );
    let refused = as_token(&plane, &reader, "PATCH", path, &limit);
    assert_eq!(
        (refused.status, &refused.json()["role"]),
        (403, &json!("operator"))
    );
    let listed = plane.api("GET", "/tokens", None);
    assert!(!listed.text().contains(&secret) && !listed.text().contains(&secret[21..]));
    let own = listed.json();
    let own = own
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == json!(id))
        .unwrap()
        .clone();
    assert_eq!(own["scopes"], json!(["emergency"]));
    assert!(
        own["last_used_at"].is_string() && own["expires_at"].is_string(),
        "{own}"
    );
    let near = format!("{}x", &secret[..secret.len() - 1]);
    assert_eq!(
        as_token(&plane, &near, "GET", "/api/v1/policy", &Value::Null).status,
        401
    );
    assert_eq!(
        plane.api("DELETE", &format!("/tokens/{id}"), None).status,
        204
    );
    assert_eq!(
        as_token(&plane, &secret, "GET", "/api/v1/policy", &Value::Null).status,
        401
    );
    for bad in [
        json!({"name": "x", "role": "root"}),
        json!({"name": "x", "scopes": ["all"]}),
        json!({"name": "x", "expires_days": 0}),
        json!({"name": ""}),
        json!({"name": "x", "gateway": "y"}),
        json!({"name": "x", "other": 1}),
        json!({"name": "a\nb"}),
        json!({}),
    ] {
        let refused = plane.api("POST", "/tokens", Some(&bad));
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text());
    }
    let (gateway, _) = token(&plane, &json!({"gateway": "gw-1"}));
    assert_eq!(
        plane
            .api("DELETE", &format!("/tokens/{gateway}"), None)
            .status,
        204
    );
    let bytes = std::fs::read(plane.store()).unwrap();
    assert!(
        !bytes
            .windows(64)
            .any(|part| part == &secret.as_bytes()[21..])
    );
}

#[test]
fn a_user_is_reset_on_the_host_while_the_control_plane_runs() {
    let plane = Plane::start();
    user(&plane, "ann", "admin");
    let mut ann = signed_in(&plane, "ann");
    let url = format!("sqlite://{}", plane.store().display());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let reset = |name: &str| runtime.block_on(control_plane::people::reset(&url, None, name));
    assert!(reset("nobody").is_err());
    let code = reset("ann").unwrap();
    eventually("the session to end", || !ann.reads());
    assert_eq!(Browser::new(&plane).sign_in("ann", PASSWORD).status, 401);
    let link = format!("/setup?code={}", code.expose());
    let fields = format!("password={}", OTHER.replace(' ', "+"));
    let mut browser = Browser::new(&plane);
    assert_eq!(browser.send(&link, &link, &fields).status, 303);
    assert_eq!(browser.get(&link).status, 404, "once");
    assert_eq!(browser.sign_in("ann", OTHER).status, 303);
    let rows = audit(&plane);
    assert!(
        rows.contains(&("user-change".into(), "user:ann".into(), "host".into())),
        "{rows:?}"
    );
}

#[test]
fn pages_shut_what_a_role_may_not_do_and_name_the_role_that_may() {
    let plane = Plane::start();
    user(&plane, "eve", "viewer");
    let mut eve = signed_in(&plane, "eve");
    for (page, words) in [
        (
            "/compartments/route%2Fa",
            "Needs the role <b>operator</b>; yours is viewer.",
        ),
        ("/gateways", "Needs the role <b>admin</b>; yours is viewer."),
        ("/settings", "Needs the role <b>admin</b>; yours is viewer."),
    ] {
        let text = eve.get(page).text();
        assert!(text.contains(words), "{page}");
        assert!(
            text.contains("<bdi>eve</bdi>") || text.contains(">eve "),
            "{page}"
        );
    }
    let settings = eve.get("/settings").text();
    assert!(!settings.contains("id=\"user-new\"") && settings.contains("id=\"password\""));
    let refused = eve.send("/", "/compartments/route%2Fa", "generation=1&limit=1");
    assert_eq!(refused.status, 403);
    assert!(
        refused
            .text()
            .contains("this needs the role operator; yours is viewer")
    );
    assert_eq!(plane.generation(), 1);
    let page = eve.send("/", "/settings/users", "name=x&role=admin");
    assert_eq!(page.status, 403);
}

#[test]
fn behind_a_proxy_tries_are_counted_by_whom_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let import = Some(policy_file(folder.path(), &policy()));
    let config = Config {
        behind_tls_proxy: true,
        import,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, config).unwrap();
    let mut browser = Browser::new(&plane);
    let proof = form_token(&browser.get("/login").text()).unwrap();
    let mut tried = |from: &str| {
        let origin = format!("http://{}", plane.address);
        let headers = [
            ("content-type", "application/x-www-form-urlencoded"),
            ("origin", origin.as_str()),
            ("x-forwarded-for", from),
        ];
        let body = format!("token=wrong&form_token={proof}");
        browser.ask("POST", "/login", &headers, &body).status
    };
    let many: Vec<_> = (0..20).map(|_| tried("198.51.100.1, 192.0.2.1")).collect();
    assert_eq!((many[0], many[19]), (401, 429));
    assert_eq!(tried("192.0.2.1"), 429, "the last one is the proxy's word");
    assert_eq!(tried("192.0.2.1, 192.0.2.2"), 401);
    assert_eq!(tried("nonsense"), 401);
}

#[test]
fn who_looks_at_links_shuts_nobody_out() {
    let plane = Plane::start();
    user(&plane, "ann", "operator");
    let made = plane.api("POST", "/users", Some(&json!({"name": "bob"})));
    let link = made.json()["setup"].as_str().unwrap().to_owned();
    let mut browser = Browser::new(&plane);
    let image = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "no-cors"),
        ("sec-fetch-dest", "image"),
    ];
    let followed = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    for number in 0..60 {
        let path = format!("/setup?code={number:064x}");
        let headers: &[(&str, &str)] = match number % 3 {
            0 => &image,
            1 => &followed,
            _ => &[],
        };
        assert_eq!(browser.ask("GET", &path, headers, "").status, 404);
    }
    assert_eq!(browser.ask("GET", &link, &image, "").status, 404);
    assert_eq!(
        browser.ask("GET", &link, &followed, "").status,
        200,
        "a link out of one's mail"
    );
    signed_in(&plane, "ann");
    // Our own form with a wrong code is counted, and the right one never waits.
    let proof = form_token(&browser.get("/login").text()).unwrap();
    let body = format!("password={}&form_token={proof}", PASSWORD.replace(' ', "+"));
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..60 {
        let path = format!("/setup?code={number:064x}");
        *seen.entry(browser.post(&path, &body).status).or_insert(0) += 1;
    }
    let wrong = seen.get(&404).copied().unwrap_or(0);
    let refused = seen.get(&429).copied().unwrap_or(0);
    assert!(wrong <= 20 && wrong + refused == 60, "{seen:?}");
    assert_eq!(browser.post(&link, &body).status, 303);
}

#[test]
fn a_token_has_no_more_than_whose_it_is() {
    let plane = Plane::start();
    for (name, role) in [("ann", "admin"), ("eve", "admin"), ("bob", "approver")] {
        user(&plane, name, role);
    }
    let origin = format!("http://{}", plane.address);
    let json_of = [
        ("content-type", "application/json"),
        ("origin", origin.as_str()),
    ];
    let mut eve = signed_in(&plane, "eve");
    let body = json!({"name": "hers", "role": "admin"}).to_string();
    let made = eve.ask("POST", "/api/v1/tokens", &json_of, &body).json();
    assert_eq!(made["person"], "eve", "{made}");
    let hers = made["token"].as_str().unwrap().to_owned();
    let users = |token: &str| as_token(&plane, token, "GET", "/api/v1/users", &Value::Null);
    let reads = |token: &str| {
        let read = as_token(&plane, token, "GET", "/api/v1/policy", &Value::Null);
        read.status
    };
    let change = |body: Value| {
        let changed = plane.api("PATCH", "/users/eve", Some(&body));
        assert_eq!(changed.status, 200, "{}", changed.text());
    };
    // What a token makes is whose that one is.
    let body = json!({"name": "hers too", "role": "admin"});
    let second = as_token(&plane, &hers, "POST", "/api/v1/tokens", &body).json();
    assert_eq!(second["person"], "eve", "{second}");
    let second = second["token"].as_str().unwrap().to_owned();
    let (_, own) = token(&plane, &json!({"name": "the process's", "role": "admin"}));
    assert_eq!(users(&hers).status, 200);
    change(json!({"role": "operator"}));
    for token in [&hers, &second] {
        let refused = users(token);
        assert_eq!(refused.status, 403, "{}", refused.text());
        assert_eq!(reads(token), 200);
    }
    change(json!({"disabled": true}));
    assert_eq!((reads(&hers), reads(&second)), (401, 401));
    change(json!({"disabled": false}));
    assert_eq!(reads(&hers), 200);
    assert_eq!(plane.api("DELETE", "/users/eve", None).status, 204);
    assert_eq!((reads(&hers), reads(&second)), (401, 401));
    user(&plane, "eve", "admin");
    assert_eq!(reads(&hers), 401, "another person of this name");
    assert_eq!(users(&own).status, 200);

    // Whose it is may be said, and counts where a second person is asked for.
    for (bad, pointer) in [
        (json!({"name": "x", "person": "nobody"}), "/person"),
        (json!({"name": "x", "person": "<script>"}), "/person"),
        (
            json!({"name": "x", "role": "admin", "person": "bob"}),
            "/role",
        ),
        (json!({"gateway": "gw-1", "person": "bob"}), "/gateway"),
    ] {
        let refused = plane.api("POST", "/tokens", Some(&bad));
        assert_eq!(refused.status, 422, "{bad}: {}", refused.text());
        assert_eq!(refused.pointers(), [pointer], "{bad}");
    }
    let body = json!({"name": "his", "role": "approver", "person": "Bob"});
    let (_, his) = token(&plane, &body);
    let all = json!({"approvals": "all"});
    assert_eq!(plane.api("PATCH", "/settings", Some(&all)).status, 200);
    let proposal = json!({"compartments": {"route/a": {"limit": 5}}});
    let path = "/api/v1/changes";
    assert_eq!(as_token(&plane, &his, "POST", path, &proposal).status, 201);
    let mut bob = signed_in(&plane, "bob");
    let approve = "/api/v1/changes/1/approve";
    let refused = bob.ask("POST", approve, &json_of, "{}");
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert_eq!(
        as_token(&plane, &own, "POST", approve, &json!({})).status,
        200
    );
}

#[test]
fn what_changes_nothing_of_a_user_ends_no_session() {
    let plane = Plane::start();
    user(&plane, "bob", "operator");
    let mut bob = signed_in(&plane, "bob");
    for same in [
        json!({}),
        json!({"role": "operator", "disabled": false, "reset": false}),
    ] {
        let answer = plane.api("PATCH", "/users/bob", Some(&same));
        assert_eq!(answer.status, 200, "{same}: {}", answer.text());
        assert!(bob.reads(), "{same}");
    }
    let rows = audit(&plane);
    assert!(rows.iter().all(|(action, ..)| action != "user-change"));
    let role = json!({"role": "viewer"});
    assert_eq!(plane.api("PATCH", "/users/bob", Some(&role)).status, 200);
    assert!(!bob.reads());
}
