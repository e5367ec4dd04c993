//! The only write path of the policy.
//!
//! Separate so that API, pages and import cannot differ: current + change, the whole document
//! checked and linted, one transaction on top of the generation the writer saw, rollout woken.
//! It must never store a document that a gateway of this build would refuse.

mod checked;
mod target;

use std::sync::Arc;
use std::time::Duration;

use compartment::policy::{Fault, Value};
use tokio::sync::Mutex;
use wire::document::Difference;

use crate::clock;
use crate::linter::Finding;
use crate::rollout::{Published, Rollout};
use crate::store::{AuditRow, Generation, NewGeneration, Store, StoreError, Written};

pub use checked::refuses;
pub(crate) use checked::{Checked, check};
pub(crate) use target::place;

/// Tries on top of another process's writes before a change without a version gives up.
const CONTENDED_MAX: u32 = 8;
/// Longest wait behind other writers of this process.
const TURN_MAX: Duration = Duration::from_secs(6);
/// Longest comment, author or the like, in bytes.
pub const COMMENT_BYTES_MAX: usize = 2_000;
/// Most differences that a conflict or an audit row lists.
pub const DIFFERENCES_MAX: usize = 200;

/// Who asks for a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// As it is shown: `admin token`, `operator`.
    pub name: String,
    /// The address it came from; empty for the process itself.
    pub origin: String,
    /// The request.
    pub request_id: String,
}

impl Author {
    /// An audit row of something that this one does now; why and what differs are the caller's.
    pub(crate) fn audit(&self, action: &str, subject: String) -> AuditRow {
        AuditRow {
            at: clock::utc(),
            action: action.to_owned(),
            subject,
            who: self.name.clone(),
            origin: self.origin.clone(),
            request_id: self.request_id.clone(),
            ..AuditRow::default()
        }
    }
}

/// What became of a change that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The generation that holds the change: a new one, or the current one when nothing differs
    /// or it was a dry run.
    pub generation: u64,
    /// What the linter says of the whole policy.
    pub findings: Vec<Finding>,
    /// Whether a generation was made.
    pub stored: bool,
}

/// Why a change was not taken. Nothing was stored, nothing was pushed.
#[derive(Debug, thiserror::Error)]
pub enum LimitsError {
    /// No such compartment.
    #[error("there is no compartment {key:?} in the policy")]
    UnknownKey {
        /// As it was given.
        key: String,
    },
    /// A compartment whose limit follows from others.
    #[error("{key} has no limit of its own that could be set")]
    NotSettable {
        /// Which.
        key: String,
    },
    /// No such generation.
    #[error("there is no generation {0}")]
    UnknownGeneration(u64),
    /// The policy would break rules.
    #[error("the policy is refused: {} broken", count(faults.len(), "rule"))]
    Invalid {
        /// Broken rules; findings that refuse are among them.
        faults: Vec<Fault>,
    },
    /// Somebody else published meanwhile.
    #[error("the policy moved on: you saw generation {seen}, generation {current} is the newest")]
    MovedOn {
        /// What the writer saw.
        seen: u64,
        /// What is the newest.
        current: u64,
        /// What changed between the two.
        differences: Vec<Difference>,
    },
    /// Others always came first.
    #[error("other writers came first {CONTENDED_MAX} times; nothing was stored, try again")]
    Contended,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Fields of one compartment that are to change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields {
    /// Names and values as in the policy: `limit`, `reserved`, `queue`, …
    pub values: Vec<(String, Value)>,
    /// Why.
    pub comment: String,
}

/// What is to become of the document.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// This one takes its place.
    Whole(Arc<Value>),
    /// Fields of one compartment change.
    Fields {
        key: String,
        values: Vec<(String, Value)>,
    },
}

/// One change on its way.
struct Change<'a> {
    source: &'static str,
    edit: Edit,
    /// The generation that the writer saw; `None`: whatever is the newest.
    seen: Option<u64>,
    dry_run: bool,
    /// Makes a generation even when nothing differs.
    always: bool,
    comment: &'a str,
    author: &'a Author,
}

/// The write path.
#[derive(Clone, Debug)]
pub struct Limits {
    store: Store,
    rollout: Rollout,
    /// One writer of this process at a time: the next one builds on what this one stored.
    turn: Arc<Mutex<()>>,
}

impl Limits {
    pub(crate) fn new(store: Store, rollout: Rollout) -> Self {
        Self {
            store,
            rollout,
            turn: Arc::default(),
        }
    }

    /// Replaces the whole policy. `seen` is the generation that the writer edited.
    pub async fn put(
        &self,
        document: Value,
        seen: u64,
        dry_run: bool,
        comment: &str,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let (edit, seen) = (Edit::Whole(Arc::new(document)), Some(seen));
        let (source, always) = ("put", false);
        self.write(Change {
            source,
            edit,
            seen,
            dry_run,
            always,
            comment,
            author,
        })
        .await
    }

    /// Changes fields of one compartment. With `seen`, only on top of that generation.
    pub async fn patch(
        &self,
        key: &str,
        fields: &Fields,
        seen: Option<u64>,
        dry_run: bool,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let (source, always, comment) = ("patch", false, fields.comment.as_str());
        let edit = Edit::Fields {
            key: key.to_owned(),
            values: fields.values.clone(),
        };
        self.write(Change {
            source,
            edit,
            seen,
            dry_run,
            always,
            comment,
            author,
        })
        .await
    }

    /// Makes a new generation with the document of an old one. With `seen`, only on top of that.
    pub async fn restore(
        &self,
        number: u64,
        seen: Option<u64>,
        dry_run: bool,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        let old = self.store.generation(number).await?;
        let old = old.ok_or(LimitsError::UnknownGeneration(number))?;
        let edit = Edit::Whole(Arc::new(read(old.document).await?));
        let comment = format!("restores generation {number}");
        let (source, always) = ("restore", true);
        let comment = comment.as_str();
        self.write(Change {
            source,
            edit,
            seen,
            dry_run,
            always,
            comment,
            author,
        })
        .await
    }

    async fn write(&self, change: Change<'_>) -> Result<Accepted, LimitsError> {
        let turn = tokio::time::timeout(TURN_MAX, self.turn.lock()).await;
        let _turn = turn.map_err(|_| StoreError::Busy)?;
        for _ in 0..CONTENDED_MAX {
            let current = self.rollout.refresh(None).await?;
            if let Some(seen) = change.seen.filter(|seen| *seen != current.about.number) {
                return Err(self.moved_on(seen, &current).await?);
            }
            let (number, digest) = (current.about.number, current.about.digest.clone());
            let checked = check(change.edit.clone(), Some(current)).await?;
            if change.dry_run || (checked.digest == digest && !change.always) {
                let findings = checked.findings;
                return Ok(Accepted {
                    generation: number,
                    findings,
                    stored: false,
                });
            }
            let findings = checked.findings.clone();
            if let Some(generation) = self.store(&change, checked, number).await? {
                return Ok(Accepted {
                    generation,
                    findings,
                    stored: true,
                });
            }
        }
        Err(LimitsError::Contended)
    }

    /// Stores and publishes; `None` when another process came first.
    async fn store(
        &self,
        change: &Change<'_>,
        mut checked: Checked,
        seen: u64,
    ) -> Result<Option<u64>, LimitsError> {
        let bounded = |text: &str| wire::stream::bounded_text(text, COMMENT_BYTES_MAX);
        let new = NewGeneration {
            document: std::mem::take(&mut checked.json),
            digest: checked.digest.clone(),
            author: bounded(&change.author.name),
            comment: bounded(change.comment),
            source: change.source,
            created_at: crate::clock::utc(),
            origin: bounded(&change.author.origin),
            differences: checked.differences.clone(),
            request_id: bounded(&change.author.request_id),
        };
        let mut about = Generation {
            number: 0,
            digest: new.digest.clone(),
            author: new.author.clone(),
            comment: new.comment.clone(),
            source: new.source.to_owned(),
            created_at: new.created_at.clone(),
        };
        let Written::Stored(number) = self.store.append(new, seen).await? else {
            return Ok(None);
        };
        about.number = number;
        let published = checked.publish(about, self.store.epoch());
        // The change is on disk: from here on nothing may turn the answer into a failure. What
        // is not published now is published by the rollout's own period.
        if let Err(error) = self.rollout.refresh(Some(published)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "published later");
        }
        Ok(Some(number))
    }

    async fn moved_on(
        &self,
        seen: u64,
        current: &Arc<Published>,
    ) -> Result<LimitsError, StoreError> {
        let number = current.about.number;
        let old = self.store.generation(seen).await?;
        let current = Arc::clone(current);
        let work = move || {
            let old: Value = serde_json::from_str(&old?.document).ok()?;
            let mut differences = wire::document::diff(&old, &current.document);
            differences.truncate(DIFFERENCES_MAX);
            Some(differences)
        };
        let differences = tokio::task::spawn_blocking(work).await;
        let differences = differences
            .map_err(|_| StoreError::Closed)?
            .unwrap_or_default();
        Ok(LimitsError::MovedOn {
            seen,
            current: number,
            differences,
        })
    }
}

/// Reads a stored document off the threads that serve.
pub(crate) async fn read(document: String) -> Result<Value, StoreError> {
    let work = move || serde_json::from_str(&document);
    let read = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    read.map_err(|_| StoreError::Row("generations.document"))
}

/// Writes the first generation of a store that has none; `None` when another process did.
pub(crate) async fn write_first(
    store: &Store,
    document: Value,
    comment: &str,
) -> Result<Option<u64>, LimitsError> {
    let checked = check(Edit::Whole(Arc::new(document)), None).await?;
    let new = NewGeneration {
        document: checked.json,
        digest: checked.digest,
        author: "import".to_owned(),
        comment: comment.to_owned(),
        source: "import",
        created_at: crate::clock::utc(),
        origin: String::new(),
        differences: checked.differences,
        request_id: String::new(),
    };
    match store.append(new, 0).await? {
        Written::Stored(number) => Ok(Some(number)),
        Written::MovedOn(_) => Ok(None),
    }
}
