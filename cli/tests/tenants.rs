//! Tenants deleted, made anew, suspended and given other keys while they call: every count stays
//! right, what is revoked opens nothing, and who rotates a key loses no request.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::*;

const CALLERS: usize = 6;

fn start(folder: &Path, upstream: &Upstream) -> Process {
    let policy = format!(
        "{}\n[identify]\nby = [{{ api_key = {{ header = \"x-api-key\" }} }}]\n\
         unknown = \"reject\"\n\n\
         [tenants.acme]\nlimit = 3\n\n[tenants.beta]\nlimit = 3\n",
        policy(&upstream.url, "50")
    );
    std::fs::write(folder.join("p.toml"), policy).unwrap();
    Process::up(folder, "up", &["--policy", "p.toml"])
}

fn api(up: &Process, method: &str, path: &str, body: &Value) -> Value {
    let text = match body.is_null() {
        true => String::new(),
        false => body.to_string(),
    };
    let answer = ask(up.dashboard(), method, &format!("/api/v1{path}"), &text);
    assert!(answer.status < 300, "{method} {path}: {answer:?}");
    answer.json()
}

/// One change, in force when this returns.
fn change(up: &Process, method: &str, path: &str, body: &Value) -> Value {
    let said = api(up, method, path, body);
    let generation = said["generation"].as_u64().unwrap();
    eventually("the generation in force", || {
        let running = get(up.admin(), "/policy").json()["generation"].as_u64();
        (running >= Some(generation)).then_some(())
    });
    said
}

fn new_key(up: &Process, tenant: &str, body: &Value) -> (String, String) {
    let made = change(up, "POST", &format!("/tenants/{tenant}/keys"), body);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("key"), text("id"))
}

fn call(at: SocketAddr, key: &str) -> Answer {
    try_ask(at, "GET", "/a", &[("x-api-key", key)], "").unwrap()
}

/// Callers that go on with whatever key is theirs at the moment.
struct Load {
    key: Arc<Mutex<String>>,
    seen: Arc<Mutex<BTreeMap<u16, u64>>>,
    stop: Arc<AtomicBool>,
    callers: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(at: SocketAddr, key: &str) -> Self {
        let (key, stop) = (Arc::new(Mutex::new(key.to_owned())), Arc::default());
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let caller = |_| {
            let (key, seen) = (Arc::clone(&key), Arc::clone(&seen));
            let stop: Arc<AtomicBool> = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let own = key.lock().unwrap().clone();
                    let status = call(at, &own).status;
                    *seen.lock().unwrap().entry(status).or_default() += 1;
                }
            })
        };
        let callers = (0..CALLERS).map(caller).collect();
        Self {
            key,
            seen,
            stop,
            callers,
        }
    }

    fn use_key(&self, key: &str) {
        key.clone_into(&mut self.key.lock().unwrap());
    }

    /// The statuses since the last look, once there are some of now.
    fn look(&self) -> BTreeMap<u16, u64> {
        self.seen.lock().unwrap().clear();
        let enough = u64::try_from(CALLERS).unwrap() * 3;
        eventually("answers", || {
            let seen = self.seen.lock().unwrap();
            (seen.values().sum::<u64>() >= enough).then(|| seen.clone())
        })
    }

    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.callers
            .into_iter()
            .for_each(|caller| caller.join().unwrap());
    }
}

/// Every compartment adds up, holds nothing and has lost nothing.
fn all_adds_up(up: &Process) {
    let rows = eventually("quiet", || {
        let all = get(up.admin(), "/compartments").json();
        let rows = all["compartments"].as_array().unwrap().clone();
        let quiet = rows.iter().all(|row| row["in_flight"] == 0);
        quiet.then_some(rows)
    });
    assert!(rows.len() > 3, "{rows:?}");
    for row in rows {
        let n = |name: &str| row[name].as_u64().unwrap();
        let rejected: u64 = row["rejected"]
            .as_object()
            .unwrap()
            .values()
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert_eq!(n("admitted"), n("completed") + n("in_flight"), "{row}");
        assert_eq!(
            n("arrived"),
            n("admitted") + rejected + n("queued") + n("left_queue"),
            "{row}"
        );
        assert_eq!(n("leaked"), 0, "{row}");
    }
}

#[test]
fn tenants_that_come_and_go_under_load_keep_every_count_right() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let up = start(folder.path(), &upstream);
    let (beta, _) = new_key(&up, "beta", &json!({}));
    let (mut key, _) = new_key(&up, "acme", &json!({"label": "first"}));
    let beside = Load::start(up.gateway(), &beta);
    let load = Load::start(up.gateway(), &key);
    for turn in 0..5 {
        change(&up, "PATCH", "/tenants/acme", &json!({"suspended": true}));
        let seen = load.look();
        assert!(seen.contains_key(&403), "turn {turn}: {seen:?}");
        change(&up, "PATCH", "/tenants/acme", &json!({"suspended": false}));
        change(&up, "DELETE", "/tenants/acme", &Value::Null);
        let seen = load.look();
        assert!(seen.contains_key(&401), "turn {turn}: {seen:?}");
        let limit = 1 + turn % 3;
        change(
            &up,
            "POST",
            "/tenants",
            &json!({"id": "acme", "limit": limit}),
        );
        (key, _) = new_key(&up, "acme", &json!({}));
        load.use_key(&key);
        eventually("let in again", || {
            load.look().contains_key(&200).then_some(())
        });
        let fine = [200, 401, 403, 429];
        let seen = load.look();
        assert!(seen.keys().all(|status| fine.contains(status)), "{seen:?}");
        let row = up.compartment("tenant/acme");
        assert!(row["in_flight"].as_u64() <= Some(limit), "{row}");
    }
    let seen = beside.look();
    assert!(
        seen.keys().all(|status| [200, 429].contains(status)),
        "{seen:?}"
    );
    beside.stop();
    load.stop();
    all_adds_up(&up);
}

#[test]
fn a_rotated_key_fails_no_request_and_a_revoked_one_opens_nothing_within_a_second() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let up = start(folder.path(), &upstream);
    change(&up, "PATCH", "/tenants/acme", &json!({"limit": 50}));
    let (mut old, mut id) = new_key(&up, "acme", &json!({}));
    let load = Load::start(up.gateway(), &old);
    load.look();
    for turn in 0..4 {
        load.seen.lock().unwrap().clear();
        let (new, new_id) = new_key(&up, "acme", &json!({"replaces": id, "overlap": "1h"}));
        // Both open in the overlap.
        assert_eq!(
            (
                call(up.gateway(), &old).status,
                call(up.gateway(), &new).status
            ),
            (200, 200)
        );
        load.use_key(&new);
        let seen = load.seen.lock().unwrap().clone();
        assert!(
            seen.keys().all(|status| *status == 200),
            "turn {turn}: {seen:?}"
        );
        load.look();
        api(
            &up,
            "DELETE",
            &format!("/tenants/acme/keys/{id}"),
            &Value::Null,
        );
        assert!(
            refused_within(&up, &old, Duration::from_secs(1)),
            "turn {turn}"
        );
        let seen = load.look();
        assert!(
            seen.keys().all(|status| *status == 200),
            "turn {turn}: {seen:?}"
        );
        (old, id) = (new, new_id);
    }
    load.stop();
    let tenant = api(&up, "GET", "/tenants/acme", &Value::Null);
    assert_eq!(tenant["api_keys"].as_array().unwrap().len(), 1);
    all_adds_up(&up);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a revoked key opens on is of the real clock"
)]
fn refused_within(up: &Process, key: &str, longest: Duration) -> bool {
    let start = Instant::now();
    while call(up.gateway(), key).status != 401 {
        if start.elapsed() > longest {
            return false;
        }
    }
    true
}

#[test]
fn what_is_in_flight_of_a_deleted_tenant_counts_when_it_returns() {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(false));
    let up = start(folder.path(), &upstream);
    let (key, _) = new_key(&up, "acme", &json!({}));
    let at = up.gateway();
    let held: Vec<_> = (0..3)
        .map(|_| {
            let key = key.clone();
            std::thread::spawn(move || call(at, &key).status)
        })
        .collect();
    eventually("three in flight", || (upstream.inside() == 3).then_some(()));
    change(&up, "DELETE", "/tenants/acme", &Value::Null);
    assert_eq!(call(at, &key).status, 401);
    change(&up, "POST", "/tenants", &json!({"id": "acme", "limit": 3}));
    let (key, _) = new_key(&up, "acme", &json!({}));
    assert_eq!(up.compartment("tenant/acme")["in_flight"], 3);
    let full = call(at, &key);
    assert_eq!(full.status, 429, "{full:?}");
    assert_eq!(
        full.header("x-bulkhead-compartment").as_deref(),
        Some("tenant/acme")
    );
    upstream.open();
    for one in held {
        assert_eq!(one.join().unwrap(), 200);
    }
    assert_eq!(call(at, &key).status, 200);
    all_adds_up(&up);
}
