//! How a socket is closed so that the client can read the last answer.
//!
//! Separate because a plain close with unread bytes makes the kernel reset the connection, which
//! can destroy an answer that the client has not read yet. It must never wait without a bound.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{End, refusal};

/// Most bytes that are read and thrown away after the last answer.
const LINGER_BYTES_MAX: usize = 80 * 1024 * 1024;
/// Longest silence of a client after the last answer.
const LINGER_IDLE: Duration = Duration::from_secs(2);
/// Longest time in all.
const LINGER_TOTAL: Duration = Duration::from_secs(10);
/// Longest time to hand a refusal to the kernel.
const ANSWER_WRITE: Duration = Duration::from_secs(2);
/// Read at once.
const DISCARD_BYTES: usize = 16 * 1024;

/// Ends the connection.
pub(super) async fn close(mut stream: TcpStream, end: End) {
    match end {
        // A switch is not ours to close.
        End::Quiet | End::Switched(..) => {}
        End::Reset => {
            // An error here leaves an ordinary close, which is all that is left to do.
            drop(stream.set_zero_linger());
        }
        End::Linger => discard(stream).await,
        End::Answer(response) => {
            let bytes = refusal::encode(&response);
            let written = timeout(ANSWER_WRITE, stream.write_all(&bytes)).await;
            if matches!(written, Ok(Ok(()))) {
                discard(stream).await;
            }
        }
    }
}

/// Says that no more comes, then reads until the client says the same or a bound runs out.
async fn discard(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = vec![0; DISCARD_BYTES];
    let mut bytes = 0_usize;
    let reading = async {
        while bytes < LINGER_BYTES_MAX {
            match timeout(LINGER_IDLE, stream.readable()).await {
                Ok(Ok(())) => {}
                _ => return,
            }
            match stream.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => bytes = bytes.saturating_add(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    };
    // Running out of time is the bound, not a failure.
    drop(timeout(LINGER_TOTAL, reading).await);
}

/// True when the kernel holds no byte of the client that nobody has read. Asks the kernel itself:
/// the runtime hears of new bytes a moment later.
pub(super) fn is_unread_empty(stream: &TcpStream) -> bool {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    // 0 is the client's own end, an error no bytes: either way nothing is lost.
    !matches!(SockRef::from(stream).peek(&mut byte), Ok(1..))
}

/// True when the client has closed or reset, even behind bytes that nobody has read.
pub(super) fn has_left(stream: &TcpStream, cx: &mut Context<'_>) -> bool {
    let mut byte = [std::mem::MaybeUninit::uninit()];
    match SockRef::from(stream).peek(&mut byte) {
        Ok(0) => return true,
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
        Err(_) => return true,
    }
    match pin!(stream.ready(Interest::READABLE)).poll(cx) {
        Poll::Ready(Ok(ready)) => ready.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}
