//! The alerts of a running control plane: readings in, store and notices out.
//!
//! Separate because everything here waits for something, and nothing that decides does. It must
//! never hold its lock across a wait, and never let a slow store or receiver delay a reading.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use compartment::Rejection;
use telemetry::names::event;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::alert::{Alert, Cause, Severity, State};
use super::evaluator::{Evaluator, Now, Sample};
use super::facts::Known;
use super::notice::Desk;
use super::rules::Rules;
use super::saved::Saved;
use super::several::Silence;
use super::tell::Tried;
use super::webhook::Webhook;
use super::window::Counts;
use super::words;
use crate::clock;
use crate::leader::Leader;
use crate::readings::Reading;
use crate::rollout::Rollout;
use crate::store::{AlertFilter, AlertRow, Store, StoreError};

/// The line of time begins late, so that what was saved has a past to lie in.
const BEGINNING_MS: u64 = 1 << 40;
/// How many looks at the rules lie between two times that the windows are kept.
const LOOKS_PER_SAVE: u32 = 10;

/// What a control plane is told about its alerts.
#[derive(Clone, Debug, Default)]
pub struct AlertConfig {
    /// Windows and budget.
    pub rules: Rules,
    /// Who is woken.
    pub pages: Option<Webhook>,
    /// Who is told of tickets.
    pub tickets: Option<Webhook>,
}

/// One handle to the alerts; clones are cheap.
#[derive(Clone, Debug)]
pub struct Alerts(pub(super) Arc<Shared>);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: AlertConfig,
    pub(super) store: Store,
    /// Whether this process is the one that looks at the rules.
    pub(super) leader: Leader,
    /// One after the other, so that no older state of an alert is written over a newer one.
    saving: tokio::sync::Mutex<()>,
    began: Instant,
    /// Where pages and notices say that we are.
    pub(super) own: SocketAddr,
    state: Mutex<Inner>,
    /// Something may have to be told.
    pub(super) news: Notify,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) evaluator: Evaluator,
    known: Known,
    pub(super) desk: Desk,
    /// Alerts whose newest state is not in the store yet.
    pub(super) unsaved: Vec<u64>,
    pub(super) tried: Tried,
    /// Those that are not told to the one that leads yet.
    pub(super) silences: Vec<Silence>,
}

impl Alerts {
    /// Takes up what the store knows.
    pub(crate) async fn open(
        config: AlertConfig,
        store: Store,
        own: SocketAddr,
        leader: Leader,
    ) -> Result<Self, StoreError> {
        let now = Now {
            at_ms: BEGINNING_MS,
            unix_ms: clock::unix_ms(),
        };
        let mut evaluator = Evaluator::new(config.rules);
        let reopen_ms = i64::try_from(config.rules.reopen_ms()).unwrap_or(i64::MAX);
        let since_ms = now.unix_ms.saturating_sub(reopen_ms);
        let (bodies, newest) = store.alerts_since(since_ms).await?;
        evaluator.restore_alerts(
            bodies.iter().filter_map(|body| read(body)).collect(),
            newest,
            now,
        );
        let windows = store.alert_windows().await?;
        let saved = windows.and_then(|body| serde_json::from_str::<Saved>(&body).ok());
        if let Some(saved) = saved {
            evaluator.restore_windows(&saved, now);
        }
        let inner = Inner {
            evaluator,
            known: Known::default(),
            desk: Desk::default(),
            unsaved: Vec::new(),
            tried: Tried::default(),
            silences: Vec::new(),
        };
        Ok(Self(Arc::new(Shared {
            config,
            store,
            leader,
            saving: tokio::sync::Mutex::default(),
            began: clock::now(),
            own,
            state: Mutex::new(inner),
            news: Notify::new(),
        })))
    }

    /// Takes the readings of one report.
    pub fn observe(&self, readings: &[Reading]) {
        // The gateway's own comes with every report that says anything.
        let Some(first) = readings.first() else {
            return;
        };
        let at_ms = self.now().at_ms;
        let samples = readings.iter().map(|reading| Sample {
            key: &reading.key,
            level: reading.level,
            counts: counts(reading),
        });
        self.with(|inner| {
            let elapsed_ms = first.elapsed_us / 1_000;
            inner
                .evaluator
                .observe(&first.gateway, at_ms, elapsed_ms, samples);
        });
    }

    /// Looks at the rules, keeps what changed and tells of it, until the process goes down.
    pub(crate) async fn run(self, rollout: Rollout, stopping: CancellationToken) {
        tokio::join!(self.look(rollout, &stopping), self.tell(&stopping));
        // A restart continues where this ends.
        self.save_alerts().await;
        self.save_windows().await;
    }

    async fn look(&self, rollout: Rollout, stopping: &CancellationToken) {
        let (mut looks, mut led) = (0_u32, false);
        loop {
            // Nothing is lost by a cancelled arm: each only says when to look.
            tokio::select! {
                () = stopping.cancelled() => return,
                () = tokio::time::sleep(self.0.config.rules.period()) => {}
            }
            if !self.takes_turn(&mut led).await {
                continue;
            }
            let published = rollout.current();
            let now = self.now();
            let changed = self.with(|inner| {
                inner.known.refresh(&published);
                let known = &inner.known;
                let changed = inner.evaluator.tick(now, &|key, _| known.about(key));
                inner.unsaved.extend(&changed);
                let news = changed.iter().filter_map(|id| inner.evaluator.alert(*id));
                news.filter(|alert| alert.is_news(now.unix_ms))
                    .cloned()
                    .collect::<Vec<_>>()
            });
            for alert in &changed {
                log(alert, &self.0.config.rules);
            }
            self.save_alerts().await;
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS_PER_SAVE) {
                self.save_windows().await;
            }
            self.0.news.notify_one();
        }
    }

    /// Writes the alerts that changed. What cannot be written now is written later; true when
    /// nothing is left to write.
    pub(super) async fn save_alerts(&self) -> bool {
        let _one_at_a_time = self.0.saving.lock().await;
        if !self.0.leader.leads(clock::now()) {
            return false;
        }
        let rows: Vec<AlertRow> = self.with(|inner| {
            let mut ids = std::mem::take(&mut inner.unsaved);
            ids.sort_unstable();
            ids.dedup();
            ids.iter()
                .filter_map(|id| inner.evaluator.alert(*id))
                .map(row)
                .collect()
        });
        if rows.is_empty() {
            return true;
        }
        let ids: Vec<u64> = rows.iter().map(|row| row.id).collect();
        if let Err(error) = self.0.store.put_alerts(rows).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "alerts are not stored"
            );
            self.with(|inner| inner.unsaved.extend(&ids));
            return false;
        }
        true
    }

    async fn save_windows(&self) {
        if !self.0.leader.leads(clock::now()) {
            return;
        }
        let now = self.now();
        let saved = self.with(|inner| inner.evaluator.saved(now));
        // Nothing new in an empty one: what was kept before is older than all windows by then.
        if saved.is_empty() {
            return;
        }
        let Ok(body) = serde_json::to_string(&saved) else {
            return;
        };
        if let Err(error) = self.0.store.put_alert_windows(body).await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "windows are not stored"
            );
        }
    }

    /// What fires and what is pending, worst first.
    pub fn active(&self) -> Vec<Alert> {
        let mut all: Vec<Alert> = self.with(|inner| {
            let firing = inner.evaluator.alerts().filter(|alert| alert.is_firing());
            firing.chain(inner.evaluator.pending()).cloned().collect()
        });
        all.sort_by_key(|alert| {
            (
                alert.state == State::Pending,
                alert.severity,
                alert.since_ms,
                alert.id,
            )
        });
        all
    }

    /// Alerts as the store has them, newest first. What fires is as it is now.
    pub async fn recorded(
        &self,
        filter: &AlertFilter,
        count: u32,
    ) -> Result<Vec<Alert>, StoreError> {
        let bodies = self.0.store.alerts(filter, count).await?;
        let stored = bodies.iter().filter_map(|body| read(body));
        Ok(self.with(|inner| {
            let newer = |alert: Alert| inner.evaluator.alert(alert.id).cloned().unwrap_or(alert);
            stored.map(newer).collect()
        }))
    }

    /// How many alerts fire, by name and severity; every series is there, at 0 too.
    pub fn counts(&self) -> Vec<(Cause, Severity, u64)> {
        self.with(|inner| {
            let one = |cause: Cause, severity: Severity| {
                let mine =
                    |a: &&Alert| (a.cause, a.severity, a.state) == (cause, severity, State::Firing);
                let count = inner.evaluator.alerts().filter(mine).count();
                (cause, severity, u64::try_from(count).unwrap_or(u64::MAX))
            };
            vec![
                one(Cause::Refusing, Severity::Page),
                one(Cause::Refusing, Severity::Ticket),
                one(Cause::Full, Severity::Ticket),
            ]
        })
    }

    /// What became of notices.
    pub fn tried(&self) -> Tried {
        self.with(|inner| inner.tried)
    }

    /// The numbers that decide.
    pub fn rules(&self) -> Rules {
        self.0.config.rules
    }

    /// Where notices of this severity go, for people.
    pub fn receiver(&self, severity: Severity) -> Option<String> {
        self.0.config.receiver(severity).map(Webhook::place)
    }

    pub(super) fn now(&self) -> Now {
        let passed = clock::now()
            .saturating_duration_since(self.0.began)
            .as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        Now {
            at_ms: BEGINNING_MS.saturating_add(passed),
            unix_ms: clock::unix_ms(),
        }
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        // Nothing in there is half-made between two statements that can fail.
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AlertConfig {
    pub(super) fn receiver(&self, severity: Severity) -> Option<&Webhook> {
        match severity {
            Severity::Page => self.pages.as_ref(),
            Severity::Ticket => self.tickets.as_ref(),
        }
    }
}

/// What of a reading counts. A closed compartment refuses because somebody said so.
fn counts(reading: &Reading) -> Counts {
    let (mut refused, mut closed) = (0_u64, 0_u64);
    for (reason, count) in &reading.rejected {
        let sum = if *reason == Rejection::Closed {
            &mut closed
        } else {
            &mut refused
        };
        *sum = sum.saturating_add(*count);
    }
    Counts {
        time_ms: reading.saturated_us / 1_000,
        arrived: reading.arrived.saturating_sub(closed),
        refused,
    }
}

pub(super) fn read(body: &str) -> Option<Alert> {
    let alert = serde_json::from_str(body).ok();
    if alert.is_none() {
        tracing::warn!("the store holds an alert that this build cannot read");
    }
    alert
}

fn row(alert: &Alert) -> AlertRow {
    AlertRow {
        id: alert.id,
        compartment: alert.compartment.clone(),
        state: alert.state.as_str(),
        severity: alert.severity.as_str(),
        resolved_ms: alert.resolved_ms,
        body: serde_json::to_string(alert).unwrap_or_default(),
    }
}

fn log(alert: &Alert, rules: &Rules) {
    let (name, severity) = (alert.cause.alert_name(), alert.severity.as_str());
    match alert.state {
        State::Firing => tracing::warn!(
            alert.id,
            alert = name,
            severity,
            compartment.key = %alert.compartment,
            why = words::why(alert, rules),
            "{}",
            event::ALERT_FIRED
        ),
        State::Resolved => tracing::info!(
            alert.id,
            alert = name,
            severity,
            compartment.key = %alert.compartment,
            why = alert.ended.map(|ended| words::ended(ended, rules)),
            "{}",
            event::ALERT_RESOLVED
        ),
        State::Pending => {}
    }
}
