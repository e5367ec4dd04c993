//! Clients that leave: the slot comes back and the upstream is let go.

use super::*;

fn check(request: &str, by_reset: bool) {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let client = gateway.with(request);
    eventually("the slot to be taken", || stub.arrived() == 1);
    assert_eq!(gateway.with(get("/one")).answer().status, 503);
    if by_reset {
        client.reset();
    } else {
        drop(client);
    }
    eventually("the slot to come back", || {
        gateway.with(get("/one")).answer().status == 200
    });
    eventually("the upstream to be let go", || stub.gone() == 1);
}

#[test]
fn while_the_upstream_is_waited_for() {
    for by_reset in [false, true] {
        check(&get("/one/hold"), by_reset);
    }
}

#[test]
fn while_it_uploads() {
    for by_reset in [false, true] {
        check(&(post("/one", 100) + "part"), by_reset);
    }
}

#[test]
fn while_it_uploads_what_nobody_takes() {
    for by_reset in [false, true] {
        check(
            &(post("/one/hold", 9_000_000) + &"z".repeat(2_000_000)),
            by_reset,
        );
    }
}

#[test]
fn while_it_reads_the_answer() {
    for by_reset in [false, true] {
        check(&get("/one/stream"), by_reset);
    }
}

#[test]
fn behind_a_second_request() {
    for by_reset in [false, true] {
        check(&(get("/one/hold") + &get("/many")), by_reset);
    }
}
