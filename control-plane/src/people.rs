//! Who may use pages and API: users, tokens and sessions, as they are in the store.
//!
//! Separate from the guard, which asks who somebody is and knows nothing of rows. Every change is
//! written with the version that it was based on, so that of two control planes none undoes the
//! other's, and is read again by all of them within a second. It must never keep a secret, nor
//! need the store for whom it knows already.

mod hasher;
mod host;
mod rows;
mod sessions;
mod tokens;
mod tries;
mod users;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio_util::sync::CancellationToken;
use wire::Secret;

use crate::access::Role;
use crate::limits::Author;
use crate::store::{AuditRow, PeopleStep, PeopleWrite, PersonRow, Store, StoreError};

pub use hasher::HashError;
pub(crate) use hasher::{Hasher, Password};
pub use host::reset;
pub(crate) use rows::{
    ApiToken, NAME_BYTES_MAX, Owner, PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, Session, User, digest,
};
pub(crate) use sessions::{SESSION_AGE_MAX, token_owner};
pub(crate) use tokens::{EXPIRY_DAYS_DEFAULT, EXPIRY_DAYS_MAX, Wanted};
pub(crate) use tries::{Source, Tries};
pub(crate) use users::{FirstCode, Invited, SignIn, UserChange};

/// How often what another process wrote is looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// How often a write is tried on top of what another process wrote meanwhile.
const WRITES_MAX: usize = 5;
/// How exactly it is noted when something was used last.
const USED_STEP_MS: i64 = 60_000;

/// Everybody, by name or id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Book {
    version: String,
    users: BTreeMap<String, User>,
    tokens: BTreeMap<String, ApiToken>,
    sessions: BTreeMap<String, Session>,
}

/// Why something about people is not done.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// Not a name.
    #[error(
        "a name has 1 to {NAME_BYTES_MAX} letters, digits and . _ @ + -, and begins with a \
         letter or a digit"
    )]
    Name,
    /// Not what a token is called.
    #[error("a token's name has 1 to {NAME_BYTES_MAX} bytes and no control characters")]
    TokenName,
    /// Not a password.
    #[error(
        "a password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters, not all the \
         same, and is not the name"
    )]
    Password,
    /// Not a time to live.
    #[error("a token lives 1 to {EXPIRY_DAYS_MAX} days")]
    Expiry,
    /// Not whom a token can be of.
    #[error("a token can be of a user who is there and not disabled; {0:?} is not")]
    Person(String),
    /// A token of somebody who may less.
    #[error("a token has at most the role of whose it is, and that is {}", .0.word())]
    Beyond(Role),
    /// There already.
    #[error("there is a user of this name already")]
    Taken,
    /// No such thing.
    #[error("there is no {0} of this name")]
    Unknown(&'static str),
    /// Nobody could decide anything any more.
    #[error("this is the last admin who can sign in; make another one first")]
    LastAdmin,
    /// As many as there may be.
    #[error("there are too many of them already")]
    Full,
    /// A code that is not known, was used, or has ended.
    #[error("this link is not valid: it was used already, has expired, or never was one")]
    Code,
    /// The name or the password.
    #[error("name or password are wrong")]
    Wrong,
    /// Too many tries.
    #[error("too many tries; the next one is possible in {0} s")]
    TooMany(u64),
    /// The hasher.
    #[error(transparent)]
    Hash(#[from] HashError),
    /// No random numbers.
    #[error(transparent)]
    Secret(#[from] wire::SecretError),
    /// Others wrote all the time.
    #[error("others change people at this moment; try again")]
    Contended,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a write does, and how the audit tells it.
struct Act {
    steps: Vec<PeopleStep>,
    action: &'static str,
    subject: String,
    before: Json,
    after: Json,
}

/// Everybody, one handle.
#[derive(Clone, Debug)]
pub(crate) struct People {
    store: Store,
    book: Arc<Mutex<Book>>,
    pub(crate) hasher: Hasher,
    pub(crate) tries: Arc<Tries>,
    /// The code of the first user, while there is nobody.
    first: Arc<Mutex<Option<FirstCode>>>,
    /// One writer at a time in this process.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl People {
    /// Reads everybody.
    pub(crate) async fn open(store: Store) -> Result<Self, StoreError> {
        let people = Self {
            store,
            book: Arc::default(),
            hasher: Hasher::new(),
            tries: Arc::default(),
            first: Arc::default(),
            turn: Arc::default(),
        };
        people.fetch().await?;
        Ok(people)
    }

    /// Reads what other processes wrote, until the process goes down.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        loop {
            // Nothing is lost by a cancelled arm.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            // That the store does not answer is told by the rollout; who was known is known.
            let _silent = self.look().await;
        }
    }

    async fn look(&self) -> Result<(), StoreError> {
        let version = self.store.people_version().await?;
        if self.with(|book| book.version != version) {
            let _turn = self.turn.lock().await;
            self.fetch().await?;
        }
        Ok(())
    }

    /// Only with the turn.
    async fn fetch(&self) -> Result<(), StoreError> {
        let (version, rows) = self.store.people().await?;
        let mut book = Book {
            version,
            ..Book::default()
        };
        for row in &rows {
            book.take(row)?;
        }
        self.with(|own| {
            // What was used here and is not noted yet.
            for (id, session) in &mut book.sessions {
                let used = own.sessions.get(id).map_or(0, |own| own.used_ms);
                session.used_ms = session.used_ms.max(used);
            }
            for (id, token) in &mut book.tokens {
                let used = own.tokens.get(id).map_or(0, |own| own.used_ms);
                token.used_ms = token.used_ms.max(used);
            }
            *own = book;
        });
        Ok(())
    }

    fn with<T>(&self, ask: impl FnOnce(&mut Book) -> T) -> T {
        // No change of it can be left half done.
        ask(&mut self.book.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Decides on top of the newest book and writes it, again when another process was faster.
    async fn write<T>(
        &self,
        author: &Author,
        decide: impl Fn(&Book) -> Result<(Act, T), PeopleError>,
    ) -> Result<T, PeopleError> {
        let _turn = self.turn.lock().await;
        for _ in 0..WRITES_MAX {
            let book = self.with(|book| book.clone());
            let (act, made) = decide(&book)?;
            if act.steps.is_empty() {
                // Nothing is to be written, if nobody wrote meanwhile.
                if self.store.people_version().await? == book.version {
                    return Ok(made);
                }
                self.fetch().await?;
                continue;
            }
            let audit = audit(&act, author);
            let write = PeopleWrite {
                seen: book.version,
                version: uuid::Uuid::now_v7().to_string(),
                steps: act.steps,
            };
            let (version, steps) = (write.version.clone(), write.steps.clone());
            if self.store.put_people(write, audit).await? {
                // What was just stored counts at once, whether or not the store can be read now.
                self.with(|book| book.apply(version, &steps))?;
                return Ok(made);
            }
            self.fetch().await?;
        }
        Err(PeopleError::Contended)
    }

    /// Every user, by name.
    pub(crate) fn users(&self) -> Vec<User> {
        self.with(|book| book.users.values().cloned().collect())
    }

    pub(crate) fn user(&self, name: &str) -> Option<User> {
        self.with(|book| book.users.get(name).cloned())
    }

    pub(crate) fn tokens(&self) -> Vec<ApiToken> {
        self.with(|book| book.tokens.values().cloned().collect())
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.with(|book| book.sessions.values().cloned().collect())
    }

    /// Whether anybody was ever made.
    pub(crate) fn is_empty(&self) -> bool {
        self.with(|book| book.users.is_empty())
    }
}

impl Book {
    fn take(&mut self, row: &PersonRow) -> Result<(), StoreError> {
        match row.kind.as_str() {
            rows::USER => drop(self.users.insert(row.id.clone(), rows::parse(row)?)),
            rows::TOKEN => {
                let mut token: ApiToken = rows::parse(row)?;
                let known = self.tokens.get(&row.id).map_or(0, |own| own.used_ms);
                token.used_ms = row.used_ms.max(known);
                self.tokens.insert(row.id.clone(), token);
            }
            rows::SESSION => {
                let mut session: Session = rows::parse(row)?;
                session.used_ms = row.used_ms;
                self.sessions.insert(row.id.clone(), session);
            }
            // A newer build's.
            _ => {}
        }
        Ok(())
    }

    fn apply(&mut self, version: String, steps: &[PeopleStep]) -> Result<(), StoreError> {
        for step in steps {
            match step {
                PeopleStep::Put(row) => self.take(row)?,
                PeopleStep::Forget(kind, id) => match *kind {
                    rows::USER => drop(self.users.remove(id)),
                    rows::TOKEN => drop(self.tokens.remove(id)),
                    _ => drop(self.sessions.remove(id)),
                },
            }
        }
        self.version = version;
        Ok(())
    }

    /// The steps that end the tokens behind which this user stands.
    fn end_tokens(&self, name: &str) -> Vec<PeopleStep> {
        let own = self.tokens.values();
        let own = own.filter(|token| token.user() == Some(name));
        own.map(|token| PeopleStep::Forget(rows::TOKEN, token.id.clone()))
            .collect()
    }

    /// The steps that end the sessions of this user, but for one.
    fn end_sessions(&self, name: &str, but: Option<&str>) -> Vec<PeopleStep> {
        let own = self.sessions.values().filter(|session| {
            matches!(&session.owner, Owner::User(owner) if owner == name)
                && Some(session.id.as_str()) != but
        });
        own.map(|session| PeopleStep::Forget(rows::SESSION, session.id.clone()))
            .collect()
    }
}

fn audit(act: &Act, author: &Author) -> AuditRow {
    let differences = json!({ "before": act.before, "after": act.after });
    AuditRow {
        differences: differences.to_string(),
        ..author.audit(act.action, act.subject.clone())
    }
}

/// A random text that begins with `prefix`, and what is kept of it.
fn fresh(prefix: &str) -> Result<(Secret, String), PeopleError> {
    let random = Secret::random()?;
    let secret = Secret::new(&format!("{prefix}{}", random.expose()))?;
    let digest = digest(secret.expose());
    Ok((secret, digest))
}

#[cfg(test)]
mod tests;
