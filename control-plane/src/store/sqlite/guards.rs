//! The triggers that keep the audit's rows as they are: whether they are there, and made anew.
//!
//! Separate because their text is the migration's, word for word. It must never change a row.

use sqlx::{AssertSqlSafe, Executor as _, Row as _, SqliteConnection};

use super::{Database, sql};
use crate::store::StoreError;
use crate::store::open::MIGRATIONS;
use crate::store::verify::CHAINED;

const GUARDS: [&str; 2] = ["audit_is_not_deleted", "audit_is_not_changed"];

/// As the migration says it and as the schema keeps it.
fn statement(name: &str) -> Option<&'static str> {
    let (_, _, text) = MIGRATIONS.iter().find(|(number, ..)| *number == CHAINED)?;
    let (_, rest) = text.split_at_checked(text.find(&format!("CREATE TRIGGER {name} "))?)?;
    let end = rest.find("END;")?;
    rest.get(..end + "END".len())
}

/// Those that are missing, or are others.
pub(super) async fn missing(
    connection: &mut SqliteConnection,
) -> Result<Vec<&'static str>, StoreError> {
    let mut missing = GUARDS.to_vec();
    for row in sqlx::query(sql::GUARDS).fetch_all(connection).await? {
        let (name, text): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        missing.retain(|guard| *guard != name || statement(guard) != Some(&text));
    }
    Ok(missing)
}

impl Database {
    pub(in crate::store) async fn unguarded(&self) -> Result<Vec<&'static str>, StoreError> {
        missing(&mut *self.readers.acquire().await?).await
    }

    /// Makes those of these names anew.
    pub(in crate::store) async fn guard(&self, names: &[&'static str]) -> Result<(), StoreError> {
        let mut connection = self.writer.acquire().await?;
        for name in names {
            let text = statement(name).ok_or(StoreError::Row("sqlite_schema.sql"))?;
            let both = format!("DROP TRIGGER IF EXISTS {name}; {text};");
            connection.execute(AssertSqlSafe(both)).await?;
        }
        Ok(())
    }
}
