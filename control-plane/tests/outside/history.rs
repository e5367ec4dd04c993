//! Figures over time, with gateways made of a few messages.

use std::time::Duration;

use crate::support::gateway::Gateway;
use crate::support::{Plane, TOKEN, call, config, eventually, policy_file};
use serde_json::{Value, json};
use wire::stream::proto::{Compartment, Report, from_gateway};

/// A compartment that has admitted and refused so many since the boot.
fn counted(key: &str, admitted: u64, refused: u64) -> Compartment {
    let level = if key == "gateway" { "gateway" } else { "route" };
    Compartment {
        key: key.to_owned(),
        level: level.to_owned(),
        limit: Some(2),
        admitted,
        completed: admitted,
        rejected: [("route_full".to_owned(), refused)].into(),
        mode: "enforce".to_owned(),
        in_flight_us: admitted * 1_000,
        saturated_us: refused * 1_000,
        ..Default::default()
    }
}

/// The report of this second of a boot.
async fn report(gateway: &Gateway, boot: &str, second: u64, compartments: Vec<Compartment>) {
    let report = Report {
        generation: 1,
        compartments,
        boot_id: boot.to_owned(),
        sequence: second,
        at_unix_ms: i64::MAX,
        uptime_us: second * 1_000_000,
        ..Report::default()
    };
    gateway.say(from_gateway::Message::Report(report)).await;
}

fn series(plane: &Plane, key: &str, query: &str) -> Value {
    let key = key.replace('/', "%2F");
    let answer = plane.api("GET", &format!("/compartments/{key}/series{query}"), None);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// What all points of a series add up to.
fn total(series: &Value, field: &str) -> u64 {
    let points = series["points"].as_array().unwrap();
    points
        .iter()
        .filter_map(|point| point["figures"][field].as_u64())
        .sum()
}

/// Waits until so many were admitted in the last hour.
fn until_admitted(plane: &Plane, key: &str, wanted: u64) -> Value {
    eventually(&format!("{wanted} admitted at {key}"), || {
        total(&series(plane, key, ""), "admitted") == wanted
    });
    series(plane, key, "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_series_adds_up_over_gateways_and_survives_restarts() {
    let plane = Plane::start();
    let one = Gateway::connect(&plane, "one").await;
    let two = Gateway::connect(&plane, "two").await;
    report(
        &one,
        "b",
        1,
        vec![counted("gateway", 10, 0), counted("route/a", 10, 4)],
    )
    .await;
    report(
        &two,
        "x",
        1,
        vec![counted("gateway", 5, 0), counted("route/a", 5, 0)],
    )
    .await;
    // Twice, late, and with a clock from the future: nothing changes.
    report(&one, "b", 1, vec![counted("route/a", 99, 0)]).await;
    report(
        &one,
        "b",
        3,
        vec![counted("gateway", 30, 0), counted("route/a", 30, 4)],
    )
    .await;
    report(&one, "b", 2, vec![counted("route/a", 20, 4)]).await;
    // A restart: counted from zero.
    report(
        &one,
        "c",
        1,
        vec![counted("gateway", 2, 0), counted("route/a", 2, 0)],
    )
    .await;
    let body = until_admitted(&plane, "route/a", 37);
    assert_eq!(total(&body, "arrived"), 41);
    let rejected: u64 = body["points"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|point| point["figures"]["rejected"]["route_full"].as_u64())
        .sum();
    assert_eq!(rejected, 4);
    assert_eq!(body["reporting"], json!("2 of 2"));
    assert_eq!(
        (&body["step"], &body["step_seconds"]),
        (&json!("10s"), &json!(10))
    );
    let points = body["points"].as_array().unwrap();
    assert!((360..=362).contains(&points.len()), "{}", points.len());
    // An hour ago nobody was there: a gap, not a zero.
    assert_eq!(points[0]["figures"], Value::Null);
    let split = series(&plane, "route/a", "?by=gateway");
    let of = |id: &str| {
        let gateways = split["gateways"].as_array().unwrap();
        let own = gateways.iter().find(|gateway| gateway["id"] == json!(id));
        own.map_or(0, |own| total(own, "admitted"))
    };
    assert_eq!((of("one"), of("two")), (32, 5));
    for step in ["10s", "1m", "1h"] {
        let body = series(&plane, "route/a", &format!("?step={step}"));
        assert_eq!(total(&body, "admitted"), 37, "{step}");
    }
    // The control plane goes and comes back; the gateway counts on.
    drop((one, two));
    let plane = tokio::task::spawn_blocking(move || plane.restart())
        .await
        .unwrap();
    let body = series(&plane, "route/a", "");
    assert_eq!(total(&body, "admitted"), 37, "kept over a restart");
    assert_eq!(body["reporting"], json!("0 of 0"));
    let one = Gateway::connect(&plane, "one").await;
    report(
        &one,
        "c",
        400,
        vec![counted("gateway", 900, 0), counted("route/a", 900, 0)],
    )
    .await;
    report(
        &one,
        "c",
        401,
        vec![counted("gateway", 903, 0), counted("route/a", 903, 0)],
    )
    .await;
    // What passed while nobody listened is a gap, not a burst.
    until_admitted(&plane, "route/a", 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_wrongly_is_refused_by_name() {
    let plane = Plane::start();
    let refusal = |query: &str| {
        let answer = plane.api(
            "GET",
            &format!("/compartments/route%2Fa/series{query}"),
            None,
        );
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json")
        );
        let body = answer.json();
        body["errors"][0]["parameter"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    for (query, parameter) in [
        ("?step=7s", "step"),
        ("?from=yesterday", "from"),
        ("?to=1e3", "to"),
        ("?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("?from=99999999999999999", "from"),
        ("?from=-99999999999999999", "from"),
        ("?from=4000000000&to=4000000010", "from"),
        ("?from=1&step=10s", "step"),
        ("?by=tenant", "by"),
        ("?by=gateway&step=1h", "by"),
    ] {
        assert_eq!(refusal(query), parameter, "{query}");
    }
    refusal("?other=1");
    refusal("?step=1m&step=1m");
    assert_eq!(
        plane
            .api("GET", "/compartments/route%2Fnone/series", None)
            .status,
        404
    );
    let long = series(&plane, "route/a", "?from=1");
    assert_eq!(long["step"], json!("1h"));
    let zone = series(
        &plane,
        "route/a",
        "?from=2026-01-01T00:00:00%2B01:00&step=1h",
    );
    assert_eq!(zone["from"], json!("2025-12-31T23:00:00Z"));
}

/// The history's file is locked by somebody else: a limit is changed all the same, and figures
/// are there when the lock is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_never_waits_for_the_history() {
    let plane = Plane::start();
    let one = Gateway::connect(&plane, "one").await;
    let path = plane.folder.path().join("store-history.db");
    assert!(path.exists(), "the history has a file of its own");
    let lock = sqlx_lock(&path).await;
    report(
        &one,
        "b",
        1,
        vec![counted("gateway", 10, 0), counted("route/a", 10, 0)],
    )
    .await;
    let before = plane.generation();
    for limit in 10..30 {
        let answer = plane.patch("route/a", &json!({ "limit": limit }));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert_eq!(plane.generation(), before + 20);
    // Long enough for the writer to meet the lock and give up, once.
    eventually("the history fails", || {
        plane.api("GET", "/history", None).json()["state"] == json!("failing")
    });
    let answer = plane.patch("route/a", &json!({ "limit": 5 }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(
        total(&series(&plane, "route/a", ""), "admitted"),
        10,
        "it waits in memory"
    );
    drop(lock);
    eventually("the history is kept again", || {
        let state = plane.api("GET", "/history", None).json();
        state["state"] == json!("kept") && state["pending_rows"] == json!(0)
    });
    assert_eq!(total(&series(&plane, "route/a", ""), "admitted"), 10);
}

/// Holds the write lock of a file until it is dropped.
async fn sqlx_lock(path: &std::path::Path) -> sqlx::SqliteConnection {
    use sqlx::{ConnectOptions as _, Executor as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await.unwrap();
    connection.execute("BEGIN IMMEDIATE").await.unwrap();
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_cannot_be_opened_keeps_nobody_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("store-history.db"),
        "not a database at all, but a text",
    )
    .unwrap();
    let import = Some(policy_file(folder.path(), &crate::support::policy()));
    let config = control_plane::Config {
        import,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, config).unwrap();
    let answer = plane.patch("route/a", &json!({"limit": 7}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let state = plane.api("GET", "/history", None).json();
    assert_eq!(state["state"], json!("failing"));
    let error = state["error"].as_str().unwrap();
    assert!(error.contains("store-history.db"), "{error}");
    let answer = plane.api("GET", "/compartments/route%2Fa/series", None);
    assert_eq!(answer.status, 503, "{}", answer.text());
    let text = std::fs::read_to_string(plane.folder.path().join("store-history.db")).unwrap();
    assert!(
        text.starts_with("not a database"),
        "nothing was changed in it"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_a_thousand_compartments_is_answered_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut large = crate::support::policy();
    let route = |n: u32| {
        json!({"id": format!("r{n}"), "path": format!("/r{n}"), "upstream": "main",
               "compartment": {"limit": 2, "reserved": 0}})
    };
    large["routes"]
        .as_array_mut()
        .unwrap()
        .extend((0..1_000).map(route));
    let import = Some(policy_file(folder.path(), &large));
    let config = control_plane::Config {
        import,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, config).unwrap();
    let one = Gateway::connect(&plane, "one").await;
    let all = (0..1_000).map(|n| counted(&format!("route/r{n}"), n, 1));
    report(
        &one,
        "b",
        1,
        all.chain([counted("gateway", 9, 0)]).collect(),
    )
    .await;
    eventually("a thousand", || {
        plane.api("GET", "/compartments/route%2Fr7", None).json()["admitted"] == json!(7)
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "the cost of a page is of the real clock"
    )]
    let began = std::time::Instant::now();
    let answer = plane.api("GET", "/compartments", None);
    let took = began.elapsed();
    println!(
        "GET /compartments of 1,000: {} bytes in {took:?}",
        answer.body.len()
    );
    let body = answer.json();
    assert_eq!(body["reporting"], json!("1 of 1"));
    assert!(body["compartments"].as_array().unwrap().len() > 1_000);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(
        call(plane.address, "GET", "/api/v1/history", &headers, b"").status,
        200
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_limit_are_marks_on_its_series() {
    let plane = Plane::start();
    for limit in [7, 9] {
        let change = json!({ "limit": limit, "comment": format!("to {limit}") });
        assert_eq!(plane.patch("route/a", &change).status, 200);
    }
    assert_eq!(plane.patch("route/b", &json!({"limit": 30})).status, 200);
    let marks = |plane: &Plane| series(plane, "route/a", "")["changes"].clone();
    eventually("two marks", || marks(&plane).as_array().unwrap().len() == 2);
    let told = marks(&plane);
    assert_eq!((&told[0]["old"], &told[0]["new"]), (&json!(7), &json!(9)));
    assert_eq!(
        (&told[0]["generation"], &told[0]["comment"]),
        (&json!(3), &json!("to 9"))
    );
    assert_eq!((&told[1]["old"], &told[1]["new"]), (&json!(2), &json!(7)));
    let limits = series(&plane, "route/a", "")["limits"].clone();
    let steps: Vec<_> = limits
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["limit"])
        .collect();
    assert_eq!(steps, [&json!(2), &json!(7), &json!(9)]);
    let quiet = series(&plane, "route/c", "");
    assert_eq!(quiet["changes"], json!([]));
    assert_eq!(
        quiet["limits"][0]["limit"],
        json!(4),
        "what is in force, from the beginning on"
    );
    // Noted once, also by the next process.
    let plane = tokio::task::spawn_blocking(move || plane.restart())
        .await
        .unwrap();
    assert_eq!(plane.patch("route/a", &json!({"limit": 11})).status, 200);
    eventually("three marks", || {
        marks(&plane).as_array().unwrap().len() == 3
    });
    assert_eq!(marks(&plane)[0]["old"], json!(9));
}
