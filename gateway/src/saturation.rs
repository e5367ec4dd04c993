//! When a compartment becomes full, and when it is not any more: two log events.
//!
//! Separate because an event must not flap: it takes a while to begin and longer to end. It reads
//! the time that a compartment counted as saturated, so nothing in between is missed. Tenants are
//! left out: a tenant at its limit is that tenant's affair, and there may be 100,000.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use compartment::{Figures, Level};
use telemetry::names::event;
use tokio::time::MissedTickBehavior;

use crate::report::Reporter;

/// How often compartments are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a row that a compartment was full for most of, before that is said.
const LOOKS_TO_START: u32 = 2;
/// Looks in a row that it was hardly full, before the end is said.
const LOOKS_TO_END: u32 = 5;
/// Most of a look, and hardly any of it, in thousandths.
const FULL_PERMILLE: u64 = 800;
const FREE_PERMILLE: u64 = 200;

/// What happened to a compartment.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Started,
    /// It took so long, and so many were refused meanwhile.
    Ended {
        lasted_us: u64,
        rejected: u64,
    },
}

/// What is known of one compartment.
#[derive(Debug, Default)]
struct State {
    looked_us: u64,
    saturated_us: u64,
    /// Looks in a row that speak for the other state.
    streak: u32,
    /// Since when, and how many had been refused by then.
    full: Option<(u64, u64)>,
    round: u64,
}

impl State {
    fn look(&mut self, saturated_us: u64, rejected: u64, now_us: u64) -> Option<Change> {
        let passed_us = now_us.saturating_sub(self.looked_us).max(1);
        let full_us = saturated_us.saturating_sub(self.saturated_us);
        (self.looked_us, self.saturated_us) = (now_us, saturated_us);
        let permille = full_us.saturating_mul(1_000) / passed_us;
        let speaks = match self.full {
            None => permille >= FULL_PERMILLE,
            Some(_) => permille <= FREE_PERMILLE,
        };
        self.streak = if speaks {
            self.streak.saturating_add(1)
        } else {
            0
        };
        match self.full {
            None if self.streak >= LOOKS_TO_START => {
                self.full = Some((now_us, rejected));
                self.streak = 0;
                Some(Change::Started)
            }
            Some((since_us, before)) if self.streak >= LOOKS_TO_END => {
                self.full = None;
                self.streak = 0;
                Some(Change::Ended {
                    lasted_us: now_us.saturating_sub(since_us),
                    rejected: rejected.saturating_sub(before),
                })
            }
            None | Some(_) => None,
        }
    }
}

/// All compartments but those of tenants.
#[derive(Debug, Default)]
struct Watch {
    states: HashMap<String, State>,
    round: u64,
}

impl Watch {
    fn look(&mut self, reporter: &Reporter) {
        self.round = self.round.wrapping_add(1);
        let (round, now_us) = (self.round, reporter.now_us());
        reporter.each(&mut |figures| {
            if is_watched(figures.level) {
                let rejected = figures.rejected.values().sum();
                let state = self
                    .states
                    .entry(figures.key.clone())
                    .or_insert_with(|| State {
                        looked_us: now_us,
                        saturated_us: figures.saturated_us,
                        ..State::default()
                    });
                state.round = round;
                if let Some(change) = state.look(figures.saturated_us, rejected, now_us) {
                    tell(&figures, &change);
                }
            }
        });
        // Whatever the policy does not name any more.
        self.states.retain(|_, state| state.round == round);
    }
}

const fn is_watched(level: Level) -> bool {
    match level {
        Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => true,
        Level::Tenant | Level::TenantRoute => false,
    }
}

fn tell(figures: &Figures, change: &Change) {
    match change {
        Change::Started => tracing::warn!(
            compartment.key = figures.key,
            compartment.level = figures.level.as_str(),
            compartment.limit = %figures.limit,
            compartment.in_flight = figures.in_flight,
            compartment.queued = figures.queued,
            "{}",
            event::SATURATION_STARTED
        ),
        Change::Ended {
            lasted_us,
            rejected,
        } => tracing::info!(
            compartment.key = figures.key,
            compartment.level = figures.level.as_str(),
            compartment.limit = %figures.limit,
            saturation.seconds = lasted_us / 1_000_000,
            saturation.rejected = rejected,
            "{}",
            event::SATURATION_ENDED
        ),
    }
}

/// Looks on a period, for ever.
pub(crate) async fn watch(reporter: Reporter) {
    let watch = Arc::new(std::sync::Mutex::new(Watch::default()));
    let mut period = tokio::time::interval(LOOK);
    period.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        period.tick().await;
        let (watch, reporter) = (Arc::clone(&watch), reporter.clone());
        // A panic inside is reported by the panic hook; the next period tries again.
        let _looked = tokio::task::spawn_blocking(move || {
            let mut watch = watch
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            watch.look(&reporter);
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    /// Looks once a second; `full` says how many thousandths of each second it was full.
    fn changes(full: &[u64]) -> Vec<(u64, Change)> {
        let mut state = State::default();
        let (mut saturated_us, mut found) = (0, Vec::new());
        for (second, permille) in (1..).zip(full) {
            saturated_us += permille * S / 1_000;
            if let Some(change) = state.look(saturated_us, second * 10, second * S) {
                found.push((second, change));
            }
        }
        found
    }

    #[test]
    fn what_is_full_for_a_moment_is_not_said() {
        assert_eq!(changes(&[1_000, 0, 1_000, 300, 900, 0, 0]), []);
    }

    #[test]
    fn what_is_full_begins_and_ends_once() {
        let mut full = vec![0, 1_000, 1_000, 1_000, 1_000];
        // Free for moments, and half full for long: neither is an end.
        full.extend([0, 0, 1_000, 500, 500, 500, 500, 500, 500, 0, 0, 1_000]);
        full.extend([0; 7]);
        let ended = Change::Ended {
            lasted_us: 19 * S,
            rejected: 190,
        };
        assert_eq!(changes(&full), [(3, Change::Started), (22, ended)]);
    }

    #[test]
    fn what_flaps_at_the_threshold_is_said_once() {
        let flaps: Vec<u64> = (0..60)
            .map(|n| if n % 3 == 2 { 100 } else { 950 })
            .collect();
        assert_eq!(changes(&flaps).len(), 1);
    }
}
