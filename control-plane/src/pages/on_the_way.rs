//! The limits that a request would have to pass, in the order of a gateway, and what each says now.
//!
//! Separate from who calls and which route it takes. Each gateway decides by its own figures, so
//! that one may refuse what another admits. It must never judge by a sum.

use compartment::breaker::BreakerState;
use compartment::policy::Route;
use compartment::policy::{Fallback, Policy};
use compartment::{Class, Figures, Key, Level, Limit, Mode, Name, Rejection};
use web::{Tried, TriedStep, text};

use super::dry_run::is_shut;
use super::readings::Snapshot;

/// Slots of the spare that stay free of sheddable requests: one of so many.
const SHEDDABLE_KEEPS_FREE: u64 = 5;

/// What of the caller the limits ask.
pub(super) struct Caller {
    /// Its name and limit over all routes.
    pub(super) tenant: Option<(Name, Limit)>,
    /// Its own limit on this route.
    pub(super) on_route: Option<Limit>,
    pub(super) class: Class,
}

/// What one gateway would say at one limit.
enum Says {
    Passes,
    Waits,
    Refuses(Rejection),
    /// It would, and is only judged.
    Judged(Rejection),
}

/// The figures of one gateway.
type Gateway<'a> = &'a [Figures];

struct Way<'a> {
    route: &'a Route,
    policy: &'a Policy,
    caller: &'a Caller,
    gateways: Vec<Gateway<'a>>,
}

/// Asks every limit in order.
pub(super) fn walk(
    policy: &Policy,
    snapshot: &Snapshot,
    route: &Route,
    caller: &Caller,
    tried: &mut Tried,
) {
    let way = Way {
        route,
        policy,
        caller,
        gateways: snapshot.figured().map(|(_, figures)| figures).collect(),
    };
    let own = Key::Route(route.id.clone());
    let upstream = policy.upstreams.get(route.upstream);
    let dependency = upstream.map(|one| Key::Upstream(one.id.clone()));
    let mut steps = Vec::new();
    let guarded = upstream.is_some_and(|one| one.breaker.is_some() || one.force_breaker.is_some());
    if let Some(key) = dependency.as_ref().filter(|_| guarded) {
        steps.push(way.step("breaker", key, None, breaker));
    }
    if let Some((name, limit)) = &caller.tenant {
        let key = Key::Tenant(name.clone());
        steps.push(way.step("tenant", &key, Some(*limit), |_, own| {
            plain(own, *limit, Rejection::TenantFull)
        }));
        if caller.on_route.is_some() || route.compartment.tenant_share.is_some() {
            let key = Key::TenantRoute(route.id.clone(), name.clone());
            let limit = caller.on_route.unwrap_or(Limit::UNLIMITED);
            steps.push(way.step("tenant on route", &key, Some(limit), |all, cell| {
                way.tenant_on_route(all, cell, limit)
            }));
        }
    }
    let limit = route.compartment.limit;
    steps.push(way.step("route", &own, Some(limit), |all, own| {
        way.of_route(all, own)
    }));
    if let (Some(one), Some(key)) = (upstream, &dependency) {
        steps.push(way.step("upstream", key, Some(one.limit), |_, own| {
            plain(own, one.limit, Rejection::UpstreamFull)
        }));
    }
    let capacity = Limit::new(policy.gateway.capacity).unwrap_or(Limit::UNLIMITED);
    steps.push(
        way.step("ceiling", &Key::Gateway, Some(capacity), |_, own| {
            plain(own, capacity, Rejection::GatewayFull)
        }),
    );
    verdict(&way, &steps, tried);
    tried.steps = steps.into_iter().map(|(step, _)| step).collect();
}

/// How many gateways refuse, wait, and by which reason.
#[derive(Default)]
struct Count {
    refuse: usize,
    wait: usize,
    reason: Option<Rejection>,
}

impl Way<'_> {
    fn step(
        &self,
        what: &'static str,
        key: &Key,
        limit: Option<Limit>,
        says: impl Fn(Gateway<'_>, Option<&Figures>) -> Says,
    ) -> (TriedStep, Count) {
        let name = key.to_string();
        let (mut count, mut judged, mut in_flight) = (Count::default(), None, 0_u64);
        for all in &self.gateways {
            let own = figures(all, &name);
            in_flight = in_flight.saturating_add(own.map_or(0, |own| own.in_flight.into()));
            match says(all, own) {
                Says::Passes => {}
                Says::Waits => count.wait += 1,
                Says::Refuses(why) => {
                    count.refuse += 1;
                    count.reason = Some(why);
                }
                Says::Judged(why) => judged = Some(why),
            }
        }
        let gateways = self.gateways.len();
        let on = |n: usize| match gateways {
            1 => String::new(),
            all => format!(" on {n} of {all} gateways"),
        };
        let (says, class) = match (&count, judged) {
            _ if gateways == 0 => ("not known".to_owned(), "idle"),
            (
                Count {
                    refuse: n @ 1..,
                    reason: Some(why),
                    ..
                },
                _,
            ) => (format!("{}{}", why.as_str(), on(*n)), "full"),
            (Count { wait: n @ 1.., .. }, _) => (format!("waits{}", on(*n)), "nearly"),
            (_, Some(why)) => (format!("passes, {} in shadow", why.as_str()), "nearly"),
            _ => ("passes".to_owned(), "busy"),
        };
        let now = match limit {
            None => self.breaker_words(&name),
            Some(limit) if gateways == 0 => format!("limit {limit}"),
            Some(limit) => match limit.slots() {
                None => format!("{} in flight, unlimited", text::count(in_flight)),
                Some(slots) => {
                    let all = u64::from(slots).saturating_mul(gateways.try_into().unwrap_or(1));
                    format!(
                        "{} of {} in flight",
                        text::count(in_flight),
                        text::count(all)
                    )
                }
            },
        };
        let step = TriedStep {
            what,
            key: name,
            now,
            says,
            class,
        };
        (step, count)
    }

    fn breaker_words(&self, key: &str) -> String {
        let states = self.gateways.iter().filter_map(|all| figures(all, key));
        let states = states.filter_map(|own| Some(own.breaker.as_deref()?.state.as_str()));
        let mut states: Vec<_> = states.collect();
        states.sort_unstable();
        states.dedup();
        match states.is_empty() {
            true => "not reported".to_owned(),
            false => states.join(", "),
        }
    }

    fn judged(&self, why: Rejection) -> Says {
        match self.route.compartment.mode {
            Mode::Enforce => Says::Refuses(why),
            Mode::Shadow => Says::Judged(why),
            Mode::Off => Says::Passes,
        }
    }

    fn own<'a>(&self, all: Gateway<'a>) -> Option<&'a Figures> {
        figures(all, &Key::Route(self.route.id.clone()).to_string())
    }

    fn tenant_on_route(&self, all: Gateway<'_>, cell: Option<&Figures>, limit: Limit) -> Says {
        let held = cell.map_or(0, |cell| cell.in_flight);
        if limit.slots().is_some_and(|slots| held >= slots) {
            return self.judged(Rejection::TenantRouteFull);
        }
        let own = &self.route.compartment;
        let used = self.own(all).map_or(0, |own| own.in_flight);
        if let (Some(share), Some(slots)) = (own.tenant_share, own.limit.slots()) {
            let free = u64::from(slots.saturating_sub(used));
            let most = (u64::from(share.0).saturating_mul(free) / 1_000_000).max(1);
            if slots > 0 && u64::from(held) >= most {
                return self.judged(Rejection::TenantShare);
            }
        }
        Says::Passes
    }

    fn of_route(&self, all: Gateway<'_>, own: Option<&Figures>) -> Says {
        let rules = &self.route.compartment;
        let used = own.map_or(0, |own| own.in_flight);
        let queued = own.map_or(0, |own| own.queued);
        if let Some(slots) = rules.limit.slots() {
            let free = slots.saturating_sub(used);
            if slots == 0 {
                return self.judged(Rejection::Closed);
            }
            if self.caller.class == Class::Sheddable && free <= rules.class_reserve && free > 0 {
                return self.judged(Rejection::ClassReserve);
            }
            if free == 0 {
                return match (rules.queue, rules.mode) {
                    (0, _) => self.judged(Rejection::RouteFull),
                    (places, Mode::Enforce) if queued < places => Says::Waits,
                    (..) => self.judged(Rejection::QueueFull),
                };
            }
        }
        // The spare slots are always enforced: they keep the guarantees of others.
        let spare = u64::from(self.policy.gateway.spare);
        let free = spare.saturating_sub(borrowed(all));
        let kept = self.caller.class == Class::Sheddable
            && free.saturating_mul(SHEDDABLE_KEEPS_FREE) <= spare;
        if used >= rules.reserved && (free == 0 || kept) && rules.mode == Mode::Enforce {
            return Says::Refuses(Rejection::SpareExhausted);
        }
        Says::Passes
    }
}

/// Spare slots that are out in one gateway.
fn borrowed(all: Gateway<'_>) -> u64 {
    let of = |figures: &Figures| match figures.level {
        Level::Route => figures.borrowed,
        Level::Stream | Level::Fallback => figures.in_flight,
        Level::Gateway | Level::Upstream | Level::Tenant | Level::TenantRoute => 0,
    };
    all.iter().map(|figures| u64::from(of(figures))).sum()
}

fn figures<'a>(all: Gateway<'a>, key: &str) -> Option<&'a Figures> {
    all.iter().find(|figures| figures.key == key)
}

fn plain(own: Option<&Figures>, limit: Limit, why: Rejection) -> Says {
    let used = own.map_or(0, |own| own.in_flight);
    match limit.slots() {
        Some(slots) if used >= slots => Says::Refuses(why),
        _ => Says::Passes,
    }
}

fn breaker(_: Gateway<'_>, own: Option<&Figures>) -> Says {
    let state: Option<BreakerState> = own
        .and_then(|own| own.breaker.as_deref())
        .map(|one| one.state);
    match state {
        Some(state) if is_shut(state) => Says::Refuses(Rejection::BreakerOpen),
        Some(_) | None => Says::Passes,
    }
}

fn verdict(way: &Way<'_>, steps: &[(TriedStep, Count)], tried: &mut Tried) {
    let gateways = way.gateways.len();
    if gateways == 0 {
        tried.verdict =
            "No gateway reports, so nobody knows what is in flight. It goes to".to_owned();
        tried.class = "stale";
        return;
    }
    let refusing = steps.iter().find(|(_, count)| count.refuse > 0);
    let waiting = steps.iter().find(|(_, count)| count.wait > 0);
    (tried.verdict, tried.class) = match (refusing, waiting) {
        (Some((step, count)), _) => {
            let everywhere = count.refuse == gateways;
            let place = match everywhere {
                true => String::new(),
                false => format!(" on {} of {gateways} gateways", count.refuse),
            };
            let words = format!("Would be refused now{place}, by {}. It goes to", step.key);
            (words, if everywhere { "bad" } else { "stale" })
        }
        (None, Some(_)) => ("Would wait for a slot now. It goes to".to_owned(), "stale"),
        (None, None) => ("Would be admitted now. It goes to".to_owned(), "good"),
    };
    if refusing.is_some() {
        tried.instead = instead(way.route);
    }
}

/// What the caller gets when it is refused.
fn instead(route: &Route) -> String {
    let step = |step: &Fallback| match step {
        Fallback::Stale { .. } => "a stored answer",
        Fallback::Upstream { .. } => "another upstream",
        Fallback::Static { .. } => "the fixed answer",
    };
    let steps: Vec<&str> = route.fallback.iter().map(step).collect();
    match steps.is_empty() {
        true => "Refused, the caller gets the error: the route has no fallback.".to_owned(),
        false => format!(
            "Refused, the caller gets the first of these that has an answer: {}, the error.",
            steps.join(", ")
        ),
    }
}
