//! SIGTERM: what is in flight ends well, exit 0, bounded; a second signal ends it at once.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test's deadline is on the real clock"
)]

mod support;

use std::time::{Duration, Instant};

use support::*;

struct Held {
    up: Process,
    upstream: Upstream,
    answer: std::thread::JoinHandle<std::io::Result<Answer>>,
    _folder: tempfile::TempDir,
}

/// A process with one request inside its upstream.
fn held(more: &[&str]) -> Held {
    let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::start(false));
    let args = [&["--upstream", &upstream.url, "--limit", "5"], more].concat();
    let up = Process::up(folder.path(), "up", &args);
    let at = up.gateway();
    let answer = std::thread::spawn(move || try_ask(at, "GET", "/", &[], ""));
    eventually("the request at the upstream", || {
        (upstream.inside() == 1).then_some(())
    });
    Held {
        up,
        upstream,
        answer,
        _folder: folder,
    }
}

#[test]
fn a_request_in_flight_is_finished() {
    let mut held = held(&[]);
    held.up.signal("-TERM");
    let admin = held.up.admin();
    eventually("readyz fails", || {
        let status = try_ask(admin, "GET", "/readyz", &[], "").map(|answer| answer.status);
        status.map_or(Some(()), |status| (status != 200).then_some(()))
    });
    assert!(held.up.ended().is_none(), "it waits");
    held.upstream.open();
    assert_eq!(held.answer.join().unwrap().unwrap().status, 200);
    assert_eq!(held.up.wait().code(), Some(0), "{}", held.up.text());
}

#[test]
fn the_time_to_drain_is_bounded() {
    let mut held = held(&["--drain-timeout", "500ms"]);
    let start = Instant::now();
    held.up.signal("-TERM");
    assert_eq!(held.up.wait().code(), Some(0), "{}", held.up.text());
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(450) && took < Duration::from_secs(5),
        "{took:?}"
    );
    held.upstream.open();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [("-TERM", 143), ("-INT", 130)] {
        let mut held = held(&[]);
        held.up.signal(signal);
        let admin = held.up.admin();
        eventually("it drains", || {
            let status = try_ask(admin, "GET", "/readyz", &[], "").map(|answer| answer.status);
            status.map_or(Some(()), |status| (status != 200).then_some(()))
        });
        let start = Instant::now();
        held.up.signal(signal);
        assert_eq!(held.up.wait().code(), Some(code));
        assert!(start.elapsed() < Duration::from_secs(2));
        held.upstream.open();
    }
}
