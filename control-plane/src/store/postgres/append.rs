//! A change on Postgres: stored whole, or not at all, and which of the two is known before it is
//! answered.
//!
//! Separate because of its one hard moment: a connection that ends between the commit and its
//! answer. Whoever holds the writers' turn holds it until the transaction has ended either way, so
//! the next one to get the turn sees what became of it. It must never report a failure for a
//! change that may have been stored.

use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection};

use super::pool::bounded;
use super::{Database, number, signed, sql};
use crate::store::{AuditRow, NewGeneration, StoreError, Written, storable};

/// Longest time that the rows of a change may take.
const ROWS_MAX: Duration = Duration::from_secs(12);
/// Longest time after which it must be known what became of a change.
const RESOLVE_MAX: Duration = Duration::from_secs(10);
/// Between two tries to ask.
const PAUSE: Duration = Duration::from_millis(200);

impl Database {
    /// Generation and audit row, both or neither, and only on top of what the writer saw.
    pub(in crate::store) async fn append(
        &self,
        new: &NewGeneration,
        seen: u64,
        operation: &str,
    ) -> Result<Written, StoreError> {
        let mut held = self.writer.acquire().await?;
        let rows = rows(held.connection(), new, seen, operation);
        let rows = tokio::time::timeout(ROWS_MAX, rows).await;
        let number = match rows.unwrap_or(Err(StoreError::Away(None))) {
            Ok(Written::Stored(number)) => number,
            // Nothing was committed, and nothing will be: the word for it was never sent.
            other => {
                let rolled_back = bounded(held.connection().execute(sql::ROLLBACK)).await;
                if rolled_back.is_err() {
                    held.end();
                    return other;
                }
                return held.done(other);
            }
        };
        match bounded(held.connection().execute(sql::COMMIT)).await {
            Ok(_) => Ok(Written::Stored(number)),
            Err(error) => {
                held.end();
                self.resolve(error, operation).await
            }
        }
    }

    /// What became of a change whose commit was not answered.
    async fn resolve(&self, error: StoreError, operation: &str) -> Result<Written, StoreError> {
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
            Ok(Some(number)) => Ok(Written::Stored(number)),
            // Not stored. Why it was not, the first error says, if it is one that speaks of that.
            Ok(None) if matches!(error, StoreError::Full | StoreError::Busy) => Err(error),
            Ok(None) => Err(StoreError::Away(None)),
            Err(_) => Err(StoreError::Unknown {
                operation: operation.to_owned(),
            }),
        }
    }

    /// Asks on a connection of its own, behind the transaction that was cut off.
    pub(super) async fn ask(&self, operation: &str) -> Result<Option<u64>, StoreError> {
        let _alone = self.asking.lock().await;
        let connecting = PgConnection::connect_with(&self.server.options);
        let mut connection = bounded(connecting).await?;
        bounded(connection.execute(sql::SESSION)).await?;
        bounded(connection.execute(sql::BEGIN)).await?;
        bounded(connection.execute(sql::TURN)).await?;
        let row = sqlx::query(sql::OPERATION).bind(operation);
        let row = bounded(row.fetch_optional(&mut connection)).await?;
        let found = row.map(|row| number(&row, 0)).transpose()?;
        // It changed nothing: how it ends does not matter.
        let _gone = bounded(connection.close()).await;
        Ok(found)
    }
}

/// The two rows of a change, up to the commit.
async fn rows(
    connection: &mut PgConnection,
    new: &NewGeneration,
    seen: u64,
    operation: &str,
) -> Result<Written, StoreError> {
    connection.execute(sql::BEGIN).await?;
    connection.execute(sql::TURN).await?;
    let row = sqlx::query(sql::NEWEST).fetch_one(&mut *connection).await?;
    let newest = number(&row, 0)?;
    if newest != seen {
        return Ok(Written::MovedOn(newest));
    }
    let next = newest
        .checked_add(1)
        .ok_or(StoreError::Row("generations.number"))?;
    let insert = sqlx::query(sql::ADD_GENERATION)
        .bind(signed(next)?)
        .bind(&new.document)
        .bind(&new.digest)
        .bind(&new.author)
        .bind(&new.comment)
        .bind(new.source)
        .bind(&new.created_at);
    insert.execute(&mut *connection).await?;
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
    connection.execute(sql::TELL).await?;
    Ok(Written::Stored(next))
}

pub(super) async fn insert_audit(
    connection: &mut PgConnection,
    row: &AuditRow,
) -> Result<(), StoreError> {
    let insert = sqlx::query(sql::ADD_AUDIT)
        .bind(storable(&row.at))
        .bind(storable(&row.action))
        .bind(storable(&row.who))
        .bind(storable(&row.origin))
        .bind(signed(row.generation_before)?)
        .bind(signed(row.generation_after)?)
        .bind(storable(&row.differences))
        .bind(storable(&row.request_id))
        .bind(row.operation());
    bounded(insert.execute(connection)).await.map(drop)
}
