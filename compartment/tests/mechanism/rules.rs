//! The sentences of the contract that the mechanism keeps, one by one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use compartment::{
    ABSENT_US, CELL_IDLE_US, CELLS_PER_ROUTE_MAX, Caller, CellCache, Class, Hull, Limit, Permits,
    QUEUE_STANDING_US, Rejection, Waiting, refuse_by_breaker,
};

use crate::support::*;

const SHEDDABLE: Caller = Caller {
    class: Class::Sheddable,
    ..ANYBODY
};

fn poll(waiting: &mut Waiting<Here>) -> Poll<Result<Permits<Here>, compartment::Refusal>> {
    Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

fn granted(waiting: &mut Waiting<Here>) -> Permits<Here> {
    match poll(waiting) {
        Poll::Ready(Ok(permits)) => permits,
        other @ (Poll::Ready(Err(_)) | Poll::Pending) => panic!("not granted: {other:?}"),
    }
}

/// As many as are admitted one after another.
fn fill(snapshot: &Arc<Snapshot>, route: usize, caller: Caller) -> Vec<Permits<Here>> {
    let mut cache = CellCache::new();
    std::iter::from_fn(|| admitted(snapshot.ask(route, caller, &mut cache))).collect()
}

fn fill_to(snapshot: &Arc<Snapshot>, count: usize) -> Vec<Permits<Here>> {
    (0..count)
        .map(|_| admitted(snapshot.anybody(0)).unwrap())
        .collect()
}

/// Reason and key of the refusal that comes next.
fn refusal(snapshot: &Arc<Snapshot>, route: usize, caller: Caller) -> (&'static str, String) {
    let entry = snapshot.ask(route, caller, &mut CellCache::new());
    let refusal = refused(entry).unwrap();
    (refusal.rejection.as_str(), refusal.key.to_string())
}

fn told(reason: &'static str, key: &str) -> (&'static str, String) {
    (reason, key.to_owned())
}

const FREE: Limit = Limit::UNLIMITED;

#[test]
fn every_level_names_itself() {
    let hull = Hull::new();
    let routes = [
        route("wide", 9).reserved(0),
        R {
            tenant_limit: Some(limit(1)),
            ..route("capped", 9).reserved(0)
        },
        route("tight", 1).reserved(0),
        R {
            upstream: 1,
            ..route("small", 9).reserved(0)
        },
        route("shut", 0),
    ];
    let plain = policy(6, 6, &[FREE, limit(1)], &routes);
    let tenants = [
        ("few", limit(2)),
        ("many", limit(99)),
        ("shut", Limit::CLOSED),
    ];
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &tenants, limit(1)));
    let of = |route, tenant| snapshot.caller(route, tenant);
    let held = fill(&snapshot, 0, of(0, 0));
    assert_eq!(held.len(), 2);
    assert_eq!(
        refusal(&snapshot, 0, of(0, 0)),
        told("tenant_full", "tenant/few")
    );
    drop(held);
    let _capped = fill(&snapshot, 1, of(1, 1));
    let expected = told("tenant_route_full", "route/capped/tenant/many");
    assert_eq!(refusal(&snapshot, 1, of(1, 1)), expected);
    let _tight = fill(&snapshot, 2, ANYBODY);
    assert_eq!(
        refusal(&snapshot, 2, ANYBODY),
        told("route_full", "route/tight")
    );
    let _small = fill(&snapshot, 3, ANYBODY);
    assert_eq!(
        refusal(&snapshot, 3, ANYBODY),
        told("upstream_full", "upstream/u1")
    );
    assert_eq!(refusal(&snapshot, 4, ANYBODY), told("closed", "route/shut"));
    assert_eq!(
        refusal(&snapshot, 4, of(4, 2)),
        told("closed", "tenant/shut")
    );
    let rest = fill(&snapshot, 0, ANYBODY);
    assert_eq!(rest.len(), 3, "six in all");
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("gateway_full", "gateway")
    );
    drop(rest);
    assert_eq!(
        fill(&snapshot, 0, of(0, 3)).len(),
        1,
        "all unknown callers share one slot"
    );
    identities(&hull);
}

#[test]
fn a_refusal_counts_where_it_happened_and_nowhere_else() {
    let hull = Hull::new();
    let plain = policy(9, 9, &[limit(1)], &[route("a", 5).reserved(0)]);
    let tenants = [("t", limit(4))];
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &tenants, FREE));
    let caller = snapshot.caller(0, 0);
    let held = fill(&snapshot, 0, caller);
    let arrived = |key: &str| figures(&hull, key).unwrap().arrived;
    let keys = ["tenant/t", "route/a", "upstream/u0", "gateway"];
    assert_eq!(
        keys.map(arrived),
        [1, 1, 2, 1],
        "one admitted, one refused by the upstream"
    );
    assert_eq!(
        refusal(&snapshot, 0, caller),
        told("upstream_full", "upstream/u0")
    );
    assert_eq!(keys.map(arrived), [1, 1, 3, 1]);
    drop(held);
    all_returned(&hull);
}

#[test]
fn guaranteed_slots_are_there_however_greedy_a_neighbour_is() {
    let hull = Hull::new();
    let routes = [route("a", 6).reserved(2), route("b", 6).reserved(2)];
    let snapshot = Snapshot::of(&hull, &policy(6, 2, &[FREE], &routes));
    let greedy = fill(&snapshot, 0, ANYBODY);
    assert_eq!(greedy.len(), 4, "two guaranteed, two spare");
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("spare_exhausted", "gateway")
    );
    assert_eq!(figures(&hull, "route/a").unwrap().borrowed, 2);
    let modest = fill(&snapshot, 1, ANYBODY);
    assert_eq!(modest.len(), 2);
    assert_eq!(
        refusal(&snapshot, 1, ANYBODY),
        told("gateway_full", "gateway")
    );
    drop((greedy, modest));
    all_returned(&hull);
}

#[test]
fn of_two_true_reasons_the_earlier_level_is_told() {
    let hull = Hull::new();
    let routes = [route("a", 2).reserved(0), route("b", 2).reserved(0)];
    let snapshot = Snapshot::of(&hull, &policy(9, 2, &[limit(2)], &routes));
    let _held = fill(&snapshot, 0, ANYBODY);
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("route_full", "route/a")
    );
    assert_eq!(
        refusal(&snapshot, 1, ANYBODY),
        told("upstream_full", "upstream/u0")
    );
}

#[test]
fn sheddable_requests_leave_a_fifth_of_the_spare() {
    let hull = Hull::new();
    let snapshot = Snapshot::of(
        &hull,
        &policy(10, 10, &[FREE], &[route("a", 99).reserved(0)]),
    );
    let cheap = fill(&snapshot, 0, SHEDDABLE);
    assert_eq!(cheap.len(), 8);
    assert_eq!(
        refusal(&snapshot, 0, SHEDDABLE),
        told("spare_exhausted", "gateway")
    );
    assert_eq!(fill(&snapshot, 0, ANYBODY).len(), 2);
}

#[test]
fn the_ceiling_sheds_sheddable_requests_first() {
    let hull = Hull::new();
    let routes = [route("a", 99).reserved(0), route("b", 10)];
    let snapshot = Snapshot::of(&hull, &policy(60, 50, &[FREE], &routes));
    let cheap = fill(&snapshot, 0, SHEDDABLE);
    assert_eq!(cheap.len(), 40, "four fifths of what is spare");
    let guaranteed = fill(&snapshot, 1, SHEDDABLE);
    assert_eq!(guaranteed.len(), 10, "a guarantee is one for every class");
    let dear = fill(&snapshot, 0, ANYBODY);
    assert_eq!(dear.len(), 10, "the last slots of the ceiling");
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("gateway_full", "gateway")
    );
    assert_eq!(figures(&hull, "gateway").unwrap().nominal, 0);
    drop((cheap, guaranteed, dear));
    all_returned(&hull);
}

#[test]
fn a_ceiling_that_refuses_what_the_partitions_let_through_is_counted() {
    let hull = Hull::new();
    let with = |capacity, spare| {
        let routes = [route("a", 9).reserved(0), route("b", 2)];
        policy(capacity, spare, &[FREE], &routes)
    };
    let snapshot = Snapshot::of(&hull, &with(9, 7));
    let mut held = fill(&snapshot, 0, ANYBODY);
    assert_eq!(held.len(), 7);
    // Lowered below what is in flight: until that is over, a guarantee is one on paper.
    hull.apply(&with(4, 2), 1);
    assert_eq!(
        refusal(&snapshot, 1, ANYBODY),
        told("gateway_full", "gateway")
    );
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("gateway_full", "gateway")
    );
    let nominal = figures(&hull, "gateway").unwrap().nominal;
    assert_eq!(nominal, 1, "the other one had no spare slot either");
    held.truncate(2);
    assert_eq!(fill(&snapshot, 1, ANYBODY).len(), 2);
    drop(held);
    all_returned(&hull);
}

#[test]
fn tenants_that_nobody_has_seen_cost_a_number_and_a_name() {
    const TENANTS: usize = 100_000;
    let hull = Hull::new();
    let names: Vec<_> = (0..TENANTS).map(|n| format!("t{n}")).collect();
    let tenants: Vec<_> = names.iter().map(|name| (name.as_str(), limit(3))).collect();
    let routes = ["a", "b", "c"].map(|id| R {
        tenant_limit: Some(limit(2)),
        share: Some(1_000_000),
        ..route(id, 9).queue(9)
    });
    let policy = with_tenants(policy(99, 0, &[FREE], &routes), &tenants, FREE);
    let snapshot = Snapshot::of(&hull, &policy);
    let counts = || {
        let of = |fittings: &compartment::Fittings| {
            let tenants = fittings.tenants.iter();
            tenants.filter(|tenant| tenant.was_seen()).count()
        };
        let mut cells = 0;
        hull.each_figures(NOW_US, &mut |f| {
            cells += usize::from(f.level == compartment::Level::TenantRoute);
        });
        (of(&snapshot.fittings), cells)
    };
    assert_eq!(counts(), (0, 0));
    let mut cache = CellCache::new();
    for tenant in (0..).step_by(1_000).take(100) {
        let caller = snapshot.caller(0, tenant);
        drop(admitted(snapshot.ask(0, caller, &mut cache)).unwrap());
    }
    assert_eq!(
        counts(),
        (100, 100),
        "those who came, on the route they used"
    );
    assert!(size_of::<compartment::TenantCompartment>() <= 64);
    hull.apply(&policy, 1);
    hull.sweep(1);
    hull.sweep(1 + CELL_IDLE_US);
    assert_eq!(counts(), (100, 1), "and not even those when they are idle");
}

#[test]
fn the_last_slots_are_kept_from_sheddable_requests() {
    let hull = Hull::new();
    let kept = R {
        class_reserve: 2,
        ..route("a", 5)
    };
    let snapshot = Snapshot::of(&hull, &policy(9, 0, &[FREE], &[kept]));
    assert_eq!(fill(&snapshot, 0, SHEDDABLE).len(), 3);
    let cheap = fill(&snapshot, 0, SHEDDABLE);
    assert_eq!(
        refusal(&snapshot, 0, SHEDDABLE),
        told("class_reserve", "route/a")
    );
    let dear = fill_to(&snapshot, 2);
    assert_eq!(
        refusal(&snapshot, 0, SHEDDABLE),
        told("route_full", "route/a")
    );
    drop((cheap, dear));
}

#[test]
fn a_sheddable_waiter_gets_none_of_the_last_slots() {
    let hull = Hull::new();
    let with = |class_reserve| {
        let kept = R {
            class_reserve,
            ..route("a", 4).queue(3)
        };
        policy(9, 0, &[FREE], &[kept])
    };
    let snapshot = Snapshot::of(&hull, &with(2));
    let mut held = fill_to(&snapshot, 2);
    let cheap = || waiting(snapshot.ask(0, SHEDDABLE, &mut CellCache::new())).unwrap();
    let mut first = cheap();
    // Two free slots are kept from those who wait, and nobody else waits because of them.
    held.extend(fill_to(&snapshot, 2));
    let mut second = waiting(snapshot.anybody(0)).unwrap();
    drop(held.pop());
    held.push(granted(&mut second));
    held.truncate(2);
    assert!(poll(&mut first).is_pending());
    held.truncate(1);
    let cheap_held = granted(&mut first);
    let mut third = cheap();
    hull.apply(&with(1), 1);
    drop((granted(&mut third), cheap_held, held));
    all_returned(&hull);
}

/// Tenants `s`, `t` and `u` on a route of one slot and a line of these places.
fn three_tenants(hull: &Hull, queue: u32) -> Arc<Snapshot> {
    let plain = policy(99, 0, &[FREE], &[route("a", 1).queue(queue)]);
    let tenants = [("s", FREE), ("t", FREE), ("u", FREE)];
    Snapshot::of(hull, &with_tenants(plain, &tenants, FREE))
}

fn wait_as(snapshot: &Arc<Snapshot>, tenant: u32) -> Waiting<Here> {
    let caller = snapshot.caller(0, tenant);
    waiting(snapshot.ask(0, caller, &mut CellCache::new())).unwrap()
}

/// The order in which the waiters get the one slot, by their place in the list.
fn served(mut held: Permits<Here>, mut line: Vec<(usize, Waiting<Here>)>) -> Vec<usize> {
    let mut order = Vec::new();
    while !line.is_empty() {
        drop(held);
        let at = line
            .iter_mut()
            .map(|(_, waiting)| poll(waiting))
            .collect::<Vec<_>>();
        let mut at = at.into_iter().enumerate();
        let (at, permits) = at
            .find_map(|(at, turn)| match turn {
                Poll::Ready(Ok(permits)) => Some((at, permits)),
                Poll::Ready(Err(_)) | Poll::Pending => None,
            })
            .unwrap();
        order.push(line.remove(at).0);
        held = permits;
    }
    order
}

#[test]
fn tenants_take_turns_in_the_line() {
    let hull = Hull::new();
    let snapshot = three_tenants(&hull, 9);
    let held = admitted(snapshot.anybody(0)).unwrap();
    let line = [0, 0, 0, 0, 1, 2, 1].map(|tenant| wait_as(&snapshot, tenant));
    let line = line.into_iter().enumerate().collect();
    assert_eq!(served(held, line), [0, 4, 5, 1, 6, 2, 3]);
    all_returned(&hull);
}

#[test]
fn a_flood_gives_way_until_every_tenant_has_its_fair_part() {
    let hull = Hull::new();
    let snapshot = three_tenants(&hull, 6);
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..6).map(|_| wait_as(&snapshot, 0)).collect();
    line.extend([1, 2, 1, 2].map(|tenant| wait_as(&snapshot, tenant)));
    // Two places each: nobody gains by a further exchange.
    for tenant in 0..3 {
        let caller = snapshot.caller(0, tenant);
        assert_eq!(refusal(&snapshot, 0, caller), told("queue_full", "route/a"));
    }
    identities(&hull);
    for mut gone in line.splice(2..6, []).collect::<Vec<_>>() {
        let Poll::Ready(Err(refusal)) = poll(&mut gone) else {
            panic!("the newest of the flood still wait")
        };
        assert_eq!(why(&refusal), ("queue_full", "route/a"));
    }
    let now = figures(&hull, "route/a").unwrap();
    assert_eq!((now.queued, now.left_queue), (6, 0));
    assert_eq!(now.rejected[&Rejection::QueueFull], 4 + 3);
    drop((line, held));
    all_returned(&hull);
}

#[test]
fn callers_without_a_tenant_share_their_turns() {
    let hull = Hull::new();
    let snapshot = three_tenants(&hull, 9);
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..3)
        .map(|_| waiting(snapshot.anybody(0)).unwrap())
        .collect();
    line.push(wait_as(&snapshot, 0));
    let line = line.into_iter().enumerate().collect();
    assert_eq!(served(held, line), [0, 3, 1, 2]);
}

#[test]
fn a_line_that_stands_serves_the_newest_until_it_has_emptied() {
    let hull = Hull::new();
    let snapshot = three_tenants(&hull, 9);
    let later = |us| snapshot.clock.fetch_add(us, Ordering::Relaxed);
    let mut held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..4).map(|_| wait_as(&snapshot, 0)).collect();
    // Nobody had a turn yet: one long call does not make a line stand.
    later(10 * QUEUE_STANDING_US);
    drop(held);
    held = granted(&mut line[0]);
    later(QUEUE_STANDING_US - 1);
    drop(held);
    held = granted(&mut line[1]);
    later(1);
    drop(held);
    held = granted(&mut line[3]);
    drop(held);
    held = granted(&mut line[2]);
    let mut line: Vec<_> = (0..2).map(|_| wait_as(&snapshot, 0)).collect();
    later(10 * QUEUE_STANDING_US);
    drop(held);
    drop(granted(&mut line[0]));
    drop(granted(&mut line[1]));
    all_returned(&hull);
}

#[test]
fn who_cannot_use_a_slot_any_more_neither_waits_nor_gets_one() {
    let hull = Hull::new();
    let snapshot = three_tenants(&hull, 2);
    let held = admitted(snapshot.anybody(0)).unwrap();
    snapshot.clock.fetch_add(5_000, Ordering::Relaxed);
    drop(held);
    // A slot is held for 5 ms on average; the clock says 5,001.
    let held = admitted(snapshot.anybody(0)).unwrap();
    let until = |until_us| Caller {
        until_us: Some(until_us),
        ..ANYBODY
    };
    assert_eq!(
        refusal(&snapshot, 0, until(10_001)),
        told("deadline_too_short", "route/a")
    );
    let ask = |until_us| snapshot.ask(0, until(until_us), &mut CellCache::new());
    let mut late = waiting(ask(10_002)).unwrap();
    assert_eq!(late.useful_until_us(), 5_002);
    let mut patient = waiting(ask(20_000)).unwrap();
    snapshot.clock.fetch_add(1, Ordering::Relaxed);
    drop(held);
    let Poll::Ready(Err(refusal)) = poll(&mut late) else {
        panic!("not refused")
    };
    assert_eq!(why(&refusal), ("deadline_too_short", "route/a"));
    drop(granted(&mut patient));
    let now = figures(&hull, "route/a").unwrap();
    assert_eq!(now.rejected[&Rejection::DeadlineTooShort], 2);
    assert_eq!((now.left_queue, now.completed), (0, 3));
    all_returned(&hull);
}

#[test]
fn a_share_moves_with_the_free_slots() {
    let hull = Hull::new();
    let shared = |id: &str, share| R {
        share: Some(share),
        ..route(id, 10)
    };
    let routes = [
        shared("whole", 1_000_000),
        shared("half", 500_000),
        shared("open", 500_000),
    ];
    let routes = routes.map(|r| {
        if r.id == "open" {
            R {
                limit: FREE,
                reserved: 0,
                ..r
            }
        } else {
            r
        }
    });
    let tenants = [("big", FREE), ("other", FREE)];
    let policy = with_tenants(policy(99, 20, &[FREE], &routes), &tenants, FREE);
    let snapshot = Snapshot::of(&hull, &policy);
    let of = |route, tenant| snapshot.caller(route, tenant);
    let big = fill(&snapshot, 0, of(0, 0));
    assert_eq!(big.len(), 5);
    assert_eq!(
        refusal(&snapshot, 0, of(0, 0)),
        told("tenant_share", "route/whole/tenant/big")
    );
    assert_eq!(
        fill(&snapshot, 0, of(0, 1)).len(),
        3,
        "of five free: three, with two left"
    );
    assert_eq!(fill(&snapshot, 1, of(1, 0)).len(), 3);
    assert_eq!(
        fill(&snapshot, 2, of(2, 0)).len(),
        20,
        "no share of the unlimited"
    );
    assert_eq!(figures(&hull, "route/whole").unwrap().rejected.len(), 0);
}

#[test]
fn waiting_is_bounded_in_order_and_keeps_the_tenant_permits() {
    let hull = Hull::new();
    let plain = policy(9, 9, &[FREE], &[route("a", 1).queue(2)]);
    let tenants = [("t", limit(2))];
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &tenants, FREE));
    let caller = snapshot.caller(0, 0);
    let ask = || snapshot.ask(0, caller, &mut CellCache::new());
    let held = admitted(ask()).unwrap();
    let mut first = waiting(ask()).unwrap();
    assert_eq!(
        refusal(&snapshot, 0, caller),
        told("tenant_full", "tenant/t")
    );
    let mut second = waiting(snapshot.anybody(0)).unwrap();
    assert_eq!(
        refusal(&snapshot, 0, ANYBODY),
        told("queue_full", "route/a")
    );
    identities(&hull);
    assert_eq!(figures(&hull, "route/a").unwrap().queued, 2);
    drop(held);
    identities(&hull);
    assert!(poll(&mut second).is_pending());
    let held = granted(&mut first);
    assert_eq!(figures(&hull, "route/a").unwrap().queued, 1);
    drop(held);
    drop(granted(&mut second));
    all_returned(&hull);
    assert_eq!(figures(&hull, "route/a").unwrap().completed, 3);
}

#[test]
fn those_who_leave_take_nothing_along() {
    let hull = Hull::new();
    let snapshot = Snapshot::of(&hull, &policy(9, 0, &[FREE], &[route("a", 1).queue(10)]));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..10)
        .map(|_| waiting(snapshot.anybody(0)).unwrap())
        .collect();
    let mut tenth = line.pop().unwrap();
    let timed_out = line.pop().unwrap();
    let refusal = timed_out.give_up(Rejection::QueueTimeout).unwrap_err();
    assert_eq!(why(&refusal), ("queue_timeout", "route/a"));
    line.clear();
    drop(held);
    drop(granted(&mut tenth));
    let now = figures(&hull, "route/a").unwrap();
    assert_eq!((now.left_queue, now.completed, now.arrived), (8, 2, 11));
    assert_eq!(now.rejected[&Rejection::QueueTimeout], 1);
    all_returned(&hull);
}

#[test]
fn a_waiter_refused_further_up_counts_there_and_as_left_here() {
    let hull = Hull::new();
    let routes = [
        route("a", 1).queue(1).reserved(0),
        route("b", 1).reserved(0),
    ];
    let snapshot = Snapshot::of(&hull, &policy(9, 9, &[limit(1)], &routes));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut first = waiting(snapshot.anybody(0)).unwrap();
    drop(held);
    let _other = admitted(snapshot.anybody(1)).unwrap();
    let Poll::Ready(Err(refusal)) = poll(&mut first) else {
        panic!("not refused")
    };
    assert_eq!(why(&refusal), ("upstream_full", "upstream/u0"));
    let now = figures(&hull, "route/a").unwrap();
    assert_eq!(
        (now.left_queue, now.in_flight, now.rejected.len()),
        (1, 0, 0)
    );
    identities(&hull);
}

/// What the host says on the turn comes before the levels above: nothing was admitted, no time
/// held, and the slot goes on to the next in line.
#[test]
fn a_waiter_that_the_host_turns_away_on_its_turn_was_never_admitted() {
    let hull = Hull::new();
    let snapshot = Snapshot::of(&hull, &policy(9, 0, &[FREE], &[route("a", 1).queue(9)]));
    let turned_away = || Err(refuse_by_breaker(&snapshot.lane(0, false), 7));
    for gives_up in [false, true] {
        let held = admitted(snapshot.anybody(0)).unwrap();
        let mut first = waiting(snapshot.anybody(0)).unwrap();
        let mut second = waiting(snapshot.anybody(0)).unwrap();
        let before = ["route/a", "upstream/u0", "gateway"].map(|key| figures(&hull, key).unwrap());
        drop(held);
        let context = &mut Context::from_waker(Waker::noop());
        let turn = match gives_up {
            false => first.poll_asking(context, turned_away),
            true => Poll::Ready(first.give_up_asking(Rejection::QueueTimeout, turned_away)),
        };
        let Poll::Ready(Err(refusal)) = turn else {
            panic!("not refused")
        };
        assert_eq!(why(&refusal), ("breaker_open", "upstream/u0"));
        assert_eq!(refusal.drain_us, 7);
        let [route, upstream, gateway] =
            ["route/a", "upstream/u0", "gateway"].map(|key| figures(&hull, key).unwrap());
        for (now, before) in [&route, &upstream, &gateway].into_iter().zip(&before) {
            assert_eq!(now.admitted, before.admitted, "{}", now.key);
            assert_eq!(now.hold.count(), before.hold.count() + 1, "{}", now.key);
        }
        assert_eq!(upstream.arrived, before[1].arrived + 1);
        assert_eq!(gateway.arrived, before[2].arrived);
        let left = (route.left_queue, route.rejected.len());
        assert_eq!(left, (before[0].left_queue + 1, 0));
        // A turn that has not come is not asked about.
        drop(granted(&mut second));
        all_returned(&hull);
    }
}

#[test]
fn raising_wakes_as_many_as_fit_and_lowering_kills_nobody() {
    let hull = Hull::new();
    let with = |slots, spare| {
        policy(
            20,
            spare,
            &[FREE],
            &[route("a", slots).reserved(0).queue(5)],
        )
    };
    let snapshot = Snapshot::of(&hull, &with(1, 9));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..5)
        .map(|_| waiting(snapshot.anybody(0)).unwrap())
        .collect();
    hull.apply(&with(4, 9), 1);
    let mut running: Vec<_> = line
        .drain(..3)
        .map(|mut waiting| granted(&mut waiting))
        .collect();
    assert!(line.iter_mut().all(|waiting| poll(waiting).is_pending()));
    hull.apply(&with(2, 9), 1);
    identities(&hull);
    assert_eq!(
        figures(&hull, "route/a").unwrap().in_flight,
        4,
        "nobody is killed"
    );
    running.truncate(1);
    assert!(
        poll(&mut line[0]).is_pending(),
        "two of two: a slot above the limit is not handed on"
    );
    drop(held);
    running.push(granted(&mut line[0]));
    // Raised again, but the spare slots allow only one more.
    let mut late = waiting(snapshot.anybody(0)).unwrap();
    hull.apply(&with(9, 3), 1);
    running.push(granted(&mut line[1]));
    let Poll::Ready(Err(refusal)) = poll(&mut late) else {
        panic!("not refused")
    };
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
    assert_eq!(figures(&hull, "route/a").unwrap().left_queue, 1);
    drop(running);
    all_returned(&hull);
}

#[test]
fn a_lowered_spare_is_not_overdrawn_by_those_who_wait() {
    let hull = Hull::new();
    let with = |spare| policy(9, spare, &[FREE], &[route("a", 2).reserved(0).queue(2)]);
    let snapshot = Snapshot::of(&hull, &with(2));
    let mut held = fill_to(&snapshot, 2);
    let mut first = waiting(snapshot.anybody(0)).unwrap();
    hull.apply(&with(1), 1);
    assert_eq!(hull.spare(), (1, 2), "admitted before");
    drop(held.pop());
    let Poll::Ready(Err(refusal)) = poll(&mut first) else {
        panic!("not refused")
    };
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
    assert_eq!(hull.spare(), (1, 1));
}

/// A route that a new policy removes, or gives another name.
#[test]
fn who_waits_on_a_route_that_is_removed_is_served() {
    for spare in [0, 2] {
        let hull = Hull::new();
        let with = |routes: &[R]| policy(9, spare, &[Limit::UNLIMITED], routes);
        let named = R {
            class_reserve: 1,
            ..route("a", 3).reserved(1 + 2 - spare.min(2)).queue(6)
        };
        let before = Snapshot::of(&hull, &with(&[named]));
        let mut held = fill(&before, 0, ANYBODY);
        assert_eq!(held.len(), 3);
        let callers = [ANYBODY, SHEDDABLE, ANYBODY, SHEDDABLE, ANYBODY, ANYBODY];
        let mut line: Vec<_> = callers
            .iter()
            .map(|caller| waiting(before.ask(0, *caller, &mut CellCache::new())).unwrap())
            .collect();
        let after = Snapshot::of(&hull, &with(&[route("b", 3 - spare).reserved(0)]));
        // Long after what it could have borrowed with would have been used up.
        before.clock.store(60_000_000, Ordering::Relaxed);
        let mut served = 0;
        while let Some(permits) = held.pop() {
            drop(permits);
            line.retain_mut(|waiting| match poll(waiting) {
                Poll::Ready(result) => {
                    held.push(result.unwrap());
                    served += 1;
                    false
                }
                Poll::Pending => true,
            });
            assert!(figures(&hull, "route/a").unwrap().in_flight <= 3);
        }
        assert_eq!((served, line.len()), (callers.len(), 0));
        // Somebody who had looked at the policy before comes too late for no reason of its own.
        drop(admitted(before.anybody(0)).unwrap());
        drop(after);
        all_returned(&hull);
    }
}

#[test]
fn a_route_owes_nothing_for_the_time_without_a_name() {
    let hull = Hull::new();
    let named = policy(9, 2, &[Limit::UNLIMITED], &[route("a", 3).reserved(2)]);
    let second = 1_000_000;
    let before = Snapshot::at(&hull, &named, second);
    let held = fill(&before, 0, ANYBODY);
    assert_eq!(held.len(), 3);
    let other = policy(9, 2, &[Limit::UNLIMITED], &[route("b", 3).reserved(2)]);
    Snapshot::at(&hull, &other, 2 * second);
    hull.sweep(30 * second);
    let back = Snapshot::at(&hull, &named, 50 * second);
    let credit = |at| back.fittings.passages[0].credit(at).unwrap().slot_ms;
    assert_eq!(credit(50 * second), 20_000, "full, and one is borrowed");
    drop(held);
    assert_eq!(hull.spare(), (2, 0));
    all_returned(&hull);
}

#[test]
fn closing_ends_every_wait() {
    let hull = Hull::new();
    let with = |slots| policy(9, 0, &[FREE], &[route("a", slots).queue(3)]);
    let snapshot = Snapshot::of(&hull, &with(1));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let mut line: Vec<_> = (0..3)
        .map(|_| waiting(snapshot.anybody(0)).unwrap())
        .collect();
    hull.apply(&with(0), 1);
    for waiting in &mut line {
        let Poll::Ready(Err(refusal)) = poll(waiting) else {
            panic!("still waits")
        };
        assert_eq!(why(&refusal), ("closed", "route/a"));
    }
    hull.apply(&with(1), 1);
    assert_eq!(
        refused(snapshot.anybody(0)),
        None,
        "open again, and full: it may wait"
    );
    drop(held);
    assert!(admitted(snapshot.anybody(0)).is_some());
}

#[test]
fn a_guarantee_that_changes_moves_slots_to_the_spare_and_back() {
    let hull = Hull::new();
    let with = |reserved, spare| policy(10, spare, &[FREE], &[route("a", 6).reserved(reserved)]);
    let snapshot = Snapshot::of(&hull, &with(6, 4));
    let held = fill(&snapshot, 0, ANYBODY);
    assert_eq!(hull.spare(), (4, 0));
    hull.apply(&with(1, 9), 1);
    assert_eq!(hull.spare(), (9, 5), "what was guaranteed is borrowed now");
    hull.apply(&with(0, 2), 1);
    assert_eq!(
        hull.spare(),
        (2, 6),
        "admitted before: it stays, and nobody else borrows"
    );
    hull.apply(&with(4, 6), 1);
    assert_eq!(hull.spare(), (6, 2));
    drop(held);
    all_returned(&hull);
}

#[test]
fn a_route_that_moves_to_another_upstream_gives_back_where_it_took() {
    let hull = Hull::new();
    let with = |upstream| {
        policy(
            9,
            0,
            &[limit(1), limit(1)],
            &[R {
                upstream,
                ..route("a", 3)
            }],
        )
    };
    let old = Snapshot::of(&hull, &with(0));
    let held = admitted(old.anybody(0)).unwrap();
    let new = Snapshot::of(&hull, &with(1));
    let moved = admitted(new.anybody(0)).unwrap();
    let in_flight = |key| figures(&hull, key).unwrap().in_flight;
    assert_eq!(
        ["route/a", "upstream/u0", "upstream/u1"].map(in_flight),
        [2, 1, 1]
    );
    drop(held);
    assert_eq!(
        ["route/a", "upstream/u0", "upstream/u1"].map(in_flight),
        [1, 0, 1]
    );
    drop(moved);
    all_returned(&hull);
}

#[test]
fn a_removed_tenant_that_returns_starts_at_its_true_count() {
    let hull = Hull::new();
    let with = |tenants: &[(&str, Limit)]| {
        with_tenants(policy(9, 0, &[FREE], &[route("a", 9)]), tenants, FREE)
    };
    let snapshot = Snapshot::of(&hull, &with(&[("x", limit(5)), ("t", limit(2))]));
    let held = fill(&snapshot, 0, snapshot.caller(0, 1));
    assert_eq!(held.len(), 2);
    hull.apply(&with(&[]), 1);
    hull.sweep(1);
    hull.sweep(1 + ABSENT_US);
    assert_eq!(
        figures(&hull, "tenant/t").unwrap().in_flight,
        2,
        "shown as long as it is in use"
    );
    let back = Snapshot::of(&hull, &with(&[("t", limit(2))]));
    assert_eq!(
        refusal(&back, 0, back.caller(0, 0)),
        told("tenant_full", "tenant/t")
    );
    drop(held);
    assert_eq!(fill(&back, 0, back.caller(0, 0)).len(), 2);
    hull.apply(&with(&[]), 1);
    hull.sweep(1);
    hull.sweep(1 + ABSENT_US);
    assert_eq!(
        figures(&hull, "tenant/t"),
        None,
        "gone when nothing needs it"
    );
    assert_eq!(
        refusal(&back, 0, back.caller(0, 0)),
        told("closed", "tenant/t"),
        "and not revived"
    );
}

#[test]
fn what_a_tenant_counted_stays_counted_when_it_leaves() {
    let hull = Hull::new();
    let with = |tenants: &[(&str, Limit)]| {
        with_tenants(policy(9, 0, &[FREE], &[route("a", 9)]), tenants, FREE)
    };
    let counted = |hull: &Hull| {
        let mut sum = hull.departed_tenants();
        for figures in hull.figures(NOW_US) {
            if figures.level == compartment::Level::Tenant {
                sum.count_in(&figures);
            }
        }
        let refused: u64 = sum.rejected.values().sum();
        (
            sum.arrived,
            sum.admitted,
            sum.completed,
            refused,
            sum.hold.count(),
        )
    };
    let both = [("s", limit(1)), ("t", limit(2))];
    let snapshot = Snapshot::of(&hull, &with(&both));
    for tenant in [1, 2] {
        drop(fill(&snapshot, 0, snapshot.caller(0, tenant - 1)));
    }
    let before = counted(&hull);
    assert_eq!((before.1, before.2, before.3), (3, 3, 2));
    // One after the other, twice over: each is counted once.
    for left in [&both[..1], &[]] {
        hull.apply(&with(left), 1);
        for now_us in [1, 1 + ABSENT_US, 2 + 2 * ABSENT_US] {
            hull.sweep(now_us);
            assert_eq!(counted(&hull), before, "{} left", left.len());
        }
    }
    assert_eq!(figures(&hull, "tenant/t"), None);
}

#[test]
fn idle_cells_go_and_their_counts_stay() {
    let hull = Hull::new();
    let capped = R {
        tenant_limit: Some(limit(1)),
        ..route("a", 9)
    };
    let tenants = [("s", FREE), ("t", FREE)];
    let policy = with_tenants(policy(9, 0, &[FREE], &[capped]), &tenants, FREE);
    let snapshot = Snapshot::of(&hull, &policy);
    let mut cache = CellCache::new();
    let mut ask = |tenant| admitted(snapshot.ask(0, snapshot.caller(0, tenant), &mut cache));
    assert_eq!(
        figures(&hull, "route/a/tenant/t"),
        None,
        "appears with its first request"
    );
    let busy = ask(0).unwrap();
    drop(ask(1).unwrap());
    assert!(ask(0).is_none());
    hull.sweep(1);
    hull.sweep(CELL_IDLE_US);
    assert!(figures(&hull, "route/a/tenant/t").is_some(), "not yet");
    hull.sweep(1 + CELL_IDLE_US);
    assert_eq!(figures(&hull, "route/a/tenant/t"), None);
    assert_eq!(
        figures(&hull, "route/a/tenant/s").unwrap().in_flight,
        1,
        "in use"
    );
    let idle = figures(&hull, "route/a/tenant/_idle").unwrap();
    assert_eq!((idle.admitted, idle.completed, idle.arrived), (1, 1, 1));
    assert!(
        ask(1).is_some(),
        "made again, although this core knew the old one"
    );
    drop(busy);
    all_returned(&hull);
}

#[test]
fn cells_are_bounded_however_many_tenants_come() {
    let hull = Hull::new();
    let names: Vec<_> = (0..CELLS_PER_ROUTE_MAX + 2000)
        .map(|n| format!("t{n}"))
        .collect();
    let tenants: Vec<_> = names.iter().map(|name| (name.as_str(), FREE)).collect();
    let capped = R {
        tenant_limit: Some(limit(1)),
        ..route("a", 9)
    };
    let policy = with_tenants(policy(9, 0, &[FREE], &[capped]), &tenants, FREE);
    let snapshot = Snapshot::of(&hull, &policy);
    let mut cache = CellCache::new();
    for tenant in (0..).take(names.len()) {
        let permits = admitted(snapshot.ask(0, snapshot.caller(0, tenant), &mut cache));
        assert!(permits.is_some());
    }
    let (mut cells, mut admitted) = (0, 0);
    hull.each_figures(NOW_US, &mut |f| {
        if f.key.starts_with("route/a/tenant/") {
            cells += usize::from(f.key != "route/a/tenant/_idle");
            admitted += f.admitted;
        }
    });
    assert!(cells <= CELLS_PER_ROUTE_MAX, "{cells}");
    assert_eq!(admitted, names.len() as u64, "no count is lost");
}

#[test]
fn hold_times_are_measured_and_told_with_a_refusal() {
    let hull = Hull::new();
    let snapshot = Snapshot::of(&hull, &policy(9, 0, &[FREE], &[route("a", 1)]));
    let held = admitted(snapshot.anybody(0)).unwrap();
    snapshot.clock.fetch_add(5_000, Ordering::Relaxed);
    assert_eq!(held.held_us(5_001), 5_000);
    drop(held);
    let _held = admitted(snapshot.anybody(0)).unwrap();
    let refusal = refused(snapshot.anybody(0)).unwrap();
    assert_eq!((refusal.drain_us, refusal.limit), (5_000, limit(1)));
}
