//! The last hour minute by minute and the last day hour by hour, of every compartment, in memory.
//!
//! Separate from the last ten minutes, which are finer, and from the history, which is asked for
//! one compartment: pages that compare all of them must not ask a disk for each. Begun with what
//! the history kept. It must never take a minute in which nobody was heard for a calm one.

mod ring;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::Rejection;
use tokio_util::sync::CancellationToken;
use web::{Known, Saturated};

use crate::clock;
use crate::history::{History, HistoryError, Point, Range, Step};
use crate::readings::{Reading, is_tenant};
use crate::rollout::Rollout;
use ring::Ring;

/// Minutes that are kept.
pub(crate) const MINUTES: usize = 60;
/// Minutes that are "just now".
const RECENT: i64 = 5;
/// Hours that are kept.
const HOURS: usize = 24;
/// Most compartments: about 15 MB. Tenants find no place beyond half of it.
pub(crate) const KEYS_MAX: usize = 5_000;
/// Most compartments that are asked of the history after a start.
const SEED_KEYS_MAX: usize = 500;
const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3_600;

/// What happened in one minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) in_flight_us: u64,
    pub(crate) saturated_us: u64,
}

/// The same with how long gateways were heard of, all together; 0: nobody was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) heard_us: u64,
    pub(crate) gateways: u64,
    pub(crate) cell: Cell,
}

/// How many decisions were made anywhere, and how many of them were refusals for which reason.
pub(crate) type Refusals = (u64, Vec<(Rejection, u64)>);

/// How long each compartment stood at its limit.
pub(crate) type AllSaturated = HashMap<Arc<str>, Saturated>;

/// Who was heard, and why requests were refused anywhere.
#[derive(Clone, Debug, Default)]
struct Heard {
    us: u64,
    /// Who reported; at most as many as the fleet holds, or a few more while they change.
    gateways: BTreeSet<Arc<str>>,
    /// How many the history counts before this process began: the same ones, without names.
    seeded: u64,
    arrived: u64,
    reasons: BTreeMap<Rejection, u64>,
}

impl Heard {
    /// In the minute of a start some are seeded and heard: whoever was heard before is still there.
    fn gateways(&self) -> u64 {
        let named = u64::try_from(self.gateways.len()).unwrap_or(u64::MAX);
        named.max(self.seeded)
    }
}

#[derive(Debug, Default)]
struct Key {
    is_tenant: bool,
    minutes: Ring<Cell, MINUTES>,
    hours: Ring<u64, HOURS>,
}

impl Key {
    fn add_minute(&mut self, at_s: i64, in_flight_us: u64, saturated_us: u64) {
        if let Some(sum) = self.minutes.slot(at_s.div_euclid(MINUTE_S)) {
            sum.in_flight_us = sum.in_flight_us.saturating_add(in_flight_us);
            sum.saturated_us = sum.saturated_us.saturating_add(saturated_us);
        }
    }

    fn add_hour(&mut self, at_s: i64, saturated_us: u64) {
        if let Some(sum) = self.hours.slot(at_s.div_euclid(HOUR_S)) {
            *sum = sum.saturating_add(saturated_us);
        }
    }

    /// At its limit in the last five minutes, the last hour and the last day.
    fn saturated_us(&self, now_s: i64) -> (u64, u64, u64) {
        let (mut five, mut hour) = (0_u64, 0_u64);
        for (ago, cell) in self.minutes.within(now_s.div_euclid(MINUTE_S)) {
            hour = hour.saturating_add(cell.saturated_us);
            if ago < RECENT {
                five = five.saturating_add(cell.saturated_us);
            }
        }
        let hours = self.hours.within(now_s.div_euclid(HOUR_S));
        let day = hours.fold(0_u64, |sum, (_, us)| sum.saturating_add(*us));
        (five, hour, day)
    }
}

#[derive(Debug, Default)]
struct Inner {
    minutes: Ring<Heard, MINUTES>,
    hours_us: Ring<u64, HOURS>,
    keys: HashMap<Arc<str>, Key>,
    /// The minute in which places were given back last: looking at all of them is not for each
    /// reading.
    forgot_in: Option<i64>,
    /// The newest answer of [`Past::saturated`] and the second that it is of.
    answer: Option<(i64, Arc<AllSaturated>)>,
}

/// The one handle to it; clones are cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past(Arc<Mutex<Inner>>);

impl Past {
    /// Adds the readings of one report.
    pub(crate) fn record(&self, readings: &[Reading]) {
        let Some(first) = readings.first() else {
            return;
        };
        let elapsed_ms = i64::try_from(first.elapsed_us / 1_000).unwrap_or(i64::MAX);
        let end_ms = first.from_ms.saturating_add(elapsed_ms);
        let at_s = end_ms.saturating_sub(1).div_euclid(1_000);
        self.with(|inner| {
            inner.hear(at_s, first.elapsed_us, &first.gateway);
            for reading in readings {
                if let Some(own) = inner.place(at_s, &reading.key, is_tenant(reading.level)) {
                    own.add_minute(at_s, reading.in_flight_us, reading.saturated_us);
                    own.add_hour(at_s, reading.saturated_us);
                }
                inner.refuse(at_s, reading.arrived, &reading.rejected);
            }
        });
    }

    /// The minutes up to this second, oldest first, of one compartment.
    pub(crate) fn hour(&self, key: &str, now_s: i64) -> Vec<Told> {
        self.with(|inner| {
            let own = inner.keys.get(key);
            minutes(now_s)
                .map(|minute| inner.told(own, minute))
                .collect()
        })
    }

    /// Refusals by reason and arrivals at any compartment, minute by minute; `None`: not heard.
    pub(crate) fn refusals(&self, now_s: i64) -> Vec<Option<Refusals>> {
        self.with(|inner| {
            let of = |minute: i64| {
                let heard = inner.minutes.get(minute).filter(|heard| heard.us > 0)?;
                let reasons = heard.reasons.iter().map(|(reason, n)| (*reason, *n));
                Some((heard.arrived, reasons.collect()))
            };
            minutes(now_s).map(of).collect()
        })
    }

    /// How long each compartment stood at its limit, as it was first asked in this second: many
    /// browsers ask in each, and no report waits for the sums of every one.
    pub(crate) fn saturated(&self, now_s: i64) -> Arc<AllSaturated> {
        self.with(|inner| match &inner.answer {
            Some((of, answer)) if *of == now_s => Arc::clone(answer),
            _ => {
                let answer = Arc::new(inner.sums(now_s));
                inner.answer = Some((now_s, Arc::clone(&answer)));
                answer
            }
        })
    }

    /// Reads what the history kept of the time before this process began, then ends.
    pub(crate) async fn run(self, history: History, rollout: Rollout, stopping: CancellationToken) {
        let began_s = clock::unix_ms().div_euclid(1_000);
        let current = rollout.current();
        let Ok(policy) = &current.policy else { return };
        // The ceiling first: its rows tell who was heard.
        let keys = policy.limits().take(SEED_KEYS_MAX);
        let keys: Vec<String> = keys.map(|(key, _)| key.to_string()).collect();
        for key in keys {
            // Nothing is lost by a cancelled arm: what was read is read again after a start.
            let seeded = tokio::select! {
                () = stopping.cancelled() => return,
                seeded = self.seed(&history, &key, began_s) => seeded,
            };
            // The history says for itself that it is away; the minutes before then are a gap.
            if seeded.is_err() {
                return;
            }
        }
    }

    async fn seed(&self, history: &History, key: &str, began_s: i64) -> Result<(), HistoryError> {
        let since = |seconds: i64| Range {
            from_s: began_s.saturating_sub(seconds),
            to_s: began_s,
        };
        let fine = history.series(key, since(HOUR_S), Step::Minute).await?;
        let hours = i64::try_from(HOURS).unwrap_or(0).saturating_mul(HOUR_S);
        let coarse = history.series(key, since(hours), Step::Hour).await?;
        let tenant = key.starts_with("tenant/");
        self.with(|inner| {
            fine.points
                .iter()
                .for_each(|point| inner.seed_minute(key, tenant, point));
            coarse
                .points
                .iter()
                .for_each(|point| inner.seed_hour(key, point));
        });
        Ok(())
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        // Sums hold no half-made state that a later reading would not mend.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn hear(&mut self, at_s: i64, us: u64, gateway: &Arc<str>) {
        if let Some(heard) = self.minutes.slot(at_s.div_euclid(MINUTE_S)) {
            heard.us = heard.us.saturating_add(us);
            if !heard.gateways.contains(gateway) {
                heard.gateways.insert(Arc::clone(gateway));
            }
        }
        if let Some(heard_us) = self.hours_us.slot(at_s.div_euclid(HOUR_S)) {
            *heard_us = heard_us.saturating_add(us);
        }
    }

    /// The place of a compartment; `None` when all are taken.
    fn place(&mut self, at_s: i64, key: &Arc<str>, is_tenant: bool) -> Option<&mut Key> {
        let most = if is_tenant { KEYS_MAX / 2 } else { KEYS_MAX };
        if !self.keys.contains_key(key) {
            let minute = Some(at_s.div_euclid(MINUTE_S));
            if self.keys.len() >= most && self.forgot_in != minute {
                self.forgot_in = minute;
                self.forget(at_s);
            }
            if self.keys.len() >= most {
                return None;
            }
        }
        let own = self.keys.entry(Arc::clone(key)).or_default();
        own.is_tenant = is_tenant;
        Some(own)
    }

    fn sums(&self, now_s: i64) -> AllSaturated {
        let minutes = self.minutes.within(now_s.div_euclid(MINUTE_S));
        let (mut five_us, mut hour_us, mut known) = (0_u64, 0_u64, Known::default());
        for (ago, heard) in minutes.filter(|(_, heard)| heard.us > 0) {
            hour_us = hour_us.saturating_add(heard.us);
            known.minutes = known.minutes.saturating_add(1);
            if ago < RECENT {
                five_us = five_us.saturating_add(heard.us);
                known.recent = known.recent.saturating_add(1);
            }
        }
        let hours = self.hours_us.within(now_s.div_euclid(HOUR_S));
        let mut day_us = 0_u64;
        for (_, heard_us) in hours.filter(|(_, heard_us)| **heard_us > 0) {
            day_us = day_us.saturating_add(*heard_us);
            known.hours = known.hours.saturating_add(1);
        }
        known.is_longer = day_us > hour_us;
        let of = |(key, own): (&Arc<str>, &Key)| {
            let (five, hour, day) = own.saturated_us(now_s);
            let saturated = Saturated {
                of_5min: permille(five, five_us),
                of_hour: permille(hour, hour_us),
                of_day: permille(day, day_us),
                known,
            };
            (Arc::clone(key), saturated)
        };
        self.keys.iter().map(of).collect()
    }

    /// Those without any word in the last hour give their places back.
    fn forget(&mut self, now_s: i64) {
        let is_seen = |own: &Key| minutes(now_s).any(|minute| own.minutes.get(minute).is_some());
        self.keys.retain(|_, own| is_seen(own));
    }

    fn refuse(&mut self, at_s: i64, arrived: u64, reasons: &[(Rejection, u64)]) {
        let Some(heard) = self.minutes.slot(at_s.div_euclid(MINUTE_S)) else {
            return;
        };
        heard.arrived = heard.arrived.saturating_add(arrived);
        for (reason, count) in reasons {
            let sum = heard.reasons.entry(*reason).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    fn seed_minute(&mut self, key: &str, is_tenant: bool, point: &Point) {
        let Some(row) = &point.figures else { return };
        // The hours come from rows of their own.
        if let Some(own) = self.place(point.at_s, &Arc::from(key), is_tenant) {
            own.add_minute(point.at_s, row.in_flight_us, row.saturated_us);
        }
        self.refuse(point.at_s, row.arrived, &row.rejected);
        // Every report has a reading of the ceiling, so its rows tell who was heard.
        if key == "gateway"
            && let Some(heard) = self.minutes.slot(point.at_s.div_euclid(MINUTE_S))
        {
            heard.us = heard.us.saturating_add(point.heard.gateway_us);
            heard.seeded = heard.seeded.max(point.heard.gateways);
        }
    }

    fn seed_hour(&mut self, key: &str, point: &Point) {
        if let (Some(row), Some(own)) = (&point.figures, self.keys.get_mut(key)) {
            own.add_hour(point.at_s, row.saturated_us);
        }
        if key == "gateway"
            && let Some(heard_us) = self.hours_us.slot(point.at_s.div_euclid(HOUR_S))
        {
            *heard_us = heard_us.saturating_add(point.heard.gateway_us);
        }
    }

    fn told(&self, own: Option<&Key>, minute: i64) -> Told {
        let heard = self.minutes.get(minute);
        let cell = own.and_then(|own| own.minutes.get(minute)).copied();
        // A tenant without a place of its own is not known to be idle.
        let is_known = cell.is_some() || own.is_some_and(|own| !own.is_tenant);
        Told {
            heard_us: heard.filter(|_| is_known).map_or(0, |heard| heard.us),
            gateways: heard.map_or(0, Heard::gateways),
            cell: cell.unwrap_or_default(),
        }
    }
}

/// The minutes up to this second, oldest first.
fn minutes(now_s: i64) -> impl Iterator<Item = i64> {
    let last = now_s.div_euclid(MINUTE_S);
    let count = i64::try_from(MINUTES).unwrap_or(0);
    last.saturating_sub(count).saturating_add(1)..=last
}

fn permille(part_us: u64, whole_us: u64) -> Option<u64> {
    let permille = (u128::from(part_us) * 1_000).checked_div(u128::from(whole_us))?;
    Some(u64::try_from(permille).unwrap_or(1_000).min(1_000))
}

#[cfg(test)]
mod tests;
