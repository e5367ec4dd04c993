//! One end of a tunnel, with TLS or without.
//!
//! Separate because both directions use it at once: one reads while the other writes. It must
//! never keep a byte that it said was written.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::reason::Reason;
use crate::upstream::Socket;

/// See the module.
pub(crate) enum End<'a> {
    Plain(&'a TcpStream),
    Secure(RefCell<&'a mut TlsStream<TcpStream>>),
}

impl<'a> End<'a> {
    pub(crate) fn of(socket: &'a mut Socket) -> Self {
        match socket {
            Socket::Plain(stream) => Self::Plain(stream),
            Socket::Secure(stream) => Self::Secure(RefCell::new(stream.as_mut())),
        }
    }

    /// Ready when the connection was reset. With TLS that is only seen by who reads or writes.
    pub(crate) async fn lost(&self, reason: Reason) -> Reason {
        let Self::Plain(stream) = self else {
            return std::future::pending().await;
        };
        loop {
            match stream.ready(Interest::ERROR).await {
                Ok(ready) if !ready.is_error() => tokio::task::yield_now().await,
                Ok(_) | Err(_) => return reason,
            }
        }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_write_ready(cx))?;
                match stream.try_write(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    written => return Poll::Ready(written),
                }
            },
            Self::Secure(stream) => Pin::new(&mut **stream.borrow_mut()).poll_write(cx, bytes),
        }
    }

    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Secure(stream) => Pin::new(&mut **stream.borrow_mut()).poll_flush(cx),
        }
    }

    /// 0 at the end of what the other side says.
    pub(crate) fn poll_read(&self, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => loop {
                ready!(stream.poll_read_ready(cx))?;
                match stream.try_read(to) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return Poll::Ready(read),
                }
            },
            Self::Secure(stream) => {
                let mut buffer = ReadBuf::new(to);
                let mut stream = stream.borrow_mut();
                ready!(Pin::new(&mut **stream).poll_read(cx, &mut buffer))?;
                Poll::Ready(Ok(buffer.filled().len()))
            }
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn poll_shut(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => {
                Poll::Ready(SockRef::from(*stream).shutdown(std::net::Shutdown::Write))
            }
            Self::Secure(stream) => Pin::new(&mut **stream.borrow_mut()).poll_shutdown(cx),
        }
    }
}
