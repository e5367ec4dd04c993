//! The statements about small facts.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, insert_audit, sql};
use crate::store::{AuditRow, StoreError};

impl Database {
    pub(in crate::store) async fn meta(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let rows = sqlx::query(sql::META)
            .bind(prefix)
            .fetch_all(&self.readers)
            .await?;
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
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match put(&mut connection, facts, audit).await {
            Ok(()) => match connection.execute(sql::COMMIT).await {
                Ok(_) => return Ok(()),
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
}

async fn put(
    connection: &mut SqliteConnection,
    facts: &[(&str, Option<&str>)],
    audit: Option<&AuditRow>,
) -> Result<(), StoreError> {
    for (name, value) in facts {
        let written = match value {
            Some(value) => sqlx::query(sql::PUT_META).bind(name).bind(value),
            None => sqlx::query(sql::FORGET_META).bind(name),
        };
        written.execute(&mut *connection).await?;
    }
    match audit {
        Some(row) => insert_audit(connection, row).await,
        None => Ok(()),
    }
}
