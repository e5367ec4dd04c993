//! Drives one HTTP/2 connection.
//!
//! Separate because many requests run side by side here, and a connection says goodbye in two
//! steps. It must never outlive its streams' owner: both end together.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
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
use super::tasks::Tasks;
use super::watchdog::{Due, Overdue, Watchdog};
use super::{Context, End, Serve, answer};
use crate::connection::{Connection, Fate, Phase};

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
/// Longest wait for a client that was told to go and has nothing running.
const GOODBYE_US: u64 = 2_000_000;

/// hyper's tasks, one per stream, owned by the connection.
#[derive(Clone, Debug)]
struct Streams(Rc<Tasks>);

impl<F: Future<Output = ()> + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        self.0.spawn(stream);
    }
}

enum Outcome {
    Finished(hyper::Result<()>),
    Overdue(Overdue),
}

pub(super) async fn drive<S: Serve>(
    socket: &Socket,
    prefix: Bytes,
    connection: &Rc<Connection>,
    context: &Context<S>,
) -> End {
    let io = TokioIo::new(ClientIo::new(socket, prefix, connection, context.clock));
    let owned = (Rc::clone(connection), context.service.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let (connection, service) = &owned;
        let running = connection.begin_request(false);
        answer(
            service.clone().serve(Rc::clone(connection), request),
            running,
        )
    });
    let streams = Streams(Rc::new(Tasks::new("stream")));
    let mut http = pin!(builder(&context.bounds, streams.clone()).serve_connection(io, service));
    connection.became_idle();
    let clock = context.clock;
    let first_us = clock
        .now_us()
        .saturating_add(context.bounds.header_timeout_us);
    let mut watchdog = Watchdog::new(clock, &context.bounds, first_us);
    let mut told_since_us = None;
    let outcome = poll_fn(|cx| {
        connection.remember_waker(cx.waker());
        loop {
            if let Poll::Ready(result) = http.as_mut().poll(cx) {
                return Poll::Ready(Outcome::Finished(result));
            }
            if connection.is_leaving() && told_since_us.is_none() {
                http.as_mut().graceful_shutdown();
                told_since_us = Some(clock.now_us());
                continue;
            }
            let due = due(connection, context, told_since_us);
            match watchdog.poll(cx, due) {
                Poll::Ready(Overdue::Idle) if told_since_us.is_none() => {
                    connection.leave();
                }
                overdue => return overdue.map(Outcome::Overdue),
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
        Outcome::Finished(_) if connection.fate() == Fate::ClientGone => End::Quiet,
        Outcome::Finished(_) => End::Linger,
    }
}

/// Once told to go, an idle client has a short time for it.
fn due<S: Serve>(
    connection: &Connection,
    context: &Context<S>,
    told_since_us: Option<u64>,
) -> Option<Due> {
    let due = Due::of(connection, &context.bounds, context.clock, None);
    match (told_since_us, connection.phase()) {
        (Some(told_us), Phase::Idle) => {
            let idle_us = connection.phase_since_us(|| context.clock.now_us());
            let at_us = told_us.max(idle_us).saturating_add(GOODBYE_US);
            Some(Due {
                at_us,
                what: Overdue::Idle,
            })
        }
        _ => due,
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
