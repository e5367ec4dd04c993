//! Tests that need the connections themselves: what every one of them is set to, and a database
//! that may not grow. Separate for length; no product code.

use sqlx::{Executor as _, Row as _};

use super::*;
use crate::store::NewGeneration;
use crate::store::head::HeadKey;
use crate::store::write::{Append, Outcome};

async fn database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("store.db"))
        .await
        .unwrap();
    (folder, database)
}

fn new(document: String) -> NewGeneration {
    NewGeneration {
        document,
        digest: String::new(),
        author: String::new(),
        comment: String::new(),
        source: "put",
        created_at: String::new(),
        origin: String::new(),
        differences: String::new(),
        request_id: String::new(),
    }
}

async fn append(database: &Database, new: &NewGeneration, seen: u64) -> Result<u64, StoreError> {
    let (new, mut audit) = new.clone().with_audit();
    audit.operation = uuid::Uuid::now_v7().to_string();
    match database
        .transact(&Append { new, seen }, audit, &HeadKey::default())
        .await?
    {
        Outcome::Kept(row) => Ok(row.generation_after),
        Outcome::Not(newest) => unreachable!("{newest}"),
    }
}

#[tokio::test]
async fn every_connection_writes_ahead_and_in_full() {
    let (_folder, database) = database().await;
    for (pool, size) in [(&database.writer, 1), (&database.readers, READERS_MAX)] {
        let mut held = Vec::new();
        for _ in 0..size {
            let mut connection = pool.acquire().await.unwrap();
            for (pragma, want) in [
                ("PRAGMA journal_mode", "wal"),
                ("PRAGMA synchronous", "2"),
                ("PRAGMA foreign_keys", "1"),
                ("PRAGMA busy_timeout", "5000"),
            ] {
                let row = connection.fetch_one(pragma).await.unwrap();
                let text = row.try_get::<i64, _>(0).map(|number| number.to_string());
                let seen = text.unwrap_or_else(|_| row.get(0));
                assert_eq!(seen, want, "{pragma}");
            }
            held.push(connection);
        }
        assert!(pool.try_acquire().is_none(), "these were all");
    }
}

#[tokio::test]
async fn readers_cannot_write() {
    let (_folder, database) = database().await;
    let outcome = database.readers.execute("DELETE FROM generations").await;
    assert!(matches!(
        outcome.map_err(StoreError::from),
        Err(StoreError::ReadOnly)
    ));
}

/// A disk that is full: refused whole, reads go on, and it works again without a restart.
#[tokio::test]
async fn a_full_database_refuses_and_recovers() {
    let (folder, roomy) = database().await;
    let tight = options(&folder.path().join("store.db")).pragma("max_page_count", "64");
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(tight)
        .await
        .unwrap();
    let database = Database {
        is_old: false,
        writer,
        readers: roomy.readers.clone(),
        log: Arc::clone(&roomy.log),
        lock: Arc::clone(&roomy.lock),
    };
    let seen = append(&database, &new("before".to_owned()), 0).await;
    assert_eq!(seen.unwrap(), 1);
    let large = new("x".repeat(4 << 20));
    for number in 1..=3 {
        let outcome = append(&database, &large, number).await;
        assert!(matches!(outcome, Err(StoreError::Full)), "{outcome:?}");
        assert_eq!(
            database.newest_number().await.unwrap(),
            number,
            "reads go on"
        );
        let audit = database.audit(9).await.unwrap().len();
        assert_eq!(
            u64::try_from(audit).unwrap(),
            number,
            "nothing of it was stored"
        );
        let small = append(&database, &new("small".to_owned()), number).await;
        assert_eq!(small.unwrap(), number + 1, "what fits is taken");
    }
    assert_eq!(append(&roomy, &large, 4).await.unwrap(), 5);
}

/// A store of the build before the chain, with a row.
async fn of_before(path: &std::path::Path) {
    const BEFORE: crate::store::open::Schema = crate::store::open::Schema {
        application_id: STORE.application_id,
        migrations: crate::store::open::MIGRATIONS.split_at(7).0,
    };
    make_file(path).unwrap();
    let pool = SqlitePoolOptions::new().connect_with(options(path)).await;
    let pool = pool.unwrap();
    migrate(&pool, path, &BEFORE).await.unwrap();
    pool.execute(
        "INSERT INTO generations (number, document, digest, author, comment, source, created_at) \
         VALUES (1, '{}', '', 'older', '', 'put', 'then'); \
         INSERT INTO audit (at, action, who, origin, generation_before, generation_after, \
         differences, request_id) VALUES ('then', 'put', 'older', '', 0, 1, '[]', '')",
    )
    .await
    .unwrap();
    pool.close().await;
}

/// The start that brings the chain chains what is there, says so, and is the only one that does.
#[tokio::test]
async fn old_rows_are_chained_by_the_start_that_brings_the_chain_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let url = format!("sqlite://{}", path.display());
    of_before(&path).await;
    crate::store::Store::open(&url).await.unwrap().close().await;
    let found = crate::store::verify(&url, None, &[]).await.unwrap();
    assert_eq!(
        (found.rows, found.signature, found.broken),
        (2, "good", None)
    );
    let note = "audit-chained: 1 rows up to 1 had no digest until now";
    assert!(found.notes[0].ends_with(note), "{:?}", found.notes);
    // What is passed off as older than the key beside it is not signed.
    std::fs::remove_file(&path).unwrap();
    of_before(&path).await;
    crate::store::Store::open(&url).await.unwrap().close().await;
    let found = crate::store::verify(&url, None, &[]).await.unwrap();
    let broken = found.broken.unwrap();
    assert_eq!((broken.row, broken.how), (1, crate::store::How::Unchained));
    // Nor is the next store that was emptied taken for a new one.
    let emptied = folder.path().join("emptied.db");
    let url = format!("sqlite://{}", emptied.display());
    of_before(&emptied).await;
    let database = Database::open(&emptied).await.unwrap();
    database
        .writer
        .execute("DROP TRIGGER audit_is_not_deleted; DELETE FROM audit")
        .await
        .unwrap();
    database.close().await;
    crate::store::Store::open(&url).await.unwrap().close().await;
    let found = crate::store::verify(&url, None, &[]).await.unwrap();
    let broken = found.broken.unwrap();
    assert_eq!((broken.row, broken.how), (1, crate::store::How::Head));
}
