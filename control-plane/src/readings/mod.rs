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
    ledger: Arc<Mutex<Ledger>>,
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
        ledger.take(&gateway, mark, figures, received)
    }

    /// What could not be read of this gateway.
    pub fn missed(&self, gateway: &str) -> Missed {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.known.get(gateway);
        account.map_or_else(Missed::default, |account| account.look(Ledger::missed))
    }

    /// What could not be read of any gateway since the start, and how far off the wall clock is
    /// that is furthest off, in milliseconds.
    pub fn missed_all(&self) -> (Missed, i64) {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut sum, mut skew_ms) = (accounts.gone, 0_i64);
        for account in accounts.known.values() {
            sum.add(account.look(Ledger::missed));
            let own = account.look(Ledger::skew_ms);
            if own.unsigned_abs() > skew_ms.unsigned_abs() {
                skew_ms = own;
            }
        }
        (sum, skew_ms)
    }

    fn account(&self, gateway: &str, now: Instant) -> Option<(Arc<str>, Arc<Mutex<Ledger>>)> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Accounts { known, gone } = &mut *accounts;
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
                gone.add(known.look(Ledger::missed));
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
        };
        known.insert(Arc::clone(&name), account);
        Some((name, ledger))
    }
}

impl Account {
    fn look<T>(&self, at: impl FnOnce(&Ledger) -> T) -> T {
        at(&self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
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
