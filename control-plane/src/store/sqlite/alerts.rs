//! The statements about alerts.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, number, signed, sql};
use crate::store::alerts::ALERTS_MAX;
use crate::store::{AlertFilter, AlertRow, StoreError};

impl Database {
    pub(in crate::store) async fn put_alerts(&self, rows: &[AlertRow]) -> Result<(), StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match put(&mut connection, rows).await {
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

    pub(in crate::store) async fn alerts_since(
        &self,
        since_ms: i64,
    ) -> Result<(Vec<String>, u64), StoreError> {
        let rows = sqlx::query(sql::ALERTS_SINCE)
            .bind(since_ms)
            .fetch_all(&self.readers)
            .await?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        let newest = sqlx::query(sql::NEWEST_ALERT)
            .fetch_one(&self.readers)
            .await?;
        Ok((bodies.collect::<Result<_, _>>()?, number(&newest, 0)?))
    }

    pub(in crate::store) async fn alerts(
        &self,
        filter: &AlertFilter,
        count: u32,
    ) -> Result<Vec<String>, StoreError> {
        let before = filter.before.and_then(|id| i64::try_from(id).ok());
        let rows = sqlx::query(sql::ALERTS)
            .bind(before.unwrap_or(i64::MAX))
            .bind(&filter.state)
            .bind(&filter.severity)
            .bind(&filter.compartment)
            .bind(count)
            .fetch_all(&self.readers)
            .await?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        Ok(bodies.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) async fn put_alert_windows(&self, body: &str) -> Result<(), StoreError> {
        sqlx::query(sql::PUT_WINDOWS)
            .bind(body)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    pub(in crate::store) async fn alert_windows(&self) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(sql::WINDOWS)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }
}

/// The rows, inside a transaction, and the bound on all of them.
async fn put(connection: &mut SqliteConnection, rows: &[AlertRow]) -> Result<(), StoreError> {
    for row in rows {
        sqlx::query(sql::PUT_ALERT)
            .bind(signed(row.id)?)
            .bind(&row.compartment)
            .bind(row.state)
            .bind(row.severity)
            .bind(row.resolved_ms)
            .bind(&row.body)
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(sql::BOUND_ALERTS)
        .bind(ALERTS_MAX)
        .execute(&mut *connection)
        .await?;
    Ok(())
}
