//! Opening a SQLite file without harming it.
//!
//! Separate from the statements because it is about what a file may turn out to be: missing,
//! damaged, another program's, a newer build's. Until all that is ruled out the file is only read.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqlSafeStr as _, SqliteConnection};

use super::StoreError;

/// Largest file that is read through at the start; a larger one would delay it for long.
const CHECKED_BYTES_MAX: u64 = 64 << 20;
/// Tries against a second process that migrates the same new file.
const MIGRATE_ATTEMPTS_MAX: u32 = 5;

/// Number, name and text of every migration. The same numbers and names for every database.
pub(super) const MIGRATIONS: [(i64, &str, &str); 10] = [
    (
        1,
        "generations",
        include_str!("../../../migrations/sqlite/0001_generations.sql"),
    ),
    (
        2,
        "alerts",
        include_str!("../../../migrations/sqlite/0002_alerts.sql"),
    ),
    (
        3,
        "operations",
        include_str!("../../../migrations/sqlite/0003_operations.sql"),
    ),
    (
        4,
        "drills",
        include_str!("../../../migrations/sqlite/0004_drills.sql"),
    ),
    (
        5,
        "live",
        include_str!("../../../migrations/sqlite/0005_live.sql"),
    ),
    (
        6,
        "people",
        include_str!("../../../migrations/sqlite/0006_people.sql"),
    ),
    (
        7,
        "changes",
        include_str!("../../../migrations/sqlite/0007_changes.sql"),
    ),
    (
        8,
        "audit_chain",
        include_str!("../../../migrations/sqlite/0008_audit_chain.sql"),
    ),
    (
        9,
        "scheduled",
        include_str!("../../../migrations/sqlite/0009_scheduled.sql"),
    ),
    (
        10,
        "idempotency",
        include_str!("../../../migrations/sqlite/0010_idempotency.sql"),
    ),
];

/// What a file of one kind is known by, and how it is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// As the first migration writes it.
    pub(super) application_id: i64,
    /// Number, name and text of every migration.
    pub(super) migrations: &'static [(i64, &'static str, &'static str)],
}

impl Schema {
    fn newest(&self) -> i64 {
        let numbers = self.migrations.iter().map(|(number, ..)| *number);
        numbers.max().unwrap_or(0)
    }
}

/// The policy's store: "BLKH".
pub(super) const STORE: Schema = Schema {
    application_id: 1_112_296_264,
    migrations: &MIGRATIONS,
};

/// Makes the folder and an empty file that only its owner may read.
pub(super) fn make_file(path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Open {
        path: path.display().to_string(),
        source,
    };
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        made.map_err(failed)?;
    }
    let mut how = std::fs::OpenOptions::new();
    how.read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600);
    how.open(path).map(drop).map_err(failed)
}

/// Reads what the file is, and refuses what this build must not touch.
pub(super) async fn inspect(path: &Path, schema: &Schema) -> Result<(), StoreError> {
    let failed = |source| StoreError::Open {
        path: path.display().to_string(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    if bytes == 0 {
        return Ok(());
    }
    let damaged = |error| classify(error, path);
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let mut connection = options.connect().await.map_err(damaged)?;
    let found = what_it_is(&mut connection, bytes, schema)
        .await
        .map_err(damaged);
    // Closed before anything else opens the file, so that locks cannot meet.
    connection.close().await.map_err(damaged)?;
    let path = path.display().to_string();
    match found? {
        Content::Empty | Content::Ours => Ok(()),
        Content::Foreign => Err(foreign(path)),
        Content::Damaged => Err(StoreError::Damaged { path, source: None }),
        Content::Newer(found) => Err(StoreError::Newer {
            path,
            found,
            known: schema.newest(),
        }),
    }
}

/// The newest migration of a file that was inspected; 0 for none.
pub(super) async fn applied(path: &Path) -> Result<i64, StoreError> {
    if std::fs::metadata(path).map_or(0, |about| about.len()) == 0 {
        return Ok(0);
    }
    let said = |error| classify(error, path);
    let options = SqliteConnectOptions::new().filename(path).read_only(true);
    let mut connection = options.connect().await.map_err(said)?;
    let newest = "SELECT COUNT(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    let newest = match one(&mut connection, newest).await {
        Ok(0) => Ok(0),
        Ok(_) => {
            let newest = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
            one(&mut connection, newest).await
        }
        Err(error) => Err(error),
    };
    connection.close().await.map_err(said)?;
    newest.map_err(said)
}

/// The newest migration of the file, which may not be there, and of this build.
pub(super) async fn migrations(path: &Path, schema: &Schema) -> Result<(i64, i64), StoreError> {
    if path.exists() {
        inspect(path, schema).await?;
    }
    Ok((applied(path).await?, schema.newest()))
}

enum Content {
    Empty,
    Ours,
    Newer(i64),
    Foreign,
    Damaged,
}

async fn what_it_is(
    connection: &mut SqliteConnection,
    bytes: u64,
    schema: &Schema,
) -> Result<Content, sqlx::Error> {
    let ours_id = schema.application_id;
    let tables: i64 = one(connection, "SELECT COUNT(*) FROM sqlite_schema").await?;
    let application: i64 = one(connection, "PRAGMA application_id").await?;
    let ours = "SELECT COUNT(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'";
    let migrated: i64 = one(connection, ours).await?;
    if tables == 0 {
        return Ok(Content::Empty);
    }
    if migrated == 0 || (application != ours_id && application != 0) {
        return Ok(Content::Foreign);
    }
    let newest = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
    let newest: i64 = one(connection, newest).await?;
    if newest > 0 && application != ours_id {
        return Ok(Content::Foreign);
    }
    if newest > schema.newest() {
        return Ok(Content::Newer(newest));
    }
    if bytes <= CHECKED_BYTES_MAX {
        let row = sqlx::query("PRAGMA quick_check(1)")
            .fetch_one(connection)
            .await?;
        let verdict: String = row.try_get(0)?;
        if verdict != "ok" {
            return Ok(Content::Damaged);
        }
    }
    Ok(Content::Ours)
}

async fn one(connection: &mut SqliteConnection, sql: &'static str) -> Result<i64, sqlx::Error> {
    sqlx::query(sql).fetch_one(connection).await?.try_get(0)
}

/// Brings the tables to what this build needs.
pub(super) async fn migrate(
    pool: &sqlx::SqlitePool,
    path: &Path,
    schema: &Schema,
) -> Result<(), StoreError> {
    let migration = |&(number, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(
            number,
            name.into(),
            MigrationType::Simple,
            sql.into_sql_str(),
            false,
        )
    };
    let migrator = Migrator::with_migrations(schema.migrations.iter().map(migration).collect());
    let mut attempt = 1;
    loop {
        let failed = match migrator.run(pool).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Two processes that start on one new file both try to make its tables; the second finds
        // them made when it looks again.
        if attempt >= MIGRATE_ATTEMPTS_MAX || !is_statement(&failed) {
            return Err(migration_error(failed, path, schema));
        }
        attempt += 1;
    }
}

fn is_statement(error: &MigrateError) -> bool {
    matches!(
        error,
        MigrateError::Execute(_) | MigrateError::ExecuteMigration(..)
    )
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's own enum is not exhaustive"
)]
fn migration_error(error: MigrateError, path: &Path, schema: &Schema) -> StoreError {
    let path_text = path.display().to_string();
    match error {
        MigrateError::VersionMissing(found) => StoreError::Newer {
            path: path_text,
            found,
            known: schema.newest(),
        },
        MigrateError::VersionMismatch(_) | MigrateError::Dirty(_) => foreign(path_text),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            classify(error, path)
        }
        other => StoreError::Failed(sqlx::Error::Migrate(Box::new(other))),
    }
}

fn foreign(path: String) -> StoreError {
    let found = "its tables are not ours".to_owned();
    StoreError::Foreign { path, found }
}

/// The error of an opening, with the file's name.
pub(super) fn classify(error: sqlx::Error, path: &Path) -> StoreError {
    StoreError::from(error).about(path)
}
