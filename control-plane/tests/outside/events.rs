//! Streams of events, as a browser opens them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::support::gateway::Gateway;
use crate::support::{Plane, TOKEN, call, eventually};
use serde_json::{Value, json};
use wire::stream::proto::Compartment;

/// One open stream.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens one; its status and the stream behind the head.
    fn open(plane: &Plane) -> (u16, Self) {
        let mut stream = TcpStream::connect(plane.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\r\n",
            plane.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut events = Self(BufReader::new(stream));
        let status = events.line().unwrap();
        while events.line().is_some_and(|line| !line.is_empty()) {}
        (status.split(' ').nth(1).unwrap().parse().unwrap(), events)
    }

    /// The next line; `None` at the end.
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).unwrap_or(0);
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// What the next event says; `None` at the end.
    fn next(&mut self) -> Option<Value> {
        loop {
            let line = self.line()?;
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }
}

fn route(key: &str, in_flight: u32) -> Compartment {
    Compartment {
        key: key.to_owned(),
        level: "route".to_owned(),
        limit: Some(4),
        in_flight,
        admitted: u64::from(in_flight),
        mode: "enforce".to_owned(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_moves_is_told_and_nothing_else() {
    let plane = Plane::start();
    let one = Gateway::connect(&plane, "one").await;
    one.report(1, vec![route("route/a", 1), route("route/b", 2)])
        .await;
    eventually("a report", || {
        plane.api("GET", "/compartments", None).json()["reporting"] == json!("1 of 1")
    });
    let (status, mut events) = Events::open(&plane);
    assert_eq!(status, 200);
    let whole = events.next().unwrap();
    assert_eq!(
        (&whole["whole"], &whole["reporting"]),
        (&json!(true), &json!("1 of 1"))
    );
    assert_eq!(whole["compartments"].as_array().unwrap().len(), 2);
    let mut last = Vec::new();
    // The first change may hold everything: nobody listened before.
    for in_flight in [3, 4] {
        let moved = vec![route("route/a", in_flight), route("route/b", 2)];
        one.report(1, moved).await;
        let until = move || {
            loop {
                let told = events.next().unwrap();
                let moved = told["compartments"].as_array().unwrap().clone();
                if moved.iter().any(|own| own["in_flight"] == json!(in_flight)) {
                    return (moved, events);
                }
            }
        };
        (last, events) = tokio::task::spawn_blocking(until).await.unwrap();
    }
    assert_eq!(last.len(), 1, "only what moved: {last:?}");
    assert_eq!(
        (&last[0]["key"], &last[0]["limit"]),
        (&json!("route/a"), &json!(4))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_bounded_and_end_with_the_process() {
    let mut plane = Plane::start();
    assert_eq!(
        call(plane.address, "GET", "/api/v1/events", &[], b"").status,
        401
    );
    assert_eq!(plane.api("GET", "/events?x=1", None).status, 400);
    let mut open: Vec<_> = (0..200).map(|_| Events::open(&plane)).collect();
    assert!(open.iter().all(|(status, _)| *status == 200));
    assert_eq!(Events::open(&plane).0, 503);
    // Somebody leaves: there is room again.
    drop(open.pop());
    eventually("room again", || Events::open(&plane).0 == 200);
    let running = plane.running.take().unwrap();
    let stopped = tokio::task::spawn_blocking(move || running.stop());
    let stopped = tokio::time::timeout(Duration::from_secs(8), stopped).await;
    stopped.expect("streams hold up the end").unwrap();
    let (_, first) = open.first_mut().unwrap();
    while first.next().is_some() {}
}
