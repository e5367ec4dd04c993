//! The tenants of the policy beside what gateways report of them.
//!
//! Separate because API and pages list the same 100,000 rows: what is dear is done once for each
//! generation, or for the rows of one page alone. It must never show a zero for silence.

mod keys;
mod select;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use compartment::policy::{Policy, Tenant, Value};
use compartment::{Figures, Level, Limit, Rejection};
use serde::Serialize;

pub(crate) use keys::{Asked as AskedKey, KeyError, KeyRow, Made, make, rows as key_rows};
pub(crate) use select::{Cursor, Query, Sort, select};

use crate::clock;
use crate::fleet::Heard;
use crate::readings::figures_of;
use crate::state::AppState;

/// What gateways report at this moment: those that report, or the last words of all when nobody
/// does.
pub(crate) struct Told {
    heard: Vec<Heard>,
}

/// One compartment over the gateways that report it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = TenantFigures)]
pub(crate) struct Sums {
    /// Permits out.
    pub(crate) in_flight: u64,
    /// Sum of the peaks.
    pub(crate) peak: u64,
    /// Sum of the limits; none: unlimited somewhere.
    #[schema(required)]
    pub(crate) promised: Option<u64>,
    /// Requests whose decision was made here.
    pub(crate) arrived: u64,
    /// Permits ever given.
    pub(crate) admitted: u64,
    /// Permits ever given back.
    pub(crate) completed: u64,
    /// Refusals by reason.
    pub(crate) rejected: BTreeMap<Rejection, u64>,
    /// How many of them in the last seconds.
    pub(crate) rejected_lately: u64,
    /// Some gateway has no slot left for it.
    pub(crate) saturated: bool,
}

impl Told {
    /// Asks the fleet.
    pub(crate) fn of(state: &AppState) -> Self {
        let mut heard = state.fleet.heard(clock::now());
        if heard.iter().any(|one| one.fresh) {
            heard.retain(|one| one.fresh);
        }
        heard.retain(|one| one.figures_ago.is_some());
        Self { heard }
    }

    /// One compartment; `None` when nobody told anything. What a gateway does not list is idle.
    pub(crate) fn sums(&self, key: &str, limit: Limit) -> Option<Sums> {
        if self.heard.is_empty() {
            return None;
        }
        let mut sums = Sums {
            promised: Some(0),
            ..Sums::default()
        };
        for heard in &self.heard {
            let earlier = heard.earlier.as_ref();
            let earlier = earlier.and_then(|(_, list)| figures_of(list, key));
            match figures_of(&heard.figures, key) {
                Some(figures) => sums.add(figures, earlier),
                None => sums.promise(limit),
            }
        }
        Some(sums)
    }

    /// The rank of every tenant that has one, by this order.
    fn ranks(&self, sort: Sort) -> HashMap<&str, u64> {
        let mut sums: HashMap<&str, (u64, u64, u64)> = HashMap::new();
        for figures in self.heard.iter().flat_map(|heard| heard.figures.iter()) {
            if let Some(id) = tenant_of(figures) {
                let sum = sums.entry(id).or_default();
                sum.0 = sum.0.saturating_add(figures.in_flight.into());
                let limit = figures.limit.slots().map_or(0, u64::from);
                sum.1 = sum.1.saturating_add(limit);
                let refused = figures.rejected.values().sum::<u64>();
                sum.2 = sum.2.saturating_add(refused);
            }
        }
        let rank = |(in_flight, limit, refused): (u64, u64, u64)| match sort {
            Sort::Id => 0,
            Sort::InFlight => in_flight,
            Sort::Share => in_flight
                .saturating_mul(1_000)
                .checked_div(limit)
                .unwrap_or(0),
            Sort::Rejected => refused,
        };
        sums.into_iter().map(|(id, sum)| (id, rank(sum))).collect()
    }

    /// Tenants without a free slot on some gateway.
    fn saturated(&self) -> std::collections::HashSet<&str> {
        let all = self.heard.iter().flat_map(|heard| heard.figures.iter());
        all.filter(|figures| is_full(figures))
            .filter_map(tenant_of)
            .collect()
    }
    /// The compartments of every tenant on this route, as each gateway tells them.
    pub(crate) fn on_route<'a>(
        &'a self,
        route: &str,
    ) -> impl Iterator<Item = (&'a str, &'a Figures)> {
        let below = format!("route/{route}/tenant/");
        self.heard.iter().flat_map(move |heard| {
            let from = heard.figures.partition_point(|one| *one.key < *below);
            let own = heard.figures.iter().skip(from);
            let below = below.clone();
            own.map_while(move |one| Some((one.key.strip_prefix(below.as_str())?, one)))
        })
    }
}

impl Sums {
    fn promise(&mut self, limit: Limit) {
        let more = limit.slots().map(u64::from);
        let both = self.promised.zip(more);
        self.promised = both.map(|(one, more)| one.saturating_add(more));
    }

    fn add(&mut self, figures: &Figures, earlier: Option<&Figures>) {
        self.promise(figures.limit);
        self.saturated |= is_full(figures);
        for (sum, more) in [
            (&mut self.in_flight, figures.in_flight.into()),
            (&mut self.peak, figures.peak.into()),
            (&mut self.arrived, figures.arrived),
            (&mut self.admitted, figures.admitted),
            (&mut self.completed, figures.completed),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (reason, count) in &figures.rejected {
            let sum = self.rejected.entry(*reason).or_default();
            *sum = sum.saturating_add(*count);
        }
        let all = |figures: &Figures| figures.rejected.values().sum::<u64>();
        // A process that began anew has counted all of its own lately.
        let before = earlier.map_or(0, all);
        let lately = all(figures).checked_sub(before).unwrap_or(all(figures));
        let known = if earlier.is_some() { lately } else { 0 };
        self.rejected_lately = self.rejected_lately.saturating_add(known);
    }
    /// All refusals.
    pub(crate) fn rejected_all(&self) -> u64 {
        self.rejected.values().sum()
    }
}

fn is_full(figures: &Figures) -> bool {
    let limit = figures.limit.slots();
    limit.is_some_and(|limit| figures.in_flight >= limit && figures.in_flight > 0)
}

fn tenant_of(figures: &Figures) -> Option<&str> {
    (figures.level == Level::Tenant).then(|| figures.key.strip_prefix("tenant/"))?
}

/// A tenant and its place, which is the same in the document.
pub(crate) type Placed<'a> = (usize, &'a Tenant);

/// A tenant as the document has it, found by its place: by name it takes a walk over all of them.
pub(crate) fn entry(document: &Value, at: usize) -> Option<&Value> {
    let Some(Value::Table(tenants)) = document.get("tenants") else {
        return None;
    };
    tenants.get(at).map(|(_, own)| own)
}

/// The tenants of a policy by name: places in [`Policy::tenants`].
#[derive(Debug, Default)]
pub(crate) struct ByName(Vec<usize>);

impl ByName {
    /// Sorts them; done once for each generation.
    pub(crate) fn of(policy: &Policy) -> Arc<Self> {
        let name = |at: &usize| policy.tenants.get(*at).map(|tenant| tenant.id.as_str());
        let mut order: Vec<usize> = (0..policy.tenants.len()).collect();
        order.sort_by(|one, other| name(one).cmp(&name(other)));
        Arc::new(Self(order))
    }

    /// Every tenant, by name.
    fn all<'a>(&'a self, policy: &'a Policy) -> impl Iterator<Item = Placed<'a>> {
        let placed = |at: &usize| Some((*at, policy.tenants.get(*at)?));
        self.0.iter().filter_map(placed)
    }

    /// The tenant of this name.
    pub(crate) fn find<'a>(&self, policy: &'a Policy, id: &str) -> Option<Placed<'a>> {
        let name = |at: &usize| policy.tenants.get(*at).map(|tenant| tenant.id.as_str());
        let at = self.0.binary_search_by(|at| name(at).cmp(&Some(id))).ok()?;
        let at = *self.0.get(at)?;
        Some((at, policy.tenants.get(at)?))
    }
}
