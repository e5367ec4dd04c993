//! The store on SQLite.
//!
//! Separate because only this file holds its SQL. One writer connection, `BEGIN IMMEDIATE` (a
//! deferred transaction that reads and then writes fails at once as locked, whatever the busy
//! timeout), WAL and synchronous FULL: what is acknowledged is on disk. It must never hold a
//! transaction across anything but statements.

mod alerts;
mod backup;
mod drills;
mod meta;
mod sql;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Executor as _, Row as _, SqliteConnection, SqlitePool};

use super::open::{STORE, classify, inspect, make_file, migrate};
use super::{AuditRow, Generation, NewGeneration, StoreError, Stored, Written};

use backup::Lock;
pub use backup::{Backup, Restored};
pub(super) use backup::{backup, restore};

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
                document: row.try_get(6)?,
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

    /// Generation and audit row, both or neither, and only on top of what the writer saw.
    ///
    /// The statements of the transaction are sent as they are: after a full disk SQLite has rolled
    /// back by itself, which the library's own transaction does not know, and its connection would
    /// be of no use for good.
    pub(super) async fn append(
        &self,
        new: &NewGeneration,
        seen: u64,
        operation: &str,
    ) -> Result<Written, StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match insert(&mut connection, new, seen, operation).await {
            Ok(Written::Stored(number)) => match connection.execute(sql::COMMIT).await {
                Ok(_) => return Ok(Written::Stored(number)),
                Err(error) => Err(error.into()),
            },
            other => other,
        };
        if connection.execute(sql::ROLLBACK).await.is_err() {
            // Rolled back already, or in doubt: the pool opens another one.
            connection.close_on_drop();
        }
        end
    }

    /// The generation that an operation made.
    pub(super) async fn operation(&self, operation: &str) -> Result<Option<u64>, StoreError> {
        let row = sqlx::query(sql::OPERATION)
            .bind(operation)
            .fetch_optional(&self.readers)
            .await?;
        row.map(|row| number(&row, 0)).transpose()
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

/// The two rows of a change, inside a transaction.
async fn insert(
    connection: &mut SqliteConnection,
    new: &NewGeneration,
    seen: u64,
    operation: &str,
) -> Result<Written, StoreError> {
    let row = sqlx::query(sql::NEWEST).fetch_one(&mut *connection).await?;
    let newest = number(&row, 0)?;
    if newest != seen {
        return Ok(Written::MovedOn(newest));
    }
    let next = newest
        .checked_add(1)
        .ok_or(StoreError::Row("generations.number"))?;
    sqlx::query(sql::ADD_GENERATION)
        .bind(signed(next)?)
        .bind(&new.document)
        .bind(&new.digest)
        .bind(&new.author)
        .bind(&new.comment)
        .bind(new.source)
        .bind(&new.created_at)
        .execute(&mut *connection)
        .await?;
    let row = AuditRow {
        at: new.created_at.clone(),
        action: new.source.to_owned(),
        who: new.author.clone(),
        origin: new.origin.clone(),
        generation_before: newest,
        generation_after: next,
        differences: new.differences.clone(),
        request_id: new.request_id.clone(),
        operation: operation.to_owned(),
    };
    insert_audit(connection, &row).await?;
    Ok(Written::Stored(next))
}

async fn insert_audit(connection: &mut SqliteConnection, row: &AuditRow) -> Result<(), StoreError> {
    sqlx::query(sql::ADD_AUDIT)
        .bind(&row.at)
        .bind(&row.action)
        .bind(&row.who)
        .bind(&row.origin)
        .bind(signed(row.generation_before)?)
        .bind(signed(row.generation_after)?)
        .bind(&row.differences)
        .bind(&row.request_id)
        .bind(row.operation())
        .execute(&mut *connection)
        .await?;
    Ok(())
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
    })
}

fn audit_row(row: &SqliteRow) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        at: row.try_get(0)?,
        action: row.try_get(1)?,
        who: row.try_get(2)?,
        origin: row.try_get(3)?,
        generation_before: number(row, 4)?,
        generation_after: number(row, 5)?,
        differences: row.try_get(6)?,
        request_id: row.try_get(7)?,
        operation: row.try_get::<Option<String>, _>(8)?.unwrap_or_default(),
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
