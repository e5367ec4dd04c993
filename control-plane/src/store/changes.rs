//! Changes on their way: rows that take one step at a time, some of which make a generation.
//!
//! Separate because a step and the generation it makes are one transaction: of two people who race
//! one finds another version than he read, and nothing of his is stored. It must never decide which
//! step may follow which.

use super::write::{Append, Outcome};
use super::{AuditRow, NewGeneration, Store, StoreError, storable};

/// The source of a generation that goes to one gateway alone; the statements know it, too.
pub(crate) const STAGED: &str = "stage";
/// Most changes that are open at once.
pub(crate) const CHANGES_OPEN_MAX: u32 = 200;
/// Most changes that are at work at once: staged, or watched after they were published.
pub(crate) const CHANGES_AT_WORK_MAX: u32 = 100;
/// Most changes in one answer.
pub(crate) const CHANGES_PAGE_MAX: u32 = 500;

/// One change as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeRow {
    /// Its number; 0 for one that is to be stored.
    pub(crate) number: u64,
    /// How many steps it has taken, its making included.
    pub(crate) version: u64,
    /// What has become of it.
    pub(crate) state: String,
    /// Who proposed it.
    pub(crate) author: String,
    /// When, in UTC.
    pub(crate) created_at: String,
    /// Where it is, or was, staged.
    pub(crate) gateway: Option<String>,
    /// The generation that went there.
    pub(crate) staged: Option<u64>,
    /// The generation that it became.
    pub(crate) published: Option<u64>,
    /// The generation that took it back.
    pub(crate) reverted: Option<u64>,
    /// When somebody has to look at it again, in milliseconds since 1970.
    pub(crate) due_ms: Option<i64>,
    /// The whole of it, as JSON.
    pub(crate) body: String,
}

/// What a generation is to its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// For one gateway.
    Staged,
    /// For everybody.
    Published,
    /// It takes the change back.
    Reverted,
    /// It ends the staging.
    Unstaged,
}

/// A generation that a step makes.
#[derive(Debug)]
pub(crate) struct Makes {
    pub(crate) role: Role,
    pub(crate) new: NewGeneration,
    /// The newest generation that its writer knows.
    pub(crate) seen: u64,
}

/// One step, whole.
#[derive(Debug)]
pub(crate) struct ChangeWrite {
    /// As it is to be; its version is one more than the one that was read.
    pub(crate) row: ChangeRow,
    /// The document that it proposes: as it was, another one, or none any more.
    pub(crate) document: Option<Option<String>>,
    pub(crate) makes: Option<Makes>,
    /// Its number is the store's.
    pub(crate) audit: AuditRow,
}

/// The rows of one step.
#[derive(Debug)]
pub(in crate::store) struct StepRows {
    pub(in crate::store) row: ChangeRow,
    pub(in crate::store) document: Option<Option<String>>,
    pub(in crate::store) makes: Option<(Role, Append)>,
}

/// Why a step was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum StepNot {
    Raced,
    MovedOn(u64),
    TooMany,
    Taken(u64),
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeWritten {
    /// On disk.
    Stored {
        /// The change.
        number: u64,
        /// The generation that it made.
        generation: Option<u64>,
    },
    /// Another step came first.
    Raced,
    /// The policy moved on: this is the newest generation.
    MovedOn(u64),
    /// Too many are open.
    TooMany,
    /// This one is staged already.
    Taken(u64),
}

/// Which changes are listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeFilter {
    /// Below this number.
    pub(crate) before: Option<u64>,
    /// In this state; empty: any.
    pub(crate) state: String,
}

/// What a row is about: `change:7`.
const SUBJECT: &str = "change:";

impl StepRows {
    /// The row with the generation that it made, and what the audit says of both.
    pub(super) fn with(&self, number: u64, audit: &mut AuditRow) -> ChangeRow {
        audit.subject = format!("{SUBJECT}{number}");
        let mut row = self.row.clone();
        row.number = number;
        let made = Some(audit.generation_after);
        match self.makes.as_ref().map(|(role, _)| *role) {
            Some(Role::Staged) => row.staged = made,
            Some(Role::Published) => row.published = made,
            Some(Role::Reverted) => row.reverted = made,
            Some(Role::Unstaged) | None => {}
        }
        row
    }
}

impl Store {
    /// Takes one step, and makes the generation that belongs to it, or does nothing.
    pub(crate) async fn write_change(
        &self,
        write: ChangeWrite,
    ) -> Result<ChangeWritten, StoreError> {
        let ChangeWrite {
            mut row,
            document,
            makes,
            audit,
        } = write;
        for text in [&mut row.author, &mut row.body] {
            *text = storable(text).into_owned();
        }
        let document = document.map(|text| text.map(|text| storable(&text).into_owned()));
        let makes = makes.map(|Makes { role, new, seen }| {
            let new = new.storable();
            (role, Append { new, seen })
        });
        let is_made = makes.is_some();
        let rows = StepRows {
            row,
            document,
            makes,
        };
        Ok(match self.transact(rows, audit).await? {
            Outcome::Kept(audit) => {
                let number = audit.subject.strip_prefix(SUBJECT);
                let number = number.and_then(|number| number.parse().ok());
                ChangeWritten::Stored {
                    number: number.ok_or(StoreError::Row("audit.subject"))?,
                    generation: is_made.then_some(audit.generation_after),
                }
            }
            Outcome::Not(StepNot::Raced) => ChangeWritten::Raced,
            Outcome::Not(StepNot::MovedOn(newest)) => ChangeWritten::MovedOn(newest),
            Outcome::Not(StepNot::TooMany) => ChangeWritten::TooMany,
            Outcome::Not(StepNot::Taken(other)) => ChangeWritten::Taken(other),
        })
    }

    /// One change.
    pub(crate) async fn change(&self, number: u64) -> Result<Option<ChangeRow>, StoreError> {
        self.database.change(number).await
    }

    /// Changes, newest first.
    pub(crate) async fn changes(
        &self,
        filter: &ChangeFilter,
        count: u32,
    ) -> Result<Vec<ChangeRow>, StoreError> {
        self.database
            .changes(filter, count.min(CHANGES_PAGE_MAX))
            .await
    }

    /// Those that are staged, or published and watched.
    pub(crate) async fn changes_at_work(&self) -> Result<Vec<ChangeRow>, StoreError> {
        self.database.changes_at_work().await
    }

    /// The document that a change proposes, while it is kept.
    pub(crate) async fn change_document(&self, number: u64) -> Result<Option<String>, StoreError> {
        self.database.change_document(number).await
    }
}

#[cfg(test)]
mod tests;
