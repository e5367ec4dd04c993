//! Opening a Postgres database without harming it.
//!
//! Separate from the statements because it is about what a database may turn out to be: empty,
//! another program's, a newer build's. Until all that is ruled out it is only read, and what is
//! then made in it is made under a lock that every process of ours takes.

use std::time::Duration;

use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{Connection as _, Executor as _, PgConnection, Row as _, SqlSafeStr as _};

use super::pool::bounded;
use super::sql;
use crate::store::StoreError;
use crate::store::address::Server;

/// A server that is starting is waited for this long.
const START_MAX: Duration = Duration::from_secs(10);
/// Between two tries to reach it.
const PAUSE: Duration = Duration::from_millis(250);
/// Every process of ours takes this advisory lock before it changes tables: "BLKH".
const LOCK: i64 = 1_112_296_264;

/// Number, name and text of every migration. The same numbers and names for every database.
pub(in crate::store) const MIGRATIONS: [(i64, &str, &str); 10] = [
    (
        1,
        "generations",
        include_str!("../../../../migrations/postgres/0001_generations.sql"),
    ),
    (
        2,
        "alerts",
        include_str!("../../../../migrations/postgres/0002_alerts.sql"),
    ),
    (
        3,
        "operations",
        include_str!("../../../../migrations/postgres/0003_operations.sql"),
    ),
    (
        4,
        "drills",
        include_str!("../../../../migrations/postgres/0004_drills.sql"),
    ),
    (
        5,
        "live",
        include_str!("../../../../migrations/postgres/0005_live.sql"),
    ),
    (
        6,
        "people",
        include_str!("../../../../migrations/postgres/0006_people.sql"),
    ),
    (
        7,
        "changes",
        include_str!("../../../../migrations/postgres/0007_changes.sql"),
    ),
    (
        8,
        "audit_chain",
        include_str!("../../../../migrations/postgres/0008_audit_chain.sql"),
    ),
    (
        9,
        "scheduled",
        include_str!("../../../../migrations/postgres/0009_scheduled.sql"),
    ),
    (
        10,
        "idempotency",
        include_str!("../../../../migrations/postgres/0010_idempotency.sql"),
    ),
];

/// Tables of one kind, in a schema of their own.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Schema {
    pub(in crate::store) name: &'static str,
    /// Where the migrations that were run are written down, and how they are read.
    pub(in crate::store) table: &'static str,
    pub(in crate::store) applied: &'static str,
    pub(in crate::store) migrations: &'static [(i64, &'static str, &'static str)],
}

/// The policy's store.
pub(in crate::store) const STORE: Schema = Schema {
    name: "bulkhead",
    table: "bulkhead._sqlx_migrations",
    applied: "SELECT version, description, checksum, success FROM bulkhead._sqlx_migrations \
              ORDER BY version",
    migrations: &MIGRATIONS,
};

impl Schema {
    fn newest(&self) -> i64 {
        let numbers = self.migrations.iter().map(|(number, ..)| *number);
        numbers.max().unwrap_or(0)
    }

    fn migrator(&self) -> Migrator {
        let migration = |&(number, name, sql): &(i64, &'static str, &'static str)| {
            Migration::new(
                number,
                name.into(),
                MigrationType::Simple,
                sql.into_sql_str(),
                false,
            )
        };
        let mut migrator =
            Migrator::with_migrations(self.migrations.iter().map(migration).collect());
        // The lock is ours, and taken before the first look.
        migrator.set_locking(false);
        migrator.dangerous_set_table_name(self.table);
        migrator.create_schema(self.name);
        migrator
    }
}

/// Brings the tables to what this build needs; the answer is the newest migration before (0 for
/// none) and after.
pub(in crate::store) async fn prepare(
    server: &Server,
    schema: &Schema,
) -> Result<(i64, i64), StoreError> {
    let mut connection = connect(server).await?;
    let prepared = on(&mut connection, server, schema).await;
    // Ends the lock too.
    let _gone = bounded(connection.close()).await;
    prepared.map_err(|error| error.named(&server.name))
}

/// The newest migration of the database, and of this build; nothing is changed.
pub(in crate::store) async fn migrations(
    server: &Server,
    schema: &Schema,
) -> Result<(i64, i64), StoreError> {
    let mut connection = connect(server).await?;
    let found = inspect(&mut connection, server, schema).await;
    let _gone = bounded(connection.close()).await;
    let found = found.map_err(|error| error.named(&server.name))?;
    Ok((found, schema.newest()))
}

async fn on(
    connection: &mut PgConnection,
    server: &Server,
    schema: &Schema,
) -> Result<(i64, i64), StoreError> {
    let encoding = bounded(connection.fetch_one(sql::ENCODING)).await?;
    let encoding: String = encoding.try_get(0)?;
    if !["UTF8", "SQL_ASCII"].contains(&encoding.as_str()) {
        return Err(StoreError::Url {
            url: server.name.to_string(),
            rule: format!("the database must be encoded in UTF8, not {encoding}"),
        });
    }
    let newest = schema.newest();
    // A start on tables that are as they should be takes no lock and needs no right to make any.
    if inspect(connection, server, schema).await? == newest {
        return Ok((newest, newest));
    }
    connection.execute(sql::LONG_LOCK).await?;
    sqlx::query(sql::LOCK)
        .bind(LOCK)
        .execute(&mut *connection)
        .await?;
    // Another process may have been first.
    let before = inspect(connection, server, schema).await?;
    if before < newest {
        let migrator = schema.migrator();
        // Not `run`: its future cannot change threads with a connection that is borrowed.
        let run = migrator.run_direct(None, &mut *connection, false).await;
        run.map_err(|error| migration_error(error, server, schema))?;
        tracing::info!(
            schema = schema.name,
            from = before,
            to = newest,
            "the store's tables were made"
        );
    }
    Ok((before, newest))
}

/// The newest migration in the database; refuses what this build must not touch.
async fn inspect(
    connection: &mut PgConnection,
    server: &Server,
    schema: &Schema,
) -> Result<i64, StoreError> {
    let path = server.name.to_string();
    let ours = sqlx::query(sql::OURS).bind(schema.table);
    let ours: bool = bounded(ours.fetch_one(&mut *connection))
        .await?
        .try_get(0)?;
    if !ours {
        let foreign = sqlx::query(sql::FOREIGN).bind(schema.name);
        let foreign = bounded(foreign.fetch_optional(connection)).await?;
        return match foreign {
            Some(row) => {
                let found = format!("{} is not ours", row.try_get::<String, _>(0)?);
                Err(StoreError::Foreign { path, found })
            }
            None => Ok(0),
        };
    }
    let foreign = |number: i64| StoreError::Foreign {
        path: path.clone(),
        found: format!("migration {number} in {} is not ours", schema.table),
    };
    let migrator = schema.migrator();
    let mut newest = 0;
    for row in bounded(connection.fetch_all(schema.applied)).await? {
        let number: i64 = row.try_get(0)?;
        let checksum: Vec<u8> = row.try_get(2)?;
        newest = newest.max(number);
        let known = migrator.iter().find(|known| known.version == number);
        if known.is_some_and(|known| *known.checksum != *checksum) || !row.try_get::<bool, _>(3)? {
            return Err(foreign(number));
        }
    }
    if newest > schema.newest() {
        return Err(StoreError::Newer {
            path,
            found: newest,
            known: schema.newest(),
        });
    }
    Ok(newest)
}

/// Waits for a server that is not up yet, but not for one that refuses us.
async fn connect(server: &Server) -> Result<PgConnection, StoreError> {
    let connecting = async {
        loop {
            match bounded(PgConnection::connect_with(&server.options)).await {
                Err(error @ StoreError::Away(_)) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    database = &*server.name,
                    "the database is not there yet"
                ),
                done => return done,
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(START_MAX, connecting).await {
        Ok(done) => done,
        // Once more, for its error.
        Err(_) => bounded(PgConnection::connect_with(&server.options)).await,
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's own enum is not exhaustive"
)]
fn migration_error(error: MigrateError, server: &Server, schema: &Schema) -> StoreError {
    let path = server.name.to_string();
    match error {
        MigrateError::VersionMissing(found) => StoreError::Newer {
            path,
            found,
            known: schema.newest(),
        },
        MigrateError::VersionMismatch(number) | MigrateError::Dirty(number) => {
            let found = format!("migration {number} in {} is not ours", schema.table);
            StoreError::Foreign { path, found }
        }
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error.into(),
        other => StoreError::Failed(sqlx::Error::Migrate(Box::new(other))),
    }
}
