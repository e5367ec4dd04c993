//! People in the store: users, tokens and sessions, rows with a body that only `people` reads.
//!
//! Separate because they are no part of the policy, and because several processes change them at
//! once: who writes says which version was seen, and nothing is written on top of another one. It
//! must never be given a secret, only what stands for it.

use super::write::Outcome;
use super::{AuditRow, Store, StoreError};

/// The fact whose value changes with every write.
pub(super) const VERSION: &str = "people/version";

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonRow {
    /// `user`, `token` or `session`.
    pub kind: String,
    /// Names it among its kind.
    pub id: String,
    /// The whole of it, as JSON.
    pub body: String,
    /// When it was last used, in milliseconds of the wall clock.
    pub used_ms: i64,
}

/// One step of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeopleStep {
    /// This row, in place of the one of its name.
    Put(PersonRow),
    /// The row of this kind and name goes.
    Forget(&'static str, String),
}

/// Steps that are written together.
#[derive(Clone, Debug)]
pub struct PeopleWrite {
    /// The version that the writer saw; empty when there was none.
    pub seen: String,
    /// The version from then on.
    pub version: String,
    /// All or none.
    pub steps: Vec<PeopleStep>,
}

impl Store {
    /// The version of what is there; empty when nobody ever wrote.
    pub async fn people_version(&self) -> Result<String, StoreError> {
        let facts = self.meta(VERSION).await?;
        let first = facts.into_iter().next();
        Ok(first.map_or_else(String::new, |(_, version)| version))
    }

    /// Every row, and the version that they are at least of.
    pub async fn people(&self) -> Result<(String, Vec<PersonRow>), StoreError> {
        let version = self.people_version().await?;
        Ok((version, self.database.people().await?))
    }

    /// One row.
    pub async fn person(&self, kind: &str, id: &str) -> Result<Option<PersonRow>, StoreError> {
        self.database.person(kind, id).await
    }

    /// Writes the steps with their audit row; false when another version is there by now.
    pub async fn put_people(
        &self,
        write: PeopleWrite,
        audit: AuditRow,
    ) -> Result<bool, StoreError> {
        let outcome: Outcome<()> = self.transact(write, audit).await?;
        Ok(matches!(outcome, Outcome::Kept(_)))
    }

    /// Notes that a row was used. Nobody waits for it, and it may be lost.
    pub fn used_person(&self, kind: &'static str, id: String, used_ms: i64) {
        if self.writes.is_closed() {
            return;
        }
        let database = self.database.clone();
        self.writes.spawn(async move {
            let _lost = database.used_person(kind, &id, used_ms).await;
        });
    }
}
