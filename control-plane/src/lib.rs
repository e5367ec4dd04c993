//! The control plane of Bulkhead: store, versions, rollout, API and pages.
//!
//! Separate from the gateway, which serves without it. It owns what limits *should* be; it must
//! never be in the way of a request. It runs on a runtime of its own, in threads of its own, so
//! that inside one process neither side can starve the other.

mod access;
pub mod advice;
pub mod alerts;
mod api;
mod auth;
pub mod changes;
mod clock;
mod config;
pub mod drills;
mod elsewhere;
mod events;
pub mod fleet;
mod guard;
pub mod history;
mod import;
mod leader;
pub mod limits;
pub mod linter;
pub mod live;
mod metrics;
mod observed;
pub mod orders;
mod pages;
mod past;
pub mod people;
pub mod readings;
mod refused;
mod request_id;
mod retention;
pub mod rollout;
mod routes;
pub mod scheduled;
mod serve;
mod session;
pub mod settings;
pub mod sizing;
mod sse;
mod start_error;
mod state;
pub mod store;
mod stream;
mod taken;
mod tenants;
mod tls;
mod watched;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use api::{CHANGE_BYTES_MAX, DOCUMENT_BYTES_MAX, description as openapi};
pub use compartment::policy;
pub use config::Config;
pub use routes::access_matrix;
pub use start_error::StartError;
pub use state::AppState;
pub use tls::{TlsFiles, TlsFilesError};
pub use wire::{Secret, SecretError, document};

use store::Store;

/// Threads that serve pages, API and streams.
const WORKERS: usize = 2;
/// Threads that parse, check and compare documents.
const BLOCKING_MAX: usize = 8;
/// Longest wait for streams and writes when the process goes down.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Where the gateways' stream is.
const STREAM_PATH: &str = "/bulkhead.control.v1.Control/{method}";

/// A control plane that serves; stopped when dropped.
#[derive(Debug)]
pub struct Running {
    dashboard: SocketAddr,
    loopback_stream: Option<SocketAddr>,
    certificate: Option<tls::Certificate>,
    gateway_token: Secret,
    setup_code: Option<Secret>,
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Where the dashboard listens.
    pub fn dashboard(&self) -> SocketAddr {
        self.dashboard
    }

    /// Where a gateway of this process finds its stream, when that was asked for.
    pub fn loopback_stream(&self) -> Option<SocketAddr> {
        self.loopback_stream
    }

    /// Reads the certificate's files again. One that breaks leaves what works.
    pub fn reload(&self) {
        let Some(certificate) = &self.certificate else {
            return;
        };
        match certificate.reload() {
            Ok(()) => tracing::info!("the dashboard's certificate was read again"),
            Err(error) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "the dashboard's certificate stays as it was"
            ),
        }
    }

    /// What a gateway must show to be enrolled.
    pub fn gateway_token(&self) -> &Secret {
        &self.gateway_token
    }

    /// The code that makes the first user, once, within a day; `None` when there is somebody, or
    /// nobody has to sign in. For whoever started this, and for no log that is kept.
    pub fn setup_code(&self) -> Option<&Secret> {
        self.setup_code.as_ref()
    }

    /// Ends streams and answers under way, within a few seconds, and closes the store.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stopping.cancel();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Binds the port, opens the store, imports into an empty one, serves. Callable from any thread
/// that is not a runtime's.
pub fn start(config: Config) -> Result<Running, StartError> {
    config.check()?;
    let certificate = config
        .tls
        .as_ref()
        .map(tls::Certificate::open)
        .transpose()?;
    // First of all: a second process on the same port must not touch the store.
    let (listener, dashboard) = bind(config.dashboard)?;
    let stream = config
        .loopback_stream
        .then(|| bind((Ipv4Addr::LOCALHOST, 0).into()))
        .transpose()?;
    let (stream, loopback_stream) = stream.unzip();
    let ports = Ports {
        dashboard: listener,
        certificate: certificate.clone(),
        stream,
    };
    let gateway_token = match &config.gateway_token {
        Some(token) => token.clone(),
        None => Secret::random()?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_MAX)
        .thread_name("control-plane")
        .enable_all()
        .build()
        .map_err(StartError::Threads)?;
    let stopping = CancellationToken::new();
    let (ready, started) = sync_channel(1);
    let (stop, token) = (stopping.clone(), gateway_token.clone());
    let run = move || {
        runtime.block_on(run(config, ports, token, stop, ready));
        runtime.shutdown_timeout(STOP_MAX);
    };
    let thread = std::thread::Builder::new()
        .name("control-plane".to_owned())
        .spawn(run);
    let thread = Some(thread.map_err(StartError::Threads)?);
    let mut running = Running {
        setup_code: None,
        dashboard,
        loopback_stream,
        certificate,
        gateway_token,
        stopping,
        thread,
    };
    match started.recv() {
        Ok(Ok(setup_code)) => {
            running.setup_code = setup_code;
            Ok(running)
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StartError::Threads(std::io::Error::other(
            "the thread ended",
        ))),
    }
}

/// What this process listens on.
struct Ports {
    dashboard: TcpListener,
    certificate: Option<tls::Certificate>,
    /// For the stream of a gateway in this process alone.
    stream: Option<TcpListener>,
}

fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    bound.map_err(|source| StartError::Bind { address, source })
}

async fn run(
    config: Config,
    ports: Ports,
    gateway_token: Secret,
    stopping: CancellationToken,
    ready: SyncSender<Result<Option<Secret>, StartError>>,
) {
    let Ports {
        dashboard,
        certificate,
        stream,
    } = ports;
    let (state, listener) = match open(&config, dashboard, gateway_token, &stopping).await {
        Ok(opened) => opened,
        Err(error) => {
            let _gone = ready.send(Err(error));
            return;
        }
    };
    let invited = match config.no_login {
        true => Ok(None),
        false => state.people.invite_first(clock::unix_ms()),
    };
    match invited {
        Ok(code) => drop(ready.send(Ok(code))),
        Err(error) => {
            let _gone = ready.send(Err(error.into()));
            return;
        }
    }
    let leading = CancellationToken::new();
    let mut background = beside_pages(&state, &leading, &stopping);
    let rollout = state.rollout.clone().run(stopping.clone());
    let alerts = state
        .alerts
        .clone()
        .run(state.rollout.clone(), stopping.clone());
    let observed = observed::Observed::new(config.telemetry, &state);
    let serving = serve::serve(
        listener,
        certificate,
        routes::router(state.clone(), observed),
        stopping.clone(),
    );
    let beside = beside(stream, state.clone(), stopping);
    tokio::join!(rollout, alerts, serving, beside);
    // Last: until here it is this process that keeps what it began.
    leading.cancel();
    state.tasks.close();
    let ended = async {
        state.tasks.wait().await;
        state.store.close().await;
        // Last: a disk that is slow to take figures must not be what the policy's store waits for.
        while background.join_next().await.is_some() {}
        state.history.close().await;
    };
    if tokio::time::timeout(STOP_MAX, ended).await.is_err() {
        tracing::warn!("the control plane ended with work under way");
    }
}

/// What goes on by itself, until `stopping`; who leads, until `leading`.
fn beside_pages(
    state: &AppState,
    leading: &CancellationToken,
    stopping: &CancellationToken,
) -> JoinSet<()> {
    let mut background = JoinSet::new();
    let leader = state.leader.clone();
    background.spawn(leader.clone().run(state.store.clone(), leading.clone()));
    background.spawn(state.store.clone().hear(stopping.clone()));
    let elsewhere = state.elsewhere.clone();
    background.spawn(elsewhere.run(state.clone(), stopping.clone()));
    let history = state.history.clone();
    background.spawn(history.run(leader.clone(), stopping.clone()));
    let (history, store) = (state.history.clone(), state.store.clone());
    let marker = history::marks::Marker::new(history, store, state.rollout.clone());
    background.spawn(marker.run(leader.clone(), stopping.clone()));
    background.spawn(state.events.clone().run(state.clone()));
    background.spawn(state.orders.clone().run(stopping.clone()));
    let changes = state.changes.clone();
    background.spawn(changes.run(leader, stopping.clone()));
    let (overrides, leads) = (state.overrides.clone(), state.leader.clone());
    background.spawn(overrides.run(leads, stopping.clone()));
    background.spawn(state.people.clone().run(stopping.clone()));
    let (store, leads) = (state.store.clone(), state.leader.clone());
    background.spawn(retention::run(store, leads, stopping.clone()));
    let past = state.past.clone();
    let (history, rollout) = (state.history.clone(), state.rollout.clone());
    background.spawn(past.run(history, rollout, stopping.clone()));
    let (book, history) = (state.advice.clone(), state.history.clone());
    background.spawn(book.run(history, state.rollout.clone(), stopping.clone()));
    background
}

/// Serves the stream of a gateway in this process, and nothing else.
async fn beside(listener: Option<TcpListener>, state: AppState, stopping: CancellationToken) {
    let Some(listener) = listener else { return };
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => {
            let router = Router::new().route_service(STREAM_PATH, stream::service(state));
            serve::serve(listener, None, router, stopping).await;
        }
        Err(error) => tracing::error!(%error, "the stream of this process is not served"),
    }
}

/// Everything that can fail, before anybody is served.
async fn open(
    config: &Config,
    listener: TcpListener,
    gateway_token: Secret,
    stopping: &CancellationToken,
) -> Result<(AppState, tokio::net::TcpListener), StartError> {
    let store = Store::open_with(&config.database_url, config.audit_key.clone()).await?;
    import::import(&store, config).await?;
    let people = people::People::open(store.clone()).await?;
    let rollout = rollout::Rollout::new(store.clone()).await?;
    let own = listener.local_addr().map_err(StartError::Threads)?;
    let leader = leader::Leader::of(&store);
    let alerts = config.alerts.clone();
    let alerts = alerts::Alerts::open(alerts, store.clone(), own, leader.clone()).await?;
    // A history that does not open keeps nobody from starting; its state says so.
    let place = store::history_of(&config.database_url)?;
    let history = history::History::open(place, config.history).await;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(StartError::Threads)?;
    let limits = limits::Limits::new(store.clone(), rollout.clone());
    let live = live::Live::default();
    let state = AppState {
        overrides: scheduled::Overrides::new(store.clone(), limits.clone(), rollout.clone()),
        readings: readings::Readings::default(),
        watched: watched::Watched::default(),
        changes: changes::Changes::new(
            store.clone(),
            rollout.clone(),
            limits.clone(),
            live.clone(),
        ),
        settings: settings::Settings::new(store.clone()),
        live,
        past: past::Past::default(),
        newest: refused::Newest::default(),
        events: events::Events::default(),
        page_streams: pages::PageStreams::default(),
        alerts,
        leader,
        limits,
        fleet: fleet::Fleet::default(),
        elsewhere: elsewhere::Elsewhere::of(&store),
        history,
        advice: advice::Book::default(),
        drills: drills::Drills::open(store.clone()).await,
        orders: orders::Orders::open(store.clone()).await?,
        made: pages::Made::default(),
        made_keys: pages::Made::default(),
        auth: Arc::new(auth::Auth::new(config, people.clone())),
        people,
        store,
        rollout,
        gateway_token,
        tasks: TaskTracker::new(),
        stopping: stopping.clone(),
    };
    Ok((state, listener))
}
