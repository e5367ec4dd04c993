//! Permits that do not come back: found by their age, and taken back once.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use compartment::{Caller, Entry, Hull, Leak, Limit, OVERDUE_US, Permits, WAYS_REPLACED_MAX};

use crate::support::*;

/// A permit's bound in these policies.
const HOLD_US: u64 = 1_000_000;

fn take(lane: &Seated, caller: Caller) -> Permits<Seated> {
    match lane.ask(caller) {
        Entry::Admitted(permits) => permits,
        entry @ (Entry::Refused(_) | Entry::Waiting(_)) => panic!("not admitted: {entry:?}"),
    }
}

fn setup() -> (Hull, Arc<Snapshot>, Seated) {
    let hull = Hull::with_cores(1);
    let routes = [R {
        tenant_limit: Some(limit(2)),
        ..route("a", 2)
    }];
    let plain = policy(9, 0, &[limit(5)], &routes);
    let policy = with_tenants(plain, &[("t", limit(3))], Limit::UNLIMITED);
    let snapshot = Snapshot::at(&hull, &policy, 1);
    let seat = Rc::new(hull.seat().unwrap());
    let lane = Seated::new(&snapshot, &seat);
    (hull, snapshot, lane)
}

#[test]
fn an_overdue_permit_is_taken_back_with_all_its_levels() {
    let (hull, snapshot, lane) = setup();
    let caller = snapshot.caller(0, 0);
    let overdue = take(&lane, caller);
    snapshot.clock.store(500_001, Ordering::Relaxed);
    let young = take(&lane, caller);
    assert_eq!(hull.reclaim(1 + HOLD_US + OVERDUE_US), Vec::new());
    let now_us = 2 + HOLD_US + OVERDUE_US;
    let leak = Leak {
        route: "route/a".into(),
        tenant: Some(name("t")),
        age_us: HOLD_US + OVERDUE_US + 1,
    };
    assert_eq!(hull.reclaim(now_us), [leak]);
    assert_eq!(hull.reclaim(now_us), Vec::new(), "once");
    for key in [
        "gateway",
        "upstream/u0",
        "route/a",
        "route/a/tenant/t",
        "tenant/t",
    ] {
        let seen = figures(&hull, key).unwrap();
        assert_eq!((seen.in_flight, seen.leaked), (1, 1), "{key}");
        assert_eq!((seen.admitted, seen.completed), (2, 1), "{key}");
    }
    // The owner comes after all, and gives nothing back a second time.
    drop(overdue);
    assert_eq!(figures(&hull, "route/a").unwrap().in_flight, 1);
    drop(young);
    all_returned(&hull);
}

#[test]
fn the_slot_of_a_forgotten_permit_serves_others() {
    let (hull, snapshot, lane) = setup();
    let caller = snapshot.caller(0, 0);
    // Never dropped, as a bug would have it: kept in a place that nobody looks at.
    let lost = Box::leak(Box::new([take(&lane, caller), take(&lane, caller)]));
    assert!(matches!(lane.ask(caller), Entry::Refused(_)));
    assert_eq!(hull.reclaim(2 + HOLD_US + OVERDUE_US).len(), lost.len());
    drop([take(&lane, caller), take(&lane, caller)]);
    all_returned(&hull);
}

#[test]
fn places_are_used_again_and_a_way_is_kept_as_long_as_it_is_needed() {
    let (hull, snapshot, lane) = setup();
    let caller = snapshot.caller(0, 0);
    (0..1_000).for_each(|_| drop(take(&lane, caller)));
    let held = take(&lane, caller);
    // Its policy is long gone when it is found.
    let later_us = 100 * compartment::ABSENT_US;
    Snapshot::at(&hull, &policy(9, 0, &[limit(5)], &[route("b", 1)]), 2);
    for now_us in [3, later_us, later_us + compartment::ABSENT_US] {
        hull.sweep(now_us);
    }
    assert_eq!(hull.reclaim(2 * later_us).len(), 1);
    drop(held);
    all_returned(&hull);
}

/// What is in flight over time is what those who ended have held, and those who are out so far.
#[test]
fn a_permit_that_is_out_for_long_is_explained_by_what_it_has_held_so_far() {
    let (hull, snapshot, lane) = setup();
    let began_us = snapshot.clock.load(Ordering::Relaxed);
    let long = take(&lane, snapshot.caller(0, 0));
    for minutes in 1..=10 {
        let now_us = began_us + minutes * 60_000_000;
        snapshot.clock.store(now_us, Ordering::Relaxed);
        drop(take(&lane, snapshot.caller(0, 0)));
        let so_far_us = hull.held_so_far_us(now_us);
        for figures in hull.shared_figures(now_us) {
            let so_far_us = so_far_us.get(figures.key.as_str()).copied().unwrap_or(0);
            let explained_us = figures.hold.sum_us() + so_far_us;
            // The hold of nothing counts as a microsecond.
            let apart_us = figures.in_flight_us.abs_diff(explained_us);
            assert!(apart_us <= minutes, "{}: {apart_us}", figures.key);
        }
    }
    drop(long);
    assert!(hull.held_so_far_us(u64::MAX).is_empty());
}

#[test]
fn policies_that_come_and_go_leave_no_more_ways_than_are_in_use() {
    let hull = Hull::with_cores(1);
    let with = |class_reserve| {
        let routes = [
            R {
                class_reserve,
                ..route("a", 9)
            },
            route("b", 1).streams(2),
        ];
        policy(20, 2, &[limit(20)], &routes)
    };
    let snapshot = Snapshot::at(&hull, &with(0), 1);
    let seat = Rc::new(hull.seat().unwrap());
    let held = take(&Seated::new(&snapshot, &seat), ANYBODY);
    for _ in 0..1_000 {
        hull.apply(&with(0), 1);
    }
    assert_eq!(hull.ways_known(), 3, "the same, however often it comes");
    let pushes = u32::try_from(WAYS_REPLACED_MAX).unwrap() + 1_000;
    for n in 1..pushes {
        hull.apply(&with(1 + n % 2), 1);
    }
    let most = 3 + WAYS_REPLACED_MAX;
    assert!(hull.ways_known() <= most, "{}", hull.ways_known());
    hull.sweep(2 + compartment::ABSENT_US);
    assert_eq!(hull.ways_known(), 4, "in force or in use");
    // The first of all is still the way back of whom it let in.
    let leaks = hull.reclaim(2 + HOLD_US + OVERDUE_US);
    assert_eq!(leaks.len(), 1);
    drop(held);
    all_returned(&hull);
}

#[test]
fn every_overdue_permit_finds_its_tenant() {
    let hull = Hull::with_cores(1);
    let names: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let tenants: Vec<_> = names.iter().map(|name| (name.as_str(), limit(1))).collect();
    let plain = policy(500, 0, &[Limit::UNLIMITED], &[route("a", 300)]);
    let snapshot = Snapshot::at(&hull, &with_tenants(plain, &tenants, limit(1)), 1);
    let seat = Rc::new(hull.seat().unwrap());
    let lane = Seated::new(&snapshot, &seat);
    let held: Vec<_> = (0..200)
        .map(|tenant| take(&lane, snapshot.caller(0, tenant)))
        .collect();
    let leaks = hull.reclaim(2 + HOLD_US + OVERDUE_US);
    let mut found: Vec<_> = leaks.into_iter().map(|leak| leak.tenant.unwrap()).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 200);
    drop(held);
    all_returned(&hull);
}
