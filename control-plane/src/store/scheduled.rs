//! Overrides with a start and an end, as they are kept: rows with a body that only their owner
//! reads.
//!
//! Separate because they grow with what people plan. Two that are open and about the same field
//! never overlap: that is looked at in the transaction that writes. It must never judge a value.

use super::write::Outcome;
use super::{AuditRow, Store, StoreError};

/// Overrides that wait or run at one time.
pub const SCHEDULED_OPEN_MAX: i64 = 1_000;
/// Those that are over and kept; the oldest go.
pub const SCHEDULED_KEPT_MAX: i64 = 2_000;

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduledRow {
    /// Its number; 0 for a new one.
    pub id: i64,
    /// What it is about: two with the same never overlap.
    pub slot: String,
    /// From, in milliseconds of Unix time.
    pub starts_ms: i64,
    /// To.
    pub ends_ms: i64,
    /// It waits or runs.
    pub is_open: bool,
    /// All of it, as JSON.
    pub body: String,
}

/// Why one is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotScheduled {
    /// Too many are open.
    Full,
    /// This one is about the same field at the same time.
    Overlaps(i64),
    /// It is not any more as its writer saw it.
    Moved,
}

/// A new one, or one in the place of what its writer saw.
#[derive(Debug)]
pub(in crate::store) struct PutScheduled {
    pub(in crate::store) row: ScheduledRow,
    /// The body that the writer saw.
    pub(in crate::store) was: String,
}

impl Store {
    /// Writes one, with its audit row; the answer is its number. A new one has none and was
    /// nothing.
    pub async fn put_scheduled(
        &self,
        row: ScheduledRow,
        was: String,
        audit: AuditRow,
    ) -> Result<Result<i64, NotScheduled>, StoreError> {
        let known = row.id;
        let outcome = self.transact(PutScheduled { row, was }, audit).await?;
        Ok(match outcome {
            Outcome::Kept(row) if known == 0 => {
                let id = row.subject.strip_prefix("override:");
                let id = id.and_then(|id| id.parse().ok());
                Ok(id.ok_or(StoreError::Row("scheduled.id"))?)
            }
            Outcome::Kept(_) => Ok(known),
            Outcome::Not(why) => Err(why),
        })
    }

    /// Those that are open, or all that are kept; the newest first.
    pub async fn scheduled(&self, open_only: bool) -> Result<Vec<ScheduledRow>, StoreError> {
        let most = SCHEDULED_OPEN_MAX.saturating_add(SCHEDULED_KEPT_MAX);
        self.database
            .scheduled(i64::from(open_only), (1, i64::MAX), most)
            .await
    }

    /// The one of this number.
    pub async fn scheduled_one(&self, id: i64) -> Result<Option<ScheduledRow>, StoreError> {
        let found = self.database.scheduled(0, (id, id), 1).await?;
        Ok(found.into_iter().next())
    }
}
