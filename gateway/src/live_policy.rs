//! The one swappable pointer to what is in force.
//!
//! Separate because it is where slow work ends and fast work begins: a policy is built into
//! tables here, off the serving threads, and a request reads one snapshot. It must never replace a
//! live compartment (the hull changes numbers), and never let a serving thread free a large
//! snapshot.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use compartment::breaker::Breaker;
use compartment::policy::{Fault, HoldUntil, Policy, RetryOn, Route, Streams, Value};
use compartment::{Class, Hull, Limit, Name, Passage, RetryBudget, RetryCounts, TenantCompartment};
use http::HeaderName;

use crate::breakers::Breakers;
use crate::budgets::Budgets;
use crate::clock::whole_us;
use crate::dependencies::{Dependencies, Prepared};
use crate::fallback::{KeptStats, Ladder};
use crate::field_rules::FieldRules;
use crate::http_stats::HttpStats;
use crate::least_rate::LeastRate;
use crate::newest::Newest;
use crate::outcomes::Outcomes;
use crate::rehearsal::Rehearsals;
use crate::route::RouteTable;
use crate::running::{Mark, Tables};
use crate::stale::{Owners, Store};
use crate::tenant::TenantTable;
use crate::upstream::Target;
use crate::via::Via;

/// Process-wide: all compartments, and the policy in force.
#[derive(Debug)]
pub(crate) struct Live {
    hull: Hull,
    current: ArcSwapOption<LivePolicy>,
    /// Changes with the pointer; what serving threads compare, because it costs nothing to read.
    version: AtomicU64,
    /// Snapshots that somebody still reads. Kept here so that the last reader, a serving thread,
    /// is never the one who frees 100,000 tenants.
    retired: Mutex<Vec<Arc<LivePolicy>>>,
    /// Per route and process, so that a new policy does not begin them anew.
    pub(crate) budgets: Budgets,
    /// Of the steps of every fallback, for the same reason.
    pub(crate) steps: KeptStats,
    pub(crate) stale: Store,
    pub(crate) rehearsals: Rehearsals,
    pub(crate) breakers: Breakers,
    pub(crate) running: Tables,
    pub(crate) outcomes: Outcomes,
    pub(crate) via: Via,
    pub(crate) http: HttpStats,
    pub(crate) newest: Newest,
    pub(crate) dependencies: Dependencies,
    pub(crate) least_rate: LeastRate,
}

/// One policy, ready to serve. Immutable.
#[derive(Debug)]
pub(crate) struct LivePolicy {
    /// Its number.
    pub(crate) generation: u64,
    /// SHA-256 of its document.
    pub(crate) digest: String,
    /// As it was checked.
    pub(crate) policy: Policy,
    pub(crate) table: RouteTable,
    pub(crate) routes: Vec<Arc<LiveRoute>>,
    pub(crate) tenants: TenantTable,
    pub(crate) owners: Owners,
    /// In the order of the policy, then the shared unknown one.
    pub(crate) compartments: Vec<Arc<TenantCompartment>>,
    pub(crate) tenant_marks: Vec<Mark>,
}

/// One route in the units of the request path.
#[derive(Debug)]
pub(crate) struct LiveRoute {
    pub(crate) id: Name,
    /// Its upstream's.
    pub(crate) upstream: Arc<str>,
    pub(crate) passage: Passage,
    pub(crate) streams: Option<LiveStreams>,
    pub(crate) class: Class,
    pub(crate) tenant_limit: Option<Limit>,
    pub(crate) plan_limits: PlanLimits,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) endpoints: Vec<Arc<Target>>,
    /// What the upstream speaks, by prior knowledge.
    pub(crate) http2: bool,
    pub(crate) connect_us: u64,
    pub(crate) queue_wait_us: u64,
    pub(crate) hold_us: u64,
    pub(crate) hold_until: HoldUntil,
    pub(crate) attempt_us: u64,
    pub(crate) total_us: u64,
    pub(crate) body_idle_us: u64,
    pub(crate) body_bytes_max: u64,
    pub(crate) deadline_header: Option<HeaderName>,
    /// `None`: everything goes as it is.
    pub(crate) fields: Option<Box<FieldRules>>,
    pub(crate) retry: Option<LiveRetry>,
    pub(crate) fallback: Ladder,
    pub(crate) route_mark: Mark,
    pub(crate) upstream_mark: Mark,
}

/// `stream` of a route's compartment.
#[derive(Debug)]
pub(crate) struct LiveStreams {
    pub(crate) passage: Passage,
    pub(crate) idle_us: u64,
    pub(crate) age_us: u64,
    /// Every gRPC call is one.
    pub(crate) grpc: bool,
    pub(crate) mark: Mark,
}

impl LiveStreams {
    fn new(terms: &Streams, passage: Passage, route: &Name) -> Self {
        Self {
            passage,
            idle_us: whole_us(terms.idle),
            age_us: whole_us(terms.age_max),
            grpc: terms.grpc,
            mark: Mark::of("stream", route.as_str()),
        }
    }
}

/// `[routes.retry]`.
#[derive(Debug)]
pub(crate) struct LiveRetry {
    pub(crate) attempts: u32,
    pub(crate) on: RetryOn,
    pub(crate) idempotency_header: Option<HeaderName>,
    pub(crate) budget: Arc<RetryBudget>,
    pub(crate) counts: Arc<RetryCounts>,
}

impl Live {
    /// Nothing in force, in a process with so many serving threads.
    #[cfg(test)]
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Self::with(workers, LeastRate::default())
    }

    pub(crate) fn with(workers: usize, least_rate: LeastRate) -> Arc<Self> {
        Arc::new(Self {
            hull: Hull::with_cores(workers),
            current: ArcSwapOption::empty(),
            version: AtomicU64::new(0),
            retired: Mutex::default(),
            budgets: Budgets::default(),
            steps: KeptStats::default(),
            stale: Store::default(),
            rehearsals: Rehearsals::default(),
            breakers: Breakers::default(),
            running: Tables::default(),
            outcomes: Outcomes::default(),
            via: Via::random(),
            http: HttpStats::default(),
            newest: Newest::default(),
            dependencies: Dependencies::default(),
            least_rate,
        })
    }

    /// Puts a checked policy in force: numbers into the live compartments, then the pointer.
    pub(crate) fn install(
        &self,
        generation: u64,
        document: &Value,
        policy: Policy,
        now_us: u64,
    ) -> Result<(), Vec<Fault>> {
        let digest = wire::document::digest(document);
        // What can fail comes first, and changes nothing.
        let prepared = self.dependencies.prepare(&policy)?;
        self.dependencies.keep(&policy, &prepared);
        let fresh = Arc::new(self.build(generation, digest, policy, &prepared, now_us));
        self.http.keep_only(&fresh.policy);
        let old = self.current.swap(Some(Arc::clone(&fresh)));
        self.version.fetch_add(1, Ordering::AcqRel);
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        retired.extend(old);
        drop(retired);
        // After the pointer: whoever asks by the new policy finds what belongs to it alone.
        fresh.owners.keep_only(&self.stale, now_us);
        drop(fresh);
        self.sweep();
        Ok(())
    }

    /// What is in force.
    pub(crate) fn current(&self) -> Option<Arc<LivePolicy>> {
        self.current.load_full()
    }

    /// All compartments of the process.
    pub(crate) fn hull(&self) -> &Hull {
        &self.hull
    }

    /// Frees the snapshots that no request reads any more. For a thread that serves nobody.
    pub(crate) fn sweep(&self) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, unread): (Vec<_>, Vec<_>) = retired
            .drain(..)
            .partition(|policy| Arc::strong_count(policy) > 1);
        *retired = kept;
        drop(retired);
        drop(unread);
        self.budgets.sweep();
        self.steps.sweep();
    }

    /// Snapshots that are kept for somebody who still reads them.
    #[cfg(test)]
    pub(crate) fn retired(&self) -> usize {
        self.retired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Differs whenever the policy in force does.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn build(
        &self,
        generation: u64,
        digest: String,
        policy: Policy,
        prepared: &Prepared,
        now_us: u64,
    ) -> LivePolicy {
        let fittings = self.hull.apply(&policy, now_us);
        self.breakers.apply(&policy, now_us);
        let sides = fittings.streams.into_iter().zip(fittings.fallbacks);
        let ways = fittings.passages.into_iter().zip(sides);
        let ways = ways.zip(plan_limits(&policy));
        let ways = ways.map(|((calls, (streams, fallback)), plan_limits)| Ways {
            calls,
            streams,
            fallback,
            plan_limits,
        });
        let routes = policy.routes.iter().zip(ways).enumerate();
        let routes = routes
            .map(|(index, (route, ways))| {
                Arc::new(self.route(&policy, prepared, index, route, ways))
            })
            .collect();
        let names = fittings.tenants.iter().map(|tenant| tenant.name());
        let tenant_marks = names
            .map(|name| Mark::of("tenant", name.as_str()))
            .collect();
        LivePolicy {
            generation,
            digest,
            table: RouteTable::new(&policy.routes),
            routes,
            tenants: TenantTable::new(&policy),
            owners: Owners::of(&policy),
            compartments: fittings.tenants,
            tenant_marks,
            policy,
        }
    }

    pub(crate) fn route(
        &self,
        policy: &Policy,
        prepared: &Prepared,
        index: usize,
        route: &Route,
        ways: Ways,
    ) -> LiveRoute {
        let terms = route.compartment.stream.as_ref().zip(ways.streams);
        let fallback = self.ladder(policy, prepared, index, route, ways.fallback);
        let http = &policy.gateway.http;
        let upstream = policy.upstreams.get(route.upstream);
        let upstream_id = upstream.map_or("", |upstream| upstream.id.as_str());
        let name = |name: &String| HeaderName::from_bytes(name.as_bytes()).ok();
        LiveRoute {
            id: route.id.clone(),
            upstream: upstream_id.into(),
            passage: ways.calls,
            streams: terms.map(|(terms, way)| LiveStreams::new(terms, way, &route.id)),
            class: route.class,
            tenant_limit: route.compartment.tenant_limit,
            plan_limits: ways.plan_limits,
            breaker: self.breakers.of(upstream_id),
            endpoints: prepared
                .get(route.upstream)
                .map(|dependency| dependency.targets.clone())
                .unwrap_or_default(),
            http2: upstream.is_some_and(|upstream| upstream.http2),
            connect_us: upstream.map_or(0, |upstream| whole_us(upstream.connect_timeout)),
            queue_wait_us: whole_us(route.compartment.queue_wait),
            hold_us: whole_us(route.compartment.hold_max),
            hold_until: route.compartment.hold_until,
            attempt_us: whole_us(route.timeout.attempt),
            total_us: whole_us(route.timeout.total),
            body_idle_us: whole_us(route.timeout.body_idle.unwrap_or(http.body_idle_timeout)),
            body_bytes_max: route.body_bytes_max.unwrap_or(http.body_bytes_max),
            deadline_header: route.timeout.deadline_header.as_ref().and_then(name),
            fields: FieldRules::new(&route.rewrite, &route.headers),
            retry: route.retry.as_ref().map(|retry| {
                let (budget, counts) = self.budgets.of(&route.id, retry);
                LiveRetry {
                    attempts: retry.attempts,
                    on: retry.on,
                    idempotency_header: retry.idempotency_header.as_ref().and_then(name),
                    budget,
                    counts,
                }
            }),
            fallback,
            route_mark: Mark::of("route", route.id.as_str()),
            upstream_mark: Mark::of("upstream", upstream_id),
        }
    }
}

/// The ways of one route.
#[derive(Debug)]
pub(crate) struct Ways {
    pub(crate) calls: Passage,
    pub(crate) streams: Option<Passage>,
    pub(crate) fallback: Option<Passage>,
    pub(crate) plan_limits: PlanLimits,
}

/// A route's, by the index of the plan.
pub(crate) type PlanLimits = HashMap<usize, Limit>;

/// Those of every route, read in one pass: each plan names a few routes of many.
fn plan_limits(policy: &Policy) -> Vec<PlanLimits> {
    let mut all = vec![PlanLimits::new(); policy.routes.len()];
    for (plan, terms) in policy.plans.iter().enumerate() {
        for &(route, limit) in &terms.routes {
            if let Some(here) = all.get_mut(route) {
                here.insert(plan, limit);
            }
        }
    }
    all
}

impl LivePolicy {
    /// True when the peer's forwarding fields are believed.
    pub(crate) fn trusts(&self, peer: std::net::IpAddr) -> bool {
        self.policy
            .gateway
            .http
            .trusted_proxies
            .iter()
            .any(|network| network.contains(peer))
    }
}

#[cfg(test)]
mod tests {
    use compartment::policy::Retry;

    use super::*;
    use crate::testing::{policy, route};

    #[test]
    fn a_new_policy_changes_the_pointer_and_frees_the_old_snapshot() {
        let live = Live::new(1);
        assert!(live.current().is_none());
        live.install(1, &Value::Table(Vec::new()), policy(&[route("a", "/a")]), 1)
            .unwrap();
        let first = live.current().unwrap();
        let (weak, version) = (Arc::downgrade(&first), live.version());
        live.install(2, &Value::Table(Vec::new()), policy(&[route("b", "/b")]), 1)
            .unwrap();
        assert_ne!(live.version(), version);
        assert_eq!(live.current().unwrap().generation, 2);
        // A reader keeps it; whoever sweeps next, not the reader, frees it.
        drop(first);
        assert!(weak.upgrade().is_some());
        live.sweep();
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn a_budget_outlives_a_policy_that_does_not_change_it() {
        let live = Live::new(1);
        let retry = Retry {
            attempts: 2,
            budget: None,
            window: std::time::Duration::from_secs(10),
            on: RetryOn {
                connect: true,
                reset: true,
                status_502: false,
                status_503: false,
                status_504: false,
                timeout: false,
            },
            idempotency_header: None,
        };
        let mut one = route("a", "/a");
        one.retry = Some(retry);
        let budget_of = |live: &Live| {
            let current = live.current().unwrap();
            Arc::clone(&current.routes[0].retry.as_ref().unwrap().budget)
        };
        live.install(1, &Value::Table(Vec::new()), policy(&[one.clone()]), 1)
            .unwrap();
        let first = budget_of(&live);
        live.install(2, &Value::Table(Vec::new()), policy(&[one]), 1)
            .unwrap();
        assert!(Arc::ptr_eq(&first, &budget_of(&live)));
        drop(first);
        // It goes with the last snapshot that has it: one that is read is not there for nothing.
        let read = live.current().unwrap();
        let none = policy(&[route("a", "/a")]);
        live.install(3, &Value::Table(Vec::new()), none, 1).unwrap();
        assert_eq!(live.budgets.figures(1).len(), 1);
        drop(read);
        live.sweep();
        assert_eq!(live.budgets.figures(1).len(), 0);
    }
}
