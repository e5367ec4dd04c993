//! Which generation is to run: the newest one of the store.
//!
//! Separate from the write path because it reads state, not the change: it is woken by a write
//! and every few seconds, so a write of another process, or one whose caller left, is published
//! too. It must never publish anything but what the store holds.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use compartment::policy::{Fault, Policy, Value};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

use crate::store::{Generation, Store, StoreError, Stored};

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
    /// The document as JSON; shared by all streams.
    pub json: Bytes,
    /// The document checked; an older build may have stored what this one refuses.
    pub policy: Result<Policy, Vec<Fault>>,
}

impl Published {
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
            json: json.into(),
            policy,
        })
    }
}

/// The newest generation, for whoever asks or follows.
#[derive(Clone, Debug)]
pub struct Rollout {
    store: Store,
    newest: watch::Sender<Arc<Published>>,
    refreshing: Arc<Mutex<()>>,
}

impl Rollout {
    /// Reads the newest generation; the store has at least one by now.
    pub(crate) async fn new(store: Store) -> Result<Self, StoreError> {
        let number = store.newest_number().await?;
        let published = Arc::new(load(&store, number).await?);
        let (newest, _) = watch::channel(published);
        Ok(Self {
            store,
            newest,
            refreshing: Arc::default(),
        })
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
        let number = self.store.newest_number().await?;
        let current = self.current();
        if number == current.about.number {
            return Ok(current);
        }
        let published = match written.filter(|written| written.about.number == number) {
            Some(written) => written,
            None => load(&self.store, number).await?,
        };
        let published = Arc::new(published);
        tracing::info!(
            policy.generation = published.about.number,
            policy.author = %published.about.author.escape_debug(),
            "bulkhead.policy.published"
        );
        self.newest.send_replace(Arc::clone(&published));
        Ok(published)
    }

    /// Publishes until the process goes down.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        let mut failing = false;
        loop {
            // Nothing is lost by a cancelled arm: each only says when to look.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.store.changed() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            let outcome = self.refresh(None).await;
            let is_new = !std::mem::replace(&mut failing, outcome.is_err());
            if let (Err(error), true) = (outcome, is_new) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store is not read"
                );
            }
        }
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
