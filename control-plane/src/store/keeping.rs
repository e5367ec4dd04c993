//! What is done to a store while no control plane runs: bring its tables up to date, copy it, put
//! a copy in its place.
//!
//! Separate because commands do it, not the server. It must never make a store where none was,
//! but by migrating.

use std::path::Path;

use super::database::Database;
use super::figures::Figures;
use super::{Address, AuditRow, Backup, Restored, StoreError, chaining, history_of, sqlite};
use crate::clock;
use wire::Secret;

/// The tables of a store before and after, by their newest migration; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// `policy` or `history`.
    pub what: &'static str,
    /// Before.
    pub from: i64,
    /// What this build needs.
    pub to: i64,
}

/// Brings the tables of store and history to what this build needs; with `check`, only looks.
/// What is there of the audit is chained with `audit_key`, as a start does.
pub async fn migrate(
    url: &str,
    audit_key: Option<Secret>,
    check: bool,
) -> Result<[Migrated; 2], StoreError> {
    let (policy, history) = (Address::parse(url)?, history_of(url)?);
    let (from, to) = Database::migrations(&policy).await?;
    let of_policy = Migrated {
        what: "policy",
        from,
        to,
    };
    let (from, to) = Figures::migrations(&history).await?;
    let of_history = Migrated {
        what: "history",
        from,
        to,
    };
    if !check {
        let (store, _) = chaining::open(&policy, audit_key).await?;
        store.close().await;
        Figures::open(&history).await?.close().await;
    }
    Ok([of_policy, of_history])
}

/// Copies a SQLite store to a file, also while a control plane runs on it.
pub async fn backup(url: &str, to: &Path) -> Result<Backup, StoreError> {
    sqlite::backup(&file(url, "pg_dump")?, to).await
}

/// Puts a copy in the place of a SQLite store that nobody uses.
/// The head of its audit is signed with `audit_key`, else with the one beside the store.
pub async fn restore(
    url: &str,
    from: &Path,
    audit_key: Option<Secret>,
) -> Result<Restored, StoreError> {
    let path = file(url, "pg_restore")?;
    sqlite::restore(&path, from, &clock::utc(), audit_key).await
}

/// What makes a restored store noticed, beside its lower numbers: it keeps its name, so that
/// gateways that run a higher one hold it back until somebody says otherwise.
#[derive(Debug)]
pub(super) struct Note {
    /// When and where it came from.
    pub(super) fact: (&'static str, String),
    pub(super) audit: AuditRow,
}

pub(super) fn restored_note(newest: u64, at: &str, from: &str) -> Note {
    let note = serde_json::json!({
        "at": at,
        "generation": newest,
        "from": from,
    });
    let audit = AuditRow {
        at: at.to_owned(),
        action: "restore-backup".to_owned(),
        subject: "store".to_owned(),
        who: "bulkhead".to_owned(),
        differences: note.to_string(),
        ..AuditRow::default()
    };
    Note {
        fact: ("restored", note.to_string()),
        audit,
    }
}

fn file(url: &str, tool: &str) -> Result<std::path::PathBuf, StoreError> {
    match Address::parse(url)? {
        Address::Sqlite(path) => Ok(path),
        Address::Postgres(server) => Err(StoreError::Url {
            url: server.name.to_string(),
            rule: format!("this is for SQLite; for Postgres there is {tool} (see the README)"),
        }),
    }
}
