//! The statements about drills.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, Row as _, SqliteConnection};

use super::{Database, sql};
use crate::store::drills::{DRILLS_KEPT_MAX, DRILLS_OF_ROUTE_MAX};
use crate::store::{DrillRow, StoreError};

impl Database {
    pub(in crate::store) async fn put_drill(&self, row: &DrillRow) -> Result<(), StoreError> {
        let mut connection = self.writer.acquire().await?;
        connection.execute(sql::BEGIN).await?;
        let end = match put(&mut connection, row).await {
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

    pub(in crate::store) async fn drill(&self, id: &str) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(sql::DRILL)
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    pub(in crate::store) async fn drills(&self) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(sql::DRILLS).fetch_all(&self.readers).await?;
        let bodies = rows.iter().map(|row| row.try_get(0));
        Ok(bodies.collect::<Result<_, _>>()?)
    }
}

/// The row, inside a transaction, and the bounds on those of its route and on all.
async fn put(connection: &mut SqliteConnection, row: &DrillRow) -> Result<(), StoreError> {
    sqlx::query(sql::PUT_DRILL)
        .bind(&row.id)
        .bind(&row.route)
        .bind(row.at_ms)
        .bind(&row.body)
        .execute(&mut *connection)
        .await?;
    sqlx::query(sql::BOUND_DRILLS_OF_ROUTE)
        .bind(&row.route)
        .bind(DRILLS_OF_ROUTE_MAX)
        .execute(&mut *connection)
        .await?;
    sqlx::query(sql::BOUND_DRILLS)
        .bind(DRILLS_KEPT_MAX)
        .execute(&mut *connection)
        .await?;
    Ok(())
}
