//! What goes wrong with the store, in the words of the product.
//!
//! Separate so that the codes of a database are read in one place. It must never carry a document
//! or a statement's values in its text.

use std::path::Path;

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
        /// What was given.
        url: String,
        /// What must hold.
        rule: &'static str,
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
    #[error("the store {path} holds another program's data; nothing was changed in it")]
    Foreign {
        /// Which file.
        path: String,
    },
    /// A newer build wrote it.
    #[error(
        "the store {path} was made by a newer build (migration {found}, this one knows {known}); \
         nothing was changed in it"
    )]
    Newer {
        /// Which file.
        path: String,
        /// The newest migration in the file.
        found: i64,
        /// The newest migration of this build.
        known: i64,
    },
    /// Another process holds the write lock, or too many writers wait.
    #[error("the store is busy: another process holds its lock")]
    Busy,
    /// No space left.
    #[error("the store's disk is full: nothing was changed")]
    Full,
    /// The file may not be written.
    #[error("the store cannot be written")]
    ReadOnly,
    /// Anything else that the database says.
    #[error("the store failed")]
    Failed(#[source] sqlx::Error),
    /// A row that no build of ours writes.
    #[error("the store holds a row that this build cannot read: {0}")]
    Row(&'static str),
    /// The process is going down.
    #[error("the store is closed")]
    Closed,
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if matches!(error, sqlx::Error::PoolTimedOut) {
            return Self::Busy;
        }
        if matches!(error, sqlx::Error::PoolClosed) {
            return Self::Closed;
        }
        let code = error
            .as_database_error()
            .and_then(|database| database.code());
        match code
            .and_then(|code| code.parse::<u32>().ok())
            .map(|code| code & 0xff)
        {
            Some(code::BUSY | code::LOCKED) => Self::Busy,
            Some(code::FULL) => Self::Full,
            Some(code::READ_ONLY) => Self::ReadOnly,
            Some(code::CORRUPT | code::NOT_A_DATABASE) => Self::Damaged {
                path: String::new(),
                source: Some(error),
            },
            Some(code::CANNOT_OPEN) => Self::Open {
                path: String::new(),
                source: std::io::Error::other(error),
            },
            _ => Self::Failed(error),
        }
    }
}

impl StoreError {
    /// The same error, naming the file it is about.
    pub(super) fn about(mut self, file: &Path) -> Self {
        if let Self::Damaged { path, .. } | Self::Open { path, .. } = &mut self {
            *path = file.display().to_string();
        }
        self
    }
}
