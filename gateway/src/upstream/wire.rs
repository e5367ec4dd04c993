//! One connection to an upstream, driven by whoever uses it.
//!
//! Separate because it is not a task: the exchange that holds it polls it, so dropping the
//! exchange closes the socket at once, and no wake-up crosses tasks. It must never be polled
//! after it has ended, and never be used again unless hyper says that it is clean.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Gate, HeadWatch, Socket};
use crate::request_body::RequestBody;

/// Most fields of an answer.
const FIELDS_MAX: usize = 200;
/// Most bytes that hyper buffers in one direction.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// A connection, idle or in use by one exchange.
pub(crate) struct Wire {
    sender: http1::SendRequest<RequestBody>,
    link: http1::Connection<TokioIo<Watched>, RequestBody>,
    watch: Rc<HeadWatch>,
    gate: Arc<Gate>,
    /// Leads to the gate.
    waker: Waker,
    born_us: u64,
    ended: bool,
    /// Has carried an exchange before.
    used: bool,
}

impl Wire {
    pub(crate) async fn new(stream: Socket, born_us: u64) -> hyper::Result<Box<Self>> {
        let watch = Rc::new(HeadWatch::default());
        let io = TokioIo::new(Watched {
            stream,
            watch: Rc::clone(&watch),
        });
        let (sender, link) = http1::Builder::new()
            .max_headers(FIELDS_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(io)
            .await?;
        let gate = Arc::<Gate>::default();
        Ok(Box::new(Self {
            sender,
            link,
            watch,
            waker: Waker::from(Arc::clone(&gate)),
            gate,
            born_us,
            ended: false,
            used: false,
        }))
    }

    /// Sends a request. Progress is made by [`Wire::poll`] alone.
    pub(crate) fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Sending<impl Answering + use<>> {
        self.watch.expect_head();
        self.used = true;
        // The connection is polled right after, so its wish to be is no news.
        self.gate.close();
        let answer = self.sender.try_send_request(request);
        self.gate.open();
        Sending { answer }
    }

    pub(crate) const fn born_us(&self) -> u64 {
        self.born_us
    }

    /// True when a failure may only mean that the other side had closed an idle connection.
    pub(crate) const fn was_used(&self) -> bool {
        self.used
    }

    /// Reads and writes what can be. Afterwards whoever waits for it looks again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.ended {
            return;
        }
        self.gate.lead_to(cx.waker());
        self.gate.close();
        let polled = Pin::new(&mut self.link).poll(&mut Context::from_waker(&self.waker));
        // The result says nothing that the answer or its body does not say as well.
        self.ended = polled.is_ready();
        if self.gate.open() {
            // hyper asks to be polled once more: it has done enough for one turn.
            cx.waker().wake_by_ref();
        }
    }

    /// The next piece of an answer that came over this connection, if it is here. More comes
    /// with [`Wire::poll`] alone, so nobody has to be woken.
    pub(crate) fn next_frame(
        &self,
        body: &mut Incoming,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.gate.close();
        let frame = Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()));
        self.gate.open();
        frame
    }

    /// The socket and what was read beyond the head, for another protocol.
    pub(crate) fn into_socket(self) -> (Socket, Bytes) {
        let http1::Parts { io, read_buf, .. } = self.link.into_parts();
        (io.into_inner().stream, read_buf)
    }

    /// True when nothing more will ever come.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// True when the request was sent and the answer read, both to their clean ends.
    pub(crate) fn is_clean(&self) -> bool {
        !self.ended && self.sender.is_ready()
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// What hyper answers with in the end.
type Answered = Result<Response<Incoming>, TrySendError<Request<RequestBody>>>;

/// A request on its way.
pub(crate) trait Answering: Future<Output = Answered> {}

impl<F: Future<Output = Answered>> Answering for F {}

pin_project_lite::pin_project! {
    /// Waits for the head of the answer.
    pub(crate) struct Sending<F> {
        #[pin]
        answer: F,
    }
}

impl<F: Answering> Sending<F> {
    /// Asked after [`Wire::poll`], which is what makes it ready: so nobody has to be woken.
    pub(crate) fn poll_head(self: Pin<&mut Self>) -> Poll<Answered> {
        self.project()
            .answer
            .poll(&mut Context::from_waker(Waker::noop()))
    }
}

/// The socket, with an eye on what comes.
struct Watched {
    stream: Socket,
    watch: Rc<HeadWatch>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let fresh = buf.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.watch.see(fresh))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
