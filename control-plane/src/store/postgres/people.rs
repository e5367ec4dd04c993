//! The statements about people.
//!
//! Separate for length. The same functions in the same order for every database.

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::pool::bounded;
use super::{Database, sql};
use crate::store::people::{PeopleStep, PeopleWrite, PersonRow, VERSION};
use crate::store::write::Rows;
use crate::store::{AuditRow, StoreError, storable};

impl Database {
    pub(in crate::store) async fn people(&self) -> Result<Vec<PersonRow>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let rows = bounded(sqlx::query(sql::PEOPLE).fetch_all(held.connection())).await;
        held.done(rows)?.iter().map(person).collect()
    }

    pub(in crate::store) async fn person(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<PersonRow>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let row = sqlx::query(sql::PERSON).bind(kind).bind(storable(id));
        let row = bounded(row.fetch_optional(held.connection())).await;
        held.done(row)?.as_ref().map(person).transpose()
    }

    pub(in crate::store) async fn used_person(
        &self,
        kind: &str,
        id: &str,
        used_ms: i64,
    ) -> Result<(), StoreError> {
        let mut held = self.writer.acquire().await?;
        let used = sqlx::query(sql::USED_PERSON);
        let used = used.bind(used_ms).bind(kind).bind(id);
        let used = bounded(used.execute(held.connection())).await;
        held.done(used).map(drop)
    }
}

impl Rows<PgConnection> for PeopleWrite {
    type No = ();

    /// Not when another version is there than the writer saw.
    async fn put(
        &self,
        connection: &mut PgConnection,
        _audit: &mut AuditRow,
    ) -> Result<Result<(), ()>, StoreError> {
        let version = sqlx::query(sql::FACT).bind(VERSION);
        let version = bounded(version.fetch_optional(&mut *connection)).await?;
        let version = version.map(|row| row.try_get::<String, _>(0)).transpose()?;
        if version.unwrap_or_default() != self.seen {
            return Ok(Err(()));
        }
        for step in &self.steps {
            let step = match step {
                PeopleStep::Put(row) => sqlx::query(sql::PUT_PERSON)
                    .bind(&row.kind)
                    .bind(storable(&row.id))
                    .bind(storable(&row.body))
                    .bind(row.used_ms),
                PeopleStep::Forget(kind, id) => sqlx::query(sql::FORGET_PERSON)
                    .bind(*kind)
                    .bind(storable(id)),
            };
            bounded(step.execute(&mut *connection)).await?;
        }
        let version = sqlx::query(sql::PUT_META);
        let version = version.bind(VERSION).bind(&self.version);
        bounded(version.execute(&mut *connection)).await?;
        Ok(Ok(()))
    }
}

fn person(row: &PgRow) -> Result<PersonRow, StoreError> {
    Ok(PersonRow {
        kind: row.try_get(0)?,
        id: row.try_get(1)?,
        body: row.try_get(2)?,
        used_ms: row.try_get(3)?,
    })
}
