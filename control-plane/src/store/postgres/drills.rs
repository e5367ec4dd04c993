//! The statements about drills.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, sql};
use crate::store::drills::{DRILLS_KEPT_MAX, DRILLS_OF_ROUTE_MAX};
use crate::store::{DrillRow, StoreError, storable};

impl Database {
    pub(in crate::store) async fn put_drill(&self, row: &DrillRow) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let done = bounded(put(held.connection(), row)).await;
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

    pub(in crate::store) async fn drill(&self, id: &str) -> Result<Option<String>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::DRILL).bind(storable(id));
        let row = bounded(row.fetch_optional(held.connection())).await;
        Ok(held.done(row)?.map(|row| row.try_get(0)).transpose()?)
    }

    pub(in crate::store) async fn drills(&self) -> Result<Vec<String>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = bounded(sqlx::query(sql::DRILLS).fetch_all(held.connection())).await;
        let rows = held.done(rows)?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        Ok(bodies.collect::<Result<_, _>>()?)
    }
}

/// The row, inside a transaction, and the bounds on those of its route and on all.
async fn put(connection: &mut PgConnection, row: &DrillRow) -> Result<(), sqlx::Error> {
    connection.execute(sql::BEGIN).await?;
    sqlx::query(sql::PUT_DRILL)
        .bind(storable(&row.id))
        .bind(storable(&row.route))
        .bind(row.at_ms)
        .bind(storable(&row.body))
        .execute(&mut *connection)
        .await?;
    sqlx::query(sql::BOUND_DRILLS_OF_ROUTE)
        .bind(storable(&row.route))
        .bind(i64::from(DRILLS_OF_ROUTE_MAX))
        .execute(&mut *connection)
        .await?;
    sqlx::query(sql::BOUND_DRILLS)
        .bind(i64::from(DRILLS_KEPT_MAX))
        .execute(&mut *connection)
        .await?;
    connection.execute(sql::COMMIT).await.map(drop)
}
