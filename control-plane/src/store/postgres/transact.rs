//! A write with its audit row on Postgres: stored whole, or not at all, and which of the two is
//! known before it is answered.
//!
//! Separate because of its one hard moment: a connection that ends between the commit and its
//! answer. Whoever holds the writers' turn holds it until the transaction has ended either way, so
//! the next one to get the turn sees what became of it. It must never report a failure for a
//! write that may have been stored.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, audit_entry, audit_row, number, signed, sql};
use crate::store::audit::{CHAINED_AT_ONCE_MAX, Last};
use crate::store::head::{HEAD, HeadKey, Next, chained as chained_row};
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
        key: &HeadKey,
    ) -> Result<Outcome<W::No>, StoreError> {
        let mut held = self.writer.acquire().await?;
        let within = within(held.connection(), rows, &mut audit, key);
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

    /// Chains the rows that were there before the migration that brought the chain; how many.
    /// For whoever ran that migration alone.
    pub(in crate::store) async fn chain(&self, key: &HeadKey) -> Result<u64, StoreError> {
        let mut held = self.readers.acquire().await?;
        let unchained = last(held.connection(), sql::LAST_AUDIT).await;
        let unchained = held.done(unchained)?;
        if unchained.id == 0 || !unchained.digest.is_empty() {
            return Ok(0);
        }
        let mut all = 0;
        loop {
            let mut held = self.writer.acquire().await?;
            let chained = tokio::time::timeout(ROWS_MAX, chained(held.connection(), key)).await;
            match chained.unwrap_or(Err(StoreError::Away(None))) {
                Ok(0) => return Ok(all),
                Ok(count) => all += count,
                Err(error) => {
                    held.end();
                    return Err(error);
                }
            }
        }
    }

    /// The last row, the last one with a digest, and the head.
    pub(in crate::store) async fn ends(&self) -> Result<(Last, Last, Option<String>), StoreError> {
        let mut held = self.readers.acquire().await?;
        let connection = held.connection();
        let ends = async {
            let end = last(connection, sql::LAST_AUDIT).await?;
            let chained = last(connection, sql::LAST_CHAINED).await?;
            Ok((end, chained, head(connection).await?))
        };
        let ends = tokio::time::timeout(ROWS_MAX, ends).await;
        held.done(ends.unwrap_or(Err(StoreError::Away(None))))
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

async fn chained(connection: &mut PgConnection, key: &HeadKey) -> Result<u64, StoreError> {
    connection.execute(sql::BEGIN).await?;
    connection.execute(sql::TURN).await?;
    let count = chain_some(connection, key).await?;
    connection.execute(sql::COMMIT).await?;
    Ok(count)
}

/// All rows, up to the commit.
async fn within<W: Rows<PgConnection>>(
    connection: &mut PgConnection,
    rows: &W,
    audit: &mut AuditRow,
    key: &HeadKey,
) -> Result<Result<(), W::No>, StoreError> {
    connection.execute(sql::BEGIN).await?;
    connection.execute(sql::TURN).await?;
    if let Err(no) = rows.put(connection, audit).await? {
        return Ok(Err(no));
    }
    insert_audit(connection, audit, key).await?;
    connection.execute(sql::TELL).await?;
    Ok(Ok(()))
}

async fn newest(connection: &mut PgConnection) -> Result<u64, StoreError> {
    let row = sqlx::query(sql::NEWEST).fetch_one(connection).await?;
    number(&row, 0)
}

/// The row after the one that is there, chained to it, and the head that says so.
async fn insert_audit(
    connection: &mut PgConnection,
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

async fn head(connection: &mut PgConnection) -> Result<Option<String>, StoreError> {
    let head = sqlx::query(sql::FACT).bind(HEAD);
    let head = head.fetch_optional(connection).await?;
    Ok(head.map(|row| row.try_get(0)).transpose()?)
}

async fn add(
    connection: &mut PgConnection,
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
    connection: &mut PgConnection,
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

async fn last(connection: &mut PgConnection, sql: &'static str) -> Result<Last, StoreError> {
    let row = sqlx::query(sql).fetch_optional(connection).await?;
    let last = |row: PgRow| -> Result<Last, StoreError> {
        Ok(Last {
            id: number(&row, 0)?,
            digest: row.try_get(1)?,
        })
    };
    Ok(row.map(last).transpose()?.unwrap_or_default())
}

/// Chains some of the rows that have no digest yet; how many.
async fn chain_some(connection: &mut PgConnection, key: &HeadKey) -> Result<u64, StoreError> {
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
