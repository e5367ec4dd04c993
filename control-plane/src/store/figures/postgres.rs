//! The history's rows on Postgres, in a schema of their own beside the store.
//!
//! Separate because only this module holds that SQL. The writer does not wait for the server's
//! disk, and has connections of its own. It must never be asked by the write path of a policy.

mod rows;
mod sql;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::{CHANGES_MAX, Found, Names, Size, limit};
use crate::history::{Heard, LimitChange, Range, Row, Step};
use crate::store::address::Server;
use crate::store::postgres::open::{Schema, prepare};
use crate::store::postgres::pool::{Pool, bounded};
use crate::store::{StoreError, storable};

const READERS_MAX: u32 = 2;

/// Number, name and text of every migration. The same numbers and names for every database.
pub(in crate::store) const MIGRATIONS: [(i64, &str, &str); 1] = [(
    1,
    "figures",
    include_str!("../../../../migrations/postgres-history/0001_figures.sql"),
)];

/// Beside the store.
pub(in crate::store) const HISTORY: Schema = Schema {
    name: "bulkhead_history",
    table: "bulkhead_history._sqlx_migrations",
    applied: "SELECT version, description, checksum, success \
              FROM bulkhead_history._sqlx_migrations ORDER BY version",
    migrations: &MIGRATIONS,
};

/// One writer, a few readers.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    writer: Pool,
    readers: Pool,
    names: Arc<Mutex<Names>>,
}

impl Figures {
    pub(super) async fn open(server: &Server) -> Result<Self, StoreError> {
        prepare(server, &HISTORY).await?;
        Ok(Self {
            writer: Pool::new(server, 1, &[sql::SESSION, sql::IN_PASSING]),
            readers: Pool::new(server, READERS_MAX, &[sql::SESSION]),
            names: Arc::default(),
        })
    }

    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(super) async fn rows(
        &self,
        step: Step,
        key: &str,
        range: Range,
    ) -> Result<Vec<Found>, StoreError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::rows(step))
            .bind(range.from_s)
            .bind(step.seconds())
            .bind(range.to_s)
            .bind(storable(key));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let found = |row: &PgRow| -> Result<Option<Found>, StoreError> {
            let gateway: Option<String> = row.try_get(1)?;
            // A row of another build's form is as good as none.
            let Ok(figures) = Row::from_bytes(row.try_get(2)?) else {
                return Ok(None);
            };
            Ok(Some(Found {
                slot: row.try_get(0)?,
                gateway: gateway.unwrap_or_default().into(),
                row: figures,
            }))
        };
        held.done(rows)?
            .iter()
            .filter_map(|row| found(row).transpose())
            .collect()
    }

    pub(super) async fn heard(
        &self,
        step: Step,
        range: Range,
    ) -> Result<Vec<(i64, Heard)>, StoreError> {
        let rows = self.in_range(sql::heard(step), range).await?;
        rows.iter()
            .map(|row| Ok((row.try_get(0)?, heard(row, 1)?)))
            .collect()
    }

    pub(super) async fn heard_by_gateway(
        &self,
        range: Range,
    ) -> Result<Vec<(i64, Arc<str>, Heard)>, StoreError> {
        let rows = self.in_range(sql::HEARD_BY_GATEWAY, range).await?;
        let one = |row: &PgRow| {
            let name: String = row.try_get(1)?;
            Ok((row.try_get(0)?, name.into(), heard(row, 2)?))
        };
        rows.iter().map(one).collect()
    }

    async fn in_range(&self, sql: &'static str, range: Range) -> Result<Vec<PgRow>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql).bind(range.from_s).bind(range.to_s);
        let rows = bounded(rows.fetch_all(held.connection())).await;
        held.done(rows)
    }

    pub(super) async fn knows(&self, key: &str) -> Result<bool, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::KNOWS).bind(storable(key));
        let row = bounded(row.fetch_optional(held.connection())).await;
        Ok(held.done(row)?.is_some())
    }

    pub(super) async fn rolled(&self, step: Step) -> Result<i64, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::ROLLED).bind(step.seconds());
        let row = bounded(row.fetch_optional(held.connection())).await;
        // Rows of ten seconds are made of nothing.
        held.done(row)?
            .map_or(Ok(i64::MAX), |row| Ok(row.try_get(0)?))
    }

    pub(super) async fn kept(&self, step: Step) -> Result<Option<(i64, i64)>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = bounded(sqlx::query(sql::kept(step)).fetch_one(held.connection())).await;
        let row = held.done(row)?;
        let (first, last): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        Ok(first.zip(last))
    }

    pub(super) async fn limit_changes(
        &self,
        key: &str,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<LimitChange>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::CHANGES)
            .bind(storable(key))
            .bind(from_ms)
            .bind(to_ms)
            .bind(CHANGES_MAX);
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let one = |row: &PgRow| {
            let generation: i64 = row.try_get(1)?;
            Ok(LimitChange {
                at_ms: row.try_get(0)?,
                generation: generation.unsigned_abs(),
                before: limit(row.try_get(2)?),
                after: limit(row.try_get(3)?),
            })
        };
        held.done(rows)?.iter().map(one).collect()
    }

    pub(super) async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::NOTE).bind(storable(key));
        let row = bounded(row.fetch_optional(held.connection())).await;
        Ok(held.done(row)?.map(|row| row.try_get(0)).transpose()?)
    }

    pub(super) async fn size(&self) -> Result<Size, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = bounded(sqlx::query(sql::SIZE).fetch_one(held.connection())).await;
        let row = held.done(row)?;
        let (file, used): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Size {
            file_bytes: file.unsigned_abs(),
            used_bytes: used.unsigned_abs(),
        })
    }

    fn with_names<T>(&self, change: impl FnOnce(&mut Names) -> T) -> T {
        change(&mut self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn heard(row: &PgRow, first: usize) -> Result<Heard, StoreError> {
    let number = |column: usize| -> Result<u64, StoreError> {
        Ok(row.try_get::<i64, _>(column)?.unsigned_abs())
    };
    Ok(Heard {
        covered_us: number(first)?,
        gateway_us: number(first.saturating_add(1))?,
        gateways: number(first.saturating_add(2))?,
    })
}

#[cfg(test)]
pub(in crate::store) use sql::{ALL, BY_STEP};
