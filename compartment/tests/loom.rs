//! Models of the mechanism: every interleaving of a few threads, within a bound on preemptions.
//!
//! Run alone, in a target folder of its own, because the cfg changes other crates too:
//! `RUSTFLAGS="--cfg loom" cargo test -p bulkhead-compartment --release --test loom`.

#![cfg(loom)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod support;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use compartment::breaker::{Breaker, BreakerState, Outcome, Pass};
use compartment::policy::{BreakerRules, Millionths, Policy};
use compartment::{
    CELL_IDLE_US, CellCache, Compartment, Entry, Hull, Key, Level, Limit, Mode, Moment, Refusal,
    Rejection,
};
use loom::future::block_on;
use loom::thread::spawn;
use support::*;

/// Explores `body` with at most `preemptions` of each execution.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Lets those who were spawned go first. A model remembers the last access alone, so one that reads
/// what it then writes hides that it races with one that only read before it: who only reads must
/// come after who writes, or the two are met in one order.
fn after_the_others() {
    loom::thread::yield_now();
}

/// Counts who holds a slot. A standard atomic: the judge is not what is checked.
#[derive(Clone, Default)]
struct Judge(Arc<AtomicU32>);

impl Judge {
    fn hold(&self, most: u32) {
        let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= most, "{now} hold a slot of {most}");
        loom::thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What executions came to, by a number of the model's: a race that never happens proves nothing.
/// A standard atomic, as above.
#[derive(Clone, Default)]
struct Seen(Arc<AtomicU32>);

impl Seen {
    fn note(&self, case: u32) {
        self.0.fetch_or(1 << case, Ordering::SeqCst);
    }

    /// So many cases there are, and each was met.
    #[track_caller]
    fn all(&self, cases: u32) {
        let seen = self.0.load(Ordering::SeqCst);
        assert_eq!(seen, (1 << cases) - 1, "of {cases} cases, as bits");
    }
}

fn plain(hull: &Hull, routes: &[R]) -> Arc<Snapshot> {
    Snapshot::of(hull, &plain_policy(routes))
}

fn plain_policy(routes: &[R]) -> Policy {
    policy(100, 0, &[Limit::UNLIMITED], routes)
}

#[test]
fn never_above_the_limit_and_never_refused_below_it() {
    model(3, || {
        let judge = Judge::default();
        let one = Arc::new(Compartment::new(&Key::Gateway, limit(2)));
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (one, judge) = (Arc::clone(&one), judge.clone());
                spawn(move || match one.admit(Moment::at(1)) {
                    Ok(_permit) => judge.hold(2),
                    Err(why) => assert_eq!(why, Rejection::GatewayFull),
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(one.in_flight(), 0);
        let figures = one.figures(1);
        assert!(
            figures.admitted >= 2,
            "three against two slots: at least two get one"
        );
        assert_eq!(figures.arrived, 3);
    });
}

#[test]
fn two_never_refuse_each_other_below_the_limit() {
    model(3, || {
        let one = Arc::new(Compartment::new(&Key::Gateway, limit(2)));
        let other = Arc::clone(&one);
        let thread = spawn(move || drop(other.admit(Moment::at(1)).unwrap()));
        drop(one.admit(Moment::at(1)).unwrap());
        drop(one.admit(Moment::at(1)).unwrap());
        thread.join().unwrap();
        assert_eq!(one.in_flight(), 0);
    });
}

#[test]
fn a_limit_changes_while_it_is_in_use() {
    model(3, || {
        let judge = Judge::default();
        let one = Arc::new(Compartment::new(&Key::Gateway, limit(2)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (one, judge) = (Arc::clone(&one), judge.clone());
                spawn(move || {
                    if let Ok(_permit) = one.admit(Moment::at(1)) {
                        judge.hold(2);
                    }
                })
            })
            .collect();
        one.resize(limit(1), 1);
        if let Ok(_permit) = one.admit(Moment::at(1)) {
            // Whoever enters from now on enters under the new limit; at most one other was in.
            assert!(one.in_flight() <= 2);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!((one.in_flight(), one.limit()), (0, limit(1)));
        let permit = one.admit(Moment::at(1)).unwrap();
        assert_eq!(one.admit(Moment::at(1)).err(), Some(Rejection::GatewayFull));
        drop(permit);
    });
}

#[test]
fn all_levels_or_none() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let routes = [route("a", 2), route("b", 2)];
        // The dependency has one slot for two routes: one of two requests may be refused there.
        let snapshot = Snapshot::of(&hull, &policy(10, 0, &[limit(1)], &routes));
        let judge = Judge::default();
        let threads: Vec<_> = (0..2)
            .map(|route| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                spawn(move || match snapshot.anybody(route) {
                    Entry::Admitted(_permits) => {
                        judge.hold(1);
                        true
                    }
                    Entry::Refused(refusal) => {
                        assert_eq!(why(&refusal), ("upstream_full", "upstream/u0"));
                        false
                    }
                    Entry::Waiting(_) => panic!("nothing waits here"),
                })
            })
            .collect();
        let admitted: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        assert!(admitted.contains(&true));
        all_returned(&hull);
        assert_eq!(figures(&hull, "upstream/u0").unwrap().arrived, 2);
        let arrived = |key| figures(&hull, key).unwrap().arrived;
        assert_eq!(
            [arrived("route/a"), arrived("route/b")],
            [0, 1].map(|n| u64::from(admitted[n]))
        );
    });
}

#[test]
fn a_guarantee_is_never_refused_because_of_another_route() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        // One slot guaranteed to each, one spare: the capacity is exactly their sum.
        let routes = [route("greedy", 3).reserved(1), route("modest", 1)];
        let snapshot = Snapshot::of(&hull, &policy(3, 1, &[Limit::UNLIMITED], &routes));
        // The neighbour gives a borrowed slot back, takes it again, and has its own besides.
        let own = admitted(snapshot.anybody(0)).unwrap();
        let borrowed = admitted(snapshot.anybody(0)).unwrap();
        let leaves = spawn(move || drop(borrowed));
        let borrows = {
            let snapshot = Arc::clone(&snapshot);
            spawn(move || admitted(snapshot.anybody(0)))
        };
        let modest = admitted(snapshot.anybody(1));
        assert!(modest.is_some(), "the guaranteed slot");
        leaves.join().unwrap();
        drop((own, modest, borrows.join().unwrap()));
        all_returned(&hull);
    });
}

#[test]
fn spare_is_never_overdrawn_and_never_drifts() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let routes = [route("a", 2).reserved(0), route("b", 2).reserved(0)];
        let snapshot = Snapshot::of(&hull, &policy(10, 1, &[Limit::UNLIMITED], &routes));
        let judge = Judge::default();
        let threads: Vec<_> = (0..2)
            .map(|route| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                spawn(move || {
                    for _ in 0..2 {
                        if let Some(_permits) = admitted(snapshot.anybody(route)) {
                            judge.hold(1);
                        }
                    }
                })
            })
            .collect();
        let (limit, used) = hull.spare();
        assert!(used <= limit, "{used} of {limit}");
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        all_returned(&hull);
    });
}

#[test]
fn a_guarantee_changes_while_its_slots_are_in_use() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let with = |reserved| {
            policy(
                10,
                2,
                &[Limit::UNLIMITED],
                &[route("a", 2).reserved(reserved)],
            )
        };
        let snapshot = Snapshot::of(&hull, &with(0));
        let thread = {
            let snapshot = Arc::clone(&snapshot);
            spawn(move || {
                let first = admitted(snapshot.anybody(0)).unwrap();
                let second = admitted(snapshot.anybody(0)).unwrap();
                drop(first);
                drop(second);
            })
        };
        hull.apply(&with(1), 1);
        hull.apply(&with(0), 1);
        thread.join().unwrap();
        all_returned(&hull);
    });
}

#[test]
fn a_released_slot_wakes_the_first_waiter() {
    model(3, || {
        let hull = Arc::new(Hull::new());
        let snapshot = plain(&hull, &[route("a", 1).queue(2)]);
        let judge = Judge::default();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                spawn(move || {
                    let permits = match snapshot.anybody(0) {
                        Entry::Admitted(permits) => permits,
                        Entry::Waiting(waiting) => block_on(waiting).unwrap(),
                        Entry::Refused(refusal) => panic!("refused with room: {refusal:?}"),
                    };
                    judge.hold(1);
                    drop(permits);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        all_returned(&hull);
        assert_eq!(figures(&hull, "route/a").unwrap().completed, 2);
    });
}

/// The slot is handed over in the instant the waiter gives up, or leaves: it gets it, or the
/// next one does; it is never lost and never doubled.
fn hand_off(leave: impl Fn(compartment::Waiting<Here>) + Sync + Send + Clone + 'static) {
    model(3, move || {
        let leave = leave.clone();
        let hull = Arc::new(Hull::new());
        let snapshot = plain(&hull, &[route("a", 1).queue(2)]);
        let held = admitted(snapshot.anybody(0)).unwrap();
        let first = waiting(snapshot.anybody(0)).unwrap();
        let second = waiting(snapshot.anybody(0)).unwrap();
        let release = spawn(move || drop(held));
        let going = spawn(move || leave(first));
        let permits = block_on(second).unwrap();
        assert!(
            refused(snapshot.anybody(0)).is_none(),
            "the queue has room again"
        );
        release.join().unwrap();
        going.join().unwrap();
        assert_eq!(snapshot.fittings.passages[0].route().in_flight(), 1);
        drop(permits);
        all_returned(&hull);
    });
}

#[test]
fn a_waiter_that_leaves_in_the_instant_of_its_turn_passes_it_on() {
    hand_off(|waiting| drop(waiting));
}

#[test]
fn a_waiter_that_times_out_in_the_instant_of_its_turn_has_it_or_passes_it_on() {
    let seen = Seen::default();
    let notes = seen.clone();
    hand_off(
        move |waiting| match waiting.give_up(Rejection::QueueTimeout) {
            Ok(permits) => {
                notes.note(0);
                drop(permits);
            }
            Err(refusal) => {
                notes.note(1);
                assert_eq!(why(&refusal), ("queue_timeout", "route/a"));
            }
        },
    );
    seen.all(2);
}

/// Turned away by its host in the instant of its turn, or timed out in that instant.
#[test]
fn a_waiter_turned_away_on_its_turn_passes_it_on() {
    let seen = Seen::default();
    let notes = seen.clone();
    hand_off(move |waiting| {
        let turned_away = || {
            Err(Refusal {
                rejection: Rejection::BreakerOpen,
                level: Level::Upstream,
                key: "upstream/u0".into(),
                limit: limit(1),
                drain_us: 7,
            })
        };
        let refusal = waiting.give_up_asking(Rejection::QueueTimeout, turned_away);
        match why(&refusal.unwrap_err()) {
            ("breaker_open", "upstream/u0") => notes.note(0),
            ("queue_timeout", "route/a") => notes.note(1),
            other => panic!("{other:?}"),
        }
    });
    seen.all(2);
}

#[test]
fn nobody_overtakes_those_who_wait() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let snapshot = plain(&hull, &[route("a", 1).queue(1)]);
        let held = admitted(snapshot.anybody(0)).unwrap();
        let first = waiting(snapshot.anybody(0)).unwrap();
        let release = spawn(move || drop(held));
        // With one place in the line and one in it, a newcomer is refused or, once the first
        // has its slot, waits: it never gets the slot itself.
        let newcomer = snapshot.anybody(0);
        assert!(!matches!(newcomer, Entry::Admitted(_)), "overtook a waiter");
        release.join().unwrap();
        drop(block_on(first).unwrap());
        if let Entry::Waiting(waiting) = newcomer {
            drop(block_on(waiting).unwrap());
        }
        all_returned(&hull);
    });
}

/// One slot, held by anybody; two places, both of tenant 0.
fn crowded(
    hull: &Hull,
) -> (
    Arc<Snapshot>,
    compartment::Permits<Here>,
    [compartment::Waiting<Here>; 2],
) {
    let tenants = [("s", limit(9)), ("t", limit(9))];
    let plain = plain_policy(&[route("a", 1).queue(2)]);
    let snapshot = Snapshot::of(hull, &with_tenants(plain, &tenants, Limit::CLOSED));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let places = [0, 0].map(|tenant| {
        let caller = snapshot.caller(0, tenant);
        waiting(snapshot.ask(0, caller, &mut CellCache::new())).unwrap()
    });
    (snapshot, held, places)
}

#[test]
fn a_place_goes_to_another_tenant_in_the_instant_of_a_turn() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let (snapshot, held, [first, second]) = crowded(&hull);
        let release = spawn(move || drop(held));
        let newcomer = {
            let snapshot = Arc::clone(&snapshot);
            spawn(move || {
                let caller = snapshot.caller(0, 1);
                match snapshot.ask(0, caller, &mut CellCache::new()) {
                    Entry::Waiting(waiting) => drop(block_on(waiting).unwrap()),
                    // It came when all others had gone.
                    Entry::Admitted(permits) => drop(permits),
                    Entry::Refused(refusal) => panic!("no fair place: {refusal:?}"),
                }
            })
        };
        // The first is never the one that gives way.
        drop(block_on(first).unwrap());
        match block_on(second) {
            Ok(permits) => drop(permits),
            Err(refusal) => assert_eq!(why(&refusal), ("queue_full", "route/a")),
        }
        release.join().unwrap();
        newcomer.join().unwrap();
        all_returned(&hull);
        let line = figures(&hull, "route/a").unwrap();
        assert_eq!((line.arrived, line.left_queue), (4, 0));
    });
}

#[test]
fn a_place_that_gives_way_as_its_waiter_leaves_is_given_once() {
    place_that_gives_way(|second| drop(second), 1);
    let seen = Seen::default();
    let notes = seen.clone();
    let gives_up = move |second: compartment::Waiting<Here>| match why(&second
        .give_up(Rejection::QueueTimeout)
        .unwrap_err())
    {
        ("queue_full", "route/a") => notes.note(0),
        ("queue_timeout", "route/a") => notes.note(1),
        other => panic!("{other:?}"),
    };
    place_that_gives_way(gives_up, 0);
    seen.all(2);
}

/// The second in line ends its wait while a newcomer pushes it out; `left`: how many are counted
/// as having left, of the one that is counted.
fn place_that_gives_way(
    leave: impl Fn(compartment::Waiting<Here>) + Sync + Send + Clone + 'static,
    left: u64,
) {
    model(3, move || {
        let leave = leave.clone();
        let hull = Arc::new(Hull::new());
        let (snapshot, held, [first, second]) = crowded(&hull);
        let leaves = spawn(move || leave(second));
        let caller = snapshot.caller(0, 1);
        let newcomer = waiting(snapshot.ask(0, caller, &mut CellCache::new())).unwrap();
        leaves.join().unwrap();
        drop(held);
        drop(block_on(first).unwrap());
        drop(block_on(newcomer).unwrap());
        all_returned(&hull);
        let line = figures(&hull, "route/a").unwrap();
        let refused: u64 = line.rejected.values().sum();
        assert_eq!(
            (line.arrived, line.left_queue, refused),
            (4, left, 1 - left)
        );
    });
}

#[test]
fn what_is_borrowed_at_once_is_paid_exactly() {
    const SECOND: u64 = 1_000_000;
    model(2, || {
        let hull = Arc::new(Hull::new());
        let with = |spare| {
            let routes = [route("a", 4).reserved(0), route("b", 4).reserved(0)];
            policy(10, spare, &[Limit::UNLIMITED], &routes)
        };
        let snapshot = Snapshot::at(&hull, &with(2), SECOND);
        let held = admitted(snapshot.anybody(0)).unwrap();
        // One slot-second a second comes in and one goes out: it stays full.
        snapshot.clock.store(2 * SECOND, Ordering::Relaxed);
        let more = admitted(snapshot.anybody(0)).unwrap();
        snapshot.clock.store(3 * SECOND, Ordering::Relaxed);
        let leaves = spawn(move || drop(more));
        let borrows = {
            let snapshot = Arc::clone(&snapshot);
            spawn(move || drop(admitted(snapshot.anybody(0))))
        };
        hull.sweep(3 * SECOND);
        leaves.join().unwrap();
        borrows.join().unwrap();
        let credit = |now_us| snapshot.fittings.passages[0].credit(now_us).unwrap();
        let full = credit(3 * SECOND).full_slot_ms;
        assert_eq!((credit(3 * SECOND).slot_ms, full), (9_000, 10_000));
        drop(held);
        assert_eq!(credit(3 * SECOND + SECOND / 2).slot_ms, 9_500);
        all_returned(&hull);
    });
}

#[test]
fn new_terms_lose_nothing_of_what_is_borrowed() {
    model(3, || {
        let hull = Arc::new(Hull::new());
        let with = |spare| policy(10, spare, &[Limit::UNLIMITED], &[route("a", 4).reserved(0)]);
        let snapshot = Snapshot::of(&hull, &with(2));
        let borrows = {
            let snapshot = Arc::clone(&snapshot);
            spawn(move || drop(admitted(snapshot.anybody(0)).unwrap()))
        };
        hull.apply(&with(4), 1);
        borrows.join().unwrap();
        let credit = snapshot.fittings.passages[0].credit(90_000_000).unwrap();
        assert_eq!((credit.slot_ms, credit.full_slot_ms), (40_000, 40_000));
        all_returned(&hull);
    });
}

#[test]
fn raising_wakes_waiters_and_closing_ends_their_wait() {
    for (slots, expected) in [(2, None), (0, Some("closed"))] {
        model(2, move || {
            let hull = Arc::new(Hull::new());
            let snapshot = plain(&hull, &[route("a", 1).queue(1)]);
            let held = admitted(snapshot.anybody(0)).unwrap();
            let first = waiting(snapshot.anybody(0)).unwrap();
            let release = spawn(move || drop(held));
            let apply = {
                let hull = Arc::clone(&hull);
                let raised = plain_policy(&[route("a", slots).queue(1)]);
                spawn(move || drop(hull.apply(&raised, 1)))
            };
            match block_on(first) {
                Ok(permits) => drop(permits),
                Err(refusal) => assert_eq!(Some(refusal.rejection.as_str()), expected),
            }
            release.join().unwrap();
            apply.join().unwrap();
            all_returned(&hull);
        });
    }
}

#[test]
fn a_raised_limit_reaches_a_waiter_although_nobody_leaves() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(3, move || {
        let hull = Arc::new(Hull::new());
        let snapshot = plain(&hull, &[route("a", 1).queue(1)]);
        let _held = admitted(snapshot.anybody(0)).unwrap();
        let asking = {
            let (snapshot, notes) = (Arc::clone(&snapshot), notes.clone());
            spawn(move || match snapshot.anybody(0) {
                Entry::Admitted(permits) => {
                    notes.note(0);
                    drop(permits);
                }
                Entry::Waiting(waiting) => {
                    notes.note(1);
                    drop(block_on(waiting).unwrap());
                }
                Entry::Refused(refusal) => panic!("refused with room: {refusal:?}"),
            })
        };
        hull.apply(&plain_policy(&[route("a", 2).queue(1)]), 1);
        asking.join().unwrap();
        assert_eq!(snapshot.fittings.passages[0].route().in_flight(), 1);
    });
    seen.all(2);
}

#[test]
fn a_cell_is_never_removed_while_it_is_entered() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let capped = R {
            tenant_limit: Some(limit(1)),
            ..route("a", 9)
        };
        let tenants = [("t", limit(9))];
        let snapshot = Snapshot::of(
            &hull,
            &with_tenants(plain_policy(&[capped]), &tenants, Limit::CLOSED),
        );
        let caller = snapshot.caller(0, 0);
        // This core knows the cell, and it is idle for long.
        let mut cache = CellCache::new();
        drop(admitted(snapshot.ask(0, caller, &mut cache)).unwrap());
        hull.sweep(1);
        let judge = Judge::default();
        let sweep = {
            let hull = Arc::clone(&hull);
            spawn(move || hull.sweep(1 + CELL_IDLE_US))
        };
        let other = {
            let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
            spawn(move || {
                if let Some(_permits) = admitted(snapshot.ask(0, caller, &mut CellCache::new())) {
                    judge.hold(1);
                }
            })
        };
        if let Some(_permits) = admitted(snapshot.ask(0, caller, &mut cache)) {
            judge.hold(1);
        }
        sweep.join().unwrap();
        other.join().unwrap();
        all_returned(&hull);
        let cells = hull
            .figures(1)
            .into_iter()
            .filter(|f| f.key.starts_with("route/a/tenant/"));
        assert_eq!(
            cells.map(|f| f.arrived).sum::<u64>(),
            3,
            "no count is lost with a cell"
        );
    });
}

#[test]
fn a_share_is_exact_when_a_tenant_asks_twice_at_once() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let shared = R {
            share: Some(1_000_000),
            ..route("a", 4)
        };
        let tenants = [("t", limit(9))];
        let policy = with_tenants(plain_policy(&[shared]), &tenants, Limit::CLOSED);
        let snapshot = Snapshot::of(&hull, &policy);
        let caller = snapshot.caller(0, 0);
        let judge = Judge::default();
        let held = admitted(snapshot.ask(0, caller, &mut CellCache::new())).unwrap();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                spawn(move || {
                    // One of four is held: of three free one more may be, and no third.
                    if let Some(_permits) = admitted(snapshot.ask(0, caller, &mut CellCache::new()))
                    {
                        judge.hold(1);
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        drop(held);
        all_returned(&hull);
    });
}

#[test]
fn a_name_that_returns_finds_its_count() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let both = plain_policy(&[route("a", 1), route("b", 1)]);
        let snapshot = Snapshot::of(&hull, &both);
        let held = admitted(snapshot.anybody(0)).unwrap();
        let clock = Arc::new(AtomicU64::new(1));
        let changes = {
            let (hull, clock) = (Arc::clone(&hull), Arc::clone(&clock));
            spawn(move || {
                hull.apply(&plain_policy(&[route("b", 1)]), 1);
                hull.sweep(clock.fetch_add(compartment::ABSENT_US, Ordering::Relaxed));
                hull.sweep(clock.load(Ordering::Relaxed));
                Snapshot::of(&hull, &both)
            })
        };
        let judge = Judge::default();
        judge.0.fetch_add(1, Ordering::SeqCst);
        let release = {
            let judge = judge.clone();
            spawn(move || {
                judge.0.fetch_sub(1, Ordering::SeqCst);
                drop(held);
                // A request that still looks at the old policy.
                if let Some(_permits) = admitted(snapshot.anybody(0)) {
                    judge.hold(1);
                }
            })
        };
        let back = changes.join().unwrap();
        if let Some(_permits) = admitted(back.anybody(0)) {
            judge.hold(1);
        }
        release.join().unwrap();
        all_returned(&hull);
        let twice = hull
            .figures(1)
            .iter()
            .filter(|f| f.key == "route/a")
            .count();
        assert_eq!(twice, 1, "one name, one compartment");
    });
}

/// One permit by the seat, so that the table where permits are found is there before the race: it
/// is made under a lock that a model does not see.
fn first_by_the_seat(hull: &Hull, snapshot: &Arc<Snapshot>) {
    let seat = Rc::new(hull.seat().unwrap());
    match Seated::new(snapshot, &seat).ask(ANYBODY) {
        Entry::Admitted(permits) => drop(permits),
        Entry::Refused(_) | Entry::Waiting(_) => panic!("nobody else is here"),
    }
}

#[test]
fn a_late_owner_and_the_watch_give_back_once() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(2, move || {
        let hull = Arc::new(Hull::with_cores(1));
        let snapshot = plain(&hull, &[route("a", 1)]);
        first_by_the_seat(&hull, &snapshot);
        let owner = {
            let (hull, snapshot) = (Arc::clone(&hull), Arc::clone(&snapshot));
            spawn(move || {
                let seat = Rc::new(hull.seat().unwrap());
                let lane = Seated::new(&snapshot, &seat);
                // Twice, so that the second uses the place of the first.
                (0..2)
                    .map(|_| u64::from(matches!(lane.ask(ANYBODY), Entry::Admitted(_))))
                    .sum::<u64>()
            })
        };
        after_the_others();
        let leaks = hull.reclaim(10 * compartment::OVERDUE_US).len() as u64;
        let asked = owner.join().unwrap();
        // The second found the slot free, unless the watch was about to give it back.
        match (asked, leaks) {
            (2, 0) => notes.note(0),
            (2, 1) => notes.note(1),
            (1, 1) => notes.note(2),
            other => panic!("{other:?}"),
        }
        let now = figures(&hull, "route/a").unwrap();
        let told = (now.admitted, now.completed, now.leaked);
        assert_eq!(told, (1 + asked, 1 + asked, leaks));
        all_returned(&hull);
    });
    seen.all(3);
}

#[test]
fn time_by_state_is_exact_whatever_the_interleaving() {
    model(3, || {
        let one = Arc::new(Compartment::new(&Key::Gateway, limit(1)));
        let threads: Vec<_> = (1..3)
            .map(|n| {
                let one = Arc::clone(&one);
                spawn(move || match one.admit(Moment::at(100 * n)) {
                    Ok(mut permit) => {
                        permit.seen_at(100 * n + 7 * n);
                        7 * n
                    }
                    Err(_) => 0,
                })
            })
            .collect();
        let held: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        let seen = one.figures(1_000);
        assert_eq!((seen.saturated_us, seen.in_flight_us), (held, held));
        assert_eq!((seen.busy_us, seen.idle_us), (0, 1_000 - held));
        assert_eq!(seen.hold.sum_us(), held);
    });
}

#[test]
fn time_stays_whole_while_the_limit_changes() {
    model(3, || {
        let one = Arc::new(Compartment::new(&Key::Gateway, limit(2)));
        let other = Arc::clone(&one);
        let thread = spawn(move || drop(other.admit(Moment::at(10))));
        one.resize(limit(1), 10);
        drop(one.admit(Moment::at(10)));
        one.resize(limit(3), 10);
        thread.join().unwrap();
        let seen = one.figures(50);
        // All of it happened in one instant, so none of it took time.
        assert_eq!((seen.idle_us, seen.busy_us), (50, 0));
        assert_eq!((seen.saturated_us, seen.in_flight_us), (0, 0));
    });
}

#[test]
fn a_ghost_admits_as_many_as_its_limit() {
    model(2, || {
        let hull = Arc::new(Hull::new());
        let shadow = route("a", 1).mode(Mode::Shadow).candidate(1);
        let snapshot = Snapshot::of(&hull, &policy(9, 5, &[Limit::UNLIMITED], &[shadow]));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let snapshot = Arc::clone(&snapshot);
                spawn(move || admitted(snapshot.anybody(0)).unwrap())
            })
            .collect();
        let held: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let seen = figures(&hull, "route/a").unwrap();
        let refusals: u64 = seen.shadow_rejected.values().sum();
        assert_eq!((refusals, seen.candidate_rejected), (1, 1));
        drop(held);
        // Nothing is left in them: the next one is admitted by both.
        drop(admitted(snapshot.anybody(0)).unwrap());
        let seen = figures(&hull, "route/a").unwrap();
        let refusals: u64 = seen.shadow_rejected.values().sum();
        assert_eq!((refusals, seen.candidate_rejected), (1, 1));
        all_returned(&hull);
    });
}

/// A route with one slot of its own and one for streams, and a spare slot for each.
fn with_streams(hull: &Hull, routes: &[R]) -> Arc<Snapshot> {
    Snapshot::of(hull, &policy(9, 2, &[Limit::UNLIMITED], routes))
}

#[test]
fn a_slot_that_moves_goes_to_the_one_who_waits() {
    model(3, || {
        let hull = Arc::new(Hull::new());
        let snapshot = with_streams(&hull, &[route("a", 1).queue(1).streams(1)]);
        let mut held = admitted(snapshot.anybody(0)).unwrap();
        let waiting = waiting(snapshot.anybody(0)).unwrap();
        let moves = {
            let lane = snapshot.lane(0, true);
            spawn(move || {
                held.move_to(lane, false).unwrap();
                drop(held);
            })
        };
        let judge = Judge::default();
        let permits = block_on(waiting).unwrap();
        judge.hold(1);
        drop(permits);
        moves.join().unwrap();
        all_returned(&hull);
        let seen = ["route/a", "route/a/stream"].map(|key| figures(&hull, key).unwrap());
        assert_eq!(seen.map(|f| (f.admitted, f.completed)), [(2, 2), (1, 1)]);
    });
}

#[test]
fn a_move_and_a_stream_that_leaves_never_hold_one_slot_both() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(2, move || {
        let hull = Arc::new(Hull::new());
        // One spare slot for the stream that is there; what moves may use the one it gives back.
        let one = route("a", 1).reserved(0).streams(1);
        let snapshot = with_streams(&hull, &[one]);
        let stream = admitted(snapshot.ask_stream(0, ANYBODY, &mut CellCache::new())).unwrap();
        let mut call = admitted(snapshot.anybody(0)).unwrap();
        let judge = Judge::default();
        judge.0.fetch_add(1, Ordering::SeqCst);
        let leaves = {
            let judge = judge.clone();
            spawn(move || {
                judge.0.fetch_sub(1, Ordering::SeqCst);
                drop(stream);
            })
        };
        after_the_others();
        match call.move_to(snapshot.lane(0, true), false) {
            Ok(()) => {
                notes.note(0);
                judge.hold(1);
            }
            Err(refusal) => {
                notes.note(1);
                assert_eq!(why(&refusal), ("stream_full", "route/a/stream"));
            }
        }
        drop(call);
        leaves.join().unwrap();
        all_returned(&hull);
    });
    seen.all(2);
}

#[test]
fn a_move_and_the_watch_give_back_once() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(2, move || {
        let hull = Arc::new(Hull::with_cores(1));
        let capped = R {
            tenant_limit: Some(limit(2)),
            ..route("a", 1).streams(1)
        };
        let plain = policy(9, 2, &[Limit::UNLIMITED], &[capped]);
        let shape = with_tenants(plain, &[("t", limit(9))], Limit::CLOSED);
        let snapshot = Snapshot::of(&hull, &shape);
        first_by_the_seat(&hull, &snapshot);
        let owner = {
            let (hull, snapshot) = (Arc::clone(&hull), Arc::clone(&snapshot));
            spawn(move || {
                let seat = Rc::new(hull.seat().unwrap());
                let lane = |stream| Seated::on(&snapshot, &seat, 0, stream);
                match lane(false).ask(snapshot.caller(0, 0)) {
                    Entry::Admitted(mut permits) => permits.move_to(lane(true), false).is_ok(),
                    Entry::Refused(_) | Entry::Waiting(_) => panic!("nobody else is here"),
                }
            })
        };
        after_the_others();
        // Longer than any call and any stream may last.
        let leaks = hull.reclaim(10_000_000_000);
        let moved = owner.join().unwrap();
        let both = ["route/a", "route/a/stream"].map(|key| figures(&hull, key).unwrap());
        assert_eq!(both[0].admitted, 2);
        assert_eq!(both[1].admitted, u64::from(moved));
        let leaked = [both[0].leaked, both[1].leaked];
        assert_eq!(
            leaked[0] + leaked[1],
            leaks.len() as u64,
            "taken once, by the watch or its owner"
        );
        // By its owner, or by the watch before the move or after it.
        match leaked {
            [0, 0] => notes.note(0),
            [1, 0] => notes.note(1),
            [0, 1] => notes.note(2),
            other => panic!("{other:?}"),
        }
        all_returned(&hull);
    });
    seen.all(3);
}

#[test]
fn a_mode_changes_while_permits_are_out() {
    for mode in [Mode::Shadow, Mode::Off] {
        let seen = Seen::default();
        let notes = seen.clone();
        model(2, move || {
            let hull = Arc::new(Hull::new());
            let with = |mode| {
                let judged = R {
                    tenant_limit: Some(limit(1)),
                    ..route("a", 1).reserved(0).candidate(1).mode(mode)
                };
                let plain = policy(9, 3, &[Limit::UNLIMITED], &[judged]);
                with_tenants(plain, &[("t", limit(9))], Limit::CLOSED)
            };
            let snapshot = Snapshot::of(&hull, &with(Mode::Enforce));
            let held = admitted(snapshot.ask(0, snapshot.caller(0, 0), &mut CellCache::new()));
            let asks = {
                let snapshot = Arc::clone(&snapshot);
                spawn(move || {
                    let caller = snapshot.caller(0, 0);
                    admitted(snapshot.ask(0, caller, &mut CellCache::new()))
                })
            };
            hull.apply(&with(mode), 1);
            drop(held);
            hull.apply(&with(Mode::Enforce), 1);
            let asked = asks.join().unwrap();
            notes.note(u32::from(asked.is_some()));
            drop(asked);
            all_returned(&hull);
            // Enforced again: one, and no second.
            let caller = snapshot.caller(0, 0);
            let ask = || snapshot.ask(0, caller, &mut CellCache::new());
            let one = admitted(ask()).unwrap();
            assert!(refused(ask()).is_some());
            drop(one);
            let now = figures(&hull, "route/a").unwrap();
            // Let through while the other is out, which is told where the mode tells it.
            let would: u64 = now.shadow_rejected.values().sum();
            let most = u64::from(mode == Mode::Shadow);
            assert!(would <= most, "{now:?}");
            if would == most {
                notes.note(2);
            }
            assert!(now.candidate_rejected <= now.arrived, "{now:?}");
        });
        seen.all(3);
    }
}

#[test]
fn a_waiter_is_served_although_its_route_goes_meanwhile() {
    model(3, || {
        let hull = Arc::new(Hull::new());
        let snapshot = plain(&hull, &[route("a", 1).queue(1)]);
        let held = admitted(snapshot.anybody(0)).unwrap();
        let first = waiting(snapshot.anybody(0)).unwrap();
        let release = spawn(move || drop(held));
        let renames = {
            let hull = Arc::clone(&hull);
            spawn(move || drop(hull.apply(&plain_policy(&[route("b", 1)]), 1)))
        };
        drop(block_on(first).unwrap());
        release.join().unwrap();
        renames.join().unwrap();
        all_returned(&hull);
    });
}

fn breaker(calls: u32, probes: u32) -> Arc<Breaker> {
    let breaker = Arc::new(Breaker::new());
    let rules = BreakerRules {
        failure_rate: Millionths(500_000),
        calls,
        open: Duration::from_micros(10),
        probes,
        count_rejections: false,
    };
    let _began = breaker.set(Some(&rules), None, 0);
    breaker
}

fn pass(breaker: &Arc<Breaker>, now_us: u64) -> Option<Pass<Arc<Breaker>>> {
    Breaker::ask(Arc::clone(breaker), now_us).0.ok()
}

/// Two ask in the instant in which an open breaker may be asked again; there is one place.
#[test]
fn probes_race_for_their_places() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(3, move || {
        let breaker = breaker(1, 1);
        let opened = pass(&breaker, 1).unwrap().tell(Outcome::Failed, 1);
        assert!(opened.is_some());
        let judge = Judge::default();
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (breaker, judge) = (Arc::clone(&breaker), judge.clone());
                let notes = notes.clone();
                spawn(move || match pass(&breaker, 11) {
                    // Leaves without a word.
                    Some(_probe) => {
                        notes.note(0);
                        judge.hold(1);
                    }
                    None => notes.note(1),
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        let mut probe = pass(&breaker, 12).unwrap();
        assert!(pass(&breaker, 12).is_none());
        assert!(probe.tell(Outcome::Answered, 12).is_some());
        assert_eq!(breaker.state(), BreakerState::Closed);
    });
    seen.all(2);
}

/// A good answer of before, while the breaker opens and closes again: it is in no window of after.
#[test]
fn an_old_result_races_with_a_new_era() {
    let seen = Seen::default();
    let notes = seen.clone();
    model(3, move || {
        let breaker = breaker(2, 1);
        let mut old = pass(&breaker, 1).unwrap();
        let other = Arc::clone(&breaker);
        let thread = spawn(move || {
            for at_us in [1, 2] {
                if let Some(mut one) = pass(&other, at_us) {
                    let _opens = one.tell(Outcome::Failed, at_us);
                }
            }
        });
        after_the_others();
        // Before it opens, or after.
        let is_open = breaker.state() == BreakerState::Open;
        let _opens = old.tell(Outcome::Answered, 2);
        notes.note(u32::from(is_open));
        thread.join().unwrap();
        assert_eq!(
            breaker.state(),
            BreakerState::Open,
            "at least one of two failed"
        );
        let closed = pass(&breaker, 20).unwrap().tell(Outcome::Answered, 20);
        assert!(closed.is_some());
        assert_eq!(old.tell(Outcome::Answered, 21), None);
        assert_eq!(breaker.figures(21).unwrap().calls, 0);
    });
    seen.all(2);
}
