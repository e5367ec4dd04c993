//! The hull against a naive model: after every step of a random history both say the same of
//! every request and of every compartment.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::naive::{Answer, Naive};
use crate::support::*;
use compartment::policy::{Plan, Policy};
use compartment::{
    CellCache, Class, Entry, Hull, Limit, Mode, Permits, Refusal, Rejection, Waiting,
};
use proptest::collection::vec;
use proptest::prelude::*;

const ROUTES: usize = 3;
const TENANTS: u32 = 3;

#[derive(Clone, Debug)]
enum Step {
    Enter {
        route: usize,
        tenant: Option<u32>,
        class: Class,
        old: bool,
        /// The caller's own time.
        left_us: Option<u64>,
        stream: bool,
    },
    Move {
        which: usize,
        sheddable: bool,
    },
    Tick {
        us: u64,
    },
    Leave {
        which: usize,
    },
    Poll {
        which: usize,
    },
    GiveUp {
        which: usize,
    },
    Abandon {
        which: usize,
    },
    Apply(Box<Shape>),
}

/// The numbers of one policy.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    capacity: u32,
    spare: u32,
    upstreams: [Limit; 2],
    routes: Vec<R>,
    /// In this order; the first of the rest is left out.
    tenants: Vec<(u32, Limit)>,
    unknown: Limit,
    plan: Option<(usize, Limit)>,
}

fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        8 => (1_u32..6).prop_map(limit),
        1 => Just(Limit::CLOSED),
        2 => Just(Limit::UNLIMITED),
    ]
}

fn any_route(n: usize) -> impl Strategy<Value = R> {
    let share = proptest::option::weighted(
        0.3,
        prop_oneof![Just(1_000_000), Just(500_000), Just(300_000)],
    );
    let numbers = (any_limit(), 0_u32..6, 0_u32..5, 0_u32..3, 0_usize..2);
    let mode = prop_oneof![
        4 => Just(Mode::Enforce),
        2 => Just(Mode::Shadow),
        1 => Just(Mode::Off),
    ];
    let candidate = proptest::option::weighted(0.3, 0_u32..6);
    (
        numbers,
        (mode, candidate),
        proptest::option::weighted(0.3, any_limit()),
        (share, proptest::option::weighted(0.6, any_limit())),
    )
        .prop_map(
            move |(numbers, (mode, candidate), tenant_limit, (share, streams))| {
                let (limit, reserved, queue, class_reserve, upstream) = numbers;
                R {
                    mode,
                    candidate,
                    streams,
                    id: format!("r{n}"),
                    upstream,
                    limit,
                    reserved: limit.slots().map_or(0, |slots| reserved.min(slots)),
                    queue,
                    class_reserve,
                    tenant_limit,
                    share,
                }
            },
        )
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let routes = (
        any_route(0),
        any_route(1),
        any_route(2),
        1..=ROUTES,
        any::<bool>(),
    );
    let routes = routes.prop_map(|(a, b, c, keep, turned)| {
        let mut routes = vec![a, b, c];
        if turned {
            routes.reverse();
        }
        routes.truncate(keep);
        routes
    });
    let tenants = (
        vec(any_limit(), TENANTS as usize),
        0..=TENANTS as usize,
        any::<bool>(),
    );
    let tenants = tenants.prop_map(|(limits, keep, turned)| {
        let mut tenants: Vec<_> = (0..).zip(limits).collect();
        if turned {
            tenants.reverse();
        }
        tenants.truncate(keep);
        tenants
    });
    let plan = proptest::option::weighted(0.3, (0..ROUTES, any_limit()));
    (
        1_u32..12,
        0_u32..6,
        any_limit(),
        any_limit(),
        routes,
        tenants,
        any_limit(),
        plan,
    )
        .prop_map(
            |(capacity, spare, u0, u1, routes, tenants, unknown, plan)| Shape {
                capacity,
                spare,
                upstreams: [u0, u1],
                plan: plan.filter(|(route, _)| *route < routes.len()),
                routes,
                tenants,
                unknown,
            },
        )
}

fn any_class() -> impl Strategy<Value = Class> {
    prop_oneof![
        Just(Class::Sheddable),
        Just(Class::Standard),
        Just(Class::Critical)
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let tenant = proptest::option::of(0..=TENANTS);
    let enter = (
        0..ROUTES,
        tenant,
        any_class(),
        proptest::bool::weighted(0.1),
        proptest::option::weighted(0.3, 0_u64..300_000),
        proptest::bool::weighted(0.25),
    );
    let enter = enter.prop_map(|(route, tenant, class, old, left_us, stream)| Step::Enter {
        route,
        tenant,
        class,
        old,
        left_us,
        stream,
    });
    let moves = (any::<usize>(), any::<bool>());
    let moves = moves.prop_map(|(which, sheddable)| Step::Move { which, sheddable });
    prop_oneof![
        12 => enter,
        6 => any::<usize>().prop_map(|which| Step::Leave { which }),
        4 => moves,
        4 => any::<usize>().prop_map(|which| Step::Poll { which }),
        1 => any::<usize>().prop_map(|which| Step::GiveUp { which }),
        1 => any::<usize>().prop_map(|which| Step::Abandon { which }),
        3 => (1_u64..80_000).prop_map(|us| Step::Tick { us }),
        3 => (1_000_000_u64..9_000_000).prop_map(|us| Step::Tick { us }),
        2 => any_shape().prop_map(|shape| Step::Apply(Box::new(shape))),
    ]
}

impl Shape {
    fn policy(&self) -> Policy {
        let tenants: Vec<_> = self
            .tenants
            .iter()
            .map(|(n, limit)| (format!("t{n}"), *limit))
            .collect();
        let tenants: Vec<_> = tenants
            .iter()
            .map(|(id, limit)| (id.as_str(), *limit))
            .collect();
        let plain = policy(self.capacity, self.spare, &self.upstreams, &self.routes);
        let policy = with_tenants(plain, &tenants, self.unknown);
        match self.plan {
            Some((route, limit)) => with_plan(policy, route, limit),
            None => policy,
        }
    }
}

/// Puts all tenants on one plan with a limit for one route.
fn with_plan(mut policy: Policy, route: usize, limit: Limit) -> Policy {
    let routes = vec![(route, limit)];
    policy.plans = vec![Plan {
        id: name("plan"),
        limit: Limit::UNLIMITED,
        class: None,
        routes,
    }];
    policy
        .tenants
        .iter_mut()
        .for_each(|tenant| tenant.plan = Some(0));
    policy
}

/// The real thing and the model, side by side.
struct Pair {
    hull: Hull,
    naive: Naive,
    snapshots: Vec<Arc<Snapshot>>,
    held: Vec<(u64, Permits<Here>)>,
    waiting: Vec<(u64, Waiting<Here>)>,
    cache: CellCache,
    next: u64,
    now_us: u64,
}

fn answer<T>(result: &Result<T, Refusal>) -> Answer {
    match result {
        Ok(_) => Answer::Admitted,
        Err(refusal) => Answer::Refused(refusal.rejection, refusal.key.to_string()),
    }
}

impl Pair {
    fn new(shape: &Shape) -> Self {
        let (hull, mut naive) = (Hull::new(), Naive::default());
        let policy = shape.policy();
        let snapshots = vec![Snapshot::of(&hull, &policy)];
        naive.tick(1);
        naive.apply(&policy);
        let (held, waiting) = (Vec::new(), Vec::new());
        Self {
            hull,
            naive,
            snapshots,
            held,
            waiting,
            cache: CellCache::new(),
            next: 0,
            now_us: 1,
        }
    }

    fn tick(&mut self, us: u64) {
        self.now_us += us;
        self.naive.tick(self.now_us);
        for snapshot in &self.snapshots {
            snapshot.clock.store(self.now_us, Ordering::Relaxed);
        }
    }

    fn enter(
        &mut self,
        route: usize,
        tenant: Option<u32>,
        class: Class,
        (old, stream): (bool, bool),
        left_us: Option<u64>,
    ) {
        let back = if old { 2 } else { 1 };
        let at = self.snapshots.len().saturating_sub(back);
        let snapshot = Arc::clone(&self.snapshots[at]);
        let streams = snapshot.fittings.streams.get(route);
        if streams.is_none_or(|streams| stream && streams.is_none()) {
            return;
        }
        let tenant = tenant.map(|n| n.min(u32::try_from(snapshot.policy.tenants.len()).unwrap()));
        let mut caller = tenant.map_or(ANYBODY, |tenant| snapshot.caller(route, tenant));
        caller.class = class;
        caller.until_us = left_us.map(|left_us| self.now_us + left_us);
        let mean_hold_us = snapshot.fittings.passages[route].route().mean_hold_us();
        let id = self.next;
        self.next += 1;
        let expected =
            self.naive
                .enter(id, &snapshot.policy, route, caller, (mean_hold_us, stream));
        let entry = if stream {
            snapshot.ask_stream(route, caller, &mut self.cache)
        } else {
            snapshot.ask(route, caller, &mut self.cache)
        };
        let seen = match entry {
            Entry::Admitted(permits) => {
                self.held.push((id, permits));
                Answer::Admitted
            }
            Entry::Waiting(waiting) => {
                self.waiting.push((id, waiting));
                Answer::Waits
            }
            Entry::Refused(refusal) => Answer::Refused(refusal.rejection, refusal.key.to_string()),
        };
        assert_eq!(seen, expected);
    }

    /// Refused, it is dropped, as a gateway does.
    fn move_to(&mut self, which: usize, sheddable: bool) {
        let at = which % self.held.len();
        let here = self.held[at].1.lane().clone();
        if here.snapshot.fittings.streams[here.route].is_none() {
            return;
        }
        let (id, mut permits) = self.held.swap_remove(at);
        let moved = permits.move_to(here.snapshot.lane(here.route, true), sheddable);
        assert_eq!(answer(&moved), self.naive.move_to(id, sheddable));
        if moved.is_ok() {
            self.held.push((id, permits));
        } else {
            drop(permits);
            self.naive.leave(id);
        }
    }

    fn poll(&mut self, which: usize) {
        let (id, mut waiting) = self.waiting.swap_remove(which % self.waiting.len());
        let mut context = Context::from_waker(Waker::noop());
        let seen = std::pin::Pin::new(&mut waiting);
        match std::future::Future::poll(seen, &mut context) {
            Poll::Pending => {
                assert_eq!(self.naive.settle(id), Answer::Waits);
                self.waiting.push((id, waiting));
            }
            Poll::Ready(result) => self.end(id, result, None),
        }
    }

    fn end(&mut self, id: u64, result: Result<Permits<Here>, Refusal>, why: Option<Rejection>) {
        let expected = match why {
            Some(why) => self.naive.give_up(id, why),
            None => self.naive.settle(id),
        };
        assert_eq!(answer(&result), expected);
        if let Ok(permits) = result {
            self.held.push((id, permits));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Enter {
                route,
                tenant,
                class,
                old,
                left_us,
                stream,
            } => self.enter(route, tenant, class, (old, stream), left_us),
            Step::Move { which, sheddable } if !self.held.is_empty() => {
                self.move_to(which, sheddable);
            }
            Step::Tick { us } => self.tick(us),
            Step::Leave { which } if !self.held.is_empty() => {
                let (id, permits) = self.held.swap_remove(which % self.held.len());
                drop(permits);
                self.naive.leave(id);
            }
            Step::Poll { which } if !self.waiting.is_empty() => self.poll(which),
            Step::GiveUp { which } if !self.waiting.is_empty() => {
                let (id, waiting) = self.waiting.swap_remove(which % self.waiting.len());
                let why = Rejection::QueueTimeout;
                self.end(id, waiting.give_up(why), Some(why));
            }
            Step::Abandon { which } if !self.waiting.is_empty() => {
                let (id, waiting) = self.waiting.swap_remove(which % self.waiting.len());
                drop(waiting);
                self.naive.abandon(id);
            }
            Step::Leave { .. }
            | Step::Move { .. }
            | Step::Poll { .. }
            | Step::GiveUp { .. }
            | Step::Abandon { .. } => {}
            Step::Apply(shape) => {
                let policy = shape.policy();
                self.snapshots
                    .push(Snapshot::at(&self.hull, &policy, self.now_us));
                self.naive.apply(&policy);
            }
        }
        self.compare();
    }

    fn compare(&self) {
        identities(&self.hull);
        assert_eq!(self.hull.spare(), self.naive.spare());
        let snapshot = &self.snapshots[self.snapshots.len() - 1];
        for (route, passage) in snapshot
            .policy
            .routes
            .iter()
            .zip(&snapshot.fittings.passages)
        {
            let balance = passage.credit(self.now_us).unwrap();
            let key = format!("route/{}", route.id);
            let seen = (balance.slot_ms, balance.full_slot_ms);
            assert_eq!(seen, self.naive.credit_ms(&key));
        }
        let mut seen = 0;
        for figures in self.hull.figures(self.now_us) {
            seen += 1;
            let expected = self.naive.figures(&figures);
            assert_eq!(figures, expected);
        }
        assert_eq!(seen, self.naive.compartments(), "compartments reported");
    }
}

proptest! {
    #[test]
    fn the_hull_does_what_the_naive_model_does(
        shape in any_shape(),
        steps in vec(any_step(), 1..120),
    ) {
        let mut pair = Pair::new(&shape);
        pair.compare();
        for step in steps {
            pair.step(step);
        }
        pair.waiting.clear();
        pair.held.clear();
        all_returned(&pair.hull);
    }
}
