//! Larger models than loom can walk through: many tasks at random schedules, and schedules that
//! put few preemptions where they hurt. Seeds of a failure are printed and replay it.
//!
//! Run alone, in a target folder of its own, because the cfg changes the mechanism's atomics:
//! `RUSTFLAGS="--cfg shuttle" cargo test -p bulkhead-compartment --release --test shuttle`.

#![cfg(shuttle)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step fails the test"
)]

mod support;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use compartment::policy::Policy;
use compartment::{
    CELL_IDLE_US, Caller, CellCache, Class, Entry, Hull, Limit, Mode, Permits, Rejection, Waiting,
};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::spawn;
use support::*;

const SCHEDULES: usize = 3_000;
const PREEMPTIONS: usize = 3;

fn explore(body: impl Fn() + Sync + Send + Copy + 'static) {
    shuttle::check_random(body, SCHEDULES);
    shuttle::check_pct(body, SCHEDULES, PREEMPTIONS);
}

fn roll(sides: u32) -> u32 {
    thread_rng().gen_range(0..sides)
}

/// Counts who holds a slot. A standard atomic: the judge is not what is checked.
#[derive(Clone, Default)]
struct Judge(Arc<AtomicU32>);

impl Judge {
    fn hold(&self, most: u32, permits: Permits<Here>) {
        let now = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= most, "{now} hold a slot of {most}");
        shuttle::thread::yield_now();
        self.0.fetch_sub(1, Ordering::SeqCst);
        drop(permits);
    }
}

fn tenants(policy: Policy) -> Policy {
    let three = [("s", limit(9)), ("t", limit(9)), ("u", limit(9))];
    with_tenants(policy, &three, Limit::CLOSED)
}

/// Three shapes of one route: wide, narrow, and all borrowed.
fn shapes() -> [Policy; 3] {
    let with = |slots, reserved, spare, queue| {
        let one = R {
            class_reserve: u32::from(slots > 1),
            tenant_limit: Some(limit(3)),
            ..route("a", slots).reserved(reserved).queue(queue)
        };
        let other = route("b", 2).reserved(0);
        tenants(policy(9, spare, &[Limit::UNLIMITED], &[one, other]))
    };
    [with(3, 2, 1, 3), with(1, 1, 0, 2), with(2, 0, 2, 3)]
}

fn asks(snapshot: &Arc<Snapshot>, tenant: u32) -> Entry<Here> {
    let caller = snapshot.caller(0, tenant);
    let class = [Class::Sheddable, Class::Standard][usize::from(roll(4) > 0)];
    let left_us = u64::from(roll(3)) * 100_000;
    let until_us = (roll(3) == 0).then(|| snapshot.clock.load(Ordering::Relaxed) + left_us);
    let caller = Caller {
        class,
        until_us,
        ..caller
    };
    snapshot.ask(0, caller, &mut CellCache::new())
}

/// Waits to the end, times out or leaves.
fn wait(waiting: Waiting<Here>) -> Option<Permits<Here>> {
    match roll(4) {
        0 => None,
        1 => {
            shuttle::thread::yield_now();
            waiting.give_up(Rejection::QueueTimeout).ok()
        }
        _ => block_on(waiting).ok(),
    }
}

/// Two rounds of a tenant that asks, waits, leaves, times out, holds and gives back.
fn client(snapshot: &Arc<Snapshot>, judge: &Judge, tenant: u32, most: u32) {
    for _ in 0..2 {
        let permits = match asks(snapshot, tenant) {
            Entry::Admitted(permits) => Some(permits),
            Entry::Waiting(waiting) => wait(waiting),
            Entry::Refused(_) => None,
        };
        if let Some(permits) = permits {
            judge.hold(most, permits);
        }
    }
}

#[test]
fn a_route_in_the_storm_loses_no_slot_and_strands_nobody() {
    explore(|| {
        let (hull, judge) = (Arc::new(Hull::new()), Judge::default());
        let shapes = shapes();
        let snapshot = Snapshot::of(&hull, &shapes[0]);
        let clients: Vec<_> = (0..4_u32)
            .map(|n| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                spawn(move || client(&snapshot, &judge, n % 3, 3))
            })
            .collect();
        let changes = {
            let (hull, snapshot) = (Arc::clone(&hull), Arc::clone(&snapshot));
            spawn(move || {
                for _ in 0..2 {
                    let now_us = snapshot.clock.fetch_add(60_000, Ordering::Relaxed);
                    hull.apply(&shapes[usize::try_from(roll(3)).unwrap()], now_us);
                    hull.sweep(now_us);
                }
            })
        };
        clients.into_iter().for_each(|one| one.join().unwrap());
        changes.join().unwrap();
        hull.sweep(1 + CELL_IDLE_US);
        all_returned(&hull);
        assert!(figures(&hull, "route/a").unwrap().arrived <= 8);
    });
}

#[test]
fn everybody_who_waits_is_served_and_tenants_take_turns() {
    explore(|| {
        let hull = Arc::new(Hull::new());
        let shape = tenants(policy(9, 0, &[Limit::UNLIMITED], &[route("a", 1).queue(4)]));
        let snapshot = Snapshot::of(&hull, &shape);
        let (served, judge) = (Arc::new(AtomicU32::new(0)), Judge::default());
        let clients: Vec<_> = [0, 0, 0, 1, 2]
            .into_iter()
            .map(|tenant| {
                let (snapshot, judge) = (Arc::clone(&snapshot), judge.clone());
                let served = Arc::clone(&served);
                spawn(move || {
                    let caller = snapshot.caller(0, tenant);
                    let entry = snapshot.ask(0, caller, &mut CellCache::new());
                    let permits = match entry {
                        Entry::Admitted(permits) => permits,
                        Entry::Waiting(waiting) => block_on(waiting).unwrap(),
                        Entry::Refused(refusal) => panic!("refused with room: {refusal:?}"),
                    };
                    served.fetch_add(1, Ordering::SeqCst);
                    judge.hold(1, permits);
                })
            })
            .collect();
        clients.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(served.load(Ordering::SeqCst), 5);
        all_returned(&hull);
    });
}

#[test]
fn a_flood_and_two_others_in_a_short_line_are_all_told_something() {
    explore(|| {
        let hull = Arc::new(Hull::new());
        let shape = tenants(policy(9, 0, &[Limit::UNLIMITED], &[route("a", 1).queue(3)]));
        let snapshot = Snapshot::of(&hull, &shape);
        let held = admitted(snapshot.anybody(0)).unwrap();
        let flood: Vec<_> = (0..3)
            .map(|_| waiting(snapshot.ask(0, snapshot.caller(0, 0), &mut CellCache::new())))
            .map(Option::unwrap)
            .collect();
        let others: Vec<_> = [1, 2]
            .into_iter()
            .map(|tenant| {
                let snapshot = Arc::clone(&snapshot);
                spawn(move || {
                    let caller = snapshot.caller(0, tenant);
                    match snapshot.ask(0, caller, &mut CellCache::new()) {
                        // A place for each of three tenants: whoever comes gets one.
                        Entry::Waiting(waiting) => drop(block_on(waiting).unwrap()),
                        Entry::Admitted(permits) => drop(permits),
                        entry @ Entry::Refused(_) => {
                            panic!("no fair place: {:?}", refused(entry).as_ref().map(why))
                        }
                    }
                })
            })
            .collect();
        let release = spawn(move || drop(held));
        let flood: Vec<_> = flood
            .into_iter()
            .map(|waiting| spawn(move || block_on(waiting).map(drop).is_ok()))
            .collect();
        let served: Vec<_> = flood.into_iter().map(|one| one.join().unwrap()).collect();
        assert!(served[0], "the first of the flood keeps its place");
        others.into_iter().for_each(|one| one.join().unwrap());
        release.join().unwrap();
        all_returned(&hull);
    });
}

/// One route with streams: enforced, in shadow, off, narrow, and gone.
fn moods() -> [Policy; 5] {
    let with = |slots, streams, mode| {
        let one = R {
            tenant_limit: Some(limit(2)),
            share: Some(1_000_000),
            ..route("a", slots)
                .reserved(1)
                .queue(2)
                .streams(streams)
                .mode(mode)
                .candidate(1)
        };
        tenants(policy(9, 4, &[Limit::UNLIMITED], &[one]))
    };
    [
        with(3, 2, Mode::Enforce),
        with(2, 1, Mode::Shadow),
        with(2, 1, Mode::Off),
        with(1, 1, Mode::Enforce),
        tenants(policy(9, 4, &[Limit::UNLIMITED], &[route("b", 1)])),
    ]
}

/// Calls and streams, some of which turn from one into the other, on a thread with a seat.
fn turncoat(hull: &Hull, snapshot: &Arc<Snapshot>, tenant: u32) {
    let seat = Rc::new(hull.seat().unwrap());
    let lane = |stream| Seated::on(snapshot, &seat, 0, stream);
    for _ in 0..2 {
        let entry = lane(roll(3) == 0).ask(snapshot.caller(0, tenant));
        let permits = match entry {
            Entry::Admitted(permits) => Some(permits),
            Entry::Waiting(waiting) => match roll(3) {
                0 => None,
                1 => waiting.give_up(Rejection::QueueTimeout).ok(),
                _ => block_on(waiting).ok(),
            },
            Entry::Refused(_) => None,
        };
        let Some(mut permits) = permits else { continue };
        if roll(2) == 0 {
            // Refused, it is let go.
            drop(permits.move_to(lane(true), roll(2) == 0));
        }
        shuttle::thread::yield_now();
        drop(permits);
    }
}

#[test]
fn whatever_becomes_a_stream_or_is_judged_meanwhile_leaves_nothing_behind() {
    explore(|| {
        let hull = Arc::new(Hull::with_cores(3));
        let moods = moods();
        let snapshot = Snapshot::of(&hull, &moods[0]);
        let clients: Vec<_> = (0..3)
            .map(|tenant| {
                let (hull, snapshot) = (Arc::clone(&hull), Arc::clone(&snapshot));
                spawn(move || turncoat(&hull, &snapshot, tenant))
            })
            .collect();
        let changes = {
            let hull = Arc::clone(&hull);
            spawn(move || {
                for now_us in 1..4 {
                    hull.apply(&moods[usize::try_from(roll(5)).unwrap()], now_us);
                    if roll(4) == 0 {
                        // Longer than anybody may stay: whoever is here is taken back.
                        hull.reclaim(10_000_000_000);
                    }
                }
            })
        };
        clients.into_iter().for_each(|one| one.join().unwrap());
        changes.join().unwrap();
        all_returned(&hull);
    });
}
