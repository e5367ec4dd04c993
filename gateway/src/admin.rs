//! The admin port: is it alive, is it ready, what runs, what is full.
//!
//! Separate from the serving threads so that probes are answered while those are busy, and with
//! connections of its own, bounded in number and time. It must never change anything.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::metrics::Metrics;
use crate::report::Reporter;
use crate::standing::Standing;

/// Most connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 128;
/// Longest wait for a request, on a kept connection too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A connection takes no further request after this.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(60);
/// An answer that nobody reads to its end is cut this long after that.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages that read every compartment, at once: each may hold megabytes.
const HEAVY_PAGES_MAX: usize = 2;
/// Without descriptors, accepting again at once would fail again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

const PAGES: [&str; 6] = [
    "/livez",
    "/readyz",
    "/policy",
    "/metrics",
    "/compartments",
    "/upstreams",
];

type Page = Response<Full<Bytes>>;

/// What the admin port shows.
#[derive(Debug)]
pub(crate) struct Admin {
    reporter: Reporter,
    standing: Arc<Standing>,
    metrics: Arc<Metrics>,
    heavy: Arc<Semaphore>,
}

impl Admin {
    pub(crate) fn new(
        reporter: Reporter,
        standing: Arc<Standing>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        let heavy = Arc::new(Semaphore::new(HEAVY_PAGES_MAX));
        Arc::new(Self {
            reporter,
            standing,
            metrics,
            heavy,
        })
    }

    async fn page(self: Arc<Self>, request: Request<Incoming>) -> Page {
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let path = request.uri().path();
        if !PAGES.contains(&path) {
            return text(StatusCode::NOT_FOUND, "no such page\n".to_owned());
        }
        if !is_read {
            let mut page = text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned());
            page.headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return page;
        }
        match path {
            "/livez" => text(StatusCode::OK, "alive\n".to_owned()),
            "/readyz" => self.ready(),
            "/policy" => self.policy(),
            "/upstreams" => self.heavy(Self::upstreams).await,
            "/metrics" => self.heavy(Self::metrics).await,
            _ => self.heavy(Self::compartments).await,
        }
    }

    /// Does not ask whether the control plane is there: the gateway serves without it.
    fn ready(&self) -> Page {
        let missing = self.standing.why_not_ready();
        if missing.is_empty() {
            text(StatusCode::OK, "ready\n".to_owned())
        } else {
            let why = format!("not ready: {}\n", missing.join(", "));
            text(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }

    fn policy(&self) -> Page {
        let (generation, digest) = self.reporter.running().unwrap_or_default();
        let control_plane = self.standing.control_plane();
        let page = json!({
            "generation": generation,
            "digest": digest,
            "control_plane": control_plane,
        });
        json(page.to_string())
    }

    /// Reads every compartment on a thread of the blocking pool, so that probes, which share
    /// this thread, are answered meanwhile.
    async fn heavy(self: Arc<Self>, render: fn(&Self) -> Page) -> Page {
        // The semaphore is never closed; if it were, the page would just not be bounded. The permit
        // goes with the work: a client that leaves does not end it.
        let permit = Arc::clone(&self.heavy).acquire_owned().await;
        let own = Arc::clone(&self);
        let made = tokio::task::spawn_blocking(move || {
            let _until_rendered = permit;
            render(&own)
        })
        .await;
        let broken = |_| {
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot read\n".to_owned(),
            )
        };
        made.unwrap_or_else(broken)
    }

    fn upstreams(&self) -> Page {
        json(self.reporter.upstreams().to_string())
    }

    fn compartments(&self) -> Page {
        match serde_json::to_string(&self.reporter.snapshot()) {
            Ok(body) => json(body),
            Err(_) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "cannot be written\n".to_owned(),
            ),
        }
    }

    fn metrics(&self) -> Page {
        let body = self.metrics.page();
        page(
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            body,
        )
    }
}

/// Serves the admin port for ever; its connections end when this is dropped.
pub(crate) async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // Cancelled, a connection not yet accepted stays in the listener's queue.
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, Arc::clone(&admin)));
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
            // Cancelled, the ended connection is joined the next time.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, admin: Arc<Admin>) {
    let service = service_fn(move |request| {
        let admin = Arc::clone(&admin);
        async move { Ok::<_, Infallible>(admin.page(request).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    // How a client's connection ends is the client's affair.
    let aged = tokio::time::timeout(CONNECTION_AGE_MAX, serving.as_mut()).await;
    if aged.is_err() {
        serving.as_mut().graceful_shutdown();
        let _cut = tokio::time::timeout(LAST_ANSWER_TIMEOUT, serving).await;
    }
}

fn text(status: StatusCode, body: String) -> Page {
    page(status, "text/plain; charset=utf-8", body)
}

fn json(body: String) -> Page {
    page(StatusCode::OK, "application/json", body)
}

fn page(status: StatusCode, kind: &'static str, body: String) -> Page {
    let mut page = Response::new(Full::new(Bytes::from(body)));
    *page.status_mut() = status;
    page.headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    page.headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    page
}
