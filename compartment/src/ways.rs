//! The ways through the levels that requests may still be on.
//!
//! Separate because a permit names its way by a number that another thread can look up: the way
//! itself stays with the thread that uses it. A way is kept while its policy is in force, for
//! as long after as a request may enter by an old one, and while a permit is out by it. It must
//! never be asked by a request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::compartment::Compartment;
use crate::passage::Passage;
use crate::policy::{self, Policy};
use crate::roster::ABSENT_US;
use crate::route::Route;

/// What the ways of one policy lead through.
#[derive(Debug)]
pub(crate) struct Through<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) routes: &'a [Arc<Route>],
    pub(crate) streams: Vec<Option<Arc<Route>>>,
    pub(crate) fallbacks: Vec<Option<Arc<Route>>>,
    pub(crate) upstreams: &'a [Arc<Compartment>],
    pub(crate) gateway: &'a Arc<Compartment>,
}

/// The ways of one policy, by the index of the route.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) calls: Vec<Passage>,
    pub(crate) streams: Vec<Option<Passage>>,
    pub(crate) fallbacks: Vec<Option<Passage>>,
}

/// All that may be in use.
#[derive(Debug, Default)]
pub(crate) struct Ways {
    next_id: u64,
    /// With the time at which a policy without them came.
    known: BTreeMap<u64, (Passage, Option<u64>)>,
}

fn whole_us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Ways {
    /// Makes the ways of a policy, which replace those before.
    pub(crate) fn replace(&mut self, through: Through<'_>, now_us: u64) -> Paths {
        let Through {
            policy, gateway, ..
        } = through;
        for (_, absent_us) in self.known.values_mut() {
            absent_us.get_or_insert(now_us);
        }
        let asked = policy.routes.iter().zip(through.routes);
        let passages = asked.filter_map(|(asked, route)| {
            self.next_id += 1;
            let own = &asked.compartment;
            Some(Passage {
                id: self.next_id,
                hold_us: whole_us(own.hold_max),
                route: Arc::clone(route),
                home: Arc::clone(route),
                upstream: Arc::clone(through.upstreams.get(asked.upstream)?),
                gateway: Arc::clone(gateway),
                class_reserve: own.class_reserve,
                queue_max: own.queue,
                share: own.tenant_share,
            })
        });
        let calls: Vec<Passage> = passages.collect();
        let ages = policy.routes.iter().map(|asked| asked.compartment.stream);
        let streams = calls.iter().zip(through.streams).zip(ages);
        let streams = streams.map(|((passage, route), asked)| {
            self.next_id += 1;
            Some(Passage {
                id: self.next_id,
                hold_us: whole_us(asked?.age_max),
                route: route?,
                class_reserve: 0,
                queue_max: 0,
                share: None,
                ..passage.clone()
            })
        });
        let streams: Vec<Option<Passage>> = streams.collect();
        let asked = policy.routes.iter().map(policy::Route::fallback_upstream);
        let fallbacks = calls.iter().zip(through.fallbacks).zip(asked);
        let fallbacks = fallbacks.map(|((passage, route), upstream)| {
            self.next_id += 1;
            let route = route?;
            Some(Passage {
                id: self.next_id,
                // No tenant has a part of it, so nothing of the route's own is touched.
                home: Arc::clone(&route),
                route,
                upstream: Arc::clone(through.upstreams.get(upstream?)?),
                class_reserve: 0,
                queue_max: 0,
                share: None,
                ..passage.clone()
            })
        });
        let fallbacks: Vec<Option<Passage>> = fallbacks.collect();
        let sides = streams.iter().chain(&fallbacks).flatten();
        for passage in calls.iter().chain(sides) {
            self.known.insert(passage.id, (passage.clone(), None));
        }
        Paths {
            calls,
            streams,
            fallbacks,
        }
    }

    /// Forgets those that were replaced long ago and that no permit is out by.
    pub(crate) fn sweep(&mut self, now_us: u64, in_use: &BTreeSet<u64>) {
        self.known.retain(|id, (_, absent_us)| {
            let rested =
                absent_us.is_some_and(|since_us| now_us.saturating_sub(since_us) >= ABSENT_US);
            !rested || in_use.contains(id)
        });
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Passage> {
        self.known.get(&id).map(|(passage, _)| passage)
    }
}
