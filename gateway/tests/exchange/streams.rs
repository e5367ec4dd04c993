//! Upgrades and event streams: slots of their own, taken before the upstream is asked and held to
//! the last byte.

use std::io::{Read, Write};
use std::net::Shutdown;

use super::*;

const TWO: (&str, &str) = (
    "one",
    "[routes.compartment]\nlimit = 1\nstream = { limit = 2, idle = \"30s\", max_age = \"1h\" }",
);

fn upgrade(path: &str, script: &str) -> String {
    upgrade_to(path, script, "websocket")
}

fn upgrade_to(path: &str, script: &str, protocol: &str) -> String {
    let more = format!("connection: Upgrade\r\nupgrade: {protocol}\r\n");
    request("GET", path, script, &more)
}

/// An echo through a tunnel.
#[track_caller]
fn echo(client: &mut Client, text: &str) {
    client.send(text);
    assert_eq!(client.bytes(text.len()), text.as_bytes());
}

#[track_caller]
fn switched(bench: &Bench, path: &str, script: &str) -> Client {
    let mut client = bench.send(upgrade(path, script));
    let head = client.head();
    assert_eq!(head.status, 101, "{}", head.head);
    assert_eq!(head.field("upgrade"), Some("websocket"));
    assert_eq!(head.field("connection"), Some("upgrade"));
    client
}

#[track_caller]
fn is_at_rest(bench: &Bench) {
    for key in ["route/one", "route/one/stream", "upstream/stub", "gateway"] {
        eventually(key, || bench.in_flight(key) == 0);
        let seen = bench.figures(key);
        assert_eq!(seen["admitted"], seen["completed"], "{key}");
        assert_eq!(seen["oldest_permit_ms"], 0, "{key}");
    }
}

#[test]
fn a_tunnel_passes_bytes_and_holds_its_slot_to_the_end() {
    let bench = bench(&[TWO]);
    let mut first = switched(&bench, "/one", "echo");
    let mut second = switched(&bench, "/one", "echo");
    echo(&mut first, "one");
    let refused = bench.ask(upgrade("/one", "echo"));
    assert_eq!(
        (refused.status, refused.reason()),
        (503, Some("stream_full"))
    );
    assert_eq!(
        refused.field("x-bulkhead-compartment"),
        Some("route/one/stream")
    );
    assert_eq!(
        bench.stub.arrived(),
        2,
        "refused before the upstream was asked"
    );
    assert_eq!(
        bench.ask(get("/one", "ok")).status,
        200,
        "calls have their own slot"
    );
    eventually("an age", || {
        bench.figures("route/one/stream")["oldest_permit_ms"] != 0
    });
    drop(first);
    eventually("the slot", || bench.in_flight("route/one/stream") == 1);
    echo(&mut second, "still");
    drop(switched(&bench, "/one", "echo"));
    drop(second);
    is_at_rest(&bench);
    let seen = bench.stub.seen();
    let told = |head: &str| head.contains("upgrade: websocket\r\n");
    assert!(told(&seen[0].head.to_lowercase()), "{}", seen[0].head);
    assert_eq!(
        bench.stub.connections(),
        4,
        "no connection is used after a switch"
    );
}

#[test]
fn many_upgrades_at_once_hold_the_limit() {
    let five = "[routes.compartment]\nlimit = 1\nstream = { limit = 5 }";
    let bench = bench(&[("one", five)]);
    let mut clients: Vec<Client> = (0..50)
        .map(|_| bench.send(upgrade("/one", "slow-echo")))
        .collect();
    let heads: Vec<Answer> = clients.iter_mut().map(Client::head).collect();
    let of = |status| heads.iter().filter(|head| head.status == status).count();
    assert_eq!((of(101), of(503)), (5, 45));
    assert_eq!(bench.stub.arrived(), 5, "nobody else reached the stub");
    assert_eq!(bench.figures("route/one/stream")["peak"], 5);
    drop(clients);
    is_at_rest(&bench);
}

#[test]
fn a_half_done_upgrade_holds_nothing() {
    let bench = bench(&[TWO]);
    for by_reset in [false, true] {
        let (gone, arrived) = (bench.stub.gone(), bench.stub.arrived());
        let client = bench.send(upgrade("/one", "hold"));
        eventually("the slot", || bench.in_flight("route/one/stream") == 1);
        // Or there would be nobody to be let go.
        eventually("the upstream", || bench.stub.arrived() > arrived);
        let left = Instant::now();
        match by_reset {
            true => client.reset(),
            false => drop(client),
        }
        eventually("the upstream to be let go", || bench.stub.gone() > gone);
        assert!(
            left.elapsed() < Duration::from_millis(500),
            "{:?}",
            left.elapsed()
        );
        is_at_rest(&bench);
    }
    for (script, status) in [("503", 503), ("close", 502), ("ok", 200)] {
        for _ in 0..5 {
            assert_eq!(
                bench.ask(upgrade("/one", script)).status,
                status,
                "{script}"
            );
        }
    }
    is_at_rest(&bench);
}

#[test]
fn only_a_switch_that_was_asked_for_is_passed_on() {
    let bench = bench(&[TWO, ("plain", "")]);
    let answer = bench.ask(upgrade("/one", "101"));
    assert_eq!(
        (answer.status, answer.reason()),
        (502, Some("upstream_protocol")),
        "to foo"
    );
    let answer = bench.ask(get("/one", "echo"));
    assert_eq!(
        (answer.status, answer.reason()),
        (502, Some("upstream_protocol")),
        "unasked"
    );
    for (path, protocol) in [("/one", "tls/1.0"), ("/plain", "websocket")] {
        assert_eq!(bench.ask(upgrade_to(path, "ok", protocol)).status, 200);
        let seen = bench.stub.seen();
        let head = &seen.last().unwrap().head;
        assert!(
            !head.to_lowercase().contains("upgrade"),
            "{protocol}: {head}"
        );
    }
    is_at_rest(&bench);
}

#[test]
fn a_side_that_has_said_all_still_listens() {
    let bench = bench(&[TWO]);
    let mut client = switched(&bench, "/one", "echo-bye");
    echo(&mut client, "hello");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.bytes(3), b"bye");
    assert!(client.is_closed());
    is_at_rest(&bench);
}

#[test]
fn either_side_that_leaves_is_noticed_at_once() {
    let bench = bench(&[TWO]);
    let gone = bench.stub.gone();
    let client = switched(&bench, "/one", "hold-switched");
    let left = Instant::now();
    client.reset();
    eventually("the upstream to be let go", || bench.stub.gone() > gone);
    assert!(
        left.elapsed() < Duration::from_millis(500),
        "{:?}",
        left.elapsed()
    );
    is_at_rest(&bench);
    let mut client = switched(&bench, "/one", "reset-switched");
    assert!(client.is_closed());
    is_at_rest(&bench);
    // A client that has sent more than anybody reads, and is gone: nobody reads its end.
    let mut client = switched(&bench, "/one", "deaf-switched");
    client
        .stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    while client.stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
    client.reset();
    is_at_rest(&bench);
    bench.stub.open();
}

#[test]
fn bytes_wait_for_the_switch() {
    let bench = bench(&[TWO]);
    let mut client = bench.send(upgrade("/one", "slow-echo") + "early");
    assert_eq!(client.head().status, 101);
    assert_eq!(client.bytes(5), b"early");
    drop(client);
    // These could be taken for a request of their own: the tunnel is not begun.
    let mut client = bench.send(upgrade("/one", "slow-echo") + "no\nhead\n\n");
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    drop(client.stream.read_to_end(&mut answer));
    assert!(!String::from_utf8_lossy(&answer).contains("no\nhead"));
    is_at_rest(&bench);
}

#[test]
fn a_slow_reader_stops_the_other_side_and_loses_nothing() {
    let bench = bench(&[TWO]);
    let mut client = switched(&bench, "/one", "flood-switched");
    std::thread::sleep(Duration::from_millis(200));
    let mut all = 0;
    let mut bytes = vec![0; 1 << 16];
    loop {
        match client.stream.read(&mut bytes).unwrap() {
            0 => break,
            count => all += count,
        }
    }
    assert_eq!(all + client.rest().len(), 32 << 20);
    is_at_rest(&bench);
}

#[test]
fn idleness_and_age_end_a_tunnel_and_nothing_else_does() {
    let with = |stream: &str| {
        format!(
            "[routes.compartment]\nlimit = 1\nmax_hold = \"300ms\"\n\
             stream = {{ limit = 2, {stream} }}\n\
             [routes.timeout]\ntotal = \"300ms\"\nbody_idle = \"200ms\""
        )
    };
    let (idle, age) = (with("idle = \"900ms\""), with("max_age = \"900ms\""));
    let bench = bench(&[("one", ""), ("idle", &idle), ("age", &age)]);
    for path in ["/idle", "/age"] {
        let mut client = switched(&bench, path, "echo");
        let start = Instant::now();
        if path == "/age" {
            while start.elapsed() < Duration::from_millis(700) {
                echo(&mut client, "tick");
            }
        }
        assert!(client.is_closed());
        let took = start.elapsed();
        let right = Duration::from_millis(800)..Duration::from_millis(2_500);
        assert!(right.contains(&took), "{path}: {took:?}");
    }
    for reason in ["stream_idle", "stream_age"] {
        eventually(reason, || bench.ended(reason) == 1);
    }
}

#[test]
fn an_answer_that_is_a_stream_of_events_changes_its_slot() {
    let one = "[routes.compartment]\nlimit = 2\nmax_hold = \"400ms\"\nstream = { limit = 1 }\n\
               [routes.timeout]\nbody_idle = \"300ms\"";
    let bench = bench(&[("one", one)]);
    let mut first = bench.send(get("/one", "events"));
    let head = first.head();
    assert_eq!((head.status, head.field("x-accel-buffering")), (200, None));
    assert_eq!(first.bytes(13).len(), 13, "the first event comes at once");
    assert_eq!(bench.in_flight("route/one"), 0);
    assert_eq!(bench.in_flight("route/one/stream"), 1);
    let gone = bench.stub.gone();
    let refused = bench.ask(get("/one", "events"));
    assert_eq!(
        (refused.status, refused.reason()),
        (503, Some("stream_full"))
    );
    eventually("the refused one to be let go", || bench.stub.gone() > gone);
    let arrived = bench.stub.arrived();
    let by_name = request("GET", "/one", "events", "accept: text/event-stream\r\n");
    assert_eq!(bench.ask(by_name).reason(), Some("stream_full"));
    assert_eq!(
        bench.stub.arrived(),
        arrived,
        "asked for by name: decided before"
    );
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(
        bench.in_flight("route/one/stream"),
        1,
        "neither idle nor held too long"
    );
    drop(first);
    is_at_rest(&bench);
    let route = bench.figures("route/one");
    assert_eq!(
        (&route["admitted"], &route["completed"]),
        (&3.into(), &3.into())
    );
}
