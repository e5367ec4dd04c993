//! Overrides over the API, on both databases, and what a takeover leaves of them.

use serde_json::{Value, json};

use crate::replicas::replica;
use crate::support::{Plane, eventually, postgres};

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
