//! A rehearsal of a fallback: answered with its report, which outlives a restart.

use serde_json::json;
use wire::stream::proto::{Rehearsed, RehearsedStep, from_gateway};

use super::pages::get;
use super::support::Plane;
use super::support::gateway::Gateway;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_the_same_after_a_restart() {
    let plane = Plane::start();
    let mut policy = super::support::policy();
    policy["routes"][0]["fallback"] = json!([{"kind": "static", "status": 200, "body": "[]"}]);
    let put = plane.api_with("PUT", "/policy", Some(&policy), &[("if-match", "1")]);
    assert!(put.status < 300, "{}", put.text());
    let route = policy["routes"][0]["id"].as_str().unwrap().to_owned();
    let mut gateway = Gateway::connect(&plane, "g1").await;
    let sent = json!({"kind": "fallback", "route": route});
    let asking = tokio::task::spawn_blocking(move || {
        let answer = plane.api("POST", "/drills", Some(&sent));
        (plane, answer)
    });
    let asked = gateway.asked().await;
    let step = RehearsedStep {
        kind: "static".to_owned(),
        answers: true,
        status: 200,
        ..RehearsedStep::default()
    };
    let told = Rehearsed {
        id: asked.id.clone(),
        steps: vec![step],
        refused: String::new(),
    };
    gateway.say(from_gateway::Message::Rehearsed(told)).await;
    let (plane, answer) = asking.await.unwrap();
    let report = answer.json();
    assert_eq!((answer.status, &report["passed"]), (201, &json!(true)));
    let path = format!("/drills/{}", asked.id);
    let page = format!("/compartments/route%2F{route}");
    let rehearsed = format!("Rehearsed {}", report["at"].as_str().unwrap());
    let is_as_before = |plane: &Plane| {
        assert_eq!(plane.api("GET", &path, None).json(), report);
        let html = get(plane, &page).text();
        assert!(html.contains(&rehearsed), "{html}");
    };
    is_as_before(&plane);
    drop(gateway);
    is_as_before(&plane.restart());
}
