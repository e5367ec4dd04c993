//! How long the documents of generations are kept, and letting the older ones go.
//!
//! Separate because it is the one thing that takes from a generation. The row stays, with number,
//! digest, author and reason: the audit refers to it. It must never touch a document that is sent
//! to a gateway, or that a change on its way refers to.

use super::{Store, StoreError};

/// So many of the newest generations keep their documents, however old they are.
pub const DOCUMENTS_KEPT: u64 = 1_000;
/// And all of so many days, however many there are.
pub const DOCUMENTS_KEPT_DAYS: i64 = 90;
/// Most documents that go at once: writers wait meanwhile.
pub const FORGOTTEN_AT_ONCE_MAX: u32 = 200;

/// Whose documents go: those that are old in each of these ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    /// Not one of so many newest.
    pub newest_kept: u64,
    /// Made before this, in UTC as generations have it.
    pub before: String,
    /// The oldest, at most so many.
    pub at_most: u32,
}

impl Store {
    /// Lets documents of old generations go, where nobody can cancel it; tells how many. Doing it
    /// again is harmless, so that an answer that is lost is not asked for.
    pub async fn forget_documents(&self, old: Old) -> Result<u64, StoreError> {
        if self.writes.is_closed() {
            return Err(StoreError::Closed);
        }
        let database = self.database.clone();
        let work = async move { database.forget_documents(&old).await };
        self.writes
            .spawn(work)
            .await
            .map_err(|_| StoreError::Closed)?
    }
}
