//! A request that is being answered, as its connection sees it.
//!
//! Separate from the connection because its end is a drop, wherever the answer was dropped. It
//! must never hold what the exchange holds: permits are back before it is.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::Waker;

use super::{Connection, Phase, Protocol};

/// A client that takes less than this within `write_stall` does not read. One frame.
const PIECE_BYTES_MAX: usize = 16 * 1024;

/// One request being answered. Dropping it says that its answer has ended, in whatever way.
#[derive(Debug)]
#[must_use = "dropping it ends the request"]
pub(crate) struct Running {
    connection: Rc<Connection>,
    /// HTTP/2 only.
    stream: Option<Rc<Stream>>,
}

/// What the owner of an HTTP/2 stream has to know of its answer, which it cannot look into.
#[derive(Debug)]
pub(crate) struct Stream {
    ends_at_us: Cell<u64>,
    /// Since when the answer has bytes and the client gives no room for them.
    blocked_since_us: Cell<Option<u64>>,
    waker: RefCell<Option<Waker>>,
}

/// The streams of one connection that still run. Bounded by what HTTP/2 allows at once.
#[derive(Debug, Default)]
pub(super) struct Streams(RefCell<Vec<Weak<Stream>>>);

impl Streams {
    pub(super) fn begin(&self) -> Rc<Stream> {
        let stream = Rc::new(Stream::new());
        let mut all = self.0.borrow_mut();
        // Those that have ended make room; only then does the list grow.
        if all.len() == all.capacity() {
            all.retain(|stream| stream.strong_count() > 0);
        }
        all.push(Rc::downgrade(&stream));
        stream
    }

    pub(super) fn wake_all(&self) {
        for stream in self.0.borrow().iter().filter_map(Weak::upgrade) {
            if let Some(waker) = stream.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }
}

impl Stream {
    fn new() -> Self {
        Self {
            ends_at_us: Cell::new(u64::MAX),
            blocked_since_us: Cell::new(None),
            waker: RefCell::default(),
        }
    }

    /// Whom to wake when the connection has news for all its streams.
    pub(crate) fn remember_waker(&self, waker: &Waker) {
        let mut kept = self.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// When the answer ends at the latest; `u64::MAX` while there is none.
    pub(crate) fn ends_at_us(&self) -> u64 {
        self.ends_at_us.get()
    }

    pub(crate) fn blocked_since_us(&self) -> Option<u64> {
        self.blocked_since_us.get()
    }
}

impl Running {
    pub(super) fn new(connection: &Rc<Connection>, stream: Option<Rc<Stream>>) -> Self {
        Self {
            connection: Rc::clone(connection),
            stream,
        }
    }

    /// The request path looks at it now.
    pub(crate) fn look(&self) {
        self.connection.look();
    }

    /// True when the client must be told not to send another request here.
    pub(crate) fn is_last_answer(&self) -> bool {
        self.connection.leaving.get() && !self.connection.is_http2()
    }

    /// True when part of the request's body has not been read. If nobody takes it, the connection
    /// cannot be used again. A later request's body, in a pipeline, does not count.
    pub(crate) fn is_body_open(&self) -> bool {
        let (heads, open) = self.connection.body_open.get();
        open && heads == self.connection.served.get() && !self.connection.is_http2()
    }

    /// The head of the answer is known.
    pub(crate) fn answer_began(&self, ends_at_us: u64, now_us: u64) {
        match &self.stream {
            Some(stream) => {
                stream.ends_at_us.set(ends_at_us);
                // A client that gives no room from the start never lets the body be asked.
                stream.blocked_since_us.set(Some(now_us));
            }
            None => self.connection.answer_ends_us.set(ends_at_us),
        }
    }

    /// Bytes of a body that HTTP/2 may be given at once: it asks for more only when the client
    /// has taken them, which is how its reading is seen.
    pub(crate) fn piece_bytes_max(&self) -> usize {
        match self.stream {
            Some(_) => PIECE_BYTES_MAX,
            None => usize::MAX,
        }
    }

    /// HTTP/2 asks for more of a body only when the client has room for it.
    pub(crate) fn body_polled(&self, waits_for_body: bool, now_us: impl FnOnce() -> u64) {
        if let Some(stream) = &self.stream {
            let blocked_since_us = (!waits_for_body).then(now_us);
            stream.blocked_since_us.set(blocked_since_us);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let connection = &self.connection;
        let running = connection.running.get().saturating_sub(1);
        connection.running.set(running);
        if running > 0 {
            return;
        }
        // HTTP/1: its last bytes may still lie in hyper's buffer; `flushed` makes it idle.
        match connection.protocol.get() {
            Protocol::Http1 => connection.answer_ended.set(true),
            Protocol::Http2 => {
                connection.enter(Phase::Idle);
                connection.wake();
            }
        }
    }
}
