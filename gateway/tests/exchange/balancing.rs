//! Several endpoints of one upstream, some of which are not well.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};

use super::*;

/// An endpoint that answers everything alike.
#[derive(Clone)]
struct Peer {
    at: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    status: AtomicU16,
    delay_ms: AtomicU64,
    asked: AtomicUsize,
    checked: AtomicUsize,
    check_status: AtomicU16,
}

impl Peer {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Self {
            at: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        peer.state.status.store(status, Ordering::SeqCst);
        peer.state.check_status.store(200, Ordering::SeqCst);
        let state = Arc::clone(&peer.state);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&state);
                std::thread::spawn(move || state.serve(stream));
            }
        });
        peer
    }

    fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }
}

impl State {
    fn serve(&self, stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut stream = stream;
        while let Some(Ok(first)) = lines.next() {
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let status = if first.contains("/healthz") {
                self.checked.fetch_add(1, Ordering::SeqCst);
                self.check_status.load(Ordering::SeqCst)
            } else {
                self.asked.fetch_add(1, Ordering::SeqCst);
                let delay_ms = self.delay_ms.load(Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(delay_ms));
                self.status.load(Ordering::SeqCst)
            };
            let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn before(endpoints: &[SocketAddr], more: &str) -> Bench {
    let endpoints: Vec<String> = endpoints
        .iter()
        .map(|at| format!("\"http://{at}\""))
        .collect();
    let upstream = format!("endpoints = [{}]\n{more}", endpoints.join(", "));
    bench_over(&upstream, "", &[("h2", "[routes.compartment]\nlimit = 60")])
}

/// What the admin port says of one endpoint.
fn seen(bench: &Bench, at: SocketAddr) -> Value {
    let mut client = Client::connect(bench.running.admin());
    client.send("GET /upstreams HTTP/1.1\r\nhost: a\r\n\r\n");
    let all: Value = serde_json::from_str(&client.answer().body).unwrap();
    let upstreams = all["upstreams"].as_array().unwrap();
    let h2 = upstreams.iter().find(|one| one["id"] == "h2").unwrap();
    let url = format!("http://{at}");
    let endpoints = h2["endpoints"].as_array().unwrap();
    endpoints
        .iter()
        .find(|one| one["url"] == *url)
        .unwrap()
        .clone()
}

fn statuses(bench: &Bench, count: usize) -> Vec<u16> {
    (0..count)
        .map(|_| bench.ask(get("/h2", "")).status)
        .collect()
}

/// So many at once.
fn wave(bench: &Bench, count: usize) -> Vec<u16> {
    let mut all: Vec<Client> = (0..count).map(|_| bench.send(get("/h2", ""))).collect();
    all.iter_mut()
        .map(|client| client.answer().status)
        .collect()
}

#[test]
fn one_that_keeps_failing_is_ejected_and_shown() {
    let (good, bad) = (Peer::start(200), Peer::start(503));
    good.state.delay_ms.store(50, Ordering::SeqCst);
    let bench = before(&[bad.at, good.at], "");
    // Its own answers pass until then; afterwards nobody meets it.
    eventually("its ejection", || {
        wave(&bench, 20);
        seen(&bench, bad.at)["state"] == "ejected"
    });
    assert_eq!(wave(&bench, 60), [200; 60]);
    let shown = seen(&bench, bad.at);
    assert!(shown["failures"].as_u64().unwrap() >= 5, "{shown}");
    assert!(
        shown["ejected_for_ms"].as_u64().unwrap() <= 10_000,
        "{shown}"
    );
    assert_eq!(seen(&bench, good.at)["state"], "in_use");
}

#[test]
fn one_that_refuses_costs_no_request_and_is_ejected() {
    let (good, stub) = (Peer::start(200), Stub::start());
    good.state.delay_ms.store(50, Ordering::SeqCst);
    let bench = before(&[stub.dead(), good.at], "");
    eventually("its ejection", || {
        assert_eq!(wave(&bench, 40), [200; 40]);
        seen(&bench, stub.dead())["state"] == "ejected"
    });
}

#[test]
fn never_are_all_ejected() {
    let (one, other) = (Peer::start(503), Peer::start(503));
    let bench = before(&[one.at, other.at], "");
    assert_eq!(statuses(&bench, 40), [503; 40]);
    assert!(
        one.asked() > 5 && other.asked() > 5,
        "{} {}",
        one.asked(),
        other.asked()
    );
    assert_eq!(one.asked() + other.asked(), 40);
    one.state.status.store(200, Ordering::SeqCst);
    other.state.status.store(200, Ordering::SeqCst);
    assert_eq!(statuses(&bench, 20), [200; 20]);
}

#[test]
fn clients_that_leave_and_our_own_refusals_are_nobodys_failures() {
    let (slow, other) = (Peer::start(200), Peer::start(200));
    for peer in [&slow, &other] {
        peer.state.delay_ms.store(400, Ordering::SeqCst);
    }
    let bench = before(&[slow.at, other.at], "limit = 5");
    for _ in 0..4 {
        let all: Vec<Client> = (0..20).map(|_| bench.send(get("/h2", ""))).collect();
        eventually("five of them", || bench.in_flight("upstream/h2") == 5);
        all.into_iter().for_each(Client::reset);
        eventually("none", || bench.in_flight("upstream/h2") == 0);
    }
    for peer in [&slow, &other] {
        // Those that were read late may be there for a moment; a failure would stay.
        eventually("nothing at the endpoint", || {
            let shown = seen(&bench, peer.at);
            let counts = ["failures", "failures_in_a_row", "in_flight"].map(|name| &shown[name]);
            counts == [&Value::from(0); 3]
        });
    }
}

#[test]
fn a_slow_endpoint_gets_less() {
    let (fast, slow) = (Peer::start(200), Peer::start(200));
    slow.state.delay_ms.store(60, Ordering::SeqCst);
    let bench = before(&[slow.at, fast.at], "");
    assert_eq!(statuses(&bench, 200), [200; 200]);
    assert!(slow.asked() <= 20, "{} of 200", slow.asked());
    assert!(slow.asked() > 0, "it is not given up");
}

#[test]
fn checks_take_an_endpoint_out_and_bring_it_back() {
    let (sick, well) = (Peer::start(200), Peer::start(200));
    sick.state.check_status.store(500, Ordering::SeqCst);
    let health = "health = { path = \"/healthz\", interval = \"100ms\" }";
    let bench = before(&[sick.at, well.at], health);
    eventually("it to be out", || {
        seen(&bench, sick.at)["state"] == "unhealthy"
    });
    assert_eq!(
        seen(&bench, sick.at)["check"]["error"],
        "status 500 Internal Server Error"
    );
    let before = sick.asked();
    assert_eq!(statuses(&bench, 30), [200; 30]);
    assert_eq!(sick.asked(), before, "nobody goes there");
    // Checks are nobody's traffic.
    assert_eq!(bench.figures("upstream/h2")["arrived"], 30);
    assert!(well.state.checked.load(Ordering::SeqCst) >= 3);
    sick.state.check_status.store(204, Ordering::SeqCst);
    eventually("it to be back", || {
        seen(&bench, sick.at)["state"] == "in_use"
    });
    assert_eq!(seen(&bench, sick.at)["check"]["error"], Value::Null);
    eventually("a request", || {
        statuses(&bench, 5);
        sick.asked() > before
    });
}
