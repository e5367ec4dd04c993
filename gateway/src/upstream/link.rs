//! One HTTP/2 connection to an upstream, shared by the exchanges of one route on one core.
//!
//! Separate from the HTTP/1 connection because many exchanges use it at once: a task of its own
//! reads and writes it, and each exchange drives its own stream. It must never be shared with
//! another route, and never take more streams than the other side allows.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use tokio::time::sleep;

use super::Socket;
use super::line::Line;

/// Most streams on one connection, whatever the other side allows.
pub(super) const STREAMS_MAX: usize = 100;
/// What an upstream may send on one stream before it is read, and on all of them together.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// What waits to be sent on one stream.
const SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Longest head or trailers of an answer.
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// Streams that we took back and of which frames may still come.
const RESET_STREAMS_MAX: usize = 256;
/// A connection that was silent for so long is asked whether it is there when it is used again.
/// Never without a request beside it: servers of gRPC close on callers that only ask.
const DOUBTED_US: u64 = 1_000_000;
/// How long the answer may take.
const PING_ANSWER: Duration = Duration::from_secs(5);
/// A connection takes no new streams after this time, so that a moved name is followed.
const AGE_US_MAX: u64 = 600_000_000;
/// And is closed when nothing has used it for so long.
const IDLE_US_MAX: u64 = 30_000_000;

/// One connection, as those who open streams on it see it.
pub(crate) struct Link {
    sender: RefCell<Option<SendRequest<Bytes>>>,
    streams: Cell<usize>,
    born_us: u64,
    /// When the last stream was opened or ended.
    used_us: Cell<u64>,
    /// The other side is to be asked whether it is there.
    doubted: Cell<bool>,
    driver: RefCell<Option<Waker>>,
    line: Rc<Line>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("streams", &self.streams)
            .field("retired", &self.is_retired())
            .finish_non_exhaustive()
    }
}

/// What has to be driven for a link to live.
pub(crate) type Driven = Connection<Socket, Bytes>;

impl Link {
    /// Speaks first, and waits until the other side has said how many streams it allows: whoever
    /// sent more before would wait behind them, and a server of another protocol shows itself.
    pub(crate) async fn begin(
        stream: Socket,
        now_us: u64,
        line: Rc<Line>,
    ) -> Result<(Rc<Self>, Driven), h2::Error> {
        let (sender, mut connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            .initial_max_send_streams(0)
            .handshake(stream)
            .await?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Err(h2::Reason::CONNECT_ERROR.into())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if connection.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
        })
        .await?;
        let link = Rc::new(Self {
            sender: RefCell::new(Some(sender)),
            streams: Cell::new(0),
            born_us: now_us,
            used_us: Cell::new(now_us),
            doubted: Cell::new(false),
            driver: RefCell::new(None),
            line,
        });
        Ok((link, connection))
    }

    /// A way to open one stream, if there is room for one.
    pub(crate) fn open(self: &Rc<Self>, now_us: u64) -> Option<(SendRequest<Bytes>, Lease)> {
        if now_us.saturating_sub(self.born_us) >= AGE_US_MAX {
            self.retire();
        }
        if self.room() == 0 {
            return None;
        }
        let sender = self.sender.borrow().clone()?;
        if now_us.saturating_sub(self.used_us.get()) >= DOUBTED_US {
            self.doubted.set(true);
            self.wake_driver();
        }
        self.used_us.set(now_us);
        self.streams.set(self.streams.get().saturating_add(1));
        Some((sender, Lease(Rc::clone(self))))
    }

    /// As many streams as it takes.
    pub(super) fn streams_max(&self) -> usize {
        let sender = self.sender.borrow();
        let allowed = sender.as_ref().map(SendRequest::current_max_send_streams);
        allowed.unwrap_or(0).min(STREAMS_MAX)
    }

    /// Streams that it would take now.
    pub(super) fn room(&self) -> usize {
        self.streams_max().saturating_sub(self.streams.get())
    }

    /// No new streams; what runs goes on. Without any the connection closes.
    pub(crate) fn retire(&self) {
        drop(self.sender.take());
        self.wake_driver();
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.sender.borrow().is_none()
    }

    /// Nobody has used it for long.
    pub(crate) fn is_over(&self, now_us: u64) -> bool {
        self.streams.get() == 0 && now_us.saturating_sub(self.used_us.get()) >= IDLE_US_MAX
    }

    fn wake_driver(&self) {
        if let Some(driver) = self.driver.borrow().as_ref() {
            driver.wake_by_ref();
        }
    }

    /// Reads and writes the connection to its end.
    pub(crate) async fn drive(self: Rc<Self>, mut connection: Driven) {
        let mut pings = connection.ping_pong();
        let mut asked = None;
        poll_fn(|cx| {
            *self.driver.borrow_mut() = Some(cx.waker().clone());
            // How it ended each stream is told by itself.
            if Pin::new(&mut connection).poll(cx).is_ready() {
                return Poll::Ready(());
            }
            match &mut pings {
                Some(pings) => self.poll_doubt(pings, &mut asked, cx),
                None => Poll::Pending,
            }
        })
        .await;
        self.retire();
        // With it go all streams that are left.
        drop(connection);
        self.line.wake_one();
    }

    /// Ready when the other side does not answer.
    fn poll_doubt(
        &self,
        pings: &mut PingPong,
        asked: &mut Asked,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if asked.is_none() && self.doubted.take() && pings.send_ping(Ping::opaque()).is_ok() {
            *asked = Some(Box::pin(sleep(PING_ANSWER)));
            cx.waker().wake_by_ref();
        }
        let Some(patience) = asked else {
            return Poll::Pending;
        };
        if pings.poll_pong(cx).is_ready() {
            *asked = None;
            return Poll::Pending;
        }
        ready!(pin!(patience).as_mut().poll(cx));
        tracing::debug!("an upstream's connection is dead");
        Poll::Ready(())
    }
}

type Asked = Option<Pin<Box<tokio::time::Sleep>>>;

/// One stream of a link. Dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Lease(Rc<Link>);

impl Lease {
    /// No new streams on its connection.
    pub(crate) fn retire(&self) {
        self.0.retire();
    }

    /// The stream has just ended.
    pub(crate) fn used(&self, now_us: u64) {
        self.0.used_us.set(now_us);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let link = &self.0;
        link.streams.set(link.streams.get().saturating_sub(1));
        link.line.wake_one();
    }
}
