//! From the settings to a running gateway, and its end.
//!
//! Separate so that whoever embeds a gateway sees four verbs and no runtime: every call may come
//! from any thread and none is async. It must never leave a thread behind.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use crate::access_log::Writer;
use crate::admin::Admin;
use crate::background::Background;
use crate::checks::Checks;
use crate::clock::Clock;
use crate::config::Config;
use crate::core::Core;
use crate::intake::Intake;
use crate::live_policy::Live;
use crate::metrics::Metrics;
use crate::policy_source;
use crate::report::Reporter;
use crate::server::{Census, Listeners, Stage, descriptors};
use crate::service::Service;
use crate::standing::Standing;
use crate::tell::{AccessLogConfig, Tell, Telling};
use crate::upstream::IDLE_PER_CORE_MAX;
use crate::watch::Watch;
use crate::worker::Worker;

/// Serving threads of one process.
const WORKERS_MAX: usize = 256;

/// How long those who are refused at the end may take to read it.
const REFUSING: Duration = Duration::from_millis(500);

/// Why a gateway did not start. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No address to listen on.
    #[error("listen: at least one address is needed")]
    NowhereToListen,
    /// An address that cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The admin port cannot be bound.
    #[error("cannot listen on {address} for the admin port")]
    Admin {
        /// Which.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A number of threads that cannot be.
    #[error("workers = {workers}: must be from 1 to {WORKERS_MAX}")]
    Workers {
        /// The number.
        workers: usize,
    },
    /// The policy, or the way to it.
    #[error("no policy to start with")]
    Policy(#[source] Box<dyn Error + Send + Sync>),
    /// The access log cannot be opened.
    #[error("access_log = {}: cannot be written", path.display())]
    AccessLog {
        /// Where.
        path: std::path::PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system gives no thread, or no runtime for one.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A running gateway. Dropping it stops it at once.
#[derive(Debug)]
pub struct Running {
    listen: Vec<SocketAddr>,
    admin: SocketAddr,
    drain_timeout: Duration,
    standing: Arc<Standing>,
    census: Arc<Census>,
    upstream_idle_max: usize,
    stage: watch::Sender<Stage>,
    workers: Vec<JoinHandle<()>>,
    background: Option<Background>,
    tell: Tell,
    writer: Option<Writer>,
    forbidden: Vec<SocketAddr>,
}

/// Binds every listener, opens the policy's source and starts all threads.
pub fn start(config: Config) -> Result<Running, StartError> {
    if config.listen.is_empty() {
        return Err(StartError::NowhereToListen);
    }
    let workers = workers(config.workers)?;
    let listeners = Listeners::bind(&config.listen)
        .map_err(|(address, source)| StartError::Listen { address, source })?;
    let (admin_socket, admin_at) =
        crate::server::bind(config.admin).map_err(|source| StartError::Admin {
            address: config.admin,
            source,
        })?;
    let clock = Clock::start();
    let (live, standing) = (
        Live::with(workers, config.least_rate),
        Arc::<Standing>::default(),
    );
    let intake = Arc::new(Intake::new(Arc::clone(&live), Arc::clone(&standing), clock));
    let (tell, writer) = tell(config.telling)?;
    let reporter = Reporter::new(Arc::clone(&live), clock, tell.clone());
    let source = policy_source::open(
        config.source,
        config.id,
        &intake,
        reporter.clone(),
        &standing,
    )
    .map_err(|error| StartError::Policy(Box::new(error)))?;
    let upstream_idle_max = IDLE_PER_CORE_MAX.saturating_mul(workers);
    let census = Arc::<Census>::default();
    // A policy that comes later is looked at with its first connection.
    if let Some(policy) = live.current() {
        let connections_max = policy.policy.gateway.http.connections_max;
        if census.is_new_bound(connections_max) {
            descriptors::warn_if_short(connections_max, upstream_idle_max);
        }
    }
    let metrics = Metrics::new(reporter.clone(), Arc::clone(&standing), clock, tell.clone());
    let admin = Admin::new(reporter.clone(), Arc::clone(&standing), metrics);
    let mut running = Running {
        listen: listeners.addresses(),
        admin: admin_at,
        drain_timeout: config.drain_timeout,
        standing,
        census,
        upstream_idle_max,
        stage: watch::channel(Stage::Serving).0,
        workers: Vec::new(),
        background: None,
        tell,
        writer,
        forbidden: config.forbidden,
    };
    // From here on an error drops `running`, which ends the threads that are there already.
    for number in 0..workers {
        running
            .add_worker(number, &listeners, &live, clock)
            .map_err(StartError::Thread)?;
    }
    let background = {
        let watch = Watch::new(Arc::clone(&live), clock);
        let checks = running.checks(&live, clock);
        Background::start(source, intake, admin_socket, admin, reporter, watch, checks)
    };
    running.background = Some(background.map_err(StartError::Thread)?);
    running.standing.listeners_bound();
    Ok(running)
}

/// Opens what requests are told to.
fn tell(telling: Telling) -> Result<(Tell, Option<Writer>), StartError> {
    let Telling {
        telemetry,
        access_log,
        tenants_max,
    } = telling;
    let opened = access_log.map(
        |AccessLogConfig {
             path,
             share_millionths,
         }| {
            Writer::start(path.clone(), share_millionths)
                .map_err(|source| StartError::AccessLog { path, source })
        },
    );
    let (access_log, writer) = opened.transpose()?.unzip();
    Ok((
        Tell {
            telemetry,
            access_log,
            tenants_max,
        },
        writer,
    ))
}

/// As told, or one for each core that this process may use: affinity and CPU quota count.
fn workers(told: Option<usize>) -> Result<usize, StartError> {
    match told {
        Some(workers) if (1..=WORKERS_MAX).contains(&workers) => Ok(workers),
        Some(workers) => Err(StartError::Workers { workers }),
        None => {
            let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            Ok(cores.min(WORKERS_MAX))
        }
    }
}

impl Running {
    /// Where clients connect, with the real ports.
    pub fn listen(&self) -> Vec<SocketAddr> {
        self.listen.clone()
    }

    /// The admin port.
    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// As in the settings: how long a drain may take.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout
    }

    /// Waits for the first policy; false when the time ran out.
    pub fn wait_live(&self, longest: Duration) -> bool {
        self.standing.wait_live(longest)
    }

    /// Reads the policy's source again.
    pub fn reload(&self) {
        if let Some(background) = &self.background {
            background.reload();
        }
    }

    /// Not ready from now on; listeners close, idle connections too, what runs ends well.
    pub fn begin_drain(&self) {
        self.standing.begin_drain();
        self.stage.send_if_modified(|stage| {
            let first = *stage < Stage::Leaving;
            *stage = (*stage).max(Stage::Leaving);
            first
        });
    }

    /// Waits until no connection is left; false when the time ran out.
    pub fn wait_drained(&self, longest: Duration) -> bool {
        self.census.wait_empty(longest)
    }

    /// The time to drain is over: requests without an answer get one that says so, with a hint when
    /// to come back. True when nothing is left after that; answers under way are cut by
    /// [`Self::stop`].
    pub fn refuse_rest(&self) -> bool {
        self.begin_drain();
        self.stage.send_if_modified(|stage| {
            let first = *stage < Stage::Refusing;
            *stage = (*stage).max(Stage::Refusing);
            first
        });
        self.census.wait_empty(REFUSING)
    }

    /// Cuts what is left and ends every thread.
    pub fn stop(self) {
        drop(self);
    }

    fn checks(&self, live: &Arc<Live>, clock: Clock) -> Checks {
        Checks {
            live: Arc::clone(live),
            clock,
            own: self.own(),
        }
    }

    /// The listeners of this process.
    fn own(&self) -> Vec<SocketAddr> {
        let mut own = self.listen.clone();
        own.push(self.admin);
        own.extend(&self.forbidden);
        own
    }

    fn add_worker(
        &mut self,
        number: usize,
        listeners: &Listeners,
        live: &Arc<Live>,
        clock: Clock,
    ) -> io::Result<()> {
        let worker = Worker {
            listeners: listeners.for_thread()?,
            census: Arc::clone(&self.census),
            upstream_idle_max: self.upstream_idle_max,
            stage: self.stage.subscribe(),
        };
        let (live, own) = (Arc::clone(live), self.own());
        let tell = self.tell.clone();
        let make = move || Service::new(Core::new(live, clock, own, tell));
        self.workers.push(worker.start(number, make)?);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stage.send_replace(Stage::Stopped);
        for worker in self.workers.drain(..) {
            // A panic of that thread has been reported by the panic hook.
            drop(worker.join());
        }
        drop(self.background.take());
        // After the last request.
        drop(self.writer.take());
    }
}
