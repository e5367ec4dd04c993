//! Publishing: the step that everybody gets.
//!
//! Separate because here a change becomes a generation, on top of whatever is the newest, and what
//! takes it back by itself is set. It must never publish what the setting says nobody agreed to.

use std::sync::Arc;

use super::body::Guard;
use super::change::Change;
use super::guard;
use super::open::{Draft, begin};
use super::state::{State, Step};
use super::{ChangeError, Changes, Prefer, clash};
use crate::limits::{
    self, Accepted, Author, CONTENDED_MAX, Checked, Edit, LimitsError, about, new_generation,
};
use crate::rollout::Published;
use crate::store::{AuditRow, ChangeWrite, ChangeWritten, Makes, NewGeneration, Role, StoreError};

/// How long a dangerous change of a page waits for somebody to keep it.
pub const CONFIRM_MS: u64 = 5 * 60_000;
/// The longest such wait.
pub const CONFIRM_MAX_MS: u64 = 24 * 3_600_000;
/// How long a guard watches unless it is told otherwise.
pub const WATCH_MS: u64 = 15 * 60_000;

/// What takes a change back by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Goes unless somebody keeps it within so long.
    pub confirm_within_ms: Option<u64>,
    /// Goes when more than so many thousandths are refused where it was healthy.
    pub guard_milli: Option<u32>,
    /// For so long that is watched; without it as long as somebody may keep it, or 15 minutes.
    pub watch_for_ms: Option<u64>,
}

impl Changes {
    /// Everybody gets it, on top of the newest generation.
    pub(crate) async fn publish(
        &self,
        number: u64,
        seen: Option<u64>,
        terms: Terms,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        let _turn = self.limits.turn().await?;
        for _ in 0..CONTENDED_MAX {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let next = change.step(Step::Publish, comment, author)?;
            self.is_approved(&change, author).await?;
            let (current, mut checked) = self.on_top(&change).await?;
            let why = match comment {
                "" => &change.body.comment,
                comment => comment,
            };
            let new = new_generation("publish", why, author, &mut checked);
            let next = self.published(next, terms, &current);
            if self
                .make(next, Role::Published, new, checked, &current)
                .await?
            {
                return self.one(number).await;
            }
        }
        Err(LimitsError::Contended.into())
    }

    /// One compartment at once, as a change that goes by itself unless somebody keeps it. Where the
    /// setting asks for a second person it is opened only.
    pub(crate) async fn now(
        &self,
        key: &str,
        fields: &limits::Fields,
        seen: u64,
        terms: Terms,
        author: &Author,
    ) -> Result<Accepted, LimitsError> {
        if self.limits.asks_second(author).await? {
            return self
                .limits
                .patch(key, fields, Some(seen), false, author)
                .await;
        }
        let _turn = self.limits.turn().await?;
        let current = self.rollout.refresh(None).await?;
        if seen != current.about.number {
            return Err(self.limits.moved_on(seen, &current).await?);
        }
        let edit = Edit::Fields {
            key: key.to_owned(),
            values: fields.values.clone(),
        };
        let mut checked = limits::check(edit, Some(Arc::clone(&current))).await?;
        let findings = checked.findings.clone();
        let new = new_generation("patch", &fields.comment, author, &mut checked);
        let draft = Draft {
            source: "patch",
            comment: &fields.comment,
        };
        let (shown, checked) = checked.again();
        let (mut change, _) = begin(draft, shown, &current, author).await?;
        change.state = State::Published;
        let at = change.created_at.clone();
        change.body.took("publish", &at, &fields.comment, author);
        let change = self.published(change, terms, &current);
        let (made, about) = (Makes::of(Role::Published, new, &current), &current.about);
        let (written, made) = self.write(change, made).await?;
        let ChangeWritten::Stored {
            number,
            generation: Some(generation),
        } = written
        else {
            return Err(match written {
                ChangeWritten::TooMany => LimitsError::TooManyOpen,
                ChangeWritten::Stored { .. }
                | ChangeWritten::Raced
                | ChangeWritten::Taken(_)
                | ChangeWritten::MovedOn(_) => {
                    let now = self.rollout.refresh(None).await?;
                    self.limits.moved_on(about.number, &now).await?
                }
            });
        };
        self.tell(checked, made, generation).await;
        Ok(Accepted {
            generation,
            findings,
            stored: true,
            change: Some(number),
        })
    }

    /// With what takes it back by itself.
    fn published(&self, mut next: Change, terms: Terms, current: &Published) -> Change {
        let now_ms = crate::clock::unix_ms();
        let at = |span: u64| now_ms.saturating_add(i64::try_from(span).unwrap_or(i64::MAX));
        let body = &mut next.body;
        body.before = Some(current.about.number);
        body.published_ms = Some(now_ms);
        body.confirm_by_ms = terms.confirm_within_ms.map(at);
        let watch = terms.watch_for_ms.or(terms.confirm_within_ms);
        body.guard = terms.guard_milli.map(|refused_milli| Guard {
            refused_milli,
            until_ms: at(watch.unwrap_or(WATCH_MS)),
            unhealthy: guard::unhealthy(&self.live),
        });
        let watched = body.guard.as_ref().map(|guard| guard.until_ms);
        next.due_ms = body.confirm_by_ms.or(watched);
        next
    }

    /// An error where the setting asks for somebody who did not agree yet.
    pub(super) async fn is_approved(
        &self,
        change: &Change,
        author: &Author,
    ) -> Result<(), ChangeError> {
        let asks = self.limits.asks_second(author).await?;
        if asks && change.body.approvals.is_empty() {
            return Err(ChangeError::NotApproved(change.number));
        }
        Ok(())
    }

    /// What it makes of the newest generation, checked.
    pub(super) async fn on_top(
        &self,
        change: &Change,
    ) -> Result<(Arc<Published>, Checked), ChangeError> {
        let current = self.rollout.refresh(None).await?;
        let merged = self.merged(change, &current, Some(Prefer::Theirs)).await?;
        if !merged.clashes.is_empty() {
            return Err(clash(change, &current, merged.clashes));
        }
        let edit = Edit::Whole(Arc::new(merged.document));
        let checked = limits::check(edit, Some(Arc::clone(&current))).await?;
        Ok((current, checked))
    }

    /// Stores a step with its generation; false when something came first.
    pub(super) async fn make(
        &self,
        next: Change,
        role: Role,
        new: NewGeneration,
        checked: Checked,
        current: &Published,
    ) -> Result<bool, ChangeError> {
        let (written, new) = self.write(next, Makes::of(role, new, current)).await?;
        match written {
            ChangeWritten::Stored { generation, .. } => {
                if let Some(number) = generation.filter(|_| role != Role::Staged) {
                    self.tell(checked, new, number).await;
                }
                // What is staged, or not any more, is known at once here and soon elsewhere.
                if let Err(error) = self.rollout.read_staged().await {
                    tracing::warn!(error = &error as &dyn std::error::Error, "staged later");
                }
                Ok(true)
            }
            ChangeWritten::Raced | ChangeWritten::MovedOn(_) => Ok(false),
            ChangeWritten::TooMany => Err(ChangeError::TooMany),
            ChangeWritten::Taken(other) => Err(ChangeError::Taken(other)),
        }
    }

    /// The answer, and the generation without its text.
    async fn write(
        &self,
        next: Change,
        makes: Makes,
    ) -> Result<(ChangeWritten, NewGeneration), StoreError> {
        let new = &makes.new;
        let told = NewGeneration {
            document: String::new(),
            digest: new.digest.clone(),
            author: new.author.clone(),
            comment: new.comment.clone(),
            source: new.source,
            created_at: new.created_at.clone(),
            origin: new.origin.clone(),
            differences: new.differences.clone(),
            request_id: new.request_id.clone(),
        };
        let audit = AuditRow {
            at: told.created_at.clone(),
            action: told.source.to_owned(),
            who: told.author.clone(),
            origin: told.origin.clone(),
            differences: told.differences.clone(),
            comment: told.comment.clone(),
            request_id: told.request_id.clone(),
            ..AuditRow::default()
        };
        // What is a generation needs no copy, unless it may be one for others later.
        let keeps = next.state.is_open();
        let write = ChangeWrite {
            row: next.row()?,
            document: (!keeps).then_some(None),
            makes: Some(makes),
            audit,
        };
        Ok((self.store.write_change(write).await?, told))
    }

    /// It is on disk: from here on nothing may turn the answer into a failure.
    async fn tell(&self, checked: Checked, new: NewGeneration, number: u64) {
        let published = checked.publish(about(&new, number), self.store.epoch());
        if let Err(error) = self.rollout.refresh(Some(published)).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "published later");
        }
    }
}

impl Makes {
    /// On top of what its writer knows.
    fn of(role: Role, new: NewGeneration, current: &Published) -> Self {
        let seen = current.about.number;
        Self { role, new, seen }
    }
}
