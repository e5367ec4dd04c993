//! The statements about small facts.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::{Row as _, SqliteConnection};

use super::{Database, sql};
use crate::store::write::Rows;
use crate::store::{AuditRow, Facts, StoreError};

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

    /// One fact without an audit row.
    pub(in crate::store) async fn put_meta(
        &self,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), StoreError> {
        let mut connection = self.writer.acquire().await?;
        put(&mut connection, name, value).await
    }
}

impl Rows<SqliteConnection> for Facts {
    type No = ();

    async fn put(
        &self,
        connection: &mut SqliteConnection,
        _audit: &mut AuditRow,
    ) -> Result<Result<(), ()>, StoreError> {
        for (name, value) in &self.only_if {
            let row = sqlx::query(sql::FACT).bind(name);
            let row = row.fetch_optional(&mut *connection).await?;
            let is: Option<String> = row.map(|row| row.try_get(0)).transpose()?;
            if is != *value {
                return Ok(Err(()));
            }
        }
        for (name, value) in &self.put {
            put(connection, name, value.as_deref()).await?;
        }
        Ok(Ok(()))
    }
}

async fn put(
    connection: &mut SqliteConnection,
    name: &str,
    value: Option<&str>,
) -> Result<(), StoreError> {
    let written = match value {
        Some(value) => sqlx::query(sql::PUT_META).bind(name).bind(value),
        None => sqlx::query(sql::FORGET_META).bind(name),
    };
    written.execute(connection).await?;
    Ok(())
}
