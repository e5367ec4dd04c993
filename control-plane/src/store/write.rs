//! The one transaction of everything that is written with an audit row.
//!
//! Separate so that nobody copies it. The rows of a write and its audit row are stored together or
//! not at all, behind all writers before it, under an operation that is asked for when the commit
//! was not answered. It must never answer with a guess.
//!
//! A new kind of write is a type with [`Rows`] for both databases, in `sqlite/` and `postgres/`,
//! with its statements in their `sql.rs`; a method of [`Store`] hands it to [`Store::transact`]
//! with the audit row:
//!
//! ```text
//! pub(in crate::store) struct EndSession { id: String }
//!
//! // sqlite/sessions.rs, and the same for PgConnection in postgres/sessions.rs
//! impl Rows<SqliteConnection> for EndSession {
//!     type No = ();
//!     async fn put(&self, connection: &mut SqliteConnection, audit: &mut AuditRow)
//!         -> Result<Result<(), ()>, StoreError>
//!     {
//!         let ended = sqlx::query(sql::END_SESSION).bind(&self.id).execute(connection).await?;
//!         Ok(if ended.rows_affected() == 0 { Err(()) } else { Ok(()) })
//!     }
//! }
//!
//! // sessions.rs
//! pub async fn end_session(&self, id: String, audit: AuditRow) -> Result<bool, StoreError> {
//!     let done = self.transact(EndSession { id }, audit).await?;
//!     Ok(matches!(done, Outcome::Kept(_)))
//! }
//! ```
//!
//! What the write finds out inside the transaction, such as the number of a new row, it puts into
//! the audit row (`subject`, `differences`): [`Outcome::Kept`] has it as it is stored, also after a
//! lost answer. Small sets that rarely change need no type: see [`Store::put_facts`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sqlx::{PgConnection, SqliteConnection};

use super::{AuditRow, NewGeneration, Store, StoreError};

/// What is written in one transaction beside the audit row.
pub(in crate::store) trait Rows<C>: Send + Sync + 'static {
    /// Why it is not to be: what was asked for does not hold any more.
    type No: Send + 'static;

    /// Writes into a transaction that has the writers' turn: what it reads stays so until the end.
    /// After `Ok(Err(no))` and after an error nothing of it is kept.
    fn put(
        &self,
        connection: &mut C,
        audit: &mut AuditRow,
    ) -> impl Future<Output = Result<Result<(), Self::No>, StoreError>> + Send;
}

/// What became of a write with an audit row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Outcome<N> {
    /// It is on disk, with this row.
    Kept(Box<AuditRow>),
    /// Nothing was written.
    Not(N),
}

/// A generation after the newest one that its writer saw.
#[derive(Debug)]
pub(in crate::store) struct Append {
    pub(in crate::store) new: NewGeneration,
    pub(in crate::store) seen: u64,
}

/// Small facts, all of them or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Name and value; without a value the fact is taken away.
    pub put: Vec<(String, Option<String>)>,
    /// Written only if each of these is so, with `None` for one that is not there.
    pub only_if: Vec<(String, Option<String>)>,
}

impl Facts {
    /// One fact.
    pub fn one(name: String, value: Option<String>) -> Self {
        Self {
            put: vec![(name, value)],
            only_if: Vec::new(),
        }
    }
}

impl Store {
    /// Writes rows and their audit row where nobody can cancel it.
    pub(in crate::store) async fn transact<W, N>(
        &self,
        rows: W,
        audit: AuditRow,
    ) -> Result<Outcome<N>, StoreError>
    where
        W: Rows<SqliteConnection, No = N> + Rows<PgConnection, No = N>,
        N: Send + 'static,
    {
        if self.writes.is_closed() {
            return Err(StoreError::Closed);
        }
        let (database, changed) = (self.database.clone(), Arc::clone(&self.changed));
        let (size, key) = (Arc::clone(&self.size_bytes), self.head_key.clone());
        let mut audit = audit.storable();
        audit.operation = uuid::Uuid::now_v7().to_string();
        let write = self.writes.spawn(async move {
            let outcome = database.transact(&rows, audit, &key).await;
            if matches!(
                outcome,
                Ok(Outcome::Kept(_)) | Err(StoreError::Unknown { .. })
            ) {
                changed.notify_one();
            }
            outcome
        });
        let outcome = write.await.map_err(|_| StoreError::Closed)?;
        if matches!(outcome, Ok(Outcome::Kept(_))) {
            // Nobody waits for it.
            let database = self.database.clone();
            self.writes.spawn(async move {
                if let Ok(bytes) = database.size_bytes().await {
                    size.store(bytes, Ordering::Relaxed);
                }
            });
        }
        outcome
    }

    /// Writes small facts with their audit row; `false`, and nothing is written: one of
    /// `only_if` is otherwise.
    pub async fn put_facts(&self, facts: Facts, audit: AuditRow) -> Result<bool, StoreError> {
        let outcome: Outcome<()> = self.transact(facts, audit).await?;
        Ok(matches!(outcome, Outcome::Kept(_)))
    }
}
