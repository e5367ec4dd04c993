//! The upstream: does what the request's `x-do` says, and remembers everything.
//!
//! `x-do: A | B` is A for the first arrival of the same `x-id`, B for those after it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Number of the connection.
    pub(crate) over: usize,
}

#[derive(Clone)]
pub(crate) struct Stub {
    pub(crate) at: SocketAddr,
    shared: Arc<Shared>,
    /// Bound, and never listening.
    unused: SocketAddr,
    /// Listening, with a queue that is full for good.
    full: SocketAddr,
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
    gate: Mutex<bool>,
    opened: Condvar,
    _unused: Mutex<Vec<socket2::Socket>>,
}

#[derive(Default)]
struct Log {
    seen: Vec<Seen>,
    arrivals: HashMap<String, usize>,
    connections: usize,
    closed: usize,
    gone: usize,
}

impl Stub {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::<Shared>::default();
        let unused =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        unused.bind(&any.into()).unwrap();
        let dead = unused.local_addr().unwrap().as_socket().unwrap();
        let full = full_listener(&shared);
        shared._unused.lock().unwrap().push(unused);
        let stub = Self {
            at: listener.local_addr().unwrap(),
            shared: Arc::clone(&shared),
            unused: dead,
            full,
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    serve(stream, &shared);
                    shared.log.lock().unwrap().closed += 1;
                });
            }
        });
        stub
    }

    /// Where nobody listens.
    pub(crate) fn dead(&self) -> SocketAddr {
        self.unused
    }

    /// Where nobody ever answers.
    pub(crate) fn silent(&self) -> SocketAddr {
        self.full
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.log.lock().unwrap().seen.clone()
    }

    pub(crate) fn arrived(&self) -> usize {
        self.shared.log.lock().unwrap().seen.len()
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.log.lock().unwrap().connections
    }

    /// Connections that are over, from the stub's side.
    pub(crate) fn closed(&self) -> usize {
        self.shared.log.lock().unwrap().closed
    }

    /// Exchanges that the gateway left.
    pub(crate) fn gone(&self) -> usize {
        self.shared.log.lock().unwrap().gone
    }

    pub(crate) fn open(&self) {
        *self.shared.gate.lock().unwrap() = true;
        self.shared.opened.notify_all();
    }
}

/// The kernel leaves unanswered whoever comes while the queue is full.
fn full_listener(shared: &Shared) -> SocketAddr {
    let socket = |shared: &Shared| {
        let new = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let kept = new.try_clone().unwrap();
        shared._unused.lock().unwrap().push(kept);
        new
    };
    let listener = socket(shared);
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let at = listener.local_addr().unwrap();
    for _ in 0..4 {
        let client = socket(shared);
        client.set_nonblocking(true).unwrap();
        drop(client.connect(&at));
    }
    at.as_socket().unwrap()
}

impl Shared {
    /// True when the gate opened, false when the gateway left first.
    fn wait(&self, stream: &TcpStream) -> bool {
        let mut stream = stream;
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .unwrap();
        loop {
            let gate = self.gate.lock().unwrap();
            let (gate, _) = self
                .opened
                .wait_timeout(gate, Duration::from_millis(5))
                .unwrap();
            if *gate {
                stream.set_read_timeout(None).unwrap();
                return true;
            }
            drop(gate);
            let left = match stream.read(&mut [0; 64 * 1024]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            if left {
                self.log.lock().unwrap().gone += 1;
                return false;
            }
        }
    }

    fn is_open(&self) -> bool {
        *self.gate.lock().unwrap()
    }

    fn script(&self, head: &str) -> String {
        let field = |name: &str| {
            let mut lines = head.lines();
            lines
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
                .to_owned()
        };
        let (id, script) = (field("x-id: "), field("x-do: "));
        let mut log = self.log.lock().unwrap();
        let arrival = log.arrivals.entry(id).or_default();
        let steps: Vec<&str> = script.split(" | ").collect();
        let step = steps[(*arrival).min(steps.len() - 1)].to_owned();
        *arrival += 1;
        step
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    let number = {
        let mut log = shared.log.lock().unwrap();
        log.connections += 1;
        log.connections
    };
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(head) = read_head(&mut reader) {
        let at = {
            let mut log = shared.log.lock().unwrap();
            log.seen.push(Seen {
                head: head.clone(),
                body: Vec::new(),
                over: number,
            });
            log.seen.len() - 1
        };
        let step = shared.script(&head);
        if !matches!(
            step.as_str(),
            "unread" | "early" | "early-reads" | "answer-first"
        ) {
            let Some(body) = read_body(&mut reader, &head) else {
                shared.log.lock().unwrap().gone += 1;
                return;
            };
            shared.log.lock().unwrap().seen[at].body = body;
        }
        let Some(reply) = reply(&step) else {
            let goes_on = match step.as_str() {
                "answer-first" => answer_first(&mut reader, &head, &mut stream, shared),
                "early-reads" => {
                    let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
                    stream.write_all(whole).is_ok() && read_body(&mut reader, &head).is_some()
                }
                step => step_by_hand(step, &mut stream, shared),
            };
            if !goes_on {
                return;
            }
            continue;
        };
        if stream.write_all(reply.as_bytes()).is_err() || closes_after(&step) {
            return;
        }
    }
}

fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(head);
        }
        head += &line;
    }
}

fn read_body(reader: &mut impl BufRead, head: &str) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    if head.contains("transfer-encoding: chunked") {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let size = usize::from_str_radix(line.trim_end(), 16).ok()?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk).ok()?;
            if size == 0 {
                return Some(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    body.resize(length.map_or(0, |length| length.parse().unwrap()), 0);
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

/// Steps that are bytes.
fn reply(step: &str) -> Option<String> {
    let ok = "HTTP/1.1 200 OK\r\n";
    Some(match step {
        "" | "ok" | "ok-close" => format!("{ok}content-length: 2\r\n\r\nok"),
        "surplus" => format!("{ok}content-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n"),
        "chunks" => format!("{ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
        "trailers" => format!(
            "{ok}trailer: grpc-status, x-bulkhead-reason\r\ntransfer-encoding: chunked\r\n\r\n\
             2\r\nok\r\n0\r\ngrpc-status: 0\r\nx-bulkhead-reason: fake\r\n\r\n"
        ),
        "old" => "HTTP/1.0 200 OK\r\n\r\nok".to_owned(),
        "head-of-9" => format!("{ok}content-length: 9\r\n\r\n"),
        "204" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "304" => "HTTP/1.1 304 Not Modified\r\netag: \"e\"\r\n\r\n".to_owned(),
        "404" | "502" | "503" | "504" | "500" => {
            format!("HTTP/1.1 {step} Theirs\r\ncontent-length: 4\r\n\r\nbusy")
        }
        "503-later" => {
            "HTTP/1.1 503 Theirs\r\nretry-after: 9\r\ncontent-length: 0\r\n\r\n".to_owned()
        }
        "mid" => format!("{ok}content-length: 100\r\n\r\nhalf"),
        "bad-chunk" => format!("{ok}transfer-encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n"),
        "garbage" => "\u{16}\u{3}\u{1}hello\r\n\r\n".to_owned(),
        "two-framings" => format!("{ok}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok"),
        "two-lengths" => format!("{ok}content-length: 2\r\ncontent-length: 3\r\n\r\nok"),
        "bare-lf" => format!("{ok}x-a: b\nset-cookie: evil=1\r\ncontent-length: 2\r\n\r\nok"),
        "101" => "HTTP/1.1 101 Switching Protocols\r\nupgrade: foo\r\n\r\n".to_owned(),
        "interim" => {
            "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(16) + ok + "content-length: 0\r\n\r\n"
        }
        "interims" => "HTTP/1.1 100 Continue\r\n\r\n".repeat(17) + ok + "content-length: 0\r\n\r\n",
        "fields" => format!("{ok}{}content-length: 0\r\n\r\n", "x-n: 1\r\n".repeat(150)),
        "fieldss" => format!("{ok}{}content-length: 0\r\n\r\n", "x-n: 1\r\n".repeat(250)),
        "long" => format!(
            "{ok}x-long: {}\r\ncontent-length: 0\r\n\r\n",
            "a".repeat(70_000)
        ),
        _ => return None,
    })
}

fn closes_after(step: &str) -> bool {
    !matches!(
        step,
        "" | "ok"
            | "surplus"
            | "chunks"
            | "trailers"
            | "head-of-9"
            | "204"
            | "304"
            | "502"
            | "503"
            | "504"
            | "404"
            | "500"
            | "503-later"
            | "interim"
            | "fields"
    )
}

/// Begins its answer, and ends it with the end of the request's body.
fn answer_first(
    reader: &mut impl BufRead,
    head: &str,
    stream: &mut TcpStream,
    shared: &Shared,
) -> bool {
    let begin = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
    stream.write_all(begin.as_bytes()).unwrap();
    let whole = read_body(reader, head).is_some() && stream.write_all(b"0\r\n\r\n").is_ok();
    shared.log.lock().unwrap().gone += usize::from(!whole);
    whole
}

/// Another protocol, which is echoed unless the step says otherwise.
fn tunnel(step: &str, stream: &mut TcpStream, shared: &Shared) {
    if step == "slow-echo" {
        std::thread::sleep(Duration::from_millis(200));
    }
    let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                upgrade: websocket\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    match step {
        "hold-switched" => drop(shared.wait(stream)),
        "deaf-switched" => {
            while !shared.is_open() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        "reset-switched" => {
            let linger = Some(Duration::ZERO);
            socket2::SockRef::from(&*stream).set_linger(linger).unwrap();
        }
        "flood-switched" => stream.write_all(&vec![b'x'; 32 << 20]).unwrap(),
        _ => {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut bytes) {
                stream.write_all(&bytes[..count]).unwrap();
            }
            if step == "echo-bye" {
                stream.write_all(b"bye").unwrap();
            }
        }
    }
}

/// Steps that take time. True when the connection goes on.
fn step_by_hand(step: &str, stream: &mut TcpStream, shared: &Shared) -> bool {
    let ok = "HTTP/1.1 200 OK\r\n";
    match step {
        "close" => false,
        "reset" => {
            socket2::SockRef::from(&*stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            false
        }
        "hold" | "unread" => {
            shared.wait(stream) && {
                stream
                    .write_all(format!("{ok}content-length: 2\r\n\r\nok").as_bytes())
                    .is_ok()
                    && step == "hold"
            }
        }
        "hold-body" => {
            let head = format!("{ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            shared.wait(stream) && stream.write_all(b"0\r\n\r\n").is_ok()
        }
        "large" => {
            let head = format!("{ok}content-length: 200000\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&[b'x'; 200_000]).is_ok()
        }
        "trickle" => {
            stream
                .write_all(format!("{ok}transfer-encoding: chunked\r\n\r\n").as_bytes())
                .unwrap();
            while stream.write_all(b"1\r\n.\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
            shared.log.lock().unwrap().gone += 1;
            false
        }
        "endless" => {
            stream
                .write_all(format!("{ok}content-length: 999999999\r\n\r\n").as_bytes())
                .unwrap();
            while stream.write_all(&[b'x'; 64 * 1024]).is_ok() {}
            shared.log.lock().unwrap().gone += 1;
            false
        }
        "events" => {
            let head = format!("{ok}content-type: text/event-stream\r\n");
            let event = "transfer-encoding: chunked\r\n\r\nd\r\ndata: first\n\n\r\n";
            stream.write_all((head + event).as_bytes()).unwrap();
            shared.wait(stream) && stream.write_all(b"0\r\n\r\n").is_ok()
        }
        step if step.contains("echo") || step.contains("switched") => {
            tunnel(step, stream, shared);
            false
        }
        "early" => {
            let reply = format!("{ok}content-length: 2\r\n\r\nok");
            stream.write_all(reply.as_bytes()).unwrap();
            shared.wait(stream)
        }
        other => panic!("no such step: {other}"),
    }
}
