//! The gateway from a policy file alone: read at the start, read again on reload.
//!
//! Separate because everything goes through public doors: the file, `reload` and the admin port.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use gateway::{Config, Running, Source};

/// A step that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(2);

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("policy.toml")
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }
}

fn document(limit: i64) -> String {
    format!(
        "schema = 1\n\n[upstreams.main]\nendpoints = [\"http://127.0.0.1:9\"]\n\n\
         [[routes]]\nid = \"a\"\npath = \"/a\"\nupstream = \"main\"\n\
         compartment = {{ limit = {limit} }}\n"
    )
}

fn config(file: &Path) -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        admin: "127.0.0.1:0".parse().unwrap(),
        workers: Some(1),
        source: Source::File(file.to_owned()),
        drain_timeout: Duration::from_secs(1),
        id: "alone".to_owned(),
        forbidden: Vec::new(),
        least_rate: gateway::LeastRate::default(),
        telling: gateway::Telling::default(),
    }
}

fn page(admin: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn json(gateway: &Running, path: &str) -> serde_json::Value {
    let answer = page(gateway.admin(), path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: application/json"),
        "{head}"
    );
    serde_json::from_str(body).unwrap()
}

/// Generation, and the limit of route a.
fn in_force(gateway: &Running) -> (u64, u64) {
    let all = json(gateway, "/compartments");
    let route = all["compartments"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["key"] == "route/a");
    (
        all["generation"].as_u64().unwrap(),
        route.unwrap()["limit"].as_u64().unwrap(),
    )
}

fn eventually(gateway: &Running, want: (u64, u64)) {
    for _ in 0..LONGEST.as_millis() / POLL.as_millis() {
        if in_force(gateway) == want {
            return;
        }
        std::thread::sleep(POLL);
    }
    assert_eq!(in_force(gateway), want);
}

#[test]
fn a_file_is_generation_one_and_every_change_one_more() {
    let folder = Folder::new();
    folder.write(&document(2));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    assert!(gateway.wait_live(Duration::ZERO), "live when start returns");
    assert_eq!(in_force(&gateway), (1, 2));
    folder.write(&document(6));
    gateway.reload();
    eventually(&gateway, (2, 6));
    folder.write(&document(7));
    gateway.reload();
    eventually(&gateway, (3, 7));
    assert!(page(gateway.admin(), "/readyz").starts_with("HTTP/1.1 200 "));
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", told(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

#[test]
fn a_bad_file_at_the_start_is_an_error_that_names_every_fault() {
    let folder = Folder::new();
    folder.write(&document(-7).replace("id = \"a\"", "id = \"a\"\nnonsense = 1"));
    let error = told(
        &gateway::start(config(&folder.file()))
            .map(drop)
            .unwrap_err(),
    );
    for part in ["policy.toml", "nonsense", "limit", "-7", "line "] {
        assert!(error.contains(part), "no {part} in: {error}");
    }
    fs::remove_file(folder.file()).unwrap();
    let error = told(
        &gateway::start(config(&folder.file()))
            .map(drop)
            .unwrap_err(),
    );
    assert!(error.contains("policy.toml"), "{error}");
}

#[test]
fn compartments_are_shown_in_the_contracts_shape() {
    let folder = Folder::new();
    folder.write(&document(2));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    let all = json(&gateway, "/compartments");
    let keys: Vec<_> = all["compartments"].as_array().unwrap().iter().collect();
    for key in ["gateway", "route/a", "upstream/main"] {
        let figures = keys.iter().find(|figures| figures["key"] == key).unwrap();
        for (field, want) in [("in_flight", 0), ("arrived", 0), ("oldest_permit_ms", 0)] {
            assert_eq!(figures[field], want, "{field} of {key}");
        }
        for field in [
            "limit",
            "reserved",
            "peak",
            "saturation",
            "rejected",
            "shadow_rejected",
        ] {
            assert!(!figures[field].is_null(), "{field} of {key}");
        }
        assert_eq!(figures["mode"], "enforce");
    }
    let unlimited = keys
        .iter()
        .find(|figures| figures["key"] == "upstream/main")
        .unwrap();
    assert_eq!(unlimited["limit"], "unlimited");
    let policy = json(&gateway, "/policy");
    assert_eq!(policy["generation"], 1);
    assert_eq!(policy["digest"].as_str().map(str::len), Some(64));
}

#[test]
fn the_admin_port_only_reads() {
    let folder = Folder::new();
    folder.write(&document(2));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    let mut stream = TcpStream::connect(gateway.admin()).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    stream
        .write_all(b"POST /policy HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 405");
    assert!(page(gateway.admin(), "/nothing").starts_with("HTTP/1.1 404 "));
    assert!(page(gateway.admin(), "/livez").starts_with("HTTP/1.1 200 "));
}

#[test]
fn metrics_name_the_compartments_and_the_policy() {
    let folder = Folder::new();
    folder.write(&document(2));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    let text = page(gateway.admin(), "/metrics");
    for line in [
        "bulkhead_policy_generation 1",
        "bulkhead_control_connected 0",
        "bulkhead_compartment_limit{bulkhead_compartment=\"route/a\",bulkhead_level=\"route\",\
         kind=\"nominal\"} 2",
    ] {
        assert!(
            text.lines().any(|have| have == line),
            "no {line} in\n{text}"
        );
    }
}

/// An upstream that answers nobody before it is told to, then everybody.
fn patient_upstream() -> (SocketAddr, Arc<Barrier>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let go = Arc::new(Barrier::new(2));
    let told = Arc::clone(&go);
    std::thread::spawn(move || {
        told.wait();
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut seen = Vec::new();
                let mut part = [0; 512];
                while let Ok(count) = stream.read(&mut part) {
                    seen.extend(&part[..count]);
                    if count == 0 {
                        return;
                    }
                    if seen.ends_with(b"\r\n\r\n") {
                        seen.clear();
                        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                }
            });
        }
    });
    (at, go)
}

#[test]
fn who_waits_on_a_route_that_gets_another_name_is_answered() {
    let (upstream, go) = patient_upstream();
    let named = |id: &str| {
        format!(
            "schema = 1\n\n[upstreams.main]\nendpoints = [\"http://{upstream}\"]\n\n\
             [[routes]]\nid = \"{id}\"\npath = \"/{id}\"\nupstream = \"main\"\n\
             compartment = {{ limit = 1, queue = 3, queue_wait = \"15s\" }}\n"
        )
    };
    let folder = Folder::new();
    folder.write(&named("a"));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    let at = gateway.listen()[0];
    let clients: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(move || page(at, "/a")))
        .collect();
    let figure = |key: &str, name: &str| {
        let all = json(&gateway, "/compartments");
        let mut rows = all["compartments"].as_array().unwrap().iter();
        let row = rows.find(|row| row["key"] == key);
        row.and_then(|row| row[name].as_u64())
    };
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let tries = LONGEST.as_millis() / POLL.as_millis();
        let came = (0..tries).any(|_| {
            std::thread::sleep(POLL);
            is_so()
        });
        assert!(came, "{what}");
    };
    until("two wait", &|| figure("route/a", "queued") == Some(2));
    folder.write(&named("b"));
    gateway.reload();
    until("it has its new name", &|| {
        figure("route/b", "limit").is_some()
    });
    go.wait();
    for client in clients {
        let answer = client.join().unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    until("all is back", &|| figure("route/a", "in_flight") == Some(0));
    assert_eq!(figure("route/a", "completed"), Some(3));
}

/// A server that answers each request, and says how many connections it has.
struct Peer {
    at: SocketAddr,
    open: std::sync::Arc<std::sync::atomic::AtomicUsize>,
    answered: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Peer {
    fn start(delay: Duration) -> Self {
        use std::sync::atomic::Ordering::SeqCst;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = Self {
            at: listener.local_addr().unwrap(),
            open: Default::default(),
            answered: Default::default(),
        };
        let (open, answered) = (peer.open.clone(), peer.answered.clone());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (open, answered) = (open.clone(), answered.clone());
                open.fetch_add(1, SeqCst);
                std::thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                        std::thread::sleep(delay);
                        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                        if stream.write_all(answer).is_err() {
                            break;
                        }
                        answered.fetch_add(1, SeqCst);
                    }
                    open.fetch_sub(1, SeqCst);
                });
            }
        });
        peer
    }

    fn counts(&self) -> (usize, usize) {
        let of = |count: &std::sync::atomic::AtomicUsize| {
            count.load(std::sync::atomic::Ordering::SeqCst)
        };
        (of(&self.open), of(&self.answered))
    }
}

#[test]
fn a_removed_endpoint_finishes_what_it_has_and_is_closed() {
    let (old, new) = (
        Peer::start(Duration::from_millis(1_500)),
        Peer::start(Duration::ZERO),
    );
    let folder = Folder::new();
    let leading_to = |at: SocketAddr| document(5).replace("127.0.0.1:9", &at.to_string());
    folder.write(&leading_to(old.at));
    let gateway = gateway::start(config(&folder.file())).unwrap();
    let ask = |at: SocketAddr| page(at, "/a");
    // One connection at rest, one in use.
    assert!(ask(gateway.listen()[0]).ends_with("ok"));
    let at = gateway.listen()[0];
    let running = std::thread::spawn(move || page(at, "/a"));
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        for _ in 0..LONGEST.as_millis() / POLL.as_millis() {
            if is_so() {
                return;
            }
            std::thread::sleep(POLL);
        }
        panic!("not in time: {what}");
    };
    until("a call", &|| {
        let all = json(&gateway, "/compartments");
        let all = all["compartments"].as_array().unwrap().clone();
        all.iter()
            .any(|one| one["key"] == "route/a" && one["in_flight"] == 1)
    });
    folder.write(&leading_to(new.at));
    gateway.reload();
    until("the new policy", &|| in_force(&gateway).0 == 2);
    assert!(ask(gateway.listen()[0]).ends_with("ok"));
    assert_eq!(new.counts().1, 1);
    assert!(
        running.join().unwrap().ends_with("ok"),
        "what was in flight finishes"
    );
    until("the old connections", &|| old.counts() == (0, 2));
}

/// How the endpoints of the upstream stand, by their ports, and how many requests they have.
fn standing(gateway: &Running) -> Vec<(String, String, Option<u64>)> {
    let all = json(gateway, "/compartments");
    let all = all["compartments"].as_array().unwrap();
    let upstream = all
        .iter()
        .find(|one| one["key"] == "upstream/main")
        .unwrap();
    let list = upstream["endpoints"]["list"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    list.iter()
        .map(|one| {
            (
                text(&one["url"]),
                text(&one["state"]),
                one["in_flight"].as_u64(),
            )
        })
        .collect()
}

#[test]
fn a_removed_endpoint_is_shown_as_draining_until_its_last_request_is_over() {
    let slow = || Peer::start(Duration::from_millis(1_500));
    for several in [false, true] {
        let (old, new) = (slow(), slow());
        let of = |peer: &Peer| format!("http://{}", peer.at);
        let folder = Folder::new();
        let before = match several {
            true => format!("{}\", \"{}", of(&old), of(&new)),
            false => of(&old),
        };
        folder.write(&document(60).replace("http://127.0.0.1:9", &before));
        let gateway = gateway::start(config(&folder.file())).unwrap();
        assert!(gateway.wait_live(LONGEST));
        let at = gateway.listen()[0];
        let asked: Vec<_> = (0..12)
            .map(|_| std::thread::spawn(move || page(at, "/a")))
            .collect();
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            let most = LONGEST.as_millis() / POLL.as_millis();
            let came = (0..most).any(|_| {
                is_so() || {
                    std::thread::sleep(POLL);
                    false
                }
            });
            assert!(came, "not in time: {what}: {:?}", standing(&gateway));
        };
        until("a request at the old one", &|| old.counts().0 > 0);
        let in_use = |peer: &Peer| (of(peer), "in_use".to_owned());
        let state = |at: usize| {
            standing(&gateway)
                .get(at)
                .map(|(url, s, _)| (url.clone(), s.clone()))
        };
        assert_eq!(state(0), Some(in_use(&old)));
        folder.write(&document(60).replace("http://127.0.0.1:9", &of(&new)));
        gateway.reload();
        until("the new policy", &|| in_force(&gateway).0 == 2);
        let drains = (of(&old), "draining".to_owned());
        assert_eq!((state(0), state(1)), (Some(in_use(&new)), Some(drains)));
        let draining = &standing(&gateway)[1];
        assert_eq!(draining.2.is_some_and(|n| n > 0), several, "{draining:?}");
        let own = json(&gateway, "/upstreams");
        assert_eq!(own["upstreams"][0]["draining"], 1, "{own}");
        until("its end", &|| standing(&gateway).len() == 1);
        assert!(
            asked
                .into_iter()
                .all(|one| one.join().unwrap().ends_with("ok"))
        );
        // One that returns is what it was; while nobody uses it there is nothing to drain.
        folder.write(&document(60).replace("http://127.0.0.1:9", &before));
        gateway.reload();
        until("the first policy again", &|| in_force(&gateway).0 == 3);
        assert_eq!(state(0), Some(in_use(&old)));
    }
}
