//! What goes wrong with the store, in the words of the product.
//!
//! Separate so that the codes of both databases are read in one place. It must never carry a
//! document, a statement's values or a password in its text.

use std::path::Path;

use sqlx::postgres::PgDatabaseError;

/// Primary result codes of SQLite; the extended ones hold them in their low byte.
mod code {
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const READ_ONLY: u32 = 8;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANNOT_OPEN: u32 = 14;
    pub(super) const NOT_A_DATABASE: u32 = 26;
}

/// What went wrong with the store. Ours or the machine's, never the caller's.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not a form of address that this build knows.
    #[error("database_url = {url:?}: {rule}")]
    Url {
        /// What was given, without its password.
        url: String,
        /// What must hold.
        rule: String,
    },
    /// The folder or the file cannot be made or opened.
    #[error("cannot open the store {path}")]
    Open {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is damaged, or not a database at all.
    #[error("the store {path} is damaged or not a database; nothing was changed in it")]
    Damaged {
        /// Which file.
        path: String,
        /// What the database said.
        source: Option<sqlx::Error>,
    },
    /// A database, but of another program.
    #[error("the store {path} holds another program's data ({found}); nothing was changed in it")]
    Foreign {
        /// Which file or database.
        path: String,
        /// What tells so.
        found: String,
    },
    /// A newer build wrote it.
    #[error(
        "the store {path} was made by a newer build (migration {found}, this one knows {known}); \
         nothing was changed in it"
    )]
    Newer {
        /// Which file or database.
        path: String,
        /// The newest migration in it.
        found: i64,
        /// The newest migration of this build.
        known: i64,
    },
    /// Its audit has no chain yet.
    #[error(
        "the store's tables are at migration {found}, and its audit is chained from 8 on: run \
         `bulkhead migrate`"
    )]
    Unchained {
        /// The newest migration in it.
        found: i64,
    },
    /// Another process runs on it, or puts a copy in its place.
    #[error("the store {path} is in use by another process")]
    Held {
        /// Which file.
        path: String,
    },
    /// Another process holds the write lock, or too many writers wait.
    #[error("the store is busy: another process holds its lock")]
    Busy,
    /// No space left.
    #[error("the store's disk is full: nothing was changed")]
    Full,
    /// It may not be written.
    #[error("the store cannot be written")]
    ReadOnly,
    /// Nobody answers where the database should be, or it cut us off before anything was stored.
    #[error("the database is away: nothing was changed, and gateways go on with what they have")]
    Away(#[source] Option<sqlx::Error>),
    /// The database does not let us in, or not far enough.
    #[error("the database refuses this account")]
    Refused(#[source] sqlx::Error),
    /// Cut off while it stored a change, and it could not be asked afterwards.
    #[error(
        "the database was cut off while it stored the change and cannot be asked now, so it is \
         not known whether the change was stored: it is there whole or not at all. Once the \
         database is back, `GET /api/v1/operations/{operation}` tells (404: it was not stored)"
    )]
    Unknown {
        /// Stands with the audit row, if there is one.
        operation: String,
    },
    /// Anything else that the database says.
    #[error("the store failed")]
    Failed(#[source] sqlx::Error),
    /// An old generation of which only the row is left.
    #[error(
        "the document of generation {0} is no longer kept; the newest 1,000 and those of the last \
         90 days are"
    )]
    NotKept(u64),
    /// A row that no build of ours writes.
    #[error("the store holds a row that this build cannot read: {0}")]
    Row(&'static str),
    /// The process is going down.
    #[error("the store is closed")]
    Closed,
}

impl From<sqlx::Error> for StoreError {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's own enum is not exhaustive"
    )]
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut => Self::Busy,
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => Self::Away(Some(error)),
            sqlx::Error::Database(database) => {
                if let Some(postgres) = database.try_downcast_ref::<PgDatabaseError>() {
                    return of_postgres(postgres.code())(error);
                }
                let code = database.code().map(|code| code.into_owned());
                of_sqlite(code.as_deref(), error)
            }
            _ => Self::Failed(error),
        }
    }
}

fn of_sqlite(code: Option<&str>, error: sqlx::Error) -> StoreError {
    let code = code.and_then(|code| code.parse::<u32>().ok());
    match code.map(|code| code & 0xff) {
        Some(code::BUSY | code::LOCKED) => StoreError::Busy,
        Some(code::FULL) => StoreError::Full,
        Some(code::READ_ONLY) => StoreError::ReadOnly,
        Some(code::CORRUPT | code::NOT_A_DATABASE) => StoreError::Damaged {
            path: String::new(),
            source: Some(error),
        },
        Some(code::CANNOT_OPEN) => StoreError::Open {
            path: String::new(),
            source: std::io::Error::other(error),
        },
        _ => StoreError::Failed(error),
    }
}

/// By SQLSTATE: a class of two characters, then three.
fn of_postgres(code: &str) -> fn(sqlx::Error) -> StoreError {
    match code {
        // A lock or a statement took too long; a deadlock; two transactions in each other's way.
        "55P03" | "57014" | "40P01" | "40001" | "55006" => |_| StoreError::Busy,
        "53100" => |_| StoreError::Full,
        "58030" => of_input_output,
        // Out of memory or of another of its own: it may have some again in a moment.
        "53000" | "53200" | "53400" => |_| StoreError::Busy,
        "25006" => |_| StoreError::ReadOnly,
        // Going down, crashed, starting up, idle for too long; too many connections.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04" | "53300" => {
            |error| StoreError::Away(Some(error))
        }
        // No such database or schema, no right to something.
        "3D000" | "3F000" | "42501" => StoreError::Refused,
        _ if code.starts_with("08") => |error| StoreError::Away(Some(error)),
        _ if code.starts_with("28") => StoreError::Refused,
        "XX001" | "XX002" => |error| StoreError::Damaged {
            path: String::new(),
            source: Some(error),
        },
        _ => StoreError::Failed,
    }
}

/// The server could not write or read a file; what the system told it stands in its words alone.
fn of_input_output(error: sqlx::Error) -> StoreError {
    let says_full = |text: &str| {
        let text = text.to_ascii_lowercase();
        text.contains("no space left") || text.contains("quota exceeded")
    };
    let is_full = error
        .as_database_error()
        .is_some_and(|database| says_full(database.message()));
    if is_full {
        StoreError::Full
    } else {
        StoreError::Failed(error)
    }
}

impl StoreError {
    /// The same error, naming the file or database it is about.
    pub(super) fn about(self, file: &Path) -> Self {
        self.named(&file.display().to_string())
    }

    /// The same error, naming what it is about.
    pub(super) fn named(mut self, name: &str) -> Self {
        if let Self::Damaged { path, .. } | Self::Open { path, .. } = &mut self {
            name.clone_into(path);
        }
        self
    }

    /// Whether a connection that says this is of no use any more. A database that cannot be
    /// written may have become another one's standby: the next connection may find the other.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(
            self,
            Self::Away(_) | Self::Refused(_) | Self::ReadOnly | Self::Failed(_) | Self::Row(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_postgres_become_ours() {
        let of = |code: &str| of_postgres(code)(sqlx::Error::RowNotFound);
        for code in ["55P03", "57014", "40001", "40P01"] {
            assert!(matches!(of(code), StoreError::Busy), "{code}");
        }
        for code in ["57P01", "57P03", "08006", "08P01", "53300", "25P03"] {
            assert!(matches!(of(code), StoreError::Away(Some(_))), "{code}");
        }
        for code in ["28P01", "28000", "3D000", "42501"] {
            assert!(matches!(of(code), StoreError::Refused(_)), "{code}");
        }
        assert!(matches!(of("53100"), StoreError::Full));
        for code in ["53000", "53200", "53400"] {
            assert!(matches!(of(code), StoreError::Busy), "{code}");
        }
        assert!(matches!(of("25006"), StoreError::ReadOnly));
        assert!(matches!(of("XX001"), StoreError::Damaged { .. }));
        assert!(matches!(of("42601"), StoreError::Failed(_)));
    }
}
