//! The history's rows, on either database.
//!
//! Separate from the policy's store because it makes another promise: what is lost here is missed
//! on a chart and nowhere else, and nobody who changes a limit ever waits for it. It must never be
//! asked by the write path of a policy.

mod postgres;
mod sqlite;
mod sum;

use std::collections::HashMap;
use std::sync::Arc;

use super::{Address, StoreError};
use crate::history::{Flush, Heard, LimitChange, Range, Row, Slots, Step, stamp};

/// Most changes of one limit in an answer.
const CHANGES_MAX: i64 = 500;
/// How a limit that is none is written.
const UNLIMITED: i64 = -1;
/// Most names that are known without asking.
const NAMES_MAX: usize = 100_000;
const DAY_S: i64 = 86_400;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Compartment,
    Gateway,
}

impl Kind {
    const fn number(self) -> i64 {
        match self {
            Self::Compartment => 0,
            Self::Gateway => 1,
        }
    }
}

/// Names by number, and the day on which each was last said to be in use.
type Names = HashMap<(Kind, Arc<str>), (i64, i64)>;

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// The file with its log.
    pub(crate) file_bytes: u64,
    /// Of that, what rows take.
    pub(crate) used_bytes: u64,
}

/// One row as it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) slot: i64,
    /// Empty where rows are over all gateways.
    pub(crate) gateway: Arc<str>,
    pub(crate) row: Row,
}

/// Where the history is.
#[derive(Clone, Debug)]
pub(crate) enum Figures {
    Sqlite(sqlite::Figures),
    Postgres(postgres::Figures),
}

macro_rules! either {
    ($self:ident, $figures:ident => $call:expr) => {
        match $self {
            Self::Sqlite($figures) => $call,
            Self::Postgres($figures) => $call,
        }
    };
}

impl Figures {
    pub(crate) async fn open(place: &Address) -> Result<Self, StoreError> {
        Ok(match place {
            Address::Sqlite(path) => Self::Sqlite(sqlite::Figures::open(path).await?),
            Address::Postgres(server) => Self::Postgres(postgres::Figures::open(server).await?),
        })
    }

    /// The newest migration there, and of this build.
    pub(super) async fn migrations(place: &Address) -> Result<(i64, i64), StoreError> {
        match place {
            Address::Sqlite(path) => super::open::migrations(path, &sqlite::SCHEMA).await,
            Address::Postgres(server) => {
                super::postgres::open::migrations(server, &postgres::HISTORY).await
            }
        }
    }

    pub(crate) async fn close(&self) {
        either!(self, figures => figures.close().await);
    }

    /// The rows of one compartment in a range, by time.
    pub(crate) async fn rows(
        &self,
        step: Step,
        key: &str,
        range: Range,
    ) -> Result<Vec<Found>, StoreError> {
        either!(self, figures => figures.rows(step, key, range).await)
    }

    /// Who was heard of in a range, over all gateways, by time.
    pub(crate) async fn heard(
        &self,
        step: Step,
        range: Range,
    ) -> Result<Vec<(i64, Heard)>, StoreError> {
        either!(self, figures => figures.heard(step, range).await)
    }

    /// The same for each gateway: its name, and how much it was heard of.
    pub(crate) async fn heard_by_gateway(
        &self,
        range: Range,
    ) -> Result<Vec<(i64, Arc<str>, Heard)>, StoreError> {
        either!(self, figures => figures.heard_by_gateway(range).await)
    }

    /// Whether a compartment of this name has rows, or had.
    pub(crate) async fn knows(&self, key: &str) -> Result<bool, StoreError> {
        either!(self, figures => figures.knows(key).await)
    }

    /// Up to where the rows of a width are made of the finer ones.
    pub(crate) async fn rolled(&self, step: Step) -> Result<i64, StoreError> {
        either!(self, figures => figures.rolled(step).await)
    }

    /// The first and the last slot of a width that anybody was heard of in.
    pub(crate) async fn kept(&self, step: Step) -> Result<Option<(i64, i64)>, StoreError> {
        either!(self, figures => figures.kept(step).await)
    }

    /// Changes of one limit, newest first.
    pub(crate) async fn limit_changes(
        &self,
        key: &str,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<LimitChange>, StoreError> {
        either!(self, figures => figures.limit_changes(key, from_ms, to_ms).await)
    }

    /// What was noted under a name.
    pub(crate) async fn note(&self, key: &str) -> Result<Option<String>, StoreError> {
        either!(self, figures => figures.note(key).await)
    }

    pub(crate) async fn size(&self) -> Result<Size, StoreError> {
        either!(self, figures => figures.size().await)
    }

    /// Adds rows of ten seconds. What is older than `kept_from_s` is not wanted any more; the
    /// answer is how many rows that were.
    pub(crate) async fn add(
        &self,
        slots: &Slots,
        kept_from_s: i64,
        flush: &Flush,
    ) -> Result<u64, StoreError> {
        match self {
            // A commit in our own file that fails is rolled back: nothing is in doubt.
            Self::Sqlite(figures) => figures.add(slots, kept_from_s).await,
            Self::Postgres(figures) => figures.add(slots, kept_from_s, flush).await,
        }
    }

    /// Whether the rows of a flush that was not answered are stored. Asked behind whatever may
    /// still be storing them.
    pub(crate) async fn holds(&self, flush: &Flush) -> Result<bool, StoreError> {
        match self {
            Self::Sqlite(_) => Ok(false),
            Self::Postgres(figures) => figures.holds(flush).await,
        }
    }

    /// Makes the next row of a width of the finer ones, when all of those are there: they are
    /// before `done_until_s`. False when there is nothing to do.
    pub(crate) async fn roll(&self, step: Step, done_until_s: i64) -> Result<bool, StoreError> {
        either!(self, figures => figures.roll(step, done_until_s).await)
    }

    /// Removes rows of a width from before a second, at most an hour of them. False when none is
    /// left to remove.
    pub(crate) async fn expire(&self, step: Step, before_s: i64) -> Result<bool, StoreError> {
        either!(self, figures => figures.expire(step, before_s).await)
    }

    /// Removes all rows of a width from one second up to another.
    pub(crate) async fn clear(&self, step: Step, from_s: i64, to_s: i64) -> Result<(), StoreError> {
        either!(self, figures => figures.clear(step, from_s, to_s).await)
    }

    /// Forgets names that no row uses any more, and old changes; gives space back.
    pub(crate) async fn tidy(&self, now_s: i64) -> Result<(), StoreError> {
        either!(self, figures => figures.tidy(now_s).await)
    }

    /// Notes what changed with a generation, and that it was looked at.
    pub(crate) async fn mark(
        &self,
        changes: &[(String, LimitChange)],
        notes: [(&str, &str); 2],
    ) -> Result<(), StoreError> {
        either!(self, figures => figures.mark(changes, notes).await)
    }

    /// Makes the disk full for the writer, or not any more.
    #[cfg(test)]
    pub(crate) async fn fill(&self, full: bool) {
        match self {
            Self::Sqlite(figures) => figures.fill(full).await,
            Self::Postgres(_) => unreachable!("the disk is the server's"),
        }
    }
}

/// From which second on a name must have been used to be kept.
fn kept_names_from(kind: Kind, now_s: i64) -> i64 {
    let widest = match kind {
        Kind::Compartment => Step::Hour,
        Kind::Gateway => Step::TenSeconds,
    };
    now_s.saturating_sub(widest.keep_seconds().saturating_add(DAY_S))
}

fn limit(written: Option<i64>) -> Option<compartment::Limit> {
    match written? {
        UNLIMITED => Some(compartment::Limit::UNLIMITED),
        slots => compartment::Limit::new(u32::try_from(slots).ok()?).ok(),
    }
}

fn written(limit: Option<compartment::Limit>) -> Option<i64> {
    limit.map(|limit| limit.slots().map_or(UNLIMITED, i64::from))
}

/// Up to when flushes are forgotten: what they held is older than any row that would be added.
fn flushes_before(now_s: i64) -> String {
    stamp(now_s.saturating_sub(7 * DAY_S))
}

/// A number as a database holds it. What a lying gateway counts beyond that stays at the end.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) use {
    postgres::{
        ALL as ALL_ON_POSTGRES, BY_STEP as BY_STEP_ON_POSTGRES,
        MIGRATIONS as MIGRATIONS_ON_POSTGRES,
    },
    sqlite::MIGRATIONS as MIGRATIONS_ON_SQLITE,
};
