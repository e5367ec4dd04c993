//! The statements about requests that name themselves.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, sql};
use crate::store::idempotency::{NAMED_KEPT_MS, NAMED_MAX};
use crate::store::{First, Named, StoreError, storable};

impl Database {
    pub(in crate::store) async fn begin_named(
        &self,
        named: &Named,
    ) -> Result<Option<First>, StoreError> {
        let mut held = self.writer.acquire().await?;
        let done = bounded(begin(held.connection(), named)).await;
        if done.is_ok() {
            return held.done(done);
        }
        if bounded(held.connection().execute(sql::ROLLBACK))
            .await
            .is_err()
        {
            held.end();
            return done;
        }
        held.done(done)
    }

    pub(in crate::store) async fn end_named(
        &self,
        named: &Named,
        answer: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let statement = match answer {
            Some(answer) => sqlx::query(sql::END_NAMED)
                .bind(storable(&named.caller))
                .bind(storable(&named.name))
                .bind(storable(answer)),
            None => sqlx::query(sql::FORGET_NAMED)
                .bind(storable(&named.caller))
                .bind(storable(&named.name)),
        };
        let done = bounded(statement.execute(held.connection())).await;
        held.done(done).map(drop)
    }
}

async fn begin(connection: &mut PgConnection, named: &Named) -> Result<Option<First>, sqlx::Error> {
    connection.execute(sql::BEGIN).await?;
    sqlx::query(sql::OLD_NAMED)
        .bind(named.begun_ms.saturating_sub(NAMED_KEPT_MS))
        .bind(named.begun_ms.saturating_add(NAMED_KEPT_MS))
        .execute(&mut *connection)
        .await?;
    // Waits for another process that begins the same: what it stored is seen then.
    let added = sqlx::query(sql::BEGIN_NAMED)
        .bind(storable(&named.caller))
        .bind(storable(&named.name))
        .bind(storable(&named.fingerprint))
        .bind(named.begun_ms)
        .execute(&mut *connection)
        .await?;
    let mut first = None;
    if added.rows_affected() > 0 {
        sqlx::query(sql::BOUND_NAMED)
            .bind(i64::from(NAMED_MAX))
            .execute(&mut *connection)
            .await?;
    } else {
        let row = sqlx::query(sql::NAMED)
            .bind(storable(&named.caller))
            .bind(storable(&named.name))
            .fetch_one(&mut *connection)
            .await?;
        first = Some(First {
            fingerprint: row.try_get(0)?,
            begun_ms: row.try_get(1)?,
            answer: row.try_get(2)?,
        });
    }
    connection.execute(sql::COMMIT).await.map(|_| first)
}
