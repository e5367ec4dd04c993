//! The open-loop load: every request starts at its time, whatever became of those before it.
//!
//! Separate because a load that waits for answers would hide the collapse. It must never slow down
//! with the gateway; latencies count from the time a request was due, not from when it was sent.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};

use super::scenario::{CLIENT_TIMEOUT, Play, Route};
use crate::clock;
use crate::error::Failure;

/// Kept connections: more than the collapse needs at once.
const IDLE_MAX: usize = 512;
/// A kept connection older than this is not used again: the gateway may be closing it.
const IDLE_AGE_MAX: Duration = Duration::from_secs(30);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Reasons that are failures of a dependency and no refusals of the gateway.
const FAILURES: [&str; 6] = [
    "attempt_timeout",
    "total_timeout",
    "max_hold",
    "upstream_connect",
    "upstream_reset",
    "upstream_protocol",
];

/// What became of one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// The upstream's own answer.
    Completed,
    /// Refused, and the route's fallback stood in.
    Fallback,
    /// Refused with an error.
    Refused,
    /// Anything else: a failed or missing answer.
    Failed,
}

/// One request: when it was due and how long after that it had its whole answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) route: Route,
    pub(super) due: Duration,
    pub(super) took: Duration,
    pub(super) outcome: Outcome,
}

/// Plays the whole schedule against one gateway, handing over each call as it ends. Returns when
/// the last answer is there, or its client has given up. `stop` ends it early.
pub(super) fn play(
    gateway: SocketAddr,
    play: Play,
    start: Instant,
    mut each: impl FnMut(Call) -> bool,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Failure::System {
            what: "start the demo's clients",
            source,
        })?;
    LocalSet::new().block_on(&runtime, async move {
        let clients = Rc::new(Clients {
            gateway,
            idle: RefCell::default(),
            open: RefCell::default(),
        });
        let mut calls = JoinSet::new();
        for (due, route) in play.arrivals() {
            tokio::time::sleep_until((start + due).into()).await;
            calls.spawn_local(call(clients.clone(), route, due, start + due));
            while let Some(ended) = calls.try_join_next() {
                if ended.is_ok_and(|call| !each(call)) {
                    return;
                }
            }
        }
        while let Some(ended) = calls.join_next().await {
            if ended.is_ok_and(|call| !each(call)) {
                return;
            }
        }
    });
    Ok(())
}

async fn call(clients: Rc<Clients>, route: Route, due: Duration, at: Instant) -> Call {
    let answered =
        tokio::time::timeout_at((at + CLIENT_TIMEOUT).into(), clients.exchange(route)).await;
    let outcome = match answered {
        Ok(Some(outcome)) => outcome,
        Ok(None) | Err(_) => Outcome::Failed,
    };
    Call {
        route,
        due,
        took: clock::now().saturating_duration_since(at),
        outcome,
    }
}

type Sender = SendRequest<Empty<Bytes>>;

/// Clients of one gateway with the connections they keep.
struct Clients {
    gateway: SocketAddr,
    /// Last in, first out, each with the time it was put here.
    idle: RefCell<Vec<(Sender, Instant)>>,
    /// The connections' own work; it ends with this.
    open: RefCell<JoinSet<Result<(), hyper::Error>>>,
}

impl Clients {
    /// One request and its whole answer; `None` when there is none.
    async fn exchange(&self, route: Route) -> Option<Outcome> {
        if let Some(mut kept) = self.kept() {
            // A kept connection may have been closed just now: then a fresh one is no repetition,
            // for nothing was answered.
            if let Ok(answer) = kept.send_request(self.request(route)?).await {
                return self.outcome(kept, answer).await;
            }
        }
        let mut fresh = self.connect().await?;
        let answer = fresh.send_request(self.request(route)?).await.ok()?;
        self.outcome(fresh, answer).await
    }

    fn kept(&self) -> Option<Sender> {
        let mut idle = self.idle.borrow_mut();
        while let Some((sender, since)) = idle.pop() {
            let age = clock::now().saturating_duration_since(since);
            if sender.is_ready() && age < IDLE_AGE_MAX {
                return Some(sender);
            }
        }
        None
    }

    fn request(&self, route: Route) -> Option<Request<Empty<Bytes>>> {
        let host = self.gateway.to_string();
        let uri = format!("/{}", route.name());
        Request::get(uri)
            .header(header::HOST, host)
            .body(Empty::new())
            .ok()
    }

    async fn connect(&self) -> Option<Sender> {
        let stream = TcpStream::connect(self.gateway).await.ok()?;
        drop(stream.set_nodelay(true));
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.ok()?;
        let mut open = self.open.borrow_mut();
        open.spawn_local(connection);
        while open.try_join_next().is_some() {}
        Some(sender)
    }

    /// Reads the answer to its end, keeps the connection, says what it was.
    async fn outcome(&self, sender: Sender, answer: Response<Incoming>) -> Option<Outcome> {
        let reason = answer.headers().get("x-bulkhead-reason").cloned();
        let fallback = answer.headers().contains_key("x-bulkhead-fallback");
        let success = answer.status().is_success();
        Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .ok()?;
        let mut idle = self.idle.borrow_mut();
        if !sender.is_closed() && idle.len() < IDLE_MAX {
            idle.push((sender, clock::now()));
        }
        let failed = reason.as_ref().is_some_and(|reason| {
            FAILURES
                .iter()
                .any(|failure| reason.as_bytes() == failure.as_bytes())
        });
        Some(match reason {
            None if success => Outcome::Completed,
            Some(_) if fallback && !failed => Outcome::Fallback,
            Some(_) if !failed => Outcome::Refused,
            Some(_) | None => Outcome::Failed,
        })
    }
}
