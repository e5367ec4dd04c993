//! The history's rows on SQLite, in a file of their own.
//!
//! Separate because only this module holds that SQL. The file is written ahead and synchronised in
//! passing (`NORMAL`), and nobody who changes a limit ever waits for it. It must never be asked by
//! the write path of a policy.

mod sql;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Executor as _, Row as _, Sqlite, SqlitePool};

use super::{CHANGES_MAX, Found, Names, Size, limit};
use crate::history::{Heard, LimitChange, Range, Row, Step};
use crate::store::StoreError;
use crate::store::open::{Schema, classify, inspect, make_file, migrate};

/// Longest wait for another process's lock.
const BUSY_MAX: Duration = Duration::from_secs(5);
const ACQUIRE_MAX: Duration = Duration::from_secs(6);
const READERS_MAX: u32 = 2;
/// The log of writes is cut back to this when it has been folded in.
const LOG_BYTES_MAX: &str = "67108864";
/// "BLKF".
pub(super) const SCHEMA: Schema = Schema {
    application_id: 1_112_296_262,
    migrations: &MIGRATIONS,
};

/// Number, name and text of every migration. The same numbers and names for every database.
pub(in crate::store) const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "figures",
    include_str!("../../../../migrations/sqlite-history/0001_figures.sql"),
)];

/// One writer, a few readers.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    writer: SqlitePool,
    readers: SqlitePool,
    path: PathBuf,
    names: Arc<Mutex<Names>>,
}

impl Figures {
    pub(super) async fn open(path: &Path) -> Result<Self, StoreError> {
        make_file(path)?;
        inspect(path, &SCHEMA).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(BUSY_MAX)
            .pragma("journal_size_limit", LOG_BYTES_MAX);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_MAX)
            // Said by the writer alone: with each opening it writes the mode into the file, and a
            // reader would wait for whoever holds the lock.
            .connect_with(options.clone().auto_vacuum(SqliteAutoVacuum::Incremental))
            .await
            .map_err(|error| classify(error, path))?;
        migrate(&writer, path, &SCHEMA).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS_MAX)
            .acquire_timeout(ACQUIRE_MAX)
            .connect_with(options.pragma("query_only", "ON"))
            .await
            .map_err(|error| classify(error, path))?;
        Ok(Self {
            writer,
            readers,
            path: path.to_owned(),
            names: Arc::default(),
        })
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// The rows of one compartment in a range, by time.
    pub(super) async fn rows(
        &self,
        step: Step,
        key: &str,
        range: Range,
    ) -> Result<Vec<Found>, StoreError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let rows = sqlx::query(sql::rows(step))
            .bind(range.from_s)
            .bind(step.seconds())
            .bind(range.to_s)
            .bind(key)
            .fetch_all(&self.readers)
            .await?;
        let found = |row: &SqliteRow| -> Result<Option<Found>, StoreError> {
            let bytes: Vec<u8> = row.try_get(2)?;
            let gateway: Option<String> = row.try_get(1)?;
            // A row of another build's form is as good as none.
            let Ok(figures) = Row::from_bytes(&bytes) else {
                return Ok(None);
            };
            Ok(Some(Found {
                slot: row.try_get(0)?,
                gateway: gateway.unwrap_or_default().into(),
                row: figures,
            }))
        };
        rows.iter()
            .filter_map(|row| found(row).transpose())
            .collect()
    }

    /// Who was heard of in a range, over all gateways, by time.
    pub(super) async fn heard(
        &self,
        step: Step,
        range: Range,
    ) -> Result<Vec<(i64, Heard)>, StoreError> {
        let rows = sqlx::query(sql::heard(step))
            .bind(range.from_s)
            .bind(range.to_s)
            .fetch_all(&self.readers)
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, heard(row, 1)?)))
            .collect()
    }

    /// The same for each gateway: its name, and how much it was heard of.
    pub(super) async fn heard_by_gateway(
        &self,
        range: Range,
    ) -> Result<Vec<(i64, Arc<str>, Heard)>, StoreError> {
        let rows = sqlx::query(sql::HEARD_BY_GATEWAY)
            .bind(range.from_s)
            .bind(range.to_s)
            .fetch_all(&self.readers)
            .await?;
        let one = |row: &SqliteRow| {
            let name: String = row.try_get(1)?;
            Ok((row.try_get(0)?, name.into(), heard(row, 2)?))
        };
        rows.iter().map(one).collect()
    }

    /// Whether a compartment of this name has rows, or had.
    pub(super) async fn knows(&self, key: &str) -> Result<bool, StoreError> {
        let row = sqlx::query("SELECT 1 FROM names WHERE kind = 0 AND name = ?")
            .bind(key)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.is_some())
    }

    /// Up to where the rows of a width are made of the finer ones.
    pub(super) async fn rolled(&self, step: Step) -> Result<i64, StoreError> {
        let row = sqlx::query("SELECT until FROM rolled WHERE seconds = ?")
            .bind(step.seconds())
            .fetch_optional(&self.readers)
            .await?;
        // Rows of ten seconds are made of nothing.
        row.map_or(Ok(i64::MAX), |row| Ok(row.try_get(0)?))
    }

    /// The first and the last slot of a width that anybody was heard of in.
    pub(super) async fn kept(&self, step: Step) -> Result<Option<(i64, i64)>, StoreError> {
        let row = sqlx::query(sql::kept(step))
            .fetch_one(&self.readers)
            .await?;
        let (first, last): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(first.zip(last))
    }

    /// Changes of one limit, newest first.
    pub(super) async fn limit_changes(
        &self,
        key: &str,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<LimitChange>, StoreError> {
        let rows = sqlx::query(
            "SELECT at_ms, generation, before, after FROM limit_changes \
             WHERE key = ? AND at_ms >= ? AND at_ms < ? ORDER BY at_ms DESC, generation DESC \
             LIMIT ?",
        )
        .bind(key)
        .bind(from_ms)
        .bind(to_ms)
        .bind(CHANGES_MAX)
        .fetch_all(&self.readers)
        .await?;
        let one = |row: &SqliteRow| {
            let generation: i64 = row.try_get(1)?;
            Ok(LimitChange {
                at_ms: row.try_get(0)?,
                generation: generation.unsigned_abs(),
                before: limit(row.try_get(2)?),
                after: limit(row.try_get(3)?),
            })
        };
        rows.iter().map(one).collect()
    }

    /// What was noted under a name.
    pub(super) async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query("SELECT value FROM meta WHERE key = ?")
            .bind(key)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    pub(super) async fn size(&self) -> Result<Size, StoreError> {
        let row = sqlx::query(
            "SELECT (SELECT page_count FROM pragma_page_count), \
             (SELECT freelist_count FROM pragma_freelist_count), \
             (SELECT page_size FROM pragma_page_size)",
        )
        .fetch_one(&self.readers)
        .await?;
        let (pages, free, bytes): (i64, i64, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let used = pages.saturating_sub(free).saturating_mul(bytes);
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len());
        Ok(Size {
            file_bytes: length(&self.path).saturating_add(length(Path::new(&log))),
            used_bytes: used.unsigned_abs(),
        })
    }

    async fn begin(&self) -> Result<PoolConnection<Sqlite>, StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute("BEGIN IMMEDIATE").await?;
        Ok(connection)
    }

    /// Makes the disk full for the writer, or not any more.
    #[cfg(test)]
    pub(super) async fn fill(&self, full: bool) {
        let pages = if full {
            "PRAGMA max_page_count = 1"
        } else {
            "PRAGMA max_page_count = 1073741823"
        };
        sqlx::query(pages).fetch_all(&self.writer).await.unwrap();
    }

    fn with_names<T>(&self, change: impl FnOnce(&mut Names) -> T) -> T {
        change(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends a transaction: stored when all of it went well, else not begun.
///
/// Sent as plain statements: after a full disk SQLite has rolled back by itself, which the
/// library's own transaction does not know.
async fn end<T>(
    mut connection: PoolConnection<Sqlite>,
    done: Result<T, StoreError>,
) -> Result<T, StoreError> {
    let done = match done {
        Ok(value) => match connection.execute("COMMIT").await {
            Ok(_) => return Ok(value),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error),
    };
    if connection.execute("ROLLBACK").await.is_err() {
        connection.close_on_drop();
    }
    done
}

fn heard(row: &SqliteRow, first: usize) -> Result<Heard, StoreError> {
    let number = |column: usize| -> Result<u64, StoreError> {
        Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
    };
    Ok(Heard {
        covered_us: number(first)?,
        gateway_us: number(first.saturating_add(1))?,
        gateways: number(first.saturating_add(2))?,
    })
}
