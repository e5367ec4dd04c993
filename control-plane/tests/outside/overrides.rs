//! Overrides over the API, on both databases, and what a takeover leaves of them.

use serde_json::{Value, json};

use crate::people;
use crate::replicas::replica;
use crate::support::{Plane, call, config, eventually, policy, policy_file, postgres};
use control_plane::Config;

fn at(seconds: i64) -> String {
    let now = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    now.to_string()
}

fn limit(plane: &Plane) -> Value {
    plane.policy().0["routes"][0]["compartment"]["limit"].clone()
}

fn plan(plane: &Plane, body: &Value) -> (u16, Value) {
    let answer = plane.api("POST", "/overrides", Some(body));
    (answer.status, answer.json())
}

fn state(plane: &Plane, id: &Value) -> Value {
    plane.api("GET", &format!("/overrides/{id}"), None).json()["state"].clone()
}

fn goes_through(plane: &Plane) {
    let before = limit(plane);
    let (status, made) = plan(
        plane,
        &json!({"key": "route/a", "value": 77, "end": at(3), "comment": "=cmd|'/c'"}),
    );
    assert_eq!((status, &made["state"]), (201, &json!("waiting")), "{made}");
    eventually("it is set", || limit(plane) == json!(77));
    eventually("it runs", || state(plane, &made["id"]) == "running");
    let (status, other) = plan(
        plane,
        &json!({"key": "route/a", "value": 70, "end": at(60)}),
    );
    assert_eq!(status, 409, "{other}");
    eventually("it is lifted", || limit(plane) == before);
    eventually("it is over", || state(plane, &made["id"]) == "ended");
    let newest = plane.api("GET", "/generations", None).json()[0].clone();
    let author = newest["author"].as_str().unwrap();
    assert!(
        author.starts_with(&format!("override {} by ", made["id"])),
        "{newest}"
    );

    // Extended and cancelled.
    let (_, made) = plan(
        plane,
        &json!({"key": "route/a", "value": 78, "end": at(60)}),
    );
    let path = format!("/overrides/{}", made["id"]);
    eventually("it is set", || limit(plane) == json!(78));
    let end = at(600);
    let longer = plane.api("PATCH", &path, Some(&json!({"end": end})));
    assert_eq!((longer.status, &longer.json()["end"]), (200, &json!(end)));
    assert_eq!(plane.api("DELETE", &path, None).status, 200);
    eventually("it is lifted", || limit(plane) == before);
    eventually("it is over", || state(plane, &made["id"]) == "cancelled");
    assert_eq!(plane.api("DELETE", &path, None).status, 409);
    let open = plane.api("GET", "/overrides?open=true", None).json();
    assert_eq!(open["overrides"], json!([]));
}

fn is_refused(plane: &Plane) {
    let end = at(60);
    for (body, status, pointer) in [
        (
            json!({"key": "route/none", "value": 1, "end": end}),
            404,
            None,
        ),
        (
            json!({"key": "route/a", "value": -1, "end": end}),
            422,
            Some("/routes/0/compartment/limit"),
        ),
        (
            json!({"key": "route/a", "field": "nonsense", "value": 1, "end": end}),
            422,
            Some("/routes/0/compartment/nonsense"),
        ),
        (
            json!({"key": "route/a", "value": null, "end": end}),
            422,
            Some("/value"),
        ),
        (
            json!({"key": "route/a", "value": 1, "end": "Friday"}),
            422,
            Some("/end"),
        ),
        (
            json!({"key": "route/a", "value": 1, "end": "2026-12-04T18:00"}),
            422,
            Some("/end"),
        ),
        (
            json!({"key": "route/a", "value": 1, "end": at(-5)}),
            422,
            Some("/end"),
        ),
        (
            json!({"key": "route/a", "value": 1, "start": at(90), "end": end}),
            422,
            Some("/end"),
        ),
        (
            json!({"key": "route/a", "value": 1, "end": end, "x": 1}),
            422,
            None,
        ),
    ] {
        let answer = plane.api("POST", "/overrides", Some(&body));
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        if let Some(pointer) = pointer {
            assert_eq!(answer.pointers(), [pointer], "{body}");
        }
    }
    for path in [
        "/overrides/0",
        "/overrides/x",
        "/overrides/99999999999999999999",
    ] {
        assert_eq!(plane.api("GET", path, None).status, 404, "{path}");
    }
    assert_eq!(
        plane.api("GET", "/overrides", None).json()["overrides"],
        json!([])
    );
}

#[test]
fn an_override_goes_from_its_start_to_its_end() {
    let plane = Plane::start();
    is_refused(&plane);
    goes_through(&plane);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_override_goes_from_its_start_to_its_end_on_postgres() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let plane = replica(&database);
    is_refused(&plane);
    goes_through(&plane);
}

/// It ends while nobody is there, and is lifted at once by the next start.
#[test]
fn an_override_outlives_a_restart() {
    let plane = Plane::start();
    let before = limit(&plane);
    let (_, made) = plan(
        &plane,
        &json!({"key": "route/a", "value": 77, "end": at(2)}),
    );
    let (_, ahead) = plan(
        &plane,
        &json!({"key": "route/b", "value": 9, "start": "2027-07-01T08:00[Europe/Berlin]",
                "end": "2027-07-01T18:00[Europe/Berlin]"}),
    );
    assert_eq!(ahead["start_utc"], "2027-07-01T06:00:00.000Z");
    eventually("it runs", || state(&plane, &made["id"]) == "running");
    let plane = plane.restart();
    eventually("it is lifted", || limit(&plane) == before);
    eventually("it is over", || state(&plane, &made["id"]) == "ended");
    assert_eq!(state(&plane, &ahead["id"]), "waiting");
}

/// Made at one control plane, set by whichever leads, lifted by the other when that one is gone.
#[tokio::test(flavor = "multi_thread")]
async fn an_override_is_lifted_by_whoever_leads_then() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let (one, two) = (replica(&database), replica(&database));
    let before = limit(&one);
    let (_, made) = plan(&two, &json!({"key": "route/a", "value": 77, "end": at(4)}));
    eventually("it runs", || state(&two, &made["id"]) == "running");
    assert_eq!(limit(&one), json!(77));
    drop(one);
    eventually("the other one lifts it", || limit(&two) == before);
    eventually("it is over", || state(&two, &made["id"]) == "ended");
}

/// A control plane where somebody without a token is a second person.
fn with_two_people() -> Plane {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        import: Some(policy_file(folder.path(), &policy())),
        no_login: true,
        ..config(folder.path())
    };
    Plane::start_with(folder, config).unwrap()
}

#[test]
fn ending_one_that_runs_waits_for_a_second_person() {
    let plane = with_two_people();
    let before = limit(&plane);
    let (_, made) = plan(
        &plane,
        &json!({"key": "route/a", "value": 77, "end": at(600)}),
    );
    let (_, ahead) = plan(
        &plane,
        &json!({"key": "route/b", "value": 7, "start": at(2), "end": at(600)}),
    );
    eventually("it runs", || state(&plane, &made["id"]) == "running");
    let all = json!({"approvals": "all"});
    assert_eq!(plane.api("PATCH", "/settings", Some(&all)).status, 200);
    let path = format!("/overrides/{}", made["id"]);
    let approve = format!("{path}/approve");
    for _ in 0..2 {
        let asked = plane.api("DELETE", &path, None);
        assert_eq!(asked.status, 202, "{}", asked.text());
        let asked = asked.json();
        assert_eq!(
            (&asked["end_asked_by"], &asked["state"]),
            (&json!("admin token"), &json!("running"))
        );
    }
    let sooner = plane.api("PATCH", &path, Some(&json!({"end": at(5)})));
    assert_eq!(sooner.status, 409, "{}", sooner.text());
    assert_eq!(plane.api("POST", &approve, None).status, 403, "the same");
    // What was rightly planned before the setting begins all the same.
    eventually("it runs", || state(&plane, &ahead["id"]) == "running");
    assert_eq!(limit(&plane), json!(77), "nobody agreed yet");
    let other = |method: &str, path: &str| {
        let path = format!("/api/v1{path}");
        call(plane.address, method, &path, &[], b"")
    };
    let agreed = other("POST", &approve);
    assert_eq!(agreed.status, 200, "{}", agreed.text());
    eventually("it is lifted", || limit(&plane) == before);
    eventually("it is over", || state(&plane, &made["id"]) == "cancelled");
    let over = plane.api("GET", &path, None).json();
    assert_eq!(
        (&over["cancelled_by"], &over["end_approved_by"]),
        (&json!("admin token"), &json!("operator"))
    );
    // What has not begun is withdrawn by one.
    let (_, made) = plan(
        &plane,
        &json!({"key": "route/a", "value": 78, "end": at(600)}),
    );
    let path = format!("/overrides/{}", made["id"]);
    let gone = plane.api("DELETE", &path, None);
    assert_eq!(
        (gone.status, &gone.json()["state"]),
        (200, &json!("cancelled"))
    );
    // In an emergency nobody is asked, and the audit says so.
    let token = json!({"name": "night", "role": "operator", "scopes": ["emergency"]});
    let token = plane.api("POST", "/tokens", Some(&token)).json();
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    let path = format!("/api/v1/overrides/{}", ahead["id"]);
    let headers = [("authorization", bearer.as_str())];
    let ended = call(plane.address, "DELETE", &path, &headers, b"");
    assert_eq!(ended.status, 200, "{}", ended.text());
    eventually("it is over", || state(&plane, &ahead["id"]) == "cancelled");
    let rows = people::audit_rows(&plane).into_iter();
    let ends = rows.filter(|row| row.action == "override-cancel");
    let said: Vec<_> = ends
        .filter(|row| row.differences.contains("\"emergency\":true"))
        .map(|row| row.who)
        .collect();
    assert_eq!(said, ["token night"]);
}
