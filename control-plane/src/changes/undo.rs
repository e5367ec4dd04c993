//! Taking a published change back: what it changed, and only that.
//!
//! Separate because history is never rewritten: the way back is a generation on top of whatever is
//! the newest. It must never undo what somebody else did to the same values afterwards.

use std::sync::Arc;

use super::change::Change;
use super::state::Step;
use super::{ChangeError, Changes, Draft, Prefer, clash, merge_off, open};
use crate::limits::{self, Author, CONTENDED_MAX, Checked, Edit, LimitsError, new_generation};
use crate::rollout::Published;
use crate::store::{Role, StoreError};

impl Changes {
    /// Takes it back. Where the setting asks for a second person it is opened as a change, and that
    /// one is the answer, except while its own deadline or guard may still take it back: that it
    /// may go was agreed to with it.
    pub(crate) async fn revert(
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
            let mut next = change.step(Step::Revert, comment, author)?;
            next.due_ms = None;
            let (current, checked) = self.without(&change).await?;
            let why = match comment {
                "" => format!("reverts change {number}"),
                comment => format!("reverts change {number}: {comment}"),
            };
            if checked.digest == current.about.digest {
                // Somebody undid it already.
                if self.plain(&next, None, comment, author).await? {
                    return self.one(number).await;
                }
                continue;
            }
            let may_go = change.may_go(crate::clock::unix_ms());
            if !may_go && self.limits.asks_second(author).await? {
                let source = "revert";
                let comment = why.as_str();
                let draft = Draft { source, comment };
                let opened = open(&self.store, draft, checked, &current, author).await?;
                return self.one(opened).await;
            }
            if self
                .reverted(next, &why, (current, checked), author)
                .await?
            {
                return self.one(number).await;
            }
        }
        Err(LimitsError::Contended.into())
    }

    async fn reverted(
        &self,
        next: Change,
        why: &str,
        (current, mut checked): (Arc<Published>, Checked),
        author: &Author,
    ) -> Result<bool, ChangeError> {
        let new = new_generation("revert", why, author, &mut checked);
        self.make(next, Role::Reverted, new, checked, &current)
            .await
    }

    /// The newest policy without what this change did.
    async fn without(&self, change: &Change) -> Result<(Arc<Published>, Checked), ChangeError> {
        let gone = ChangeError::Gone(change.number);
        let (Some(published), Some(before)) = (change.published, change.body.before) else {
            return Err(gone);
        };
        let current = self.rollout.refresh(None).await?;
        let base = self.document(published).await?;
        let ours = self.document(before).await?;
        let prefer = Some(Prefer::Theirs);
        let merged = merge_off(base, ours, Arc::clone(&current), prefer).await?;
        if !merged.clashes.is_empty() {
            return Err(clash(change, &current, merged.clashes));
        }
        let edit = Edit::Whole(Arc::new(merged.document));
        let checked = limits::check(edit, Some(Arc::clone(&current))).await?;
        Ok((current, checked))
    }

    /// Nobody kept it, or its guard says so. Where others changed the same values meanwhile,
    /// nothing is done but said.
    pub(super) async fn revert_itself(
        &self,
        change: &Change,
        why: &str,
        own: &Author,
    ) -> Result<(), ChangeError> {
        let seen = Some(change.version);
        match self.revert(change.number, seen, why, own).await {
            Ok(_) => {
                tracing::warn!(change = change.number, "a change was taken back: {why}");
                Ok(())
            }
            Err(
                error @ (ChangeError::Clash { .. }
                | ChangeError::Gone(_)
                | ChangeError::Limits(
                    LimitsError::Invalid { .. }
                    | LimitsError::UnknownGeneration(_)
                    | LimitsError::Store(StoreError::NotKept(_)),
                )),
            ) => {
                let said = format!("not taken back ({why}): {}", told(&error));
                tracing::error!(change = change.number, "a change was {said}");
                self.keep(change.number, seen, &said, own).await.map(drop)
            }
            // Somebody kept it or took it back in this moment.
            Err(ChangeError::Moved { .. } | ChangeError::State { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The error, and which values it is about.
fn told(error: &ChangeError) -> String {
    let ChangeError::Clash { clashes, .. } = error else {
        return error.to_string();
    };
    let paths = clashes.iter().take(5).map(|clash| clash.path.to_string());
    let paths = paths.collect::<Vec<_>>().join(", ");
    format!("{error} ({paths})")
}
