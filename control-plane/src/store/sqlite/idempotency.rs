//! The statements about requests that name themselves.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, sql};
use crate::store::idempotency::{NAMED_KEPT_MS, NAMED_MAX};
use crate::store::{First, Named, StoreError};

impl Database {
    pub(in crate::store) async fn begin_named(
        &self,
        named: &Named,
    ) -> Result<Option<First>, StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match begin(&mut connection, named).await {
            Ok(first) => match connection.execute(sql::COMMIT).await {
                Ok(_) => return Ok(first),
                Err(error) => Err(error.into()),
            },
            Err(error) => Err(error),
        };
        if connection.execute(sql::ROLLBACK).await.is_err() {
            // Rolled back already, or in doubt: the pool opens another one.
            connection.close_on_drop();
        }
        end
    }

    pub(in crate::store) async fn end_named(
        &self,
        named: &Named,
        answer: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut connection = self.writer.acquire().await?;
        let statement = match answer {
            Some(answer) => sqlx::query(sql::END_NAMED)
                .bind(&named.caller)
                .bind(&named.name)
                .bind(answer),
            None => sqlx::query(sql::FORGET_NAMED)
                .bind(&named.caller)
                .bind(&named.name),
        };
        statement.execute(&mut *connection).await?;
        Ok(())
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    named: &Named,
) -> Result<Option<First>, StoreError> {
    sqlx::query(sql::OLD_NAMED)
        .bind(named.begun_ms.saturating_sub(NAMED_KEPT_MS))
        .bind(named.begun_ms.saturating_add(NAMED_KEPT_MS))
        .execute(&mut *connection)
        .await?;
    let added = sqlx::query(sql::BEGIN_NAMED)
        .bind(&named.caller)
        .bind(&named.name)
        .bind(&named.fingerprint)
        .bind(named.begun_ms)
        .execute(&mut *connection)
        .await?;
    if added.rows_affected() > 0 {
        sqlx::query(sql::BOUND_NAMED)
            .bind(NAMED_MAX)
            .execute(&mut *connection)
            .await?;
        return Ok(None);
    }
    let row = sqlx::query(sql::NAMED)
        .bind(&named.caller)
        .bind(&named.name)
        .fetch_one(&mut *connection)
        .await?;
    Ok(Some(First {
        fingerprint: row.try_get(0)?,
        begun_ms: row.try_get(1)?,
        answer: row.try_get(2)?,
    }))
}
