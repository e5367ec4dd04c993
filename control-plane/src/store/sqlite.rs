//! The store on SQLite.
//!
//! Separate because only this file holds its SQL. One writer connection, `BEGIN IMMEDIATE` (a
//! deferred transaction that reads and then writes fails at once as locked, whatever the busy
//! timeout), WAL and synchronous FULL: what is acknowledged is on disk. It must never hold a
//! transaction across anything but statements.

mod alerts;
mod audit;
mod backup;
mod changes;
mod drills;
mod guards;
mod idempotency;
mod meta;
mod people;
mod retention;
mod scheduled;
mod sql;
mod transact;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Row as _, SqlitePool};

use super::open::{STORE, applied, classify, inspect, make_file, migrate};
use super::verify::CHAINED;
use super::{AuditEntry, AuditRow, Generation, StoreError, Stored};

pub(super) use audit::Snapshot;
use backup::Lock;
pub use backup::{Backup, Restored};
pub(super) use backup::{backup, has_key, head_key, restore};

/// Longest wait for another process's lock.
const BUSY_MAX: Duration = Duration::from_secs(5);
/// Longest wait for a connection: one writer ahead that waits for a lock, and a little.
const ACQUIRE_MAX: Duration = Duration::from_secs(6);
/// Most connections that read.
const READERS_MAX: u32 = 4;

/// One writer, a few readers.
#[derive(Clone, Debug)]
pub(super) struct Database {
    writer: SqlitePool,
    readers: SqlitePool,
    /// Beside the file: what is written ahead of it.
    log: Arc<PathBuf>,
    /// Says that the file is in use.
    lock: Arc<Mutex<Option<Lock>>>,
    /// It had no chain until this opening.
    pub(super) is_old: bool,
}

impl Database {
    pub(super) async fn open(path: &Path) -> Result<Self, StoreError> {
        let lock = Lock::shared(path)?;
        make_file(path)?;
        inspect(path, &STORE).await?;
        let options = options(path);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options.clone())
            .await
            .map_err(|error| classify(error, path))?;
        let before = applied(path).await?;
        migrate(&writer, path, &STORE).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options.pragma("query_only", "ON"))
            .await
            .map_err(|error| classify(error, path))?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            writer,
            readers,
            log: Arc::new(log.into()),
            lock: Arc::new(Mutex::new(Some(lock))),
            is_old: (1..CHAINED).contains(&before),
        })
    }

    /// The store's own name, made with its first opening.
    pub(super) async fn epoch(&self) -> Result<String, StoreError> {
        // Read first: a start must not need the write lock that another process may hold.
        if let Some(epoch) = read_epoch(&self.writer).await? {
            return Ok(epoch);
        }
        let fresh = uuid::Uuid::now_v7().to_string();
        sqlx::query(sql::MAKE_EPOCH)
            .bind(fresh)
            .execute(&self.writer)
            .await?;
        let epoch = read_epoch(&self.writer).await?;
        epoch.ok_or(StoreError::Row("meta.epoch"))
    }

    pub(super) async fn newest_number(&self) -> Result<u64, StoreError> {
        let row = sqlx::query(sql::NEWEST).fetch_one(&self.readers).await?;
        number(&row, 0)
    }

    pub(super) async fn newest_before(&self, before: u64) -> Result<u64, StoreError> {
        let row = sqlx::query(sql::NEWEST_BEFORE)
            .bind(i64::try_from(before).unwrap_or(i64::MAX))
            .fetch_one(&self.readers)
            .await?;
        number(&row, 0)
    }

    pub(super) async fn generation(&self, number: u64) -> Result<Option<Stored>, StoreError> {
        let Ok(number) = i64::try_from(number) else {
            return Ok(None);
        };
        let row = sqlx::query(sql::GENERATION)
            .bind(number)
            .fetch_optional(&self.readers)
            .await?;
        let stored = |row: SqliteRow| -> Result<Stored, StoreError> {
            Ok(Stored {
                about: generation(&row)?,
                document: row.try_get(7)?,
            })
        };
        row.map(stored).transpose()
    }

    pub(super) async fn generations(
        &self,
        before: Option<u64>,
        count: u32,
    ) -> Result<Vec<Generation>, StoreError> {
        let before = before
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or(i64::MAX);
        let rows = sqlx::query(sql::GENERATIONS)
            .bind(before)
            .bind(count)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(generation).collect()
    }

    pub(super) async fn audit(&self, count: u32) -> Result<Vec<AuditRow>, StoreError> {
        let rows = sqlx::query(sql::AUDIT)
            .bind(count)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(audit_row).collect()
    }

    /// The file with its log.
    pub(super) async fn size_bytes(&self) -> Result<u64, StoreError> {
        let row = sqlx::query(sql::SIZE).fetch_one(&self.readers).await?;
        let log = std::fs::metadata(&*self.log).map_or(0, |about| about.len());
        Ok(number(&row, 0)?.saturating_add(log))
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        // Last, so that it is the one that folds the log back into the file.
        self.writer.close().await;
        drop(
            self.lock
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }
}

async fn read_epoch(pool: &SqlitePool) -> Result<Option<String>, StoreError> {
    let row = sqlx::query(sql::EPOCH).fetch_optional(pool).await?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// How every connection of both pools is opened.
fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_MAX)
        .foreign_keys(true)
}

fn generation(row: &SqliteRow) -> Result<Generation, StoreError> {
    Ok(Generation {
        number: number(row, 0)?,
        digest: row.try_get(1)?,
        author: row.try_get(2)?,
        comment: row.try_get(3)?,
        source: row.try_get(4)?,
        created_at: row.try_get(5)?,
        kept: row.try_get(6)?,
    })
}

fn audit_row(row: &SqliteRow) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        at: row.try_get(0)?,
        action: row.try_get(1)?,
        subject: row.try_get(2)?,
        who: row.try_get(3)?,
        origin: row.try_get(4)?,
        generation_before: number(row, 5)?,
        generation_after: number(row, 6)?,
        differences: row.try_get(7)?,
        comment: row.try_get(8)?,
        request_id: row.try_get(9)?,
        operation: row.try_get::<Option<String>, _>(10)?.unwrap_or_default(),
    })
}

fn audit_entry(row: &SqliteRow) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: number(row, 11)?,
        row: audit_row(row)?,
        previous: row.try_get(12)?,
        digest: row.try_get(13)?,
    })
}

fn number(row: &SqliteRow, column: usize) -> Result<u64, StoreError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| StoreError::Row("generations.number"))
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Row("generations.number"))
}

#[cfg(test)]
pub(super) use sql::ALL;
#[cfg(test)]
mod tests;
