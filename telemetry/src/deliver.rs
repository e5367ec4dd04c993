//! How records and figures are gathered and sent, for each signal by itself.
//!
//! Separate because a signal that cannot be delivered must hold up no other. It must never keep
//! more than one batch beside the queue, and never ask a collector again without a pause.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, sleep, timeout};

use crate::export::{Failed, Message, Said};
use crate::grpc::Grpc;
use crate::output::Output;
use crate::pipe::{Lane, Shared};
use crate::record::Record;
use crate::settings::{Batching, Protocol, Settings, Signal};
use crate::{clock, encode, encode_metrics, plain_http};

/// How often a queue is looked at: nobody who fills it wakes this thread, which would cost them.
const LOOK: Duration = Duration::from_millis(50);
/// The first pause before a message is sent again; it doubles.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The way to one collector for one signal.
pub(crate) struct Way {
    output: Output,
    grpc: Option<Grpc>,
    /// Whether the last failure was told.
    is_away: bool,
}

impl Way {
    /// Within the runtime that will use it.
    pub(crate) fn new(output: Output) -> Result<Self, tonic::transport::Error> {
        let grpc = match output.protocol {
            Protocol::Grpc => Some(Grpc::new(&output)?),
            Protocol::Http => None,
        };
        Ok(Self {
            output,
            grpc,
            is_away: false,
        })
    }

    async fn once(&self, message: &Message) -> Result<Said, Failed> {
        let sending = async {
            match &self.grpc {
                Some(grpc) => grpc.send(message).await,
                None => self.post(message).await,
            }
        };
        let silent = |_| Failed::again("the collector does not answer".to_owned());
        timeout(self.output.timeout, sending)
            .await
            .map_err(silent)?
    }

    async fn post(&self, message: &Message) -> Result<Said, Failed> {
        let mut body = message.to_bytes();
        if self.output.gzip {
            body = gzip(&body).map_err(|error| Failed::never(error.to_string()))?;
        }
        let answer = plain_http::post(&self.output, Bytes::from(body)).await?;
        let part = match message {
            Message::Traces(_) => ExportTraceServiceResponse::decode(answer).map(|said| {
                said.partial_success
                    .map(|p| (p.rejected_spans, p.error_message))
            }),
            Message::Metrics(_) => ExportMetricsServiceResponse::decode(answer).map(|said| {
                said.partial_success
                    .map(|p| (p.rejected_data_points, p.error_message))
            }),
            Message::Logs(_) => ExportLogsServiceResponse::decode(answer).map(|said| {
                said.partial_success
                    .map(|p| (p.rejected_log_records, p.error_message))
            }),
        };
        // Some collectors answer with text; the status said that all is well.
        Ok(part.map(Said::of).unwrap_or_default())
    }

    /// Sends until it arrives, is refused for good, or `longest` is over.
    async fn send(&mut self, message: &Message, longest: Duration) -> Result<Said, ()> {
        let mut last = String::from("the time to send is over");
        let trying = async {
            let mut pause = PAUSE;
            loop {
                match self.once(message).await {
                    Ok(said) => return Ok(said),
                    Err(failed) if failed.again => {
                        last = failed.text;
                        sleep(failed.pause.unwrap_or(pause).max(PAUSE)).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                    Err(failed) => return Err(failed.text),
                }
            }
        };
        let result = match timeout(longest, trying).await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(text)) => Err(text),
            Err(_) => Err(last),
        };
        self.tell(result)
    }

    /// One line for each streak: a collector that is away for a night is one line.
    fn tell(&mut self, result: Result<Said, String>) -> Result<Said, ()> {
        let signal = self.output.signal.as_str();
        match result {
            Ok(said) => {
                if std::mem::replace(&mut self.is_away, false) {
                    tracing::info!(signal, "telemetry arrives again");
                }
                Ok(said)
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_away, true) {
                    tracing::warn!(signal, %error, collector = %self.output.uri,
                        "telemetry does not arrive; it is dropped and counted");
                }
                Err(())
            }
        }
    }
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let packed = Vec::with_capacity(bytes.len() / 4);
    let mut encoder = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Spans, or log records.
pub(crate) struct Batches {
    pub(crate) signal: Signal,
    pub(crate) way: Way,
    pub(crate) queue: Receiver<Box<Record>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: Resource,
    pub(crate) how: Batching,
    pub(crate) stopping: watch::Receiver<bool>,
}

impl Batches {
    /// Ends when it is told to and nothing is left.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(self.how.batch_max);
        let mut waited = Duration::ZERO;
        loop {
            let room = self.how.batch_max.saturating_sub(batch.len());
            batch.extend(self.queue.try_iter().take(room));
            let is_full = batch.len() >= self.how.batch_max;
            let is_stopping = *self.stopping.borrow();
            if is_full || (!batch.is_empty() && (is_stopping || waited >= self.how.delay)) {
                self.send(&mut batch).await;
                waited = Duration::ZERO;
            } else if is_stopping {
                return;
            } else {
                tokio::select! {
                    () = sleep(LOOK) => waited += LOOK,
                    // Cancelled, nothing is lost: the value is looked at again.
                    changed = self.stopping.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    fn lane(&self) -> &Lane {
        match self.signal {
            Signal::Traces => &self.shared.spans,
            Signal::Logs | Signal::Metrics => &self.shared.logs,
        }
    }

    #[expect(
        clippy::vec_box,
        reason = "boxes come out of the queue, where they are small"
    )]
    async fn send(&mut self, batch: &mut Vec<Box<Record>>) {
        let message = match self.signal {
            Signal::Traces => Message::Traces(encode::traces(batch, &self.resource, &self.how)),
            Signal::Logs | Signal::Metrics => {
                Message::Logs(encode::logs(batch, &self.resource, &self.how))
            }
        };
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        batch.clear();
        let sent = self.way.send(&message, self.how.timeout).await;
        let refused = sent.map_or(count, |said| said.refused.min(count));
        self.lane().dropped.fetch_add(refused, Ordering::Relaxed);
        self.lane()
            .delivered
            .fetch_add(count.saturating_sub(refused), Ordering::Relaxed);
    }
}

/// Metrics: read and sent on a period, and once more at the end.
pub(crate) struct Figures {
    way: Way,
    shared: Arc<Shared>,
    resource: Resource,
    period: Duration,
    longest: Duration,
    began_unix_ns: u64,
    stopping: watch::Receiver<bool>,
}

impl Figures {
    pub(crate) fn new(
        way: Way,
        shared: Arc<Shared>,
        resource: Resource,
        settings: &Settings,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let (period, longest) = (settings.metrics_period, settings.metrics_timeout);
        let began_unix_ns = clock::unix_ns();
        Self {
            way,
            shared,
            resource,
            period,
            longest,
            began_unix_ns,
            stopping,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut period = tokio::time::interval(self.period);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, before there is anything to say.
        period.tick().await;
        loop {
            tokio::select! {
                // A tick that is cancelled comes again with the next call.
                _ = period.tick() => {}
                // The last figures go out too.
                _ = self.stopping.wait_for(|stop| *stop) => {}
            }
            self.send().await;
            if *self.stopping.borrow() {
                return;
            }
        }
    }

    async fn send(&mut self) {
        let now_unix_ns = clock::unix_ns();
        let span = encode_metrics::Span {
            began_unix_ns: self.began_unix_ns,
            now_unix_ns,
        };
        let mut messages = Vec::new();
        for (scope, families) in self.shared.families() {
            messages.extend(encode_metrics::messages(
                &families,
                &self.resource,
                span,
                scope,
            ));
        }
        for (message, points) in messages {
            // Figures that do not arrive in time are told by the next ones, which are newer.
            let longest = self.longest.min(self.period);
            let sent = self.way.send(&Message::Metrics(message), longest).await;
            let refused = sent.map_or(points, |said| said.refused.min(points));
            self.shared
                .points_dropped
                .fetch_add(refused, Ordering::Relaxed);
        }
    }
}
