//! The statements about overrides.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Row as _, SqliteConnection};

use super::{Database, sql};
use crate::store::scheduled::{
    NotScheduled, PutScheduled, SCHEDULED_KEPT_MAX, SCHEDULED_OPEN_MAX, ScheduledRow,
};
use crate::store::write::Rows;
use crate::store::{AuditRow, StoreError};

impl Database {
    pub(in crate::store) async fn scheduled(
        &self,
        open: i64,
        (from, to): (i64, i64),
        most: i64,
    ) -> Result<Vec<ScheduledRow>, StoreError> {
        let rows = sqlx::query(sql::SCHEDULED)
            .bind(open)
            .bind(from)
            .bind(to)
            .bind(most)
            .fetch_all(&self.readers)
            .await?;
        let read = rows.iter().map(|row| {
            Ok(ScheduledRow {
                id: row.try_get(0)?,
                slot: row.try_get(1)?,
                starts_ms: row.try_get(2)?,
                ends_ms: row.try_get(3)?,
                is_open: row.try_get::<i64, _>(4)? != 0,
                body: row.try_get(5)?,
            })
        });
        read.collect()
    }
}

impl Rows<SqliteConnection> for PutScheduled {
    type No = NotScheduled;

    async fn put(
        &self,
        connection: &mut SqliteConnection,
        audit: &mut AuditRow,
    ) -> Result<Result<(), NotScheduled>, StoreError> {
        let row = &self.row;
        let last = sqlx::query(sql::LAST_SCHEDULED)
            .fetch_one(&mut *connection)
            .await?;
        let (last, open): (i64, i64) = (last.try_get(0)?, last.try_get(1)?);
        let is_new = row.id == 0;
        if is_new && open >= SCHEDULED_OPEN_MAX {
            return Ok(Err(NotScheduled::Full));
        }
        let id = if is_new {
            last.saturating_add(1)
        } else {
            row.id
        };
        if row.is_open {
            let other = sqlx::query(sql::OVERLAPPING)
                .bind(row.slot.as_str())
                .bind(row.ends_ms)
                .bind(row.starts_ms)
                .bind(id)
                .fetch_optional(&mut *connection)
                .await?;
            if let Some(other) = other {
                return Ok(Err(NotScheduled::Overlaps(other.try_get(0)?)));
            }
        }
        let text = if is_new {
            sql::ADD_SCHEDULED
        } else {
            sql::PUT_SCHEDULED
        };
        let write = sqlx::query(text)
            .bind(row.slot.as_str())
            .bind(row.starts_ms)
            .bind(row.ends_ms)
            .bind(i64::from(row.is_open))
            .bind(row.body.as_str())
            .bind(id);
        let write = if is_new {
            write
        } else {
            write.bind(self.was.as_str())
        };
        if write.execute(&mut *connection).await?.rows_affected() == 0 {
            return Ok(Err(NotScheduled::Moved));
        }
        sqlx::query(sql::BOUND_SCHEDULED)
            .bind(SCHEDULED_KEPT_MAX)
            .execute(&mut *connection)
            .await?;
        audit.subject = format!("override:{id}");
        Ok(Ok(()))
    }
}
