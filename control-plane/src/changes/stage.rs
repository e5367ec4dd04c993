//! Staging: one gateway gets what is proposed, and nobody else.
//!
//! Separate because a staged document has a generation of its own that no other gateway may run,
//! and because leaving it is a generation, too: numbers only rise, so the way back is a higher one.
//! It must never leave a gateway on what nobody stands for any more.

use std::sync::Arc;

use super::change::Change;
use super::state::{State, Step};
use super::{ChangeError, Changes};
use crate::limits::{self, Author, CONTENDED_MAX, Edit, LimitsError, new_generation};
use crate::store::{Role, STAGED};

impl Changes {
    /// One gateway gets it.
    pub(crate) async fn stage(
        &self,
        number: u64,
        seen: Option<u64>,
        gateway: &str,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        let _turn = self.limits.turn().await?;
        for _ in 0..CONTENDED_MAX {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let mut next = change.step(Step::Stage, comment, author)?;
            self.is_approved(&change, author).await?;
            next.gateway = Some(gateway.to_owned());
            if self.staged(&change, next, comment, author).await? {
                return self.one(number).await;
            }
        }
        Err(LimitsError::Contended.into())
    }

    /// Stores the generation for that one gateway; false when something came first.
    async fn staged(
        &self,
        change: &Change,
        mut next: Change,
        comment: &str,
        author: &Author,
    ) -> Result<bool, ChangeError> {
        let (current, mut checked) = self.on_top(change).await?;
        next.body.staged_on = Some(current.about.number);
        let gateway = next.gateway.clone().unwrap_or_default();
        let mut why = format!("change {} on {gateway} alone", change.number);
        if !comment.is_empty() {
            why.push_str(&format!(": {comment}"));
        }
        let new = new_generation(STAGED, &why, author, &mut checked);
        self.make(next, Role::Staged, new, checked, &current).await
    }

    /// It does not come. Where one gateway runs it, everybody gets the policy in force under a
    /// higher number: that gateway takes no lower one.
    pub(crate) async fn abandon(
        &self,
        number: u64,
        seen: Option<u64>,
        comment: &str,
        author: &Author,
    ) -> Result<Change, ChangeError> {
        let _turn = self.limits.turn().await?;
        for _ in 0..CONTENDED_MAX {
            let change = self.one(number).await?;
            change.is_as(seen)?;
            let next = change.step(Step::Abandon, comment, author)?;
            let done = if change.state == State::Staged {
                let current = self.rollout.refresh(None).await?;
                let edit = Edit::Whole(Arc::new(current.document.clone()));
                let mut checked = limits::check(edit, Some(Arc::clone(&current))).await?;
                let why = format!("change {number} is staged no more: {comment}");
                let new = new_generation("unstage", &why, author, &mut checked);
                self.make(next, Role::Unstaged, new, checked, &current)
                    .await?
            } else {
                self.plain(&next, Some(None), comment, author).await?
            };
            if done {
                return self.one(number).await;
            }
        }
        Err(LimitsError::Contended.into())
    }

    /// The policy moved on under a staged change: its gateway gets both.
    pub(super) async fn restage(&self, change: &Change, own: &Author) -> Result<(), ChangeError> {
        let _turn = self.limits.turn().await?;
        let newest = self.rollout.current().about.number;
        let comment = format!("on top of generation {newest}");
        let mut next = change.clone();
        next.version = change.version.saturating_add(1);
        next.body.took("stage", &crate::clock::utc(), &comment, own);
        // Whoever came first, or whatever the policy is by then: the next look does it.
        let error = match self.staged(change, next, &comment, own).await {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if !matches!(
            error,
            ChangeError::Clash { .. } | ChangeError::Limits(LimitsError::Invalid { .. })
        ) {
            return Err(error);
        }
        // The newest generation is higher than the staged one, so that its gateway takes it.
        let mut next = change.clone();
        next.version = change.version.saturating_add(1);
        next.state = match change.body.approvals.is_empty() {
            true => State::Draft,
            false => State::Approved,
        };
        let comment = format!("staged no more: {error}");
        next.body
            .took("unstage", &crate::clock::utc(), &comment, own);
        self.plain(&next, None, &comment, own).await?;
        Ok(self.rollout.read_staged().await?)
    }
}
