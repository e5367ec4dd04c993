//! The statements about small facts.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Executor as _, PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, sql};
use crate::store::write::Rows;
use crate::store::{AuditRow, Facts, StoreError, storable};

impl Database {
    pub(in crate::store) async fn meta(
        &self,
        prefix: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::META).bind(storable(prefix));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        let rows = held.done(rows)?;
        let pairs = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        pairs.collect()
    }

    /// One fact without an audit row. Whoever is not answered writes it again.
    pub(in crate::store) async fn put_meta(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let done = alone(held.connection(), name, value).await;
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

impl Rows<PgConnection> for Facts {
    type No = ();

    async fn put(
        &self,
        connection: &mut PgConnection,
        _audit: &mut AuditRow,
    ) -> Result<Result<(), ()>, StoreError> {
        for (name, value) in &self.only_if {
            let row = sqlx::query(sql::FACT).bind(storable(name));
            let row = row.fetch_optional(&mut *connection).await?;
            let is: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
            if is.as_deref() != value.as_deref().map(storable).as_deref() {
                return Ok(Err(()));
            }
        }
        for (name, value) in &self.put {
            put(connection, name, value.as_deref()).await?;
        }
        Ok(Ok(()))
    }
}

async fn alone(
    connection: &mut PgConnection,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    bounded(connection.execute(sql::BEGIN)).await?;
    bounded(connection.execute(sql::TURN)).await?;
    put(connection, name, value).await?;
    bounded(connection.execute(sql::TELL)).await?;
    bounded(connection.execute(sql::COMMIT)).await.map(drop)
}

async fn put(
    connection: &mut PgConnection,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    let name = storable(name);
    let written = match value {
        Some(value) => sqlx::query(sql::PUT_META).bind(name).bind(storable(value)),
        None => sqlx::query(sql::FORGET_META).bind(name),
    };
    bounded(written.execute(connection)).await.map(drop)
}
