//! The upstream, and the judge: its own count of calls at one time, against what was in force.
//!
//! Fair to calls that were left: before it counts, it asks the kernel whether the gateway has
//! closed the connection of each call that it thinks is running.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use crate::ledger::Ledger;

/// Verdicts that are kept: one is enough to fail.
const VERDICTS_MAX: usize = 20;
/// Longest time that a call hangs.
const HANG: Duration = Duration::from_secs(5);

/// What the judge has to say, shared with the main thread.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) calls: u64,
    pub(crate) left: u64,
    pub(crate) peaks: BTreeMap<String, u32>,
    pub(crate) verdicts: Vec<String>,
}

struct Judge {
    ledger: Arc<Ledger>,
    record: Arc<Mutex<Record>>,
    next: Cell<u64>,
    running: RefCell<HashMap<u64, Call>>,
}

struct Call {
    keys: Vec<String>,
    wire: Rc<Wire>,
}

/// One connection from the gateway.
pub(crate) struct Wire {
    stream: TcpStream,
    input: RefCell<Vec<u8>>,
    closed: Cell<bool>,
}

impl Wire {
    pub(crate) fn of(stream: TcpStream) -> Self {
        Self {
            stream,
            input: RefCell::default(),
            closed: Cell::new(false),
        }
    }

    /// Reads what the kernel has, whether the runtime has heard of it or not.
    fn pump(&self) -> std::io::Result<()> {
        let socket = SockRef::from(&self.stream);
        let mut bytes = [0; 64 * 1024];
        loop {
            match (&*socket).read(&mut bytes) {
                Ok(0) => self.closed.set(true),
                Ok(count) => {
                    self.input.borrow_mut().extend_from_slice(&bytes[..count]);
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.closed.set(true),
            }
            return Ok(());
        }
    }

    /// Waits for more; false at the end.
    async fn more(&self) -> bool {
        let before = self.input.borrow().len();
        loop {
            drop(self.stream.try_io(Interest::READABLE, || self.pump()));
            if self.input.borrow().len() > before {
                return true;
            }
            if self.closed.get() || self.stream.readable().await.is_err() {
                return false;
            }
        }
    }

    /// The next head, in lower case; `None` at the end.
    pub(crate) async fn head(&self) -> Option<String> {
        loop {
            let end = find(&self.input.borrow(), b"\r\n\r\n");
            if let Some(end) = end {
                let head: Vec<u8> = self.input.borrow_mut().drain(..end).collect();
                return Some(String::from_utf8_lossy(&head).to_lowercase());
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Reads the body that the head announces; false when it does not come.
    pub(crate) async fn body(&self, head: &str) -> bool {
        if head.contains("transfer-encoding: chunked") {
            return self.until(b"0\r\n\r\n").await;
        }
        let length: usize = field(head, "content-length").parse().unwrap_or(0);
        while self.input.borrow().len() < length {
            if !self.more().await {
                return false;
            }
        }
        self.input.borrow_mut().drain(..length);
        true
    }

    /// The client's bodies have no zero in them but at their end.
    async fn until(&self, mark: &[u8]) -> bool {
        loop {
            let end = find(&self.input.borrow(), mark);
            if let Some(end) = end {
                self.input.borrow_mut().drain(..end);
                return true;
            }
            if !self.more().await {
                return false;
            }
        }
    }

    pub(crate) async fn send(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    // A gateway that has left is noticed by reading.
                    tokio::select! {
                        _ = self.stream.writable() => {}
                        more = self.more() => if !more { return false },
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// False when the gateway leaves before.
    async fn pause(&self, length: Duration) -> bool {
        let left = async { while self.more().await {} };
        timeout(length, left).await.is_err()
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    let at = bytes.windows(mark.len()).position(|window| window == mark);
    at.map(|at| at + mark.len())
}

pub(crate) fn field<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_default()
}

impl Judge {
    /// Counts a call that has just arrived, and those that run beside it.
    fn arrive(self: &Rc<Self>, head: &str, wire: &Rc<Wire>) -> Seat {
        let mut running = self.running.borrow_mut();
        let mut record = self.record.lock().unwrap();
        let before = running.len();
        running.retain(|_, call| {
            drop(call.wire.pump());
            !call.wire.closed.get()
        });
        record.left += u64::try_from(before - running.len()).unwrap();
        record.calls += 1;
        let number = self.next.replace(self.next.get() + 1);
        let (keys, wire) = (keys(head), Rc::clone(wire));
        running.insert(
            number,
            Call {
                keys: keys.clone(),
                wire,
            },
        );
        for key in &keys {
            let together = running
                .values()
                .filter(|call| call.keys.contains(key))
                .count();
            let together = u32::try_from(together).unwrap();
            let peak = record.peaks.entry(key.clone()).or_default();
            *peak = together.max(*peak);
            let over = self.ledger.most(key).filter(|most| together > *most);
            if let Some(most) = over
                && record.verdicts.len() < VERDICTS_MAX
            {
                record
                    .verdicts
                    .push(format!("{key}: {together} at once, {most} allowed"));
            }
        }
        Seat {
            of: Rc::clone(self),
            number,
        }
    }
}

/// One counted call; dropping it ends it.
struct Seat {
    of: Rc<Judge>,
    number: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.of.running.borrow_mut().remove(&self.number);
    }
}

/// The compartments that a call holds a slot of.
fn keys(head: &str) -> Vec<String> {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let route = path
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    let tenant = field(head, "x-bulkhead-tenant");
    let is_stream = route == "live"
        && (head.contains("upgrade: websocket") || field(head, "accept") == "text/event-stream");
    let stream = if is_stream { "/stream" } else { "" };
    vec![
        "gateway".to_owned(),
        "upstream/stub".to_owned(),
        format!("route/{route}{stream}"),
        format!("tenant/{tenant}"),
        format!("route/{route}/tenant/{tenant}"),
    ]
}

/// Serves for ever, on a thread of its own.
pub(crate) fn start(ledger: Arc<Ledger>, record: Arc<Mutex<Record>>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let judge = Rc::new(Judge {
            ledger,
            record,
            next: Cell::new(0),
            running: RefCell::default(),
        });
        LocalSet::new().block_on(&runtime, accept(listener, judge));
    });
    at
}

async fn accept(listener: std::net::TcpListener, judge: Rc<Judge>) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        while connections.try_join_next().is_some() {}
        let wire = Rc::new(Wire::of(stream));
        connections.spawn_local(serve(wire, Rc::clone(&judge)));
    }
}

async fn serve(wire: Rc<Wire>, judge: Rc<Judge>) {
    while let Some(head) = wire.head().await {
        let seat = judge.arrive(&head, &wire);
        if !answer(&wire, &head, seat).await {
            return;
        }
    }
}

/// Does what the request says; true when the connection goes on.
async fn answer(wire: &Wire, head: &str, seat: Seat) -> bool {
    let mut words = field(head, "x-do").split(' ');
    let (step, number) = (words.next().unwrap_or_default(), words.next());
    let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or(2);
    let bytes = usize::try_from(number).unwrap();
    // Permits of this route end with the head.
    let mut seat = Some(seat);
    let by_head = head.contains(" /heads");
    if !matches!(step, "early" | "reset" | "switch") && !wire.body(head).await {
        return false;
    }
    let echo = field(head, "x-id");
    let begin =
        |more: &str| format!("HTTP/1.1 200 OK\r\nx-echo: {echo}\r\n{more}\r\n").into_bytes();
    if by_head && step != "hang" {
        seat.take();
    }
    match step {
        "reset" => false,
        "hang" => {
            wire.pause(HANG).await;
            false
        }
        "slow" => {
            if !wire.pause(Duration::from_millis(number)).await {
                return false;
            }
            drop(seat);
            wire.send(&[begin("content-length: 2\r\n"), b"ok".to_vec()].concat())
                .await
        }
        "big" => {
            let head = begin(&format!("content-length: {bytes}\r\n"));
            let body = vec![b'x'; bytes];
            let (most, last) = body.split_at(bytes.saturating_sub(1));
            let sent = wire.send(&head).await && wire.send(most).await;
            drop(seat);
            sent && wire.send(last).await
        }
        "trickle" => {
            let mut sent = wire.send(&begin("transfer-encoding: chunked\r\n")).await;
            for _ in 0..number {
                sent = sent && wire.send(b"1\r\n.\r\n").await;
                sent = sent && wire.pause(Duration::from_millis(50)).await;
            }
            drop(seat);
            sent && wire.send(b"0\r\n\r\n").await
        }
        "mid" => {
            wire.send(&begin("content-length: 100\r\n")).await;
            wire.send(b"half").await;
            false
        }
        "garbage" => {
            wire.send(b"\x16\x03\x01 nonsense\r\n\r\n").await;
            false
        }
        "503" => {
            drop(seat);
            wire.send(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n")
                .await
        }
        "switch" if head.contains("upgrade: websocket") => switch(wire, head).await,
        "events" => {
            let begun = begin("content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n");
            let mut sent = wire.send(&begun).await;
            for _ in 0..number {
                sent = sent && wire.send(b"9\r\ndata: 1\n\n\r\n").await;
                sent = sent && wire.pause(Duration::from_millis(50)).await;
            }
            drop(seat);
            sent && wire.send(b"0\r\n\r\n").await
        }
        _ => {
            drop(seat);
            let sent = wire
                .send(&[begin("content-length: 2\r\n"), b"ok".to_vec()].concat())
                .await;
            // Early answers leave a body unread: such a connection is not used again.
            sent && step != "early" && step != "switch"
        }
    }
}

/// A tunnel that says everything back.
async fn switch(wire: &Wire, head: &str) -> bool {
    let key = field(head, "sec-websocket-key");
    let accept = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-accept: {key}\r\n\r\n"
    );
    let mut open = wire.send(accept.as_bytes()).await;
    while open {
        let bytes = std::mem::take(&mut *wire.input.borrow_mut());
        open = wire.send(&bytes).await && wire.more().await;
    }
    false
}
