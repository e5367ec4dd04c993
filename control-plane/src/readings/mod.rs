//! What was measured: intervals of compartments, made from the gateways' cumulative figures.
//!
//! Separate so that the stream, the history and the alerts speak of the same thing. A reading is
//! what lies between two reports of one process; it must never be made of two processes.

mod ledger;
mod place;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use compartment::{Figures, Histogram, Level, Limit, Rejection};
use wire::stream::proto;

use crate::fleet::GATEWAYS_MAX;
pub use ledger::GAP_MAX_US;
use ledger::Ledger;
pub(crate) use ledger::is_tenant;

/// How long the account of a gateway that says nothing is kept.
const SILENT_MAX: Duration = Duration::from_secs(600);
/// Longest name of a process.
const BOOT_BYTES_MAX: usize = 64;

/// One interval of one compartment of one gateway.
///
/// Made once for each report. A compartment without traffic in the interval has none, but for
/// the gateway's own (`gateway`), which comes with every report: no reading of it, nothing heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Which gateway measured it.
    pub gateway: Arc<str>,
    /// Which compartment.
    pub key: Arc<str>,
    /// Its level.
    pub level: Level,
    /// When the interval began, in milliseconds since 1970, on the control plane's clock.
    pub from_ms: i64,
    /// How long it is, on the gateway's clock that never jumps.
    pub elapsed_us: u64,
    /// The limit in force at its end.
    pub limit: Limit,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Permits given.
    pub admitted: u64,
    /// Permits given back.
    pub completed: u64,
    /// Refusals by reason; reasons that did not happen are absent.
    pub rejected: Vec<(Rejection, u64)>,
    /// Refusals that a shadow limit would have made.
    pub shadow_rejected: Vec<(Rejection, u64)>,
    /// Refusals that a candidate limit would have made.
    pub candidate_rejected: u64,
    /// Requests that left while they waited.
    pub left_queue: u64,
    /// Integral of the permits out: divided by `elapsed_us`, their mean.
    pub in_flight_us: u64,
    /// The most permits out at once.
    pub peak: u32,
    /// Time with permits out and a slot free.
    pub busy_us: u64,
    /// Time at the limit.
    pub saturated_us: u64,
    /// How long permits that came back were held, in microseconds.
    pub hold: Histogram,
    /// How long those who waited did, in microseconds.
    pub wait: Histogram,
}

impl Reading {
    /// An interval in which nothing happened.
    pub fn empty(
        gateway: Arc<str>,
        key: Arc<str>,
        level: Level,
        from_ms: i64,
        elapsed_us: u64,
    ) -> Self {
        Self {
            gateway,
            key,
            level,
            from_ms,
            elapsed_us,
            limit: Limit::UNLIMITED,
            arrived: 0,
            admitted: 0,
            completed: 0,
            rejected: Vec::new(),
            shadow_rejected: Vec::new(),
            candidate_rejected: 0,
            left_queue: 0,
            in_flight_us: 0,
            peak: 0,
            busy_us: 0,
            saturated_us: 0,
            hold: Histogram::new(),
            wait: Histogram::new(),
        }
    }

    /// All refusals.
    pub fn refused(&self) -> u64 {
        let counts = self.rejected.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }
}

/// When a report came, on both clocks of the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// For ages.
    pub at: Instant,
    /// Milliseconds since 1970.
    pub unix_ms: i64,
}

/// Which report of which process it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportMark {
    /// The process; empty from a gateway that does not tell.
    pub boot_id: String,
    /// Its number among the reports of that process.
    pub sequence: u64,
    /// Since the process began.
    pub uptime_us: u64,
    /// The gateway's wall clock.
    pub at_unix_ms: i64,
    /// Compartments that found no place in it.
    pub left_out: u32,
}

impl ReportMark {
    /// What a report says of itself, its text bounded.
    pub fn of(report: &proto::Report) -> Self {
        Self {
            boot_id: wire::stream::bounded_text(&report.boot_id, BOOT_BYTES_MAX),
            sequence: report.sequence,
            uptime_us: report.uptime_us,
            at_unix_ms: report.at_unix_ms,
            left_out: report.left_out,
        }
    }
}

/// What a report was good for.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Nothing: one that is newer was taken before.
    Late,
    /// These happened since the one before; empty after a gap.
    Readings(Vec<Reading>),
}

/// What is in no reading, because nobody heard of it in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Missed {
    /// Intervals that were too long.
    pub gaps: u64,
    /// All of them together.
    pub us: u64,
    /// Arrivals in them, each counted at every compartment it passed.
    pub arrived: u64,
}

impl Missed {
    fn add(&mut self, more: Self) {
        self.gaps = self.gaps.saturating_add(more.gaps);
        self.us = self.us.saturating_add(more.us);
        self.arrived = self.arrived.saturating_add(more.arrived);
    }
}

/// The accounts of all gateways.
#[derive(Clone, Debug, Default)]
pub struct Readings(Arc<Mutex<Accounts>>);

#[derive(Debug, Default)]
struct Accounts {
    known: HashMap<Arc<str>, Account>,
    /// What was missed of gateways that are forgotten: a sum never goes down.
    gone: Missed,
}

#[derive(Debug)]
struct Account {
    heard: Instant,
    /// Locked for as long as a report takes: whoever holds the accounts must not wait for it.
    ledger: Arc<Mutex<Ledger>>,
    /// What the ledger said after its newest report.
    missed: Missed,
    skew_ms: i64,
}

impl Readings {
    /// Takes one report. `figures` are sorted by key, each key once ([`sorted`]).
    pub fn take(
        &self,
        gateway: &str,
        mark: &ReportMark,
        figures: &Arc<Vec<Figures>>,
        received: Received,
    ) -> Taken {
        let Some((gateway, ledger)) = self.account(gateway, received.at) else {
            return Taken::Readings(Vec::new());
        };
        // An account holds no half-made state that a later report would not mend.
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = ledger.take(&gateway, mark, figures, received);
        let (missed, skew_ms) = (ledger.missed(), ledger.skew_ms());
        // While the ledger is held, so that what is told last is the newest.
        self.with(|accounts| {
            if let Some(account) = accounts.known.get_mut(&gateway) {
                (account.missed, account.skew_ms) = (missed, skew_ms);
            }
        });
        taken
    }

    /// What could not be read of any gateway since the start, and how far off the wall clock is
    /// that is furthest off, in milliseconds.
    pub fn missed_all(&self) -> (Missed, i64) {
        self.with(|accounts| {
            let (mut sum, mut skew_ms) = (accounts.gone, 0_i64);
            for account in accounts.known.values() {
                sum.add(account.missed);
                if account.skew_ms.unsigned_abs() > skew_ms.unsigned_abs() {
                    skew_ms = account.skew_ms;
                }
            }
            (sum, skew_ms)
        })
    }

    /// How far the wall clock of this gateway is ahead; `None` when it never told.
    pub fn skew_ms(&self, gateway: &str) -> Option<i64> {
        self.with(|accounts| Some(accounts.known.get(gateway)?.skew_ms))
    }

    fn account(&self, gateway: &str, now: Instant) -> Option<(Arc<str>, Arc<Mutex<Ledger>>)> {
        self.with(|accounts| accounts.of(gateway, now))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Accounts) -> T) -> T {
        // Accounts hold no half-made state that a later report would not mend.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Accounts {
    fn of(&mut self, gateway: &str, now: Instant) -> Option<(Arc<str>, Arc<Mutex<Ledger>>)> {
        let Self { known, gone } = self;
        if let Some((name, found)) = known.get_key_value(gateway) {
            let found = (Arc::clone(name), Arc::clone(&found.ledger));
            if let Some(known) = known.get_mut(gateway) {
                known.heard = now;
            }
            return Some(found);
        }
        known.retain(|_, known| {
            let is_silent = now.saturating_duration_since(known.heard) > SILENT_MAX;
            if is_silent {
                gone.add(known.missed);
            }
            !is_silent
        });
        if known.len() >= GATEWAYS_MAX {
            return None;
        }
        let (name, ledger) = (Arc::<str>::from(gateway), Arc::default());
        let account = Account {
            heard: now,
            ledger: Arc::clone(&ledger),
            missed: Missed::default(),
            skew_ms: 0,
        };
        known.insert(Arc::clone(&name), account);
        Some((name, ledger))
    }
}

/// The figures of this key, of a list that is [`sorted`].
pub(crate) fn figures_of<'a>(sorted: &'a [Figures], key: &str) -> Option<&'a Figures> {
    let at = sorted.binary_search_by(|figures| figures.key.as_str().cmp(key));
    at.ok().and_then(|at| sorted.get(at))
}

/// Figures by key, each key once: what accounts and sums are made of.
pub fn sorted(mut figures: Vec<Figures>) -> Arc<Vec<Figures>> {
    figures.sort_by(|one, other| one.key.cmp(&other.key));
    figures.dedup_by(|one, other| one.key == other.key);
    Arc::new(figures)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn nobody_waits_for_a_report_that_is_being_taken() {
        let readings = Readings::default();
        let now = crate::clock::now();
        let (_, busy) = readings.account("busy", now).unwrap();
        let _taking = busy.lock().unwrap();
        let (done, looked) = mpsc::sync_channel(1);
        let others = readings.clone();
        std::thread::spawn(move || {
            // A new one also looks for those that were silent for long: the busy one is.
            let later = now + SILENT_MAX + Duration::from_secs(1);
            let known = others.account("other", later).is_some();
            done.send((known, others.missed_all()))
        });
        let told = looked.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(told, (true, (Missed::default(), 0)));
    }
}
