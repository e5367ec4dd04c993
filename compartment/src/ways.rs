//! The ways through the levels that requests may still be on.
//!
//! Separate because a permit names its way by a number that another thread can look up: the way
//! itself stays with the thread that uses it. A way that the next policy does not change is the
//! same way; another one is kept for as long after as a request may enter by it, and while a
//! permit is out by it. It must never be asked by a request, nor grow with the policies that come.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::Name;
use crate::compartment::Compartment;
use crate::numbers::whole_us;
use crate::passage::Passage;
use crate::policy::{self, Policy};
use crate::roster::ABSENT_US;
use crate::route::Route;

/// Most ways that are kept although a policy has replaced them and no permit is out by them. The
/// oldest goes first; should a request still enter by it, nobody watches how long it stays.
pub const WAYS_REPLACED_MAX: usize = 10_000;

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
    /// Those of the policy in force by the name of the route: its calls', its streams' and its
    /// fallback's.
    current: HashMap<Name, [Option<Passage>; 3]>,
    known: HashMap<u64, Passage>,
    /// Those of them that are not current, and when a policy without them came.
    replaced: BTreeMap<u64, u64>,
}

/// The way of a route's calls, without a number.
fn calls(through: &Through<'_>, index: usize, asked: &policy::Route) -> Option<Passage> {
    let (route, own) = (through.routes.get(index)?, &asked.compartment);
    Some(Passage {
        id: 0,
        hold_us: whole_us(own.hold_max),
        route: Arc::clone(route),
        home: Arc::clone(route),
        upstream: Arc::clone(through.upstreams.get(asked.upstream)?),
        gateway: Arc::clone(through.gateway),
        class_reserve: own.class_reserve,
        queue_max: own.queue,
        share: own.tenant_share,
    })
}

fn streams(
    through: &Through<'_>,
    index: usize,
    asked: &policy::Route,
    calls: &Passage,
) -> Option<Passage> {
    let route = through.streams.get(index)?.as_ref()?;
    Some(Passage {
        hold_us: whole_us(asked.compartment.stream?.age_max),
        ..beside(calls, route)
    })
}

fn fallback(
    through: &Through<'_>,
    index: usize,
    asked: &policy::Route,
    calls: &Passage,
) -> Option<Passage> {
    let route = through.fallbacks.get(index)?.as_ref()?;
    let upstream = through.upstreams.get(asked.fallback_upstream()?)?;
    Some(Passage {
        // No tenant has a part of it, so nothing of the route's own is touched.
        home: Arc::clone(route),
        upstream: Arc::clone(upstream),
        ..beside(calls, route)
    })
}

/// A side has no line, and keeps nothing for anybody.
fn beside(calls: &Passage, side: &Arc<Route>) -> Passage {
    Passage {
        route: Arc::clone(side),
        class_reserve: 0,
        queue_max: 0,
        share: None,
        ..calls.clone()
    }
}

impl Ways {
    /// Makes the ways of a policy, which replace those before unless they are the same.
    pub(crate) fn replace(&mut self, through: Through<'_>, now_us: u64) -> Paths {
        let before = std::mem::take(&mut self.current);
        let ids = before
            .values()
            .flatten()
            .flatten()
            .map(|way| (way.id, now_us));
        self.replaced.extend(ids);
        let mut paths = Paths {
            calls: Vec::new(),
            streams: Vec::new(),
            fallbacks: Vec::new(),
        };
        for (index, asked) in through.policy.routes.iter().enumerate() {
            let Some(calls) = calls(&through, index, asked) else {
                continue;
            };
            let sides = [
                streams(&through, index, asked, &calls),
                fallback(&through, index, asked, &calls),
            ];
            let old = before.get(&asked.id);
            let mut know = |which: usize, way: Option<Passage>| {
                let old = old.and_then(|ways| ways.get(which)?.as_ref());
                way.map(|way| self.know(way, old))
            };
            let [streams, fallback] = sides;
            let ways = [know(0, Some(calls)), know(1, streams), know(2, fallback)];
            self.current.insert(asked.id.clone(), ways.clone());
            let [calls, streams, fallback] = ways;
            paths.calls.extend(calls);
            paths.streams.push(streams);
            paths.fallbacks.push(fallback);
        }
        paths
    }

    /// The way as it was, or a new one.
    fn know(&mut self, fresh: Passage, old: Option<&Passage>) -> Passage {
        let same = old.filter(|old| old.is_same_way(&fresh));
        let way = same.cloned().unwrap_or_else(|| {
            self.next_id += 1;
            Passage {
                id: self.next_id,
                ..fresh
            }
        });
        self.replaced.remove(&way.id);
        self.known.insert(way.id, way.clone());
        way
    }

    /// Forgets the oldest of those that were replaced beyond `WAYS_REPLACED_MAX`, unless a permit
    /// is out by it.
    pub(crate) fn bound(&mut self, in_use: impl FnOnce() -> BTreeSet<u64>) {
        let beyond = self.replaced.len().saturating_sub(WAYS_REPLACED_MAX);
        if beyond > 0 {
            let in_use = in_use();
            let free = self.replaced.keys().filter(|id| !in_use.contains(id));
            let oldest: Vec<u64> = free.take(beyond).copied().collect();
            self.forget(&oldest);
        }
    }

    /// Forgets those that were replaced long ago and that no permit is out by.
    pub(crate) fn sweep(&mut self, now_us: u64, in_use: &BTreeSet<u64>) {
        let rested = |since_us: &u64| now_us.saturating_sub(*since_us) >= ABSENT_US;
        let over = self.replaced.iter();
        let over = over.filter(|(id, since_us)| rested(since_us) && !in_use.contains(id));
        let over: Vec<u64> = over.map(|(id, _)| *id).collect();
        self.forget(&over);
    }

    fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.replaced.remove(id);
            self.known.remove(id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Passage> {
        self.known.get(&id)
    }
}
