//! What is ordered about gateways: drained, revoked, let go back; tokens of their own.

use std::time::Duration;

use crate::support::gateway::{Gateway, Runs};
use crate::support::{Plane, TOKEN, call};
use control_plane::Secret;
use serde_json::{Value, json};
use tonic::Code;
use wire::stream::proto::to_gateway::Message;
use wire::stream::proto::{Compartment, Report, from_gateway};

/// Longest wait for what must come.
const LONGEST: Duration = Duration::from_secs(5);

fn view(plane: &Plane, id: &str) -> Value {
    let list = plane.api("GET", "/gateways", None).json();
    let found = list.as_array().unwrap().iter().find(|g| g["id"] == id);
    found.cloned().unwrap_or_default()
}

fn until(plane: &Plane, what: &str, id: &str, probe: impl Fn(&Value) -> bool) {
    crate::support::eventually(what, || probe(&view(plane, id)));
}

fn post(plane: &Plane, path: &str) -> u16 {
    plane.api("POST", path, None).status
}

async fn drain_of(gateway: &mut Gateway) -> bool {
    loop {
        let message = tokio::time::timeout(LONGEST, gateway.message()).await;
        match message.unwrap().unwrap() {
            Some(Message::Drain(order)) => return order.drained,
            Some(Message::Policy(_) | Message::Rehearse(_) | Message::Heartbeat(_)) => {}
            None => unreachable!("the stream ended"),
        }
    }
}

async fn ends_with(gateway: &mut Gateway, code: Code) {
    let ended = tokio::time::timeout(LONGEST, async {
        loop {
            match gateway.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status.code()),
            }
        }
    });
    assert_eq!(ended.await.unwrap(), Some(code));
}

async fn connect(plane: &Plane, id: &str, token: &Secret) -> Result<Gateway, Code> {
    let connected = Gateway::try_connect(plane, id, token, Runs::default()).await;
    let mut gateway = connected.map_err(|status| status.code())?;
    match tokio::time::timeout(LONGEST, gateway.message()).await {
        Ok(Err(status)) => Err(status.code()),
        _ => Ok(gateway),
    }
}

fn token_for(plane: &Plane, gateway: &str) -> (String, Secret) {
    let answer = plane.api("POST", "/tokens", Some(&json!({ "gateway": gateway })));
    assert_eq!(answer.status, 201, "{}", answer.text());
    let made = answer.json();
    let token = made["token"].as_str().unwrap();
    let id = made["id"].as_str().unwrap().to_owned();
    (id, Secret::new(token).unwrap())
}

async fn report(gateway: &Gateway, drained: bool) {
    let report = Report {
        generation: 1,
        drained,
        compartments: vec![Compartment {
            key: "gateway".to_owned(),
            level: "gateway".to_owned(),
            limit: Some(500),
            in_flight: 12,
            admitted: 12,
            ..Compartment::default()
        }],
        ..Report::default()
    };
    gateway.say(from_gateway::Message::Report(report)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_ordered_stands_over_restarts_and_is_taken_back() {
    let mut plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "one").await;
    gateway.policy().await;
    gateway.running(1).await;
    assert_eq!(post(&plane, "/gateways/none/drain"), 404);
    assert_eq!(post(&plane, "/gateways/one/drain"), 200);
    assert!(drain_of(&mut gateway).await);
    assert_eq!(view(&plane, "one")["drain"]["by"], "admin token");
    assert_eq!(
        view(&plane, "one")["drained"],
        false,
        "it did not say so yet"
    );
    report(&gateway, true).await;
    until(&plane, "drained", "one", |view| view["drained"] == true);
    let told = view(&plane, "one");
    assert_eq!(told["load"], json!({"in_flight": 12, "capacity": 500}));
    assert!(told["stream_age_ms"].is_u64(), "{told}");
    plane = plane.restart();
    let mut again = Gateway::connect(&plane, "one").await;
    assert!(drain_of(&mut again).await, "told to whoever comes back");
    report(&again, true).await;
    assert_eq!(post(&plane, "/gateways/one/undrain"), 200);
    assert!(!drain_of(&mut again).await);
    assert_eq!(view(&plane, "one")["drain"], Value::Null);
    // One that says it is drained without an order is told to be ready.
    report(&again, true).await;
    assert!(!drain_of(&mut again).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_lets_one_gateway_in_and_nothing_else() {
    let mut plane = Plane::start();
    let (id, token) = token_for(&plane, "one");
    let text = token.expose().to_owned();
    let _one = connect(&plane, "one", &token).await.unwrap();
    until(&plane, "own token", "one", |view| view["own_token"] == true);
    let other = connect(&plane, "two", &token).await;
    assert_eq!(other.err(), Some(Code::PermissionDenied));
    let bent = Secret::new(&format!("{}0", &text[..text.len() - 1])).unwrap();
    let bent = connect(&plane, "one", &bent).await;
    assert!(text.ends_with('0') || bent.err() == Some(Code::Unauthenticated));
    // It is no key to API and pages.
    let bearer = format!("Bearer {text}");
    for path in ["/api/v1/policy", "/api/v1/tokens", "/metrics", "/gateways"] {
        let answer = call(
            plane.address,
            "GET",
            path,
            &[("authorization", &bearer)],
            b"",
        );
        assert_eq!(answer.status, 401, "{path}");
    }
    let listed = plane.api("GET", "/tokens", None);
    assert!(!listed.text().contains(&text) && !listed.text().contains("digest"));
    assert_eq!(listed.json()[0]["id"], json!(id));
    let mut files = std::fs::read(plane.store()).unwrap();
    let log = plane.folder.path().join("store.db-wal");
    files.extend(std::fs::read(log).unwrap_or_default());
    let secret = text.rsplit('_').next().unwrap().as_bytes();
    assert!(!files.windows(secret.len()).any(|window| window == secret));
    plane = plane.restart();
    assert!(
        connect(&plane, "one", &token).await.is_ok(),
        "it outlives the process"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_token_ends_its_stream_and_a_second_one_rotates_it() {
    let plane = Plane::start();
    let ((old, first), (_, second)) = (token_for(&plane, "one"), token_for(&plane, "one"));
    let mut running = connect(&plane, "one", &first).await.unwrap();
    let other = connect(&plane, "two", &plane.token()).await.unwrap();
    let path = format!("/tokens/{old}");
    assert_eq!(plane.api("DELETE", &path, None).status, 204);
    let revoked = std::pin::pin!(ends_with(&mut running, Code::PermissionDenied));
    tokio::time::timeout(Duration::from_secs(1), revoked)
        .await
        .unwrap();
    assert_eq!(plane.api("DELETE", &path, None).status, 404);
    let again = connect(&plane, "one", &first).await;
    assert_eq!(again.err(), Some(Code::Unauthenticated));
    assert!(connect(&plane, "one", &second).await.is_ok());
    // Nobody else was touched.
    other.running(1).await;
    until(&plane, "two runs on", "two", |view| {
        view["connected"] == true
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_shut_out_needs_a_token_of_its_own() {
    let plane = Plane::start();
    let shared = plane.token();
    let mut one = connect(&plane, "one", &shared).await.unwrap();
    assert_eq!(post(&plane, "/gateways/one/revoke"), 200);
    ends_with(&mut one, Code::PermissionDenied).await;
    let again = connect(&plane, "one", &shared).await;
    assert_eq!(again.err(), Some(Code::PermissionDenied));
    assert!(connect(&plane, "two", &shared).await.is_ok());
    let (_, own) = token_for(&plane, "one");
    assert!(connect(&plane, "one", &own).await.is_ok());
    let bad = plane.api("POST", "/tokens", Some(&json!({ "gateway": "" })));
    assert_eq!(bad.status, 422, "{}", bad.text());
    let bad = plane.api("POST", "/tokens", Some(&json!({ "other": "x" })));
    assert_eq!(bad.status, 422, "{}", bad.text());
}

/// A backup is restored: the gateway runs what the store has lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_ahead_goes_back_on_a_word_alone() {
    let plane = Plane::start();
    let first = Gateway::connect(&plane, "one").await.policy().await;
    let runs = Runs {
        generation: 50,
        digest: "of another time".to_owned(),
        epoch: first.epoch,
        ..Runs::default()
    };
    let token = plane.token();
    let mut ahead = Gateway::try_connect(&plane, "one", &token, runs)
        .await
        .unwrap();
    let push = ahead.policy().await;
    assert!(push.generation == 1 && !push.may_go_back);
    ahead
        .refused(1, "/generation", "is older than the running 50")
        .await;
    until(&plane, "the alarm", "one", |view| {
        view["state"] == "refused" && view["ahead"] == true && view["generation"] == 50
    });
    let metrics = call(
        plane.address,
        "GET",
        "/metrics",
        &[("authorization", &format!("Bearer {TOKEN}"))],
        b"",
    );
    let line = "bulkhead_control_gateways{state=\"ahead\"} 1";
    assert!(metrics.text().contains(line), "{}", metrics.text());
    let quiet = tokio::time::timeout(Duration::from_millis(300), ahead.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    assert_eq!(post(&plane, "/gateways/one/go-back"), 200);
    let push = ahead.policy().await;
    assert!(push.generation == 1 && push.may_go_back);
    ahead.running(1).await;
    until(&plane, "it went back", "one", |view| {
        view["state"] == "running" && view["ahead"] == false
    });
    assert_eq!(post(&plane, "/gateways/one/go-back"), 409);
    assert_eq!(post(&plane, "/gateways/none/go-back"), 404);
}
