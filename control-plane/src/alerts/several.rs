//! Alerts where several control planes share a store: one looks at the rules, the others follow.
//!
//! Separate because a process that is alone needs none of it. What the one that leads stored is
//! what there is: it tells of nothing that is not stored, so whoever takes over makes no second
//! alert of the same trouble and loses none. It must never write an alert while another one leads.

use serde::{Deserialize, Serialize};

use super::service::{Alerts, read};
use crate::clock;
use crate::store::StoreError;

/// Before the number of an alert that somebody silenced where nobody leads.
const SILENCE: &str = "alert/silence/";
/// Most silences that wait for a store that is away.
const SILENCES_MAX: usize = 100;

/// A silence on its way to the one that leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Silence {
    id: u64,
    until_ms: i64,
    by: String,
}

impl Alerts {
    /// Whether this process looks at the rules now; one that does not keeps up with the one that
    /// does. `led`: it did the last time.
    pub(super) async fn takes_turn(&self, led: &mut bool) -> bool {
        let leader = &self.0.leader;
        if !leader.has_others() {
            return true;
        }
        let leads = leader.leads(clock::now());
        if leads && *led {
            self.take_silences().await;
            return true;
        }
        *led = false;
        if !leads {
            self.pass_silences_on().await;
        }
        match self.follow().await {
            Ok(()) => *led = leads,
            Err(error) => tracing::debug!(
                error = &error as &dyn std::error::Error,
                "alerts of other processes are not read"
            ),
        }
        *led
    }

    /// Takes up what the store knows, in place of what this process thought.
    async fn follow(&self) -> Result<(), StoreError> {
        let now = self.now();
        let reopen_ms = i64::try_from(self.0.config.rules.reopen_ms()).unwrap_or(i64::MAX);
        let since_ms = now.unix_ms.saturating_sub(reopen_ms);
        let (bodies, newest) = self.0.store.alerts_since(since_ms).await?;
        let alerts = bodies.iter().filter_map(|body| read(body)).collect();
        self.with(|inner| {
            inner.unsaved.clear();
            inner.evaluator.follow(alerts, newest, now);
        });
        Ok(())
    }

    /// Nobody is told of an alert before `until_ms`.
    pub fn silence(&self, id: u64, until_ms: i64, by: &str) -> bool {
        if self.0.leader.has_others() {
            let by = by.to_owned();
            self.with(|inner| {
                if inner.silences.len() < SILENCES_MAX {
                    inner.silences.push(Silence { id, until_ms, by });
                }
            });
        }
        self.silence_here(id, until_ms, by)
    }

    fn silence_here(&self, id: u64, until_ms: i64, by: &str) -> bool {
        self.with(|inner| {
            let Some(alert) = inner
                .evaluator
                .alert_mut(id)
                .filter(|alert| alert.is_firing())
            else {
                return false;
            };
            alert.silenced_until_ms = until_ms;
            by.clone_into(&mut alert.silenced_by);
            inner.unsaved.push(id);
            true
        })
    }

    async fn pass_silences_on(&self) {
        let waiting = self.with(|inner| std::mem::take(&mut inner.silences));
        for silence in waiting {
            let name = format!("{SILENCE}{}", silence.id);
            let Ok(body) = serde_json::to_string(&silence) else {
                continue;
            };
            if self.0.store.put_meta(name, Some(body), None).await.is_err() {
                self.with(|inner| inner.silences.push(silence));
            }
        }
    }

    /// What others silenced. It is forgotten when it is in the alerts that are stored.
    async fn take_silences(&self) {
        let mut waiting = self.with(|inner| std::mem::take(&mut inner.silences));
        let Ok(stored) = self.0.store.meta(SILENCE).await else {
            self.with(|inner| inner.silences = waiting);
            return;
        };
        let parsed = stored.iter().map(|(_, body)| serde_json::from_str(body));
        waiting.extend(parsed.filter_map(Result::ok));
        for Silence { id, until_ms, by } in waiting {
            self.silence_here(id, until_ms, &by);
        }
        if stored.is_empty() || !self.save_alerts().await {
            return;
        }
        for (name, _) in stored {
            // One that stays is taken once more, which changes nothing.
            let _stays = self.0.store.put_meta(name, None, None).await;
        }
    }
}
