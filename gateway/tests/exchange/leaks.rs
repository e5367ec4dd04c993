//! Everything that can go wrong at once, and nothing of it stays.

use super::http2_upstream::{Log, Upstream};
use super::*;
use crate::h2::{Asked, H2};

/// Clients that are busy at one time.
const CLIENTS_MAX: usize = 24;
const ROUNDS: usize = 600;
/// A connection that takes back a hundred requests within ten seconds is closed as an attack.
const ROUNDS_PER_CONNECTION: usize = 100;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % end
    }
}

/// One that has asked and may leave at any moment.
enum Busy {
    Http1(Client),
    Http2(Asked),
}

fn uploads(path: &str, script: &str, announced: usize, sent: usize) -> String {
    let length = format!("content-length: {announced}\r\n");
    request("POST", path, script, &length) + &"u".repeat(sent)
}

/// What the next client says; not all of it is whole.
fn words(random: &mut Random) -> String {
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
    match random.below(20) {
        0 => get("/one", "ok"),
        1 => get("/one", "hold"),
        2 => get("/one", "hold-body"),
        3 => get("/one", "endless"),
        4 => get("/one", "reset"),
        5 => get("/one", "mid"),
        6 => get("/one", "garbage"),
        7 => get("/one", "events"),
        8 => get("/one", "ok").split_at(30).0.to_owned(),
        9 => uploads("/one", "ok", 5_000, 100),
        10 => uploads("/one", "early", 500_000, 1_000),
        11 => uploads("/one", "ok", 2 << 20, 10),
        12 => request("GET", "/one", "echo", upgrade),
        13 => request("GET", "/one", "hold-switched", upgrade),
        14 => request("GET", "/h2", "hold", upgrade),
        15 => get("/h2", ""),
        16 => get("/h2", "hold"),
        17 => get("/h2", "flood"),
        18 => uploads("/h2", "", 5_000, 100),
        _ => get("/dead", "ok"),
    }
}

fn is_idle(bench: &Bench) -> bool {
    let mut client = Client::connect(bench.running.admin());
    client.send("GET /compartments HTTP/1.1\r\nhost: a\r\n\r\n");
    let all: Value = serde_json::from_str(&client.answer().body).unwrap();
    let all = all["compartments"].as_array().unwrap();
    all.iter().all(|one| {
        let count = |name: &str| one[name].as_u64().unwrap_or(0);
        let rejected = one["rejected"].as_object().unwrap().values();
        let rejected: u64 = rejected.map(|count| count.as_u64().unwrap()).sum();
        let held = [
            "in_flight",
            "queued",
            "leaked",
            "oldest_permit_ms",
            "borrowed",
        ];
        held.iter().all(|name| count(name) == 0)
            && count("admitted") == count("completed")
            && count("arrived") == count("admitted") + rejected + count("left_queue")
    })
}

fn counted_at_endpoints(bench: &Bench) -> u64 {
    let mut client = Client::connect(bench.running.admin());
    client.send("GET /upstreams HTTP/1.1\r\nhost: a\r\n\r\n");
    let all: Value = serde_json::from_str(&client.answer().body).unwrap();
    let upstreams = all["upstreams"].as_array().unwrap().iter();
    let endpoints = upstreams.flat_map(|one| one["endpoints"].as_array().unwrap());
    // Where there is only one endpoint nothing is counted.
    endpoints
        .filter(|one| !one["in_flight"].is_null())
        .map(|one| one["in_flight"].as_u64().unwrap())
        .sum()
}

#[test]
fn a_storm_of_all_kinds_leaves_nothing_behind() {
    let seed = u64::from(std::process::id()) | 1 << 40;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (calm, rude) = (
        Upstream::start(7, 0, ""),
        Upstream::start(3, 20, "internal"),
    );
    let h2 = format!(
        "endpoints = [\"http://{}\", \"http://{}\"]\nhttp2 = true",
        calm.at, rude.at
    );
    let one = "[routes.compartment]\nlimit = 6\nqueue = 4\nqueue_wait = \"100ms\"\n\
        stream = { limit = 4, idle = \"5s\" }\n[routes.retry]\nattempts = 2\nbudget = 0.5\n\
        [routes.timeout]\nattempt = \"400ms\"\ntotal = \"900ms\"";
    let wide = "[routes.compartment]\nlimit = 8\n[routes.timeout]\nattempt = \"400ms\"\n\
        total = \"900ms\"";
    let routes = [("one", one), ("h2", wide), ("dead", "")];
    let bench = bench_over(&h2, "body_idle_timeout = \"600ms\"", &routes);
    let mut over_http2 = H2::connect(bench.at, 1 << 14);
    let mut busy = Vec::new();
    for round in 0..ROUNDS {
        if round % ROUNDS_PER_CONNECTION == 0 {
            over_http2 = H2::connect(bench.at, 1 << 14);
        }
        busy.push(match random.below(4) {
            0 => {
                let script = ["ok", "hold", "reset", "mid", "endless", "early"];
                let script = script[random.below(script.len())];
                let path = ["/one", "/h2"][random.below(2)];
                let whole = random.below(2) == 0;
                Busy::Http2(over_http2.send("POST", path, script, whole))
            }
            _ => Busy::Http1(bench.send(words(&mut random))),
        });
        if busy.len() > CLIENTS_MAX {
            match busy.swap_remove(random.below(busy.len())) {
                Busy::Http1(client) if random.below(2) == 0 => client.reset(),
                Busy::Http1(mut client) => drop(client.has_answer(Duration::from_millis(20))),
                Busy::Http2(asked) => drop(asked),
            }
        }
    }
    drop((busy, over_http2));
    eventually("every compartment to be idle", || is_idle(&bench));
    eventually("every endpoint", || counted_at_endpoints(&bench) == 0);
    eventually("every stream", || {
        [&calm, &rude]
            .iter()
            .all(|one| Log::of(&one.log.running) == 0)
    });
    // And all of it is there to be used.
    eventually("a call of each kind", || {
        ["/one", "/h2"]
            .iter()
            .all(|path| bench.ask(get(path, "ok")).status == 200)
    });
    let Bench { stub, running, .. } = bench;
    running.stop();
    eventually("every connection", || stub.connections() == stub.closed());
    eventually("those of HTTP/2", || {
        let is_closed = |one: &&Upstream| Log::of(&one.log.connections) == Log::of(&one.log.closed);
        [&calm, &rude].iter().all(is_closed)
    });
}
