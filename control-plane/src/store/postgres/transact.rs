//! A write with its audit row on Postgres: stored whole, or not at all, and which of the two is
//! known before it is answered.
//!
//! Separate because of its one hard moment: a connection that ends between the commit and its
//! answer. Whoever holds the writers' turn holds it until the transaction has ended either way, so
//! the next one to get the turn sees what became of it. It must never report a failure for a
//! write that may have been stored.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, audit_row, number, signed, sql};
use crate::store::audit::Last;
use crate::store::write::{Append, Outcome, Rows};
use crate::store::{AuditRow, StoreError};

/// Longest time that the rows of a write may take.
const ROWS_MAX: Duration = Duration::from_secs(12);
/// Longest time after which it must be known what became of a write.
const RESOLVE_MAX: Duration = Duration::from_secs(10);
/// Between two tries to ask.
const PAUSE: Duration = Duration::from_millis(200);

impl Database {
    pub(in crate::store) async fn transact<W: Rows<PgConnection>>(
        &self,
        rows: &W,
        mut audit: AuditRow,
    ) -> Result<Outcome<W::No>, StoreError> {
        let mut held = self.writer.acquire().await?;
        let within = within(held.connection(), rows, &mut audit);
        let within = tokio::time::timeout(ROWS_MAX, within).await;
        let end = match within.unwrap_or(Err(StoreError::Away(None))) {
            Ok(Ok(())) => match bounded(held.connection().execute(sql::COMMIT)).await {
                Ok(_) => return Ok(Outcome::Kept(Box::new(audit))),
                Err(error) => {
                    held.end();
                    return self.resolve(error, &audit.operation).await;
                }
            },
            // Nothing was committed, and nothing will be: the word for it was never sent.
            Ok(Err(no)) => Ok(Outcome::Not(no)),
            Err(error) => Err(error),
        };
        if bounded(held.connection().execute(sql::ROLLBACK))
            .await
            .is_err()
        {
            held.end();
            return end;
        }
        held.done(end)
    }

    /// What became of a write whose commit was not answered.
    async fn resolve<N>(
        &self,
        error: StoreError,
        operation: &str,
    ) -> Result<Outcome<N>, StoreError> {
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            operation,
            "cut off while a change was stored: asking what became of it"
        );
        let asking = async {
            loop {
                match self.ask(operation).await {
                    Ok(found) => return found,
                    Err(error) => tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        operation,
                        "not known yet what became of a change"
                    ),
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(RESOLVE_MAX, asking).await {
            Ok(Some(row)) => Ok(Outcome::Kept(Box::new(row))),
            // Not stored. Why it was not, the first error says, if it is one that speaks of that.
            Ok(None) if matches!(error, StoreError::Full | StoreError::Busy) => Err(error),
            Ok(None) => Err(StoreError::Away(None)),
            Err(_) => Err(StoreError::Unknown {
                operation: operation.to_owned(),
            }),
        }
    }

    /// The audit row of an operation. Asked behind every writer that is under way: that there is
    /// none is final.
    pub(in crate::store) async fn operation(
        &self,
        operation: &str,
    ) -> Result<Option<AuditRow>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::OPERATION).bind(operation);
        let row = bounded(row.fetch_optional(held.connection())).await;
        match held.done(row)? {
            // What is there stays: nobody has to be waited for.
            Some(row) => audit_row(&row).map(Some),
            None => self.ask(operation).await,
        }
    }

    /// Asks on a connection of its own, behind the transaction that was cut off.
    async fn ask(&self, operation: &str) -> Result<Option<AuditRow>, StoreError> {
        let _alone = self.asking.lock().await;
        let connecting = PgConnection::connect_with(&self.server.options);
        let mut connection = bounded(connecting).await?;
        bounded(connection.execute(sql::SESSION)).await?;
        bounded(connection.execute(sql::BEGIN)).await?;
        bounded(connection.execute(sql::TURN)).await?;
        let row = sqlx::query(sql::OPERATION).bind(operation);
        let row = bounded(row.fetch_optional(&mut connection)).await?;
        let found = row.as_ref().map(audit_row).transpose()?;
        // It changed nothing: how it ends does not matter.
        let _gone = bounded(connection.close()).await;
        Ok(found)
    }
}

/// All rows, up to the commit.
async fn within<W: Rows<PgConnection>>(
    connection: &mut PgConnection,
    rows: &W,
    audit: &mut AuditRow,
) -> Result<Result<(), W::No>, StoreError> {
    connection.execute(sql::BEGIN).await?;
    connection.execute(sql::TURN).await?;
    if let Err(no) = rows.put(connection, audit).await? {
        return Ok(Err(no));
    }
    insert_audit(connection, audit).await?;
    connection.execute(sql::TELL).await?;
    Ok(Ok(()))
}

async fn newest(connection: &mut PgConnection) -> Result<u64, StoreError> {
    let row = sqlx::query(sql::NEWEST).fetch_one(connection).await?;
    number(&row, 0)
}

/// The row after the one that is there, chained to it.
async fn insert_audit(connection: &mut PgConnection, row: &mut AuditRow) -> Result<(), StoreError> {
    if (row.generation_before, row.generation_after) == (0, 0) {
        let newest = newest(connection).await?;
        (row.generation_before, row.generation_after) = (newest, newest);
    }
    let last = sqlx::query(sql::LAST_AUDIT);
    let last = match last.fetch_optional(&mut *connection).await? {
        Some(row) => Last {
            id: number(&row, 0)?,
            digest: row.try_get(1)?,
        },
        None => Last::default(),
    };
    let id = last.id.checked_add(1).ok_or(StoreError::Row("audit.id"))?;
    let insert = sqlx::query(sql::ADD_AUDIT)
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
        .bind(row.digest(id, &last.digest));
    bounded(insert.execute(connection)).await.map(drop)
}

impl Rows<PgConnection> for Append {
    /// The newest generation.
    type No = u64;

    async fn put(
        &self,
        connection: &mut PgConnection,
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
        let insert = sqlx::query(sql::ADD_GENERATION)
            .bind(signed(next)?)
            .bind(&new.document)
            .bind(&new.digest)
            .bind(&new.author)
            .bind(&new.comment)
            .bind(new.source)
            .bind(&new.created_at);
        insert.execute(connection).await?;
        (audit.generation_before, audit.generation_after) = (newest, next);
        Ok(Ok(()))
    }
}
