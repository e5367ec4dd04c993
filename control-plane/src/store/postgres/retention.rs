//! The statement about documents of old generations.
//!
//! Separate for length. The same function for every database. It must never take a row away.

use super::pool::bounded;
use super::{Database, signed, sql};
use crate::store::StoreError;
use crate::store::retention::Old;

impl Database {
    /// How many documents are gone now.
    pub(in crate::store) async fn forget_documents(&self, old: &Old) -> Result<u64, StoreError> {
        let newest_kept = signed(old.newest_kept)?;
        let mut held = self.writer.acquire().await?;
        let done = sqlx::query(sql::FORGET_DOCUMENTS)
            .bind(newest_kept)
            .bind(&old.before)
            .bind(i64::from(old.at_most));
        let done = bounded(done.execute(held.connection())).await;
        Ok(held.done(done)?.rows_affected())
    }
}
