//! The whole fleet's live figures at every control plane: what our gateways say is told to the
//! others once a second, and what theirs say is taken as if they were connected here.
//!
//! Separate because it goes through the store, which may be slow or away: that costs the figures
//! of other control planes' gateways for as long, and nothing else. It must never write the
//! history: whoever holds the stream does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use wire::stream::proto::Report;
use wire::stream::{report_bytes, report_of};

use crate::clock;
use crate::fleet::{GATEWAYS_MAX, Moment, Told};
use crate::state::AppState;
use crate::store::{LiveRow, LiveTable, Store, StoreError};

/// How often it is told and read.
const PERIOD: Duration = Duration::from_secs(1);
/// A gateway of which nothing new was read for so long is gone.
const LEASE: Duration = Duration::from_secs(5);
/// The same for the server's clock.
const LEASE_US: i64 = 5_000_000;
/// Rows that nobody has replaced for so long are removed, and how often that is looked for.
const FORGET_US: i64 = 60_000_000;
const FORGET_PERIOD: Duration = Duration::from_secs(60);
/// Largest report that is told; of a larger one the tenants are left out.
const REPORT_BYTES_MAX: usize = 1 << 20;
/// Most answers that are read in one second.
const ANSWERS_MAX: usize = 12;

/// What is told of our own gateways. Clones are cheap; without others it does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Elsewhere(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    table: LiveTable,
    /// Names this process.
    replica: String,
    /// The newest report of each gateway that was not told yet, and its stream.
    news: Mutex<BTreeMap<String, (u64, Vec<u8>)>>,
}

/// One gateway that another control plane holds.
#[derive(Debug)]
struct Followed {
    beat_us: i64,
    at: Instant,
    /// Its place in the fleet, unless it is connected here.
    stream: Option<u64>,
}

/// All of them, by name.
type All = BTreeMap<String, Followed>;

impl Elsewhere {
    pub(crate) fn of(store: &Store) -> Self {
        Self(store.live().map(|table| {
            Arc::new(Inner {
                table,
                replica: uuid::Uuid::now_v7().to_string(),
                news: Mutex::default(),
            })
        }))
    }

    /// A report came on a stream of ours.
    pub(crate) fn note(&self, gateway: &str, stream: u64, report: &Report) {
        let Some(inner) = &self.0 else { return };
        let bytes = bounded(report);
        let mut news = inner.news();
        if news.len() < GATEWAYS_MAX || news.contains_key(gateway) {
            news.insert(gateway.to_owned(), (stream, bytes));
        }
    }

    /// Tells and reads until the process goes down.
    pub(crate) async fn run(self, state: AppState, stopping: CancellationToken) {
        let Some(inner) = &self.0 else { return };
        let mut all = All::new();
        let (mut failing, mut forgot) = (false, None::<Instant>);
        let mut period = tokio::time::interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Nothing is lost by a cancelled arm: the newest is told the next time.
            tokio::select! {
                () = stopping.cancelled() => break,
                _ = period.tick() => {}
            }
            let mut done = inner.exchange(&state, &mut all).await;
            end_leases(&state, &mut all);
            let now = clock::now();
            let due = |at: Instant| now.saturating_duration_since(at) >= FORGET_PERIOD;
            if done.is_ok() && forgot.is_none_or(due) {
                forgot = Some(now);
                done = inner.table.forget(FORGET_US).await;
            }
            let is_new = !std::mem::replace(&mut failing, done.is_err());
            if let (Err(error), true) = (done, is_new) {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "figures of other control planes' gateways are not exchanged"
                );
            }
        }
        inner.table.close().await;
    }
}

impl Inner {
    fn news(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, (u64, Vec<u8>)>> {
        // It holds whole entries only.
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(&self, state: &AppState, all: &mut All) -> Result<(), StoreError> {
        let news = std::mem::take(&mut *self.news());
        let rows: Vec<LiveRow> = news
            .into_iter()
            .filter_map(|(gateway, (stream, report))| {
                let told = state.fleet.told(stream)?;
                let state = serde_json::to_string(&told).ok()?;
                Some(LiveRow {
                    gateway,
                    state,
                    report,
                })
            })
            .collect();
        if !rows.is_empty() {
            self.table.put(&self.replica, rows).await?;
        }
        state.watched.learn(&state.rollout.current());
        for _ in 0..ANSWERS_MAX {
            let known = all.iter().map(|(id, one)| (id.clone(), one.beat_us));
            let known = known.unzip();
            let (rows, more) = self.table.changed(&self.replica, LEASE_US, known).await?;
            for (row, beat_us) in rows {
                take(state, all, row, beat_us);
                // One after the other: many large reports must not keep a thread from its streams.
                tokio::task::yield_now().await;
            }
            if !more {
                break;
            }
        }
        Ok(())
    }
}

/// Takes what another control plane told of one of its gateways.
fn take(state: &AppState, all: &mut All, row: LiveRow, beat_us: i64) {
    let now = Moment::now();
    let one = all.entry(row.gateway.clone()).or_insert(Followed {
        beat_us,
        at: now.at,
        stream: None,
    });
    (one.beat_us, one.at) = (beat_us, now.at);
    if state.fleet.is_here(&row.gateway, now.at) {
        one.stream = None;
        return;
    }
    let told = serde_json::from_str::<Told>(&row.state).ok();
    let Some((told, report)) = told.zip(report_of(&row.report)) else {
        // Another build's form: the gateway is listed when one that can read it holds its stream.
        return;
    };
    let known = one
        .stream
        .filter(|stream| state.fleet.follow(*stream, &told, now.clone()));
    if known.is_none() {
        one.stream = state.fleet.connect_elsewhere(&row.gateway, &told, now).ok();
    }
    if let Some(stream) = one.stream {
        // One that is not understood here was not understood there.
        let _understood = state.take_report(&row.gateway, stream, told.generation, report, false);
    }
}

/// Those of which nothing new came are gone.
fn end_leases(state: &AppState, all: &mut All) {
    let now = Moment::now();
    all.retain(|_, one| {
        let lives = now.at.saturating_duration_since(one.at) < LEASE;
        if let (Some(stream), false) = (one.stream, lives) {
            state.fleet.disconnect(stream, &now);
        }
        lives
    });
}

/// A report as bytes, without its tenants when it is too large, and without anything but its
/// marks when that is not enough.
fn bounded(report: &Report) -> Vec<u8> {
    let whole = report_bytes(report);
    if whole.len() <= REPORT_BYTES_MAX {
        return whole;
    }
    let mut less = report.clone();
    less.newest.clear();
    let before = less.compartments.len();
    less.compartments
        .retain(|one| !one.level.starts_with("tenant"));
    let left_out = u32::try_from(before.saturating_sub(less.compartments.len()));
    less.left_out = less.left_out.saturating_add(left_out.unwrap_or(u32::MAX));
    let bytes = report_bytes(&less);
    if bytes.len() <= REPORT_BYTES_MAX {
        return bytes;
    }
    less.compartments.clear();
    report_bytes(&less)
}

#[cfg(test)]
mod tests {
    use wire::stream::proto::Compartment;

    use super::*;

    #[test]
    fn what_is_told_of_a_report_is_bounded_and_tenants_go_first() {
        let compartment = |key: String, level: &str| Compartment {
            key,
            level: level.to_owned(),
            ..Compartment::default()
        };
        let tenants = |count: usize| {
            (0..count).map(move |n| compartment(format!("tenant/{n:0100}"), "tenant"))
        };
        let routes =
            |count: usize| (0..count).map(move |n| compartment(format!("route/{n:0100}"), "route"));
        let told = |all: Vec<Compartment>| {
            let report = Report {
                sequence: 7,
                compartments: all,
                ..Report::default()
            };
            let bytes = bounded(&report);
            assert!(bytes.len() <= REPORT_BYTES_MAX, "{}", bytes.len());
            let told = report_of(&bytes).unwrap();
            assert_eq!(told.sequence, 7);
            (told.compartments.len(), told.left_out)
        };
        assert_eq!(told(routes(3).chain(tenants(5)).collect()), (8, 0));
        let many = told(routes(3).chain(tenants(20_000)).collect());
        assert_eq!(many, (3, 20_000));
        assert_eq!(told(routes(20_000).collect()).0, 0);
        assert!(report_of(b"\xff\xff\xff").is_none());
    }
}
