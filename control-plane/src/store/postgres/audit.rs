//! The audit as it is read: through from its beginning, and in pages.
//!
//! Separate because the first looks at the database from outside: read-only, without migrating,
//! also while control planes run on it. The same functions for every database.

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};

use super::guards::missing;
use super::open::{STORE, migrations};
use super::pool::bounded;
use super::{Database, audit_entry, signed, sql};
use crate::store::address::Server;
use crate::store::head::HEAD;
use crate::store::{AuditEntry, AuditFilter, StoreError, storable};

/// The audit at one moment.
#[derive(Debug)]
pub(in crate::store) struct Snapshot(PgConnection);

impl Snapshot {
    pub(in crate::store) async fn open(server: &Server) -> Result<Self, StoreError> {
        let connecting = PgConnection::connect_with(&server.options);
        let mut connection = bounded(connecting).await?;
        bounded(connection.execute(sql::SESSION)).await?;
        bounded(connection.execute(sql::SNAPSHOT)).await?;
        Ok(Self(connection))
    }

    /// The newest migration.
    pub(in crate::store) async fn migration(server: &Server) -> Result<i64, StoreError> {
        Ok(migrations(server, &STORE).await?.0)
    }

    pub(in crate::store) async fn after(
        &mut self,
        id: u64,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = sqlx::query(sql::AUDIT_AFTER)
            .bind(signed(id)?)
            .bind(i64::from(count));
        let rows = bounded(rows.fetch_all(&mut self.0)).await?;
        rows.iter().map(audit_entry).collect()
    }

    pub(in crate::store) async fn head(&mut self) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(sql::FACT).bind(HEAD);
        let row = bounded(row.fetch_optional(&mut self.0)).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// The triggers that are missing.
    pub(in crate::store) async fn unguarded(&mut self) -> Result<Vec<&'static str>, StoreError> {
        missing(&mut self.0).await
    }

    pub(in crate::store) async fn close(self) {
        // Nothing was changed: how it ends does not matter.
        let _gone = bounded(self.0.close()).await;
    }
}

impl Database {
    /// Rows below a number that a filter lets through, newest first.
    pub(in crate::store) async fn audit_page(
        &self,
        filter: &AuditFilter,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let before = filter.before.and_then(|id| i64::try_from(id).ok());
        let mut held = self.readers.acquire().await?;
        let rows = sqlx::query(sql::AUDIT_PAGE)
            .bind(before.unwrap_or(i64::MAX))
            .bind(storable(&filter.who))
            .bind(storable(&filter.action))
            .bind(storable(&filter.subject))
            .bind(&filter.from)
            .bind(&filter.to)
            .bind(i64::from(count));
        let rows = bounded(rows.fetch_all(held.connection())).await;
        held.done(rows)?.iter().map(audit_entry).collect()
    }
}
