//! Which protocol a client speaks, told from its first bytes.
//!
//! Separate because hyper-util's detection waits for ever. It must never keep more than it
//! needs to decide, and it hands on every byte it read.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

use super::client_io::Socket;
use super::refusal::HeadFault;
use super::watchdog::{Overdue, Watchdog};
use super::{Context, End, Serve, linger};
use crate::connection::{Connection, Fate, Phase, Protocol};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Enough for most first requests, so that one read brings all of it.
const FIRST_READ_BYTES_MAX: usize = 2_048;

/// The protocol and the bytes read so far, or how the connection ends before any is known.
pub(super) async fn detect<S: Serve>(
    socket: &Socket,
    connection: &Rc<Connection>,
    context: &Context<S>,
    watchdog: &mut Watchdog,
) -> Result<(Protocol, Bytes), End> {
    // Only for clients that speak: a silent one costs no buffer.
    let mut buffer = BytesMut::new();
    let mut filled = 0_usize;
    let found = poll_fn(|cx| {
        connection.remember_waker(cx.waker());
        if let Poll::Ready(read) = read_first(socket, cx, &mut buffer, &mut filled) {
            return Poll::Ready(read);
        }
        if filled > 0 {
            connection.bytes_arrived();
        }
        let unspoken = connection.phase() == Phase::New;
        if connection.is_going() && unspoken && linger::is_unread_empty(&socket.borrow()) {
            return Poll::Ready(Found::Overdue(Overdue::Idle));
        }
        watchdog.poll(cx, connection).map(Found::Overdue)
    })
    .await;
    match found {
        Found::Protocol(protocol) => {
            connection.set_protocol(protocol);
            connection.bytes_arrived();
            buffer.truncate(filled);
            Ok((protocol, buffer.freeze()))
        }
        Found::Gone => {
            connection.set_fate(Fate::ClientGone);
            Err(End::Quiet)
        }
        Found::Overdue(Overdue::Head) => Err(End::Answer(
            context.service.refuse(connection, HeadFault::Timeout),
        )),
        Found::Overdue(_) => Err(End::Quiet),
    }
}

enum Found {
    Protocol(Protocol),
    Gone,
    Overdue(Overdue),
}

/// Pending while the bytes so far are the beginning of the preface and no more.
fn read_first(
    socket: &Socket,
    cx: &mut TaskContext<'_>,
    buffer: &mut BytesMut,
    filled: &mut usize,
) -> Poll<Found> {
    if buffer.is_empty() {
        if ready!(socket.borrow().poll_read_ready(cx)).is_err() {
            return Poll::Ready(Found::Gone);
        }
        buffer.resize(FIRST_READ_BYTES_MAX, 0);
    }
    loop {
        let mut room = ReadBuf::new(buffer.get_mut(*filled..).unwrap_or_default());
        let read = ready!(Pin::new(&mut *socket.borrow_mut()).poll_read(cx, &mut room));
        let count = room.filled().len();
        if read.is_err() || count == 0 {
            return Poll::Ready(Found::Gone);
        }
        *filled = filled.saturating_add(count);
        match told_by(buffer.get(..*filled).unwrap_or_default()) {
            Some(protocol) => return Poll::Ready(Found::Protocol(protocol)),
            None => continue,
        }
    }
}

/// `None`: more bytes are needed. The preface is shorter than the buffer, so there is room.
fn told_by(bytes: &[u8]) -> Option<Protocol> {
    const { assert!(PREFACE.len() < FIRST_READ_BYTES_MAX) };
    if bytes.starts_with(PREFACE) {
        Some(Protocol::Http2)
    } else if PREFACE.starts_with(bytes) {
        None
    } else {
        Some(Protocol::Http1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preface_is_recognised_at_every_cut() {
        for cut in 1..PREFACE.len() {
            assert_eq!(told_by(&PREFACE[..cut]), None, "{cut} bytes");
        }
        assert_eq!(told_by(PREFACE), Some(Protocol::Http2));
        let longer = [PREFACE, b"\0\0\0".as_slice()].concat();
        assert_eq!(told_by(&longer), Some(Protocol::Http2));
    }

    #[test]
    fn everything_else_is_http1() {
        for first in [
            b"GET / HTTP/1.1".as_slice(),
            b"PRI * HTTP/1.1",
            b"PRX",
            b"\x16\x03\x01",
        ] {
            assert_eq!(told_by(first), Some(Protocol::Http1), "{first:?}");
        }
    }
}
