//! One exchange after another through a whole gateway, with an upstream that does what it is told.
//!
//! Separate from the server side's tests because here the judge is the upstream: what reached it,
//! how often, over which connection, and whether the permits came back. It must never look inside.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a failed step fails the test, and real time is what is measured"
)]

mod answers;
mod balancing;
mod breaker;
mod client;
#[path = "../../../telemetry/tests/collector/mod.rs"]
mod collector;
mod connections;
mod dialling;
mod drain;
mod h2;
mod http2_upstream;
mod ladder;
mod leaks;
mod least_rate;
mod queue;
mod retries;
mod returns;
mod rewriting;
mod slow;
mod streams;
mod stub;
mod telling;
mod tls_upstream;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gateway::document::{Syntax, load};
use gateway::{Config, Running, Source};
use serde_json::Value;

use crate::client::{Answer, Client};
use crate::stub::Stub;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// A gateway before a stub. Every route has one slot unless it says otherwise.
struct Bench {
    stub: Stub,
    running: Running,
    at: SocketAddr,
}

/// Routes named by their path, each with the given lines of TOML after its compartment.
fn bench(routes: &[(&str, &str)]) -> Bench {
    bench_with("body_idle_timeout = \"500ms\"", routes)
}

/// An upstream that no route of a test uses.
const NO_H2: &str = "endpoints = [\"http://127.0.0.1:9\"]";

/// The same with these lines in `[gateway.http]`.
fn bench_with(http: &str, routes: &[(&str, &str)]) -> Bench {
    bench_of(NO_H2, http, routes, gateway::Telling::default())
}

/// The same, and this is told of it.
fn bench_telling(http: &str, routes: &[(&str, &str)], telling: gateway::Telling) -> Bench {
    bench_of(NO_H2, http, routes, telling)
}

/// The same with these lines in `[upstreams.h2]`, which the route `h2` is for.
fn bench_over(h2: &str, http: &str, routes: &[(&str, &str)]) -> Bench {
    bench_of(h2, http, routes, gateway::Telling::default())
}

fn bench_of(h2: &str, http: &str, routes: &[(&str, &str)], telling: gateway::Telling) -> Bench {
    bench_paced(h2, http, routes, telling, gateway::LeastRate::default())
}

/// The same, and bodies come at least so fast.
fn bench_paced(
    h2: &str,
    http: &str,
    routes: &[(&str, &str)],
    telling: gateway::Telling,
    least_rate: gateway::LeastRate,
) -> Bench {
    let stub = Stub::start();
    let mut policy = format!(
        "schema = 1\n[gateway.http]\nmax_body = \"1MiB\"\n{http}\n\
         [upstreams.h2]\n{h2}\n\
         [upstreams.stub]\nendpoints = [\"http://{}\"]\n\
         [upstreams.other]\nendpoints = [\"http://{}\"]\n\
         [upstreams.dead]\nendpoints = [\"http://{}\"]\nconnect_timeout = \"1s\"\n\
         [upstreams.silent]\nendpoints = [\"http://{}\"]\nconnect_timeout = \"300ms\"\n\
         [upstreams.nameless]\nendpoints = [\"http://nowhere.invalid:9\"]\n\
         connect_timeout = \"500ms\"\n\
         [upstreams.weak]\nendpoints = [\"http://{}\"]\n\
         breaker = {{ calls = 4, open = \"300ms\", probes = 2 }}\n\
         [upstreams.half]\nendpoints = [\"http://{}\", \"http://{}\"]\n",
        stub.at,
        stub.at,
        stub.dead(),
        stub.silent(),
        stub.at,
        stub.dead(),
        stub.at
    );
    for (id, more) in routes {
        let upstream = match *id {
            "dead" | "half" | "silent" | "nameless" | "weak" | "h2" => id,
            "line" => "weak",
            _ => "stub",
        };
        let one = if more.contains("compartment") {
            ""
        } else {
            "compartment = { limit = 1 }"
        };
        policy += &format!(
            "[[routes]]\nid = \"{id}\"\npath = \"/{id}\"\n\
             upstream = \"{upstream}\"\n{one}\n{more}\n"
        );
    }
    let loaded = load(&policy, Syntax::Toml).unwrap_or_else(|error| panic!("{error}"));
    let running = gateway::start(Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        admin: "127.0.0.1:0".parse().unwrap(),
        // One thread: which connection is used again is then certain.
        workers: Some(1),
        source: Source::Document(loaded),
        drain_timeout: Duration::from_secs(5),
        id: "test".to_owned(),
        forbidden: Vec::new(),
        least_rate,
        telling,
    })
    .unwrap();
    assert!(running.wait_live(PATIENCE));
    let at = running.listen()[0];
    Bench { stub, running, at }
}

impl Bench {
    /// A request on a connection of its own, not yet answered.
    fn send(&self, request: impl AsRef<[u8]>) -> Client {
        let mut client = Client::connect(self.at);
        client.send(request);
        client
    }

    fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request).answer()
    }

    fn figures(&self, key: &str) -> Value {
        let mut client = Client::connect(self.running.admin());
        client.send("GET /compartments HTTP/1.1\r\nhost: a\r\n\r\n");
        let all: Value = serde_json::from_str(&client.answer().body).unwrap();
        let all = all["compartments"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap().clone()
    }

    /// Requests that ended for this reason, which no compartment counts.
    fn ended(&self, reason: &str) -> u64 {
        let mut client = Client::connect(self.running.admin());
        client.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
        let name = format!("bulkhead_requests_ended_total{{reason=\"{reason}\"}} ");
        let body = client.answer().body;
        let mut lines = body.lines();
        let count = lines.find_map(|line| line.strip_prefix(&name));
        count.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
    }

    fn in_flight(&self, key: &str) -> u64 {
        self.figures(key)["in_flight"].as_u64().unwrap()
    }

    /// Everything came back: no slot is taken anywhere, and what was admitted was completed.
    #[track_caller]
    fn is_at_rest(&self) {
        for key in ["route/one", "upstream/stub", "gateway"] {
            eventually(key, || self.in_flight(key) == 0);
            let seen = self.figures(key);
            assert_eq!(seen["admitted"], seen["completed"], "{key}");
            assert_eq!(seen["oldest_permit_ms"], 0, "{key}");
        }
    }
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A request that tells the stub what to do, arrival by arrival.
fn request(method: &str, path: &str, script: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: gw.test\r\nx-do: {script}\r\n{more}\r\n")
}

fn get(path: &str, script: &str) -> String {
    request("GET", path, script, "")
}

fn post(path: &str, script: &str, body: &str) -> String {
    request(
        "POST",
        path,
        script,
        &format!("content-length: {}\r\n", body.len()),
    ) + body
}
