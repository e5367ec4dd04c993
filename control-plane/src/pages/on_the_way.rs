//! The limits that a request would have to pass, in the order of a gateway, and what each says now.
//!
//! Separate from who calls and which route it takes. Each gateway decides by its own figures, so
//! that one may refuse what another admits. It must never judge by a sum.

use std::time::Duration;

use compartment::breaker::{BreakerFigures, BreakerState};
use compartment::policy::{Policy, Route, Upstream};
use compartment::{
    Class, Figures, Key, Level, Limit, Mode, Name, Rejection, share_most, spare_lends,
};
use web::{Tried, TriedStep, text};

use super::readings::Snapshot;
use super::tried_words::{Asked, Says, verdict, words};
use crate::readings::figures_of;

/// What of the caller the limits ask.
pub(super) struct Caller {
    /// Its name and limit over all routes.
    pub(super) tenant: Option<(Name, Limit)>,
    /// Its own limit on this route.
    pub(super) on_route: Option<Limit>,
    pub(super) class: Class,
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
    let steps = way.steps();
    verdict(way.gateways.len(), &steps, route, tried);
    tried.steps = steps.into_iter().map(|asked| asked.step).collect();
}

impl Way<'_> {
    /// In the order in which reasons go: where several limits refuse, the first of them is told.
    fn steps(&self) -> Vec<Asked> {
        let (route, caller) = (self.route, self.caller);
        let own = Key::Route(route.id.clone());
        let upstream = self.policy.upstreams.get(route.upstream);
        let dependency = upstream.map(|one| (one, Key::Upstream(one.id.clone())));
        let mut steps = Vec::new();
        if let Some((one, key)) = &dependency
            && (one.breaker.is_some() || one.force_breaker.is_some())
        {
            steps.push(self.breaker(one, key));
        }
        if let Some((name, limit)) = &caller.tenant {
            let key = Key::Tenant(name.clone());
            steps.push(self.plain("tenant", &key, *limit, Rejection::TenantFull));
            if caller.on_route.is_some() || route.compartment.tenant_share.is_some() {
                let key = Key::TenantRoute(route.id.clone(), name.clone());
                let limit = caller.on_route.unwrap_or(Limit::UNLIMITED);
                let says = |all: Gateway<'_>, cell: Option<&Figures>| {
                    self.tenant_on_route(all, cell, limit)
                };
                steps.push(self.step("tenant on route", &key, Some(limit), says));
            }
        }
        let limit = Some(route.compartment.limit);
        steps.push(self.step("route", &own, limit, |_, own| self.own_decision(own)));
        if let Some((one, key)) = &dependency {
            steps.push(self.plain("upstream", key, one.limit, Rejection::UpstreamFull));
        }
        let capacity = Limit::new(self.policy.gateway.capacity).unwrap_or(Limit::UNLIMITED);
        steps.push(self.plain("ceiling", &Key::Gateway, capacity, Rejection::GatewayFull));
        steps.push(self.spare());
        steps
    }

    fn step(
        &self,
        what: &'static str,
        key: &Key,
        limit: Option<Limit>,
        says: impl Fn(Gateway<'_>, Option<&Figures>) -> Says,
    ) -> Asked {
        let name = key.to_string();
        let own = |all: &Gateway<'_>| figures_of(all, &name).map_or(0, |own| own.in_flight);
        let in_flight = self.sum(|all| own(&all).into());
        let slots = limit.and_then(Limit::slots);
        let now = match (limit, slots) {
            (None, _) => self.breaker_words(&name),
            (Some(limit), _) if self.gateways.is_empty() => format!("limit {limit}"),
            (Some(_), None) => format!("{} in flight, unlimited", text::count(in_flight)),
            (Some(_), Some(slots)) => format!("{} in flight", self.of_all(in_flight, slots)),
        };
        let says: Vec<Says> = self
            .gateways
            .iter()
            .map(|all| says(all, figures_of(all, &name)))
            .collect();
        let (words, class) = words(&says);
        let step = TriedStep {
            what,
            key: name,
            now,
            says: words,
            class,
        };
        Asked { step, says }
    }

    fn plain(&self, what: &'static str, key: &Key, limit: Limit, why: Rejection) -> Asked {
        self.step(what, key, Some(limit), |_, own| plain(own, limit, why))
    }

    /// The spare slots, which everybody borrows who goes beyond a guarantee. They come last: who
    /// finds none is told of a full dependency or a full ceiling first.
    fn spare(&self) -> Asked {
        let spare = self.policy.gateway.spare;
        let mut asked = self.step("spare slots", &Key::Gateway, None, |all, _| {
            match self.may_borrow(all, self.own(all)) {
                true => Says::Passes,
                false => Says::Refuses(Rejection::SpareExhausted),
            }
        });
        asked.step.now = match self.gateways.is_empty() {
            true => format!("{} to borrow", text::count(spare)),
            false => format!("{} borrowed", self.of_all(self.sum(borrowed), spare)),
        };
        asked
    }

    fn breaker(&self, upstream: &Upstream, key: &Key) -> Asked {
        let open = upstream.breaker.as_ref().map(|rules| rules.open);
        self.step("breaker", key, None, |_, own| {
            let breaker = own.and_then(|own| own.breaker.as_deref());
            breaker.map_or(Says::Passes, |breaker| breaker_says(breaker, open))
        })
    }

    fn sum(&self, count: impl Fn(Gateway<'_>) -> u64) -> u64 {
        let counts = self.gateways.iter().map(|all| count(all));
        counts.fold(0, u64::saturating_add)
    }

    /// So many of the slots that all gateways have together.
    fn of_all(&self, count: u64, slots: u32) -> String {
        let gateways = u64::try_from(self.gateways.len()).unwrap_or(1);
        let all = u64::from(slots).saturating_mul(gateways);
        format!("{} of {}", text::count(count), text::count(all))
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
        let own = &self.route.compartment;
        // A closed route speaks for itself: its tenants' parts mean nothing then.
        if own.limit == Limit::CLOSED {
            return Says::Passes;
        }
        if let Says::Refuses(why) = plain(cell, limit, Rejection::TenantRouteFull) {
            return self.judged(why);
        }
        let held = cell.map_or(0, |cell| cell.in_flight);
        let used = self.own(all).map_or(0, |own| own.in_flight);
        if let (Some(share), Some(slots)) = (own.tenant_share, own.limit.slots())
            && held >= share_most(share, slots.saturating_sub(used))
        {
            return self.judged(Rejection::TenantShare);
        }
        Says::Passes
    }

    fn own_decision(&self, own: Option<&Figures>) -> Says {
        let rules = &self.route.compartment;
        let Some(slots) = rules.limit.slots() else {
            return Says::Passes;
        };
        if slots == 0 {
            return self.judged(Rejection::Closed);
        }
        let used = own.map_or(0, |own| own.in_flight);
        let free = slots.saturating_sub(used);
        let kept_out = self.caller.class == Class::Sheddable && free <= rules.class_reserve;
        if free > 0 && !kept_out {
            return Says::Passes;
        }
        // A limit that is only judged has a line of its own count: nobody stands in it.
        let queued = match rules.mode {
            Mode::Enforce => own.map_or(0, |own| own.queued),
            Mode::Shadow | Mode::Off => used.saturating_sub(slots),
        };
        match (rules.queue, rules.mode) {
            (0, _) if free == 0 => self.judged(Rejection::RouteFull),
            (0, _) => self.judged(Rejection::ClassReserve),
            (places, _) if queued >= places => self.judged(Rejection::QueueFull),
            (_, Mode::Enforce) => Says::Waits,
            (_, Mode::Shadow | Mode::Off) => Says::Passes,
        }
    }

    /// True within the guarantee, and beyond it when a spare slot is free and can be paid for. In
    /// every mode: spare slots keep the guarantees of others. A route that does not enforce its
    /// own decisions borrows whether it can pay or not.
    fn may_borrow(&self, all: Gateway<'_>, own: Option<&Figures>) -> bool {
        let rules = &self.route.compartment;
        if own.map_or(0, |own| own.in_flight) < rules.reserved {
            return true;
        }
        let credit = own.and_then(|own| own.credit);
        let pays = credit.is_none_or(|credit| !credit.is_used_up());
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

fn plain(own: Option<&Figures>, limit: Limit, full: Rejection) -> Says {
    let used = own.map_or(0, |own| own.in_flight);
    match limit.slots() {
        Some(0) => Says::Refuses(Rejection::Closed),
        Some(slots) if used >= slots => Says::Refuses(full),
        _ => Says::Passes,
    }
}

fn breaker_says(breaker: &BreakerFigures, open: Option<Duration>) -> Says {
    match breaker.state {
        // Nothing moves it before somebody asks: the next one is its first probe.
        BreakerState::Open if open.is_some_and(|open| is_over(breaker.since_ms, open)) => {
            Says::Probes
        }
        BreakerState::Open | BreakerState::ForcedOpen => Says::Refuses(Rejection::BreakerOpen),
        BreakerState::HalfOpen => Says::Probes,
        BreakerState::Closed | BreakerState::ForcedClosed => Says::Passes,
    }
}

fn is_over(since_ms: u64, time: Duration) -> bool {
    u128::from(since_ms) >= time.as_millis()
}

#[cfg(test)]
mod tests {
    use compartment::Balance;
    use wire::document::{Syntax, load};

    use super::*;

    fn policy(mode: &str, class: &str, more: &str) -> Policy {
        let text = format!(
            r#"
            schema = 1
            [gateway]
            capacity = 20
            spare = 5
            [upstreams.main]
            endpoints = ["http://127.0.0.1:9001"]
            limit = 10
            breaker = {{}}
            [[routes]]
            id = "a"
            path = "/a"
            upstream = "main"
            class = "{class}"
            compartment = {{ limit = 8, reserved = 2, mode = "{mode}"{more} }}
            "#
        );
        load(&text, Syntax::Toml).unwrap().policy
    }

    fn figures(key: &str, level: Level, in_flight: u32) -> Figures {
        let mut own = Figures::new(key.to_owned(), level, Limit::new(8).unwrap());
        own.in_flight = in_flight;
        own
    }

    /// The route with so many in flight, so many of the spare out, and what is left to borrow.
    fn told(in_flight: u32, borrowed: u32, credit: Option<i64>) -> Vec<Figures> {
        let mut own = figures("route/a", Level::Route, in_flight);
        own.credit = credit.map(|slot_ms| Balance {
            slot_ms,
            full_slot_ms: 50_000,
        });
        own.borrowed = in_flight.saturating_sub(2).min(borrowed);
        let mut other = figures("route/b", Level::Route, 0);
        other.borrowed = borrowed - own.borrowed;
        vec![own, other]
    }

    fn tried(policy: &Policy, gateways: &[&[Figures]]) -> Tried {
        let route = &policy.routes[0];
        let caller = Caller {
            tenant: None,
            on_route: None,
            class: route.class,
        };
        let mut tried = Tried::default();
        ask(policy, gateways.to_vec(), route, &caller, &mut tried);
        tried
    }

    /// The first that refuses, or what the route itself says.
    fn says(policy: &Policy, figures: &[Figures]) -> String {
        let tried = tried(policy, &[figures]);
        let mut steps = tried.steps.iter();
        let refused = steps.clone().find(|step| step.class == "full");
        let own = steps.find(|step| step.what == "route");
        refused.or(own).unwrap().says.clone()
    }

    #[test]
    fn spare_slots_are_enforced_in_every_mode_and_paid_for_in_one() {
        let (ok, out) = ("passes", "spare_exhausted");
        for (figures, enforce, shadow, off) in [
            (told(1, 5, None), ok, ok, ok),
            (told(2, 4, None), ok, ok, ok),
            (told(2, 5, None), out, out, out),
            // Nothing left to pay with: only who enforces its own decisions is held to that.
            (told(2, 0, Some(0)), out, ok, ok),
            (told(2, 0, Some(1)), ok, ok, ok),
            // Beyond its limit it is judged, as long as a slot can be borrowed for it.
            (told(8, 6, None), "route_full", out, out),
            (
                told(8, 3, None),
                "route_full",
                "passes, route_full in shadow",
                ok,
            ),
        ] {
            for (mode, expected) in [("enforce", enforce), ("shadow", shadow), ("off", off)] {
                let policy = policy(mode, "standard", "");
                assert_eq!(says(&policy, &figures), expected, "{mode} {figures:?}");
            }
        }
        // Of five, the last is kept from those who give way first.
        let sheddable = policy("off", "sheddable", "");
        assert_eq!(says(&sheddable, &told(2, 4, None)), out);
        assert_eq!(says(&sheddable, &told(2, 3, None)), ok);
    }

    #[test]
    fn reasons_go_in_the_order_of_admission() {
        let policy = policy("enforce", "standard", "");
        let mut all = told(2, 5, None);
        let verdict = |all: &[Figures]| tried(&policy, &[all]).verdict;
        assert_eq!(
            verdict(&all),
            "Would be refused now, by gateway. It goes to"
        );
        // Who finds no spare slot is told of a full dependency first.
        all.push(figures("upstream/main", Level::Upstream, 10));
        assert_eq!(
            verdict(&all),
            "Would be refused now, by upstream/main. It goes to"
        );
    }

    #[test]
    fn a_request_kept_off_the_last_slots_waits_where_there_is_a_line() {
        let kept = ", class_reserve = 2";
        for (more, in_flight, queued, expected) in [
            (kept.to_owned(), 5, 0, "passes"),
            (kept.to_owned(), 6, 0, "class_reserve"),
            (kept.to_owned(), 8, 0, "route_full"),
            (
                format!("{kept}, queue = 2, queue_wait = \"1s\""),
                6,
                1,
                "waits",
            ),
            (
                format!("{kept}, queue = 2, queue_wait = \"1s\""),
                6,
                2,
                "queue_full",
            ),
            (
                format!("{kept}, queue = 2, queue_wait = \"1s\""),
                8,
                1,
                "waits",
            ),
        ] {
            let mut all = told(in_flight, 0, None);
            all[0].queued = queued;
            let policy = policy("enforce", "sheddable", &more);
            assert_eq!(says(&policy, &all), expected, "{more} {in_flight} {queued}");
        }
    }

    #[test]
    fn a_closed_one_says_that_it_is_closed() {
        for (what, says, limit) in [("upstream", "closed", 0), ("upstream", "passes", 9)] {
            let mut policy = policy("enforce", "standard", "");
            let limit = Limit::new(limit).unwrap();
            let upstreams = policy.upstreams.iter_mut();
            upstreams.for_each(|one| one.limit = limit);
            let tried = tried(&policy, &[&told(0, 0, None)]);
            let step = tried.steps.iter().find(|step| step.what == what).unwrap();
            assert_eq!(step.says, says);
        }
    }

    #[test]
    fn each_gateway_is_told_by_the_first_limit_that_refuses_there() {
        let policy = policy("enforce", "standard", "");
        let (free, full) = (told(0, 0, None), told(8, 0, None));
        let mut busy = told(0, 0, None);
        busy.push(figures("upstream/main", Level::Upstream, 10));
        let verdict = |all: &[&[Figures]]| tried(&policy, all).verdict;
        assert_eq!(
            verdict(&[&full, &free]),
            "Would be refused now on 1 of 2 gateways, by route/a. It goes to"
        );
        assert_eq!(
            verdict(&[&full, &busy]),
            "Would be refused now, by route/a or upstream/main. It goes to"
        );
    }

    #[test]
    fn a_half_open_breaker_lets_probes_through_and_nobody_else() {
        let policy = policy("enforce", "standard", "");
        let (admitted, probe, refused) = (
            "Would be admitted now. ",
            "Would be admitted now as a probe alone: upstream/main",
            "Would be refused now, by upstream/main. ",
        );
        for (state, since_ms, verdict) in [
            (BreakerState::Closed, 0, admitted),
            (BreakerState::ForcedClosed, 0, admitted),
            (BreakerState::HalfOpen, 0, probe),
            (BreakerState::Open, 4_999, refused),
            // Its time is over, and nobody has asked since.
            (BreakerState::Open, 5_000, probe),
            (BreakerState::ForcedOpen, 5_000, refused),
        ] {
            let mut own = figures("upstream/main", Level::Upstream, 0);
            own.breaker = Some(Box::new(BreakerFigures {
                state,
                since_ms,
                opened: 1,
                half_opened: 1,
                closed: 0,
                failure_rate: 1.0,
                calls: 20,
            }));
            let tried = tried(&policy, &[&[own]]);
            assert!(tried.verdict.starts_with(verdict), "{tried:?}");
            assert_eq!(tried.instead.is_empty(), verdict == admitted);
        }
    }
}
