//! Killed at any moment: what was acknowledged is there, what was not is whole or absent.
//!
//! The process that is killed is this test's own binary, started again to run [`the_victim`].

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Row as _;

use crate::support::{TOKEN, config, eventually, policy, policy_file, try_call};

const FOLDER: &str = "BULKHEAD_TEST_VICTIM";
const ROUNDS: u64 = 12;
const WRITERS: usize = 3;

/// A control plane until it is killed; nothing when it runs as an ordinary test.
#[test]
fn the_victim() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let import = Some(folder.join("policy.json"));
    let config = control_plane::Config {
        import,
        ..config(folder)
    };
    let running = control_plane::start(config).unwrap();
    let ready = folder.join("ready.part");
    std::fs::write(&ready, running.dashboard().to_string()).unwrap();
    std::fs::rename(ready, folder.join("ready")).unwrap();
    loop {
        thread::park();
    }
}

fn start(folder: &Path) -> (Child, SocketAddr) {
    let ready = folder.join("ready");
    let _none_yet = std::fs::remove_file(&ready);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_victim", "--nocapture"])
        .env(FOLDER, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the victim serves", || ready.exists());
    (
        child,
        std::fs::read_to_string(ready).unwrap().parse().unwrap(),
    )
}

fn api(address: SocketAddr, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let answer = try_call(
        address,
        method,
        &format!("/api/v1{path}"),
        &headers,
        body.as_bytes(),
    )?;
    Some((answer.status, serde_json::from_slice(&answer.body).ok()?))
}

/// What one writer knows: the last limit that was acknowledged, and the last it asked for.
#[derive(Clone, Copy, Default)]
struct Ledger {
    acknowledged: u64,
    asked: u64,
}

fn write_until_killed(
    address: SocketAddr,
    route: &str,
    mut ledger: Ledger,
    changes: &AtomicU64,
) -> Ledger {
    loop {
        ledger.asked += 1;
        let body = json!({"limit": ledger.asked, "reserved": 0}).to_string();
        let path = format!("/compartments/route%2F{route}");
        match api(address, "PATCH", &path, &body) {
            Some((200, _)) => ledger.acknowledged = ledger.asked,
            Some((status, body)) => unreachable!("{status} {body}"),
            None => return ledger,
        }
        changes.fetch_add(1, Ordering::Relaxed);
    }
}

fn limits(address: SocketAddr) -> Vec<u64> {
    let (_, document) = api(address, "GET", "/policy", "").unwrap();
    let routes = document["routes"].as_array().unwrap();
    routes
        .iter()
        .map(|route| route["compartment"]["limit"].as_u64().unwrap())
        .collect()
}

/// As many audit rows as generations, without a gap.
fn check_rows(store: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut connection = super::store::raw(store).await;
        let sql = "SELECT COUNT(*), MAX(number), (SELECT COUNT(*) FROM audit), \
                   (SELECT COUNT(*) FROM audit WHERE generation_after = generation_before + 1) \
                   FROM generations";
        let row = sqlx::query(sql).fetch_one(&mut connection).await.unwrap();
        let counts: [i64; 4] = std::array::from_fn(|column| row.get(column));
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    });
}

#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    policy_file(folder.path(), &policy());
    let mut ledgers = [Ledger {
        acknowledged: 0,
        asked: 9,
    }; WRITERS];
    for round in 0..ROUNDS {
        let (mut victim, address) = start(folder.path());
        for (limit, ledger) in limits(address).into_iter().zip(&ledgers) {
            let lost = limit < ledger.acknowledged;
            assert!(!lost && limit <= ledger.asked, "round {round}: {limit}");
        }
        let changes = &AtomicU64::new(0);
        ledgers = thread::scope(|scope| {
            let write = |(n, ledger): (usize, Ledger)| {
                let route = ["a", "b", "c"][n];
                scope.spawn(move || write_until_killed(address, route, ledger, changes))
            };
            let writers: Vec<_> = ledgers.into_iter().enumerate().map(write).collect();
            // Another moment each round: before the first change, in the middle of one, later.
            eventually("changes", || changes.load(Ordering::Relaxed) >= round);
            thread::park_timeout(Duration::from_millis(7 * round * round % 30));
            victim.kill().unwrap();
            victim.wait().unwrap();
            let ledger = writers.into_iter().map(|writer| writer.join().unwrap());
            ledger
                .collect::<Vec<_>>()
                .try_into()
                .unwrap_or_else(|_| unreachable!())
        });
        check_rows(&folder.path().join("store.db"));
    }
    let (mut victim, address) = start(folder.path());
    for (limit, ledger) in limits(address).into_iter().zip(&ledgers) {
        assert!(
            limit >= ledger.acknowledged && limit <= ledger.asked,
            "{limit}"
        );
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(
        ledgers.iter().any(|ledger| ledger.acknowledged > 9),
        "some changes were made"
    );
}
