//! The end of the process.

use super::*;

#[test]
fn what_runs_ends_well_and_idle_connections_do_not_hold_it_up() {
    let stub = Stub::start();
    let mut gateway = gateway(&stub, "");
    assert_eq!(gateway.admin("/readyz").status, 200);
    let mut idle = gateway.with(get("/many"));
    idle.answer();
    let mut busy = gateway.with(get("/one/hold"));
    eventually("the request at the stub", || stub.arrived() == 2);
    gateway.running().begin_drain();
    assert_eq!(gateway.admin("/readyz").status, 503);
    assert_eq!(gateway.admin("/livez").status, 200);
    assert_eq!(idle.rest(), (Vec::new(), true));
    assert!(!gateway.running().wait_drained(Duration::from_millis(50)));
    stub.open();
    let answer = busy.answer();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/one/hold"));
    answer.has("connection: close");
    drop(busy);
    assert!(gateway.running().wait_drained(PATIENCE));
    gateway.running.take().unwrap().stop();
}

#[test]
fn a_request_on_a_kept_connection_is_still_served() {
    let stub = Stub::start();
    let gateway = gateway(&stub, "");
    let mut client = gateway.with(get("/many"));
    client.answer();
    gateway.running().begin_drain();
    client.send(get("/many/last"));
    let answer = client.answer();
    assert_eq!(answer.body, "/many/last");
    answer.has("connection: close");
}

#[test]
fn stop_cuts_what_does_not_end() {
    let stub = Stub::start();
    let mut gateway = gateway(&stub, "");
    let mut stuck = gateway.with(get("/one/hold"));
    let mut half = gateway.with("GET /one HTTP/1.1\r\n");
    eventually("the request at the stub", || stub.arrived() == 1);
    gateway.running().begin_drain();
    assert!(!gateway.running().wait_drained(Duration::from_millis(500)));
    gateway.running.take().unwrap().stop();
    assert_eq!(stuck.rest().0, b"");
    drop(half.rest());
    eventually("the upstream to be let go", || stub.gone() == 1);
}

#[test]
fn constant_load_on_kept_connections_loses_no_request() {
    for _ in 0..10 {
        let stub = Stub::start();
        let gateway = gateway(&stub, "");
        let clients: Vec<_> = (0..8).map(|_| gateway.client()).collect();
        let clients: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                std::thread::spawn(move || {
                    let mut served = 0;
                    loop {
                        client.send(get("/many"));
                        let answer = client.answer();
                        assert_eq!(answer.status, 200);
                        served += 1;
                        if answer.head.contains("connection: close") {
                            return served;
                        }
                    }
                })
            })
            .collect();
        eventually("load", || stub.arrived() > 100);
        gateway.running().begin_drain();
        for client in clients {
            assert!(client.join().unwrap() > 0);
        }
        assert!(gateway.running().wait_drained(PATIENCE));
    }
}

#[test]
fn a_busy_port_is_one_clear_error() {
    let stub = Stub::start();
    let loaded = load(&policy(&stub, ""), Syntax::Toml).unwrap_or_else(|error| panic!("{error}"));
    let error = gateway::start(Config {
        listen: vec![stub.at],
        admin: "127.0.0.1:0".parse().unwrap(),
        workers: None,
        source: Source::Document(loaded),
        drain_timeout: PATIENCE,
        id: String::new(),
        forbidden: Vec::new(),
        least_rate: gateway::LeastRate::default(),
        telling: gateway::Telling::default(),
    })
    .unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {}", stub.at));
}
