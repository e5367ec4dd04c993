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
