//! Changes of the policy that take more than one step: proposed, approved, staged on one gateway,
//! published, watched, kept or taken back.
//!
//! Separate from the write path, which stores one generation at a time and asks here when a second
//! person has to agree first. Every step is one transaction with its audit row; whoever races reads
//! again. It must never undo what somebody else did after it.

mod body;
mod change;
mod error;
mod guard;
mod merge;
mod open;
mod publish;
mod shown;
mod stage;
mod state;
mod undo;
mod work;

use std::sync::Arc;

use compartment::policy::Value;

pub use body::{Approval, Body, Differs, Guard, KEYS_MAX, STEPS_MAX, Taken};
pub use change::Change;
pub use error::ChangeError;
pub(crate) use guard::Guards;
pub use guard::{GUARD_ARRIVALS_MIN, HEALTHY_MILLI_MAX};
pub use merge::Clash;
use merge::Merged;
pub(crate) use merge::Prefer;
pub(crate) use open::{Draft, open};
pub use publish::{CONFIRM_MAX_MS, CONFIRM_MS, Terms, WATCH_MS};
pub use shown::{Answer, COMPARED_S, Compared, EFFECTS_MAX, Effect, ROUTES_SAFE_MAX, Shown, Sum};
pub use state::{State, Step};

use crate::limits::{self, Author, Edit, Limits, LimitsError};
use crate::live::Live;
use crate::rollout::{Published, Rollout};
use crate::store::{ChangeFilter, ChangeWrite, ChangeWritten, Store, StoreError};

/// The one handle to it; clones are cheap.
#[derive(Clone, Debug)]
pub struct Changes {
    store: Store,
    rollout: Rollout,
    limits: Limits,
    live: Live,
    guards: Guards,
}

impl Changes {
    pub(crate) fn new(store: Store, rollout: Rollout, limits: Limits, live: Live) -> Self {
        Self {
            store,
            rollout,
            limits,
            live,
            guards: Guards::default(),
        }
    }

    /// What guards are told of.
    pub(crate) const fn guards(&self) -> &Guards {
        &self.guards
    }

    /// One change.
    pub async fn one(&self, number: u64) -> Result<Change, ChangeError> {
        let row = self.store.change(number).await?;
        let row = row.ok_or(ChangeError::Unknown(number))?;
        Ok(Change::of(row)?)
    }

    /// In how many seconds the change that became this generation goes unless it is kept.
    pub(crate) async fn left_s(&self, number: u64, generation: u64) -> Option<u64> {
        let change = self.one(number).await.ok()?;
        let is_it = change.state == State::Published && change.published == Some(generation);
        let by = change.body.confirm_by_ms.filter(|_| is_it)?;
        let left = by.saturating_sub(crate::clock::unix_ms()).max(0) / 1_000;
        u64::try_from(left).ok()
    }

    /// Changes, newest first.
    pub(crate) async fn list(
        &self,
        before: Option<u64>,
        state: Option<State>,
        count: u32,
    ) -> Result<Vec<Change>, StoreError> {
        let state = state.map_or(String::new(), |state| state.as_str().to_owned());
        let filter = ChangeFilter { before, state };
        let rows = self.store.changes(&filter, count).await?;
        rows.into_iter().map(Change::of).collect()
    }

    /// Opens a change. `seen` is the generation that the writer edited.
    pub(crate) async fn propose(
        &self,
        edit: Edit,
        comment: &str,
        seen: Option<u64>,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        let current = self.rollout.refresh(None).await?;
        if let Some(seen) = seen.filter(|seen| *seen != current.about.number) {
            return Err(self.limits.moved_on(seen, &current).await?.into());
        }
        let checked = limits::check(edit, Some(Arc::clone(&current))).await?;
        if checked.digest == current.about.digest {
            return Err(ChangeError::Nothing);
        }
        let source = "draft";
        let draft = Draft { source, comment };
        let number = open(&self.store, draft, checked, &current, author).await?;
        self.one(number).await
    }

    /// Makes it propose something else; what was agreed to is void.
    pub(crate) async fn edit(
        &self,
        number: u64,
        seen: Option<u64>,
        edit: Edit,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        loop {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let mut next = change.step(Step::Edit, comment, author)?;
            let current = self.rollout.refresh(None).await?;
            let checked = limits::check(edit.clone(), Some(Arc::clone(&current))).await?;
            if checked.digest == current.about.digest {
                return Err(ChangeError::Nothing);
            }
            let (body, document) = open::proposed(next.body, checked, &current).await?;
            next.body = body;
            next.body.approvals.clear();
            next.body.wrote(author);
            let document = Some(Some(document));
            if self.plain(&next, document, comment, author).await? {
                return self.one(number).await;
            }
        }
    }

    /// Puts it on top of the newest generation. Without a word about values that both changed, it
    /// is refused where there are any.
    pub(crate) async fn rebase(
        &self,
        number: u64,
        seen: Option<u64>,
        prefer: Option<Prefer>,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        loop {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let current = self.rollout.refresh(None).await?;
            let mut next = change.step(Step::Rebase, "", author)?;
            let merged = self.merged(&change, &current, prefer).await?;
            if !merged.clashes.is_empty() {
                if prefer.is_none() {
                    return Err(clash(&change, &current, merged.clashes));
                }
                // Somebody chose: it is not what was agreed to.
                next.state = State::Draft;
                next.body.approvals.clear();
                next.body.wrote(author);
            }
            let edit = Edit::Whole(Arc::new(merged.document));
            let checked = limits::check(edit, Some(Arc::clone(&current))).await?;
            if checked.digest == current.about.digest {
                return Err(ChangeError::Nothing);
            }
            let (body, document) = open::proposed(next.body, checked, &current).await?;
            next.body = body;
            if self.plain(&next, Some(Some(document)), "", author).await? {
                return self.one(number).await;
            }
        }
    }

    /// A second person agrees to what it is.
    pub(crate) async fn approve(
        &self,
        number: u64,
        seen: Option<u64>,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        loop {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let mut next = change.step(Step::Approve, comment, author)?;
            if author.person.is_empty() || change.body.contributors.contains(&author.person) {
                let person = author.person.clone();
                return Err(ChangeError::Own { number, person });
            }
            next.body.approvals.retain(|one| one.by != author.person);
            next.body.approvals.push(Approval {
                by: author.person.clone(),
                at: crate::clock::utc(),
                comment: comment.to_owned(),
            });
            if self.plain(&next, None, comment, author).await? {
                return self.one(number).await;
            }
        }
    }

    /// It stays, whatever the watch says.
    pub(crate) async fn keep(
        &self,
        number: u64,
        seen: Option<u64>,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        loop {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let mut next = change.step(Step::Keep, comment, author)?;
            next.due_ms = None;
            if self.plain(&next, None, comment, author).await? {
                return self.one(number).await;
            }
        }
    }

    /// Stores a step that makes no generation; false when another one came first.
    async fn plain(
        &self,
        next: &Change,
        document: Option<Option<String>>,
        comment: &str,
        author: &Author,
    ) -> Result<bool, ChangeError> {
        let step = next.body.steps.last().map(|step| step.step.clone());
        let step = step.unwrap_or_default();
        let write = ChangeWrite {
            row: next.row()?,
            document,
            makes: None,
            audit: change::audit(next, &step, comment, author),
        };
        match self.store.write_change(write).await? {
            ChangeWritten::Stored { .. } => Ok(true),
            ChangeWritten::Raced | ChangeWritten::MovedOn(_) => Ok(false),
            ChangeWritten::TooMany => Err(ChangeError::TooMany),
            ChangeWritten::Taken(other) => Err(ChangeError::Taken(other)),
        }
    }

    /// What it proposes, on top of `current`.
    async fn merged(
        &self,
        change: &Change,
        current: &Arc<Published>,
        prefer: Option<Prefer>,
    ) -> Result<Merged, ChangeError> {
        let number = change.number;
        let ours = self.store.change_document(number).await?;
        let ours = limits::read(ours.ok_or(ChangeError::Gone(number))?).await?;
        if change.body.base == current.about.number {
            let (document, clashes) = (ours, Vec::new());
            return Ok(Merged { document, clashes });
        }
        let base = self.document(change.body.base).await?;
        merge_off(base, ours, Arc::clone(current), prefer).await
    }

    /// The document of a generation.
    async fn document(&self, number: u64) -> Result<Value, ChangeError> {
        let stored = self.store.generation(number).await?;
        let stored = stored.ok_or(LimitsError::UnknownGeneration(number))?;
        Ok(limits::read(stored.document).await?)
    }
}

/// Off the threads that serve.
async fn merge_off(
    base: Value,
    ours: Value,
    theirs: Arc<Published>,
    prefer: Option<Prefer>,
) -> Result<Merged, ChangeError> {
    let prefer = prefer.unwrap_or(Prefer::Theirs);
    let work = move || merge::merge(&base, &ours, &theirs.document, prefer);
    let merged = tokio::task::spawn_blocking(work).await;
    Ok(merged.map_err(|_| StoreError::Closed)?)
}

fn clash(change: &Change, current: &Published, clashes: Vec<Clash>) -> ChangeError {
    ChangeError::Clash {
        number: change.number,
        base: change.body.base,
        current: current.about.number,
        clashes,
    }
}

#[cfg(test)]
mod tests;
