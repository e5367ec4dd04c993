//! The way from whoever is observed to the exporter's thread.
//!
//! Separate because it is all that a serving thread ever touches: one bounded queue for each kind
//! of record, without a wake-up. It must never wait, and never grow beyond its bound.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::metric::{Family, Figure};
use crate::names::{Instrument, Label};
use crate::record::{Kind, Record, Text};
use crate::sampler::Sampler;
use crate::settings::{Settings, Signal};

/// Most parts of a process that have figures.
const SOURCES_MAX: usize = 16;

/// A part of the process that has figures.
pub trait Source: Send + Sync {
    /// The part of the product: what two parts say of themselves must not be mixed.
    fn scope(&self) -> &'static str {
        "bulkhead"
    }

    /// Reads them. Called on the exporter's thread, now and then.
    fn families(&self) -> Vec<Family>;

    /// What it lost of its own, by kind.
    fn dropped(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// What was lost since the start, by signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Spans.
    pub spans: u64,
    /// Log records.
    pub logs: u64,
    /// Metric points.
    pub points: u64,
}

/// Hands records to the exporter. Cheap to clone; the default one is off and costs nothing.
#[derive(Clone, Default)]
pub struct Handle(Option<Arc<Shared>>);

/// One kind of record on its way.
pub(crate) struct Lane {
    queue: Option<SyncSender<Box<Record>>>,
    taken: AtomicU64,
    pub(crate) delivered: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// What all handles share.
pub(crate) struct Shared {
    pub(crate) spans: Lane,
    pub(crate) logs: Lane,
    pub(crate) points_dropped: AtomicU64,
    sources: Mutex<Vec<Weak<dyn Source>>>,
    sampler: Sampler,
    propagates: bool,
    examples: bool,
}

/// The exporter's ends of the queues; `None` for a signal that does not go out.
pub(crate) struct Ends {
    pub(crate) spans: Option<Receiver<Box<Record>>>,
    pub(crate) logs: Option<Receiver<Box<Record>>>,
}

impl Lane {
    fn new(is_on: bool, queue_max: usize) -> (Self, Option<Receiver<Box<Record>>>) {
        let (queue, end) = match is_on.then(|| sync_channel(queue_max)) {
            Some((queue, end)) => (Some(queue), Some(end)),
            None => (None, None),
        };
        let lane = Self {
            queue,
            taken: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        (lane, end)
    }

    fn push(&self, record: Record) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(Box::new(record)) {
            Ok(()) => self.taken.fetch_add(1, Ordering::Relaxed),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed)
            }
        };
    }

    /// What was taken and neither arrived nor was given up.
    pub(crate) fn under_way(&self) -> u64 {
        let [taken, delivered, dropped] =
            [&self.taken, &self.delivered, &self.dropped].map(|n| n.load(Ordering::Relaxed));
        taken.saturating_sub(delivered.saturating_add(dropped))
    }
}

impl Handle {
    pub(crate) fn new(settings: &Settings) -> (Self, Ends) {
        let is_on = |signal| settings.output(signal).is_some();
        let (spans, spans_end) = Lane::new(is_on(Signal::Traces), settings.spans.queue_max);
        let (logs, logs_end) = Lane::new(is_on(Signal::Logs), settings.records.queue_max);
        let shared = Shared {
            spans,
            logs,
            points_dropped: AtomicU64::new(0),
            sources: Mutex::default(),
            sampler: settings.sampler,
            propagates: settings.propagates,
            examples: settings.examples && is_on(Signal::Metrics),
        };
        (
            Self(Some(Arc::new(shared))),
            Ends {
                spans: spans_end,
                logs: logs_end,
            },
        )
    }

    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.0.as_ref()
    }

    /// How traces are sampled; `None` while no traces go out.
    pub fn traces(&self) -> Option<Sampler> {
        let shared = self.0.as_ref()?;
        shared.spans.queue.as_ref().map(|_| shared.sampler)
    }

    /// Whether log records go out.
    pub fn takes_logs(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|shared| shared.logs.queue.is_some())
    }

    /// Whether measured requests are kept as examples, with their traces.
    pub fn takes_examples(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.examples)
    }

    /// Whether a caller's trace goes on to the upstream.
    pub fn propagates(&self) -> bool {
        self.0.as_ref().is_none_or(|shared| shared.propagates)
    }

    /// Takes a record, or drops and counts it. Never waits.
    pub fn push(&self, record: Record) {
        let Some(shared) = &self.0 else { return };
        match record.kind {
            Kind::Server | Kind::Client | Kind::Internal => shared.spans.push(record),
            Kind::Log(_) => shared.logs.push(record),
        }
    }

    /// The figures of `source` go out as long as somebody keeps it.
    pub fn observe<S: Source + 'static>(&self, source: &Arc<S>) {
        let Some(shared) = &self.0 else { return };
        let weak: Weak<S> = Arc::downgrade(source);
        let weak: Weak<dyn Source> = weak;
        let mut sources = shared
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        sources.retain(|source| source.strong_count() > 0);
        if sources.len() < SOURCES_MAX {
            sources.push(weak);
        }
    }

    /// What was lost.
    pub fn dropped(&self) -> Dropped {
        let Some(shared) = &self.0 else {
            return Dropped::default();
        };
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Dropped {
            spans: read(&shared.spans.dropped),
            logs: read(&shared.logs.dropped),
            points: read(&shared.points_dropped),
        }
    }

    /// What was lost, as figures; further kinds of loss join it.
    pub fn dropped_family(&self, others: &[(&'static str, u64)]) -> Family {
        let Dropped {
            spans,
            logs,
            points,
        } = self.dropped();
        let mut family = Family::new(Instrument::Dropped);
        let own = [("traces", spans), ("logs", logs), ("metrics", points)];
        for &(signal, count) in own.iter().chain(others) {
            family.push(
                vec![(Label::Signal, Text::from(signal))],
                Figure::Whole(count),
            );
        }
        family
    }
}

impl Shared {
    /// Reads every source, each with the name of its part of the product.
    pub(crate) fn families(self: &Arc<Self>) -> Vec<(&'static str, Vec<Family>)> {
        let sources = self
            .sources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let there: Vec<_> = sources.iter().filter_map(Weak::upgrade).collect();
        let others: Vec<_> = there.iter().flat_map(|source| source.dropped()).collect();
        let dropped = Handle(Some(Arc::clone(self))).dropped_family(&others);
        let own = ("bulkhead.telemetry", vec![dropped]);
        let of = |source: &Arc<dyn Source>| (source.scope(), source.families());
        there.iter().map(of).chain([own]).collect()
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = if self.0.is_some() {
            "Handle(on)"
        } else {
            "Handle(off)"
        };
        f.write_str(what)
    }
}
