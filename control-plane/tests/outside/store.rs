//! The store as files: what survives, what is refused untouched, what a locked one does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::contract::new;
use crate::support::{Plane, config, policy, policy_file};
use control_plane::store::{Store, StoreError, Written};
use control_plane::{Config, StartError};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, Row as _};

pub(super) async fn raw(path: &Path) -> sqlx::SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    sqlx::SqliteConnection::connect_with(&options)
        .await
        .unwrap()
}

async fn fresh() -> (tempfile::TempDir, Store, String) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/deep/er/store.db", folder.path().display());
    let store = Store::open(&url).await.unwrap();
    (folder, store, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_read_it() {
    let (folder, _store, _) = fresh().await;
    let mode = |path: &str| {
        let path = folder.path().join(path);
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("deep/er"), mode("deep/er/store.db")), (0o700, 0o600));
    assert_eq!(mode("deep/er/store.db-wal"), 0o600);
}

fn start(folder: tempfile::TempDir) -> Result<Plane, StartError> {
    let config = config(folder.path());
    Plane::start_with(folder, config)
}

/// The error of a start on these bytes, and whether the file is as it was.
fn refused(bytes: &[u8]) -> (String, bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    std::fs::write(&path, bytes).unwrap();
    let config = config(folder.path());
    let error = match control_plane::start(config) {
        Ok(_) => unreachable!("it started"),
        Err(error) => error,
    };
    (error.to_string(), std::fs::read(&path).unwrap() == bytes)
}

#[test]
fn damaged_files_are_refused_and_left_alone() {
    let plane = Plane::start();
    for n in 0..40 {
        plane.patch("route/a", &json!({"limit": 3 + n}));
    }
    let path = plane.store();
    let folder = {
        let Plane {
            running, folder, ..
        } = plane;
        drop(running);
        folder
    };
    let good = std::fs::read(&path).unwrap();
    drop(folder);
    assert!(good.len() > 4 * 4096, "{}", good.len());
    let mut flipped = good.clone();
    flipped[4096..4096 + 64].fill(0xa5);
    let cut = &good[..good.len() - 5000];
    for (bytes, what) in [
        (
            b"this is no database, but long enough to look at"
                .repeat(40)
                .as_slice(),
            "text",
        ),
        (flipped.as_slice(), "flipped bits"),
        (cut, "cut off"),
    ] {
        let (error, same) = refused(bytes);
        assert!(same, "{what} was changed");
        assert!(
            error.contains("damaged") && error.contains("store.db"),
            "{what}: {error}"
        );
        assert!(!error.contains('\n'), "{what}: one line");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn newer_and_foreign_databases_are_refused_and_left_alone() {
    let (folder, store, url) = fresh().await;
    store.append(new("kept"), 0).await.unwrap();
    store.close().await;
    let path = Path::new(url.strip_prefix("sqlite://").unwrap()).to_owned();
    let mut connection = raw(&path).await;
    let sql = "INSERT INTO _sqlx_migrations \
               (version, description, success, checksum, execution_time) \
               VALUES (999, 'later', TRUE, x'00', 1)";
    connection.execute(sql).await.unwrap();
    connection.close().await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(&url).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Newer { found: 999, .. }),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let other = folder.path().join("other.db");
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&other);
    let options = options.create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options)
        .await
        .unwrap();
    connection
        .execute("CREATE TABLE songs (title TEXT)")
        .await
        .unwrap();
    connection.close().await.unwrap();
    let before = std::fs::read(&other).unwrap();
    let error = Store::open(&format!("sqlite://{}", other.display()))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(std::fs::read(&other).unwrap(), before);
}

#[test]
fn a_folder_that_cannot_be_made_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), b"").unwrap();
    let url = format!("sqlite://{}/file/store.db", folder.path().display());
    let config = Config {
        database_url: url.into(),
        ..config(folder.path())
    };
    let error = control_plane::start(config).err().unwrap().to_string();
    assert!(
        error.contains("cannot open the store") && error.contains("file/store.db"),
        "{error}"
    );
}

#[test]
fn a_busy_port_is_told_before_the_store_is_touched() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dashboard = taken.local_addr().unwrap();
    let config = Config {
        dashboard,
        ..config(folder.path())
    };
    let error = control_plane::start(config).err().unwrap();
    assert!(matches!(error, StartError::Bind { .. }), "{error}");
    assert!(error.to_string().contains(&dashboard.to_string()));
    assert!(!folder.path().join("store.db").exists());
}

#[test]
fn a_file_is_imported_once() {
    let plane = Plane::start();
    assert_eq!(plane.patch("route/a", &json!({"limit": 7})).status, 200);
    let (stored, version) = plane.policy();
    let Plane {
        running, folder, ..
    } = plane;
    drop(running);
    let import = Some(policy_file(folder.path(), &policy()));
    let config = Config {
        import,
        ..config(folder.path())
    };
    let plane = Plane::start_with(folder, config).unwrap();
    assert_eq!(
        plane.policy(),
        (stored, version),
        "the store wins over the file"
    );
    assert_eq!(plane.restart().generation(), 2);
}

#[test]
fn a_bad_file_is_refused_with_every_line_and_nothing_stored() {
    let folder = tempfile::tempdir().unwrap();
    let mut bad = policy();
    bad["routes"][0]["compartment"]["limit"] = json!(-1);
    bad["routes"][1]["nonsense"] = Value::Null;
    let import = Some(policy_file(folder.path(), &bad));
    let with_file = Config {
        import,
        ..config(folder.path())
    };
    let error = control_plane::start(with_file).err().unwrap().to_string();
    assert!(error.contains("routes[0].compartment.limit"), "{error}");
    assert!(error.contains("nonsense"), "{error}");
    let plane = start(folder).unwrap();
    assert_eq!(
        plane.policy().0,
        json!({"schema": 1}),
        "the store was still empty"
    );
}

/// Another process holds the write lock: reads go on, a short lock is waited for, a long one is
/// told to the caller.
#[test]
fn a_locked_store_is_waited_for_and_then_told() {
    let plane = Plane::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut lock = runtime.block_on(raw(&plane.store()));
    runtime.block_on(lock.execute("BEGIN EXCLUSIVE")).unwrap();
    let answer = std::thread::scope(|scope| {
        let patch = scope.spawn(|| plane.patch("route/a", &json!({"limit": 7})));
        assert_eq!(plane.api("GET", "/policy", None).status, 200, "reads go on");
        assert_eq!(plane.api("GET", "/generations", None).status, 200);
        patch.join().unwrap()
    });
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(plane.generation(), 1);
    let answer = std::thread::scope(|scope| {
        let patch = scope.spawn(|| plane.patch("route/a", &json!({"limit": 7})));
        assert_eq!(plane.api("GET", "/policy", None).status, 200);
        runtime.block_on(lock.execute("ROLLBACK")).unwrap();
        patch.join().unwrap()
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// A start needs no write lock: another process may hold it for long.
#[tokio::test(flavor = "multi_thread")]
async fn a_locked_store_opens() {
    let (_folder, store, url) = fresh().await;
    store.append(new("before"), 0).await.unwrap();
    let mut lock = raw(Path::new(url.strip_prefix("sqlite://").unwrap())).await;
    lock.execute("BEGIN IMMEDIATE").await.unwrap();
    let second = Store::open(&url).await.unwrap();
    assert_eq!(second.newest_number().await.unwrap(), 1);
    assert!(matches!(
        second.append(new("locked out"), 1).await,
        Err(StoreError::Busy)
    ));
    lock.execute("ROLLBACK").await.unwrap();
    let written = second.append(new("after"), 1).await.unwrap();
    assert_eq!(written, Written::Stored(2));
}

/// Another process writes: what it stored is published without anybody telling us.
#[test]
fn a_write_of_another_process_is_seen() {
    let plane = Plane::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut other = raw(&plane.store()).await;
        let sql = "INSERT INTO generations SELECT 2, 'other', author, comment, source, created_at, \
                   replace(document, '\"limit\":3', '\"limit\":33') FROM generations";
        other.execute(sql).await.unwrap();
        let row = other
            .fetch_one("SELECT COUNT(*) FROM generations")
            .await
            .unwrap();
        assert_eq!(row.get::<i64, _>(0), 2);
    });
    assert_eq!(
        plane.policy().0["routes"][1]["compartment"]["limit"],
        json!(33)
    );
    assert_eq!(
        plane.patch("route/a", &json!({"limit": 7})).json()["generation"],
        json!(3)
    );
}
