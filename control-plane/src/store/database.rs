//! The one place where it is decided which database does the work.
//!
//! Separate so that nothing above it can ask: both have the same methods, and the compiler holds
//! them to that. It must never do anything but pass on.

use sqlx::{PgConnection, SqliteConnection};

use super::audit::Last;
use super::head::HeadKey;
use super::retention::Old;
use super::write::{Outcome, Rows};
use super::{
    Address, AlertFilter, AlertRow, AuditEntry, AuditFilter, AuditRow, ChangeFilter, ChangeRow,
    DrillRow, First, Generation, Named, PersonRow, ScheduledRow, StoreError, Stored, open,
    postgres, sqlite,
};

/// Where the policy's store is.
#[derive(Clone, Debug)]
pub(super) enum Database {
    Sqlite(sqlite::Database),
    Postgres(postgres::Database),
}

macro_rules! either {
    ($self:ident, $database:ident => $call:expr) => {
        match $self {
            Self::Sqlite($database) => $call,
            Self::Postgres($database) => $call,
        }
    };
}

impl Database {
    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        Ok(match address {
            Address::Sqlite(path) => Self::Sqlite(sqlite::Database::open(path).await?),
            Address::Postgres(server) => Self::Postgres(postgres::Database::open(server).await?),
        })
    }

    /// Whether this opening brought the chain to a store that was there without one.
    pub(super) fn is_old(&self) -> bool {
        either!(self, database => database.is_old)
    }

    /// The last row, the last one with a digest, and the head.
    pub(super) async fn ends(&self) -> Result<(Last, Last, Option<String>), StoreError> {
        either!(self, database => database.ends().await)
    }

    pub(super) async fn unguarded(&self) -> Result<Vec<&'static str>, StoreError> {
        either!(self, database => database.unguarded().await)
    }

    pub(super) async fn guard(&self, names: &[&'static str]) -> Result<(), StoreError> {
        either!(self, database => database.guard(names).await)
    }

    /// The newest migration there, and of this build.
    pub(super) async fn migrations(address: &Address) -> Result<(i64, i64), StoreError> {
        match address {
            Address::Sqlite(path) => open::migrations(path, &open::STORE).await,
            Address::Postgres(server) => {
                postgres::open::migrations(server, &postgres::open::STORE).await
            }
        }
    }

    pub(super) async fn epoch(&self) -> Result<String, StoreError> {
        either!(self, database => database.epoch().await)
    }

    pub(super) async fn size_bytes(&self) -> Result<u64, StoreError> {
        either!(self, database => database.size_bytes().await)
    }

    pub(super) async fn newest_number(&self) -> Result<u64, StoreError> {
        either!(self, database => database.newest_number().await)
    }

    pub(super) async fn newest_before(&self, before: u64) -> Result<u64, StoreError> {
        either!(self, database => database.newest_before(before).await)
    }

    pub(super) async fn change(&self, number: u64) -> Result<Option<ChangeRow>, StoreError> {
        either!(self, database => database.change(number).await)
    }

    pub(super) async fn changes(
        &self,
        filter: &ChangeFilter,
        count: u32,
    ) -> Result<Vec<ChangeRow>, StoreError> {
        either!(self, database => database.changes(filter, count).await)
    }

    pub(super) async fn changes_at_work(&self) -> Result<Vec<ChangeRow>, StoreError> {
        either!(self, database => database.changes_at_work().await)
    }

    pub(super) async fn change_document(&self, number: u64) -> Result<Option<String>, StoreError> {
        either!(self, database => database.change_document(number).await)
    }

    pub(super) async fn generation(&self, number: u64) -> Result<Option<Stored>, StoreError> {
        either!(self, database => database.generation(number).await)
    }

    pub(super) async fn forget_documents(&self, old: &Old) -> Result<u64, StoreError> {
        either!(self, database => database.forget_documents(old).await)
    }

    pub(super) async fn generations(
        &self,
        before: Option<u64>,
        count: u32,
    ) -> Result<Vec<Generation>, StoreError> {
        either!(self, database => database.generations(before, count).await)
    }

    pub(super) async fn audit(&self, count: u32) -> Result<Vec<AuditRow>, StoreError> {
        either!(self, database => database.audit(count).await)
    }

    pub(super) async fn audit_page(
        &self,
        filter: &AuditFilter,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        either!(self, database => database.audit_page(filter, count).await)
    }

    pub(super) async fn operation(&self, operation: &str) -> Result<Option<AuditRow>, StoreError> {
        either!(self, database => database.operation(operation).await)
    }

    pub(super) async fn transact<W, N>(
        &self,
        rows: &W,
        audit: AuditRow,
        key: &HeadKey,
    ) -> Result<Outcome<N>, StoreError>
    where
        W: Rows<SqliteConnection, No = N> + Rows<PgConnection, No = N>,
    {
        either!(self, database => database.transact(rows, audit, key).await)
    }

    pub(super) async fn chain(&self, key: &HeadKey) -> Result<u64, StoreError> {
        either!(self, database => database.chain(key).await)
    }

    pub(super) async fn meta(&self, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
        either!(self, database => database.meta(prefix).await)
    }

    pub(super) async fn put_meta(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        either!(self, database => database.put_meta(name, value).await)
    }

    pub(super) async fn put_alerts(&self, rows: &[AlertRow]) -> Result<(), StoreError> {
        either!(self, database => database.put_alerts(rows).await)
    }

    pub(super) async fn alerts_since(
        &self,
        since_ms: i64,
    ) -> Result<(Vec<String>, u64), StoreError> {
        either!(self, database => database.alerts_since(since_ms).await)
    }

    pub(super) async fn alerts(
        &self,
        filter: &AlertFilter,
        count: u32,
    ) -> Result<Vec<String>, StoreError> {
        either!(self, database => database.alerts(filter, count).await)
    }

    pub(super) async fn put_alert_windows(&self, body: &str) -> Result<(), StoreError> {
        either!(self, database => database.put_alert_windows(body).await)
    }

    pub(super) async fn alert_windows(&self) -> Result<Option<String>, StoreError> {
        either!(self, database => database.alert_windows().await)
    }

    pub(super) async fn begin_named(&self, named: &Named) -> Result<Option<First>, StoreError> {
        either!(self, database => database.begin_named(named).await)
    }

    pub(super) async fn end_named(
        &self,
        named: &Named,
        answer: Option<&str>,
    ) -> Result<(), StoreError> {
        either!(self, database => database.end_named(named, answer).await)
    }

    pub(super) async fn put_drill(&self, row: &DrillRow) -> Result<(), StoreError> {
        either!(self, database => database.put_drill(row).await)
    }

    pub(super) async fn drill(&self, id: &str) -> Result<Option<String>, StoreError> {
        either!(self, database => database.drill(id).await)
    }

    pub(super) async fn drills(&self) -> Result<Vec<String>, StoreError> {
        either!(self, database => database.drills().await)
    }

    pub(super) async fn scheduled(
        &self,
        open: i64,
        ids: (i64, i64),
        most: i64,
    ) -> Result<Vec<ScheduledRow>, StoreError> {
        either!(self, database => database.scheduled(open, ids, most).await)
    }

    pub(super) async fn people(&self) -> Result<Vec<PersonRow>, StoreError> {
        either!(self, database => database.people().await)
    }

    pub(super) async fn person(
        &self,
        kind: &str,
        id: &str,
    ) -> Result<Option<PersonRow>, StoreError> {
        either!(self, database => database.person(kind, id).await)
    }

    pub(super) async fn used_person(
        &self,
        kind: &str,
        id: &str,
        used_ms: i64,
    ) -> Result<(), StoreError> {
        either!(self, database => database.used_person(kind, id, used_ms).await)
    }

    pub(super) async fn close(&self) {
        either!(self, database => database.close().await);
    }
}

/// The audit at one moment, wherever it is.
#[derive(Debug)]
pub(super) enum Snapshot {
    Sqlite(sqlite::Snapshot),
    Postgres(postgres::Snapshot),
}

impl Snapshot {
    pub(super) async fn migration(address: &Address) -> Result<i64, StoreError> {
        match address {
            Address::Sqlite(path) => sqlite::Snapshot::migration(path).await,
            Address::Postgres(server) => postgres::Snapshot::migration(server).await,
        }
    }

    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        Ok(match address {
            Address::Sqlite(path) => Self::Sqlite(sqlite::Snapshot::open(path).await?),
            Address::Postgres(server) => Self::Postgres(postgres::Snapshot::open(server).await?),
        })
    }

    pub(super) async fn after(
        &mut self,
        id: u64,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        either!(self, snapshot => snapshot.after(id, count).await)
    }

    pub(super) async fn head(&mut self) -> Result<Option<String>, StoreError> {
        either!(self, snapshot => snapshot.head().await)
    }

    pub(super) async fn unguarded(&mut self) -> Result<Vec<&'static str>, StoreError> {
        either!(self, snapshot => snapshot.unguarded().await)
    }

    pub(super) async fn close(self) {
        either!(self, snapshot => snapshot.close().await);
    }
}
