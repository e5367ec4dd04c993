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

/// Where each route is called; a route that is not named is not called.
pub(super) type Targets = Vec<(Route, SocketAddr)>;

/// Plays the whole schedule, handing over each call as it ends, until `each` says that it is
/// enough. Returns when the last answer is there, or its client has given up.
pub(super) fn play(
    targets: Targets,
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
        let clients = Rc::new(Clients::default());
        let mut calls = JoinSet::new();
        for (due, route) in play.arrivals() {
            let Some((_, at)) = targets.iter().find(|(named, _)| *named == route) else {
                continue;
            };
            tokio::time::sleep_until((start + due).into()).await;
            calls.spawn_local(call(clients.clone(), *at, route, due, start + due));
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

async fn call(
    clients: Rc<Clients>,
    at: SocketAddr,
    route: Route,
    due: Duration,
    start: Instant,
) -> Call {
    let end = (start + CLIENT_TIMEOUT).into();
    let outcome = match tokio::time::timeout_at(end, clients.exchange(at, route)).await {
        Ok(Some(outcome)) => outcome,
        Ok(None) | Err(_) => Outcome::Failed,
    };
    let took = clock::now().saturating_duration_since(start);
    Call {
        route,
        due,
        took,
        outcome,
    }
}

type Sender = SendRequest<Empty<Bytes>>;

/// A connection that waits for its next request.
struct Kept {
    at: SocketAddr,
    sender: Sender,
    since: Instant,
}

/// Clients with the connections they keep.
#[derive(Default)]
struct Clients {
    /// Last in, first out.
    idle: RefCell<Vec<Kept>>,
    /// The connections' own work; it ends with this.
    open: RefCell<JoinSet<Result<(), hyper::Error>>>,
}

impl Clients {
    /// One request and its whole answer; `None` when there is none.
    async fn exchange(&self, at: SocketAddr, route: Route) -> Option<Outcome> {
        let mut request = request(at, route)?;
        while let Some(mut kept) = self.kept(at) {
            match kept.try_send_request(request).await {
                Ok(answer) => return self.outcome(at, kept, answer).await,
                // A kept connection may be closing: only a request that was never sent goes over
                // another one. One that was sent and not answered is a failure, and counts.
                Err(mut unsent) => request = unsent.take_message()?,
            }
        }
        let mut fresh = self.connect(at).await?;
        let answer = fresh.send_request(request).await.ok()?;
        self.outcome(at, fresh, answer).await
    }

    fn kept(&self, at: SocketAddr) -> Option<Sender> {
        let mut idle = self.idle.borrow_mut();
        while let Some(last) = idle.iter().rposition(|kept| kept.at == at) {
            let kept = idle.remove(last);
            let age = clock::now().saturating_duration_since(kept.since);
            if kept.sender.is_ready() && age < IDLE_AGE_MAX {
                return Some(kept.sender);
            }
        }
        None
    }

    async fn connect(&self, at: SocketAddr) -> Option<Sender> {
        let stream = TcpStream::connect(at).await.ok()?;
        drop(stream.set_nodelay(true));
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.ok()?;
        let mut open = self.open.borrow_mut();
        open.spawn_local(connection);
        while open.try_join_next().is_some() {}
        Some(sender)
    }

    /// Reads the answer to its end, keeps the connection, says what it was.
    async fn outcome(
        &self,
        at: SocketAddr,
        sender: Sender,
        answer: Response<Incoming>,
    ) -> Option<Outcome> {
        let reason = answer.headers().get("x-bulkhead-reason").cloned();
        let fallback = answer.headers().contains_key("x-bulkhead-fallback");
        let success = answer.status().is_success();
        Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .ok()?;
        let mut idle = self.idle.borrow_mut();
        if !sender.is_closed() && idle.len() < IDLE_MAX {
            let since = clock::now();
            idle.push(Kept { at, sender, since });
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

fn request(at: SocketAddr, route: Route) -> Option<Request<Empty<Bytes>>> {
    let uri = format!("/{}", route.name());
    Request::get(uri)
        .header(header::HOST, at.to_string())
        .body(Empty::new())
        .ok()
}
