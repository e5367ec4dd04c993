//! What is due is done, by the one that leads.
//!
//! Separate from what people ask for: it runs while nobody looks, one written step after the
//! other. It must never take what another override set for what was there before.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::step::{Step, step};
use super::{Numbered, OverrideError, Overrides, State, numbered};
use crate::clock;
use crate::leader::Leader;
use crate::limits::{Author, LimitsError, place};
use crate::rollout::Published;
use crate::store::StoreError;

/// How often what is due is looked for.
const PERIOD: Duration = Duration::from_secs(1);
/// Steps of one override in one look: written down, set, running.
const STEPS_MAX: usize = 4;

impl Overrides {
    /// Does what is due while this process leads, until it goes down.
    pub(crate) async fn run(self, leader: Leader, stopping: CancellationToken) {
        let mut failing = false;
        loop {
            // Nothing is lost by a cancelled arm: what is due is due at the next look.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(PERIOD) => {}
            }
            if !leader.leads(clock::now()) {
                continue;
            }
            let done = self
                .look(clock::unix_ms(), &|| leader.leads(clock::now()))
                .await;
            let is_new = !std::mem::replace(&mut failing, done.is_err());
            if let (Err(error), true) = (done, is_new) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "overrides that are due wait for the store"
                );
            }
        }
    }

    /// Everything that is due at this moment.
    pub(super) async fn look(
        &self,
        now_ms: i64,
        leads: &impl Fn() -> bool,
    ) -> Result<(), StoreError> {
        let mut rows = self.store.scheduled(true).await?;
        // The end of one comes before the start of the next of the same field, which must not take
        // what the one set for what was there before.
        rows.sort_by_key(|row| (row.ends_ms, row.id));
        let mut busy = HashSet::new();
        for row in rows {
            if busy.contains(&row.slot) {
                continue;
            }
            let mut due = numbered(&row)?;
            let mut was = row.body;
            for _ in 0..STEPS_MAX {
                if !leads() || !self.one_step(&mut due, &mut was, now_ms).await? {
                    break;
                }
            }
            if due.one.state.is_open() {
                busy.insert(row.slot);
            }
        }
        Ok(())
    }

    /// Does the next step; false when there is none for now.
    pub(super) async fn one_step(
        &self,
        due: &mut Numbered,
        was: &mut String,
        now_ms: i64,
    ) -> Result<bool, StoreError> {
        let one = &mut due.one;
        if !one.state.is_open() {
            return Ok(false);
        }
        let current = self.rollout.refresh(None).await?;
        let place = place(&current.document, &one.key, &one.field);
        let is = place.as_ref().and_then(|place| current.document.at(place));
        let mut next = step(one, now_ms, is);
        if place.is_none() && next != Step::Wait {
            one.note = Some(format!("{} is not in the policy any more", one.key));
            next = Step::Over(State::Left);
        }
        match next {
            Step::Wait => return Ok(false),
            Step::Remember(before) => one.before = before,
            Step::Runs => one.state = State::Running,
            Step::Set => match self.write(due, &current, true).await? {
                Some(generation) => due.one.set_generation = Some(generation),
                None if due.one.state.is_open() => return Ok(false),
                None => {}
            },
            Step::Lift => match self.write(due, &current, false).await? {
                Some(generation) => due.one.lifted_generation = Some(generation),
                None if due.one.state.is_open() => return Ok(false),
                None => {}
            },
            Step::Over(state) => {
                one.state = state;
                one.end_asked_by = None;
                if state == State::Left && one.note.is_none() {
                    one.note = Some("somebody else set the field meanwhile: left as it is".into());
                }
            }
        }
        let author = Author {
            name: author_of(due),
            ..Author::default()
        };
        let action = if due.one.state.is_open() {
            "override-step"
        } else {
            "override-over"
        };
        tracing::info!(
            override.id = due.id,
            override.state = ?due.one.state,
            compartment.key = %due.one.key.escape_debug(),
            "bulkhead.override.moved"
        );
        let body = serde_json::to_string(&due.one);
        match self
            .put(due.id, &due.one, was.clone(), action, &author)
            .await
        {
            Ok(_) => {
                *was = body.map_err(|_| StoreError::Row("scheduled.body"))?;
                Ok(true)
            }
            // Cancelled or extended in this moment: the next look has it.
            Err(OverrideError::Limits(LimitsError::Store(error))) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Puts the value, or what was before it, into the policy, on top of what was looked at.
    async fn write(
        &self,
        due: &mut Numbered,
        current: &Arc<Published>,
        is_start: bool,
    ) -> Result<Option<u64>, StoreError> {
        let one = &mut due.one;
        let Some(place) = place(&current.document, &one.key, &one.field) else {
            return Ok(None);
        };
        let value = is_start
            .then_some(&one.value)
            .or_else(|| one.before.value());
        let mut document = current.document.clone();
        match value {
            Some(value) => document.set(&place, value.clone()),
            None => document.remove(&place),
        };
        let does = if is_start { "begins" } else { "ends" };
        let why = if one.comment.is_empty() { "" } else { ": " };
        let comment = format!("override {} {does}{why}{}", due.id, one.comment);
        let author = Author {
            name: author_of(due),
            ..Author::default()
        };
        let seen = current.about.number;
        let written = self
            .limits
            .put(document, seen, false, &comment, &author)
            .await;
        match written {
            Ok(accepted) => Ok(Some(accepted.generation)),
            Err(LimitsError::Store(error)) => Err(error),
            // Somebody came first: looked at anew the next time.
            Err(LimitsError::MovedOn { .. } | LimitsError::Contended) => Ok(None),
            Err(error) => {
                let mut note = error.to_string();
                if let LimitsError::Invalid { faults } = &error
                    && let Some(first) = faults.first()
                {
                    note = first.to_string();
                }
                (due.one.state, due.one.note) = (State::Refused, Some(note));
                Ok(None)
            }
        }
    }
}

/// Whose change it is: the override's, and through it whoever made it.
fn author_of(due: &Numbered) -> String {
    format!("override {} by {}", due.id, due.one.by)
}
