//! Copies of a store, the way back from one, and tables brought up to date without a start.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use control_plane::store::{self, Migrated, Store, StoreError, Written};
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::contract::new;
use crate::store::raw;
use crate::support::{Plane, config, postgres};

fn url(path: &Path) -> String {
    format!("sqlite://{}", path.display())
}

/// What lies in a folder, but for locks.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.ends_with("-lock")).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_taken_while_writers_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&url(&path)).await.unwrap();
    store.append(new("first"), 0).await.unwrap();
    let writing = async {
        for seen in 1..60 {
            store.append(new("more"), seen).await.unwrap();
        }
    };
    let copy = folder.path().join("copy.db");
    let copying = async {
        let mut copies = Vec::new();
        for _ in 0..5 {
            copies.push(store::backup(&url(&path), &copy).await.unwrap());
        }
        copies
    };
    let ((), copies) = tokio::join!(writing, copying);
    for made in &copies {
        assert_eq!(made.generations, made.newest, "whole: {made:?}");
        assert_eq!(made.epoch, store.epoch());
    }
    let last = copies.last().unwrap();
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let opened = Store::open(&url(&copy)).await.unwrap();
    assert_eq!(opened.newest_number().await.unwrap(), last.newest);
    let rows = opened.audit(100).await.unwrap().len();
    assert_eq!(u64::try_from(rows).unwrap(), last.newest);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_overwrites_nothing_but_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&url(&path)).await.unwrap();
    store.append(new("first"), 0).await.unwrap();
    let letter = folder.path().join("letter.txt");
    std::fs::write(&letter, b"dear reader, this is no database").unwrap();
    let link = folder.path().join("link.db");
    std::fs::hard_link(&path, &link).unwrap();
    let before = files(folder.path());
    for to in [&letter, &path, &link] {
        let error = store::backup(&url(&path), to).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(to.file_name().unwrap().to_str().unwrap()),
            "{text}"
        );
    }
    let letter = std::fs::read(&letter).unwrap();
    assert_eq!(letter, b"dear reader, this is no database");
    assert_eq!(files(folder.path()), before, "nothing is left behind");
    let none = folder.path().join("none.db");
    let error = store::backup(&url(&none), &folder.path().join("x.db")).await;
    assert!(matches!(error, Err(StoreError::Open { .. })), "{error:?}");
    assert!(!none.exists(), "no store is made by copying one");
}

/// Back to an older copy: the store keeps its name, so that gateways which run a higher number
/// notice, says where it came from, and what was there is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_is_noticed_and_the_old_one_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let copy = folder.path().join("copy.db");
    let store = Store::open(&url(&path)).await.unwrap();
    store.append(new("kept"), 0).await.unwrap();
    store::backup(&url(&path), &copy).await.unwrap();
    store.append(new("lost"), 1).await.unwrap();
    let held = store::restore(&url(&path), &copy, None).await.unwrap_err();
    assert!(matches!(held, StoreError::Held { .. }), "{held}");
    assert_eq!(
        store.newest_number().await.unwrap(),
        2,
        "in use and untouched"
    );
    let epoch = store.epoch().to_owned();
    store.close().await;
    let restored = store::restore(&url(&path), &copy, None).await.unwrap();
    assert_eq!(restored.newest, 1);
    let again = Store::open(&url(&path)).await.unwrap();
    assert_eq!((again.epoch(), restored.epoch.as_str()), (&*epoch, &*epoch));
    let audit = again.audit(9).await.unwrap();
    assert_eq!(
        (audit.len(), audit[0].action.as_str()),
        (2, "restore-backup")
    );
    let note: Value = serde_json::from_str(&again.meta("restored").await.unwrap()[0].1).unwrap();
    assert_eq!(note["generation"], json!(1));
    assert!(
        note["from"].as_str().unwrap().ends_with("copy.db"),
        "{note}"
    );
    assert_eq!(
        again.append(new("on"), 1).await.unwrap(),
        Written::Stored(2)
    );
    let kept = Store::open(&url(&restored.kept.unwrap())).await.unwrap();
    assert_eq!(kept.newest_number().await.unwrap(), 2);
    assert_eq!(kept.epoch(), epoch);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// What cannot be a copy leaves the store as it is; a store that is damaged is replaced and kept.
#[tokio::test(flavor = "multi_thread")]
async fn only_a_whole_copy_takes_the_place_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = Store::open(&url(&path)).await.unwrap();
    let text = "x".repeat(40_000);
    store.append(new(&text), 0).await.unwrap();
    store.close().await;
    let copy = folder.path().join("copy.db");
    store::backup(&url(&path), &copy).await.unwrap();
    let good = std::fs::read(&copy).unwrap();
    let mut flipped = good.clone();
    flipped[4_096..4_160].fill(0xa5);
    let bad = folder.path().join("bad.db");
    let before = std::fs::read(&path).unwrap();
    for bytes in [&flipped[..], &good[..good.len() - 5_000], b"", b"nonsense"] {
        std::fs::write(&bad, bytes).unwrap();
        let error = store::restore(&url(&path), &bad, None).await;
        assert!(error.is_err(), "{} bytes", bytes.len());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    std::fs::write(&bad, &good).unwrap();
    let mut connection = raw(&bad).await;
    let newer = "INSERT INTO _sqlx_migrations \
                 (version, description, success, checksum, execution_time) \
                 VALUES (999, 'later', TRUE, x'00', 1)";
    connection.execute(newer).await.unwrap();
    sqlx::Connection::close(connection).await.unwrap();
    let error = store::restore(&url(&path), &bad, None).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // The store is lost: what is left of it is kept beside the copy that takes its place.
    std::fs::write(&path, &flipped).unwrap();
    assert!(Store::open(&url(&path)).await.is_err());
    let restored = store::restore(&url(&path), &copy, None).await.unwrap();
    assert_eq!(std::fs::read(restored.kept.unwrap()).unwrap(), flipped);
    let opened = Store::open(&url(&path)).await.unwrap();
    assert_eq!(opened.newest_number().await.unwrap(), 1);
}

/// Written ahead by a process that was killed: folded in before the copy comes, never into it.
#[test]
fn what_a_dead_process_wrote_ahead_goes_with_the_old_store() {
    let plane = Plane::start();
    let copy = plane.folder.path().join("copy.db");
    let path = plane.store();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store::backup(&url(&path), &copy)).unwrap();
    plane.patch("route/a", &json!({"limit": 77}));
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    let (ahead, file) = (std::fs::read(&wal).unwrap(), std::fs::read(&path).unwrap());
    assert!(!ahead.is_empty());
    let Plane {
        running, folder, ..
    } = plane;
    drop(running);
    // As it was when the process still ran.
    std::fs::write(&path, file).unwrap();
    std::fs::write(&wal, ahead).unwrap();
    let restored = runtime
        .block_on(store::restore(&url(&path), &copy, None))
        .unwrap();
    assert!(!wal.exists());
    let config = config(folder.path());
    let plane = Plane::start_with(folder, config).unwrap();
    assert_eq!(plane.generation(), 1);
    assert_eq!(
        plane.policy().0["routes"][0]["compartment"]["limit"],
        json!(2)
    );
    let kept = runtime
        .block_on(Store::open(&url(&restored.kept.unwrap())))
        .unwrap();
    assert_eq!(runtime.block_on(kept.newest_number()).unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_brought_up_to_date_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let database = postgres::Database::new().await;
    let mut places = vec![url(&folder.path().join("store.db"))];
    places.extend(database.as_ref().map(|database| database.url.clone()));
    for url in &places {
        let ends = async |check| {
            let tables = store::migrate(url, None, check).await.unwrap();
            tables.map(|Migrated { from, to, .. }| (from, to))
        };
        let [(0, policy @ 3..), (0, history @ 1..)] = ends(true).await else {
            unreachable!("nothing is there yet");
        };
        assert_eq!(
            ends(true).await,
            [(0, policy), (0, history)],
            "only looked at"
        );
        assert_eq!(ends(false).await, [(0, policy), (0, history)]);
        assert_eq!(ends(true).await, [(policy, policy), (history, history)]);
        assert_eq!(ends(false).await, [(policy, policy), (history, history)]);
        let store = Store::open(url).await.unwrap();
        store.append(new("one"), 0).await.unwrap();
    }
    if let Some(database) = &database {
        let error = store::backup(&database.url, &folder.path().join("copy.db")).await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("pg_dump"), "{text}");
    }
}
