//! Eight threads, one who changes the policy all the while, and a judge for every bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use compartment::{
    Caller, CellCache, Class, Entry, Hull, Lane, Limit, Permits, Rejection, Waiting,
};

use crate::support::*;

const THREADS: usize = 8;
const REQUESTS: usize = 4_000;
/// The largest each number ever is under one of the policies below.
const ROUTE_MOST: i64 = 6;
const TENANT_MOST: i64 = 5;
const CELL_MOST: i64 = 3;
const GATEWAY_MOST: i64 = 9;

/// Counts holders; says when there are too many.
#[derive(Default)]
struct Judge {
    routes: [AtomicI64; 2],
    tenants: [AtomicI64; 2],
    cells: [AtomicI64; 2],
    all: AtomicI64,
}

impl Judge {
    fn check(&self, route: usize, tenant: usize, by: i64) {
        let cell = (route == 1).then(|| (&self.cells[tenant], CELL_MOST));
        let all = [
            (&self.routes[route], ROUTE_MOST),
            (&self.tenants[tenant], TENANT_MOST),
            (&self.all, GATEWAY_MOST),
        ];
        for (count, most) in all.into_iter().chain(cell) {
            let now = count.fetch_add(by, Ordering::SeqCst) + by;
            assert!((0..=most).contains(&now), "{now} hold a slot of {most}");
        }
    }
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn wait<L: Lane>(mut waiting: Waiting<L>) -> Option<Permits<L>> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match std::future::Future::poll(std::pin::Pin::new(&mut waiting), &mut context) {
            Poll::Ready(result) => return result.ok(),
            Poll::Pending => thread::park(),
        }
    }
}

/// A small generator of its own: the same sequence every time.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn shapes() -> [compartment::policy::Policy; 4] {
    let tenants = [("s", limit(5)), ("t", limit(4))];
    let with = |capacity, spare, a: R, b: R| {
        let b = R {
            tenant_limit: Some(limit(3)),
            ..b
        };
        with_tenants(
            policy(capacity, spare, &[Limit::UNLIMITED], &[a, b]),
            &tenants,
            Limit::CLOSED,
        )
    };
    let wide = route("a", 6).reserved(2).queue(3);
    let tight = route("a", 1).reserved(0).queue(3);
    [
        with(9, 5, wide.clone(), route("b", 6).reserved(2)),
        with(7, 3, tight, route("b", 4).reserved(4).queue(2)),
        with(9, 1, wide.clone().reserved(6), route("b", 0)),
        with(
            8,
            4,
            wide,
            R {
                share: Some(1_000_000),
                ..route("b", 5).reserved(0)
            },
        ),
    ]
}

fn client(snapshot: &Arc<Snapshot>, judge: &Judge, seed: u64) {
    let mut dice = Dice(seed);
    let mut cache = CellCache::new();
    let mut held = Vec::new();
    for _ in 0..REQUESTS {
        let (route, tenant) = (dice.roll(2), dice.roll(2));
        let class = if dice.roll(3) == 0 {
            Class::Sheddable
        } else {
            Class::Standard
        };
        let (at, who) = (
            usize::try_from(route).unwrap(),
            usize::try_from(tenant).unwrap(),
        );
        let caller = snapshot.caller(at, u32::try_from(tenant).unwrap());
        let permits = match snapshot.ask(at, Caller { class, ..caller }, &mut cache) {
            Entry::Admitted(permits) => Some(permits),
            Entry::Refused(_) => None,
            Entry::Waiting(waiting) => match dice.roll(4) {
                0 => None,
                1 => waiting.give_up(Rejection::QueueTimeout).ok(),
                // Whoever waits to the end holds nothing that others wait for.
                _ => {
                    held.drain(..).for_each(|kept| release(kept, judge));
                    wait(waiting)
                }
            },
        };
        if let Some(permits) = permits {
            judge.check(at, who, 1);
            held.push((at, who, permits));
        }
        if dice.roll(3) > 0 {
            held.pop().into_iter().for_each(|kept| release(kept, judge));
        }
    }
    held.into_iter().for_each(|kept| release(kept, judge));
}

fn release((route, tenant, permits): (usize, usize, Permits<Here>), judge: &Judge) {
    judge.check(route, tenant, -1);
    drop(permits);
}

#[test]
fn many_threads_and_a_changing_policy_never_pass_a_bound_or_lose_a_slot() {
    let (hull, judge, done) = (Hull::new(), Judge::default(), AtomicBool::new(false));
    let shapes = shapes();
    let snapshot = Snapshot::of(&hull, &shapes[0]);
    thread::scope(|scope| {
        let clients: Vec<_> = (1..=THREADS as u64)
            .map(|n| {
                let (snapshot, judge) = (&snapshot, &judge);
                scope.spawn(move || client(snapshot, judge, n * 0x9E37_79B9))
            })
            .collect();
        let (hull, done, shapes, snapshot) = (&hull, &done, &shapes, &snapshot);
        let changes = scope.spawn(move || {
            let mut now_us = 1;
            for (round, shape) in shapes.iter().cycle().enumerate() {
                snapshot.clock.store(now_us, Ordering::Relaxed);
                hull.apply(shape, now_us);
                hull.sweep(now_us);
                // Cells go now and then; between that, credit is left to borrow with.
                let leaps = round % 64 == 0;
                now_us += if leaps {
                    compartment::CELL_IDLE_US
                } else {
                    100
                };
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let results: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        done.store(true, Ordering::Relaxed);
        changes.join().unwrap();
        results.into_iter().for_each(|result| result.unwrap());
    });
    all_returned(&hull);
    // The clock leapt while slots were borrowed: what is owed for that is paid first.
    let mut now_us = snapshot.clock.load(Ordering::Relaxed);
    for _day in 0..500 {
        now_us += 86_400_000_000;
        hull.sweep(now_us);
    }
    let full = Snapshot::at(&hull, &shapes[0], now_us);
    let held: Vec<_> = std::iter::from_fn(|| admitted(full.anybody(0))).collect();
    assert_eq!(held.len(), 6, "full capacity afterwards");
}
