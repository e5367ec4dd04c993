//! The audit as it is read: through from its beginning, and in pages.
//!
//! Separate because the first looks at the file from outside, as a copy does: read-only, without
//! migrating, also while a control plane runs on it. The same functions for every database.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _, SqliteConnection};

use super::guards::missing;
use super::{BUSY_MAX, Database, audit_entry, signed, sql};
use crate::store::head::HEAD;
use crate::store::open::{STORE, applied, classify, inspect};
use crate::store::{AuditEntry, AuditFilter, StoreError, storable};

/// The audit at one moment.
#[derive(Debug)]
pub(in crate::store) struct Snapshot(SqliteConnection);

impl Snapshot {
    pub(in crate::store) async fn open(path: &Path) -> Result<Self, StoreError> {
        let missing = |source| StoreError::Open {
            path: path.display().to_string(),
            source,
        };
        std::fs::metadata(path).map_err(missing)?;
        inspect(path, &STORE).await?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_MAX);
        let said = |error| classify(error, path);
        let mut connection = options.connect().await.map_err(said)?;
        connection.execute(sql::SNAPSHOT).await.map_err(said)?;
        Ok(Self(connection))
    }

    /// The newest migration.
    pub(in crate::store) async fn migration(path: &Path) -> Result<i64, StoreError> {
        applied(path).await
    }

    pub(in crate::store) async fn after(
        &mut self,
        id: u64,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = sqlx::query(sql::AUDIT_AFTER)
            .bind(signed(id)?)
            .bind(i64::from(count))
            .fetch_all(&mut self.0)
            .await?;
        rows.iter().map(audit_entry).collect()
    }

    pub(in crate::store) async fn head(&mut self) -> Result<Option<String>, StoreError> {
        let row = sqlx::query(sql::FACT).bind(HEAD);
        let row = row.fetch_optional(&mut self.0).await?;
        Ok(row.map(|row| row.try_get(0)).transpose()?)
    }

    /// The triggers that are missing.
    pub(in crate::store) async fn unguarded(&mut self) -> Result<Vec<&'static str>, StoreError> {
        missing(&mut self.0).await
    }

    pub(in crate::store) async fn close(self) {
        // Nothing was changed: how it ends does not matter.
        let _gone = self.0.close().await;
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
        let rows = sqlx::query(sql::AUDIT_PAGE)
            .bind(before.unwrap_or(i64::MAX))
            .bind(storable(&filter.who))
            .bind(storable(&filter.action))
            .bind(storable(&filter.subject))
            .bind(&filter.from)
            .bind(&filter.to)
            .bind(count)
            .fetch_all(&self.readers)
            .await?;
        rows.iter().map(audit_entry).collect()
    }
}
