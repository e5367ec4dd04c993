//! The only write path of the policy.
//!
//! Separate so that API, pages and import cannot differ: current + change, the whole document
//! checked and linted, one transaction on top of the generation the writer saw, rollout woken.
//! It must never store a document that a gateway of this build would refuse.

mod checked;
mod entry;
mod made;
mod target;

use std::sync::Arc;
use std::time::Duration;

use compartment::policy::{Fault, Value};
use tokio::sync::{Mutex, OwnedMutexGuard};
use wire::document::Difference;

use crate::changes::{self, Draft};
use crate::clock;
use crate::linter::Finding;
use crate::rollout::{Published, Rollout};
use crate::settings::{Approvals, Settings};
use crate::store::{AuditRow, Store, StoreError, Written};

pub use checked::refuses;
pub(crate) use checked::{Checked, check};
pub use entry::{Asked, Entry, Named, NewKey};
pub(crate) use made::{about, new_generation, read, write_first};
pub(crate) use target::place;

/// Tries on top of another process's writes before a change without a version gives up.
pub(crate) const CONTENDED_MAX: u32 = 8;
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
    /// The person behind it, whichever door was used: a token of Ann's is Ann. Empty for the
    /// process itself.
    pub person: String,
    /// A token with the scope `emergency`: no second person is asked for.
    pub emergency: bool,
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
    /// The change that was opened instead, or that holds what was stored.
    pub change: Option<u64>,
}

impl Accepted {
    /// Nothing was stored: it waits for a second person in this change.
    pub fn opened(&self) -> Option<u64> {
        self.change.filter(|_| !self.stored)
    }
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
    /// No such tenant, plan or key.
    #[error("there is no {what} {id:?} in the policy")]
    UnknownEntry { what: &'static str, id: String },
    /// One of this name is there.
    #[error("there is a {what} {id:?} already")]
    Exists { what: &'static str, id: String },
    /// A plan that would leave tenants without one.
    #[error("plan {plan:?} stays: tenants that are on it: {tenants}")]
    InUse { plan: String, tenants: usize },
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
    /// The setting `approvals` asks for a second person, and too many changes wait for one.
    #[error("too many changes are open: publish or abandon some")]
    TooManyOpen,
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
    /// Fields of several do.
    Several(Vec<(String, Vec<(String, Value)>)>),
    /// One tenant or plan.
    Entry {
        named: Named,
        id: String,
        entry: Entry,
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
    settings: Settings,
    /// One writer of this process at a time: the next one builds on what this one stored.
    turn: Arc<Mutex<()>>,
}

impl Limits {
    pub(crate) fn new(store: Store, rollout: Rollout) -> Self {
        Self {
            settings: Settings::new(store.clone()),
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
        let _turn = self.turn().await?;
        for _ in 0..CONTENDED_MAX {
            let current = self.rollout.refresh(None).await?;
            if let Some(seen) = change.seen.filter(|seen| *seen != current.about.number) {
                return Err(self.moved_on(seen, &current).await?);
            }
            let (number, digest) = (current.about.number, current.about.digest.clone());
            let checked = check(change.edit.clone(), Some(Arc::clone(&current))).await?;
            if change.dry_run || (checked.digest == digest && !change.always) {
                let findings = checked.findings;
                return Ok(Accepted {
                    generation: number,
                    findings,
                    stored: false,
                    change: None,
                });
            }
            let findings = checked.findings.clone();
            if self.asks_second(change.author).await? {
                let (source, comment) = (change.source, change.comment);
                let draft = Draft { source, comment };
                let opened = changes::open(&self.store, draft, checked, &current, change.author);
                return Ok(Accepted {
                    generation: number,
                    findings,
                    stored: false,
                    change: Some(opened.await?),
                });
            }
            if let Some(generation) = self.store(&change, checked, number).await? {
                return Ok(Accepted {
                    generation,
                    findings,
                    stored: true,
                    change: None,
                });
            }
        }
        Err(LimitsError::Contended)
    }

    /// Whether this writer's changes wait for a second person. What the process does by itself was
    /// agreed to when it was ordered, or is a way back.
    pub(crate) async fn asks_second(&self, author: &Author) -> Result<bool, StoreError> {
        let asked = self.settings.approvals().await? == Approvals::All;
        Ok(asked && !author.emergency && !author.person.is_empty())
    }

    /// The turn of this process's writers.
    pub(crate) async fn turn(&self) -> Result<OwnedMutexGuard<()>, StoreError> {
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = tokio::time::timeout(TURN_MAX, turn).await;
        turn.map_err(|_| StoreError::Busy)
    }

    /// Stores and publishes; `None` when another process came first.
    async fn store(
        &self,
        change: &Change<'_>,
        mut checked: Checked,
        seen: u64,
    ) -> Result<Option<u64>, LimitsError> {
        let new = new_generation(change.source, change.comment, change.author, &mut checked);
        let mut about = about(&new, 0);
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

    pub(crate) async fn moved_on(
        &self,
        seen: u64,
        current: &Arc<Published>,
    ) -> Result<LimitsError, StoreError> {
        let number = current.about.number;
        let old = match self.store.generation(seen).await {
            // Nobody can tell any more what differs; that it moved on is true all the same.
            Err(StoreError::NotKept(_)) => None,
            read => read?,
        };
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
