//! Time in line belongs to the exchange's own time, and to nobody who has left.

use super::*;

const LINE: &str = "compartment = { limit = 1, queue = 3, queue_wait = \"5s\" }\n\
                    [routes.timeout]\nattempt = \"9s\"\ntotal = \"400ms\"\n\
                    deadline_header = \"x-deadline-ms\"";

fn held(bench: &Bench) -> Client {
    let mut held = bench.send(get("/one", "trickle"));
    held.head();
    held
}

#[test]
fn waiting_is_part_of_the_total() {
    let bench = bench(&[("one", LINE), ("two", "")]);
    let _held = held(&bench);
    let start = Instant::now();
    // The holder began a moment before and is cut at its own total; so the waiter gets its turn
    // late, if at all, and what is left by then is too little for a slot.
    let answer = bench.ask(get("/one", "hold"));
    let reason = answer.reason().unwrap();
    assert!(
        ["total_timeout", "deadline_too_short"].contains(&reason),
        "{reason}"
    );
    assert!(
        start.elapsed() < Duration::from_millis(700),
        "{:?}",
        start.elapsed()
    );
    bench.is_at_rest();
}

#[test]
fn a_caller_in_a_hurry_is_told_at_once() {
    let bench = bench(&[("one", LINE)]);
    let _held = held(&bench);
    for deadline in ["0", "1", "50"] {
        let more = format!("x-deadline-ms: {deadline}\r\n");
        let answer = bench.ask(request("GET", "/one", "ok", &more));
        assert_eq!(answer.reason(), Some("deadline_too_short"), "{deadline}");
        assert_eq!(answer.field("x-bulkhead-compartment"), Some("route/one"));
    }
    let line = bench.figures("route/one");
    assert_eq!(
        (&line["queued"], &line["rejected"]["deadline_too_short"]),
        (&0.into(), &3.into())
    );
}

#[test]
fn an_uploader_that_leaves_gives_its_place_back() {
    let patient = "compartment = { limit = 1, queue = 3, queue_wait = \"9s\" }";
    let bench = bench(&[("one", patient)]);
    let mut held = bench.send(get("/one", "hold-body"));
    held.head();
    let upload = request("POST", "/one", "ok", "content-length: 50\r\n") + "part";
    let waiting = bench.send(upload);
    eventually("it in line", || bench.figures("route/one")["queued"] == 1);
    drop(waiting);
    eventually("its place", || bench.figures("route/one")["queued"] == 0);
    assert_eq!(bench.figures("route/one")["left_queue"], 1);
    bench.stub.open();
    assert_eq!(bench.ask(get("/one", "ok")).status, 200);
    assert_eq!(bench.stub.arrived(), 2);
}
