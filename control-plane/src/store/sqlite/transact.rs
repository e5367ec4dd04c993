//! A write with its audit row on SQLite: both or neither.
//!
//! Separate because the statements of the transaction are sent as they are: after a full disk
//! SQLite has rolled back by itself, which the library's own transaction does not know, and its
//! connection would be of no use for good. It must never give back a connection in doubt.

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, audit_row, number, signed, sql};
use crate::store::audit::Last;
use crate::store::write::{Append, Outcome, Rows};
use crate::store::{AuditRow, StoreError};

impl Database {
    pub(in crate::store) async fn transact<W: Rows<SqliteConnection>>(
        &self,
        rows: &W,
        mut audit: AuditRow,
    ) -> Result<Outcome<W::No>, StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match within(&mut connection, rows, &mut audit).await {
            Ok(Ok(())) => match connection.execute(sql::COMMIT).await {
                Ok(_) => return Ok(Outcome::Kept(Box::new(audit))),
                Err(error) => Err(error.into()),
            },
            Ok(Err(no)) => Ok(Outcome::Not(no)),
            Err(error) => Err(error),
        };
        if connection.execute(sql::ROLLBACK).await.is_err() {
            // Rolled back already, or in doubt: the pool opens another one.
            connection.close_on_drop();
        }
        end
    }

    /// The audit row of an operation.
    pub(in crate::store) async fn operation(
        &self,
        operation: &str,
    ) -> Result<Option<AuditRow>, StoreError> {
        let row = sqlx::query(sql::OPERATION)
            .bind(operation)
            .fetch_optional(&self.readers)
            .await?;
        row.as_ref().map(audit_row).transpose()
    }
}

async fn within<W: Rows<SqliteConnection>>(
    connection: &mut SqliteConnection,
    rows: &W,
    audit: &mut AuditRow,
) -> Result<Result<(), W::No>, StoreError> {
    if let Err(no) = rows.put(connection, audit).await? {
        return Ok(Err(no));
    }
    insert_audit(connection, audit).await?;
    Ok(Ok(()))
}

async fn newest(connection: &mut SqliteConnection) -> Result<u64, StoreError> {
    let row = sqlx::query(sql::NEWEST).fetch_one(connection).await?;
    number(&row, 0)
}

/// The row after the one that is there, chained to it.
async fn insert_audit(
    connection: &mut SqliteConnection,
    row: &mut AuditRow,
) -> Result<(), StoreError> {
    if (row.generation_before, row.generation_after) == (0, 0) {
        let newest = newest(connection).await?;
        (row.generation_before, row.generation_after) = (newest, newest);
    }
    let last = sqlx::query(sql::LAST_AUDIT)
        .fetch_optional(&mut *connection)
        .await?;
    let last = match last {
        Some(row) => Last {
            id: number(&row, 0)?,
            digest: row.try_get(1)?,
        },
        None => Last::default(),
    };
    let id = last.id.checked_add(1).ok_or(StoreError::Row("audit.id"))?;
    sqlx::query(sql::ADD_AUDIT)
        .bind(signed(id)?)
        .bind(&row.at)
        .bind(&row.action)
        .bind(&row.subject)
        .bind(&row.who)
        .bind(&row.origin)
        .bind(signed(row.generation_before)?)
        .bind(signed(row.generation_after)?)
        .bind(&row.differences)
        .bind(&row.comment)
        .bind(&row.request_id)
        .bind(row.operation())
        .bind(&last.digest)
        .bind(row.digest(id, &last.digest))
        .execute(connection)
        .await?;
    Ok(())
}

impl Rows<SqliteConnection> for Append {
    /// The newest generation.
    type No = u64;

    async fn put(
        &self,
        connection: &mut SqliteConnection,
        audit: &mut AuditRow,
    ) -> Result<Result<(), u64>, StoreError> {
        let newest = newest(connection).await?;
        if newest != self.seen {
            return Ok(Err(newest));
        }
        let last = sqlx::query(sql::LAST).fetch_one(&mut *connection).await?;
        let next = number(&last, 0)?
            .checked_add(1)
            .ok_or(StoreError::Row("generations.number"))?;
        let new = &self.new;
        sqlx::query(sql::ADD_GENERATION)
            .bind(signed(next)?)
            .bind(&new.document)
            .bind(&new.digest)
            .bind(&new.author)
            .bind(&new.comment)
            .bind(new.source)
            .bind(&new.created_at)
            .execute(connection)
            .await?;
        (audit.generation_before, audit.generation_after) = (newest, next);
        Ok(Ok(()))
    }
}
