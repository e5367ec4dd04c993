//! Rows that are not on disk yet: the slots that are open, and those that could not be written.
//!
//! Separate because it is what a full disk costs: memory up to a bound, then the oldest rows,
//! counted. It must never wait for anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::busiest::Busiest;
use super::row::Row;
use super::step::{Range, Step};
use crate::readings::{Reading, is_tenant};

/// Most rows of one slot; compartments beyond it are not recorded there.
pub const SLOT_ROWS_MAX: usize = 40_000;
/// Most rows in memory.
pub const PENDING_ROWS_MAX: usize = 120_000;
/// A slot is closed this long after its end: reports need a moment.
const CLOSED_AFTER_S: i64 = 3;
/// A slot this far ahead was made by a clock that has been set back since.
const AHEAD_MAX_S: i64 = 60;

/// Rows of ten seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Slot {
    /// By compartment and gateway.
    pub(crate) rows: BTreeMap<(Arc<str>, Arc<str>), Row>,
    /// How much of the slot each gateway was heard of.
    pub(crate) heard_us: BTreeMap<Arc<str>, u64>,
}

impl Slot {
    /// Adds what came later for the same slot.
    fn merge(&mut self, later: Self) {
        for (place, row) in later.rows {
            match self.rows.get_mut(&place) {
                Some(own) => own.then(&row),
                None => {
                    self.rows.insert(place, row);
                }
            }
        }
        for (gateway, us) in later.heard_us {
            let own = self.heard_us.entry(gateway).or_default();
            *own = own.saturating_add(us);
        }
    }

    /// What concerns one compartment.
    fn of(&self, key: &str) -> Self {
        let rows = self.rows.iter().filter(|((own, _), _)| &**own == key);
        Self {
            rows: rows
                .map(|(place, row)| (place.clone(), row.clone()))
                .collect(),
            heard_us: self.heard_us.clone(),
        }
    }
}

/// Slots by the second at which they start.
pub(crate) type Slots = BTreeMap<i64, Slot>;

/// All rows in memory.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Still filling, or waiting for their turn.
    open: Slots,
    /// On their way to the disk, or there already: nobody can tell until it is said.
    writing: Arc<Slots>,
    rows: usize,
    busiest: Busiest,
    /// The newest slot seen: at the next one the tenants are chosen again.
    newest: Option<i64>,
    lost: u64,
}

/// The rows of one compartment that a reader adds to what is on disk.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// Not on disk.
    pub(super) open: Slots,
    /// Perhaps on disk.
    pub(super) writing: Slots,
}

impl Pending {
    /// Adds the readings of one report, at most `tenants_max` tenants under their names.
    pub(super) fn add(&mut self, readings: &[Reading], tenants_max: usize) {
        let Some(first) = readings.first() else {
            return;
        };
        let end_ms = first.from_ms.saturating_add(millis(first.elapsed_us));
        // By its end: intervals are no longer than a slot, so that none stays empty between two.
        let at_s = end_ms.saturating_sub(1).div_euclid(1_000);
        let start = Step::TenSeconds.slot(at_s);
        if self.newest.is_none_or(|newest| start > newest) {
            self.newest = Some(start);
            self.busiest.choose(tenants_max);
        }
        let mut told = Slot::default();
        let heard = (Arc::clone(&first.gateway), first.elapsed_us);
        told.heard_us.extend([heard]);
        for reading in readings {
            let key = match is_tenant(reading.level) {
                true => self.busiest.key(reading, tenants_max),
                false => Arc::clone(&reading.key),
            };
            let place = (key, Arc::clone(&reading.gateway));
            match told.rows.get_mut(&place) {
                // Two of one report under one name are tenants side by side.
                Some(row) => row.beside(&Row::of(reading)),
                None => {
                    told.rows.insert(place, Row::of(reading));
                }
            }
        }
        self.put(start, told);
        while self.rows > PENDING_ROWS_MAX {
            self.drop_oldest();
        }
    }

    fn put(&mut self, start: i64, mut told: Slot) {
        let slot = self.open.entry(start).or_default();
        let before = slot.rows.len();
        if before.saturating_add(told.rows.len()) > SLOT_ROWS_MAX {
            let room = &mut SLOT_ROWS_MAX.saturating_sub(before);
            told.rows.retain(|place, _| {
                let keeps = slot.rows.contains_key(place) || *room > 0;
                if !slot.rows.contains_key(place) {
                    *room = room.saturating_sub(1);
                }
                self.lost = self.lost.saturating_add(u64::from(!keeps));
                keeps
            });
        }
        slot.merge(told);
        self.rows = self
            .rows
            .saturating_add(slot.rows.len())
            .saturating_sub(before);
    }

    fn drop_oldest(&mut self) {
        let waiting = Arc::make_mut(&mut self.writing).pop_first();
        if let Some((_, slot)) = waiting.or_else(|| self.open.pop_first()) {
            self.rows = self.rows.saturating_sub(slot.rows.len());
            self.lost = self.lost.saturating_add(count(&slot));
        }
    }

    /// Slots that get no more readings (`None`: all there are), and those that were not written
    /// when they should have been. They stay until [`Pending::written`].
    pub(super) fn begin(&mut self, now_s: Option<i64>) -> Arc<Slots> {
        let is_closed = |start: i64| {
            let Some(now_s) = now_s else { return true };
            let end = start.saturating_add(Step::TenSeconds.seconds());
            end.saturating_add(CLOSED_AFTER_S) <= now_s || start > now_s.saturating_add(AHEAD_MAX_S)
        };
        let closed: Slots = self
            .open
            .extract_if(.., |start, _| is_closed(*start))
            .collect();
        if !closed.is_empty() {
            let writing = Arc::make_mut(&mut self.writing);
            for (start, slot) in closed {
                let known = writing.entry(start).or_default();
                let before = known.rows.len().saturating_add(slot.rows.len());
                known.merge(slot);
                self.rows = self
                    .rows
                    .saturating_add(known.rows.len())
                    .saturating_sub(before);
            }
        }
        Arc::clone(&self.writing)
    }

    /// What [`Pending::begin`] gave is on disk.
    pub(super) fn written(&mut self) {
        let rows = self.writing.values().map(|slot| slot.rows.len()).sum();
        self.rows = self.rows.saturating_sub(rows);
        self.writing = Arc::default();
    }

    /// The rows of one compartment in a range, and who was heard there.
    pub(super) fn of(&self, key: &str, range: Range) -> Unwritten {
        if range.is_empty() {
            return Unwritten::default();
        }
        let own = |slots: &Slots| {
            let slots = slots.range(range.from_s..range.to_s);
            slots.map(|(start, slot)| (*start, slot.of(key))).collect()
        };
        Unwritten {
            open: own(&self.open),
            writing: own(&self.writing),
        }
    }

    /// The start of the oldest slot.
    pub(super) fn oldest(&self) -> Option<i64> {
        let first = |slots: &Slots| slots.keys().next().copied();
        [first(&self.open), first(&self.writing)]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Rows that were given up since this was last asked.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

fn count(slot: &Slot) -> u64 {
    u64::try_from(slot.rows.len()).unwrap_or(u64::MAX)
}

fn millis(us: u64) -> i64 {
    i64::try_from(us / 1_000).unwrap_or(i64::MAX)
}
