//! A copy of the file that can be taken while it is in use, and the way back.
//!
//! Separate because both look at the store from outside: no process of ours need run. A copy is
//! whole or not there. It must never overwrite what is not a store, nor a store that somebody uses.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};
use wire::Secret;

use super::{BUSY_MAX, Database, number, sql};
use crate::store::head::{HeadKey, chained};
use crate::store::open::{STORE, applied, classify, inspect, make_file};
use crate::store::{AuditRow, Facts, StoreError, restored_note};

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// How many generations.
    pub generations: u64,
    /// The newest one.
    pub newest: u64,
    /// The store that it is of.
    pub epoch: String,
}

/// What a restored store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The newest generation.
    pub newest: u64,
    /// The store's name.
    pub epoch: String,
    /// Where the store that was there is now.
    pub kept: Option<PathBuf>,
}

/// Copies the store at `path` to the file `to`, which may be an older copy.
pub(in crate::store) async fn backup(path: &Path, to: &Path) -> Result<Backup, StoreError> {
    must_be_a_store(path).await?;
    if let (Ok(one), Ok(other)) = (std::fs::metadata(path), std::fs::metadata(to)) {
        if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
            return Err(failed(to)(std::io::Error::other(
                "that is the store itself",
            )));
        }
        // An older copy may be replaced, and nothing else.
        inspect(to, &STORE).await?;
    }
    let part = beside(to, &format!("part-{}", std::process::id()));
    let copied = async {
        let backup = copy(path, &part).await?;
        std::fs::rename(&part, to).map_err(failed(to))?;
        sync_folder(to)?;
        Ok(backup)
    };
    let copied = copied.await;
    if copied.is_err() {
        remove(&part);
    }
    copied
}

/// Puts a copy in the place of the store at `path`. It says so, and keeps its name.
pub(in crate::store) async fn restore(
    path: &Path,
    from: &Path,
    at: &str,
    key: Option<Secret>,
) -> Result<Restored, StoreError> {
    must_be_a_store(from).await?;
    let _lock = Lock::alone(path)?;
    let part = beside(path, &format!("part-{}", std::process::id()));
    let restored = async {
        copy(from, &part).await?;
        let key = match key {
            Some(key) => HeadKey::new(Some(key)),
            None => head_key(path, true)?,
        };
        let (newest, epoch) = note(&part, from, at, &key).await?;
        let kept = put_aside(path, at).await?;
        std::fs::rename(&part, path).map_err(failed(path))?;
        sync_folder(path)?;
        Ok(Restored {
            newest,
            epoch,
            kept,
        })
    };
    let restored = restored.await;
    if restored.is_err() {
        remove(&part);
    }
    restored
}

/// Refuses what is no store of this build or an older one.
async fn must_be_a_store(path: &Path) -> Result<(), StoreError> {
    std::fs::metadata(path).map_err(failed(path))?;
    inspect(path, &STORE).await?;
    if applied(path).await? == 0 {
        return Err(failed(path)(std::io::Error::other("it is empty")));
    }
    Ok(())
}

/// A whole copy, on disk and looked through, that only its owner may read.
async fn copy(path: &Path, to: &Path) -> Result<Backup, StoreError> {
    remove(to);
    make_file(to)?;
    let source = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY_MAX);
    let said = |error| classify(error, path);
    let mut source = source.connect().await.map_err(said)?;
    let name = to.to_string_lossy().into_owned();
    let copied = sqlx::query(sql::COPY).bind(name).execute(&mut source).await;
    copied.map_err(said)?;
    source.close().await.map_err(said)?;
    File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(failed(to))?;
    let made = SqliteConnectOptions::new().filename(to).read_only(true);
    let said = |error| classify(error, to);
    let mut made = made.connect().await.map_err(said)?;
    let row = sqlx::query(sql::CHECK).fetch_one(&mut made).await;
    let verdict: String = row.and_then(|row| row.try_get(0)).map_err(said)?;
    let row = sqlx::query(sql::HELD)
        .fetch_one(&mut made)
        .await
        .map_err(said)?;
    let backup = Backup {
        generations: number(&row, 0)?,
        newest: number(&row, 1)?,
        epoch: row.try_get::<Option<String>, _>(2)?.unwrap_or_default(),
    };
    made.close().await.map_err(said)?;
    if verdict != "ok" {
        let path = to.display().to_string();
        return Err(StoreError::Damaged { path, source: None });
    }
    Ok(backup)
}

/// Brings a copy to what this build needs, and notes in it what it is.
async fn note(
    part: &Path,
    from: &Path,
    at: &str,
    key: &HeadKey,
) -> Result<(u64, String), StoreError> {
    let database = Database::open(part).await?;
    let noted = async {
        if database.is_old {
            let rows = database.chain(key).await?;
            let (last, ..) = database.ends().await?;
            let told = chained(rows, last.id, at);
            database.transact(&Facts::default(), told, key).await?;
        }
        let newest = database.newest_number().await?;
        let note = restored_note(newest, at, &from.display().to_string());
        let (name, value) = note.fact;
        let facts = Facts::one(name.to_owned(), Some(value));
        let audit = AuditRow {
            operation: uuid::Uuid::now_v7().to_string(),
            ..note.audit.storable()
        };
        database.transact(&facts, audit, key).await?;
        Ok((newest, database.epoch().await?))
    };
    let noted = noted.await;
    database.close().await;
    for ending in ["-lock", "-wal", "-shm"] {
        remove(&with(part, ending));
    }
    noted
}

/// Leaves the store that is there under another name, whatever state it is in.
async fn put_aside(path: &Path, at: &str) -> Result<Option<PathBuf>, StoreError> {
    if matches!(std::fs::metadata(path), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    let kept = beside(path, &format!("before-{}", at.replace(':', "")));
    if let Err(error) = fold(path).await {
        if matches!(error, StoreError::Busy) {
            let path = path.display().to_string();
            return Err(StoreError::Held { path });
        }
        tracing::warn!(
            error = &error as &dyn std::error::Error,
            "the store that was there is kept as it is"
        );
    }
    // A second name first, so that there is a store at every moment.
    std::fs::hard_link(path, &kept).map_err(failed(&kept))?;
    // What was written ahead of the old file would be taken for the new one's.
    for ending in ["-wal", "-shm"] {
        match std::fs::rename(with(path, ending), with(&kept, ending)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed(&with(path, ending))(error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(Some(kept))
}

/// Folds what was written ahead into the file. Busy: somebody has it open.
async fn fold(path: &Path) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = options.connect().await?;
    let folded = sqlx::query(sql::FOLD).fetch_one(&mut connection).await;
    connection.close().await?;
    folded?;
    Ok(())
}

/// The key of the audit's head: it lies beside the file and is in no copy of it, so that who
/// changes a copy cannot sign it.
pub(in crate::store) fn head_key(path: &Path, make: bool) -> Result<HeadKey, StoreError> {
    let name = with(path, "-audit-key");
    let wrong = |error: wire::SecretError| failed(&name)(std::io::Error::other(error));
    match std::fs::metadata(&name) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Ok(_) | Err(_) => return Ok(HeadKey::new(Some(Secret::from_file(&name).map_err(wrong)?))),
    }
    if !make {
        return Ok(HeadKey::default());
    }
    let key = Secret::random().map_err(wrong)?;
    let part = with(&name, &format!(".part-{}", uuid::Uuid::now_v7()));
    make_file(&part)?;
    let written = std::fs::write(&part, key.expose())
        .and_then(|()| File::open(&part)?.sync_all())
        // Of several that begin at once the first one's is everybody's.
        .and_then(|()| std::fs::hard_link(&part, &name));
    remove(&part);
    match written {
        Ok(()) => sync_folder(&name)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(&name)(error)),
    }
    Ok(HeadKey::new(Some(Secret::from_file(&name).map_err(wrong)?)))
}

/// Whether there is one already.
pub(in crate::store) fn has_key(path: &Path) -> bool {
    with(path, "-audit-key").exists()
}

/// A lock beside the file, because closing the file itself would take SQLite's own locks away.
#[derive(Debug)]
pub(in crate::store) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    /// With others that use the store.
    pub(super) fn shared(path: &Path) -> Result<Self, StoreError> {
        Self::take(path, File::try_lock_shared)
    }

    fn alone(path: &Path) -> Result<Self, StoreError> {
        Self::take(path, File::try_lock)
    }

    fn take(
        path: &Path,
        lock: fn(&File) -> Result<(), std::fs::TryLockError>,
    ) -> Result<Self, StoreError> {
        let name = with(path, "-lock");
        make_file(&name)?;
        let file = File::open(&name).map_err(failed(&name))?;
        match lock(&file) {
            Ok(()) => Ok(Self(file)),
            Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Held {
                path: path.display().to_string(),
            }),
            Err(std::fs::TryLockError::Error(error)) => Err(failed(&name)(error)),
        }
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| StoreError::Open {
        path: path.clone(),
        source,
    }
}

/// `bulkhead.db` and `part-7`: `bulkhead.db.part-7`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    with(path, &format!(".{ending}"))
}

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) {
    // It is ours; where it stays, its name says what it is.
    let _none = std::fs::remove_file(path);
}

/// A new name in a folder is on disk when the folder is.
fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed(folder))
}
