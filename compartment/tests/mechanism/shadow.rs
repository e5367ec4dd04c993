//! A limit in shadow against the same limit enforced: the same requests in the same order, and
//! what the one counts is what the other refuses, with the same reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::{Caller, CellCache, Class, Entry, Hull, Limit, Mode, Permits, Rejection};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::*;

const TENANTS: [&str; 3] = ["s", "t", "u"];
/// More than any of these routes can ever ask for, with credit to last for good.
const PLENTY: u32 = 100_000;

#[derive(Clone, Debug)]
enum Step {
    Enter {
        tenant: Option<u32>,
        sheddable: bool,
        stream: bool,
    },
    Move(usize),
    Leave(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let tenant = proptest::option::weighted(0.8, 0..3_u32);
    let enter = (tenant, any::<bool>(), proptest::bool::weighted(0.3));
    let enter = enter.prop_map(|(tenant, sheddable, stream)| Step::Enter {
        tenant,
        sheddable,
        stream,
    });
    prop_oneof![
        6 => enter,
        2 => any::<usize>().prop_map(Step::Move),
        3 => any::<usize>().prop_map(Step::Leave),
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        8 => (1_u32..8).prop_map(limit),
        1 => Just(Limit::CLOSED),
        1 => Just(Limit::UNLIMITED),
    ]
}

fn any_route() -> impl Strategy<Value = R> {
    let share = prop_oneof![Just(1_000_000), Just(500_000), Just(300_000)];
    (
        any_limit(),
        any_limit(),
        0_u32..4,
        proptest::option::weighted(0.4, any_limit()),
        proptest::option::weighted(0.4, share),
    )
        .prop_map(|(slots, streams, class_reserve, tenant_limit, share)| R {
            limit: slots,
            reserved: 0,
            streams: Some(streams),
            class_reserve,
            tenant_limit,
            share,
            ..route("a", 0)
        })
}

/// One of two worlds in which the same happens.
struct World {
    hull: Hull,
    snapshot: Arc<Snapshot>,
    cache: CellCache,
    /// By the number of the request; `None`: refused, or gone.
    held: Vec<Option<Permits<Here>>>,
}

impl World {
    fn new(route: R) -> Self {
        let hull = Hull::new();
        let plain = policy(PLENTY, PLENTY, &[Limit::UNLIMITED], &[route]);
        let tenants = TENANTS.map(|id| (id, Limit::UNLIMITED));
        let plain = with_tenants(plain, &tenants, Limit::UNLIMITED);
        let snapshot = Snapshot::of(&hull, &plain);
        Self {
            hull,
            snapshot,
            cache: CellCache::new(),
            held: Vec::new(),
        }
    }

    fn refuses(&mut self, tenant: Option<u32>, sheddable: bool, stream: bool) -> Option<Rejection> {
        let caller = tenant.map_or(ANYBODY, |tenant| self.snapshot.caller(0, tenant));
        let class = [Class::Standard, Class::Sheddable][usize::from(sheddable)];
        let caller = Caller { class, ..caller };
        let entry = if stream {
            self.snapshot.ask_stream(0, caller, &mut self.cache)
        } else {
            self.snapshot.ask(0, caller, &mut self.cache)
        };
        let (permits, why) = match entry {
            Entry::Admitted(permits) => (Some(permits), None),
            Entry::Refused(refusal) => (None, Some(refusal.rejection)),
            Entry::Waiting(_) => panic!("nothing waits here"),
        };
        self.held.push(permits);
        why
    }

    /// A refused one is let go, as a gateway does.
    fn refuses_to_move(&mut self, which: usize) -> Option<Rejection> {
        let lane = self.snapshot.lane(0, true);
        let moved = self.held[which].as_mut()?.move_to(lane, false);
        let why = moved.err().map(|refusal| refusal.rejection);
        if why.is_some() {
            self.held[which] = None;
        }
        why
    }

    fn step(&mut self, step: &Step) -> Option<Rejection> {
        match *step {
            Step::Enter {
                tenant,
                sheddable,
                stream,
            } => self.refuses(tenant, sheddable, stream),
            Step::Move(which) if !self.held.is_empty() => {
                self.refuses_to_move(which % self.held.len())
            }
            Step::Leave(which) if !self.held.is_empty() => {
                let at = which % self.held.len();
                self.held[at] = None;
                None
            }
            Step::Move(_) | Step::Leave(_) => None,
        }
    }

    /// Of the route and its streams: in shadow by reason, and by the candidate.
    fn counted(&self) -> (BTreeMap<Rejection, u64>, u64) {
        let (mut shadow, mut candidate) = (BTreeMap::new(), 0);
        for figures in self.hull.figures(NOW_US) {
            let would: u64 = figures.shadow_rejected.values().sum();
            assert!(would <= figures.arrived, "{figures:?}");
            assert!(figures.candidate_rejected <= figures.arrived, "{figures:?}");
            if ["route/a", "route/a/stream"].contains(&figures.key.as_str()) {
                for (why, count) in figures.shadow_rejected {
                    *shadow.entry(why).or_default() += count;
                }
                candidate += figures.candidate_rejected;
            }
        }
        (shadow, candidate)
    }

    fn end(mut self) {
        self.held.clear();
        all_returned(&self.hull);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn shadow_says_of_each_request_what_enforcing_would_have(
        asked in any_route(),
        steps in vec(any_step(), 1..100),
    ) {
        let mut enforcing = World::new(asked.clone());
        let mut shadow = World::new(asked.mode(Mode::Shadow));
        let (mut refused, _) = shadow.counted();
        for step in &steps {
            let why = enforcing.step(step);
            prop_assert_eq!(shadow.step(step), None, "a shadow refuses nobody");
            if let Some(why) = why {
                *refused.entry(why).or_default() += 1;
            }
            prop_assert_eq!(&shadow.counted().0, &refused, "after {:?}", step);
        }
        enforcing.end();
        shadow.end();
    }

    /// A candidate is judged by its number alone, beside a limit that admits everybody.
    #[test]
    fn a_candidate_counts_what_it_would_have_refused(
        slots in 0..7_u32,
        steps in vec(any_step(), 1..100),
    ) {
        let plain = R {
            limit: Limit::UNLIMITED,
            reserved: 0,
            streams: Some(Limit::UNLIMITED),
            ..route("a", 0)
        };
        let mut enforcing = World::new(R { limit: limit(slots), ..plain.clone() });
        let mut beside = World::new(plain.candidate(slots));
        let mut refused = 0;
        for step in &steps {
            refused += u64::from(enforcing.step(step).is_some());
            prop_assert_eq!(beside.step(step), None);
            prop_assert_eq!(beside.counted().1, refused, "after {:?}", step);
        }
        enforcing.end();
        beside.end();
    }
}

/// What another level refuses would not have been refused by the judged limit in addition.
#[test]
fn who_is_refused_elsewhere_is_none_that_the_judged_limit_refuses() {
    let hull = Hull::new();
    let judged = route("a", 1).mode(Mode::Shadow).candidate(1);
    let narrow = policy(9, 8, &[limit(2)], std::slice::from_ref(&judged));
    let snapshot = Snapshot::of(&hull, &with_tenants(narrow, &[("t", limit(9))], limit(9)));
    let ask = || snapshot.ask(0, snapshot.caller(0, 0), &mut CellCache::new());
    let held = [ask(), ask()].map(|entry| admitted(entry).unwrap());
    for _ in 0..5 {
        let refusal = refused(ask()).unwrap();
        assert_eq!(why(&refusal), ("upstream_full", "upstream/u0"));
    }
    for key in ["route/a", "route/a/tenant/t"] {
        let seen = figures(&hull, key).unwrap();
        let would: u64 = seen.shadow_rejected.values().sum();
        assert_eq!(
            (would, seen.candidate_rejected, seen.arrived),
            (1, 1, 2),
            "{key}"
        );
    }
    drop(held);
    // Nor what no spare slot is left for.
    let snapshot = Snapshot::of(&hull, &policy(9, 0, &[limit(9)], &[judged]));
    let held = admitted(snapshot.anybody(0)).unwrap();
    let refusal = refused(snapshot.anybody(0)).unwrap();
    assert_eq!(why(&refusal), ("spare_exhausted", "gateway"));
    assert_eq!(figures(&hull, "route/a").unwrap().candidate_rejected, 1);
    drop(held);
    all_returned(&hull);
}
