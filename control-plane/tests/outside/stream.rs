//! The gateways' stream, with gateways made of a few messages.

use std::time::{Duration, Instant};

use crate::support::gateway::{Gateway, Runs};
use crate::support::{Plane, config, policy};
use control_plane::Secret;
use serde_json::{Value, json};
use tonic::Code;
use wire::stream::proto::Compartment;

fn limit(plane: &Plane, limit: u32) -> u64 {
    let answer = plane.patch("route/a", &json!({"limit": limit}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["generation"].as_u64().unwrap()
}

fn gateways(plane: &Plane) -> Vec<Value> {
    plane
        .api("GET", "/gateways", None)
        .json()
        .as_array()
        .unwrap()
        .clone()
}

/// Polls the list, off the runtime's thread, until `probe` likes it.
fn until(plane: &Plane, what: &str, probe: impl Fn(&[Value]) -> bool) {
    crate::support::eventually(what, || probe(&gateways(plane)));
}

fn route(key: &str, in_flight: u32) -> Compartment {
    Compartment {
        key: key.to_owned(),
        level: "route".to_owned(),
        limit: Some(4),
        in_flight,
        admitted: u64::from(in_flight),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_newest_policy_comes_down() {
    let plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "one").await;
    let first = gateway.policy().await;
    assert_eq!(first.generation, 1);
    assert_eq!(
        serde_json::from_slice::<Value>(&first.document).unwrap(),
        policy()
    );
    assert!(!first.epoch.is_empty() && first.digest.len() == 64);
    gateway.running(1).await;
    until(&plane, "running", |list| list[0]["state"] == "running");
    let generation = limit(&plane, 9);
    let second = gateway.policy().await;
    assert_eq!(
        (second.generation, &second.epoch),
        (generation, &first.epoch)
    );
    let document: Value = serde_json::from_slice(&second.document).unwrap();
    assert_eq!(document["routes"][0]["compartment"]["limit"], json!(9));
    until(&plane, "lagging", |list| list[0]["state"] == "lagging");
    gateway.already_there(generation).await;
    until(&plane, "running", |list| list[0]["state"] == "running");
    drop(gateway);
    until(&plane, "gone", |list| list[0]["connected"] == json!(false));
    assert!(
        gateways(&plane)[0]["last_seen"]
            .as_str()
            .unwrap()
            .ends_with('Z')
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_runs_it_already_is_sent_nothing() {
    let plane = Plane::start();
    let policy = Gateway::connect(&plane, "one").await.policy().await;
    let generation = policy.generation;
    let runs = Runs {
        generation,
        digest: policy.digest,
        epoch: policy.epoch,
        has_parts: false,
    };
    let token = plane.token();
    let mut again = Gateway::try_connect(&plane, "one", &token, runs.clone())
        .await
        .unwrap();
    until(&plane, "running", |list| {
        list.len() == 1 && list[0]["state"] == "running" && list[0]["connected"] == json!(true)
    });
    // The first thing that comes down is the next generation, not the one it has.
    assert_eq!(limit(&plane, 9), again.policy().await.generation);
    let other = Runs {
        epoch: "another-store".to_owned(),
        ..runs
    };
    let mut other = Gateway::try_connect(&plane, "two", &token, other)
        .await
        .unwrap();
    assert_eq!(
        other.policy().await.generation,
        2,
        "numbers of another store say nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_token_gets_nothing() {
    let plane = Plane::start();
    for token in [
        Secret::random().unwrap(),
        Secret::new(crate::support::TOKEN).unwrap(),
    ] {
        let outcome = Gateway::try_connect(&plane, "one", &token, Runs::default()).await;
        let status = match outcome {
            Err(status) => status,
            Ok(mut gateway) => gateway.next().await.unwrap_err(),
        };
        assert_eq!(status.code(), Code::Unauthenticated);
    }
    assert!(gateways(&plane).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_policy_is_shown_and_not_sent_again() {
    let plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "one").await;
    gateway.policy().await;
    gateway.running(1).await;
    let refused = limit(&plane, 7);
    assert_eq!(gateway.policy().await.generation, refused);
    gateway
        .refused(refused, "/routes/0/compartment/limit", "must be even")
        .await;
    until(&plane, "refused", |list| list[0]["state"] == "refused");
    let view = gateways(&plane).remove(0);
    assert_eq!(
        (&view["generation"], &view["refused"]["generation"]),
        (&json!(1), &json!(2))
    );
    let error = &view["refused"]["errors"][0];
    assert_eq!(error["pointer"], json!("/routes/0/compartment/limit"));
    assert_eq!(error["detail"], json!("must be even"));
    let again = tokio::time::timeout(Duration::from_millis(300), gateway.next()).await;
    assert!(again.is_err(), "the refused policy came again: {again:?}");
    let fixed = limit(&plane, 8);
    assert_eq!(gateway.policy().await.generation, fixed);
    gateway.running(fixed).await;
    until(&plane, "running", |list| {
        list[0]["state"] == "running" && list[0]["refused"].is_null()
    });
}

/// A gateway that reads nothing delays nobody, and catches up with the newest alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_gateway_delays_nobody() {
    let plane = Plane::start();
    // Large enough that the windows of a connection cannot hold a few of them.
    let mut large = policy();
    let body = "x".repeat(20_000);
    let route = |n: u32| {
        json!({"id": format!("r{n}"), "path": format!("/r{n}"), "upstream": "main",
               "compartment": {"limit": 1, "reserved": 0},
               "fallback": [{"kind": "static", "status": 200,
                             "content_type": "text/plain", "body": body}]})
    };
    large["routes"]
        .as_array_mut()
        .unwrap()
        .extend((0..20).map(route));
    let version = [("if-match", "1")];
    let answer = plane.api_with("PUT", "/policy", Some(&large), &version);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut frozen = Gateway::connect(&plane, "frozen").await;
    let mut quick = [
        Gateway::connect(&plane, "a").await,
        Gateway::connect(&plane, "b").await,
    ];
    for gateway in &mut quick {
        assert_eq!(gateway.policy().await.generation, 2);
        gateway.running(2).await;
    }
    let mut newest = 2;
    for n in 0..6 {
        newest = limit(&plane, 10 + n);
        for gateway in &mut quick {
            let push = tokio::time::timeout(Duration::from_secs(5), gateway.policy()).await;
            assert_eq!(push.unwrap().generation, newest);
            gateway.running(newest).await;
        }
    }
    until(&plane, "the frozen one is flagged", |list| {
        let states: Vec<_> = list.iter().map(|g| g["state"].as_str().unwrap()).collect();
        states == ["running", "running", "lagging"]
    });
    // It thaws: one it was sent before, then the newest, none of those between.
    assert_eq!(frozen.policy().await.generation, 2);
    frozen.running(2).await;
    assert_eq!(frozen.policy().await.generation, newest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reports_are_summed_over_gateways() {
    let plane = Plane::start();
    let mut one = Gateway::connect(&plane, "one").await;
    let mut two = Gateway::connect(&plane, "two").await;
    one.policy().await;
    two.policy().await;
    until(&plane, "both", |list| list.len() == 2);
    assert_eq!(
        plane.api("GET", "/compartments", None).json()["reporting"],
        json!("0 of 2")
    );
    one.report(1, vec![route("route/a", 1)]).await;
    crate::support::eventually("one of two", || {
        plane.api("GET", "/compartments", None).json()["reporting"] == json!("1 of 2")
    });
    two.report(1, vec![route("route/a", 3)]).await;
    crate::support::eventually("two of two", || {
        one_of(&plane, "route%2Fa")["reporting"] == json!("2 of 2")
    });
    let sum = one_of(&plane, "route%2Fa");
    assert_eq!((&sum["in_flight"], &sum["limit"]), (&json!(4), &json!(8)));
    let parts: Vec<_> = sum["gateways"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["in_flight"].clone())
        .collect();
    assert_eq!(parts, [1, 3]);
    // The policy knows it, nobody reports it: listed without figures, never with zeros.
    let silent = one_of(&plane, "route%2Fb");
    assert_eq!(
        (&silent["limit"], silent.get("in_flight")),
        (&json!(3), None)
    );
    assert_eq!(
        plane.api("GET", "/compartments/route%2Fnone", None).status,
        404
    );
}

fn one_of(plane: &Plane, key: &str) -> Value {
    plane
        .api("GET", &format!("/compartments/{key}"), None)
        .json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_talks_nonsense_is_cut_off_alone() {
    let plane = Plane::start();
    let mut good = Gateway::connect(&plane, "good").await;
    let mut bad = Gateway::connect(&plane, "bad").await;
    bad.policy().await;
    bad.report(1, vec![route("<script>", 1)]).await;
    let ended = tokio::time::timeout(Duration::from_secs(5), bad.next())
        .await
        .unwrap();
    assert!(matches!(ended, Ok(None) | Err(_)), "{ended:?}");
    good.policy().await;
    good.running(1).await;
    assert_eq!(limit(&plane, 9), good.policy().await.generation);
    let unnamed = Gateway::try_connect(&plane, "", &plane.token(), Runs::default()).await;
    let status = match unnamed {
        Err(status) => status,
        Ok(mut gateway) => gateway.next().await.unwrap_err(),
    };
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_stream_does_not_hold_up_the_end() {
    let mut plane = Plane::start();
    let mut gateway = Gateway::connect(&plane, "one").await;
    gateway.policy().await;
    // A client that sends half a head stays, too.
    let mut half = std::net::TcpStream::connect(plane.address).unwrap();
    std::io::Write::write_all(&mut half, b"GET / HT").unwrap();
    let running = plane.running.take().unwrap();
    let stopped = tokio::task::spawn_blocking(move || running.stop());
    tokio::time::timeout(Duration::from_secs(8), stopped)
        .await
        .unwrap()
        .unwrap();
    let ended = gateway.next().await;
    assert!(matches!(ended, Ok(None) | Err(_)), "{ended:?}");
}

/// Fifty gateways of which two never read and five answer late: the rest run each change within
/// a second at p99, and the list tells who does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test's time is of the real clock"
)]
async fn many_gateways_converge_whatever_a_few_do() {
    const HEALTHY: usize = 43;
    const CHANGES: u32 = 20;
    let plane = Plane::start();
    let (seen, mut newest) = tokio::sync::mpsc::channel(HEALTHY);
    let mut tasks = tokio::task::JoinSet::new();
    // The dead come first and have the lowest names: whoever tries a change first may be one.
    let _dead = [
        Gateway::connect(&plane, "dead-1").await,
        Gateway::connect(&plane, "dead-2").await,
    ];
    for n in 0..HEALTHY + 5 {
        let mut gateway = Gateway::connect(&plane, &format!("gateway-{n:02}")).await;
        let seen = seen.clone();
        tasks.spawn(async move {
            loop {
                let generation = gateway.policy().await.generation;
                if n >= 5 {
                    gateway.running(generation).await;
                    let _ended = seen.send((generation, Instant::now())).await;
                } else {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    gateway.already_there(generation).await;
                }
            }
        });
    }
    let (mut generation, mut began) = (1, Instant::now());
    let mut took = Vec::new();
    for n in 0..=CHANGES {
        for _ in 0..HEALTHY {
            let next = tokio::time::timeout(Duration::from_secs(10), newest.recv());
            let (told, at) = next.await.unwrap().unwrap();
            assert_eq!(told, generation);
            took.push(at.saturating_duration_since(began));
        }
        if n < CHANGES {
            began = Instant::now();
            generation = limit(&plane, 50 + n);
        }
    }
    // The first one is about connecting.
    let mut took = took.split_off(HEALTHY);
    took.sort_unstable();
    let at = |percent: usize| took[took.len() * percent / 100];
    let (p50, p99, worst) = (at(50), at(99), took[took.len() - 1]);
    println!("a change reaches 43 of 50 gateways: p50 {p50:?}, p99 {p99:?}, last {worst:?}");
    assert!(p99 < Duration::from_secs(1), "{p99:?}");
    until(
        &plane,
        "the healthy run it, the dead are told apart",
        |list| {
            let of = |state: &str| list.iter().filter(|g| g["state"] == state).count();
            let dead = list
                .iter()
                .filter(|g| g["id"].as_str().unwrap().starts_with("dead"));
            let lagging = dead.filter(|g| g["state"] == "lagging").count();
            (of("running") >= HEALTHY, list.len(), lagging) == (true, 50, 2)
        },
    );
    tasks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_what_another_control_plane_of_the_store_wrote_is_not_ahead_of_it() {
    let plane = Plane::start();
    let second = control_plane::start(config(plane.folder.path())).unwrap();
    let other = Plane {
        address: second.dashboard(),
        running: Some(second),
        folder: tempfile::tempdir().unwrap(),
    };
    let mut gateway = Gateway::connect(&plane, "one").await;
    let first = gateway.policy().await;
    gateway.running(first.generation).await;
    let written = limit(&plane, 9);
    let policy = gateway.policy().await;
    assert_eq!(policy.generation, written);
    let runs = Runs {
        generation: written,
        digest: policy.digest,
        epoch: policy.epoch,
        has_parts: false,
    };
    // At once: the other one has not looked into the store since.
    let mut moved = Gateway::try_connect(&other, "one", &other.token(), runs)
        .await
        .unwrap();
    until(&other, "running", |list| {
        list.len() == 1 && list[0]["state"] == "running"
    });
    let push = tokio::time::timeout(Duration::from_millis(300), moved.next()).await;
    assert!(push.is_err(), "{push:?}");
}
