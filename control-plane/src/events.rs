//! What moves, told to browsers as it happens: one sum a second for all of them.
//!
//! Separate from the API because it has a task and a bound of its own. Changes are worked out once
//! and shared; who is slow gets the whole picture next, never a queue. It must never work while
//! nobody listens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use compartment::Limit;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::MissedTickBehavior;

use crate::access::VIEWER;
use crate::sse::{self, Listener};
use crate::state::AppState;

/// Most streams at once.
pub(crate) const STREAMS_MAX: usize = 200;
/// How often changes are told.
const PERIOD: Duration = Duration::from_secs(1);
/// Changes that wait for one stream; whoever is further behind gets the whole picture.
const BEHIND_MAX: usize = 4;
/// Over how many seconds rates are taken.
const RATE_S: usize = 3;

/// One message: its number, and the text behind `data:`.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) text: Arc<str>,
}

/// All streams of events.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    told: broadcast::Sender<Message>,
    places: Arc<Semaphore>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            told: broadcast::channel(BEHIND_MAX).0,
            places: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }
}

impl Events {
    /// Opens a stream; `None` when there are too many.
    pub(crate) fn open(
        &self,
        state: &AppState,
        listener: Listener,
    ) -> Option<mpsc::Receiver<Message>> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let (to_client, messages) = mpsc::channel(1);
        let stream = Stream {
            state: state.clone(),
            listener,
            told: self.told.subscribe(),
            to_client,
            _place: place,
        };
        state.tasks.spawn(stream.run());
        Some(messages)
    }

    /// Tells changes until the process goes down.
    pub(crate) async fn run(self, state: AppState) {
        let mut moved = state.live.follow();
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut number) = (Picture::default(), 0_u64);
        loop {
            // Nothing is lost by a cancelled arm: each only says when to look.
            tokio::select! {
                () = state.stopping.cancelled() => return,
                _ = period.tick() => {}
            }
            let is_moved = moved.has_changed().unwrap_or(false);
            // Also when nothing is reported: that gateways fell silent is news.
            if self.told.receiver_count() == 0 || !(is_moved || last.is_old(&state)) {
                continue;
            }
            moved.mark_unchanged();
            let Some(picture) = Picture::take(&state).await else {
                continue;
            };
            number = number.saturating_add(1);
            let text = picture.since(&last).into();
            last = picture;
            // Nobody left in between is no fault.
            let _listeners = self.told.send(Message { number, text });
        }
    }
}

/// One browser.
struct Stream {
    state: AppState,
    listener: Listener,
    told: broadcast::Receiver<Message>,
    to_client: mpsc::Sender<Message>,
    /// Keeps the number of streams bounded: given back with the stream.
    _place: OwnedSemaphorePermit,
}

impl Stream {
    async fn run(mut self) {
        let (stopping, to_client) = (self.state.stopping.clone(), self.to_client.clone());
        let (state, listener) = (self.state.clone(), self.listener.clone());
        // Nothing is lost by a cancelled arm: each ends the stream. Beside the telling, so that one
        // who does not read holds nothing open.
        let tell = async {
            tokio::select! {
                () = until_shut(&state, &listener) => {}
                () = self.tell() => {}
            }
        };
        sse::run(stopping, to_client, tell).await;
    }

    async fn tell(&mut self) {
        let mut next = self.whole().await;
        while let Some(message) = next {
            if self.to_client.send(message).await.is_err() {
                return;
            }
            next = match self.told.recv().await {
                Ok(message) => Some(message),
                Err(broadcast::error::RecvError::Lagged(_)) => self.whole().await,
                Err(broadcast::error::RecvError::Closed) => None,
            };
        }
    }

    /// Everything, for one who knows nothing yet.
    async fn whole(&self) -> Option<Message> {
        let picture = Picture::take(&self.state).await?;
        let text = picture.since(&Picture::default()).into();
        Some(Message { number: 0, text })
    }
}

/// Returns when whoever listens may not any more.
async fn until_shut(state: &AppState, listener: &Listener) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let asking = listener.asking(crate::clock::unix_ms());
        let admitted = state.auth.admit(asking).await;
        if !admitted.is_ok_and(|caller| caller.may(VIEWER)) {
            return;
        }
    }
}

/// What is told of one compartment.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = EventCompartment)]
struct Told {
    limit: Limit,
    in_flight: u32,
    queued: u32,
    /// The highest of the last second, each gateway's summed.
    peak: u32,
    saturation: f64,
    arrived: u64,
    rejected: u64,
    arrived_per_second: f64,
    rejected_per_second: f64,
}

/// The same with its key.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = EventRow)]
struct Row<'a> {
    key: &'a str,
    #[serde(flatten)]
    told: &'a Told,
}

/// One event: what moved since the one before, or everything.
#[derive(Serialize, utoipa::ToSchema)]
pub(crate) struct EventFigures<'a> {
    /// When, in UTC.
    at: &'a str,
    /// The newest generation.
    generation: u64,
    /// Gateways that report, of those that are known: `3 of 4`.
    reporting: &'a str,
    /// Every compartment is told, not only those that moved.
    whole: bool,
    /// Those that moved.
    compartments: Vec<Row<'a>>,
    /// Keys that nobody reports any more.
    gone: Vec<&'a str>,
}

/// All compartments at one moment.
#[derive(Debug, Default)]
struct Picture {
    at: String,
    generation: u64,
    reporting: String,
    compartments: BTreeMap<String, Told>,
}

impl Picture {
    /// Off the threads that serve: with many tenants there is much to add up.
    async fn take(state: &AppState) -> Option<Self> {
        let state = state.clone();
        tokio::task::spawn_blocking(move || Self::now(&state))
            .await
            .ok()
    }

    fn now(state: &AppState) -> Self {
        let figures = state.figures();
        let recent = state.live.recent(RATE_S);
        let reporting = figures.reporting_text();
        let told = |(key, compartment): (String, crate::fleet::FleetCompartment)| {
            let total = compartment.total;
            let recent = recent.get(key.as_str()).copied().unwrap_or_default();
            let a_second = |count: u64| rate(count, recent.seconds);
            let told = Told {
                limit: total.limit,
                in_flight: total.in_flight,
                queued: total.queued,
                peak: total.peak_recent,
                saturation: total.saturation,
                arrived: total.arrived,
                rejected: total
                    .rejected
                    .values()
                    .fold(0, |sum: u64, n| sum.saturating_add(*n)),
                arrived_per_second: a_second(recent.cell.arrived),
                rejected_per_second: a_second(recent.cell.refused),
            };
            (key, told)
        };
        Self {
            at: crate::clock::utc(),
            generation: state.policy_published().about.number,
            reporting,
            compartments: figures.compartments.into_iter().map(told).collect(),
        }
    }

    /// True when generation or reporting are not what was told last.
    fn is_old(&self, state: &AppState) -> bool {
        self.generation != state.policy_published().about.number
            || self.reporting != state.reporting_text()
    }

    /// What differs from what was told last.
    fn since(&self, last: &Self) -> String {
        let differs = |(key, told): &(&String, &Told)| last.compartments.get(*key) != Some(*told);
        let own = self.compartments.iter().filter(differs);
        let gone = last.compartments.keys();
        let gone = gone.filter(|key| !self.compartments.contains_key(*key));
        let event = EventFigures {
            at: &self.at,
            generation: self.generation,
            reporting: &self.reporting,
            whole: last.at.is_empty(),
            compartments: own.map(|(key, told)| Row { key, told }).collect(),
            gone: gone.map(String::as_str).collect(),
        };
        serde_json::to_string(&event).unwrap_or_default()
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people: no digit that is shown is lost"
)]
fn rate(count: u64, seconds: u32) -> f64 {
    match seconds {
        0 => 0.0,
        seconds => (count as f64 / f64::from(seconds) * 100.0).round() / 100.0,
    }
}
