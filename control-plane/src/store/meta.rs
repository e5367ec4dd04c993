//! Small facts beside the generations: a name and a body that only their owner reads.
//!
//! Separate because they are no generations and are few: what is halted, what is proven, who may
//! connect. Each is written with its audit row where it has one. It must never hold anything that
//! grows with traffic.

use super::{AuditRow, Facts, Store, StoreError};

impl Store {
    /// The facts whose names begin with `prefix`, by name.
    pub async fn meta(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        self.database.meta(prefix).await
    }

    /// Writes one fact, or takes it away without `value`, with its audit row or not at all.
    pub async fn put_meta(
        &self,
        name: String,
        value: Option<String>,
        audit: Option<AuditRow>,
    ) -> Result<(), StoreError> {
        if let Some(audit) = audit {
            return self
                .put_facts(Facts::one(name, value), audit)
                .await
                .map(drop);
        }
        let database = self.database.clone();
        let write = async move { database.put_meta(&name, value.as_deref()).await };
        self.write(write).await
    }
}
