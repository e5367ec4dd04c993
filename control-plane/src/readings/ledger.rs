//! One gateway's account: what lies between two of its reports.
//!
//! Separate because it is arithmetic alone: reports in, readings out, no clock and no lock. What
//! is late, repeated or out of order changes nothing, because figures are cumulative and only a
//! higher number is taken. It must never subtract the figures of two processes, and never turn a
//! silence into a rate: an interval longer than [`GAP_MAX_US`] is a gap.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::{Figures, Histogram, Level, Rejection};

use super::place::Place;
use super::{Missed, Reading, Received, ReportMark, Taken};

/// Longest interval that is a reading. As long as the finest row of the history, so that none of
/// them stays empty while reports come.
pub const GAP_MAX_US: u64 = 10_000_000;
/// Compartments that are in no report any more and may come back: most of one gateway.
const ABSENT_MAX: usize = 5_000;
/// How much younger than it should be a compartment's account must be to be another one.
const SLACK_US: u64 = 1_000_000;
/// The end of a key that sums tenants which are gone; it grows by what was read already.
const FOLDED: &str = "/tenant/_idle";
/// The ceiling's key: its reading comes with every report.
const GATEWAY: &str = "gateway";

/// What is known of the process that reports under one name.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    boot: Box<str>,
    sequence: u64,
    uptime_us: u64,
    place: Place,
    /// Of the last report, by key.
    last: Arc<Vec<Figures>>,
    /// Of earlier ones, of compartments that the last one does not have.
    absent: BTreeMap<String, Figures>,
    /// A compartment that was never seen may be an old one.
    unsure: bool,
    missed: Missed,
    /// Its wall clock against ours, at the last report.
    skew_ms: i64,
}

impl Ledger {
    /// Takes the next report; its figures are sorted by key, each once.
    pub(super) fn take(
        &mut self,
        gateway: &Arc<str>,
        mark: &ReportMark,
        figures: &Arc<Vec<Figures>>,
        received: Received,
    ) -> Taken {
        if mark.boot_id.is_empty() {
            return Taken::Readings(Vec::new());
        }
        if *self.boot != *mark.boot_id {
            let missed = self.missed;
            // A process that starts counts from zero: what it says first came since its start.
            *self = Self {
                boot: mark.boot_id.as_str().into(),
                missed,
                ..Self::default()
            };
        }
        if mark.sequence <= self.sequence {
            return Taken::Late;
        }
        if mark.at_unix_ms > 0 {
            self.skew_ms = mark.at_unix_ms.saturating_sub(received.unix_ms);
        }
        let offset_ms = self.place.offset_ms(received.unix_ms, mark.uptime_us);
        let span_us = mark.uptime_us.saturating_sub(self.uptime_us);
        let interval = Interval {
            gateway: Arc::clone(gateway),
            from_ms: offset_ms.saturating_add(millis(self.uptime_us)),
            span_us,
        };
        let is_gap = span_us == 0 || span_us > GAP_MAX_US;
        let readings = self.differences(figures, &interval, is_gap);
        if is_gap {
            self.missed.gaps = self.missed.gaps.saturating_add(u64::from(span_us > 0));
            self.missed.us = self.missed.us.saturating_add(span_us);
        }
        self.sequence = mark.sequence;
        self.uptime_us = self.uptime_us.max(mark.uptime_us);
        self.last = Arc::clone(figures);
        self.unsure = mark.left_out > 0 || self.absent.len() >= ABSENT_MAX;
        Taken::Readings(readings)
    }

    pub(super) const fn missed(&self) -> Missed {
        self.missed
    }

    /// How far ahead its wall clock is; 0 from a gateway that does not tell.
    pub(super) const fn skew_ms(&self) -> i64 {
        self.skew_ms
    }

    /// Walks the last report and this one side by side.
    fn differences(&mut self, new: &[Figures], interval: &Interval, is_gap: bool) -> Vec<Reading> {
        let last = Arc::clone(&self.last);
        let mut old = last.iter().peekable();
        let mut readings = Vec::new();
        for figures in new {
            while let Some(gone) = old.next_if(|old| old.key < figures.key) {
                self.keep(gone);
            }
            let known = old.next_if(|old| old.key == figures.key);
            if figures.key.ends_with(FOLDED) {
                continue;
            }
            let back = match known {
                Some(_) => None,
                None => self.absent.remove(&figures.key),
            };
            let since = match known.or(back.as_ref()) {
                Some(old) if !is_another(old, figures) => Some(old),
                Some(_) => None,
                None if self.unsure && age_us(figures) > interval.span_us => {
                    self.missed.arrived = self.missed.arrived.saturating_add(figures.arrived);
                    continue;
                }
                None => None,
            };
            if is_gap {
                let before = since.map_or(0, |old| old.arrived);
                let more = figures.arrived.saturating_sub(before);
                self.missed.arrived = self.missed.arrived.saturating_add(more);
            } else {
                readings.extend(interval.reading(figures, since));
            }
        }
        old.for_each(|gone| self.keep(gone));
        readings
    }

    /// Remembers where a compartment stood that is in no report any more.
    fn keep(&mut self, gone: &Figures) {
        let had_traffic = gone.arrived > 0 || gone.admitted > 0;
        if had_traffic && self.absent.len() < ABSENT_MAX {
            self.absent.insert(gone.key.clone(), gone.clone());
        }
    }
}

/// What lies between two reports.
struct Interval {
    gateway: Arc<str>,
    from_ms: i64,
    span_us: u64,
}

impl Interval {
    /// The reading of one compartment, if anything happened there.
    fn reading(&self, new: &Figures, old: Option<&Figures>) -> Option<Reading> {
        let more = |of: fn(&Figures) -> u64| of(new).saturating_sub(old.map_or(0, of));
        let longer = |of: fn(&Figures) -> &Histogram| match old {
            Some(old) => of(new).since(of(old)),
            None => of(new).clone(),
        };
        // Clocks of two readings of one compartment are not read in the same instant.
        let saturated_us = more(|f| f.saturated_us).min(self.span_us);
        let busy_us = more(|f| f.busy_us).min(self.span_us.saturating_sub(saturated_us));
        let was = old.map_or(0, |old| old.in_flight);
        let reading = Reading {
            gateway: Arc::clone(&self.gateway),
            key: new.key.as_str().into(),
            level: new.level,
            from_ms: self.from_ms,
            elapsed_us: self.span_us,
            limit: new.limit,
            arrived: more(|f| f.arrived),
            admitted: more(|f| f.admitted),
            completed: more(|f| f.completed),
            rejected: counts(&new.rejected, old.map(|old| &old.rejected)),
            shadow_rejected: counts(&new.shadow_rejected, old.map(|old| &old.shadow_rejected)),
            candidate_rejected: more(|f| f.candidate_rejected),
            left_queue: more(|f| f.left_queue),
            in_flight_us: more(|f| f.in_flight_us),
            peak: new.peak_recent.max(new.in_flight).max(was),
            busy_us,
            saturated_us,
            hold: longer(|f| &f.hold),
            wait: longer(|f| &f.wait),
        };
        let limit_moved = old.is_some_and(|old| old.limit != new.limit);
        let is_told = reading.happened() || limit_moved || new.key == GATEWAY;
        is_told.then_some(reading)
    }
}

impl Reading {
    /// Whether it says more than that nothing happened.
    fn happened(&self) -> bool {
        let counts = [
            self.arrived,
            self.admitted,
            self.completed,
            self.candidate_rejected,
            self.left_queue,
            self.in_flight_us,
            self.busy_us,
            self.saturated_us,
            self.wait.count(),
        ];
        let none = self.rejected.is_empty() && self.shadow_rejected.is_empty();
        !none || counts.iter().any(|count| *count > 0)
    }
}

/// True when these figures cannot have grown out of the old ones: the compartment was made anew.
fn is_another(old: &Figures, new: &Figures) -> bool {
    let refused = |figures: &Figures| figures.rejected.values().fold(0, saturating);
    let fell = new.admitted < old.admitted
        || new.completed < old.completed
        || refused(new) < refused(old)
        || new.hold.count() < old.hold.count();
    fell || age_us(new).saturating_add(SLACK_US) < age_us(old)
}

/// How long a compartment has been counting; 0 from a gateway that does not tell.
fn age_us(figures: &Figures) -> u64 {
    [figures.busy_us, figures.saturated_us]
        .into_iter()
        .fold(figures.idle_us, u64::saturating_add)
}

fn counts(
    new: &BTreeMap<Rejection, u64>,
    old: Option<&BTreeMap<Rejection, u64>>,
) -> Vec<(Rejection, u64)> {
    let before = |reason: &Rejection| old.and_then(|old| old.get(reason)).copied();
    new.iter()
        .map(|(reason, count)| (*reason, count.saturating_sub(before(reason).unwrap_or(0))))
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn saturating(sum: u64, count: &u64) -> u64 {
    sum.saturating_add(*count)
}

/// Whole milliseconds of a time since a boot.
pub(super) fn millis(us: u64) -> i64 {
    i64::try_from(us / 1_000).unwrap_or(i64::MAX)
}

/// Whether a compartment is one of many that callers, not the policy, bring to life.
pub(crate) const fn is_tenant(level: Level) -> bool {
    match level {
        Level::Tenant | Level::TenantRoute => true,
        Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => false,
    }
}

#[cfg(test)]
mod tests;
