//! Reports of drills in the store: rows with a body that only the drills themselves read.
//!
//! Separate because a report changes nothing: losing one costs a date on a page. It must never make
//! a change of a limit wait for more than one small transaction.

use super::{Store, StoreError};

/// Reports of one route that are kept; the oldest go.
pub const DRILLS_OF_ROUTE_MAX: u32 = 20;
/// Reports of all routes that are kept; the oldest go.
pub const DRILLS_KEPT_MAX: u32 = 500;

/// One report as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrillRow {
    /// Its name.
    pub id: String,
    /// What was drilled.
    pub route: String,
    /// When it began, in milliseconds of the wall clock.
    pub at_ms: i64,
    /// The whole of it, as JSON.
    pub body: String,
}

impl Store {
    /// Keeps a report in place of the one of this name, and lets the oldest go.
    pub async fn put_drill(&self, row: DrillRow) -> Result<(), StoreError> {
        let database = self.database.clone();
        self.write(async move { database.put_drill(&row).await })
            .await
    }

    /// The body of the report of this name.
    pub async fn drill(&self, id: &str) -> Result<Option<String>, StoreError> {
        self.database.drill(id).await
    }

    /// The bodies of all that are kept, the oldest first.
    pub async fn drills(&self) -> Result<Vec<String>, StoreError> {
        self.database.drills().await
    }
}
