//! Where the counters of a limit that is only judged stood when it became what it is now.
//!
//! Separate because a gateway counts from its start, and what was counted under another limit says
//! nothing about this one. Whoever shows what a watched limit would have refused subtracts what
//! stands here. When in doubt it begins anew: it must never let a figure of other terms count.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use compartment::policy::{Millionths, Policy};
use compartment::{Class, Figures, Key, Limit, Mode, Name, Rejection};

use crate::fleet::GATEWAYS_MAX;
use crate::readings::{Received, ReportMark, figures_of};
use crate::rollout::Published;

/// Generations whose terms are known: so many may be on their way to gateways at once.
const GENERATIONS_MAX: usize = 16;

/// Everything that decides what a watched limit refuses. Two that are equal may be added up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Terms {
    mode: Mode,
    limit: Limit,
    candidate: Option<u32>,
    class: Class,
    class_reserve: u32,
    queue: u32,
    queue_wait: Duration,
    tenant_limit: Option<Limit>,
    tenant_share: Option<Millionths>,
    plans: Vec<(Name, Limit)>,
}

/// The terms of each route with a limit that is judged and not enforced, by key.
pub(crate) type AllTerms = HashMap<Arc<str>, Arc<Terms>>;

/// The terms of every watched route of a policy.
pub(crate) fn terms(policy: &Policy) -> AllTerms {
    let mut plans: HashMap<usize, Vec<(Name, Limit)>> = HashMap::new();
    for plan in &policy.plans {
        for (route, limit) in &plan.routes {
            plans
                .entry(*route)
                .or_default()
                .push((plan.id.clone(), *limit));
        }
    }
    let watched = |(at, route): (usize, &compartment::policy::Route)| {
        let own = &route.compartment;
        if own.mode != Mode::Shadow && own.candidate.is_none() {
            return None;
        }
        let terms = Terms {
            mode: own.mode,
            limit: own.limit,
            candidate: own.candidate,
            class: route.class,
            class_reserve: own.class_reserve,
            queue: own.queue,
            queue_wait: own.queue_wait,
            tenant_limit: own.tenant_limit,
            tenant_share: own.tenant_share,
            plans: plans.get(&at).cloned().unwrap_or_default(),
        };
        Some((
            Key::Route(route.id.clone()).to_string().into(),
            Arc::new(terms),
        ))
    };
    policy
        .routes
        .iter()
        .enumerate()
        .filter_map(watched)
        .collect()
}

/// Where the counters of one compartment stood.
#[derive(Clone, Debug, Default, PartialEq)]
struct Stood {
    arrived: u64,
    candidate_rejected: u64,
    shadow_rejected: BTreeMap<Rejection, u64>,
    idle_us: u64,
    busy_us: u64,
    saturated_us: u64,
}

impl Stood {
    fn of(figures: &Figures) -> Self {
        Self {
            arrived: figures.arrived,
            candidate_rejected: figures.candidate_rejected,
            shadow_rejected: figures.shadow_rejected.clone(),
            idle_us: figures.idle_us,
            busy_us: figures.busy_us,
            saturated_us: figures.saturated_us,
        }
    }

    /// True of counters that fell: those of another process.
    fn fell(&self, figures: &Figures) -> bool {
        let now = |reason| figures.shadow_rejected.get(reason).copied().unwrap_or(0);
        figures.arrived < self.arrived
            || figures.candidate_rejected < self.candidate_rejected
            || self
                .shadow_rejected
                .iter()
                .any(|(reason, then)| now(reason) < *then)
    }

    /// What came since; `None` of counters that fell.
    fn since(&self, figures: &Figures) -> Option<Figures> {
        if self.fell(figures) {
            return None;
        }
        let mut shadow_rejected = figures.shadow_rejected.clone();
        for (reason, now) in &mut shadow_rejected {
            let then = self.shadow_rejected.get(reason).copied().unwrap_or(0);
            *now = now.saturating_sub(then);
        }
        shadow_rejected.retain(|_, count| *count > 0);
        Some(Figures {
            arrived: figures.arrived.saturating_sub(self.arrived),
            candidate_rejected: figures
                .candidate_rejected
                .saturating_sub(self.candidate_rejected),
            shadow_rejected,
            idle_us: figures.idle_us.saturating_sub(self.idle_us),
            busy_us: figures.busy_us.saturating_sub(self.busy_us),
            saturated_us: figures.saturated_us.saturating_sub(self.saturated_us),
            ..figures.clone()
        })
    }
}

/// Since when one watched limit of one gateway counts.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    terms: Arc<Terms>,
    /// When the first report under these terms came, in milliseconds since 1970.
    pub(crate) since_ms: i64,
    /// The most in flight since.
    peak: u32,
    route: Stood,
    /// At the newest report: a counter that falls is another process's.
    arrived: u64,
    /// By key; a tenant that is not here came later.
    tenants: Arc<HashMap<Box<str>, Stood>>,
}

impl Base {
    fn new(terms: Arc<Terms>, own: Own<'_>, since_ms: i64) -> Self {
        let tenants = own.tenants.iter();
        Self {
            terms,
            since_ms,
            peak: own.route.map_or(0, |route| route.in_flight),
            route: own.route.map(Stood::of).unwrap_or_default(),
            arrived: own.route.map_or(0, |route| route.arrived),
            tenants: Arc::new(
                tenants
                    .map(|one| (one.key.as_str().into(), Stood::of(one)))
                    .collect(),
            ),
        }
    }

    /// What this gateway counted for the route since, and for its tenants; nothing while it is
    /// judged on other terms than these.
    pub(crate) fn since(&self, key: &str, terms: &Terms, figures: &[Figures]) -> Vec<Figures> {
        let own = Own::of(key, figures);
        let route = own.route.filter(|_| *self.terms == *terms);
        let Some(mut route) = route.and_then(|route| self.route.since(route)) else {
            return Vec::new();
        };
        route.peak = self.peak;
        let tenant = |one: &Figures| match self.tenants.get(one.key.as_str()) {
            // A tenant that was away for long is counted anew by its gateway.
            Some(stood) => stood.since(one).unwrap_or_else(|| one.clone()),
            None => one.clone(),
        };
        let tenants = own.tenants.iter().map(tenant);
        std::iter::once(route).chain(tenants).collect()
    }
}

/// A route and its tenants in figures that are sorted by key.
struct Own<'a> {
    route: Option<&'a Figures>,
    tenants: &'a [Figures],
}

impl<'a> Own<'a> {
    fn of(key: &str, figures: &'a [Figures]) -> Self {
        let below = format!("{key}/tenant/");
        let from = figures.partition_point(|one| one.key < below);
        let rest = figures.get(from..).unwrap_or_default();
        let count = rest.partition_point(|one| one.key.starts_with(&below));
        Self {
            route: figures_of(figures, key),
            tenants: rest.get(..count).unwrap_or_default(),
        }
    }
}

/// What is known of one gateway: by route, where it stood.
pub(crate) type Bases = BTreeMap<Arc<str>, Base>;

#[derive(Debug, Default)]
struct Account {
    boot: Box<str>,
    /// What it last said that it runs.
    generation: u64,
    bases: Bases,
    seen_ms: i64,
}

#[derive(Debug, Default)]
struct Inner {
    /// Of the generations that went to gateways lately.
    terms: BTreeMap<u64, Arc<AllTerms>>,
    gateways: HashMap<Arc<str>, Account>,
}

/// Every watched limit of every gateway. In memory alone: after a start of the control plane it
/// counts from the first report, and whoever shows it says since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched(Arc<Mutex<Inner>>);

impl Watched {
    /// A generation is about to be sent, or runs already.
    pub(crate) fn learn(&self, published: &Published) {
        let number = published.about.number;
        if self.with(|inner| inner.terms.contains_key(&number)) {
            return;
        }
        let known = published.policy.as_ref().map(terms).unwrap_or_default();
        self.with(|inner| {
            inner.terms.insert(number, Arc::new(known));
            while inner.terms.len() > GENERATIONS_MAX {
                inner.terms.pop_first();
            }
        });
    }

    /// A gateway says that it runs this generation; its next report is the first under it.
    pub(crate) fn runs(&self, gateway: &str, generation: u64) {
        self.with(|inner| {
            let terms = inner.terms.get(&generation);
            if let Some(account) = inner.gateways.get_mut(gateway) {
                let is_same = |key: &Arc<str>, base: &Base| {
                    terms.and_then(|all| all.get(key)) == Some(&base.terms)
                };
                account.bases.retain(|key, base| is_same(key, base));
            }
        });
    }

    /// The figures of one report, sorted by key, and the generation they were counted under.
    pub(crate) fn take(
        &self,
        gateway: &str,
        mark: &ReportMark,
        generation: u64,
        figures: &[Figures],
        received: Received,
    ) {
        self.with(|inner| {
            let terms = inner.terms.get(&generation).map(Arc::clone);
            inner.make_room(gateway);
            let account = inner.gateways.entry(gateway.into()).or_default();
            if *account.boot != *mark.boot_id {
                account.bases.clear();
                account.boot = mark.boot_id.as_str().into();
            }
            account.seen_ms = received.unix_ms;
            account.follow(terms.as_deref(), generation, figures);
        });
    }

    /// What is known of these routes on every gateway. To be read before the figures, so that
    /// these are newer.
    pub(crate) fn bases<'a>(
        &self,
        keys: impl Iterator<Item = &'a str> + Clone,
    ) -> HashMap<Arc<str>, Bases> {
        self.with(|inner| {
            let one = |(id, account): (&Arc<str>, &Account)| {
                let known = keys.clone().filter_map(|key| {
                    let (key, base) = account.bases.get_key_value(key)?;
                    Some((Arc::clone(key), base.clone()))
                });
                (Arc::clone(id), known.collect())
            };
            inner.gateways.iter().map(one).collect()
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        // No half-made state, whatever a holder of the lock did: bases are made before they go in.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn make_room(&mut self, gateway: &str) {
        if self.gateways.len() < GATEWAYS_MAX || self.gateways.contains_key(gateway) {
            return;
        }
        let silent = self
            .gateways
            .iter()
            .min_by_key(|(_, account)| account.seen_ms);
        if let Some(id) = silent.map(|(id, _)| Arc::clone(id)) {
            self.gateways.remove(&id);
        }
    }
}

impl Account {
    fn follow(&mut self, terms: Option<&AllTerms>, generation: u64, figures: &[Figures]) {
        let since_ms = self.seen_ms;
        if self.generation != generation {
            let known = |key: &Arc<str>| terms.and_then(|all| all.get(key));
            self.bases
                .retain(|key, base| known(key) == Some(&base.terms));
            self.generation = generation;
        }
        self.bases.retain(|key, base| {
            let Some(route) = Own::of(key, figures).route else {
                return true;
            };
            base.peak = base.peak.max(route.peak_recent).max(route.in_flight);
            let before = std::mem::replace(&mut base.arrived, route.arrived);
            before <= route.arrived && !base.route.fell(route)
        });
        let Some(terms) = terms.filter(|all| all.len() > self.bases.len()) else {
            return;
        };
        for (key, terms) in terms {
            if !self.bases.contains_key(key) {
                let base = Base::new(Arc::clone(terms), Own::of(key, figures), since_ms);
                self.bases.insert(Arc::clone(key), base);
            }
        }
    }
}

#[cfg(test)]
mod tests;
