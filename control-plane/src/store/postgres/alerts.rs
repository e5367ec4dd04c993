//! The statements about alerts.
//!
//! Separate for length. The same functions in the same order for every database.

use std::collections::BTreeMap;

use sqlx::{Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, number, signed, sql};
use crate::store::alerts::ALERTS_MAX;
use crate::store::{AlertFilter, AlertRow, StoreError, storable};

impl Database {
    pub(in crate::store) async fn put_alerts(&self, rows: &[AlertRow]) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let done = bounded(put(held.connection(), rows)).await;
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

    pub(in crate::store) async fn alerts_since(
        &self,
        since_ms: i64,
    ) -> Result<(Vec<String>, u64), StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::ALERTS_SINCE).bind(since_ms);
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let newest = bounded(sqlx::query(sql::NEWEST_ALERT).fetch_one(held.connection())).await;
        let (rows, newest) = held.done(rows.and_then(|rows| Ok((rows, newest?))))?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        Ok((bodies.collect::<Result<_, _>>()?, number(&newest, 0)?))
    }

    pub(in crate::store) async fn alerts(
        &self,
        filter: &AlertFilter,
        count: u32,
    ) -> Result<Vec<String>, StoreError> {
        let before = filter.before.and_then(|id| i64::try_from(id).ok());
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::ALERTS)
            .bind(before.unwrap_or(i64::MAX))
            .bind(storable(&filter.state))
            .bind(storable(&filter.severity))
            .bind(storable(&filter.compartment))
            .bind(i64::from(count));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let rows = held.done(rows)?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        Ok(bodies.collect::<Result<_, _>>()?)
    }

    pub(in crate::store) async fn put_alert_windows(&self, body: &str) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let put = sqlx::query(sql::PUT_WINDOWS).bind(body);
        let put = bounded(put.execute(held.connection())).await;
        held.done(put).map(drop)
    }

    pub(in crate::store) async fn alert_windows(&self) -> Result<Option<String>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = bounded(sqlx::query(sql::WINDOWS).fetch_optional(held.connection())).await;
        Ok(held.done(row)?.map(|row| row.try_get(0)).transpose()?)
    }
}

/// The rows in one statement, and the bound on all of them.
async fn put(connection: &mut PgConnection, rows: &[AlertRow]) -> Result<(), sqlx::Error> {
    let unnumbered = |_| sqlx::Error::Decode("the number of an alert".into());
    // One statement cannot change a row twice: of two with one number the last one counts.
    let mut by_id = BTreeMap::new();
    for row in rows {
        by_id.insert(signed(row.id).map_err(unnumbered)?, row);
    }
    connection.execute(sql::BEGIN).await?;
    let column = |of: fn(&AlertRow) -> &str| by_id.values().map(|row| of(row)).collect::<Vec<_>>();
    let compartments = by_id.values().map(|row| storable(&row.compartment));
    let compartments: Vec<_> = compartments.collect();
    let resolved: Vec<_> = by_id.values().map(|row| row.resolved_ms).collect();
    sqlx::query(sql::PUT_ALERTS)
        .bind(by_id.keys().copied().collect::<Vec<_>>())
        .bind(compartments)
        .bind(column(|row| row.state))
        .bind(column(|row| row.severity))
        .bind(resolved)
        .bind(column(|row| &row.body))
        .execute(&mut *connection)
        .await?;
    sqlx::query(sql::BOUND_ALERTS)
        .bind(i64::from(ALERTS_MAX))
        .execute(&mut *connection)
        .await?;
    connection.execute(sql::COMMIT).await.map(drop)
}
