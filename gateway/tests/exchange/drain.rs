//! What a request is told when the process ends before its answer.

use super::*;
use crate::h2::H2;

#[test]
fn what_has_no_answer_when_the_time_is_over_is_told_to_come_back() {
    let queue = "compartment = { limit = 1, queue = 1, queue_wait = \"9s\" }";
    let bench = bench(&[
        ("one", ""),
        ("line", queue),
        ("many", "compartment = { limit = 9 }"),
    ]);
    let mut held = bench.send(get("/one", "hold"));
    let _first = bench.send(get("/line", "hold-body"));
    eventually("the first two", || bench.stub.arrived() == 2);
    let mut waits = bench.send(get("/line", "ok"));
    let upload = request("POST", "/many", "ok", "content-length: 5\r\n");
    let mut uploads = bench.send(upload + "part");
    let mut client = H2::connect(bench.at, 65_535);
    let mut streams = [client.get("/many", "hold"), client.get("/many", "hold")];
    let mut running = client.get("/many", "hold-body");
    assert_eq!(client.head(&mut running).0, 200);
    eventually("the rest", || {
        bench.stub.arrived() == 6 && bench.figures("route/line")["queued"] == 1
    });

    bench.running.begin_drain();
    assert!(!bench.running.wait_drained(Duration::from_millis(400)));
    bench.running.refuse_rest();
    for client in [&mut held, &mut waits, &mut uploads] {
        let answer = client.answer();
        assert_eq!((answer.status, answer.reason()), (503, Some("draining")));
        assert_eq!(answer.field("connection"), Some("close"));
        let pause: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=3).contains(&pause));
    }
    for stream in &mut streams {
        let (status, headers) = client.head(stream);
        assert_eq!(
            (status, &headers["x-bulkhead-reason"]),
            (503, &"draining".parse().unwrap())
        );
        assert!(!headers.contains_key("connection"));
    }
    assert_eq!(
        (bench.ended("draining"), bench.ended("client_gone")),
        (5, 0)
    );
    assert_eq!(bench.figures("route/line")["left_queue"], 1);
    assert_eq!(bench.in_flight("route/one"), 0);
    // An answer under way is cut, and the client can see it.
    drop(bench.running);
    assert!(client.body(&mut running).is_err());
}
