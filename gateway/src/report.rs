//! What the gateway says of its compartments: to the admin port, to metrics, to its control plane.
//!
//! Separate so that all three show the same figures, read from the compartments themselves. It
//! must never run on a serving thread: reading 100,000 tenants takes its time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compartment::{Figures, Level};
use wire::stream::proto;

use crate::clock::{Clock, unix_ms};
use crate::endpoints;
use crate::http_stats::HttpStats;
use crate::live_policy::Live;
use crate::outcomes::Outcomes;
use crate::rehearsal;
use crate::stale::Store;
use crate::tell::Tell;

/// Most tenants (and tenants on routes) in one report; those with most requests come first.
const REPORT_TENANTS_MAX: usize = 5_000;

/// Reads the figures. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    live: Arc<Live>,
    clock: Clock,
    boot: Arc<Boot>,
    tell: Tell,
}

/// Names the process that counts, and numbers its reports.
#[derive(Debug)]
struct Boot {
    id: String,
    reports: AtomicU64,
}

impl Boot {
    /// Another one with each start, also of the same gateway.
    fn new() -> Self {
        let chance = || getrandom::u64().unwrap_or_default();
        Self {
            id: format!("{:016x}{:016x}{:016x}", unix_ms(), chance(), chance()),
            reports: AtomicU64::new(0),
        }
    }

    /// The number of the next report, from 1.
    fn next(&self) -> u64 {
        self.reports
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1)
    }
}

/// All compartments at one moment.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub(crate) struct Snapshot {
    /// What runs; 0 when nothing does.
    pub(crate) generation: u64,
    pub(crate) compartments: Vec<Figures>,
}

impl Reporter {
    /// How the endpoints of every upstream do.
    pub(crate) fn upstreams(&self) -> serde_json::Value {
        endpoints::page(&self.live.dependencies, self.clock.now_us())
    }

    pub(crate) fn new(live: Arc<Live>, clock: Clock, tell: Tell) -> Self {
        let boot = Arc::new(Boot::new());
        Self {
            live,
            clock,
            boot,
            tell,
        }
    }

    /// Generation and digest of what runs.
    pub(crate) fn running(&self) -> Option<(u64, String)> {
        self.live
            .current()
            .map(|policy| (policy.generation, policy.digest.clone()))
    }

    /// Reads one compartment after the other; none is kept, for there may be 100,000 tenants.
    pub(crate) fn each(&self, take: &mut dyn FnMut(Figures)) {
        let (hull, now_us) = (self.live.hull(), self.clock.now_us());
        hull.each_figures(now_us, &mut self.with_ages(now_us, take));
    }

    /// The same for a report, with which the recent peaks begin anew.
    fn each_reported(&self, take: &mut dyn FnMut(Figures)) {
        let (hull, now_us) = (self.live.hull(), self.clock.now_us());
        hull.report(now_us, &mut self.with_ages(now_us, take));
    }

    fn with_ages(&self, now_us: u64, take: &mut dyn FnMut(Figures)) -> impl FnMut(Figures) {
        let ages = self.live.oldest_ms(now_us);
        let mut ladders = self.live.ladders(now_us);
        let mut breakers = self.live.breakers.figures(now_us);
        let mut retries = self.live.budgets.figures(now_us);
        let mut endpoints = endpoints::figures(&self.live.dependencies, now_us);
        move |mut figures| {
            fill_age(&mut figures, &ages);
            match figures.level {
                Level::Upstream => {
                    figures.breaker = breakers.remove(&figures.key).map(Box::new);
                    figures.endpoints = endpoints.remove(&figures.key).map(Box::new);
                }
                Level::Route => {
                    figures.fallbacks = ladders.remove(&figures.key).unwrap_or_default();
                    figures.retry = retries.remove(&figures.key).map(Box::new);
                }
                Level::Stream
                | Level::Fallback
                | Level::Tenant
                | Level::TenantRoute
                | Level::Gateway => {}
            }
            take(figures);
        }
    }

    /// What tenants had counted that no policy names any more.
    pub(crate) fn departed_tenants(&self) -> Figures {
        self.live.hull().departed_tenants()
    }

    /// Reads every compartment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let generation = self.generation();
        let mut compartments = Vec::new();
        self.each(&mut |figures| compartments.push(figures));
        Snapshot {
            generation,
            compartments,
        }
    }

    /// Number of the policy that runs; 0 when none does.
    pub(crate) fn generation(&self) -> u64 {
        self.live.current().map_or(0, |policy| policy.generation)
    }

    /// What no compartment counts.
    pub(crate) fn outcomes(&self) -> &Outcomes {
        &self.live.outcomes
    }

    /// What is stored for callers that get no other answer.
    pub(crate) fn stale(&self) -> &Store {
        &self.live.stale
    }

    /// Asks every step of a route's fallback.
    pub(crate) async fn rehearse(&self, asked: proto::Rehearse) -> proto::Rehearsed {
        let now_us = self.clock.now_us();
        let asking = rehearsal::rehearse(&self.live, &asked.route, &asked.path, now_us);
        let (steps, refused) = match asking.await {
            Ok(steps) => (steps, String::new()),
            Err(why) => (Vec::new(), why),
        };
        proto::Rehearsed {
            id: asked.id,
            steps,
            refused,
        }
    }

    /// On the clock that counts.
    pub(crate) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// How long requests took.
    pub(crate) fn http(&self) -> &HttpStats {
        &self.live.http
    }

    /// What the control plane is told.
    pub(crate) fn message(&self) -> proto::Report {
        let (sequence, uptime_us) = (self.boot.next(), self.clock.now_us());
        let generation = self.generation();
        let mut chosen = Chosen::default();
        self.each_reported(&mut |figures| chosen.take(figures));
        let (left_out, dropped) = (chosen.left_out(), self.tell.telemetry.dropped());
        let mut all = chosen.all();
        endpoints::fit(&mut all);
        let compartments = all.iter().map(proto::Compartment::from).collect();
        proto::Report {
            generation,
            compartments,
            boot_id: self.boot.id.clone(),
            sequence,
            at_unix_ms: i64::try_from(unix_ms()).unwrap_or(i64::MAX),
            uptime_us,
            left_out,
            dropped_spans: dropped.spans,
            dropped_logs: dropped.logs,
            dropped_access_lines: self.tell.access_lines_dropped(),
            // What the link knows.
            drained: false,
            newest: self.live.newest.take(uptime_us),
        }
    }
}

/// Ages and figures are read one after the other: a permit may have come back in between.
fn fill_age(figures: &mut Figures, ages: &HashMap<String, u64>) {
    let age = ages
        .get(&figures.key)
        .copied()
        .filter(|_| figures.in_flight > 0);
    figures.oldest_permit_ms = age.unwrap_or_default();
}

const fn is_tenant(level: Level) -> bool {
    match level {
        Level::Tenant | Level::TenantRoute => true,
        Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => false,
    }
}

/// Every route, upstream and the gateway; of the tenants those that had traffic, busiest first,
/// up to the bound: a report goes out every second, whatever the number of tenants.
#[derive(Default)]
struct Chosen {
    kept: Vec<Figures>,
    tenants: Vec<Figures>,
    tenants_seen: usize,
}

impl Chosen {
    fn take(&mut self, figures: Figures) {
        if !is_tenant(figures.level) {
            self.kept.push(figures);
        } else if figures.arrived > 0 || figures.in_flight > 0 {
            self.tenants.push(figures);
            self.tenants_seen = self.tenants_seen.saturating_add(1);
        }
        // Sorted now and then, so that the list stays near its bound.
        if self.tenants.len() >= REPORT_TENANTS_MAX.saturating_mul(2) {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        if self.tenants.len() > REPORT_TENANTS_MAX {
            let busy = |figures: &Figures| std::cmp::Reverse((figures.in_flight, figures.arrived));
            self.tenants.sort_by_key(busy);
            self.tenants.truncate(REPORT_TENANTS_MAX);
        }
    }

    /// How many tenants will find no place.
    fn left_out(&self) -> u32 {
        u32::try_from(self.tenants_seen.saturating_sub(REPORT_TENANTS_MAX)).unwrap_or(u32::MAX)
    }

    fn all(mut self) -> Vec<Figures> {
        self.shorten();
        self.kept.append(&mut self.tenants);
        self.kept
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use compartment::Limit;

    use super::*;

    pub(crate) fn figures(key: &str, arrived: u64) -> Figures {
        let key: compartment::Key = key.parse().unwrap();
        Figures {
            reserved: 10,
            arrived,
            admitted: arrived,
            completed: arrived,
            ..Figures::new(key.to_string(), key.level(), Limit::new(10).unwrap())
        }
    }

    fn chosen(all: Vec<Figures>) -> Vec<Figures> {
        let mut chosen = Chosen::default();
        all.into_iter().for_each(|figures| chosen.take(figures));
        chosen.all()
    }

    #[test]
    fn idle_tenants_are_not_reported_and_idle_routes_are() {
        let all = [
            "gateway",
            "route/a",
            "upstream/u",
            "tenant/t",
            "route/a/tenant/t",
        ];
        let kept = chosen(all.map(|key| figures(key, 0)).to_vec());
        let keys: Vec<_> = kept.iter().map(|figures| figures.key.as_str()).collect();
        assert_eq!(keys, ["gateway", "route/a", "upstream/u"]);
    }

    #[test]
    fn the_busiest_tenants_are_reported_up_to_the_bound() {
        let count = u64::try_from(REPORT_TENANTS_MAX * 3).unwrap() + 7;
        let all = (1..=count)
            .map(|n| figures(&format!("tenant/t{n}"), n))
            .collect();
        let kept = chosen(all);
        assert_eq!(kept.len(), REPORT_TENANTS_MAX);
        let mut many = Chosen::default();
        (1..=count).for_each(|n| many.take(figures(&format!("tenant/t{n}"), n)));
        assert_eq!(u64::from(many.left_out()), count - 5_000);
        let quiet = u64::try_from(REPORT_TENANTS_MAX * 2).unwrap() + 7;
        assert!(kept.iter().all(|figures| figures.arrived > quiet));
    }

    #[test]
    fn ages_belong_to_permits_that_are_out() {
        let ages = HashMap::from([("route/a".to_owned(), 212)]);
        let mut out = Figures {
            in_flight: 1,
            ..figures("route/a", 5)
        };
        let mut back = figures("route/a", 5);
        fill_age(&mut out, &ages);
        fill_age(&mut back, &ages);
        assert_eq!((out.oldest_permit_ms, back.oldest_permit_ms), (212, 0));
    }
}
