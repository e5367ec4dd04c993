//! Drives one HTTP/2 connection.
//!
//! Separate because many requests run side by side here, and a connection says goodbye in two
//! steps. It must never outlive its streams' owner: both end together.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::bounds::Bounds;
use super::client_io::{ClientIo, Socket};
use super::stream::Bounded;
use super::tasks::Tasks;
use super::watchdog::{Overdue, Watchdog};
use super::{Context, End, Serve, answer};
use crate::connection::{Connection, Fate};
use crate::now::Now;

/// Streams that one client may have open.
const STREAMS_MAX: u32 = 100;
/// Streams that were reset before they were looked at.
const RESET_STREAMS_MAX: usize = 20;
/// Streams that we had to reset.
const ERROR_STREAMS_MAX: usize = 100;
/// What waits for one slow stream.
const SEND_BUFFER_BYTES_MAX: usize = 64 * 1024;
/// What a client may send on one stream before it is read.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
/// And on all of them together.
const CONNECTION_WINDOW_BYTES: u32 = 512 * 1024;
/// How often a silent peer is asked whether it is there, and how long it may take to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_ANSWER: Duration = Duration::from_secs(15);

/// hyper's tasks, one per stream, owned by the connection.
#[derive(Clone, Debug)]
struct Streams {
    tasks: Rc<Tasks>,
    connection: Rc<Connection>,
    now: Rc<Now>,
    write_stall_us: u64,
}

impl<F: Future<Output = ()> + 'static> Executor<F> for Streams {
    fn execute(&self, task: F) {
        // hyper hands a stream over right after it has begun its request.
        match self.connection.take_stream() {
            Some(stream) => {
                let (now, stall_us) = (Rc::clone(&self.now), self.write_stall_us);
                self.tasks.spawn(Bounded {
                    task: Some(task),
                    connection: Rc::clone(&self.connection),
                    stream,
                    now,
                    stall_us,
                    sleep: None,
                });
            }
            None => self.tasks.spawn(task),
        }
    }
}

enum Outcome {
    Finished,
    Overdue(Overdue),
}

pub(super) async fn drive<S: Serve>(
    socket: &Socket,
    prefix: Bytes,
    connection: &Rc<Connection>,
    context: &Context<S>,
    watchdog: &mut Watchdog,
) -> End {
    let io = TokioIo::new(ClientIo::new(
        socket,
        prefix,
        connection,
        context.now.clock(),
    ));
    let owned = (Rc::clone(connection), context.service.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (connection, service) = &owned;
        let running = connection.begin_request(false);
        answer(service.clone(), Rc::clone(connection), request, running)
    });
    let streams = Streams {
        tasks: Rc::new(Tasks::new("stream")),
        connection: Rc::clone(connection),
        now: Rc::clone(&context.now),
        write_stall_us: context.bounds.write_stall_us,
    };
    let mut http = pin!(builder(&context.bounds, streams.clone()).serve_connection(io, service));
    connection.became_idle();
    let mut told_to_go = false;
    let outcome = poll_fn(|cx| {
        connection.remember_waker(cx.waker());
        loop {
            // Whatever went wrong concerned this client alone, and h2 has told it.
            if http.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Outcome::Finished);
            }
            if connection.is_leaving() && !told_to_go {
                // Two steps: no more streams, please; then, after its word, the last one's number.
                http.as_mut().graceful_shutdown();
                told_to_go = true;
                continue;
            }
            match ready!(watchdog.poll(cx, connection)) {
                Overdue::Aged => connection.leave(),
                Overdue::Idle if !told_to_go => connection.leave(),
                Overdue::Unwatched | Overdue::Restful => {}
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
    match outcome {
        Outcome::Overdue(Overdue::Stalled) => {
            connection.set_fate(Fate::SlowClient);
            End::Reset
        }
        Outcome::Overdue(_) => End::Quiet,
        Outcome::Finished => match connection.fate() {
            Fate::Open => End::Linger,
            Fate::ClientGone => End::Quiet,
            Fate::SlowClient | Fate::Abuser | Fate::Refused => End::Reset,
        },
    }
}

fn builder(bounds: &Bounds, streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(ERROR_STREAMS_MAX)
        .max_header_list_size(u32::try_from(bounds.head_bytes_max()).unwrap_or(u32::MAX))
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_ANSWER);
    builder
}
