//! The gateway against a control plane that a test plays: pushes, answers, reconnects, restarts.
//!
//! Separate from the unit tests because everything goes through public doors: the stream, the
//! admin port and the files in the state folder.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod fake;
mod several;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use fake::{Fake, LONGEST};
use gateway::{Config, Running, Source};
use wire::Secret;
use wire::parts::Parts;
use wire::stream::proto::answer::Outcome;
use wire::stream::proto::to_gateway::Message;
use wire::stream::proto::{Answer, Drain, Fault, PolicyPush};

const EPOCH: &str = "store-one";

fn token() -> Secret {
    Secret::new("0123456789abcdef0123456789abcdef").unwrap()
}

fn document(limit: i64) -> String {
    format!(
        r#"{{"schema":1,"upstreams":{{"main":{{"endpoints":["http://127.0.0.1:9"]}}}},
            "routes":[{{"id":"a","path":"/a","upstream":"main",
                        "compartment":{{"limit":{limit}}}}}]}}"#
    )
}

fn push(generation: u64, limit: i64) -> PolicyPush {
    let document = document(limit);
    let value = wire::document::value_of(&document, wire::document::Syntax::Json).unwrap();
    PolicyPush {
        generation,
        digest: wire::document::digest(&value),
        document: document.into_bytes().into(),
        epoch: EPOCH.to_owned(),
        parts: Vec::new(),
        may_go_back: false,
        needs_word: false,
    }
}

fn config(url: String, state: Option<&Path>) -> Config {
    config_of(vec![url], state)
}

fn config_of(urls: Vec<String>, state: Option<&Path>) -> Config {
    Config {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        admin: "127.0.0.1:0".parse().unwrap(),
        workers: Some(1),
        source: Source::ControlPlane {
            urls,
            ca: None,
            token: token(),
            state_dir: state.map(Path::to_owned),
        },
        drain_timeout: Duration::from_secs(1),
        id: "gateway-of-the-test".to_owned(),
        forbidden: Vec::new(),
        least_rate: gateway::LeastRate::default(),
        telling: gateway::Telling::default(),
    }
}

/// Status and body of one page of the admin port.
fn page(admin: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.set_read_timeout(Some(LONGEST)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn generation(gateway: &Running) -> u64 {
    let (_, body) = page(gateway.admin(), "/policy");
    let policy: serde_json::Value = serde_json::from_str(&body).unwrap();
    policy["generation"].as_u64().unwrap()
}

fn limit(gateway: &Running) -> u64 {
    let (_, body) = page(gateway.admin(), "/compartments");
    let all: serde_json::Value = serde_json::from_str(&body).unwrap();
    let all = all["compartments"].as_array().unwrap();
    let route = all
        .iter()
        .find(|figures| figures["key"] == "route/a")
        .unwrap();
    route["limit"].as_u64().unwrap()
}

fn faults(answer: Answer) -> Vec<Fault> {
    match answer.outcome {
        Some(Outcome::Refused(refused)) => refused.faults,
        other => panic!("expected a refusal, saw {other:?}"),
    }
}

fn is_running(answer: &Answer) -> bool {
    matches!(answer.outcome, Some(Outcome::Running(_)))
}

/// A gateway that runs generation 1 with a limit of 2.
fn connected(state: Option<&Path>) -> (Fake, Running) {
    let fake = Fake::start(&token());
    let gateway = gateway::start(config(fake.url(), state)).unwrap();
    fake.hello();
    fake.push(push(1, 2));
    assert!(is_running(&fake.answer()));
    (fake, gateway)
}

#[test]
fn a_pushed_policy_runs_is_answered_and_reported() {
    let fake = Fake::start(&token());
    let gateway = gateway::start(config(fake.url(), None)).unwrap();
    let hello = fake.hello();
    assert_eq!(
        (
            hello.gateway_id.as_str(),
            hello.generation,
            hello.epoch.as_str()
        ),
        ("gateway-of-the-test", 0, "")
    );
    assert_eq!(
        page(gateway.admin(), "/readyz").0,
        503,
        "ready without a policy"
    );
    assert_eq!(page(gateway.admin(), "/livez").0, 200);
    fake.push(push(7, 2));
    let answer = fake.answer();
    assert!(is_running(&answer) && answer.generation == 7);
    assert!(gateway.wait_live(LONGEST));
    assert_eq!(page(gateway.admin(), "/readyz").0, 200);
    assert_eq!((generation(&gateway), limit(&gateway)), (7, 2));
    let report = loop {
        let report = fake.report();
        if report.generation == 7 {
            break report;
        }
    };
    let route = report
        .compartments
        .iter()
        .find(|c| c.key == "route/a")
        .unwrap();
    assert_eq!((route.level.as_str(), route.limit), ("route", Some(2)));
}

#[test]
fn what_runs_already_is_not_applied_again() {
    let (fake, gateway) = connected(None);
    fake.push(push(1, 2));
    assert!(matches!(
        fake.answer().outcome,
        Some(Outcome::AlreadyThere(_))
    ));
    assert_eq!(generation(&gateway), 1);
}

#[test]
fn a_refused_policy_changes_nothing_and_the_next_good_one_is_applied() {
    let (fake, gateway) = connected(None);
    fake.push(push(2, -7));
    let faults = faults(fake.answer());
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].pointer, "/routes/0/compartment/limit");
    assert!(
        faults[0].value.contains("-7") && !faults[0].rule.is_empty(),
        "{faults:?}"
    );
    assert_eq!((generation(&gateway), limit(&gateway)), (1, 2));
    fake.hang_up();
    assert_eq!(fake.hello().generation, 1, "the greeting after a refusal");
    fake.push(push(3, 5));
    assert!(is_running(&fake.answer()));
    assert_eq!((generation(&gateway), limit(&gateway)), (3, 5));
}

#[test]
fn nothing_but_a_whole_policy_is_taken() {
    let (fake, gateway) = connected(None);
    let good = push(2, 5);
    for (what, document) in [
        ("not JSON", "{".to_owned()),
        ("empty", String::new()),
        (
            "an unknown key",
            document(5).replace("\"limit\"", "\"limitt\""),
        ),
        ("another content than announced", document(6)),
    ] {
        fake.push(PolicyPush {
            document: document.into_bytes().into(),
            ..good.clone()
        });
        assert!(!faults(fake.answer()).is_empty(), "{what}");
    }
    fake.push(PolicyPush {
        document: vec![0xff, 0xfe].into(),
        ..good.clone()
    });
    assert!(!faults(fake.answer()).is_empty(), "not UTF-8");
    assert_eq!((generation(&gateway), limit(&gateway)), (1, 2));
    fake.push(good);
    assert!(is_running(&fake.answer()));
}

/// A policy of hundreds of kilobytes in which tenant 1000 has this limit.
fn large(generation: u64, limit: u32) -> (PolicyPush, Parts) {
    let tenants: Vec<String> = (0..3_000_u32)
        .map(|n| {
            let limit = if n == 1_000 { limit } else { n % 50 + 1 };
            format!(
                r#""tenant-{n:05}":{{"limit":{limit},"hosts":["t{n}.example"],
                    "api_keys":["sha256:{n:064x}"]}}"#
            )
        })
        .collect();
    let tenants = format!(r#""tenants":{{{}}},"upstreams""#, tenants.join(","));
    let by = r#""schema":1,"identify":{"by":[{"host":{}},{"api_key":{"header":"x-api-key"}}]}"#;
    let document = document(2)
        .replace("\"upstreams\"", &tenants)
        .replace("\"schema\":1", by);
    let value = wire::document::value_of(&document, wire::document::Syntax::Json).unwrap();
    let push = PolicyPush {
        generation,
        digest: wire::document::digest(&value),
        document: Bytes::new(),
        epoch: EPOCH.to_owned(),
        parts: Vec::new(),
        may_go_back: false,
        needs_word: false,
    };
    (push, Parts::of(document.into()))
}

/// Number and digest of what runs.
fn running(gateway: &Running) -> (u64, String) {
    let (_, body) = page(gateway.admin(), "/policy");
    let policy: serde_json::Value = serde_json::from_str(&body).unwrap();
    let digest = policy["digest"].as_str().unwrap();
    (policy["generation"].as_u64().unwrap(), digest.to_owned())
}

#[test]
fn a_large_policy_comes_in_parts_and_what_is_missing_is_asked_for() {
    let fake = Fake::start(&token());
    let gateway = gateway::start(config(fake.url(), None)).unwrap();
    let hello = fake.hello();
    assert!(hello.takes_parts && !hello.has_parts);
    let (mut first, whole) = large(1, 7);
    first.document = whole.document().clone();
    fake.push(first);
    assert!(is_running(&fake.answer()));

    let (mut second, edited) = large(2, 9);
    let runs_second = (2, second.digest.clone());
    second.parts = edited.without(&whole.digests());
    let sent: usize = second.parts.iter().map(|part| part.content.len()).sum();
    assert!(sent > 0 && sent * 4 < edited.document().len(), "{sent}");
    fake.push(second);
    assert!(is_running(&fake.answer()));
    assert_eq!(running(&gateway), runs_second);
    fake.hang_up();
    assert!(fake.hello().has_parts);

    // Told against another document than the one that runs.
    let (mut third, last) = large(3, 11);
    third.parts = last.without(&last.digests());
    fake.push(third.clone());
    assert!(matches!(fake.answer().outcome, Some(Outcome::Missing(_))));
    assert_eq!(running(&gateway), runs_second);
    // Parts that make another document than was announced are refused like any other.
    third.parts = edited.without(&edited.digests());
    fake.push(third.clone());
    assert!(!faults(fake.answer()).is_empty());
    third.parts = last.without(&edited.digests());
    let digest = third.digest.clone();
    fake.push(third);
    assert!(is_running(&fake.answer()));
    assert_eq!(running(&gateway), (3, digest));
}

#[test]
fn limits_never_travel_back_in_time() {
    let (fake, gateway) = connected(None);
    fake.push(push(7, 5));
    assert!(is_running(&fake.answer()));
    fake.push(push(3, 9));
    let older = faults(fake.answer());
    assert_eq!(
        (older[0].pointer.as_str(), older[0].value.as_str()),
        ("/generation", "3")
    );
    assert!(older[0].rule.contains('7'), "{older:?}");
    fake.push(push(7, 9));
    assert_eq!(faults(fake.answer())[0].pointer, "/generation");
    assert_eq!((generation(&gateway), limit(&gateway)), (7, 5));
}

/// The store was put back to a copy and counts on: its numbers pass what runs, and say nothing.
#[test]
fn another_history_is_not_followed_at_any_number_without_a_word() {
    let (fake, gateway) = connected(None);
    fake.push(push(9, 3));
    assert!(is_running(&fake.answer()));
    for generation in 6..=12 {
        fake.push(PolicyPush {
            needs_word: true,
            ..push(generation, 5)
        });
        let fault = faults(fake.answer()).remove(0);
        assert_eq!(fault.pointer, "/generation", "{generation}");
        assert!(fault.rule.contains('9') || generation == 9, "{fault:?}");
        let (_, metrics) = page(gateway.admin(), "/metrics");
        assert!(metrics.contains("bulkhead_policy_held_back 1"), "{metrics}");
    }
    assert_eq!((generation(&gateway), limit(&gateway)), (9, 3));
    fake.push(PolicyPush {
        may_go_back: true,
        ..push(12, 5)
    });
    assert!(is_running(&fake.answer()));
    assert_eq!((generation(&gateway), limit(&gateway)), (12, 5));
    let (_, metrics) = page(gateway.admin(), "/metrics");
    assert!(metrics.contains("bulkhead_policy_held_back 0"), "{metrics}");
}

#[test]
fn it_goes_back_on_a_word_alone_also_for_its_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let (fake, gateway) = connected(Some(dir.path()));
    fake.push(push(9, 3));
    assert!(is_running(&fake.answer()));
    fake.push(push(4, 5));
    let fault = faults(fake.answer()).remove(0);
    assert_eq!(fault.pointer, "/generation");
    assert!(fault.rule.contains("operator"), "{}", fault.rule);
    let (_, metrics) = page(gateway.admin(), "/metrics");
    assert!(metrics.contains("bulkhead_policy_held_back 1"), "{metrics}");
    fake.push(PolicyPush {
        may_go_back: true,
        ..push(4, 5)
    });
    assert!(is_running(&fake.answer()));
    assert_eq!((generation(&gateway), limit(&gateway)), (4, 5));
    let (_, metrics) = page(gateway.admin(), "/metrics");
    assert!(metrics.contains("bulkhead_policy_held_back 0"), "{metrics}");
    drop((fake, gateway));
    let fake = Fake::start(&token());
    let gateway = gateway::start(config(fake.url(), Some(dir.path()))).unwrap();
    assert_eq!(fake.hello().generation, 4);
    assert_eq!(limit(&gateway), 5);
}

#[test]
fn an_operators_drain_fails_the_probe_alone_and_is_taken_back() {
    let (fake, gateway) = connected(None);
    let ready = |gateway: &Running| page(gateway.admin(), "/readyz");
    assert_eq!(ready(&gateway).0, 200);
    let order = |drained| fake.say(Message::Drain(Drain { drained }));
    let until = |drained: bool| while fake.report().drained != drained {};
    order(true);
    until(true);
    let (status, why) = ready(&gateway);
    assert!(
        status == 503 && why.contains("drained by an operator"),
        "{why}"
    );
    // It serves on: whoever still comes is not refused for it.
    let mut client = TcpStream::connect(gateway.listen()[0]).unwrap();
    client.set_read_timeout(Some(LONGEST)).unwrap();
    client
        .write_all(b"GET /none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    // A limit still reaches it.
    fake.push(push(2, 7));
    assert!(is_running(&fake.answer()));
    order(false);
    until(false);
    assert_eq!(ready(&gateway).0, 200);
}

#[test]
fn another_store_is_followed_whatever_its_number() {
    let (fake, gateway) = connected(None);
    fake.push(push(7, 5));
    assert!(is_running(&fake.answer()));
    fake.push(PolicyPush {
        epoch: "store-two".to_owned(),
        ..push(2, 9)
    });
    assert!(is_running(&fake.answer()));
    assert_eq!((generation(&gateway), limit(&gateway)), (2, 9));
}

#[test]
fn a_dead_control_plane_changes_nothing_and_is_dialled_until_it_is_back() {
    let (fake, gateway) = connected(None);
    let address = fake.address();
    fake.die();
    assert_eq!(
        page(gateway.admin(), "/readyz").0,
        200,
        "ready without the control plane"
    );
    assert_eq!(limit(&gateway), 2);
    let back = Fake::at(address, &token());
    let hello = back.hello();
    assert_eq!((hello.generation, hello.epoch.as_str()), (1, EPOCH));
    assert_eq!(hello.digest, push(1, 2).digest);
    back.push(push(2, 9));
    assert!(is_running(&back.answer()));
    assert_eq!(limit(&gateway), 9);
}

#[test]
fn a_wrong_token_brings_no_policy() {
    let other = Secret::random().unwrap();
    let fake = Fake::start(&other);
    let gateway = gateway::start(config(fake.url(), None)).unwrap();
    // The first dials come within the first second.
    assert!(!gateway.wait_live(Duration::from_secs(1)));
    let (status, body) = page(gateway.admin(), "/readyz");
    assert_eq!(status, 503);
    assert!(body.contains("no policy"), "{body}");
}

#[test]
fn a_restart_needs_no_control_plane() {
    let state = tempfile::tempdir().unwrap();
    let (fake, gateway) = connected(Some(state.path()));
    fake.push(push(2, 5));
    assert!(is_running(&fake.answer()));
    let url = fake.url();
    fake.die();
    gateway.stop();
    let again = gateway::start(config(url, Some(state.path()))).unwrap();
    assert!(again.wait_live(Duration::ZERO), "live at once");
    assert_eq!((generation(&again), limit(&again)), (2, 5));
}

#[test]
fn a_spoilt_copy_on_disk_gives_way_to_the_one_before() {
    let state = tempfile::tempdir().unwrap();
    let (fake, gateway) = connected(Some(state.path()));
    fake.push(push(2, 5));
    assert!(is_running(&fake.answer()));
    let url = fake.url();
    fake.die();
    gateway.stop();
    let newest = state.path().join("policy-last-good");
    let bytes = fs::read(&newest).unwrap();
    fs::write(&newest, &bytes[..bytes.len() - 9]).unwrap();
    let again = gateway::start(config(url, Some(state.path()))).unwrap();
    assert_eq!((generation(&again), limit(&again)), (1, 2));
}

#[test]
fn a_refused_policy_is_never_what_a_restart_finds() {
    let state = tempfile::tempdir().unwrap();
    let (fake, gateway) = connected(Some(state.path()));
    fake.push(push(2, -7));
    faults(fake.answer());
    let url = fake.url();
    fake.die();
    gateway.stop();
    let again = gateway::start(config(url, Some(state.path()))).unwrap();
    assert_eq!((generation(&again), limit(&again)), (1, 2));
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", told(cause)));
    format!("{error}{}", cause.unwrap_or_default())
}

#[test]
fn settings_that_cannot_work_are_one_clear_error() {
    let check = |config: Config, want: &str| {
        let error = told(&gateway::start(config).map(drop).unwrap_err());
        assert!(error.contains(want), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    check(config("ftp://127.0.0.1:1".to_owned(), None), "http");
    check(config("127.0.0.1:1".to_owned(), None), "http://HOST:PORT");
    check(
        config("http://127.0.0.1:1/api".to_owned(), None),
        "http://HOST:PORT",
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("state");
    check(
        config("http://127.0.0.1:1".to_owned(), Some(&below)),
        "--state-dir",
    );
}
