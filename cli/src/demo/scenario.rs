//! The traced collapse as numbers: routes, rates, latencies, slices, phases.
//!
//! Separate so that the figures of the demo are one page of constants, and both gateways are given
//! the same. It must never be measured: these are the claims, the rest of the demo is the evidence.

use std::time::Duration;

use control_plane::document::{self, Loaded, Syntax};
use serde_json::{Map, Value, json};

use crate::error::Failure;

/// Slots of one gateway process.
pub(super) const CAPACITY: u32 = 200;
/// A call of recommendations while it is slow.
pub(super) const SLOW: Duration = Duration::from_secs(5);
/// How long a client waits for its answer. Longer than a slow call, so that clients do not mask it.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// One route with an upstream of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    Payments,
    Inventory,
    Recommendations,
}

impl Route {
    pub(super) const ALL: [Self; 3] = [Self::Payments, Self::Inventory, Self::Recommendations];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Payments => "payments",
            Self::Inventory => "inventory",
            Self::Recommendations => "recommendations",
        }
    }

    /// Arrivals a second.
    pub(super) fn rate(self) -> u32 {
        match self {
            Self::Payments => 20,
            Self::Inventory => 30,
            Self::Recommendations => 50,
        }
    }

    /// How long a call takes while all is well.
    pub(super) fn healthy(self) -> Duration {
        Duration::from_millis(match self {
            Self::Payments => 100,
            Self::Inventory => 50,
            Self::Recommendations => 200,
        })
    }

    /// Its slice of the capacity.
    pub(super) fn limit(self) -> u32 {
        match self {
            Self::Payments | Self::Inventory => 30,
            Self::Recommendations => 40,
        }
    }

    /// Set off against the others, so that arrivals of two routes never coincide.
    fn offset(self) -> Duration {
        Duration::from_millis(match self {
            Self::Payments => 3,
            Self::Inventory => 7,
            Self::Recommendations => 11,
        })
    }
}

/// A part of one play.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Healthy,
    Slow,
    After,
}

impl Phase {
    pub(super) const ALL: [Self; 3] = [Self::Healthy, Self::Slow, Self::After];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Slow => "slow",
            Self::After => "after",
        }
    }
}

/// One play: a quarter healthy, half slow, a quarter after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Play {
    pub(super) length: Duration,
}

impl Play {
    pub(super) fn of_seconds(seconds: u64) -> Self {
        Self {
            length: Duration::from_secs(seconds),
        }
    }

    /// From when until when, counted from the start.
    pub(super) fn bounds(self, phase: Phase) -> (Duration, Duration) {
        let quarter = self.length / 4;
        match phase {
            Phase::Healthy => (Duration::ZERO, quarter),
            Phase::Slow => (quarter, quarter * 3),
            Phase::After => (quarter * 3, self.length),
        }
    }

    /// Every arrival of the play in order: the fixed schedule of an open loop.
    pub(super) fn arrivals(self) -> Vec<(Duration, Route)> {
        let mut all = Vec::new();
        for route in Route::ALL {
            let period = Duration::from_secs(1) / route.rate();
            let mut due = route.offset();
            while due < self.length {
                all.push((due, route));
                due += period;
            }
        }
        all.sort_by_key(|(due, _)| *due);
        all
    }
}

/// Which of the two gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    With,
    Without,
}

impl Mode {
    pub(super) const ALL: [Self; 2] = [Self::With, Self::Without];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::With => "with_compartments",
            Self::Without => "without",
        }
    }

    /// The same routes for both; only the limits differ. `urls` are in the order of
    /// [`Route::ALL`].
    pub(super) fn policy(self, urls: &[String]) -> Result<Loaded, Failure> {
        let mut upstreams = Map::new();
        let mut routes = Vec::new();
        for (route, url) in Route::ALL.iter().zip(urls) {
            let name = route.name();
            let limit = match self {
                Self::With => Value::from(route.limit()),
                Self::Without => Value::from("unlimited"),
            };
            let mut entry = json!({
                "id": name,
                "path": format!("/{name}"),
                "upstream": name,
                "compartment": { "limit": limit },
                // Longer than a slow call: it is the compartment that contains it, not the clock.
                "timeout": { "attempt": "10s", "total": "30s" },
            });
            if let (Route::Recommendations, Some(entry)) = (route, entry.as_object_mut()) {
                let fallback = json!([
                    { "kind": "stale", "max_age": "10s" },
                    { "kind": "static", "status": 200, "content_type": "application/json",
                      "body": "[]" },
                ]);
                entry.insert("fallback".to_owned(), fallback);
            }
            upstreams.insert(name.to_owned(), json!({ "endpoints": [url] }));
            routes.push(entry);
        }
        let document = json!({ "schema": 1, "gateway": { "capacity": CAPACITY },
                               "upstreams": upstreams, "routes": routes });
        document::load(&document.to_string(), Syntax::Json)
            .map_err(|error| Failure::Answer(format!("the demo's own policy: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_the_traced_collapse() {
        let play = Play::of_seconds(40);
        let arrivals = play.arrivals();
        for route in Route::ALL {
            let count = arrivals.iter().filter(|(_, of)| *of == route).count();
            assert!(
                count.abs_diff(route.rate() as usize * 40) <= 1,
                "{count} {route:?}"
            );
        }
        assert!(arrivals.is_sorted_by_key(|(due, _)| *due));
        assert_eq!(
            play.bounds(Phase::Slow),
            (Duration::from_secs(10), Duration::from_secs(30))
        );
        assert_eq!(
            Route::ALL.iter().map(|route| route.limit()).sum::<u32>(),
            100
        );
    }

    #[test]
    fn both_policies_are_policies() {
        let urls: Vec<String> = (1..=3).map(|n| format!("http://127.0.0.1:{n}")).collect();
        let with = Mode::With.policy(&urls).unwrap().policy;
        let without = Mode::Without.policy(&urls).unwrap().policy;
        assert_eq!(with.routes[2].compartment.limit.slots(), Some(40));
        assert_eq!(without.routes[2].compartment.limit.slots(), None);
        assert_eq!(
            (with.gateway.capacity, without.gateway.capacity),
            (CAPACITY, CAPACITY)
        );
        assert!(with.routes.iter().all(|route| route.timeout.attempt > SLOW));
    }
}
