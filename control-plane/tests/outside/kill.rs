//! Killed at any moment: what was acknowledged is there, what was not is whole or absent.
//!
//! The process that is killed is this test's own binary, started again to run [`the_victim`].
//! BULKHEAD_TEST_KILLS says how often each database sees it die; BULKHEAD_TEST_SEED repeats a run.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use control_plane::store::Store;
use serde_json::{Value, json};

use crate::support::{TOKEN, config, eventually, policy, policy_file, postgres, try_call};

const FOLDER: &str = "BULKHEAD_TEST_VICTIM";
const URL: &str = "BULKHEAD_TEST_VICTIM_URL";
/// Unless somebody says more.
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
        database_url: std::env::var(URL).unwrap().into(),
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

fn start(folder: &Path, url: &str) -> (Child, SocketAddr) {
    let ready = folder.join("ready");
    let _none_yet = std::fs::remove_file(&ready);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::the_victim", "--nocapture"])
        .env(FOLDER, folder)
        .env(URL, url)
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
    changes: u64,
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
        ledger.changes += 1;
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

/// As many audit rows as generations, each by one more than the one before.
fn check_rows(url: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Store::open(url).await.unwrap();
        // The connection of the dead may still be busy with its last change: behind the turn of
        // the writers it is not.
        store.operation("none").await.unwrap();
        let audit = store.audit(u32::MAX).await.unwrap();
        let newest = store.newest_number().await.unwrap();
        for (row, number) in audit.iter().zip((1..=newest).rev()) {
            assert_eq!(
                (row.generation_before + 1, row.generation_after),
                (number, number)
            );
        }
        assert_eq!(u64::try_from(audit.len()).unwrap(), newest);
        store.close().await;
        newest
    })
}

/// A small generator of numbers: the moments of death, which a seed repeats.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn kill_again_and_again(url: &str, folder: &Path) {
    policy_file(folder, &policy());
    let rounds = number("BULKHEAD_TEST_KILLS").unwrap_or(ROUNDS);
    let fresh = || u64::from(std::process::id()) << 16 | 1;
    let seed = number("BULKHEAD_TEST_SEED").unwrap_or_else(fresh);
    println!("{rounds} kills, BULKHEAD_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let mut ledgers = [Ledger {
        acknowledged: 0,
        asked: 9,
        changes: 0,
    }; WRITERS];
    for round in 0..=rounds {
        let (mut victim, address) = start(folder, url);
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
            // Before the first change, in the middle of one, later.
            let after = dice.below(8);
            eventually("changes", || changes.load(Ordering::Relaxed) >= after);
            thread::park_timeout(Duration::from_micros(dice.below(30_000)));
            victim.kill().unwrap();
            victim.wait().unwrap();
            let ledger = writers.into_iter().map(|writer| writer.join().unwrap());
            ledger
                .collect::<Vec<_>>()
                .try_into()
                .unwrap_or_else(|_| unreachable!())
        });
        let newest = check_rows(url);
        let told: u64 = ledgers.iter().map(|ledger| ledger.changes).sum();
        assert!(newest > told, "round {round}: {newest} generations");
    }
    let told: u64 = ledgers.iter().map(|ledger| ledger.changes).sum();
    println!("{told} changes acknowledged, none lost");
    assert!(told > rounds, "some changes were made");
}

#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    kill_again_and_again(&url, folder.path());
}

#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost_on_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let Some(database) = runtime.block_on(postgres::Database::new()) {
        kill_again_and_again(&database.url, folder.path());
    }
}
