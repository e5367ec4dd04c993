//! The store: numbered generations of the policy, each with its audit row.
//!
//! Separate so that the rest of the product never learns which database there is: everything
//! above speaks of generations. A write runs in a task of its own that nobody can cancel, because
//! a transaction dropped half way leaves its connection in doubt.

mod alerts;
mod error;
pub(crate) mod figures;
mod meta;
mod open;
mod sqlite;

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

pub use alerts::{ALERTS_PAGE_MAX, AlertFilter, AlertRow};
pub use error::StoreError;
use sqlite::Database;

/// Most generations in one answer.
pub const GENERATIONS_PAGE_MAX: u32 = 500;

/// What a generation is, without its document.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
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

/// One row of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// When, in UTC.
    pub at: String,
    /// `import`, `put`, `patch` or `restore`; `halt` by a gateway, `try-again` by a person.
    pub action: String,
    /// Who.
    pub who: String,
    /// From which address.
    pub origin: String,
    /// The generation that was the newest before; 0 for none.
    pub generation_before: u64,
    /// The generation that it made.
    pub generation_after: u64,
    /// What differs, as JSON.
    pub differences: String,
    /// The request that asked for it.
    pub request_id: String,
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
    path: Arc<std::path::Path>,
    epoch: Arc<str>,
    writes: TaskTracker,
    changed: Arc<Notify>,
}

impl Store {
    /// Opens the store at `url`, making it when it is not there.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let path = sqlite_path(url)?;
        let database = Database::open(&path).await?;
        let epoch = database.epoch().await?.into();
        let (writes, changed) = (TaskTracker::new(), Arc::new(Notify::new()));
        Ok(Self {
            database,
            path: path.into(),
            epoch,
            writes,
            changed,
        })
    }

    /// Names this store: numbers of two stores say nothing about each other.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// How large the file is, with its log.
    pub(crate) fn file_bytes(&self) -> u64 {
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        let length =
            |path: &std::path::Path| std::fs::metadata(path).map_or(0, |about| about.len());
        length(&self.path).saturating_add(length(std::path::Path::new(&log)))
    }

    /// The newest number; 0 when there is none.
    pub async fn newest_number(&self) -> Result<u64, StoreError> {
        self.database.newest_number().await
    }

    /// The generation of this number.
    pub async fn generation(&self, number: u64) -> Result<Option<Stored>, StoreError> {
        self.database.generation(number).await
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

    /// Writes a generation after `seen`, the newest one that the writer knows (0 for none).
    pub async fn append(&self, new: NewGeneration, seen: u64) -> Result<Written, StoreError> {
        if self.writes.is_closed() {
            return Err(StoreError::Closed);
        }
        let (database, changed) = (self.database.clone(), Arc::clone(&self.changed));
        let write = self.writes.spawn(async move {
            let written = database.append(&new, seen).await;
            if matches!(written, Ok(Written::Stored(_))) {
                changed.notify_one();
            }
            written
        });
        write.await.map_err(|_| StoreError::Closed)?
    }

    /// Returns after a write of this process. A hint: another process's writes do not show.
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

/// Where the history of the store at `url` lies: a file beside it.
pub(crate) fn history_path(url: &str) -> Result<std::path::PathBuf, StoreError> {
    let path = sqlite_path(url)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok(path.with_file_name(format!("{stem}-history.db")))
}

/// The path in `sqlite://PATH`.
fn sqlite_path(url: &str) -> Result<std::path::PathBuf, StoreError> {
    let refuse = |rule| {
        Err(StoreError::Url {
            url: url.to_owned(),
            rule,
        })
    };
    let Some(path) = url
        .strip_prefix("sqlite://")
        .or_else(|| url.strip_prefix("sqlite:"))
    else {
        return refuse("this build keeps its store in SQLite: sqlite://PATH");
    };
    if path.is_empty() || path == ":memory:" {
        return refuse("a store is a file: sqlite://PATH");
    }
    if path.contains('?') {
        return refuse("options behind `?` are not taken");
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_behind_the_scheme() {
        for (url, path) in [
            (
                "sqlite:///var/lib/bulkhead/store.db",
                "/var/lib/bulkhead/store.db",
            ),
            ("sqlite://data/store.db", "data/store.db"),
            ("sqlite:store.db", "store.db"),
        ] {
            assert_eq!(sqlite_path(url).unwrap(), std::path::Path::new(path));
        }
        for bad in [
            "",
            "postgres://h/d",
            "sqlite://",
            "sqlite::memory:",
            "sqlite://a?mode=rw",
        ] {
            assert!(
                matches!(sqlite_path(bad), Err(StoreError::Url { .. })),
                "{bad}"
            );
        }
    }
}
