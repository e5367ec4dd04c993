//! What was measured, kept: rows of ten seconds for a day, of a minute for two weeks, of an hour
//! for 400 days.
//!
//! Separate because figures may be lost and limits may not: the history has a file, a task and a
//! memory of its own, and whoever hands it readings never waits. A disk that is full or broken
//! costs history, counted and shown, and nothing else. It must never be read to decide what runs.

mod busiest;
mod flushes;
pub(crate) mod marks;
mod pending;
mod row;
mod series;
mod status;
mod step;
mod upkeep;

use std::sync::{Arc, Mutex, PoisonError};

use compartment::Limit;
use tokio::sync::Notify;

use crate::readings::Reading;
use crate::store::figures::Figures;
use crate::store::{Address, StoreError};

pub(crate) use flushes::{Flush, stamp};
pub use pending::{PENDING_ROWS_MAX, SLOT_ROWS_MAX};
pub(crate) use pending::{Slot, Slots};
pub use row::{Reasons, Row, RowError};
pub use series::{Point, Series};
pub use status::{HistoryState, Kept, Standing};
pub use step::{POINTS_MAX, Range, Step};

use flushes::Flushes;
use pending::Pending;
use status::Status;

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Tenants with rows of their own, and as many tenants on a route; the others are summed.
    pub tenants_max: usize,
    /// What all rows together may take. Beyond it the oldest go early, the finest first.
    pub bytes_max: u64,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            tenants_max: 200,
            bytes_max: 2 << 30,
        }
    }
}

/// How much of a slot was heard of. What no gateway covers is a gap, not a zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// By the gateway that covered most of it.
    pub covered_us: u64,
    /// By all of them together.
    pub gateway_us: u64,
    /// How many.
    pub gateways: u64,
}

impl Heard {
    /// Adds what came later.
    fn then(&mut self, later: Self) {
        self.covered_us = self.covered_us.saturating_add(later.covered_us);
        self.gateway_us = self.gateway_us.saturating_add(later.gateway_us);
        self.gateways = self.gateways.max(later.gateways);
    }

    /// Adds another gateway.
    fn beside(&mut self, other: Self) {
        self.covered_us = self.covered_us.max(other.covered_us);
        self.gateway_us = self.gateway_us.saturating_add(other.gateway_us);
        self.gateways = self.gateways.saturating_add(other.gateways);
    }
}

/// One limit that became another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// When the generation was stored, in milliseconds since 1970.
    pub at_ms: i64,
    /// Which.
    pub generation: u64,
    /// `None`: there was no such compartment.
    pub before: Option<Limit>,
    /// `None`: there is no such compartment any more.
    pub after: Option<Limit>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The file cannot be opened; the state says why.
    #[error("the history is not available: {0}")]
    Away(String),
    /// It was opened and does not answer.
    #[error("the history cannot be read")]
    Store(#[from] StoreError),
}

/// The one handle to the history; clones are cheap.
#[derive(Clone, Debug)]
pub struct History(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    place: Address,
    settings: HistorySettings,
    pending: Mutex<Pending>,
    flushes: Mutex<Flushes>,
    database: Mutex<Option<Figures>>,
    status: Mutex<Status>,
    wake: Notify,
}

impl History {
    /// Opens the history beside the store, making it when it is not there. One that cannot be
    /// opened is tried again and again by `History::run`.
    pub(crate) async fn open(place: impl Into<Address>, settings: HistorySettings) -> Self {
        let history = Self(Arc::new(Inner {
            place: place.into(),
            settings,
            pending: Mutex::default(),
            flushes: Mutex::default(),
            database: Mutex::new(None),
            status: Mutex::default(),
            wake: Notify::new(),
        }));
        history.reopen().await;
        history
    }

    /// Takes the readings of one report. Never waits for a disk.
    pub fn record(&self, readings: &[Reading]) {
        let mut pending = self.pending();
        pending.add(readings, self.0.settings.tenants_max);
        let lost = pending.take_lost();
        drop(pending);
        if lost > 0 {
            self.status(|status| status.lost(lost));
        }
    }

    /// Makes the next turn of `History::run` begin now.
    pub fn wake(&self) {
        self.0.wake.notify_one();
    }

    /// Changes of a compartment's limit, newest first.
    pub async fn limit_changes(
        &self,
        key: &str,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<LimitChange>, HistoryError> {
        Ok(self.database()?.limit_changes(key, from_ms, to_ms).await?)
    }

    /// Whether anything was ever kept of this compartment.
    pub async fn knows(&self, key: &str) -> bool {
        match self.database() {
            Ok(database) => database.knows(key).await.unwrap_or(false),
            Err(_) => false,
        }
    }

    async fn reopen(&self) {
        match Figures::open(&self.0.place).await {
            Ok(database) => {
                *self
                    .0
                    .database
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = Some(database);
            }
            Err(error) => self.status(|status| status.failed(&error)),
        }
    }

    fn database(&self) -> Result<Figures, HistoryError> {
        let database = self
            .0
            .database
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let away = || HistoryError::Away(self.status(|status| status.reason()));
        database.clone().ok_or_else(away)
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Pending> {
        // Rows hold no half-made state that a later reading would not mend.
        self.0
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn flushes<T>(&self, change: impl FnOnce(&mut Flushes) -> T) -> T {
        change(
            &mut self
                .0
                .flushes
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn status<T>(&self, change: impl FnOnce(&mut Status) -> T) -> T {
        change(&mut self.0.status.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
