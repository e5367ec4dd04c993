//! The store: numbered generations of the policy, each with its audit row.
//!
//! Separate so that the rest of the product never learns which database there is: everything
//! above speaks of generations. A write runs in a task of its own that nobody can cancel, because
//! a transaction dropped half way leaves its connection in doubt. How another kind of write is
//! added stands at the head of `write`.

mod address;
mod alerts;
mod audit;
mod chaining;
mod changes;
mod database;
mod drills;
mod error;
pub(crate) mod figures;
mod head;
mod idempotency;
mod keeping;
mod meta;
mod open;
mod people;
mod postgres;
mod retention;
mod scheduled;
mod shared;
mod sqlite;
mod statements;
mod verify;
mod write;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use wire::Secret;

pub(crate) use address::Address;
pub use address::{DatabaseUrl, shown};
pub use alerts::{ALERTS_PAGE_MAX, AlertFilter, AlertRow};
pub use audit::{AUDIT_PAGE_MAX, AuditEntry, AuditFilter, AuditRow};
pub(crate) use changes::{CHANGES_OPEN_MAX, ChangeFilter, ChangeRow, ChangeWrite, ChangeWritten};
pub(crate) use changes::{Makes, Role, STAGED};
use database::Database;
pub use drills::{DRILLS_KEPT_MAX, DRILLS_OF_ROUTE_MAX, DrillRow};
pub use error::StoreError;
use head::HeadKey;
pub use head::{Head, Mark};
pub use idempotency::{First, NAMED_KEPT_MS, NAMED_MAX, Named};
use keeping::restored_note;
pub use keeping::{Migrated, backup, migrate, restore};
pub use people::{PeopleStep, PeopleWrite, PersonRow};
pub use retention::{DOCUMENTS_KEPT, DOCUMENTS_KEPT_DAYS, FORGOTTEN_AT_ONCE_MAX, Old};
pub use scheduled::{NotScheduled, SCHEDULED_KEPT_MAX, SCHEDULED_OPEN_MAX, ScheduledRow};
pub(crate) use shared::{Candidate, LiveRow, LiveTable};
pub use sqlite::{Backup, Restored};
pub use verify::{Broken, How, Verified, verify};
pub use write::Facts;
use write::{Append, Outcome};

/// Most generations in one answer.
pub const GENERATIONS_PAGE_MAX: u32 = 500;

/// What a generation is, without its document.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Generation {
    /// Rises by one with each change.
    pub number: u64,
    /// SHA-256 of the document, hexadecimal.
    pub digest: String,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// Through which door: `import`, `put`, `patch` or `restore`.
    pub source: String,
    /// When, in UTC.
    pub created_at: String,
    /// Whether its document is still kept: that of the newest 1,000 and of the last 90 days is.
    pub kept: bool,
}

/// A generation with its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What it is.
    pub about: Generation,
    /// The document as JSON.
    pub document: String,
}

/// A generation that is to be written, and its audit row.
#[derive(Clone, Debug)]
pub struct NewGeneration {
    /// The document as JSON.
    pub document: String,
    /// SHA-256 of the document, hexadecimal.
    pub digest: String,
    /// Who makes it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// Through which door.
    pub source: &'static str,
    /// When, in UTC.
    pub created_at: String,
    /// The address it came from; empty for the process itself.
    pub origin: String,
    /// What differs from the generation before, as JSON.
    pub differences: String,
    /// The request that asked for it.
    pub request_id: String,
}

impl NewGeneration {
    /// The same, in text that both databases can hold.
    fn storable(mut self) -> Self {
        for text in [
            &mut self.document,
            &mut self.author,
            &mut self.comment,
            &mut self.origin,
            &mut self.differences,
            &mut self.request_id,
        ] {
            if let Cow::Owned(clean) = storable(text) {
                *text = clean;
            }
        }
        self
    }

    /// Its audit row, which gets its numbers when it is written.
    fn with_audit(self) -> (Self, AuditRow) {
        let audit = AuditRow {
            at: self.created_at.clone(),
            action: self.source.to_owned(),
            subject: "policy".to_owned(),
            who: self.author.clone(),
            origin: self.origin.clone(),
            differences: self.differences.clone(),
            comment: self.comment.clone(),
            request_id: self.request_id.clone(),
            ..AuditRow::default()
        };
        (self, audit)
    }
}

/// A text without U+0000, which Postgres takes in none: what one database refuses must not be
/// taken by the other.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// On disk under this number.
    Stored(u64),
    /// Nothing was written: this is the newest, not the one that the writer saw.
    MovedOn(u64),
}

/// The one handle to what is kept.
#[derive(Clone, Debug)]
pub struct Store {
    database: Database,
    epoch: Arc<str>,
    size_bytes: Arc<AtomicU64>,
    writes: TaskTracker,
    changed: Arc<Notify>,
    /// Signs the head of the audit.
    head_key: HeadKey,
}

impl Store {
    /// Opens the store at `url`, making it when it is not there.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(url, None).await
    }

    /// The same; the head of the audit is signed with `audit_key`, else with the key that lies
    /// beside a SQLite store.
    pub async fn open_with(url: &str, audit_key: Option<Secret>) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let (database, head_key) = chaining::open(&address, audit_key).await?;
        let epoch = database.epoch().await?.into();
        let (writes, changed) = (TaskTracker::new(), Arc::new(Notify::new()));
        let size_bytes = Arc::new(AtomicU64::new(database.size_bytes().await?));
        Ok(Self {
            database,
            epoch,
            size_bytes,
            writes,
            changed,
            head_key,
        })
    }

    /// Names this store: numbers of two stores say nothing about each other.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// How much it took when it was last looked at: when it was opened, and after each change.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// The newest number; 0 when there is none.
    pub async fn newest_number(&self) -> Result<u64, StoreError> {
        self.database.newest_number().await
    }

    /// The newest number below `before`, of those that everybody gets; 0 when there is none.
    pub async fn newest_before(&self, before: u64) -> Result<u64, StoreError> {
        self.database.newest_before(before).await
    }

    /// The generation of this number; an error for one whose document is kept no more.
    pub async fn generation(&self, number: u64) -> Result<Option<Stored>, StoreError> {
        let stored = self.database.generation(number).await?;
        match stored {
            Some(stored) if !stored.about.kept => Err(StoreError::NotKept(number)),
            stored => Ok(stored),
        }
    }

    /// Generations below `before` (all without it), newest first, at most `count`.
    pub async fn generations(
        &self,
        before: Option<u64>,
        count: u32,
    ) -> Result<Vec<Generation>, StoreError> {
        self.database
            .generations(before, count.min(GENERATIONS_PAGE_MAX))
            .await
    }

    /// The newest rows of the audit, newest first, at most `count`.
    pub async fn audit(&self, count: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.database.audit(count).await
    }

    /// The audit row of an operation; `None`: nothing was stored under it.
    pub async fn operation(&self, operation: &str) -> Result<Option<AuditRow>, StoreError> {
        self.database.operation(operation).await
    }

    /// Writes a generation after `seen`, the newest one that the writer knows (0 for none).
    pub async fn append(&self, new: NewGeneration, seen: u64) -> Result<Written, StoreError> {
        let (new, audit) = new.storable().with_audit();
        Ok(match self.transact(Append { new, seen }, audit).await? {
            Outcome::Kept(row) => Written::Stored(row.generation_after),
            Outcome::Not(newest) => Written::MovedOn(newest),
        })
    }

    /// Returns after a write of this process, or one of another that was heard of: a hint.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits for the writes under way and lets the files go.
    pub async fn close(&self) {
        self.writes.close();
        self.writes.wait().await;
        self.database.close().await;
    }
}

/// The key of the audit's head: the one given, else the file beside a SQLite store, which is made
/// if it may be.
fn head_key(address: &Address, given: Option<Secret>, make: bool) -> Result<HeadKey, StoreError> {
    match (given, address) {
        (Some(key), _) => Ok(HeadKey::new(Some(key))),
        (None, Address::Sqlite(path)) => sqlite::head_key(path, make),
        (None, Address::Postgres(_)) => Ok(HeadKey::default()),
    }
}

/// Where the history of the store at `url` lies: a file beside it, or the same database.
pub(crate) fn history_of(url: &str) -> Result<Address, StoreError> {
    Ok(match Address::parse(url)? {
        Address::Sqlite(path) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            Address::Sqlite(path.with_file_name(format!("{stem}-history.db")))
        }
        server @ Address::Postgres(_) => server,
    })
}

#[cfg(test)]
#[path = "../../tests/support/postgres.rs"]
#[expect(dead_code, reason = "the integration tests use the rest of it")]
pub(crate) mod test_postgres;
#[cfg(test)]
mod tests;
