//! Figures that are read while everything moves: they add up in every row, every time, and no
//! counter ever goes down.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use compartment::{
    Caller, CellCache, Class, Entry, Figures, Hull, Lane, Mode, Permits, Rejection, enter,
};

use crate::stress::{Dice, wait};
use crate::support::*;

/// More than there are cores, so that many are put aside between two counts.
const THREADS: usize = 8;
const REQUESTS: usize = 12_000;
const SHEDDABLE: Caller = Caller {
    class: Class::Sheddable,
    ..ANYBODY
};

fn busy() -> compartment::policy::Policy {
    let shared = R {
        share: Some(1_000_000),
        tenant_limit: Some(limit(3)),
        ..route("a", 3).reserved(1).queue(3).streams(2).candidate(2)
    };
    let judged = route("b", 2).mode(Mode::Shadow).streams(2);
    let tenants = [("s", limit(4)), ("t", limit(5))];
    let plain = policy(9, 6, &[limit(5)], &[shared, judged]);
    with_tenants(plain, &tenants, limit(2))
}

/// Asks, waits, gives up, leaves the line, turns into a stream, holds and gives back.
fn client<L: Lane + Clone>(lane: impl Fn(usize, bool) -> L, snapshot: &Snapshot, seed: u64) {
    let (mut dice, mut cache) = (Dice(seed), CellCache::new());
    let mut held: Vec<(usize, Permits<L>)> = Vec::new();
    for _ in 0..REQUESTS {
        let route = usize::try_from(dice.roll(2)).unwrap();
        let caller = match dice.roll(4) {
            0 => SHEDDABLE,
            tenant => snapshot.caller(route, u32::try_from(tenant - 1).unwrap()),
        };
        let stream = dice.roll(5) == 0;
        let permits = match enter(lane(route, stream), caller, &mut cache) {
            Entry::Admitted(permits) => Some(permits),
            Entry::Refused(_) => None,
            Entry::Waiting(waiting) => match dice.roll(4) {
                0 => None,
                1 => waiting.give_up(Rejection::QueueTimeout).ok(),
                _ => {
                    held.clear();
                    wait(waiting)
                }
            },
        };
        held.extend(permits.map(|permits| (route, permits)));
        if dice.roll(4) == 0
            && let Some((route, mut permits)) = held.pop()
            && permits.move_to(lane(route, true), false).is_ok()
        {
            held.push((route, permits));
        }
        if dice.roll(3) > 0 {
            held.pop();
        }
    }
}

/// What may never go down.
fn counters(row: &Figures) -> Vec<u64> {
    let by_reason = |counts: &std::collections::BTreeMap<Rejection, u64>| {
        let of = |why| counts.get(&why).copied().unwrap_or(0);
        Rejection::ALL.map(of).to_vec()
    };
    let mut all = vec![
        row.arrived,
        row.admitted,
        row.completed,
        row.left_queue,
        row.candidate_rejected,
        row.nominal,
        row.peak.into(),
        row.idle_us,
        row.busy_us,
        row.saturated_us,
        row.in_flight_us,
    ];
    all.extend(by_reason(&row.rejected));
    all.extend(by_reason(&row.shadow_rejected));
    all
}

fn check(row: &Figures, last: &mut HashMap<String, Vec<u64>>) {
    let refusals: u64 = row.rejected.values().sum();
    let in_flight = u64::from(row.in_flight);
    assert_eq!(row.admitted, row.completed + in_flight, "{row:?}");
    let ended = row.admitted + refusals + row.left_queue;
    assert_eq!(row.arrived, ended + u64::from(row.queued), "{row:?}");
    let would: u64 = row.shadow_rejected.values().sum();
    assert!(would <= row.arrived, "{row:?}");
    assert!(row.candidate_rejected <= row.arrived, "{row:?}");
    assert!(row.in_flight <= row.peak, "{row:?}");
    if row.mode == Mode::Enforce
        && let Some(slots) = row.limit.slots()
    {
        assert!(row.in_flight <= slots, "{row:?}");
    }
    let now = counters(row);
    if let Some(before) = last.insert(row.key.clone(), now.clone()) {
        let falls = before.iter().zip(&now).any(|(before, now)| now < before);
        assert!(!falls, "{before:?} before {row:?}");
    }
}

#[test]
fn every_row_adds_up_every_time_and_no_counter_goes_down() {
    let hull = Hull::with_cores(THREADS / 2);
    let snapshot = Snapshot::of(&hull, &busy());
    let (left, looks) = (AtomicUsize::new(THREADS), AtomicUsize::new(0));
    thread::scope(|scope| {
        for n in 0..THREADS {
            let (hull, snapshot, left) = (&hull, &snapshot, &left);
            scope.spawn(move || {
                let seed = (n as u64 + 1) * 0x9E37_79B9;
                if n % 2 == 0 {
                    // Counts in cells of its own, as a serving thread does.
                    let seat = Rc::new(hull.seat().unwrap());
                    let lane = |route, stream| Seated::on(snapshot, &seat, route, stream);
                    client(lane, snapshot, seed);
                } else {
                    client(|route, stream| snapshot.lane(route, stream), snapshot, seed);
                }
                left.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for reader in 0..2 {
            let (hull, snapshot, left, looks) = (&hull, &snapshot, &left, &looks);
            scope.spawn(move || {
                let mut last = HashMap::new();
                while left.load(Ordering::SeqCst) > 0 {
                    let now_us = match reader {
                        0 => snapshot.clock.fetch_add(10, Ordering::Relaxed),
                        _ => snapshot.clock.load(Ordering::Relaxed),
                    };
                    hull.each_figures(now_us, &mut |row| check(&row, &mut last));
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(looks.load(Ordering::Relaxed) > 100, "looked while it moved");
    all_returned(&hull);
    let waited = figures(&hull, "route/a").unwrap().wait.count();
    assert!(waited > 0 && figures(&hull, "route/a/stream").unwrap().admitted > 0);
}
