//! Requests that name themselves, and what was answered.
//!
//! Separate because it is about requests and not about what they change: a row here stands for
//! nothing that anybody could lose but a repeated answer. It must never hold a secret in clear.

use super::{Store, StoreError};

/// Rows that are kept; the oldest go.
pub const NAMED_MAX: u32 = 10_000;
/// For how long an answer is kept.
pub const NAMED_KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// A request that names itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Whose name it is.
    pub caller: String,
    /// The name.
    pub name: String,
    /// What was asked for, as a digest.
    pub fingerprint: String,
    /// When, in milliseconds of the wall clock.
    pub begun_ms: i64,
}

/// The first request of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// What it asked for.
    pub fingerprint: String,
    /// When.
    pub begun_ms: i64,
    /// What was answered; `None` while it is under way, or was cut off.
    pub answer: Option<String>,
}

impl Store {
    /// Notes that a request begins; `Some` when one of this name did before.
    pub async fn begin_named(&self, named: Named) -> Result<Option<First>, StoreError> {
        if self.writes.is_closed() {
            return Err(StoreError::Closed);
        }
        let database = self.database.clone();
        // On a task of its own: a caller who leaves must not cut a transaction in two.
        let begun = self
            .writes
            .spawn(async move { database.begin_named(&named).await });
        begun.await.map_err(|_| StoreError::Closed)?
    }

    /// Keeps what was answered; without an answer the name is free again.
    pub async fn end_named(&self, named: Named, answer: Option<String>) -> Result<(), StoreError> {
        let database = self.database.clone();
        self.write(async move { database.end_named(&named, answer.as_deref()).await })
            .await
    }
}
