//! Streams of events, as a browser opens them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::people;
use crate::support::browser::Browser;
use crate::support::gateway::Gateway;
use crate::support::{Plane, TOKEN, call, eventually};
use serde_json::{Value, json};
use wire::stream::proto::Compartment;

/// One open stream.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens one; its status and the stream behind the head.
    fn open(plane: &Plane) -> (u16, Self) {
        let bearer = format!("authorization: Bearer {TOKEN}");
        Self::open_as(plane, "/api/v1/events", &bearer)
    }

    /// The same of any path and as anybody.
    fn open_as(plane: &Plane, path: &str, header: &str) -> (u16, Self) {
        let mut stream = TcpStream::connect(plane.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\n{header}\r\n\r\n",
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

/// The session of somebody who signed in, as a header.
fn session(plane: &Plane) -> String {
    let mut browser = Browser::new(plane);
    let form = format!("token={TOKEN}&next=%2F");
    let answer = browser.send("/login", "/login", &form);
    assert_eq!(answer.status, 303, "{}", answer.text());
    browser.jar.retain(|(name, _)| name == "bulkhead");
    format!("cookie: {}", browser.cookie())
}

/// What a message says of one view.
fn of<'a>(message: &'a Value, view: &str) -> &'a Value {
    let views = message["views"].as_array().unwrap();
    views.iter().find(|own| own["view"] == json!(view)).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_hears_each_part_of_its_pages_that_moved() {
    let plane = Plane::start();
    let one = Gateway::connect(&plane, "one").await;
    one.report(1, vec![route("route/a", 1)]).await;
    let path = "/live?view=%2F&view=%2Fcompartments%2Froute%252Fa&view=%2Fcompartments%2Fnone";
    let (status, mut events) = Events::open_as(&plane, path, &session(&plane));
    assert_eq!(status, 200);
    let whole = events.next().unwrap();
    let html = of(&whole, "/")["html"].as_str().unwrap().to_owned();
    for id in ["strip", "verdict", "rows", "side"] {
        assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!html.contains("<form") && !html.contains("<main"), "{html}");
    let page = of(&whole, "/compartments/route%2Fa")["html"]
        .as_str()
        .unwrap();
    assert!(page.contains(" id=\"figures\""), "{page}");
    assert_eq!(of(&whole, "/compartments/none")["status"], json!(404));
    // The clock in the strip moves, and with it the strip alone; until a figure does.
    let calm = events.next().unwrap();
    let html = of(&calm, "/")["html"].as_str().unwrap();
    assert!(
        html.contains(" id=\"strip\"") && !html.contains(" id=\"side\""),
        "{html}"
    );
    assert!(calm["every_ms"].as_u64().unwrap() >= 1_000);
    one.report(1, vec![route("route/a", 3)]).await;
    let told = tokio::task::spawn_blocking(move || {
        (0..5).any(|_| {
            let message = events.next().unwrap();
            let html = of(&message, "/")["html"].as_str().unwrap().to_owned();
            html.contains(" id=\"rows\"") && html.contains("<b>3</b>")
        })
    });
    assert!(told.await.unwrap());
}

#[test]
fn a_stream_of_pages_needs_a_session_and_ends_with_it() {
    let plane = Plane::start();
    let (status, _) = Events::open_as(&plane, "/live?view=%2F", "accept: text/event-stream");
    assert_eq!(status, 303, "to the sign-in");
    let wrong = "authorization: Bearer 0123456789abcdef0123456789abcdeX";
    let (status, _) = Events::open_as(&plane, "/live?view=%2F", wrong);
    assert_eq!(status, 401);
    let cookie = session(&plane);
    let many = (0..9).map(|n| format!("view=%2F{n}&")).collect::<String>();
    for bad in ["", "view=", "view=http%3A%2F%2Fevil.example", &many] {
        let (status, _) = Events::open_as(&plane, &format!("/live?{bad}"), &cookie);
        assert_eq!(status, 400, "{bad}");
    }
    let elsewhere = format!("{cookie}\r\nsec-fetch-site: cross-site");
    let (status, _) = Events::open_as(&plane, "/live?view=%2F", &elsewhere);
    assert_eq!(status, 403, "another site takes no place");
    let (status, mut events) = Events::open_as(&plane, "/live?view=%2F", &cookie);
    assert_eq!(status, 200);
    assert!(events.next().is_some());
    let (_, value) = cookie.split_once("bulkhead=").unwrap();
    let mut browser = Browser::new(&plane);
    browser.jar = vec![("bulkhead".to_owned(), value.to_owned())];
    assert_eq!(browser.send("/", "/logout", "").status, 303);
    let more = std::iter::from_fn(|| events.next()).count();
    assert!(more <= 2, "{more} messages after the session had ended");
}

#[test]
fn streams_of_pages_are_bounded_and_a_place_comes_back() {
    let plane = Plane::start();
    let cookie = session(&plane);
    let open = || Events::open_as(&plane, "/live?view=%2Falerts", &cookie);
    let mut held: Vec<_> = (0..100).map(|_| open()).collect();
    assert!(held.iter().all(|(status, _)| *status == 200));
    assert_eq!(open().0, 503);
    held.pop();
    eventually("a place", || open().0 == 200);
}

#[test]
fn a_stream_of_events_ends_with_the_right_to_it() {
    let plane = Plane::start();
    for name in ["ann", "bob", "eve"] {
        people::user(&plane, name, "operator");
    }
    let (id, secret) = people::token(&plane, &json!({"name": "screen"}));
    let mut eve = people::signed_in(&plane, "eve");
    let of = |browser: &Browser| format!("cookie: {}", browser.cookie());
    let open = |header: &str| {
        let (status, mut events) = Events::open_as(&plane, "/api/v1/events", header);
        assert_eq!(status, 200);
        assert_eq!(events.next().unwrap()["whole"], json!(true));
        events
    };
    let stays = open(&format!("authorization: Bearer {TOKEN}"));
    let streams = [
        open(&format!("authorization: Bearer {secret}")),
        open(&of(&people::signed_in(&plane, "ann"))),
        open(&of(&people::signed_in(&plane, "bob"))),
        open(&of(&eve)),
    ];
    let revoked = plane.api("DELETE", &format!("/tokens/{id}"), None);
    assert_eq!(revoked.status, 204);
    for (name, change) in [
        ("ann", json!({"disabled": true})),
        ("bob", json!({"role": "viewer"})),
    ] {
        let path = format!("/users/{name}");
        assert_eq!(plane.api("PATCH", &path, Some(&change)).status, 200);
    }
    assert_eq!(eve.send("/", "/logout", "").status, 303);
    for mut events in streams {
        let stream = events.0.get_ref();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        // The last chunk; the connection itself may stay open.
        let ended = std::iter::from_fn(|| events.line()).any(|line| line == "0");
        assert!(ended, "it goes on");
    }
    let mut stays = stays;
    assert!(stays.line().is_some(), "the others go on");
}
