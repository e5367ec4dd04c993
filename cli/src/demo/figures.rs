//! From calls to figures: rates, percentiles, fill time, time to empty.
//!
//! Separate because it is pure and decides what the verdict rests on. Everything is counted by the
//! time a request was due. It must never round in favour of the claim.

use std::time::Duration;

use super::scenario::{Phase, Play, Route, SLOW};
use super::traffic::{Call, Outcome};

/// One route over one span of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Figures {
    pub(super) seconds: f64,
    pub(super) offered: usize,
    pub(super) completed: usize,
    /// Refused by the gateway, a fallback included.
    pub(super) rejected: usize,
    /// How many of the refused got the fallback.
    pub(super) fallback: usize,
    pub(super) errors: usize,
    /// Of completed calls; `None` without any.
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    /// How long a refusal took.
    pub(super) rejected_p99_ms: Option<f64>,
}

impl Figures {
    /// What is due in `from..until`.
    pub(super) fn of(calls: &[Call], route: Route, from: Duration, until: Duration) -> Self {
        let inside = |call: &&Call| call.route == route && call.due >= from && call.due < until;
        let mut figures = Self {
            seconds: (until.saturating_sub(from)).as_secs_f64(),
            ..Self::default()
        };
        let (mut completed, mut refused) = (Vec::new(), Vec::new());
        for call in calls.iter().filter(inside) {
            figures.offered += 1;
            match call.outcome {
                Outcome::Completed => completed.push(call.took),
                Outcome::Fallback => {
                    figures.fallback += 1;
                    refused.push(call.took);
                }
                Outcome::Refused => refused.push(call.took),
                Outcome::Failed => figures.errors += 1,
            }
        }
        figures.completed = completed.len();
        figures.rejected = refused.len();
        figures.p50_ms = percentile_ms(&mut completed, 50);
        figures.p99_ms = percentile_ms(&mut completed, 99);
        figures.rejected_p99_ms = percentile_ms(&mut refused, 99);
        figures
    }

    /// A count as so many a second.
    pub(super) fn per_s(&self, count: usize) -> f64 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if self.seconds > 0.0 {
            f64::from(count) / self.seconds
        } else {
            0.0
        }
    }

    /// Everything that was not an answer of the upstream.
    pub(super) fn lost(&self) -> usize {
        self.rejected.saturating_add(self.errors)
    }
}

/// The nearest-rank percentile: a time that really was measured.
fn percentile_ms(times: &mut [Duration], percent: usize) -> Option<f64> {
    times.sort_unstable();
    let rank = times.len().saturating_mul(percent).div_ceil(100).max(1);
    times
        .get(rank.saturating_sub(1))
        .map(|time| time.as_secs_f64() * 1000.0)
}

/// The median time of a slow call: 5 s and what the way there and back took.
fn slow_latency(calls: &[Call], slow: Duration, recovery: Duration) -> Option<Duration> {
    let mut times: Vec<Duration> = calls
        .iter()
        .filter(|call| call.route == Route::Recommendations && call.outcome == Outcome::Completed)
        .filter(|call| call.due >= slow && call.due < recovery && call.took >= SLOW)
        .map(|call| call.took)
        .collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// Everything that was seen of one play.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Seen {
    pub(super) play: Play,
    /// Through the gateway with compartments.
    pub(super) with: Measured,
    /// Through the gateway without.
    pub(super) without: Measured,
    /// Payments and inventory past both gateways: what the machine itself did meanwhile.
    pub(super) direct: Measured,
    /// Permits that were still out when every call had ended.
    pub(super) left: u64,
}

/// What one target did in one play.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Measured {
    /// In the order of [`Route::ALL`], each in the order of [`Phase::ALL`].
    pub(super) routes: Vec<(Route, Vec<(Phase, Figures)>)>,
    /// From the beginning of the slow phase to the first refusal in it.
    pub(super) fill: Option<Duration>,
    /// Recommendations while its compartment is full: from the fill on, over as many whole
    /// slow latencies as fit. Slots come back in waves, one latency apart, so a window that is no
    /// multiple of it would count a wave too many or too few.
    pub(super) full: Option<Figures>,
    /// From the recovery until the last call that was slow has given its permit back.
    pub(super) empty: Duration,
}

impl Measured {
    pub(super) fn of(calls: &[Call], play: Play) -> Self {
        let routes = Route::ALL
            .iter()
            .map(|route| {
                let of_phase = |phase: &Phase| {
                    let (from, until) = play.bounds(*phase);
                    (*phase, Figures::of(calls, *route, from, until))
                };
                (*route, Phase::ALL.iter().map(of_phase).collect())
            })
            .collect();
        let (slow, recovery) = play.bounds(Phase::Slow);
        let refused = |call: &&Call| {
            call.due >= slow
                && call.due < recovery
                && matches!(call.outcome, Outcome::Refused | Outcome::Fallback)
        };
        let first = calls.iter().filter(refused).map(|call| call.due).min();
        let full = first.and_then(|first| {
            let latency = slow_latency(calls, slow, recovery)?;
            let waves = (recovery - first).as_micros() / latency.as_micros().max(1);
            let waves = u32::try_from(waves).ok().filter(|waves| *waves > 0)?;
            let until = first + latency * waves;
            Some(Figures::of(calls, Route::Recommendations, first, until))
        });
        let held = |call: &&Call| {
            call.route == Route::Recommendations
                && call.due < recovery
                && call.outcome == Outcome::Completed
        };
        let last = calls
            .iter()
            .filter(held)
            .map(|call| call.due + call.took)
            .max();
        Self {
            routes,
            fill: first.map(|first| first - slow),
            full,
            empty: last.unwrap_or(recovery).saturating_sub(recovery),
        }
    }

    pub(super) fn figures(&self, route: Route, phase: Phase) -> Figures {
        let of_route = self.routes.iter().find(|(of, _)| *of == route);
        let found = of_route.and_then(|(_, all)| all.iter().find(|(of, _)| *of == phase));
        found.map_or_else(Figures::default, |(_, figures)| *figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A compartment as the arithmetic has it: 40 slots, 5 s each, filled at 50 a second.
    fn simulated(play: Play, limit: usize) -> Vec<Call> {
        let (slow, recovery) = play.bounds(Phase::Slow);
        let mut busy: Vec<Duration> = Vec::new();
        let mut calls = Vec::new();
        for (due, route) in play.arrivals() {
            if route != Route::Recommendations {
                let (took, outcome) = (route.healthy(), Outcome::Completed);
                calls.push(Call {
                    route,
                    due,
                    took,
                    outcome,
                });
                continue;
            }
            busy.retain(|end| *end > due);
            let took = if due >= slow && due < recovery {
                SLOW
            } else {
                route.healthy()
            } + at(2);
            let (took, outcome) = if busy.len() < limit {
                busy.push(due + took);
                (took, Outcome::Completed)
            } else {
                (at(1), Outcome::Fallback)
            };
            calls.push(Call {
                route,
                due,
                took,
                outcome,
            });
        }
        calls
    }

    /// P12 and P13 in the demo's own counting, for a short play and a long one.
    #[test]
    fn eight_complete_and_forty_two_are_refused() {
        for seconds in [14, 15, 40, 61] {
            let play = Play::of_seconds(seconds);
            let measured = Measured::of(&simulated(play, 40), play);
            let full = measured.full.unwrap();
            let (completed, rejected) = (full.per_s(full.completed), full.per_s(full.rejected));
            assert!((7.5..=8.5).contains(&completed), "{seconds} s: {completed}");
            assert!((41.5..=42.5).contains(&rejected), "{seconds} s: {rejected}");
            let fill_ms = measured.fill.unwrap().as_millis();
            assert!((600..=850).contains(&fill_ms), "{seconds} s: {fill_ms}");
            assert!(measured.empty <= SLOW, "{seconds} s: {:?}", measured.empty);
            let payments = measured.figures(Route::Payments, Phase::Slow);
            assert_eq!((payments.lost(), payments.p99_ms), (0, Some(100.0)));
        }
    }

    #[test]
    fn nothing_is_full_when_nothing_is_refused() {
        let play = Play::of_seconds(20);
        let measured = Measured::of(&simulated(play, 1000), play);
        assert_eq!((measured.fill, measured.full), (None, None));
    }

    #[test]
    fn percentiles_are_measured_times() {
        let mut times: Vec<Duration> = (1..=200).rev().map(at).collect();
        assert_eq!(percentile_ms(&mut times, 50), Some(100.0));
        assert_eq!(percentile_ms(&mut times, 99), Some(198.0));
        assert_eq!(percentile_ms(&mut times[..1], 99), Some(1.0));
        assert_eq!(percentile_ms(&mut [], 99), None);
    }
}
