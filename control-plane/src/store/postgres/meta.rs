//! The statements about small facts.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, PgConnection, Row as _};

use super::append::insert_audit;
use super::pool::bounded;
use super::{Database, sql};
use crate::store::{AuditRow, StoreError};

impl Database {
    pub(in crate::store) async fn meta(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::META).bind(prefix);
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let rows = held.done(rows)?;
        let pairs = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        pairs.collect()
    }

    pub(in crate::store) async fn put_meta(
        &self,
        facts: &[(&str, Option<&str>)],
        audit: Option<&AuditRow>,
    ) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let done = put(held.connection(), facts, audit).await;
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
}

async fn put(
    connection: &mut PgConnection,
    facts: &[(&str, Option<&str>)],
    audit: Option<&AuditRow>,
) -> Result<(), StoreError> {
    bounded(connection.execute(sql::BEGIN)).await?;
    bounded(connection.execute(sql::TURN)).await?;
    for (name, value) in facts {
        let written = match value {
            Some(value) => sqlx::query(sql::PUT_META).bind(name).bind(value),
            None => sqlx::query(sql::FORGET_META).bind(name),
        };
        bounded(written.execute(&mut *connection)).await?;
    }
    if let Some(row) = audit {
        insert_audit(connection, row).await?;
    }
    bounded(connection.execute(sql::TELL)).await?;
    bounded(connection.execute(sql::COMMIT)).await.map(drop)
}
