//! What is known of one client connection: who it is, in which phase, and how it ends.
//!
//! Separate because the connection's driver, its socket and every request on it share it, on one
//! thread. It must never do I/O, and it holds no permit: those end with their exchange.

mod running;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use tokio::net::TcpStream;

use self::running::Streams;
pub(crate) use self::running::{Running, Stream};

/// A connection that has served this many requests closes after the next answer, so that clients
/// spread anew over the threads.
pub(crate) const CONNECTION_REQUESTS_MAX: u32 = 1_000;

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing of a request has been sent, and no protocol is known yet.
    New,
    /// Kept between two requests.
    Idle,
    /// Part of a head has arrived.
    Head,
    /// At least one request is being answered.
    Busy,
}

/// How a connection ended, for what ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is open, or it ended as both sides wished.
    Open,
    /// The client closed or reset it.
    ClientGone,
    /// The client did not read: cut by us.
    SlowClient,
    /// The client sent what only an attacker sends: cut by us.
    Abuser,
    /// The process ends; the request is told so.
    Refused,
}

/// Where the client's bytes could be understood in two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubted {
    /// In a head: nobody has seen that request.
    Head,
    /// In the body of a request that is being served.
    Body,
}

/// What the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.0 or 1.1: one request at a time.
    Http1,
    /// HTTP/2: many.
    Http2,
}

/// What speaks to the client when it has been told that the protocol is another one from now on:
/// it gets the socket and the bytes that were read too far. Dropping it gives up.
pub(crate) struct Switch(pub(crate) Box<dyn FnOnce(TcpStream, Bytes) -> Switched>);

/// Ends with the connection.
pub(crate) type Switched = Pin<Box<dyn Future<Output = ()>>>;

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Switch")
    }
}

/// One client connection, on the thread that accepted it.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: SocketAddr,
    protocol: Cell<Protocol>,
    phase: Cell<Phase>,
    /// `None`: the phase has changed and nobody has looked at a clock since.
    since_us: Cell<Option<u64>>,
    running: Cell<u32>,
    served: Cell<u32>,
    answer_ended: Cell<bool>,
    old_version: Cell<bool>,
    leaving: Cell<bool>,
    going: Cell<bool>,
    refusing: Cell<bool>,
    blocked_since_us: Cell<Option<u64>>,
    block_open_since_us: Cell<Option<u64>>,
    watched: Cell<bool>,
    fate: Cell<Fate>,
    doubt: Cell<Option<Doubted>>,
    /// HTTP/1: heads that have come, and whether the last one's body is to be read still.
    body_open: Cell<(u32, bool)>,
    answer_ends_us: Cell<u64>,
    /// The request path has had its first look at the request.
    looked_at: Cell<bool>,
    new_stream: RefCell<Option<Rc<Stream>>>,
    switch: RefCell<Option<Switch>>,
    streams: Streams,
    refusals: Cell<u32>,
    waker: RefCell<Option<Waker>>,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, now_us: u64) -> Rc<Self> {
        Rc::new(Self {
            peer,
            protocol: Cell::new(Protocol::Http1),
            phase: Cell::new(Phase::New),
            since_us: Cell::new(Some(now_us)),
            running: Cell::new(0),
            served: Cell::new(0),
            answer_ended: Cell::new(false),
            old_version: Cell::new(false),
            leaving: Cell::new(false),
            going: Cell::new(false),
            refusing: Cell::new(false),
            blocked_since_us: Cell::new(None),
            block_open_since_us: Cell::new(None),
            watched: Cell::new(true),
            fate: Cell::new(Fate::Open),
            doubt: Cell::new(None),
            body_open: Cell::new((0, false)),
            answer_ends_us: Cell::new(u64::MAX),
            looked_at: Cell::new(true),
            new_stream: RefCell::new(None),
            switch: RefCell::new(None),
            streams: Streams::default(),
            refusals: Cell::new(0),
            waker: RefCell::new(None),
        })
    }

    /// The client's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol.get()
    }

    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.protocol.set(protocol);
    }

    /// True when every answer says `connection: close`.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// True when it closes as soon as nothing is running.
    pub(crate) fn is_going(&self) -> bool {
        self.going.get()
    }

    /// How it ended; read by what is dropped with it.
    pub(crate) fn fate(&self) -> Fate {
        self.fate.get()
    }

    /// The first reason stays.
    pub(crate) fn set_fate(&self, fate: Fate) {
        if self.fate.get() == Fate::Open {
            self.fate.set(fate);
        }
    }

    /// What `end` drops, a part of the connection, ends so; the rest goes on.
    pub(crate) fn ending_with(&self, fate: Fate, end: impl FnOnce()) {
        let whole = self.fate.get();
        self.set_fate(fate);
        end();
        self.fate.set(whole);
    }

    /// Set once, by the reader below hyper.
    pub(crate) fn doubt(&self) -> Option<Doubted> {
        self.doubt.get()
    }

    pub(crate) fn set_doubt(&self, doubt: Doubted) {
        self.doubt.set(Some(doubt));
    }

    /// Set with every byte, by the reader below hyper.
    pub(crate) fn set_body_open(&self, heads: u32, open: bool) {
        self.body_open.set((heads, open));
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Its next answer is its last. An idle connection stays open for one more request: a client
    /// that has just sent it must not lose it.
    pub(crate) fn leave(&self) {
        self.leaving.set(true);
        self.wake();
    }

    /// As [`Self::leave`], and an idle connection closes now.
    pub(crate) fn go(&self) {
        self.going.set(true);
        self.leave();
    }

    /// As [`Self::go`], and requests without an answer are refused.
    pub(crate) fn refuse(&self) {
        self.refusing.set(true);
        self.streams.wake_all();
        self.go();
    }

    pub(crate) fn is_refusing(&self) -> bool {
        self.refusing.get()
    }

    /// Refusals in a row, for those who hold them.
    pub(crate) fn refusals(&self) -> &Cell<u32> {
        &self.refusals
    }

    /// Whom to wake when something about the connection changed.
    pub(crate) fn remember_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Bytes came from the client.
    pub(crate) fn bytes_arrived(&self) {
        if matches!(self.phase.get(), Phase::New | Phase::Idle) && !self.is_http2() {
            self.enter(Phase::Head);
        }
    }

    /// The protocol is known and no request has been seen.
    pub(crate) fn became_idle(&self) {
        self.enter(Phase::Idle);
    }

    /// A whole head was read. The guard lives as long as the request or its answer.
    pub(crate) fn begin_request(self: &Rc<Self>, old_version: bool) -> Running {
        self.running.set(self.running.get().saturating_add(1));
        self.served.set(self.served.get().saturating_add(1));
        self.old_version.set(old_version);
        self.answer_ended.set(false);
        self.phase.set(Phase::Busy);
        if self.served.get() >= CONNECTION_REQUESTS_MAX {
            self.leaving.set(true);
        }
        self.answer_ends_us.set(u64::MAX);
        self.looked_at.set(self.is_http2());
        let stream = self.is_http2().then(|| {
            let stream = self.streams.begin();
            self.new_stream.replace(Some(Rc::clone(&stream)));
            stream
        });
        Running::new(self, stream)
    }

    /// The request that has just begun, for the owner of its stream.
    pub(crate) fn take_stream(&self) -> Option<Rc<Stream>> {
        self.new_stream.take()
    }

    /// HTTP/1: after the answer under way the connection is another protocol's.
    pub(crate) fn set_switch(&self, switch: Switch) {
        self.switch.replace(Some(switch));
    }

    /// To be asked when HTTP has ended.
    pub(crate) fn take_switch(&self) -> Option<Switch> {
        self.switch.take()
    }

    /// Requests so far.
    pub(crate) fn served(&self) -> u32 {
        self.served.get()
    }

    /// HTTP/1: false between a head and the first look at its request.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.looked_at.get()
    }

    pub(crate) fn look(&self) {
        self.looked_at.set(true);
    }

    /// HTTP/1: when the answer under way ends at the latest.
    pub(crate) fn answer_ends_us(&self) -> u64 {
        self.answer_ends_us.get()
    }

    /// Everything that was to be written has been handed to the kernel.
    pub(crate) fn flushed(&self) {
        if self.answer_ended.get() {
            self.answer_ended.set(false);
            self.enter(Phase::Idle);
        }
    }

    /// HTTP/1.0 shows the end of an answer by closing.
    pub(crate) fn is_old_version(&self) -> bool {
        self.old_version.get()
    }

    /// True while nothing that hyper writes can be part of an answer of ours.
    pub(crate) fn is_between_answers(&self) -> bool {
        self.phase.get() != Phase::Busy && !self.is_http2()
    }

    /// The kernel takes no more bytes for this client.
    pub(crate) fn write_blocked(&self, now_us: u64) {
        self.blocked_since_us.set(Some(now_us));
    }

    pub(crate) fn write_moved(&self) {
        self.blocked_since_us.set(None);
    }

    pub(crate) fn blocked_since_us(&self) -> Option<u64> {
        self.blocked_since_us.get()
    }

    /// Whether somebody is woken when the client sends or leaves. hyper reads no further while it
    /// has a next request, or a piece of a body that nobody takes.
    pub(crate) fn set_watched(&self, watched: bool) {
        self.watched.set(watched);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.get() || self.is_http2()
    }

    /// HTTP/2: whether the head of a request has begun and not ended.
    pub(crate) fn block_open(&self, open: bool, now_us: impl FnOnce() -> u64) {
        match (open, self.block_open_since_us.get()) {
            (true, None) => self.block_open_since_us.set(Some(now_us())),
            (false, Some(_)) => self.block_open_since_us.set(None),
            (true, Some(_)) | (false, None) => {}
        }
    }

    pub(crate) fn block_open_since_us(&self) -> Option<u64> {
        self.block_open_since_us.get()
    }

    /// When the phase began; `now_us` is asked only when nobody has looked since it changed.
    pub(crate) fn phase_since_us(&self, now_us: impl FnOnce() -> u64) -> u64 {
        let since_us = self.since_us.get().unwrap_or_else(now_us);
        self.since_us.set(Some(since_us));
        since_us
    }

    fn is_http2(&self) -> bool {
        self.protocol.get() == Protocol::Http2
    }

    /// The driver looks again.
    fn wake(&self) {
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    fn enter(&self, phase: Phase) {
        self.phase.set(phase);
        self.since_us.set(None);
    }
}
