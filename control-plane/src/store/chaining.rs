//! What a start does about the audit: rows from before the chain are chained, once, and what is not
//! as it was left is told.
//!
//! Separate because it decides which rows without a digest are believed. Only the process that ran
//! the migration which brought the chain may chain what it found; any later one must never, or
//! whoever empties all digests would have the rest signed.

use std::time::Duration;

use super::database::Database;
use super::head::{ANOTHER, CHAINED, COMPLAINT, GUARDED, HEAD, HeadKey, about, chained};
use super::write::Outcome;
use super::{Address, Facts, StoreError, head_key, sqlite};
use crate::clock;
use wire::Secret;

/// How long another process is waited for that has just run the migration and chains.
const CHAINING_MAX: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the store at `address` and looks after its audit.
pub(super) async fn open(
    address: &Address,
    given: Option<Secret>,
) -> Result<(Database, HeadKey), StoreError> {
    // A key beside the file was made after the chain: its rows cannot be from before.
    let had_key = matches!(address, Address::Sqlite(path) if sqlite::has_key(path));
    let database = Database::open(address).await?;
    let key = head_key(address, given, true)?;
    if database.is_old() && !had_key {
        chain(&database, &key).await?;
    }
    look(&database, &key).await?;
    guard(&database, &key).await?;
    Ok((database, key))
}

async fn chain(database: &Database, key: &HeadKey) -> Result<(), StoreError> {
    let rows = database.chain(key).await?;
    if rows == 0 {
        return Ok(());
    }
    let (last, ..) = database.ends().await?;
    let told = chained(rows, last.id, &clock::utc());
    let _done: Outcome<()> = database.transact(&Facts::default(), told, key).await?;
    Ok(())
}

/// Tells what is wrong with the end of the audit, in a row of its own.
async fn look(database: &Database, key: &HeadKey) -> Result<(), StoreError> {
    let waited = tokio::time::timeout(CHAINING_MAX, async {
        loop {
            let ends = database.ends().await?;
            let (last, _, head) = &ends;
            if last.id == 0 || !last.digest.is_empty() || head.is_some() {
                return Ok::<_, StoreError>(ends);
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    let (last, before, head) = match waited.await {
        Ok(ends) => ends?,
        Err(_) => database.ends().await?,
    };
    let at = clock::utc();
    let is_bare = last.id > 0 && last.digest.is_empty();
    let told = if is_bare && key.goes_on(head.as_deref(), &before) {
        about(CHAINED, "", &serde_json::Value::Null, &at)
    } else if last.id == 0 && head.is_none() {
        let newest = database.newest_number().await?;
        if newest == 0 {
            return Ok(());
        }
        let reason = "the audit was empty and there were generations";
        tracing::error!("{reason}");
        let differences = serde_json::json!({"generation": newest});
        about(COMPLAINT, reason, &differences, &at)
    } else {
        let Some(told) = key.next(last, head.as_deref(), &at).complaint else {
            return Ok(());
        };
        if told.comment == ANOTHER {
            // Told by the first row of this key: a copy that is looked at needs none.
            return Ok(());
        }
        told
    };
    // Where somebody wrote meanwhile, that row told it.
    let facts = Facts {
        put: Vec::new(),
        only_if: vec![(HEAD.to_owned(), head)],
    };
    let _done: Outcome<()> = database.transact(&facts, told, key).await?;
    Ok(())
}

/// Makes the triggers anew that refuse changes of the audit.
async fn guard(database: &Database, key: &HeadKey) -> Result<(), StoreError> {
    let missing = database.unguarded().await?;
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(", ");
    tracing::error!(triggers = names, "the audit was not protected by its table");
    if let Err(error) = database.guard(&missing).await {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            triggers = names,
            "the audit is not protected by its table: verify says so"
        );
        return Ok(());
    }
    let comment = format!("missing, and made anew: {names}");
    let differences = serde_json::json!({"triggers": missing});
    let told = about(GUARDED, &comment, &differences, &clock::utc());
    let _done: Outcome<()> = database.transact(&Facts::default(), told, key).await?;
    Ok(())
}
