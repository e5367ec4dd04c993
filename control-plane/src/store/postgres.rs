//! The store on Postgres.
//!
//! Separate because only this module holds its SQL. Writers take turns on one locked row, so
//! that numbers have no gap and a writer sees what the one before it stored; a change that was
//! cut off while it was stored is asked for by its operation before anything is answered. It must
//! never wait without an end: every statement has a limit at the server and one at this side.

mod alerts;
mod audit;
mod changes;
mod drills;
mod guards;
mod idempotency;
pub(super) mod live;
mod meta;
pub(super) mod open;
mod people;
pub(super) mod pool;
mod retention;
mod scheduled;
pub(super) mod shared;
mod sql;
mod transact;

use std::sync::Arc;

use sqlx::Row as _;
use sqlx::postgres::PgRow;
use tokio::sync::Mutex;

use super::address::Server;
use super::verify::CHAINED;
use super::{AuditEntry, AuditRow, Generation, StoreError, Stored};
pub(super) use audit::Snapshot;
use open::{STORE, prepare};
use pool::{Pool, bounded};

/// Most connections of this process that read the policy's store.
const READERS_MAX: u32 = 4;

/// One writer, a few readers.
#[derive(Clone, Debug)]
pub(super) struct Database {
    server: Server,
    writer: Pool,
    readers: Pool,
    /// One question at a time on a connection of its own.
    asking: Arc<Mutex<()>>,
    /// It had no chain until this opening.
    pub(super) is_old: bool,
}

impl Database {
    pub(super) async fn open(server: &Server) -> Result<Self, StoreError> {
        let (before, _) = prepare(server, &STORE).await?;
        Ok(Self {
            is_old: (1..CHAINED).contains(&before),
            writer: Pool::new(server, 1, &[sql::SESSION, sql::IN_FULL]),
            readers: Pool::new(server, READERS_MAX, &[sql::SESSION]),
            server: server.clone(),
            asking: Arc::default(),
        })
    }

    /// The store's own name, made with its first opening.
    pub(super) async fn epoch(&self) -> Result<String, StoreError> {
        // Read first: a start must not need a lock, nor the right to write.
        if let Some(epoch) = self.read_epoch().await? {
            return Ok(epoch);
        }
        let fresh = uuid::Uuid::now_v7().to_string();
        let mut held = self.writer.acquire().await?;
        let made = sqlx::query(sql::MAKE_EPOCH).bind(fresh);
        let made = bounded(made.execute(held.connection())).await;
        held.done(made)?;
        let epoch = self.read_epoch().await?;
        epoch.ok_or(StoreError::Row("meta.epoch"))
    }

    async fn read_epoch(&self) -> Result<Option<String>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::EPOCH);
        let row = bounded(row.fetch_optional(held.connection())).await;
        Ok(held.done(row)?.map(|row| row.try_get(0)).transpose()?)
    }

    pub(super) async fn size_bytes(&self) -> Result<u64, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::SIZE).bind(STORE.name);
        let row = bounded(row.fetch_one(held.connection())).await;
        number(&held.done(row)?, 0)
    }

    pub(super) async fn newest_number(&self) -> Result<u64, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = bounded(sqlx::query(sql::NEWEST).fetch_one(held.connection())).await;
        number(&held.done(row)?, 0)
    }

    pub(super) async fn newest_before(&self, before: u64) -> Result<u64, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::NEWEST_BEFORE).bind(i64::try_from(before).unwrap_or(i64::MAX));
        let row = bounded(row.fetch_one(held.connection())).await;
        number(&held.done(row)?, 0)
    }

    pub(super) async fn generation(&self, number: u64) -> Result<Option<Stored>, StoreError> {
        let Ok(number) = i64::try_from(number) else {
            return Ok(None);
        };
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::GENERATION).bind(number);
        let row = bounded(row.fetch_optional(held.connection())).await;
        let stored = |row: PgRow| -> Result<Stored, StoreError> {
            Ok(Stored {
                about: generation(&row)?,
                document: row.try_get(7)?,
            })
        };
        held.done(row)?.map(stored).transpose()
    }

    pub(super) async fn generations(
        &self,
        before: Option<u64>,
        count: u32,
    ) -> Result<Vec<Generation>, StoreError> {
        let before = before
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or(i64::MAX);
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::GENERATIONS)
            .bind(before)
            .bind(i64::from(count));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        held.done(rows)?.iter().map(generation).collect()
    }

    pub(super) async fn audit(&self, count: u32) -> Result<Vec<AuditRow>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::AUDIT).bind(i64::from(count));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        held.done(rows)?.iter().map(audit_row).collect()
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

fn generation(row: &PgRow) -> Result<Generation, StoreError> {
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

fn audit_row(row: &PgRow) -> Result<AuditRow, StoreError> {
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

fn audit_entry(row: &PgRow) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        id: number(row, 11)?,
        row: audit_row(row)?,
        previous: row.try_get(12)?,
        digest: row.try_get(13)?,
    })
}

fn number(row: &PgRow, column: usize) -> Result<u64, StoreError> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| StoreError::Row("generations.number"))
}

fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Row("generations.number"))
}

#[cfg(test)]
pub(super) use {open::MIGRATIONS, sql::ALL};
