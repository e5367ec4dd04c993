//! Bodies that come byte by byte.

use super::*;

const RATE: gateway::LeastRate = gateway::LeastRate {
    after: Duration::from_millis(600),
    bytes_per_s: 1_024,
};
const AFTER: Duration = Duration::from_millis(600);
const UPLOAD: &str = "content-length: 500000\r\n";
const WIDE: &str = "[routes.compartment]\nlimit = 5\nstream = { limit = 5, idle = \"5s\" }";

fn slow_bench() -> Bench {
    let none = gateway::Telling::default();
    bench_paced(
        NO_H2,
        "body_idle_timeout = \"9s\"",
        &[("one", WIDE)],
        none,
        RATE,
    )
}

/// Sends `bytes` every 50 ms for as long as nobody answers, at most for `most`.
fn trickle(bench: &Bench, fields: &str, bytes: usize, most: Duration) -> (Client, Duration) {
    let mut client = bench.send(request("POST", "/one", "ok", fields));
    let start = Instant::now();
    while start.elapsed() < most && !client.has_answer(Duration::from_millis(50)) {
        client.send("x".repeat(bytes));
    }
    (client, start.elapsed())
}

#[test]
fn a_body_slower_than_its_least_rate_ends_with_its_reason() {
    let bench = slow_bench();
    let (mut client, after) = trickle(&bench, UPLOAD, 1, PATIENCE);
    let answer = client.answer();
    assert_eq!(
        (answer.status, answer.reason()),
        (408, Some("request_timeout"))
    );
    assert!(after >= AFTER && after < AFTER * 4, "{after:?}");
    bench.is_at_rest();
    eventually("its reason", || bench.ended("request_timeout") == 1);
}

#[test]
fn a_body_that_is_fast_enough_goes_on() {
    let bench = slow_bench();
    // Ten times the rate, three times the time.
    let (mut client, after) = trickle(&bench, UPLOAD, 512, AFTER * 3);
    assert!(after >= AFTER * 3, "{after:?}");
    client.send(vec![b'x'; 500_000]);
    assert_eq!(client.answer().status, 200);
}

#[test]
fn a_stream_may_be_slow() {
    let bench = slow_bench();
    let fields = format!("{UPLOAD}accept: text/event-stream\r\n");
    let (mut client, after) = trickle(&bench, &fields, 1, AFTER * 3);
    assert!(after >= AFTER * 3, "{after:?}");
    client.send(vec![b'x'; 500_000]);
    assert_eq!(client.answer().status, 200);
}
