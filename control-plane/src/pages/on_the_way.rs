//! The limits that a request would have to pass, in the order of a gateway, and what each says now.
//!
//! Separate from who calls and which route it takes. Each gateway decides by its own figures, so
//! that one may refuse what another admits. It must never judge by a sum.

use compartment::breaker::BreakerState;
use compartment::policy::Route;
use compartment::policy::{Fallback, Policy};
use compartment::{
    Class, Figures, Key, Level, Limit, Mode, Name, Rejection, share_most, spare_lends,
};
use web::{Tried, TriedStep, text};

use super::readings::Snapshot;
use crate::readings::figures_of;

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
    /// A few do, to see whether what is behind it is well again; the others are refused.
    Probes,
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
    let gateways = snapshot.figured().map(|(_, figures)| figures).collect();
    ask(policy, gateways, route, caller, tried);
}

fn ask(
    policy: &Policy,
    gateways: Vec<Gateway<'_>>,
    route: &Route,
    caller: &Caller,
    tried: &mut Tried,
) {
    let way = Way {
        route,
        policy,
        caller,
        gateways,
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

/// How many gateways refuse, let one wait or probe, and by which reason.
#[derive(Default)]
struct Count {
    refuse: usize,
    wait: usize,
    probe: usize,
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
            let own = figures_of(all, &name);
            in_flight = in_flight.saturating_add(own.map_or(0, |own| own.in_flight.into()));
            match says(all, own) {
                Says::Passes => {}
                Says::Waits => count.wait += 1,
                Says::Probes => count.probe += 1,
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
            (Count { probe: n @ 1.., .. }, _) => {
                (format!("passes probes alone{}", on(*n)), "nearly")
            }
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
        let states = self.gateways.iter().filter_map(|all| figures_of(all, key));
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
        figures_of(all, &Key::Route(self.route.id.clone()).to_string())
    }

    fn tenant_on_route(&self, all: Gateway<'_>, cell: Option<&Figures>, limit: Limit) -> Says {
        let held = cell.map_or(0, |cell| cell.in_flight);
        if limit.slots().is_some_and(|slots| held >= slots) {
            return self.judged(Rejection::TenantRouteFull);
        }
        let own = &self.route.compartment;
        let used = self.own(all).map_or(0, |own| own.in_flight);
        if let (Some(share), Some(slots)) = (own.tenant_share, own.limit.slots())
            && slots > 0
            && held >= share_most(share, slots.saturating_sub(used))
        {
            return self.judged(Rejection::TenantShare);
        }
        Says::Passes
    }

    /// What the route decides itself, then the spare slots.
    fn of_route(&self, all: Gateway<'_>, own: Option<&Figures>) -> Says {
        let says = self.own_decision(own);
        // The spare slots are enforced in every mode: they keep the guarantees of others.
        match matches!(says, Says::Passes | Says::Judged(_)) && !self.may_borrow(all, own) {
            true => Says::Refuses(Rejection::SpareExhausted),
            false => says,
        }
    }

    fn own_decision(&self, own: Option<&Figures>) -> Says {
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
        Says::Passes
    }

    /// True within the guarantee, and beyond it when a spare slot is free and can be paid for. A
    /// route that does not enforce its own decisions borrows whether it can pay or not.
    fn may_borrow(&self, all: Gateway<'_>, own: Option<&Figures>) -> bool {
        let rules = &self.route.compartment;
        if own.map_or(0, |own| own.in_flight) < rules.reserved {
            return true;
        }
        let credit = own.and_then(|own| own.credit);
        let pays = credit.is_none_or(|credit| credit.slot_ms > 0);
        let sheddable = self.caller.class == Class::Sheddable;
        (pays || rules.mode != Mode::Enforce)
            && spare_lends(self.policy.gateway.spare.into(), borrowed(all), sheddable)
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
        Some(BreakerState::Open | BreakerState::ForcedOpen) => {
            Says::Refuses(Rejection::BreakerOpen)
        }
        Some(BreakerState::HalfOpen) => Says::Probes,
        Some(BreakerState::Closed | BreakerState::ForcedClosed) | None => Says::Passes,
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
    let probing = steps.iter().find(|(_, count)| count.probe > 0);
    (tried.verdict, tried.class) = match (refusing, waiting, probing) {
        (Some((step, count)), ..) => {
            let everywhere = count.refuse == gateways;
            let place = match everywhere {
                true => String::new(),
                false => format!(" on {} of {gateways} gateways", count.refuse),
            };
            let words = format!("Would be refused now{place}, by {}. It goes to", step.key);
            (words, if everywhere { "bad" } else { "stale" })
        }
        (None, Some(_), _) => ("Would wait for a slot now. It goes to".to_owned(), "stale"),
        (None, None, Some((step, count))) => {
            let place = match count.probe == gateways {
                true => String::new(),
                false => format!(" on {} of {gateways} gateways", count.probe),
            };
            let words = format!(
                "Would be admitted now{place} as a probe of {} alone, which is half open. It goes to",
                step.key
            );
            (words, "stale")
        }
        (None, None, None) => ("Would be admitted now. It goes to".to_owned(), "good"),
    };
    if refusing.or(probing).is_some() {
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

#[cfg(test)]
mod tests {
    use compartment::Balance;
    use compartment::breaker::BreakerFigures;
    use wire::document::{Syntax, load};

    use super::*;

    fn policy(mode: &str, class: &str) -> Policy {
        let text = format!(
            r#"
            schema = 1
            [gateway]
            capacity = 20
            spare = 5
            [upstreams.main]
            endpoints = ["http://127.0.0.1:9001"]
            breaker = {{}}
            [[routes]]
            id = "a"
            path = "/a"
            upstream = "main"
            class = "{class}"
            compartment = {{ limit = 8, reserved = 2, mode = "{mode}" }}
            "#
        );
        load(&text, Syntax::Toml).unwrap().policy
    }

    /// The route with so many in flight, so many of the spare out, and what is left to borrow.
    fn told(in_flight: u32, borrowed: u32, credit: Option<i64>) -> Vec<Figures> {
        let limit = Limit::new(8).unwrap();
        let mut own = Figures::new("route/a".to_owned(), Level::Route, limit);
        own.in_flight = in_flight;
        own.credit = credit.map(|slot_ms| Balance {
            slot_ms,
            full_slot_ms: 50_000,
        });
        own.borrowed = in_flight.saturating_sub(2);
        let mut other = Figures::new("route/b".to_owned(), Level::Route, limit);
        other.borrowed = borrowed - own.borrowed;
        vec![own, other]
    }

    fn says(policy: &Policy, figures: &[Figures]) -> Result<&'static str, Rejection> {
        let route = &policy.routes[0];
        let caller = Caller {
            tenant: None,
            on_route: None,
            class: route.class,
        };
        let way = Way {
            route,
            policy,
            caller: &caller,
            gateways: vec![figures],
        };
        match way.of_route(figures, way.own(figures)) {
            Says::Passes => Ok("passes"),
            Says::Probes => Ok("probes"),
            Says::Waits => Ok("waits"),
            Says::Judged(why) => Ok(why.as_str()),
            Says::Refuses(why) => Err(why),
        }
    }

    #[test]
    fn spare_slots_are_enforced_in_every_mode_and_paid_for_in_one() {
        let out = Rejection::SpareExhausted;
        for (figures, enforce, shadow, off) in [
            (told(1, 5, None), Ok("passes"), Ok("passes"), Ok("passes")),
            (told(2, 4, None), Ok("passes"), Ok("passes"), Ok("passes")),
            (told(2, 5, None), Err(out), Err(out), Err(out)),
            // Nothing left to pay with: only who enforces its own decisions is held to that.
            (told(2, 0, Some(0)), Err(out), Ok("passes"), Ok("passes")),
            (
                told(2, 0, Some(1)),
                Ok("passes"),
                Ok("passes"),
                Ok("passes"),
            ),
            // Beyond its limit it is judged, as long as a slot can be borrowed for it.
            (
                told(8, 6, None),
                Err(Rejection::RouteFull),
                Err(out),
                Err(out),
            ),
        ] {
            for (mode, expected) in [("enforce", enforce), ("shadow", shadow), ("off", off)] {
                let policy = policy(mode, "standard");
                assert_eq!(says(&policy, &figures), expected, "{mode} {figures:?}");
            }
        }
        let beyond = [told(8, 6, None)].map(|mut all| {
            all[0].borrowed = 3;
            all[1].borrowed = 0;
            says(&policy("shadow", "standard"), &all)
        });
        assert_eq!(beyond, [Ok("route_full")]);
        // Of five, the last is kept from those who give way first.
        let last = told(2, 4, None);
        assert_eq!(says(&policy("off", "sheddable"), &last), Err(out));
        assert_eq!(
            says(&policy("off", "sheddable"), &told(2, 3, None)),
            Ok("passes")
        );
    }

    #[test]
    fn a_half_open_breaker_lets_probes_through_and_nobody_else() {
        let policy = policy("enforce", "standard");
        for (state, verdict) in [
            (BreakerState::Closed, "Would be admitted now. "),
            (BreakerState::ForcedClosed, "Would be admitted now. "),
            (
                BreakerState::HalfOpen,
                "Would be admitted now as a probe of upstream/main alone",
            ),
            (
                BreakerState::Open,
                "Would be refused now, by upstream/main. ",
            ),
            (
                BreakerState::ForcedOpen,
                "Would be refused now, by upstream/main. ",
            ),
        ] {
            let mut own = Figures::new(
                "upstream/main".to_owned(),
                Level::Upstream,
                Limit::UNLIMITED,
            );
            own.breaker = Some(Box::new(BreakerFigures {
                state,
                since_ms: 0,
                opened: 1,
                half_opened: 1,
                closed: 0,
                failure_rate: 1.0,
                calls: 20,
            }));
            let (figures, mut tried) = (vec![own], Tried::default());
            let caller = Caller {
                tenant: None,
                on_route: None,
                class: Class::Standard,
            };
            let route = &policy.routes[0];
            ask(&policy, vec![&figures], route, &caller, &mut tried);
            assert!(tried.verdict.starts_with(verdict), "{tried:?}");
            assert_eq!(
                tried.instead.is_empty(),
                verdict == "Would be admitted now. "
            );
        }
    }
}
