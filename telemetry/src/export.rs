//! The exporter: one thread with a runtime of its own, and its end.
//!
//! Separate because whatever a collector does must end here: it is slow, silent or away, and the
//! process serves on and ends in time. It must never be called from a serving thread but by its
//! handle.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::deliver::{Batches, Figures, Way};
use crate::encode;
use crate::pipe::{Ends, Handle, Shared};
use crate::settings::{Settings, Signal};

/// How long the end of the process waits for what is on its way.
const FLUSH: Duration = Duration::from_secs(1);

/// Why there is no exporter.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system gives no thread, or no runtime for one.
    #[error("cannot start the thread of telemetry")]
    Thread(#[source] std::io::Error),
    /// No channel can be made for an endpoint.
    #[error("cannot make a channel to the collector")]
    Channel(#[source] tonic::transport::Error),
}

/// One message of one signal.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Traces(ExportTraceServiceRequest),
    Metrics(ExportMetricsServiceRequest),
    Logs(ExportLogsServiceRequest),
}

impl Message {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Traces(message) => message.encode_to_vec(),
            Self::Metrics(message) => message.encode_to_vec(),
            Self::Logs(message) => message.encode_to_vec(),
        }
    }
}

/// Why a message did not arrive.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) text: String,
    pub(crate) again: bool,
    /// What the collector asked for.
    pub(crate) pause: Option<Duration>,
}

impl Failed {
    /// It may arrive later.
    pub(crate) const fn again(text: String) -> Self {
        Self {
            text,
            again: true,
            pause: None,
        }
    }

    /// It would be refused again.
    pub(crate) const fn never(text: String) -> Self {
        Self {
            text,
            again: false,
            pause: None,
        }
    }
}

/// What a collector says that took a message.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// How much of it was refused.
    pub(crate) refused: u64,
}

impl Said {
    pub(crate) fn of(part: Option<(i64, String)>) -> Self {
        let refused = part.map_or(0, |(count, _)| u64::try_from(count).unwrap_or(0));
        Self { refused }
    }
}

thread_local! {
    static IS_EXPORTER: Cell<bool> = const { Cell::new(false) };
}

/// True on the exporter's own thread: what it logs must not become telemetry again.
pub(crate) fn is_exporter() -> bool {
    IS_EXPORTER.get()
}

/// Owns the exporter; dropped, it sends what is left, for a second at most.
#[derive(Debug)]
pub struct Telemetry {
    handle: Handle,
    running: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    stop: watch::Sender<bool>,
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Telemetry {
    /// Starts the exporter; without an endpoint there is none. `instance` names this process.
    pub fn start(settings: Settings, instance: &str) -> Result<Self, StartError> {
        let (handle, ends) = Handle::new(&settings);
        if !settings.is_on() {
            return Ok(Self {
                handle,
                running: None,
            });
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // For looking up names alone.
            .max_blocking_threads(2)
            .thread_name("telemetry-slow")
            .build()
            .map_err(StartError::Thread)?;
        let (stop, stopping) = watch::channel(false);
        let (said, ended) = sync_channel(1);
        let entered = runtime.enter();
        let work = Work::new(settings, instance, &handle, ends, stopping)?;
        drop(entered);
        let run = move || {
            IS_EXPORTER.set(true);
            runtime.block_on(work.run());
            // A name server that does not answer must not hold up the end.
            runtime.shutdown_background();
            let _nobody_waits = said.send(());
        };
        let thread = std::thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(run);
        let thread = thread.map_err(StartError::Thread)?;
        Ok(Self {
            handle,
            running: Some(Thread {
                stop,
                ended,
                thread,
            }),
        })
    }

    /// What others hand records to.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let Some(Thread {
            stop,
            ended,
            thread,
        }) = self.running.take()
        else {
            return;
        };
        stop.send_replace(true);
        // The thread bounds itself by the same time; should it hang, nobody waits for it.
        if ended.recv_timeout(FLUSH * 2).is_ok() {
            let _panicked = thread.join();
        }
    }
}

/// Everything that runs on the thread.
struct Work {
    shared: Option<std::sync::Arc<Shared>>,
    spans: Option<Batches>,
    logs: Option<Batches>,
    figures: Option<Figures>,
    stopping: watch::Receiver<bool>,
}

impl Work {
    fn new(
        settings: Settings,
        instance: &str,
        handle: &Handle,
        ends: Ends,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, StartError> {
        let resource = encode::resource(&settings, instance);
        let way = |signal| {
            let output = settings.output(signal).cloned();
            output
                .map(Way::new)
                .transpose()
                .map_err(StartError::Channel)
        };
        let shared = handle.shared().cloned();
        let batches = |signal, end, how| {
            Ok(way(signal)?
                .zip(end)
                .zip(shared.clone())
                .map(|((way, queue), shared)| Batches {
                    signal,
                    way,
                    queue,
                    shared,
                    resource: resource.clone(),
                    how,
                    stopping: stopping.clone(),
                }))
        };
        Ok(Self {
            spans: batches(Signal::Traces, ends.spans, settings.spans)?,
            logs: batches(Signal::Logs, ends.logs, settings.records)?,
            figures: way(Signal::Metrics)?
                .zip(shared.clone())
                .map(|(way, shared)| {
                    Figures::new(way, shared, resource.clone(), &settings, stopping.clone())
                }),
            shared,
            stopping,
        })
    }

    async fn run(self) {
        let Self {
            shared,
            spans,
            logs,
            figures,
            mut stopping,
        } = self;
        let mut tasks = JoinSet::new();
        for batches in [spans, logs].into_iter().flatten() {
            tasks.spawn(batches.run());
        }
        if let Some(figures) = figures {
            tasks.spawn(figures.run());
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        let cut = async {
            // An error means that the owner is gone, which is the same.
            drop(stopping.wait_for(|stop| *stop).await);
            tokio::time::sleep(FLUSH).await;
        };
        // Cut, what is under way is lost and counted; ended, nothing is.
        tokio::select! {
            () = all => {}
            () = cut => {}
        }
        let Some(shared) = shared else { return };
        let (spans, logs) = (shared.spans.under_way(), shared.logs.under_way());
        if spans > 0 || logs > 0 {
            tracing::warn!(
                spans,
                logs,
                "telemetry was lost at the end: no collector took it in time"
            );
        }
    }
}
