//! Limits that are not enforced, and time by state: what an operator reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use compartment::{CellCache, Hull, Limit, Mode, Permits, Rejection};

use crate::support::*;

fn hold(snapshot: &Arc<Snapshot>, count: usize) -> Vec<Permits<Here>> {
    (0..count)
        .map(|_| admitted(snapshot.anybody(0)).unwrap())
        .collect()
}

fn shadow(hull: &Hull, key: &str) -> BTreeMap<Rejection, u64> {
    figures(hull, key).unwrap().shadow_rejected
}

#[test]
fn shadow_counts_what_it_would_refuse_and_admits_it() {
    let hull = Hull::new();
    let with = |mode| policy(10, 5, &[Limit::UNLIMITED], &[route("a", 1).mode(mode)]);
    let snapshot = Snapshot::of(&hull, &with(Mode::Shadow));
    let mut held = hold(&snapshot, 4);
    let seen = figures(&hull, "route/a").unwrap();
    assert_eq!((seen.mode, seen.in_flight), (Mode::Shadow, 4));
    assert!(seen.rejected.is_empty());
    assert_eq!(
        seen.shadow_rejected,
        BTreeMap::from([(Rejection::RouteFull, 3)])
    );
    // The one that the limit would have admitted goes: the next one would be, the others not.
    drop(held.remove(0));
    held.extend(hold(&snapshot, 2));
    assert_eq!(shadow(&hull, "route/a")[&Rejection::RouteFull], 4);
    // Enforced from now on; what is in flight stays.
    let snapshot = Snapshot::of(&hull, &with(Mode::Enforce));
    let refusal = refused(snapshot.anybody(0)).unwrap();
    assert_eq!(why(&refusal), ("route_full", "route/a"));
    assert_eq!(figures(&hull, "route/a").unwrap().in_flight, 5);
    drop(held);
    all_returned(&hull);
}

#[test]
fn all_in_flight_is_judged_when_a_route_goes_into_shadow() {
    let hull = Hull::new();
    let with = |slots, mode| policy(10, 0, &[Limit::UNLIMITED], &[route("a", slots).mode(mode)]);
    let snapshot = Snapshot::of(&hull, &with(5, Mode::Enforce));
    let _held = hold(&snapshot, 3);
    let mut lower = with(3, Mode::Shadow);
    lower.gateway.spare = 5;
    let snapshot = Snapshot::of(&hull, &lower);
    let _more = hold(&snapshot, 1);
    assert_eq!(shadow(&hull, "route/a")[&Rejection::RouteFull], 1);
}

#[test]
fn off_judges_nothing_and_protects_others_all_the_same() {
    let hull = Hull::new();
    let routes = [route("a", 0).mode(Mode::Off)];
    let snapshot = Snapshot::of(&hull, &policy(10, 2, &[limit(9)], &routes));
    let _held = hold(&snapshot, 2);
    assert!(shadow(&hull, "route/a").is_empty());
    // Beyond its guarantee it has spare slots, and no more.
    let refusal = refused(snapshot.anybody(0)).unwrap();
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
}

#[test]
fn a_candidate_is_judged_beside_the_live_limit() {
    let hull = Hull::new();
    let routes = [route("a", 5).candidate(1)];
    let snapshot = Snapshot::of(&hull, &policy(10, 0, &[Limit::UNLIMITED], &routes));
    let held = hold(&snapshot, 3);
    let seen = figures(&hull, "route/a").unwrap();
    assert_eq!((seen.candidate, seen.candidate_rejected), (Some(1), 2));
    assert!(seen.rejected.is_empty() && seen.shadow_rejected.is_empty());
    let _rest = hold(&snapshot, 2);
    // The live limit refuses, and so would the candidate.
    assert!(refused(snapshot.anybody(0)).is_some());
    assert_eq!(figures(&hull, "route/a").unwrap().candidate_rejected, 5);
    drop(held);
}

#[test]
fn a_tenant_is_told_what_a_shadow_would_have_refused_it() {
    let hull = Hull::new();
    let routes = [route("a", 1).mode(Mode::Shadow)];
    let plain = policy(10, 9, &[Limit::UNLIMITED], &routes);
    let tenants = [("acme", limit(9)), ("other", limit(9))];
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &tenants, limit(1)));
    let mut cache = CellCache::new();
    let ask = |tenant, cache: &mut CellCache| {
        admitted(snapshot.ask(0, snapshot.caller(0, tenant), cache)).unwrap()
    };
    let held = [ask(1, &mut cache), ask(0, &mut cache), ask(0, &mut cache)];
    let acme = figures(&hull, "route/a/tenant/acme").unwrap();
    assert_eq!(acme.mode, Mode::Shadow);
    assert_eq!(
        acme.shadow_rejected,
        BTreeMap::from([(Rejection::RouteFull, 2)])
    );
    assert_eq!((acme.arrived, acme.in_flight), (2, 2), "two of two");
    let other = figures(&hull, "route/a/tenant/other").unwrap();
    assert_eq!((other.arrived, other.shadow_rejected.len()), (1, 0));
    drop(held);
    // What it counted stays when it goes.
    hull.sweep(1);
    hull.sweep(1 + compartment::CELL_IDLE_US);
    let idle = figures(&hull, "route/a/tenant/_idle").unwrap();
    assert_eq!(idle.shadow_rejected[&Rejection::RouteFull], 2);
}

#[test]
fn a_tenants_own_part_is_judged_in_shadow_too() {
    let hull = Hull::new();
    let capped = R {
        tenant_limit: Some(limit(1)),
        ..route("a", 10).mode(Mode::Shadow)
    };
    let shared = R {
        share: Some(500_000),
        ..route("b", 4).mode(Mode::Shadow)
    };
    let plain = policy(20, 5, &[Limit::UNLIMITED], &[capped, shared]);
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &[("t", limit(9))], limit(1)));
    let mut cache = CellCache::new();
    let mut ask = |route| {
        let caller = snapshot.caller(route, 0);
        admitted(snapshot.ask(route, caller, &mut cache)).unwrap()
    };
    let _a = [ask(0), ask(0), ask(0)];
    let _b = [ask(1), ask(1), ask(1)];
    let cap = BTreeMap::from([(Rejection::TenantRouteFull, 2)]);
    assert_eq!(shadow(&hull, "route/a/tenant/t"), cap);
    assert_eq!(shadow(&hull, "route/a"), cap);
    // Half of four free is two, half of three is one: the second is one too many.
    let share = BTreeMap::from([(Rejection::TenantShare, 2)]);
    assert_eq!(shadow(&hull, "route/b/tenant/t"), share);
}

#[test]
fn time_is_counted_by_state_and_not_by_looking() {
    let hull = Hull::new();
    let with = |slots| policy(9, 0, &[Limit::UNLIMITED], &[route("a", slots)]);
    let snapshot = Snapshot::at(&hull, &with(2), 100);
    let set = |now_us| snapshot.clock.store(now_us, Ordering::Relaxed);
    set(1_100);
    let one = hold(&snapshot, 1);
    set(1_200);
    let two = hold(&snapshot, 1);
    set(1_250);
    // Lowered: full all the while. Raised: full no longer.
    Snapshot::at(&hull, &with(1), 1_250);
    Snapshot::at(&hull, &with(5), 1_300);
    set(1_400);
    drop(one);
    set(1_600);
    drop(two);
    let seen = hull.figures(2_000);
    let seen = seen.iter().find(|f| f.key == "route/a").unwrap();
    assert_eq!(seen.saturated_us, 1_300 - 1_200);
    assert_eq!(seen.busy_us, (1_200 - 1_100) + (1_600 - 1_300));
    assert_eq!(seen.idle_us, 1_000 + 400);
    assert_eq!(seen.in_flight_us, (1_400 - 1_100) + (1_600 - 1_200));
    assert_eq!((seen.hold.count(), seen.hold.sum_us()), (2, 700));
}

#[test]
fn a_closed_compartment_is_idle() {
    let hull = Hull::new();
    Snapshot::at(&hull, &policy(9, 0, &[limit(0)], &[route("a", 0)]), 10);
    for seen in hull.figures(1_010) {
        assert_eq!(seen.saturated_us, 0, "{seen:?}");
        assert_eq!(seen.busy_us, 0, "{seen:?}");
    }
}
