//! The client's socket as hyper sees it.
//!
//! Separate because three things must be noticed below hyper: that bytes of a head arrived, that
//! the client does not read, and that hyper answers by itself. It must never shut the socket
//! down: how a connection ends is decided by its driver.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::doubt::Reader;
use super::frames::FrameWatch;
use crate::clock::Clock;
use crate::connection::{Connection, Doubted, Fate, Protocol};

/// The socket, shared on its thread by hyper and the connection's driver.
pub(crate) type Socket = Rc<RefCell<TcpStream>>;

/// Answers up to this are written in one piece.
const SMALL_WRITE_BYTES_MAX: usize = 1_024;

/// The bytes of `bufs` in one piece, if they are few.
fn gather<'a>(bufs: &[IoSlice<'_>], place: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut filled = 0_usize;
    for buf in bufs {
        let end = filled.checked_add(buf.len())?;
        place.get_mut(filled..end)?.copy_from_slice(buf);
        filled = end;
    }
    place.get(..filled)
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ClientIo {
    socket: Socket,
    /// Bytes that were read to tell the protocol; hyper reads them first.
    prefix: Bytes,
    connection: Rc<Connection>,
    clock: Clock,
    /// HTTP/2 only.
    frames: Option<Box<FrameWatch>>,
    /// HTTP/1 only.
    reader: Option<Box<Reader>>,
}

impl ClientIo {
    pub(crate) fn new(
        socket: &Socket,
        prefix: Bytes,
        connection: &Rc<Connection>,
        clock: Clock,
    ) -> Self {
        let (frames, reader) = match connection.protocol() {
            Protocol::Http1 => (None, Some(Box::new(Reader::after(connection.served())))),
            Protocol::Http2 => (Some(Box::new(FrameWatch::new(clock))), None),
        };
        Self {
            socket: Rc::clone(socket),
            prefix,
            connection: Rc::clone(connection),
            clock,
            frames,
            reader,
        }
    }

    /// How many of the bytes that arrived hyper may see.
    fn arrived(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.bytes_arrived();
        if let Some(reader) = &mut self.reader {
            let clear = reader.read(bytes);
            self.connection
                .set_body_open(reader.heads(), reader.is_body_open());
            if let Err(doubt) = clear {
                let place = if doubt.in_head {
                    Doubted::Head
                } else {
                    Doubted::Body
                };
                self.connection.set_doubt(place);
                return Ok(doubt.clear_bytes);
            }
        }
        if let Some(frames) = &mut self.frames {
            if frames.see(bytes).is_err() {
                self.connection.set_fate(Fate::Abuser);
                return Err(io::Error::other("too many frames that carry nothing"));
            }
            let clock = self.clock;
            self.connection
                .block_open(frames.is_head_open(), || clock.now_us());
        }
        Ok(bytes.len())
    }

    /// Keeps from hyper what is in doubt of the bytes just read into `buf`.
    fn let_through(&mut self, buf: &mut ReadBuf<'_>, before: usize) -> Poll<io::Result<()>> {
        let bytes = buf.filled().get(before..).unwrap_or_default();
        let clear = self.arrived(bytes)?;
        buf.set_filled(before.saturating_add(clear));
        match self.doubtful() {
            Some(end) if clear == 0 => end,
            _ => Poll::Ready(Ok(())),
        }
    }

    /// What is read after a doubt. In a head nothing: the driver answers it, after the answers
    /// before it. In a body its reader is told.
    fn doubtful(&self) -> Option<Poll<io::Result<()>>> {
        self.connection.doubt().map(|place| match place {
            Doubted::Head => Poll::Pending,
            Doubted::Body => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the body's framing is in doubt",
            ))),
        })
    }

    fn written(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Ready(Ok(_)) => self.connection.write_moved(),
            Poll::Ready(Err(_)) => self.connection.set_fate(Fate::ClientGone),
            Poll::Pending if self.connection.blocked_since_us().is_none() => {
                self.connection.write_blocked(self.clock.now_us());
            }
            Poll::Pending => {}
        }
        result
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(end) = self.doubtful() {
            return end;
        }
        let (room, before) = (buf.remaining(), buf.filled().len());
        if !self.prefix.is_empty() {
            let length = self.prefix.len().min(room);
            let bytes = self.prefix.split_to(length);
            buf.put_slice(&bytes);
            self.connection.set_watched(false);
            return self.let_through(buf, before);
        }
        let result = Pin::new(&mut *self.socket.borrow_mut()).poll_read(cx, buf);
        self.connection.set_watched(result.is_pending());
        match &result {
            Poll::Ready(Ok(())) if buf.filled().len() > before => {
                return self.let_through(buf, before);
            }
            Poll::Ready(Ok(())) if room == 0 => {}
            // hyper would drop the request unseen; it counts as one that came, and was left. Put
            // off once, not until it has been looked at: that could be never.
            Poll::Ready(_) if !self.connection.is_looked_at() => {
                self.connection.look();
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(_) => self.connection.set_fate(Fate::ClientGone),
            Poll::Pending => {}
        }
        result
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        // hyper's own answer to a head it cannot read has no document; ours is sent instead.
        if self.connection.is_between_answers() {
            return Poll::Ready(Ok(buf.len()));
        }
        let result = Pin::new(&mut *self.socket.borrow_mut()).poll_write(cx, buf);
        self.written(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.connection.is_between_answers() {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        // A small answer in one piece costs the kernel less than the copy costs us.
        let mut small = [0; SMALL_WRITE_BYTES_MAX];
        if let Some(bytes) = gather(bufs, &mut small) {
            let result = Pin::new(&mut *self.socket.borrow_mut()).poll_write(cx, bytes);
            return self.written(result);
        }
        let result = Pin::new(&mut *self.socket.borrow_mut()).poll_write_vectored(cx, bufs);
        self.written(result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
