//! Traffic in simulated time through the real hull: what the numbers are worth when a dependency
//! gets slow, when a few routes hang, when one tenant floods. Fixed seeds; the figures are printed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use compartment::{Caller, CellCache, Entry, Hull, Limit, Permits};

use crate::support::*;

const SECOND: u64 = 1_000_000;

/// A small generator of its own: the same sequence every time and everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        f64::from(u32::try_from(mixed >> 32).unwrap())
            .mul_add(f64::from(2_u32.pow(31)).recip() / 2.0, 1e-10)
    }

    /// Until the next of so many a second.
    fn gap_us(&mut self, per_second: f64) -> u64 {
        micros(-self.roll().ln() / per_second)
    }

    /// A hold with a long tail and this mean.
    fn hold_us(&mut self, mean_s: f64, sigma: f64) -> u64 {
        let normal = (-2.0 * self.roll().ln()).sqrt() * (std::f64::consts::TAU * self.roll()).cos();
        micros(mean_s * (sigma.mul_add(normal, -sigma * sigma / 2.0)).exp())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times of a simulation are small and positive"
)]
fn micros(seconds: f64) -> u64 {
    (seconds * 1e6) as u64
}

fn percent(part: u64, of: u64) -> f64 {
    let number = |n: u64| f64::from(u32::try_from(n).unwrap());
    100.0 * number(part) / number(of.max(1))
}

/// What happens next, and who holds permits until when.
struct World<E> {
    snapshot: Arc<Snapshot>,
    now_us: u64,
    cache: CellCache,
    events: BinaryHeap<Reverse<(u64, u64, What<E>)>>,
    held: BTreeMap<u64, Permits<Here>>,
    next: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What<E> {
    Ends(u64),
    Event(E),
}

impl<E: Ord> World<E> {
    fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            snapshot,
            now_us: 1,
            cache: CellCache::new(),
            events: BinaryHeap::new(),
            held: BTreeMap::new(),
            next: 0,
        }
    }

    fn push(&mut self, after_us: u64, what: What<E>) {
        self.next += 1;
        let at = (self.now_us + after_us, self.next, what);
        self.events.push(Reverse(at));
    }

    fn later(&mut self, after_us: u64, event: E) {
        self.push(after_us, What::Event(event));
    }

    /// The next event before `until_us`; what ends before it has ended.
    fn next(&mut self, until_us: u64) -> Option<E> {
        while let Some(Reverse((at_us, _, what))) = self.events.pop() {
            if at_us > until_us {
                return None;
            }
            self.now_us = at_us;
            self.snapshot.clock.store(at_us, Ordering::Relaxed);
            match what {
                What::Ends(id) => drop(self.held.remove(&id)),
                What::Event(event) => return Some(event),
            }
        }
        None
    }

    /// One request that holds its permits for so long; false when it was refused.
    fn arrive(&mut self, route: usize, caller: Caller, hold_us: u64) -> bool {
        match self.snapshot.ask(route, caller, &mut self.cache) {
            Entry::Admitted(permits) => {
                let id = self.next;
                self.held.insert(id, permits);
                self.push(hold_us, What::Ends(id));
                true
            }
            Entry::Refused(_) => false,
            Entry::Waiting(_) => panic!("nobody waits here"),
        }
    }

    fn in_flight(&self, route: usize) -> u32 {
        self.snapshot.fittings.passages[route].route().in_flight()
    }
}

/// One gateway with a sick route and its sibling: 30 ms become 8 s for a minute.
#[test]
fn a_slow_dependency_holds_its_limit_and_no_sibling_notices() {
    const LIMIT: u32 = 24;
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Sick,
        Sibling,
    }
    let hull = Hull::new();
    let routes = [route("sick", LIMIT), route("sibling", 30)];
    let snapshot = Snapshot::of(&hull, &policy(200, 146, &[Limit::UNLIMITED], &routes));
    let (mut world, mut dice) = (World::new(snapshot), Dice(1));
    world.later(0, Event::Sick);
    world.later(0, Event::Sibling);
    let (mut most, mut refused, mut asked) = (0, [0_u64; 5], [0_u64; 5]);
    while let Some(event) = world.next(180 * SECOND) {
        let slow = (60 * SECOND..120 * SECOND).contains(&world.now_us);
        let (at, admitted) = match event {
            Event::Sick => {
                world.later(dice.gap_us(400.0), Event::Sick);
                let hold_us = dice.hold_us(if slow { 8.0 } else { 0.03 }, 0.3);
                let begins = [60, 120, 130].map(|second| second * SECOND);
                let phase = begins
                    .iter()
                    .filter(|begin| world.now_us >= **begin)
                    .count();
                (1 + phase, world.arrive(0, ANYBODY, hold_us))
            }
            Event::Sibling => {
                world.later(dice.gap_us(100.0), Event::Sibling);
                let hold_us = dice.hold_us(0.05, 0.3);
                (0, world.arrive(1, ANYBODY, hold_us))
            }
        };
        asked[at] += 1;
        refused[at] += u64::from(!admitted);
        most = most.max(world.in_flight(0));
    }
    println!(
        "latency step: sibling refused {} of {}; sick in flight at most {most} of {LIMIT}; sick \
         refused before {:.2} %, in the step {:.1} %, after {:.2} %",
        refused[0],
        asked[0],
        percent(refused[1], asked[1]),
        percent(refused[2], asked[2]),
        percent(refused[4], asked[4]),
    );
    assert_eq!(refused[0], 0);
    assert_eq!(most, LIMIT, "never above, and really reached");
    assert!(refused[2] > asked[2] / 2, "it was a step");
    assert!(percent(refused[4], asked[4]) < 0.5, "it recovers at once");
}

/// What twenty bursting routes on 200 slots came to.
#[derive(Default, Debug)]
struct Bursts {
    asked: u64,
    refused: u64,
    /// The same of the fifteen healthy ones, during the incident.
    healthy: u64,
    healthy_refused: u64,
    breaches: u64,
}

/// Each offers 3.2 slots, and 20 for about a second every ten. In the noisy minute the requests
/// of five of them hang for two seconds.
fn bursts(limit: u32, reserved: u32, spare: u32, noisy: bool, seed: u64, told: &mut Bursts) {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Arrives(usize, u32),
        Turns(usize),
    }
    const ROUTES: usize = 20;
    const SICK: usize = 5;
    let rate = |bursts| if bursts { 200.0 } else { 32.0 };
    let hull = Hull::new();
    let routes: Vec<_> = (0..ROUTES)
        .map(|n| route(&format!("r{n}"), limit).reserved(reserved))
        .collect();
    let snapshot = Snapshot::of(&hull, &policy(200, spare, &[Limit::UNLIMITED], &routes));
    let (mut world, mut dice) = (World::new(snapshot), Dice(seed));
    let mut state = [(false, 0_u32); ROUTES];
    for at in 0..ROUTES {
        world.later(dice.gap_us(rate(false)), Event::Arrives(at, 0));
        world.later(dice.gap_us(1.0 / 9.0), Event::Turns(at));
    }
    let mut swept_us = 0;
    while let Some(event) = world.next(120 * SECOND) {
        if world.now_us - swept_us > 5 * SECOND {
            swept_us = world.now_us;
            hull.sweep(swept_us);
        }
        match event {
            Event::Turns(at) => {
                let (bursts, turn) = (!state[at].0, state[at].1 + 1);
                state[at] = (bursts, turn);
                world.later(dice.gap_us(rate(bursts)), Event::Arrives(at, turn));
                let lasts = if bursts { 1.0 } else { 1.0 / 9.0 };
                world.later(dice.gap_us(lasts), Event::Turns(at));
            }
            Event::Arrives(at, turn) if turn == state[at].1 => {
                world.later(dice.gap_us(rate(state[at].0)), Event::Arrives(at, turn));
                let incident = (30 * SECOND..90 * SECOND).contains(&world.now_us);
                let hold_us = match noisy && incident && at < SICK {
                    true => 2 * SECOND,
                    false => dice.hold_us(0.1, 0.83).min(2 * SECOND),
                };
                let below = world.in_flight(at) < reserved;
                let refused = u64::from(!world.arrive(at, ANYBODY, hold_us));
                let healthy = (30 * SECOND..92 * SECOND).contains(&world.now_us) && at >= SICK;
                told.asked += 1;
                told.refused += refused;
                told.healthy += u64::from(healthy);
                told.healthy_refused += if healthy { refused } else { 0 };
                told.breaches += if below { refused } else { 0 };
            }
            Event::Arrives(..) => {}
        }
    }
    let (_, borrowed) = hull.spare();
    assert!(borrowed <= spare);
    drop(world);
    all_returned(&hull);
}

#[test]
fn bursts_are_lent_and_paid_for_and_no_guarantee_is_ever_broken() {
    let run = |limit, reserved, spare, noisy| {
        let mut told = Bursts::default();
        (1..=2).for_each(|seed| bursts(limit, reserved, spare, noisy, seed, &mut told));
        told
    };
    let hard = run(10, 10, 0, true);
    let hard_refused = percent(hard.healthy_refused, hard.healthy);
    println!("bursts: hard partitions: healthy refused {hard_refused:.2} % in the incident");
    for (reserved, spare) in [(7, 60), (6, 80)] {
        let calm = run(200, reserved, spare, false);
        let noisy = run(200, reserved, spare, true);
        let refused = percent(noisy.healthy_refused, noisy.healthy);
        println!(
            "bursts: {spare} spare with credits: {:.2} % refused in normal bursts, healthy refused \
             {refused:.2} % in the incident, breaches {} of {}",
            percent(calm.refused, calm.asked),
            calm.breaches + noisy.breaches,
            calm.asked + noisy.asked,
        );
        assert_eq!(calm.breaches + noisy.breaches, 0);
        assert!(
            3.0 * refused <= hard_refused,
            "{refused} against {hard_refused}"
        );
        assert!(percent(calm.refused, calm.asked) < 4.0);
    }
    assert!(hard_refused > 15.0, "the incident is one: {hard_refused}");
}

/// 400 tenants that offer 28 slots together on a route of 64, and some that want 100 each.
/// Refused of the normal ones and asked by them, most cells at once.
fn flood(share: Option<u32>, abusers: u32, seed: u64) -> (u64, u64) {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Event {
        Normal,
        Abuser(u32),
    }
    const NORMAL: u32 = 400;
    let hull = Hull::new();
    let shared = R {
        share,
        ..route("a", 64)
    };
    let names: Vec<_> = (0..NORMAL + abusers).map(|n| format!("t{n}")).collect();
    let tenants: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), Limit::UNLIMITED))
        .collect();
    let plain = policy(64, 0, &[Limit::UNLIMITED], &[shared]);
    let snapshot = Snapshot::of(&hull, &with_tenants(plain, &tenants, Limit::UNLIMITED));
    let (mut world, mut dice) = (World::new(snapshot), Dice(seed));
    // A few large ones and many small: the weight of the n-th is 1 / (n + 3).
    let weights = (0..NORMAL).map(|n| f64::from(n + 3).recip());
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let whole = sums[sums.len() - 1];
    world.later(0, Event::Normal);
    (0..abusers).for_each(|n| world.later(0, Event::Abuser(NORMAL + n)));
    let (mut refused, mut asked) = (0, 0);
    while let Some(event) = world.next(40 * SECOND) {
        let hold_us = dice.hold_us(0.1, 0.83);
        match event {
            Event::Normal => {
                world.later(dice.gap_us(280.0), Event::Normal);
                let at = dice.roll() * whole;
                let tenant = sums.partition_point(|sum| *sum < at);
                let tenant = u32::try_from(tenant).unwrap().min(NORMAL - 1);
                let caller = world.snapshot.caller(0, tenant);
                asked += 1;
                refused += u64::from(!world.arrive(0, caller, hold_us));
            }
            Event::Abuser(tenant) => {
                world.later(dice.gap_us(1_000.0), Event::Abuser(tenant));
                let caller = world.snapshot.caller(0, tenant);
                world.arrive(0, caller, hold_us);
            }
        }
    }
    drop(world);
    all_returned(&hull);
    (refused, asked)
}

#[test]
fn a_share_keeps_abusers_from_what_others_need() {
    let run = |share, abusers| {
        let both = [1, 2].map(|seed| flood(share, abusers, seed));
        percent(both[0].0 + both[1].0, both[0].1 + both[1].1)
    };
    let without = run(None, 1);
    let (one, three) = (run(Some(1_000_000), 1), run(Some(1_000_000), 3));
    println!(
        "tenant abuse: normal tenants lose {without:.1} % to one abuser without a share; with a \
         share {one:.3} % to one, {three:.3} % to three"
    );
    assert!(without > 20.0, "the abuser is one: {without}");
    assert!(one <= 0.5 && three <= 0.5, "{one} {three}");
}
