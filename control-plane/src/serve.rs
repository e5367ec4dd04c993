//! Connections to the dashboard's port: accepted, bounded, ended.
//!
//! Separate from the routes because it knows only bytes and time. Pages, API and the gateways'
//! stream share the port, so nothing here buffers, compresses or bounds a body. It must never let
//! one connection hold up the end of the process.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use crate::auth::{OverTls, Peer};
use crate::tls::Certificate;

/// Most connections at once.
pub(crate) const CONNECTIONS_MAX: usize = 2_000;
/// TLS handshakes at once, a part of the places: who is through keeps room.
pub(crate) const HANDSHAKES_MAX: usize = 500;
/// Longest time for one, the wait for its turn included.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Longest time for a request's head.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Longest head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How often a silent HTTP/2 peer is asked whether it lives, and how long it may take to answer.
const PING_PERIOD: Duration = Duration::from_secs(10);
const PING_MAX: Duration = Duration::from_secs(10);
/// Streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// Longest wait for answers under way when the process goes down.
const DRAIN_MAX: Duration = Duration::from_secs(2);
/// Pause after a failed accept, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stopping`, and a little longer what is under way.
pub(crate) async fn serve(
    listener: TcpListener,
    certificate: Option<Certificate>,
    router: Router,
    stopping: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let secure = certificate.map(|certificate| Secure {
        certificate,
        turns: Arc::new(Semaphore::new(HANDSHAKES_MAX)),
    });
    let mut connections = JoinSet::new();
    loop {
        // Nothing is lost by a cancelled arm: an accept that did not finish accepted nobody.
        tokio::select! {
            () = stopping.cancelled() => break,
            Some(_) = connections.join_next() => {}
            place = Arc::clone(&places).acquire_owned() => {
                let Ok(place) = place else { break };
                let accepted = tokio::select! {
                    () = stopping.cancelled() => break,
                    accepted = listener.accept() => accepted,
                };
                match accepted {
                    Ok((stream, peer)) => {
                        let (router, stopping) = (router.clone(), stopping.clone());
                        let secure = secure.clone();
                        connections.spawn(async move {
                            let _place = place;
                            accepted_one(stream, secure, peer, router, stopping).await;
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection to the dashboard was not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    // What is left is cut: a half-sent head or a client that does not read would wait for ever.
    let _cut = tokio::time::timeout(DRAIN_MAX, drained).await;
}

/// What a port needs for handshakes.
#[derive(Clone, Debug)]
struct Secure {
    certificate: Certificate,
    turns: Arc<Semaphore>,
}

async fn accepted_one(
    stream: TcpStream,
    secure: Option<Secure>,
    peer: SocketAddr,
    router: Router,
    stopping: CancellationToken,
) {
    // A pushed policy must not wait for a full segment.
    let _best_effort = stream.set_nodelay(true);
    let Some(secure) = secure else {
        return connection(stream, false, peer, router, stopping).await;
    };
    let handshake = async {
        let _turn = secure.turns.acquire().await.ok()?;
        secure.certificate.acceptor().accept(stream).await.ok()
    };
    // Nothing is lost by a cancelled arm: who is not through with the handshake asked for nothing.
    let through = tokio::select! {
        () = stopping.cancelled() => return,
        through = tokio::time::timeout(HANDSHAKE_MAX, handshake) => through,
    };
    if let Ok(Some(stream)) = through {
        connection(stream, true, peer, router, stopping).await;
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    over_tls: bool,
    peer: SocketAddr,
    router: Router,
    stopping: CancellationToken,
) {
    let asked = Arc::new(AtomicBool::new(false));
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Peer(peer));
        if over_tls {
            request.extensions_mut().insert(OverTls);
        }
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(infallible(router.call(request.map(Body::new)).await)) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_PERIOD)
        .keep_alive_timeout(PING_MAX)
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS_MAX);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // The protocol's detection has no time limit of its own.
    let mut silent = pin!(tokio::time::sleep(HEAD_MAX));
    let mut may_be_silent = true;
    loop {
        // `serving` is polled again after either other arm; nothing of it is lost.
        tokio::select! {
            _ended = serving.as_mut() => return,
            () = silent.as_mut(), if may_be_silent => {
                may_be_silent = false;
                if !asked.load(Ordering::Relaxed) {
                    return;
                }
            }
            () = stopping.cancelled() => break,
        }
    }
    serving.as_mut().graceful_shutdown();
    let _ended = serving.await;
}

fn infallible<T>(outcome: Result<T, Infallible>) -> T {
    match outcome {
        Ok(value) => value,
        Err(never) => match never {},
    }
}
