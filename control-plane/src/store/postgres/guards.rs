//! The triggers that keep the audit's rows as they are: whether they are there, and made anew.
//!
//! Separate because their text is the migration's, word for word. It must never change a row.

use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};

use super::open::MIGRATIONS;
use super::pool::bounded;
use super::{Database, sql};
use crate::store::StoreError;
use crate::store::verify::CHAINED;

const GUARDS: [&str; 2] = ["audit_is_not_changed", "audit_is_not_emptied"];
const FUNCTION: &str = "FUNCTION bulkhead.audit_stays() ";

/// From `start` up to `end` and with it, as the migration says it.
fn part(start: &str, end: &str) -> Option<&'static str> {
    let (_, _, text) = MIGRATIONS.iter().find(|(number, ..)| *number == CHAINED)?;
    let (_, rest) = text.split_at_checked(text.find(start)?)?;
    let until = rest.find(end)?;
    rest.get(..until + end.len())
}

/// Those that are missing, are switched off, or do something else.
pub(super) async fn missing(
    connection: &mut PgConnection,
) -> Result<Vec<&'static str>, StoreError> {
    let body = part(FUNCTION, "$$;").and_then(|text| text.split("$$").nth(1));
    let mut missing = GUARDS.to_vec();
    for row in bounded(sqlx::query(sql::GUARDS).fetch_all(connection)).await? {
        let (name, text): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        missing.retain(|guard| *guard != name || body != Some(&text));
    }
    Ok(missing)
}

impl Database {
    pub(in crate::store) async fn unguarded(&self) -> Result<Vec<&'static str>, StoreError> {
        let mut held = self.readers.acquire().await?;
        let missing = missing(held.connection()).await;
        held.done(missing)
    }

    /// Makes those of these names anew.
    pub(in crate::store) async fn guard(&self, names: &[&'static str]) -> Result<(), StoreError> {
        let gone = || StoreError::Row("pg_trigger.tgname");
        let function = part(FUNCTION, "$$;").ok_or_else(gone)?;
        let mut all = format!("CREATE OR REPLACE {function}");
        for name in names {
            let text = part(&format!("CREATE TRIGGER {name} "), ";").ok_or_else(gone)?;
            all.push_str(&format!(
                "DROP TRIGGER IF EXISTS {name} ON bulkhead.audit; {text}"
            ));
        }
        let mut held = self.writer.acquire().await?;
        let done = bounded(held.connection().execute(AssertSqlSafe(all))).await;
        held.done(done.map(drop))
    }
}
