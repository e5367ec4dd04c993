//! Two control planes on one Postgres and three gateways, under load, while each of them is killed
//! in turn: no client notices, and changes go on.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use support::*;

const GATEWAY_TOKEN: &str = "gateway-token-of-the-fleet-0123456789ab";
const KEY: &str = "/api/v1/compartments/route%2Fa";
const CLIENTS: usize = 3;
const GATEWAYS: usize = 3;

/// A Postgres of this test's own; it ends with its standard input.
struct Server {
    _process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    url: String,
}

impl Server {
    /// `None`, said loudly, where there is no Postgres; where CI is set that is a failure.
    fn start() -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/postgres");
        let mut process = Command::new(script)
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = process.stdin.take().unwrap();
        let mut answers = BufReader::new(process.stdout.take().unwrap());
        let mut url = String::new();
        answers.read_line(&mut url).unwrap();
        if !url.starts_with("postgres://") {
            assert!(std::env::var_os("CI").is_none(), "no Postgres");
            eprintln!("!! DID NOT RUN, no Postgres");
            let _ended = process.wait();
            return None;
        }
        let url = url.trim().to_owned();
        Some(Self {
            _process: process,
            orders,
            answers,
            url,
        })
    }

    fn order(&mut self, order: &str, answer: &str) {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), answer);
    }
}

fn control_plane(folder: &Path, name: &str, database: &str, at: &str) -> Process {
    let args = [
        "control-plane",
        "--dashboard",
        at,
        "--database-url",
        database,
        "--policy",
        "p.toml",
    ];
    let env = [
        ("BULKHEAD_ADMIN_TOKEN", ADMIN_TOKEN),
        ("BULKHEAD_GATEWAY_TOKEN", GATEWAY_TOKEN),
    ];
    Process::start(folder, name, &args, &env)
}

/// Named in another order by every second one, so that both control planes hold streams.
fn gateway(folder: &Path, number: usize, mut urls: Vec<String>) -> Process {
    if number % 2 == 1 {
        urls.reverse();
    }
    let (id, state) = (format!("gateway-{number}"), format!("state-{number}"));
    let args = [
        "gateway",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--control-plane",
        &urls[0],
        "--control-plane",
        &urls[1],
        "--state-dir",
        &state,
        "--id",
        &id,
    ];
    let env = [("BULKHEAD_GATEWAY_TOKEN", GATEWAY_TOKEN)];
    Process::start(folder, &id, &args, &env)
}

/// Clients behind a balancer: what one gateway does not answer at all the next one is asked.
struct Load {
    gateways: Arc<Mutex<Vec<SocketAddr>>>,
    answered: Arc<AtomicUsize>,
    failed: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(gateways: Vec<SocketAddr>) -> Self {
        let gateways = Arc::new(Mutex::new(gateways));
        let (answered, failed) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let stop = Arc::new(AtomicBool::new(false));
        let client = |number: usize| {
            let (gateways, answered) = (Arc::clone(&gateways), Arc::clone(&answered));
            let (failed, stop) = (Arc::<Mutex<Vec<String>>>::clone(&failed), Arc::clone(&stop));
            move || {
                let mut turn = number;
                while !stop.load(Ordering::Relaxed) {
                    turn += 1;
                    let all = gateways.lock().unwrap().clone();
                    let tried = (0..all.len()).map(|n| all[(turn + n) % all.len()]);
                    let answer = tried
                        .filter_map(|at| try_ask(at, "GET", "/a", &[], "").ok())
                        .next();
                    match answer {
                        Some(answer) if answer.status == 200 => {
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        other => failed.lock().unwrap().push(format!("{other:?}")),
                    }
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        };
        let threads = (0..CLIENTS)
            .map(|number| std::thread::spawn(client(number)))
            .collect();
        Self {
            gateways,
            answered,
            failed,
            stop,
            threads,
        }
    }

    fn is_well(&self, after: &str) {
        let failed = self.failed.lock().unwrap();
        assert!(failed.is_empty(), "after {after}: {failed:?}");
    }

    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// A change through this control plane; the generation that it made.
fn patch(plane: &Process, limit: u32) -> Option<u64> {
    let authorization = format!("Bearer {ADMIN_TOKEN}");
    let headers = [
        ("authorization", &*authorization),
        ("content-type", "application/json"),
    ];
    let body = format!("{{\"limit\":{limit}}}");
    let answer = try_ask(plane.dashboard(), "PATCH", KEY, &headers, &body).ok()?;
    (answer.status == 200).then(|| answer.json()["generation"].as_u64().unwrap())
}

/// A change through this control plane comes to all of these gateways.
fn goes_on(plane: &Process, gateways: &[Process], limit: u32, after: &str) {
    let generation = patch(plane, limit);
    let generation = generation.unwrap_or_else(|| unreachable!("no change after {after}"));
    for gateway in gateways {
        eventually(&format!("the change is in force after {after}"), || {
            let running = get(gateway.admin(), "/policy").json()["generation"].as_u64();
            (running >= Some(generation)).then_some(())
        });
    }
}

fn shows_all(plane: &Process) {
    let authorization = format!("Bearer {ADMIN_TOKEN}");
    let headers = [("authorization", &*authorization)];
    eventually("the whole fleet is shown", || {
        let path = "/api/v1/compartments";
        let answer = try_ask(plane.dashboard(), "GET", path, &headers, "").unwrap();
        (answer.json()["reporting"] == "3 of 3").then_some(())
    });
}

fn kill(mut process: Process) {
    process.signal("-KILL");
    process.wait();
}

#[test]
fn the_loss_of_any_one_process_fails_no_request_and_stops_no_change() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(true));
    let folder = folder.path();
    std::fs::write(folder.join("p.toml"), policy(&upstream.url, "50")).unwrap();
    let names = ["plane-a", "plane-b"];
    let url = server.url.clone();
    let mut planes = names.map(|name| control_plane(folder, name, &url, "127.0.0.1:0"));
    let urls: Vec<String> = planes.iter().map(Process::server).collect();
    let mut gateways: Vec<Process> = (0..GATEWAYS)
        .map(|number| gateway(folder, number, urls.clone()))
        .collect();
    let load = Load::start(gateways.iter().map(Process::gateway).collect());
    let mut limit = 100;
    planes.iter().for_each(shows_all);
    goes_on(&planes[0], &gateways, limit, "the start");

    for number in 0..planes.len() {
        let after = names[number];
        let at = planes[number].dashboard().to_string();
        planes[number].signal("-KILL");
        planes[number].wait();
        limit += 1;
        goes_on(&planes[1 - number], &gateways, limit, after);
        load.is_well(after);
        planes[number] = control_plane(folder, after, &url, &at);
        limit += 1;
        goes_on(&planes[number], &gateways, limit, after);
        planes.iter().for_each(shows_all);
    }

    for number in 0..gateways.len() {
        let after = format!("gateway-{number}");
        let gone = gateways.remove(number);
        kill(gone);
        limit += 1;
        goes_on(&planes[number % 2], &gateways, limit, &after);
        load.is_well(&after);
        gateways.insert(number, gateway(folder, number, urls.clone()));
        *load.gateways.lock().unwrap() = gateways.iter().map(Process::gateway).collect();
        planes.iter().for_each(shows_all);
    }

    // The database crashes: no change is taken, and everything else goes on.
    server.order("crash", "crashed");
    assert_eq!(patch(&planes[0], 1), None);
    assert_eq!(patch(&planes[1], 1), None);
    assert_eq!(gateways[0].compartment("route/a")["limit"], limit);
    load.is_well("the database");
    server.order("start", "started");
    let back = eventually("changes are taken again", || patch(&planes[0], 200));
    assert!(back > 1);
    // Each finds its way back by itself.
    eventually("the other takes changes again too", || {
        patch(&planes[1], 200)
    });
    goes_on(&planes[1], &gateways, 201, "the database");
    planes.iter().for_each(shows_all);
    load.is_well("everything");
    let answered = load.end();
    assert!(answered > 500, "{answered} requests were no load");
    println!("{answered} requests, none failed");
}
