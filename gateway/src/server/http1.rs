//! Drives one HTTP/1 connection: hyper, the bounds, and the choice of how it ends.
//!
//! Separate from the other protocol because a head, an answer and the connection's end follow one
//! another here. It must never let an answer of hyper's own reach the client.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};

use bytes::Bytes;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::client_io::{ClientIo, Socket};
use super::refusal::HeadFault;
use super::watchdog::{Overdue, Watchdog};
use super::{Context, End, Serve, answer, linger};
use crate::connection::{Connection, Doubted, Fate, Phase};

/// What ended the loop.
enum Outcome {
    Finished(hyper::Result<()>),
    Overdue(Overdue),
    /// The next head cannot be read without doubt, and the answers before it are out.
    Doubt,
    Restful,
}

/// Until it ends, or has been idle for a while: then what was read of the next head.
pub(super) async fn drive<S: Serve>(
    socket: &Socket,
    prefix: Bytes,
    connection: &Rc<Connection>,
    context: &Context<S>,
    watchdog: &mut Watchdog,
) -> Result<Bytes, End> {
    let io = TokioIo::new(ClientIo::new(
        socket,
        prefix,
        connection,
        context.now.clock(),
    ));
    let service = service_fn(|request: Request<Incoming>| {
        let running = connection.begin_request(request.version() == Version::HTTP_10);
        answer(
            context.service.clone(),
            Rc::clone(connection),
            request,
            running,
        )
    });
    let mut http = context.bounds.http1().serve_connection(io, service);
    let (mut told_to_close, mut closed_idle) = (false, false);
    let outcome = poll_fn(|cx| {
        connection.remember_waker(cx.waker());
        loop {
            if let Poll::Ready(result) = Pin::new(&mut http).poll(cx) {
                return Poll::Ready(Outcome::Finished(result));
            }
            if connection.doubt() == Some(Doubted::Head) && connection.phase() != Phase::Busy {
                return Poll::Ready(Outcome::Doubt);
            }
            if connection.is_leaving() && !told_to_close && may_close(connection, socket) {
                // Idle: ends now. Busy: the answer says `connection: close`, unless its head
                // is out already; then the connection closes after it all the same.
                Pin::new(&mut http).graceful_shutdown();
                told_to_close = true;
                closed_idle = connection.phase() != Phase::Busy;
                continue;
            }
            match ready!(watchdog.poll(cx, connection)) {
                Overdue::Aged => connection.leave(),
                Overdue::Restful => return Poll::Ready(Outcome::Restful),
                Overdue::Unwatched if linger::has_left(&socket.borrow(), cx) => {
                    connection.set_fate(Fate::ClientGone);
                    return Poll::Ready(Outcome::Overdue(Overdue::Unwatched));
                }
                Overdue::Unwatched => {}
                over @ (Overdue::Silent
                | Overdue::Idle
                | Overdue::Head
                | Overdue::Late
                | Overdue::Stalled) => {
                    return Poll::Ready(Outcome::Overdue(over));
                }
            }
        }
    })
    .await;
    if let Outcome::Overdue(Overdue::Stalled | Overdue::Late) = outcome {
        // Before the exchange is dropped: it counts why it ended.
        connection.set_fate(Fate::SlowClient);
    }
    let unread = http.into_parts().read_buf;
    let switch = connection.take_switch();
    Err(match outcome {
        Outcome::Restful => return Ok(unread),
        Outcome::Overdue(overdue) => end_of_overdue(overdue, connection, context),
        Outcome::Doubt => End::Answer(context.service.refuse(connection, HeadFault::Malformed)),
        Outcome::Finished(_) if connection.fate() == Fate::ClientGone => End::Quiet,
        // In doubt it spoke before it was told, and not all of that was kept.
        Outcome::Finished(Ok(())) if switch.is_some() && connection.doubt().is_some() => End::Reset,
        Outcome::Finished(Ok(())) if let Some(switch) = switch => End::Switched(switch, unread),
        Outcome::Finished(Ok(())) if closed_idle => End::Quiet,
        Outcome::Finished(Ok(())) => End::Linger,
        Outcome::Finished(Err(error)) if error.is_parse() && connection.is_between_answers() => {
            let fault = HeadFault::of(&error, &unread, &context.bounds);
            End::Answer(context.service.refuse(connection, fault))
        }
        // The end of an HTTP/1.0 answer is the end of the connection: only a reset tells that it
        // was cut. In HTTP/1.1 the missing last chunk or bytes tell.
        Outcome::Finished(Err(_)) if connection.is_old_version() => End::Reset,
        Outcome::Finished(Err(_)) => End::Linger,
    })
}

/// Keeps nothing but the socket until the client sends again. An error is the connection's end.
pub(super) async fn rest(
    socket: &Socket,
    connection: &Connection,
    watchdog: &mut Watchdog,
) -> Result<(), End> {
    watchdog.set_resting(true);
    let awake = poll_fn(|cx| {
        connection.remember_waker(cx.waker());
        // Its end counts as something to read.
        if socket.borrow().poll_read_ready(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if connection.is_leaving() && may_close(connection, socket) {
            return Poll::Ready(Err(End::Quiet));
        }
        while ready!(watchdog.poll(cx, connection)) == Overdue::Aged {
            connection.leave();
        }
        Poll::Ready(Err(End::Quiet))
    })
    .await;
    watchdog.set_resting(false);
    awake
}

/// While a head is arriving hyper would drop it; it is served first. The same for bytes that the
/// kernel has and hyper has not seen.
fn may_close(connection: &Connection, socket: &Socket) -> bool {
    match connection.phase() {
        Phase::Busy => true,
        Phase::New | Phase::Idle => {
            connection.is_going() && linger::is_unread_empty(&socket.borrow())
        }
        Phase::Head => false,
    }
}

fn end_of_overdue<S: Serve>(
    overdue: Overdue,
    connection: &Connection,
    context: &Context<S>,
) -> End {
    match overdue {
        Overdue::Silent | Overdue::Restful | Overdue::Idle | Overdue::Aged | Overdue::Unwatched => {
            End::Quiet
        }
        Overdue::Head => End::Answer(context.service.refuse(connection, HeadFault::Timeout)),
        Overdue::Stalled | Overdue::Late => End::Reset,
    }
}
