//! A write with its audit row on SQLite: both or neither.
//!
//! Separate because the statements of the transaction are sent as they are: after a full disk
//! SQLite has rolled back by itself, which the library's own transaction does not know, and its
//! connection would be of no use for good. It must never give back a connection in doubt.

use sqlx::sqlite::SqliteRow;
use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, audit_entry, audit_row, number, signed, sql};
use crate::store::audit::{CHAINED_AT_ONCE_MAX, Last};
use crate::store::head::{HEAD, HeadKey, Next, chained as chained_row};
use crate::store::write::{Append, Outcome, Rows};
use crate::store::{AuditRow, StoreError};

impl Database {
    pub(in crate::store) async fn transact<W: Rows<SqliteConnection>>(
        &self,
        rows: &W,
        mut audit: AuditRow,
        key: &HeadKey,
    ) -> Result<Outcome<W::No>, StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match within(&mut connection, rows, &mut audit, key).await {
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

    /// Chains the rows that were there before the migration that brought the chain; how many.
    /// For whoever ran that migration alone.
    pub(in crate::store) async fn chain(&self, key: &HeadKey) -> Result<u64, StoreError> {
        let unchained = last(&mut *self.readers.acquire().await?, sql::LAST_AUDIT).await?;
        if unchained.id == 0 || !unchained.digest.is_empty() {
            return Ok(0);
        }
        let mut connection = self.writer.acquire().await?;
        let mut all = 0;
        loop {
            connection.execute(sql::BEGIN).await?;
            let count = match chain_some(&mut connection, key).await {
                Ok(count) => count,
                Err(error) => {
                    connection.close_on_drop();
                    return Err(error);
                }
            };
            connection.execute(sql::COMMIT).await?;
            all += count;
            if count == 0 {
                return Ok(all);
            }
        }
    }

    /// The last row, the last one with a digest, and the head.
    pub(in crate::store) async fn ends(&self) -> Result<(Last, Last, Option<String>), StoreError> {
        let mut connection = self.readers.acquire().await?;
        let end = last(&mut connection, sql::LAST_AUDIT).await?;
        let chained = last(&mut connection, sql::LAST_CHAINED).await?;
        Ok((end, chained, head(&mut connection).await?))
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
    key: &HeadKey,
) -> Result<Result<(), W::No>, StoreError> {
    if let Err(no) = rows.put(connection, audit).await? {
        return Ok(Err(no));
    }
    insert_audit(connection, audit, key).await?;
    Ok(Ok(()))
}

async fn newest(connection: &mut SqliteConnection) -> Result<u64, StoreError> {
    let row = sqlx::query(sql::NEWEST).fetch_one(connection).await?;
    number(&row, 0)
}

/// The row after the one that is there, chained to it, and the head that says so.
async fn insert_audit(
    connection: &mut SqliteConnection,
    row: &mut AuditRow,
    key: &HeadKey,
) -> Result<(), StoreError> {
    if (row.generation_before, row.generation_after) == (0, 0) {
        let newest = newest(connection).await?;
        (row.generation_before, row.generation_after) = (newest, newest);
    }
    let mut end = last(connection, sql::LAST_AUDIT).await?;
    let mut head = head(connection).await?;
    let mut late = None;
    if end.id > 0 && end.digest.is_empty() {
        let chained = last(connection, sql::LAST_CHAINED).await?;
        if key.goes_on(head.as_deref(), &chained) {
            // A build from before writes to the same tables.
            while chain_some(connection, key).await? > 0 {}
            late = Some(chained_row(end.id - chained.id, end.id, &row.at));
            end = last(connection, sql::LAST_AUDIT).await?;
            head = self::head(connection).await?;
        }
    }
    let Next {
        mut from,
        complaint,
    } = key.next(end, head.as_deref(), &row.at);
    for mut told in late.into_iter().chain(complaint) {
        if told.action == row.action {
            // The row is there to tell it.
            (row.comment, row.differences) = (told.comment, told.differences);
            continue;
        }
        let generations = (row.generation_before, row.generation_after);
        (told.generation_before, told.generation_after) = generations;
        from = add(connection, &told, &from).await?;
    }
    let end = add(connection, row, &from).await?;
    put_head(connection, key, end, &row.at).await
}

async fn head(connection: &mut SqliteConnection) -> Result<Option<String>, StoreError> {
    let head = sqlx::query(sql::FACT).bind(HEAD);
    let head = head.fetch_optional(connection).await?;
    Ok(head.map(|row| row.try_get(0)).transpose()?)
}

async fn add(
    connection: &mut SqliteConnection,
    row: &AuditRow,
    from: &Last,
) -> Result<Last, StoreError> {
    let id = from.id.checked_add(1).ok_or(StoreError::Row("audit.id"))?;
    let digest = row.digest(id, &from.digest);
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
        .bind(&from.digest)
        .bind(&digest)
        .execute(connection)
        .await?;
    tracing::info!(audit.id = id, audit.digest = digest, "audited");
    Ok(Last { id, digest })
}

async fn put_head(
    connection: &mut SqliteConnection,
    key: &HeadKey,
    end: Last,
    at: &str,
) -> Result<(), StoreError> {
    let head = key.sign(end.id, end.digest, at.to_owned());
    let head = serde_json::to_string(&head).map_err(|_| StoreError::Row("meta.audit/head"))?;
    let put = sqlx::query(sql::PUT_META).bind(HEAD).bind(head);
    put.execute(connection).await?;
    Ok(())
}

async fn last(connection: &mut SqliteConnection, sql: &'static str) -> Result<Last, StoreError> {
    let row = sqlx::query(sql).fetch_optional(connection).await?;
    let last = |row: SqliteRow| -> Result<Last, StoreError> {
        Ok(Last {
            id: number(&row, 0)?,
            digest: row.try_get(1)?,
        })
    };
    Ok(row.map(last).transpose()?.unwrap_or_default())
}

/// Chains some of the rows that have no digest yet; how many.
async fn chain_some(connection: &mut SqliteConnection, key: &HeadKey) -> Result<u64, StoreError> {
    let mut end = last(connection, sql::LAST_CHAINED).await?;
    let rows = sqlx::query(sql::AUDIT_AFTER)
        .bind(signed(end.id)?)
        .bind(i64::from(CHAINED_AT_ONCE_MAX))
        .fetch_all(&mut *connection)
        .await?;
    let mut at = String::new();
    let mut count = 0;
    for row in &rows {
        let entry = audit_entry(row)?;
        let digest = entry.row.digest(entry.id, &end.digest);
        sqlx::query(sql::CHAIN)
            .bind(&end.digest)
            .bind(&digest)
            .bind(signed(entry.id)?)
            .execute(&mut *connection)
            .await?;
        end = Last {
            id: entry.id,
            digest,
        };
        at = entry.row.at;
        count += 1;
    }
    if count > 0 {
        put_head(connection, key, end, &at).await?;
    }
    Ok(count)
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
