//! The statement about documents of old generations.
//!
//! Separate for length. The same function for every database. It must never take a row away.

use super::{Database, signed, sql};
use crate::store::StoreError;
use crate::store::retention::Old;

impl Database {
    /// How many documents are gone now. Their pages are used again; the file does not shrink.
    pub(in crate::store) async fn forget_documents(&self, old: &Old) -> Result<u64, StoreError> {
        let done = sqlx::query(sql::FORGET_DOCUMENTS)
            .bind(signed(old.newest_kept)?)
            .bind(&old.before)
            .bind(old.at_most)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected())
    }
}
