//! Long-lived exchanges have slots of their own: `route/ID/stream`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use compartment::{ABSENT_US, CellCache, Hull, Limit, Permits, Rejection};

use crate::support::*;

const FREE: Limit = Limit::UNLIMITED;

fn stream(snapshot: &Arc<Snapshot>, caller: compartment::Caller) -> compartment::Entry<Here> {
    snapshot.ask_stream(0, caller, &mut CellCache::new())
}

fn in_flight(hull: &Hull, key: &str) -> u32 {
    figures(hull, key).unwrap().in_flight
}

fn one(capacity: u32, spare: u32, routes: &[R]) -> (Hull, Arc<Snapshot>) {
    let hull = Hull::new();
    let snapshot = Snapshot::of(&hull, &policy(capacity, spare, &[FREE], routes));
    (hull, snapshot)
}

#[test]
fn streams_have_slots_of_their_own_and_calls_keep_theirs() {
    let (hull, snapshot) = one(9, 8, &[route("a", 1).streams(2)]);
    let held: Vec<_> = (0..2)
        .map(|_| admitted(stream(&snapshot, ANYBODY)).unwrap())
        .collect();
    let refusal = refused(stream(&snapshot, ANYBODY)).unwrap();
    assert_eq!(why(&refusal), ("stream_full", "route/a/stream"));
    let call = admitted(snapshot.anybody(0)).unwrap();
    let keys = ["route/a", "route/a/stream", "upstream/u0", "gateway"];
    assert_eq!(keys.map(|key| in_flight(&hull, key)), [1, 2, 3, 3]);
    assert_eq!(hull.spare(), (8, 2), "every stream borrows");
    assert_eq!(figures(&hull, "route/a/stream").unwrap().borrowed, 2);
    identities(&hull);
    drop((held, call));
    all_returned(&hull);
    let stream = figures(&hull, "route/a/stream").unwrap();
    assert_eq!((stream.arrived, stream.admitted, stream.peak), (3, 2, 2));
    assert_eq!(stream.rejected[&Rejection::StreamFull], 1);
    assert_eq!(figures(&hull, "route/a").unwrap().arrived, 1);
}

#[test]
fn a_guarantee_is_never_lost_to_streams() {
    let (_hull, snapshot) = one(5, 2, &[route("a", 3).streams(9)]);
    let streams: Vec<_> = std::iter::from_fn(|| admitted(stream(&snapshot, ANYBODY))).collect();
    assert_eq!(streams.len(), 2);
    let refusal = refused(stream(&snapshot, ANYBODY)).unwrap();
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
    let calls: Vec<_> = std::iter::from_fn(|| admitted(snapshot.anybody(0))).collect();
    assert_eq!(calls.len(), 3);
}

#[test]
fn a_call_that_turns_out_to_be_a_stream_changes_its_slot_alone() {
    let (hull, snapshot) = one(9, 7, &[route("a", 2).streams(1)]);
    let mut first = admitted(snapshot.anybody(0)).unwrap();
    snapshot.clock.store(1_001, Ordering::Relaxed);
    first.move_to(snapshot.lane(0, true), false).unwrap();
    let keys = ["route/a", "route/a/stream", "upstream/u0", "gateway"];
    assert_eq!(keys.map(|key| in_flight(&hull, key)), [0, 1, 1, 1]);
    identities(&hull);
    first.move_to(snapshot.lane(0, true), false).unwrap();
    assert_eq!(in_flight(&hull, "route/a/stream"), 1, "it is one already");
    let mut second = admitted(snapshot.anybody(0)).unwrap();
    let refusal = second.move_to(snapshot.lane(0, true), false).unwrap_err();
    assert_eq!(why(&refusal), ("stream_full", "route/a/stream"));
    assert_eq!(
        in_flight(&hull, "route/a"),
        1,
        "it holds its slot until it is dropped"
    );
    drop(second);
    snapshot.clock.store(5_001, Ordering::Relaxed);
    drop(first);
    all_returned(&hull);
    let route = figures(&hull, "route/a").unwrap();
    assert_eq!((route.admitted, route.completed), (2, 2));
    let lane = snapshot.lane(0, true);
    let held_us = compartment::Lane::passage(&lane).route().mean_hold_us();
    assert_eq!(
        held_us, 4_000,
        "the stream's own time, not the call's before it"
    );
}

#[test]
fn a_move_may_use_the_spare_slot_that_it_gives_back() {
    let (hull, snapshot) = one(9, 1, &[route("a", 2).reserved(0).streams(1)]);
    let mut call = admitted(snapshot.anybody(0)).unwrap();
    assert_eq!(hull.spare(), (1, 1));
    call.move_to(snapshot.lane(0, true), false).unwrap();
    assert_eq!((hull.spare(), in_flight(&hull, "route/a")), ((1, 1), 0));
    drop(call);
    all_returned(&hull);
}

#[test]
fn a_move_without_a_spare_slot_is_refused_and_loses_nothing() {
    let (hull, snapshot) = one(9, 1, &[route("a", 2).streams(3), route("b", 1).reserved(0)]);
    let other = admitted(snapshot.anybody(1)).unwrap();
    let mut call = admitted(snapshot.anybody(0)).unwrap();
    let refusal = call.move_to(snapshot.lane(0, true), false).unwrap_err();
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
    drop((call, other));
    all_returned(&hull);
}

#[test]
fn lowering_the_limit_kills_no_stream_and_raising_lets_more_in() {
    let hull = Hull::new();
    let with = |slots| policy(9, 8, &[FREE], &[route("a", 1).streams(slots)]);
    let before = Snapshot::of(&hull, &with(3));
    let mut held: Vec<Permits<Here>> = (0..3)
        .map(|_| admitted(stream(&before, ANYBODY)).unwrap())
        .collect();
    let after = Snapshot::of(&hull, &with(1));
    let now = figures(&hull, "route/a/stream").unwrap();
    assert_eq!((now.in_flight, now.limit), (3, limit(1)));
    held.truncate(1);
    assert!(refused(stream(&after, ANYBODY)).is_some());
    held.clear();
    let again = admitted(stream(&after, ANYBODY)).unwrap();
    let shut = Snapshot::of(&hull, &with(0));
    let refusal = refused(stream(&shut, ANYBODY)).unwrap();
    assert_eq!(why(&refusal), ("closed", "route/a/stream"));
    drop(again);
    all_returned(&hull);
}

#[test]
fn streams_count_on_a_tenants_cap_and_not_on_its_share_of_calls() {
    let hull = Hull::new();
    let capped = R {
        tenant_limit: Some(limit(4)),
        ..route("a", 4).streams(9)
    };
    let routes = [R {
        share: Some(1_000_000),
        ..capped
    }];
    let plain = policy(99, 95, &[FREE], &routes);
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &[("t", FREE)], FREE));
    let caller = snapshot.caller(0, 0);
    let streams: Vec<_> = (0..2)
        .map(|_| admitted(stream(&snapshot, caller)).unwrap())
        .collect();
    // Alone on four free slots a tenant gets two calls, with or without streams beside them.
    let ask = || snapshot.ask(0, caller, &mut CellCache::new());
    let mut calls: Vec<_> = (0..2).map(|_| admitted(ask()).unwrap()).collect();
    let refusal = refused(stream(&snapshot, caller)).unwrap();
    assert_eq!(why(&refusal), ("tenant_route_full", "route/a/tenant/t"));
    drop(streams);
    let refusal = refused(ask()).unwrap();
    assert_eq!(why(&refusal), ("tenant_share", "route/a/tenant/t"));
    // One that moves frees the tenant's share for a call.
    calls[0].move_to(snapshot.lane(0, true), false).unwrap();
    calls.push(admitted(ask()).unwrap());
    identities(&hull);
    drop(calls);
    all_returned(&hull);
}

#[test]
fn a_route_with_running_streams_is_not_forgotten() {
    let hull = Hull::new();
    let routes = [R {
        tenant_limit: Some(limit(1)),
        ..route("a", 4).streams(4)
    }];
    let named = |routes: &[R]| with_tenants(policy(99, 90, &[FREE], routes), &[("t", FREE)], FREE);
    let before = Snapshot::of(&hull, &named(&routes));
    let running = admitted(stream(&before, before.caller(0, 0))).unwrap();
    drop(Snapshot::of(&hull, &named(&[])));
    for minute in 1..=3 {
        hull.sweep(minute * ABSENT_US);
    }
    let after = Snapshot::of(&hull, &named(&routes));
    let caller = after.caller(0, 0);
    assert_eq!(in_flight(&hull, "route/a/stream"), 1);
    let refusal = refused(after.ask(0, caller, &mut CellCache::new())).unwrap();
    assert_eq!(why(&refusal), ("tenant_route_full", "route/a/tenant/t"));
    drop(running);
    all_returned(&hull);
}

#[test]
fn many_threads_that_move_and_leave_lose_nothing() {
    let hull = Hull::new();
    let routes = [R {
        share: Some(1_000_000),
        ..route("a", 8).reserved(0).streams(3)
    }];
    let plain = policy(10, 10, &[FREE], &routes);
    let snapshot = Snapshot::of(
        &hull,
        &with_tenants(plain, &[("t", FREE), ("u", FREE)], FREE),
    );
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let snapshot = &snapshot;
            scope.spawn(move || {
                let caller = snapshot.caller(0, thread % 2);
                let mut cache = CellCache::new();
                for n in 0..5_000_u32 {
                    let entry = match n % 3 {
                        0 => snapshot.ask_stream(0, caller, &mut cache),
                        _ => snapshot.ask(0, caller, &mut cache),
                    };
                    if let Some(mut permits) = admitted(entry) {
                        let moved = permits.move_to(snapshot.lane(0, true), n % 2 == 0);
                        assert!(moved.is_ok() || n % 3 != 0);
                    }
                }
            });
        }
    });
    assert!(figures(&hull, "route/a/stream").unwrap().peak <= 3);
    all_returned(&hull);
}
