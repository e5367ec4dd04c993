//! The socket of an upstream's connection, with TLS or without.
//!
//! Separate so that everything above speaks to one thing. It must never send a byte in the clear
//! to an endpoint that is to be spoken to by TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// See the module.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    /// Boxed: connections without it carry no room for it.
    Secure(Box<TlsStream<TcpStream>>),
}

macro_rules! either {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket.get_mut() {
            Socket::Plain($inner) => {
                let $inner = Pin::new($inner);
                $call
            }
            Socket::Secure($inner) => {
                let $inner = Pin::new($inner.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, inner => inner.poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => inner.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, inner => inner.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(inner) => inner.is_write_vectored(),
            Self::Secure(inner) => inner.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, inner => inner.poll_shutdown(cx))
    }
}
