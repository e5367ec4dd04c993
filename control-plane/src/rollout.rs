//! Which generation is to run: the newest one of the store, tried by one gateway first.
//!
//! Separate from the write path because it reads state, not the change: it is woken by a write
//! and every few seconds, so a write of another process, or one whose caller left, is published
//! too. It must never publish anything but what the store holds.

mod halts;
mod lineage;
mod stage;
mod staged;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use compartment::policy::{Fault, Policy, Value};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use wire::parts::Parts;

use crate::clock;
use crate::fleet::Wanted;
use crate::store::{Generation, Store, StoreError, Stored};
use crate::tenants::ByName;

use lineage::Lineage;
pub(crate) use stage::Answered;
use stage::Stage;
pub use stage::{ALL_AT_ONCE_MAX, Halt, Progress};
pub use staged::StagedOn;

/// Longest time until a write that nobody told us of is seen.
const PERIOD: Duration = Duration::from_secs(5);

/// A generation, read once for everybody: API, pages and every gateway's stream.
#[derive(Debug)]
pub struct Published {
    /// Number, author, digest.
    pub about: Generation,
    /// The store it is of.
    pub epoch: String,
    /// The document.
    pub document: Value,
    /// The document as JSON, in parts; shared by all streams.
    pub parts: Arc<Parts>,
    /// The document checked; an older build may have stored what this one refuses.
    pub policy: Result<Policy, Vec<Fault>>,
    by_name: OnceLock<Arc<ByName>>,
}

impl Published {
    /// A generation that was just stored, already read.
    pub(crate) fn written(
        about: Generation,
        epoch: &str,
        document: Value,
        parts: Parts,
        policy: Policy,
    ) -> Self {
        Self {
            about,
            epoch: epoch.to_owned(),
            document,
            parts: Arc::new(parts),
            policy: Ok(policy),
            by_name: OnceLock::new(),
        }
    }

    /// The policy and its tenants by name; `None` for a policy that this build refuses.
    pub(crate) fn tenants(&self) -> Option<(&Policy, &ByName)> {
        let policy = self.policy.as_ref().ok()?;
        Some((policy, self.by_name.get_or_init(|| ByName::of(policy))))
    }

    /// Reads what the store holds.
    pub(crate) fn read(stored: Stored, epoch: &str) -> Result<Self, StoreError> {
        let Stored {
            about,
            document: json,
        } = stored;
        let document: Value =
            serde_json::from_str(&json).map_err(|_| StoreError::Row("generations.document"))?;
        let policy = compartment::policy::check(&document);
        Ok(Self {
            about,
            epoch: epoch.to_owned(),
            document,
            parts: Arc::new(Parts::of(json.into())),
            policy,
            by_name: OnceLock::new(),
        })
    }
}

/// A generation as it goes down a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) number: u64,
    pub(crate) digest: String,
    pub(crate) epoch: String,
    /// The document; shared by all streams.
    pub(crate) parts: Arc<Parts>,
    /// Rises when somebody asks for another try of what was refused.
    pub(crate) attempt: u64,
    /// With an operator's word that a gateway may go back to it.
    pub(crate) may_go_back: bool,
}

impl Outgoing {
    fn of(published: &Published) -> Self {
        Self {
            number: published.about.number,
            digest: published.about.digest.clone(),
            epoch: published.epoch.clone(),
            parts: Arc::clone(&published.parts),
            attempt: 0,
            may_go_back: false,
        }
    }
}

/// The newest generation, for whoever asks or follows.
#[derive(Clone, Debug)]
pub struct Rollout {
    store: Store,
    newest: watch::Sender<Arc<Published>>,
    refreshing: Arc<Mutex<()>>,
    staging: Arc<Mutex<()>>,
    stage: Arc<std::sync::Mutex<Stage>>,
    lineage: Lineage,
    /// The store did not answer when it was last asked for the newest generation.
    away: Arc<AtomicBool>,
    /// Told when what a stream is to send may be another one.
    moved: watch::Sender<()>,
}

impl Rollout {
    /// Reads the newest generation; the store has at least one by now.
    pub(crate) async fn new(store: Store) -> Result<Self, StoreError> {
        let number = store.newest_number().await?;
        let published = Arc::new(load(&store, number).await?);
        let safe = halts::safe(&store, number).await?;
        let stage = Stage::new(Outgoing::of(&published), safe);
        let lineage = Lineage::default();
        lineage.learn(store.generations(None, lineage::READ_MAX).await?);
        let rollout = Self {
            store,
            newest: watch::channel(published).0,
            refreshing: Arc::default(),
            staging: Arc::default(),
            stage: Arc::new(std::sync::Mutex::new(stage)),
            lineage,
            away: Arc::default(),
            moved: watch::channel(()).0,
        };
        rollout.read_halt().await?;
        rollout.read_staged().await?;
        Ok(rollout)
    }

    /// Asks the stage, or changes it; those who follow it look again.
    fn stage<T>(&self, ask: impl FnOnce(&mut Stage) -> T) -> T {
        // No step of it can be left half done.
        ask(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Stage) -> T) -> T {
        let (answer, moved) = self.stage(|stage| {
            let before = stage.version();
            let answer = change(stage);
            (answer, stage.version() != before)
        });
        if moved {
            self.moved.send_replace(());
        }
        answer
    }

    /// A gateway's stream is open; told whenever [`Rollout::target`] may be another one.
    pub(crate) fn connect(&self, stream: u64, id: &str, runs_newest: bool) -> watch::Receiver<()> {
        let moved = self.moved.subscribe();
        self.change(|stage| stage.connect(stream, id, runs_newest, clock::now()));
        moved
    }

    /// The stream is closed.
    pub(crate) fn disconnect(&self, stream: u64) {
        let (utc, now) = (clock::utc(), clock::now());
        let halted = self.change(|stage| stage.disconnect(stream, utc, now));
        self.tell(halted);
    }

    /// What this stream's gateway is to run; `None` when there is nothing that it may.
    pub(crate) fn target(&self, stream: u64) -> Option<Outgoing> {
        self.stage(|stage| stage.target(stream))
    }

    /// Lets a gateway go back to what it is to run; false when it is not connected.
    pub(crate) fn give_word(&self, gateway: &str) -> bool {
        self.change(|stage| stage.give_word(gateway))
    }

    /// A generation went down this stream.
    pub(crate) fn sent(&self, stream: u64) {
        self.stage(|stage| stage.sent(stream, clock::now()));
    }

    /// What a gateway made of a generation.
    pub(crate) fn answered(&self, stream: u64, generation: u64, answer: Answered) {
        let (utc, now) = (clock::utc(), clock::now());
        let halted = self.change(|stage| stage.answered(stream, generation, answer, utc, now));
        self.tell(halted);
    }

    fn tell(&self, halted: bool) {
        if let (true, Some(halt)) = (halted, self.stage(|stage| stage.halt())) {
            let first = halt.errors.first();
            tracing::error!(
                policy.generation = halt.generation,
                gateway.id = %halt.gateway,
                fault.pointer = first.map(|fault| fault.pointer.as_str()),
                fault.rule = first.map(|fault| fault.detail.as_str()),
                "bulkhead.policy.halted"
            );
        }
    }

    /// What gateways are to run.
    pub fn wanted(&self) -> Wanted {
        let newest = self.current();
        Wanted {
            newest: newest.about.number,
            published_at: newest.about.created_at.clone(),
            progress: self.progress(),
            staged: self.staged(),
        }
    }

    /// How far the newest generation has come.
    pub fn progress(&self) -> Progress {
        self.stage(|stage| stage.progress())
    }

    /// Whether the store did not answer when it was last asked.
    pub(crate) fn is_store_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// What was last published.
    pub fn current(&self) -> Arc<Published> {
        Arc::clone(&self.newest.borrow())
    }

    /// Told of each newer generation; one that is slow sees the newest only.
    pub fn follow(&self) -> watch::Receiver<Arc<Published>> {
        self.newest.subscribe()
    }

    /// Publishes the store's newest generation when it is not published yet, and returns it.
    /// `written` is a generation that was just stored, already read: it saves reading it again.
    pub async fn refresh(&self, written: Option<Published>) -> Result<Arc<Published>, StoreError> {
        let _one_at_a_time = self.refreshing.lock().await;
        self.read(written).await
    }

    /// Only one at a time.
    async fn read(&self, written: Option<Published>) -> Result<Arc<Published>, StoreError> {
        let current = self.current();
        let next = current.about.number.saturating_add(1);
        let is_next = |written: &Published| written.about.number == next;
        let newest = self.store.newest_number().await;
        self.away.store(newest.is_err(), Ordering::Relaxed);
        let number = match newest {
            Ok(number) => number,
            // It was acknowledged: a store that went away just then must not hold it back.
            Err(_) if written.as_ref().is_some_and(is_next) => next,
            Err(error) => return Err(error),
        };
        if number == current.about.number {
            return Ok(current);
        }
        let published = match written.filter(|written| written.about.number == number) {
            Some(written) if number == next => written,
            _ if !self.goes_on(number).await? => return self.begin_anew().await,
            Some(written) => written,
            None => load(&self.store, number).await?,
        };
        let published = Arc::new(published);
        tracing::info!(
            policy.generation = published.about.number,
            policy.author = %published.about.author.escape_debug(),
            "bulkhead.policy.published"
        );
        self.lineage.learn(vec![published.about.clone()]);
        self.newest.send_replace(Arc::clone(&published));
        let outgoing = Outgoing::of(&published);
        self.change(|stage| stage.publish(outgoing, clock::now()));
        Ok(published)
    }

    /// Publishes until the process goes down.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        // Apart: a store that is locked for seconds must not keep a silent gateway first in line.
        tokio::join!(
            self.read_and_keep(&stopping),
            self.replace_the_silent(&stopping)
        );
    }

    async fn read_and_keep(&self, stopping: &CancellationToken) {
        let mut moved = self.moved.subscribe();
        let mut kept = halts::Kept::default();
        let (mut failing, mut look_at) = (false, clock::now() + PERIOD);
        loop {
            let due = kept.due(self.stage(|stage| stage.proven()));
            let next = due.map_or(look_at, |due| due.min(look_at));
            // Nothing is lost by a cancelled arm: each only says when to look.
            let told = tokio::select! {
                () = stopping.cancelled() => return,
                () = self.store.changed() => true,
                _ = moved.changed() => false,
                () = tokio::time::sleep_until(next.into()) => clock::now() >= look_at,
            };
            let mut outcome = Ok(());
            if told {
                look_at = clock::now() + PERIOD;
                outcome = self.look().await.map(|stored| kept.saw(stored));
            }
            if outcome.is_ok() {
                outcome = self.keep(&mut kept).await;
            }
            let is_new = !std::mem::replace(&mut failing, outcome.is_err());
            if let (Err(error), true) = (outcome, is_new) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store does not answer"
                );
            }
        }
    }

    async fn replace_the_silent(&self, stopping: &CancellationToken) {
        let mut moved = self.moved.subscribe();
        loop {
            let silent_at = self.stage(|stage| stage.deadline());
            let silent = async {
                match silent_at {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            // Nothing is lost by a cancelled arm: the deadline is asked for again.
            tokio::select! {
                () = stopping.cancelled() => return,
                _ = moved.changed() => {}
                () = silent => self.change(|stage| stage.tick(clock::now())),
            }
        }
    }

    /// What other processes, or callers who left, wrote.
    async fn look(&self) -> Result<Option<u64>, StoreError> {
        {
            let _one_at_a_time = self.refreshing.lock().await;
            let newest = self.current().about.number;
            if self.goes_on(newest).await? {
                self.read(None).await?;
            } else {
                self.begin_anew().await?;
            }
        }
        self.read_staged().await?;
        self.read_halt().await
    }
}

/// Reads a generation off the threads that serve: a document may have 32 MiB.
async fn load(store: &Store, number: u64) -> Result<Published, StoreError> {
    let stored = store.generation(number).await?;
    let stored = stored.ok_or(StoreError::Row("generations.number"))?;
    let epoch = store.epoch().to_owned();
    let work = move || Published::read(stored, &epoch);
    let read = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    if let Ok(Published {
        policy: Err(faults),
        about,
        ..
    }) = &read
    {
        tracing::error!(
            policy.generation = about.number,
            fault = faults.first().map(tracing::field::display),
            "this build refuses the policy that the store holds; gateways run on with the last"
        );
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewGeneration, Written};

    const DOCUMENT: &str = r#"{"schema": 1}"#;

    fn published(number: u64) -> Published {
        let about = Generation {
            number,
            digest: number.to_string(),
            author: String::new(),
            comment: String::new(),
            source: "put".to_owned(),
            created_at: String::new(),
            kept: true,
        };
        let document = DOCUMENT.to_owned();
        Published::read(Stored { about, document }, "one").unwrap()
    }

    #[tokio::test]
    async fn what_was_acknowledged_is_published_though_the_store_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/store.db", folder.path().display());
        let store = Store::open(&url).await.unwrap();
        let first = NewGeneration {
            document: DOCUMENT.to_owned(),
            digest: "1".to_owned(),
            author: String::new(),
            comment: String::new(),
            source: "import",
            created_at: clock::utc(),
            origin: String::new(),
            differences: String::new(),
            request_id: String::new(),
        };
        assert!(matches!(
            store.append(first, 0).await.unwrap(),
            Written::Stored(1)
        ));
        let rollout = Rollout::new(store.clone()).await.unwrap();
        store.close().await;
        assert!(rollout.refresh(None).await.is_err());
        // Not the next one: nobody knows what lies between.
        assert!(rollout.refresh(Some(published(3))).await.is_err());
        let newest = rollout.refresh(Some(published(2))).await.unwrap();
        assert_eq!(newest.about.number, 2);
        assert_eq!(rollout.current().about.number, 2);
    }
}
