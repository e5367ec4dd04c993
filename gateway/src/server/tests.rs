//! The server side over real sockets, with a scripted request path behind it.
//!
//! Separate so that what a client can do to a connection is tested without upstreams. It must
//! never reach into the driver: everything is seen from outside or through the script.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::watch;

use super::*;
use crate::clock::{Clock, whole_us};
use crate::connection::{CONNECTION_REQUESTS_MAX, Fate};
use crate::worker::Worker;

const PATIENCE: Duration = Duration::from_secs(10);

/// What the script saw.
#[derive(Debug, Default)]
struct Seen {
    started: AtomicUsize,
    dropped: AtomicUsize,
    slow: AtomicUsize,
}

#[derive(Clone, Debug)]
struct Script {
    seen: Arc<Seen>,
    bounds: Bounds,
}

/// Counts the end of an exchange, however it ends, and why.
struct Exchange(Arc<Seen>, Rc<Connection>);

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
        if self.1.fate() == Fate::SlowClient {
            self.0.slow.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type ScriptBody = Pin<Box<dyn Body<Data = Bytes, Error = std::io::Error>>>;

fn text(status: u16, text: String) -> Response<ScriptBody> {
    let body = Full::new(Bytes::from(text)).map_err(std::io::Error::other);
    Response::builder()
        .status(status)
        .body(Box::pin(body) as ScriptBody)
        .unwrap()
}

impl Serve for Script {
    type Body = ScriptBody;

    async fn serve(
        self,
        connection: Rc<Connection>,
        request: Request<Incoming>,
    ) -> Response<ScriptBody> {
        self.seen.started.fetch_add(1, Ordering::SeqCst);
        let exchange = Exchange(Arc::clone(&self.seen), connection);
        let path = request.uri().path().to_owned();
        match path.as_str() {
            "/hang" => std::future::pending().await,
            // Polls the client's body while it waits, as the request path does.
            "/upload" => {
                let read = request
                    .into_body()
                    .collect()
                    .await
                    .map(|body| body.to_bytes().len());
                text(200, format!("{read:?}"))
            }
            "/refuse" => text(503, "full".to_owned()),
            "/panic" => panic!("the script says so"),
            "/slow" => {
                tokio::time::sleep(Duration::from_millis(700)).await;
                text(200, "late".to_owned())
            }
            "/endless" | "/cut" => {
                let mut left = if path == "/cut" { 2 } else { usize::MAX };
                let chunks = std::iter::from_fn(move || {
                    let _held = &exchange;
                    left = left.checked_sub(1)?;
                    Some(if left == 0 {
                        Err(std::io::Error::other("cut"))
                    } else {
                        Ok(Frame::data(Bytes::from(vec![b'x'; 16 * 1024])))
                    })
                });
                Response::new(Box::pin(StreamBody::new(tokio_stream::iter(chunks))))
            }
            path => text(200, format!("{path} {}", request.headers().len())),
        }
    }

    fn refuse(&self, _: &Connection, fault: HeadFault) -> Response<Bytes> {
        let (status, reason) = match fault {
            HeadFault::Malformed => (400, "bad_request"),
            HeadFault::TargetTooLong => (414, "uri_too_long"),
            HeadFault::TooLarge => (431, "header_too_large"),
            HeadFault::Timeout => (408, "request_timeout"),
        };
        let answer = Response::builder()
            .status(status)
            .header("x-bulkhead-reason", reason);
        answer.body(Bytes::from_static(b"{}")).unwrap()
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }
}

/// A server of one thread, stopped when dropped.
struct Server {
    at: SocketAddr,
    seen: Arc<Seen>,
    census: Arc<Census>,
    stage: watch::Sender<Stage>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Stopped);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn server(change: impl FnOnce(&mut Bounds)) -> Server {
    let mut bounds = Bounds::before_any_policy();
    change(&mut bounds);
    let listeners = Listeners::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let at = listeners.addresses()[0];
    let (stage, seen, census) = (
        watch::channel(Stage::Serving).0,
        Arc::default(),
        Arc::default(),
    );
    let script = Script {
        seen: Arc::clone(&seen),
        bounds,
    };
    let worker = Worker {
        listeners,
        clock: Clock::start(),
        census: Arc::clone(&census),
        stage: stage.subscribe(),
    };
    let thread = Some(worker.start(0, move || script).unwrap());
    Server {
        at,
        seen,
        census,
        stage,
        thread,
    }
}

impl Server {
    fn client(&self) -> Client {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            stream,
            unread: Vec::new(),
        }
    }

    fn with(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.client();
        client.send(bytes);
        client
    }
}

struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// One answer, its head in lower case.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Client {
    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// The next answer; it must have a content-length.
    fn answer(&mut self) -> Got {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            self.more();
        };
        let head = String::from_utf8(self.unread.drain(..end).collect())
            .unwrap()
            .to_lowercase();
        let length = head.split("content-length: ").nth(1).map_or(0, |rest| {
            rest.split("\r\n").next().unwrap().parse::<usize>().unwrap()
        });
        while self.unread.len() < length {
            self.more();
        }
        let body = String::from_utf8(self.unread.drain(..length).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, head, body }
    }

    fn more(&mut self) {
        let mut buffer = [0; 4096];
        let count = self.stream.read(&mut buffer).unwrap();
        assert!(
            count > 0,
            "closed after {:?}",
            String::from_utf8_lossy(&self.unread)
        );
        self.unread.extend_from_slice(&buffer[..count]);
    }

    /// Everything until the server closes, and whether it closed without a reset.
    fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut bytes = std::mem::take(&mut self.unread);
        let clean = self.stream.read_to_end(&mut bytes).is_ok();
        (bytes, clean)
    }

    fn reset(self) {
        socket2::SockRef::from(&self.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")
}

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::start();
    while !holds() {
        assert!(
            clock.now_us() < whole_us(PATIENCE),
            "{what} never came true"
        );
        std::thread::yield_now();
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

#[test]
fn a_connection_is_kept_and_pipelined_requests_answer_in_order() {
    let server = server(|_| {});
    let mut client = server.with(get("/a"));
    assert_eq!(client.answer().body, "/a 1");
    client.send([get("/b"), get("/c"), get("/d")].concat());
    let bodies: Vec<_> = (0..3).map(|_| client.answer().body).collect();
    assert_eq!(bodies, ["/b 1", "/c 1", "/d 1"]);
}

#[test]
fn a_half_sent_head_is_answered_408_and_closed() {
    let server = server(|bounds| bounds.header_timeout_us = 200_000);
    for first in ["", &get("/kept")] {
        let mut client = server.client();
        if !first.is_empty() {
            client.send(first);
            client.answer();
        }
        client.send("GET / HTTP/1.1\r\nx-slow: ");
        let got = client.answer();
        assert_eq!(got.status, 408);
        assert!(
            got.head.contains("x-bulkhead-reason: request_timeout"),
            "{}",
            got.head
        );
        assert!(got.head.contains("connection: close"), "{}", got.head);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), (Vec::new(), true));
    }
}

#[test]
fn bytes_that_drip_in_do_not_extend_the_time_for_a_head() {
    let server = server(|bounds| bounds.header_timeout_us = 200_000);
    let mut client = server.with("GET / HTTP/1.1\r\n");
    client
        .stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let mut answered = [0; 12];
    eventually("an answer", || {
        drop(client.stream.write_all(b"x-a: b\r\n"));
        client.stream.read_exact(&mut answered).is_ok()
    });
    assert_eq!(&answered, b"HTTP/1.1 408");
}

#[test]
fn a_silent_connection_is_closed_without_a_word() {
    let server = server(|bounds| bounds.header_timeout_us = 100_000);
    assert_eq!(server.client().rest(), (Vec::new(), true));
}

#[test]
fn a_kept_connection_is_closed_without_a_word_when_idle() {
    let server = server(|bounds| bounds.keepalive_idle_us = 100_000);
    let mut client = server.with(get("/a"));
    client.answer();
    assert_eq!(client.rest(), (Vec::new(), true));
}

#[test]
fn a_request_that_runs_is_not_idle() {
    let server = server(|bounds| {
        bounds.keepalive_idle_us = 50_000;
        bounds.header_timeout_us = 50_000;
    });
    assert_eq!(server.with(get("/slow")).answer().body, "late");
}

#[test]
fn heads_that_are_too_large_get_our_document_before_they_end() {
    let server = server(|_| {});
    let target = format!("GET /{} HTTP/1.1\r\n", "a".repeat(200_000));
    let field = format!("GET / HTTP/1.1\r\nx-big: {}\r\n", "b".repeat(500_000));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(101));
    for (bytes, status, reason) in [
        (target, 414, "uri_too_long"),
        (field, 431, "header_too_large"),
        (fields, 431, "header_too_large"),
    ] {
        let got = server.with(bytes).answer();
        assert_eq!(got.status, status);
        assert!(
            got.head.contains(&format!("x-bulkhead-reason: {reason}")),
            "{}",
            got.head
        );
        assert_eq!(got.body, "{}");
    }
    assert_eq!(count(&server.seen.started), 0);
}

#[test]
fn a_malformed_head_gets_our_document() {
    let server = server(|_| {});
    for head in [
        "GE(T / HTTP/1.1\r\n\r\n",
        "GET / http/1.1\r\n\r\n",
        "GET  / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nfoo bar: x\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 5, 6\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
    ] {
        let mut client = server.with(head);
        let got = client.answer();
        assert_eq!((got.status, got.body.as_str()), (400, "{}"), "{head:?}");
        assert!(
            got.head.contains("x-bulkhead-reason: bad_request"),
            "{head:?}: {}",
            got.head
        );
        assert_eq!(client.rest(), (Vec::new(), true), "{head:?}");
    }
}

#[test]
fn a_malformed_pipelined_head_follows_the_answer_before_it() {
    let server = server(|_| {});
    let mut client = server.with([get("/a").as_bytes(), b"NO(NO\r\n\r\n"].concat());
    assert_eq!(client.answer().body, "/a 1");
    assert_eq!(client.answer().status, 400);
}

#[test]
fn a_client_that_leaves_ends_its_exchange() {
    let server = server(|_| {});
    let head = |path, length| {
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
    };
    let requests = [
        get("/hang"),
        get("/endless"),
        // While it uploads.
        head("/upload", 9) + "abc",
        // While nobody takes what it uploads, behind which its end hides.
        head("/hang", 100_000) + &"z".repeat(100_000),
        // Behind a second request, which nobody reads yet.
        get("/hang") + &get("/b"),
        get("/hang") + &head("/c", 100_000) + &"z".repeat(100_000),
    ];
    for (number, bytes) in requests.into_iter().enumerate() {
        for (turn, by_reset) in [(0, false), (1, true)] {
            let client = server.with(&bytes);
            let nth = number * 2 + turn + 1;
            eventually("the request to start", || {
                count(&server.seen.started) == nth
            });
            if by_reset {
                client.reset();
            } else {
                drop(client);
            }
            eventually("its end", || count(&server.seen.dropped) == nth);
        }
    }
    eventually("no connection left", || server.census.open() == 0);
    assert_eq!(count(&server.seen.slow), 0);
}

#[test]
fn a_client_that_does_not_read_is_cut_and_named() {
    let server = server(|bounds| bounds.write_stall_us = 200_000);
    let mut client = server.with(get("/endless"));
    eventually("the exchange to end", || count(&server.seen.dropped) == 1);
    assert_eq!(count(&server.seen.slow), 1);
    assert!(!client.rest().1, "expected a reset");
}

#[test]
fn a_panic_costs_its_own_connection_only() {
    let server = server(|_| {});
    let mut other = server.with(get("/a"));
    other.answer();
    assert_eq!(server.with(get("/panic")).rest(), (Vec::new(), true));
    assert_eq!(count(&server.seen.dropped), 2);
    other.send(get("/b"));
    assert_eq!(other.answer().body, "/b 1");
    eventually("one connection left", || server.census.open() == 1);
}

#[test]
fn a_refused_upload_can_read_its_answer() {
    let server = server(|_| {});
    let size = 20_000_000;
    let mut client = server.with(format!(
        "POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: {size}\r\n\r\n"
    ));
    // All of it is sent before the answer is looked at.
    client.send(vec![b'z'; size]);
    assert_eq!(client.answer().status, 503);
}

#[test]
fn a_cut_answer_never_looks_whole() {
    let server = server(|_| {});
    let (bytes, _) = server.with(get("/cut")).rest();
    assert!(find(&bytes, b"\r\n0\r\n").is_none());
    // In HTTP/1.0 the end of the connection is the end of the body.
    let (_, clean) = server.with("GET /cut HTTP/1.0\r\nhost: a\r\n\r\n").rest();
    assert!(!clean, "expected a reset");
}

#[test]
fn a_connection_ends_after_its_last_request_and_says_so() {
    let server = server(|_| {});
    let mut client = server.client();
    for number in 1..=CONNECTION_REQUESTS_MAX {
        client.send(get("/a"));
        let last = client.answer().head.contains("connection: close");
        assert_eq!(last, number == CONNECTION_REQUESTS_MAX, "request {number}");
    }
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), (Vec::new(), true));
}

#[test]
fn connections_beyond_the_bound_are_closed_and_the_others_go_on() {
    let server = server(|bounds| bounds.connections_max = 2);
    let mut kept: Vec<_> = (0..2).map(|_| server.with(get("/a"))).collect();
    assert!(kept.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(server.client().rest().0, b"");
    eventually("it to be counted", || server.census.turned_away() == 1);
    kept.remove(0);
    eventually("its place", || server.census.open() == 1);
    assert_eq!(server.with(get("/b")).answer().status, 200);
}

#[test]
fn leaving_closes_idle_connections_and_ends_busy_ones_well() {
    let server = server(|_| {});
    let (mut idle, mut silent) = (server.with(get("/a")), server.client());
    idle.answer();
    let mut busy = server.with(get("/slow"));
    let mut half = server.with("GET /never HTTP/1.1\r\n");
    eventually("all of them", || {
        count(&server.seen.started) == 2 && server.census.open() == 4
    });
    server.stage.send_replace(Stage::Leaving);
    let got = busy.answer();
    assert_eq!(got.body, "late");
    assert!(got.head.contains("connection: close"), "{}", got.head);
    assert_eq!(idle.rest(), (Vec::new(), true));
    assert_eq!(silent.rest(), (Vec::new(), true));
    assert_eq!(half.answer().status, 408);
    drop((busy, half));
    assert!(server.census.wait_empty(PATIENCE));
    assert!(TcpStream::connect(server.at).is_err(), "the port is closed");
}

#[test]
fn a_kept_connection_may_send_one_more_request_while_leaving() {
    let server = server(|_| {});
    let mut client = server.with(get("/a"));
    client.answer();
    server.stage.send_replace(Stage::Leaving);
    client.send(get("/b"));
    let got = client.answer();
    assert_eq!(got.body, "/b 1");
    assert!(got.head.contains("connection: close"), "{}", got.head);
}

mod http2 {
    use hyper::client::conn::http2::{SendRequest, handshake};
    use hyper_util::rt::{TokioExecutor, TokioIo};

    use super::*;

    type Sender = SendRequest<Empty<Bytes>>;

    /// A client of its own runtime, and what its connection ended with.
    fn with_client<T>(
        server: &Server,
        run: impl AsyncFnOnce(Sender, tokio::task::JoinHandle<hyper::Result<()>>, TcpStream) -> T,
    ) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let local = tokio::task::LocalSet::new();
        local.block_on(&runtime, async {
            let socket = TcpStream::connect(server.at).unwrap();
            socket.set_nonblocking(true).unwrap();
            let stream = tokio::net::TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
            let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
            let connection = tokio::task::spawn_local(connection);
            tokio::time::timeout(PATIENCE, run(sender, connection, socket))
                .await
                .unwrap()
        })
    }

    async fn ask(sender: &mut Sender, path: &str) -> hyper::Result<String> {
        let request = Request::get(format!("http://a{path}"))
            .body(Empty::new())
            .unwrap();
        let answer = sender.send_request(request).await?;
        let bytes = answer.into_body().collect().await?.to_bytes();
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn many_requests_share_a_connection_and_a_panic_costs_one_stream() {
        let server = server(|_| {});
        with_client(&server, async |mut sender, _connection, _socket| {
            assert_eq!(ask(&mut sender, "/a").await.unwrap(), "/a 0");
            let (mut one, mut two) = (sender.clone(), sender.clone());
            let (slow, panicked) = tokio::join!(ask(&mut one, "/slow"), ask(&mut two, "/panic"));
            assert_eq!(slow.unwrap(), "late");
            assert!(panicked.is_err());
            assert_eq!(ask(&mut sender, "/b").await.unwrap(), "/b 0");
            assert_eq!(server.census.open(), 1);
        });
    }

    #[test]
    fn a_cancelled_stream_ends_its_exchange() {
        let server = server(|_| {});
        with_client(&server, async |mut sender, _connection, _socket| {
            let request = Request::get("http://a/hang").body(Empty::new()).unwrap();
            let asked = sender.send_request(request);
            let cancelled = tokio::time::timeout(Duration::from_millis(100), asked).await;
            assert!(cancelled.is_err());
            while count(&server.seen.dropped) < 1 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }

    #[test]
    fn a_lost_connection_ends_its_exchanges() {
        let server = server(|_| {});
        with_client(&server, async |mut sender, _connection, socket| {
            let hanging = async { ask(&mut sender, "/hang").await };
            let leaving = async {
                while count(&server.seen.started) < 1 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                socket.shutdown(Shutdown::Both).unwrap();
            };
            tokio::join!(hanging, leaving).0.unwrap_err();
        });
        eventually("its end", || count(&server.seen.dropped) == 1);
        eventually("no connection left", || server.census.open() == 0);
    }

    #[test]
    fn an_idle_connection_is_told_to_go() {
        let server = server(|bounds| bounds.keepalive_idle_us = 100_000);
        with_client(&server, async |mut sender, connection, _socket| {
            ask(&mut sender, "/a").await.unwrap();
            connection.await.unwrap().unwrap();
        });
    }

    #[test]
    fn leaving_finishes_what_runs_and_closes() {
        let server = server(|_| {});
        with_client(&server, async |mut sender, connection, _socket| {
            let mut other = sender.clone();
            let slow = async { ask(&mut other, "/slow").await.unwrap() };
            let leave = async {
                while count(&server.seen.started) < 1 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                server.stage.send_replace(Stage::Leaving);
            };
            assert_eq!(tokio::join!(slow, leave).0, "late");
            connection.await.unwrap().unwrap();
            assert!(ask(&mut sender, "/late").await.is_err());
        });
        assert!(server.census.wait_empty(PATIENCE));
    }
}

mod frames {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    fn preface() -> Vec<u8> {
        [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(4, 0, 0, b""),
        ]
        .concat()
    }

    #[test]
    fn a_head_that_does_not_end_ends_the_connection() {
        let server = server(|bounds| bounds.header_timeout_us = 200_000);
        // `:method: GET`, and then nothing; once the frame is cut, once the block is not ended.
        for head in [
            frame(1, 5, 1, &[0x82, 0x87])[..10].to_vec(),
            frame(1, 1, 1, &[0x82]),
        ] {
            let mut client = server.with([preface(), head].concat());
            client.rest();
            eventually("it to be gone", || server.census.open() == 0);
        }
        assert_eq!(count(&server.seen.started), 0);
    }

    #[test]
    fn a_preface_that_does_not_end_is_a_head_that_does_not_end() {
        let server = server(|bounds| bounds.header_timeout_us = 100_000);
        assert_eq!(server.with("PRI * HTTP/2.0\r\n").answer().status, 408);
    }

    #[test]
    fn floods_of_frames_that_carry_nothing_end_the_connection() {
        let server = server(|_| {});
        for (kind, payload) in [(0, b"".as_slice()), (2, b"\0\0\0\0\0"), (9, b"")] {
            let mut client = server.with(preface());
            if kind != 2 {
                // An open request: `:method: POST`, its head ended or not.
                client.send(frame(
                    1,
                    if kind == 0 { 4 } else { 0 },
                    1,
                    &[0x83, 0x86, 0x84],
                ));
            }
            let flood = frame(kind, 0, if kind == 2 { 3 } else { 1 }, payload).repeat(500);
            eventually("a refusal", || client.stream.write_all(&flood).is_err());
            eventually("it to be gone", || server.census.open() == 0);
        }
    }
}
