//! Three scripted upstreams on loopback: each answers after its latency, whatever the load.
//!
//! Separate because they stand for somebody else's services. They must never be the bottleneck:
//! a call is a timer, and any number of them may be open.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::scenario::{Route, SLOW};
use super::traffic::Targets;
use crate::error::Failure;

/// The upstreams; they end when this is dropped.
pub(super) struct Upstreams {
    addresses: Vec<SocketAddr>,
    slow: Arc<AtomicBool>,
    /// Dropped, it ends the thread.
    _end: oneshot::Sender<Infallible>,
}

impl Upstreams {
    pub(super) fn start() -> Result<Self, Failure> {
        let failure = |source| Failure::System {
            what: "start the demo's upstreams",
            source,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(failure)?;
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for route in Route::ALL {
            let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)));
            let listener = listener.map_err(failure)?;
            addresses.push(listener.local_addr().map_err(failure)?);
            listeners.push((route, listener));
        }
        let slow = Arc::new(AtomicBool::new(false));
        let (end, ended) = oneshot::channel();
        let shared = slow.clone();
        std::thread::Builder::new()
            .name("upstreams".to_owned())
            .spawn(move || {
                let local = LocalSet::new();
                local.block_on(&runtime, serve_all(listeners, shared, ended));
            })
            .map_err(failure)?;
        Ok(Self {
            addresses,
            slow,
            _end: end,
        })
    }

    /// In the order of [`Route::ALL`].
    pub(super) fn urls(&self) -> Vec<String> {
        self.addresses
            .iter()
            .map(|at| format!("http://{at}"))
            .collect()
    }

    /// The upstreams that stay as they are, to be called past the gateways.
    pub(super) fn neighbours(&self) -> Targets {
        let all = Route::ALL
            .iter()
            .copied()
            .zip(self.addresses.iter().copied());
        all.filter(|(route, _)| *route != Route::Recommendations)
            .collect()
    }

    /// From now on a call of recommendations takes [`SLOW`], or its healthy time again. A call
    /// that has begun keeps the time it began with, as a request stuck in a real service does.
    pub(super) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }
}

async fn serve_all(
    listeners: Vec<(Route, TcpListener)>,
    slow: Arc<AtomicBool>,
    ended: oneshot::Receiver<Infallible>,
) {
    let mut servers = JoinSet::new();
    for (route, listener) in listeners {
        servers.spawn_local(serve(route, listener, slow.clone()));
    }
    // The sender is never used, only dropped; then this set and all connections end with it.
    drop(ended.await);
}

async fn serve(route: Route, listener: TcpListener, slow: Arc<AtomicBool>) {
    let mut connections = JoinSet::new();
    let slow = Rc::new(slow);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: wait for some to come back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        drop(stream.set_nodelay(true));
        let slow = slow.clone();
        let service =
            service_fn(move |request| answer(route, slow.load(Ordering::Relaxed), request));
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        connections.spawn_local(connection);
        while connections.try_join_next().is_some() {}
    }
}

async fn answer(
    route: Route,
    slow: bool,
    _request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let latency = if slow && route == Route::Recommendations {
        SLOW
    } else {
        route.healthy()
    };
    tokio::time::sleep(latency).await;
    Ok(Response::new(Full::new(Bytes::from_static(
        b"{\"from\":\"upstream\"}",
    ))))
}
