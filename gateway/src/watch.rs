//! Do the numbers of the compartments add up, and does everything come back?
//!
//! Separate from serving, which it never delays: three looks at the same compartments that know
//! nothing of each other. Permits beyond their bound are taken back; what was admitted is what
//! ended and what is in flight; and what is in flight is what the hold times explain. It must
//! never change a number that is right.

use std::collections::HashMap;
use std::sync::Arc;

use compartment::{Figures, Leak, Little, Sums};

use crate::clock::Clock;
use crate::live_policy::Live;

/// Looks, one after the other, in which a count must be wrong before anybody is told: a request
/// may be between two counts for as long as its thread is not run.
const DRIFT_LOOKS: u32 = 3;
/// Every so many looks the compartments of tenants are looked at too.
const TENANTS_EVERY: u32 = 30;
/// Lines about permits of one look.
const LEAK_LOGS_MAX: usize = 20;

/// What is remembered of one compartment.
#[derive(Debug, Default)]
struct Watched {
    little: Little,
    suspected: bool,
    /// Looks in which its counts did not add up, and the difference in the last.
    drifts: u32,
    difference: i128,
}

/// Looks at everything from time to time.
#[derive(Debug)]
pub(crate) struct Watch {
    live: Arc<Live>,
    clock: Clock,
    known: HashMap<String, Watched>,
    looks: u32,
}

impl Watch {
    pub(crate) fn new(live: Arc<Live>, clock: Clock) -> Self {
        Self {
            live,
            clock,
            known: HashMap::new(),
            looks: 0,
        }
    }

    /// One look; to be called about every second.
    pub(crate) fn look(&mut self) {
        let live = Arc::clone(&self.live);
        tell_leaks(&live.hull().reclaim(self.clock.now_us()));
        let now_us = self.clock.now_us();
        self.looks = self.looks.wrapping_add(1);
        let mut seen = HashMap::with_capacity(self.known.len());
        let so_far_us = live.hull().held_so_far_us(now_us);
        for figures in live.hull().shared_figures(now_us) {
            let mut watched = self.known.remove(&figures.key).unwrap_or_default();
            let so_far_us = so_far_us.get(figures.key.as_str()).copied();
            if watched.follow(&figures, so_far_us.unwrap_or(0), now_us) {
                live.hull().suspect_leak(&figures.key, watched.suspected);
            }
            seen.insert(figures.key, watched);
        }
        // The rest is gone, or a tenant's: looked at less often, and by its counts alone.
        for (key, watched) in self.known.drain().filter(|(_, watched)| watched.drifts > 0) {
            seen.entry(key).or_insert(watched);
        }
        self.known = seen;
        if self.looks.is_multiple_of(TENANTS_EVERY) {
            let known = &mut self.known;
            live.hull().each_figures(now_us, &mut |figures| {
                if known.contains_key(&figures.key) || difference(&figures) != 0 {
                    known
                        .entry(figures.key.clone())
                        .or_default()
                        .count(&figures);
                }
            });
        }
    }
}

fn difference(figures: &Figures) -> i128 {
    i128::from(figures.admitted) - i128::from(figures.completed) - i128::from(figures.in_flight)
}

impl Watched {
    /// True when what is suspected of it has changed. `so_far_us` is what known permits that are
    /// still out have held: a stream that lives for an hour is not lost.
    fn follow(&mut self, figures: &Figures, so_far_us: u64, now_us: u64) -> bool {
        self.count(figures);
        let residual = self.little.observe(Sums {
            now_us,
            in_flight_us: figures.in_flight_us.saturating_sub(so_far_us),
            held_us: figures.hold.sum_us(),
        });
        let (before, now) = (self.suspected, self.little.suspects());
        self.suspected = now;
        if now && !before {
            tracing::error!(
                compartment.key = figures.key,
                residual_milli = residual.unwrap_or(0),
                in_flight = figures.in_flight,
                "more is in flight than the hold times explain: permits may be lost"
            );
        }
        now != before
    }

    /// What was admitted has ended or is in flight. Told once for each difference that stays.
    fn count(&mut self, figures: &Figures) {
        let difference = difference(figures);
        if difference == 0 || difference != self.difference {
            (self.drifts, self.difference) = (u32::from(difference != 0), difference);
            return;
        }
        self.drifts = self.drifts.saturating_add(1);
        if self.drifts == DRIFT_LOOKS {
            tracing::error!(
                compartment.key = figures.key,
                admitted = figures.admitted,
                completed = figures.completed,
                in_flight = figures.in_flight,
                "the counts of a compartment do not add up"
            );
        }
    }
}

fn tell_leaks(leaks: &[Leak]) {
    for leak in leaks.iter().take(LEAK_LOGS_MAX) {
        tracing::error!(
            compartment.key = %leak.route,
            tenant.id = leak.tenant.as_ref().map(|name| name.as_str()),
            age_ms = leak.age_us / 1_000,
            "a permit outlived its bound and was taken back"
        );
    }
    if let Some(more) = leaks
        .len()
        .checked_sub(LEAK_LOGS_MAX)
        .filter(|more| *more > 0)
    {
        tracing::error!(
            more,
            "more permits outlived their bounds and were taken back"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::figures;

    #[test]
    fn a_difference_is_told_when_it_stays() {
        let mut watched = Watched::default();
        let off = |by: u64| Figures {
            admitted: 10 + by,
            ..figures("route/a", 10)
        };
        watched.count(&off(1));
        watched.count(&off(2));
        assert_eq!(
            watched.drifts, 1,
            "another one: somebody is between two counts"
        );
        watched.count(&off(2));
        watched.count(&off(2));
        assert_eq!(watched.drifts, DRIFT_LOOKS);
        watched.count(&off(0));
        assert_eq!(watched.drifts, 0);
    }

    #[test]
    fn what_never_comes_back_is_suspected_and_what_does_is_not() {
        let mut watched = Watched::default();
        let window_us = compartment::LITTLE_WINDOW_US;
        let at = |n: u64, lost: u64| Figures {
            in_flight: 1,
            in_flight_us: n * lost * window_us,
            ..figures("route/a", 10)
        };
        let mut changes = 0;
        for n in 0..=compartment::LITTLE_WINDOWS as u64 {
            changes += u32::from(watched.follow(&at(n, 1), 0, n * window_us));
        }
        assert_eq!((changes, watched.suspected), (1, true));
        let n = compartment::LITTLE_WINDOWS as u64 + 1;
        // The window in which it came back.
        assert!(watched.follow(&at(n, 0), 0, n * window_us));
        assert!(!watched.suspected);
    }

    #[test]
    fn a_permit_that_is_held_long_within_its_bound_is_not_lost() {
        let mut watched = Watched::default();
        let window_us = compartment::LITTLE_WINDOW_US;
        for n in 0..10 {
            let out = Figures {
                in_flight: 1,
                in_flight_us: n * window_us,
                ..figures("route/a/stream", 10)
            };
            assert!(!watched.follow(&out, n * window_us, n * window_us));
        }
    }
}
