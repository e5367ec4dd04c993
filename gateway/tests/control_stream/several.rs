//! A gateway that knows several control planes of one store.
//!
//! Separate because each test plays two of them. Everything goes through public doors.

#![expect(clippy::disallowed_methods, reason = "a test measures real time")]

use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::fake::{Fake, LONGEST};
use super::{config_of, generation, is_running, limit, page, push, token};

/// A failure of one must not be noticed for longer.
const TAKEOVER_MAX: Duration = Duration::from_secs(2);

/// The one that the admin port names as connected.
fn in_use(gateway: &gateway::Running) -> Option<String> {
    let (_, body) = page(gateway.admin(), "/policy");
    let policy: serde_json::Value = serde_json::from_str(&body).unwrap();
    policy["control_plane"].as_str().map(str::to_owned)
}

fn metric(gateway: &gateway::Running) -> String {
    let (_, text) = page(gateway.admin(), "/metrics");
    let mine = |line: &&str| line.starts_with("bulkhead_control_in_use{");
    text.lines().filter(mine).collect()
}

/// How the metric names the port of this URL.
fn port(url: &str) -> String {
    format!("server_port=\"{}\"", url.rsplit(':').next().unwrap())
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONGEST, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_next_one_is_used_within_two_seconds_and_the_first_is_not_gone_back_to() {
    let (one, two) = (Fake::start(&token()), Fake::start(&token()));
    let (first, second) = (one.url(), two.url());
    let gateway = gateway::start(config_of(vec![first.clone(), second.clone()], None)).unwrap();
    one.hello();
    one.push(push(1, 2));
    assert!(is_running(&one.answer()));
    assert_eq!(in_use(&gateway), Some(first.clone()));
    assert!(metric(&gateway).contains(&port(&first)));

    let (address, died) = (one.address(), Instant::now());
    one.die();
    let hello = two.hello();
    assert!(died.elapsed() < TAKEOVER_MAX, "{:?}", died.elapsed());
    assert_eq!((hello.generation, hello.digest), (1, push(1, 2).digest));
    assert_eq!(
        (limit(&gateway), page(gateway.admin(), "/readyz").0),
        (2, 200)
    );
    two.push(push(2, 9));
    assert!(is_running(&two.answer()));

    // The first is back, and the second is kept.
    let back = Fake::at(address, &token());
    (0..3).for_each(|_| drop(two.report()));
    assert_eq!(in_use(&gateway), Some(second.clone()));
    let told = metric(&gateway);
    assert!(
        told.contains(&port(&second)) && !told.contains(&port(&first)),
        "{told}"
    );
    two.die();
    assert_eq!(back.hello().generation, 2);
    eventually("the first one is named", || {
        in_use(&gateway).as_ref() == Some(&first)
    });
    assert_eq!((generation(&gateway), limit(&gateway)), (2, 9));
}

#[test]
fn one_that_is_not_there_at_the_start_costs_nothing() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let two = Fake::start(&token());
    let started = Instant::now();
    let gateway = gateway::start(config_of(vec![nobody, two.url()], None)).unwrap();
    two.hello();
    assert!(started.elapsed() < TAKEOVER_MAX, "{:?}", started.elapsed());
    two.push(push(1, 2));
    assert!(is_running(&two.answer()));
    assert_eq!(limit(&gateway), 2);
}

/// One that takes connections and says nothing is given up, too.
#[test]
fn one_that_hangs_is_given_up() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", hanging.local_addr().unwrap());
    let two = Fake::start(&token());
    let _gateway = gateway::start(config_of(vec![url, two.url()], None)).unwrap();
    two.hello();
    drop(hanging);
}

#[test]
fn while_all_are_away_all_are_dialled_and_the_policy_stays() {
    let (one, two) = (Fake::start(&token()), Fake::start(&token()));
    let urls = vec![one.url(), two.url()];
    let gateway = gateway::start(config_of(urls, None)).unwrap();
    one.hello();
    one.push(push(1, 2));
    assert!(is_running(&one.answer()));
    let (at_one, at_two) = (one.address(), two.address());
    two.die();
    one.die();
    eventually("nobody is connected", || in_use(&gateway).is_none());
    assert_eq!(metric(&gateway), "");
    // Whoever listens there sees that it is dialled: first the one, then the other.
    for address in [at_two, at_one] {
        let listener = std::net::TcpListener::bind(address).unwrap();
        let (_dialled, _) = listener.accept().unwrap();
    }
    assert_eq!(
        (limit(&gateway), page(gateway.admin(), "/readyz").0),
        (2, 200)
    );
    let back = Fake::at(at_two, &token());
    assert_eq!(back.hello().generation, 1);
}
