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

mod ends;
mod frames;
mod heads;
mod http2;
mod kept;

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
            "/endless" | "/cut" | "/break" => {
                let mut left = if path == "/endless" { usize::MAX } else { 2 };
                let chunks = std::iter::from_fn(move || {
                    let _held = &exchange;
                    left = left.checked_sub(1)?;
                    assert!(left > 0 || path != "/break", "the script says so");
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

    fn leaves_request(_: &ScriptBody) -> bool {
        true
    }

    fn ends_at_us(_: &ScriptBody) -> u64 {
        u64::MAX
    }

    fn broken(&self, _: &Connection) -> Response<ScriptBody> {
        text(500, "broken".to_owned())
    }

    fn draining(&self, _: &Connection) -> Response<ScriptBody> {
        text(503, "draining".to_owned())
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

    fn now(&self) -> Rc<Now> {
        Now::new(Clock::start())
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
        census: Arc::clone(&census),
        upstream_idle_max: 0,
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
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn count(counter: &AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}
