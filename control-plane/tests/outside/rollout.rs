//! How a generation spreads: one gateway first, halted when it is refused, never sent again.

use std::time::Duration;

use crate::support::Plane;
use crate::support::gateway::{Gateway, Runs};
use prost::Message as _;
use serde_json::{Value, json};
use wire::parts::{Parts, assemble};

/// Long enough for a push that should not come to be seen.
const QUIET: Duration = Duration::from_millis(300);

fn limit(plane: &Plane, limit: u32) -> u64 {
    let answer = plane.patch("route/a", &json!({"limit": limit}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["generation"].as_u64().unwrap()
}

fn view(plane: &Plane, id: &str) -> Value {
    let list = plane.api("GET", "/gateways", None).json();
    let found = list.as_array().unwrap().iter().find(|g| g["id"] == id);
    found.cloned().unwrap_or_default()
}

fn until(plane: &Plane, id: &str, state: &str) {
    crate::support::eventually(&format!("{id} is {state}"), || {
        view(plane, id)["state"] == state
    });
}

/// What the list says of one generation's halt.
fn halted(plane: &Plane, number: u64) -> Value {
    let list = plane.api("GET", "/generations", None).json();
    let found = list
        .as_array()
        .unwrap()
        .iter()
        .find(|g| g["number"] == number);
    found.unwrap()["halted"].clone()
}

/// `count` gateways that run the first generation.
async fn fleet(plane: &Plane, count: usize) -> Vec<Gateway> {
    let mut fleet = Vec::new();
    for n in 0..count {
        let mut gateway = Gateway::connect(plane, &format!("gw-{n}")).await;
        let generation = gateway.policy().await.generation;
        gateway.running(generation).await;
        until(plane, &format!("gw-{n}"), "running");
        fleet.push(gateway);
    }
    fleet
}

async fn gets(gateway: &mut Gateway, generation: u64) {
    let push = tokio::time::timeout(Duration::from_secs(5), gateway.policy()).await;
    assert_eq!(push.unwrap().generation, generation);
}

async fn gets_nothing(gateway: &mut Gateway) {
    let push = tokio::time::timeout(QUIET, gateway.next()).await;
    assert!(push.is_err(), "{push:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_four_tries_a_generation_before_the_rest() {
    let plane = Plane::start();
    let mut fleet = fleet(&plane, 4).await;
    let newest = limit(&plane, 9);
    gets(&mut fleet[0], newest).await;
    let waits = view(&plane, "gw-3");
    assert_eq!(waits["state"], "lagging");
    let reason = waits["reason"].as_str().unwrap();
    assert!(reason.contains("gw-0"), "{reason}");
    fleet[0].running(newest).await;
    for gateway in &mut fleet[1..] {
        gets(gateway, newest).await;
        gateway.running(newest).await;
    }
    until(&plane, "gw-3", "running");
    assert_eq!(view(&plane, "gw-3")["reason"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_are_sent_it_at_once() {
    let plane = Plane::start();
    let mut fleet = fleet(&plane, 3).await;
    let newest = limit(&plane, 9);
    for gateway in &mut fleet {
        gets(gateway, newest).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_generation_is_halted_for_everybody_and_through_restarts() {
    let mut plane = Plane::start();
    let mut all = fleet(&plane, 4).await;
    let bad = limit(&plane, 7);
    gets(&mut all[0], bad).await;
    all[0]
        .refused(bad, "/routes/0/compartment/limit", "must be even")
        .await;
    until(&plane, "gw-0", "refused");
    for gateway in &mut all[1..] {
        gets_nothing(gateway).await;
    }
    // Neither who comes back nor who is new is sent it: the newest that was not refused.
    all[0] = Gateway::connect(&plane, "gw-0").await;
    gets(&mut all[0], 1).await;
    all[0].running(1).await;
    gets_nothing(&mut all[0]).await;
    let mut fresh = Gateway::connect(&plane, "fresh").await;
    gets(&mut fresh, 1).await;
    let told = halted(&plane, bad);
    assert_eq!(
        (&told["gateway"], &told["generation"]),
        (&json!("gw-0"), &json!(bad))
    );
    assert_eq!(told["errors"][0]["pointer"], "/routes/0/compartment/limit");
    assert!(told["since"].as_str().unwrap().ends_with('Z'));
    assert_eq!(halted(&plane, 1), Value::Null);
    let reason = view(&plane, "gw-2")["reason"].clone();
    assert!(reason.as_str().unwrap().contains("halted"), "{reason}");
    crate::support::eventually("the halt is audited", || audited(&plane, "halt"));
    drop((all, fresh));
    plane = plane.restart();
    let token = plane.token();
    let mut again = Gateway::try_connect(&plane, "gw-0", &token, Runs::default())
        .await
        .unwrap();
    gets(&mut again, 1).await;
    again.running(1).await;
    gets_nothing(&mut again).await;
    let view = view(&plane, "gw-0");
    assert_eq!(view["state"], "refused", "also after a start: {view}");
    assert_eq!(view["refused"]["errors"][0]["detail"], "must be even");
    // A newer one clears it.
    let good = limit(&plane, 8);
    gets(&mut again, good).await;
    again.running(good).await;
    until(&plane, "gw-0", "running");
    assert_ne!(halted(&plane, bad), Value::Null, "the mark stays");
    assert_eq!(halted(&plane, good), Value::Null);
}

fn audited(plane: &Plane, action: &str) -> bool {
    use std::process::Command;
    // Read as an auditor would: from the file, by another program.
    let mut sqlite = Command::new("python3");
    let script = "import sqlite3,sys;c=sqlite3.connect(sys.argv[1]);\
                  print(c.execute('select count(*) from audit where action=?',\
                  (sys.argv[2],)).fetchone()[0])";
    let output = sqlite
        .args(["-c", script, plane.store().to_str().unwrap(), action])
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).trim() == "1"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_halted_generation_is_tried_again_when_somebody_says_so() {
    let plane = Plane::start();
    let mut fleet = fleet(&plane, 4).await;
    let newest = limit(&plane, 7);
    gets(&mut fleet[0], newest).await;
    fleet[0].refused(newest, "/routes/0", "no such file").await;
    until(&plane, "gw-0", "refused");
    let again = |number: u64| plane.api("POST", &format!("/generations/{number}/try-again"), None);
    assert_eq!(again(1).status, 409);
    let answer = again(newest);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(audited(&plane, "try-again"));
    // The one that refused it answers in time and has the lowest name: it tries first again.
    gets(&mut fleet[0], newest).await;
    fleet[0].running(newest).await;
    gets(&mut fleet[3], newest).await;
    crate::support::eventually("the halt is over", || halted(&plane, newest) == Value::Null);
    assert_eq!(again(newest).status, 409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_first_one_holds_nobody_up_for_long() {
    let plane = Plane::start();
    let mut fleet = fleet(&plane, 4).await;
    let newest = limit(&plane, 7);
    gets(&mut fleet[0], newest).await;
    gets(&mut fleet[1], newest).await;
    fleet[1].running(newest).await;
    for gateway in &mut fleet[2..] {
        gets(gateway, newest).await;
        gateway.running(newest).await;
    }
    until(&plane, "gw-2", "running");
    until(&plane, "gw-3", "running");
    // Nor does one that leaves.
    let newest = limit(&plane, 8);
    gets(&mut fleet[1], newest).await;
    drop(fleet.remove(1));
    for gateway in &mut fleet[1..] {
        gets(gateway, newest).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_gateways_own_trouble_halts_nothing_that_others_run() {
    let plane = Plane::start();
    let mut fleet = fleet(&plane, 4).await;
    let newest = limit(&plane, 7);
    gets(&mut fleet[0], newest).await;
    fleet[0].running(newest).await;
    gets(&mut fleet[1], newest).await;
    fleet[1]
        .refused(newest, "/upstreams/main", "cannot be read here")
        .await;
    until(&plane, "gw-1", "refused");
    assert_eq!(halted(&plane, newest), Value::Null);
    for gateway in &mut fleet[2..] {
        gets(gateway, newest).await;
        gateway.running(newest).await;
    }
    let mut fresh = Gateway::connect(&plane, "fresh").await;
    gets(&mut fresh, newest).await;
    until(&plane, "gw-3", "running");
    // What a gateway holds of an older time is no fault of the document either.
    let newest = limit(&plane, 8);
    gets(&mut fleet[0], newest).await;
    fleet[0]
        .refused(newest, "/generation", "is older than the running 99")
        .await;
    until(&plane, "gw-0", "refused");
    assert_eq!(halted(&plane, newest), Value::Null);
    gets(&mut fleet[1], newest).await;
}

/// The first policy with so many tenants in it.
fn with_tenants(plane: &Plane, count: u32) -> u64 {
    let (mut document, version) = plane.policy();
    document["identify"] = json!({"by": [{"api_key": {"header": "x-api-key"}}]});
    let tenant = |n| {
        let keys = json!([format!("sha256:{n:064x}")]);
        (
            format!("tenant-{n:05}"),
            json!({"limit": 5, "api_keys": keys}),
        )
    };
    let tenants: serde_json::Map<String, Value> = (0..count).map(tenant).collect();
    document["tenants"] = tenants.into();
    let headers = [("if-match", version.as_str())];
    let put = plane.api_with("PUT", "/policy", Some(&document), &headers);
    assert_eq!(put.status, 200, "{}", put.text());
    plane.generation()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_edit_of_one_tenant_moves_its_part_alone() {
    let plane = Plane::start();
    let mut gateway = fleet(&plane, 1).await.remove(0);
    with_tenants(&plane, 20_000);
    let first = gateway.policy().await;
    gateway.running(first.generation).await;
    let base = Parts::of(first.document.clone());
    assert!(first.encoded_len() > 1 << 20 && first.parts.is_empty());

    let patch = plane.patch("tenant/tenant-01234", &json!({"limit": 77}));
    assert_eq!(patch.status, 200, "{}", patch.text());
    let second = gateway.policy().await;
    assert!(second.document.is_empty());
    assert!(
        second.encoded_len() < 160 << 10,
        "{} bytes",
        second.encoded_len()
    );
    let text = assemble(&second.parts, Some(&base)).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["tenants"]["tenant-01234"]["limit"], 77);

    // A gateway that has lost the parts says so, and gets the whole.
    gateway.missing(second.generation).await;
    let again = gateway.policy().await;
    assert_eq!(
        (again.generation, &again.document),
        (second.generation, &text)
    );
    gateway.running(again.generation).await;
    until(&plane, "gw-0", "running");

    // One that runs the newest and has its parts is sent parts from the first edit on; one that
    // has them not is sent the whole.
    let mut newest = again;
    for (id, has_parts, limit) in [("with", true, 78), ("without", false, 79)] {
        let runs = Runs {
            generation: newest.generation,
            digest: newest.digest,
            epoch: newest.epoch,
            has_parts,
        };
        let mut other = Gateway::try_connect(&plane, id, &plane.token(), runs)
            .await
            .unwrap();
        until(&plane, id, "running");
        plane.patch("tenant/tenant-01234", &json!({"limit": limit}));
        newest = other.policy().await;
        assert_eq!(newest.parts.is_empty(), !has_parts, "{id}");
    }
}
