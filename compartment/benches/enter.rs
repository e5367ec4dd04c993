//! What a permit costs: enter and drop, for one level and for all five, one thread and two.
//!
//! Separate from the tests because a time is never asserted there. Clock reads are the host's
//! and are not in it. Run it on a quiet machine: `cargo bench -p bulkhead-compartment`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step ends the benchmark"
)]

use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use compartment::policy::{Value, check};
use compartment::{
    Caller, CellCache, Class, Compartment, Entry, Fittings, Hull, Key, Lane, Limit, Moment,
    Passage, Seat, TenantCompartment, enter,
};
use criterion::{Criterion, criterion_group, criterion_main};

const POLICY: &str = r#"
schema = 1
gateway = { capacity = 1000 }
upstreams.u = { endpoints = ["http://127.0.0.1:1"], limit = 500 }
identify = { by = [{ host = {} }] }
tenants.t = { limit = 500, hosts = ["t.example"] }

[[routes]]
id = "capped"
path = "/capped"
upstream = "u"
compartment = { limit = 500, reserved = 100, tenant_limit = 400 }

[[routes]]
id = "judged"
path = "/judged"
upstream = "u"
compartment = { limit = 400, reserved = 100, mode = "shadow", candidate = 300 }

[[routes]]
id = "full"
path = "/full"
upstream = "u"
compartment = { limit = 1 }
"#;

/// A host as a gateway is one: a handle that counts its own references without atomics.
#[derive(Clone)]
struct Here(Rc<(Arc<Fittings>, usize, Option<Seat>)>);

impl Here {
    fn new(fittings: &Arc<Fittings>, route: usize, seat: Option<Seat>) -> Self {
        Self(Rc::new((Arc::clone(fittings), route, seat)))
    }
}

impl Lane for Here {
    fn passage(&self) -> &Passage {
        &self.0.0.passages[self.0.1]
    }

    fn tenant(&self, index: u32) -> Option<&TenantCompartment> {
        self.0.0.tenants.get(index as usize).map(|tenant| &**tenant)
    }

    fn now_us(&self) -> u64 {
        black_box(1_000_000)
    }

    fn seat(&self) -> Option<&Seat> {
        self.0.2.as_ref()
    }
}

/// Two serving threads may count in cells of their own.
fn fittings() -> (Hull, Arc<Fittings>) {
    let document: Value = toml::from_str(POLICY).unwrap();
    let hull = Hull::with_cores(2);
    let fittings = Arc::new(hull.apply(&check(&document).unwrap(), 1));
    (hull, fittings)
}

fn caller() -> Caller {
    Caller {
        tenant: Some(0),
        class: Class::Standard,
        route_limit: Limit::new(400).ok(),
        until_us: None,
    }
}

fn five(here: &Here, cache: &mut CellCache) {
    match enter(here.clone(), black_box(caller()), cache) {
        Entry::Admitted(permits) => drop(black_box(permits)),
        entry @ (Entry::Refused(_) | Entry::Waiting(_)) => drop(black_box(entry)),
    }
}

/// Runs `beside` on a second thread until `measure` has ended.
fn together(beside: impl Fn() + Send + Sync, measure: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                beside();
            }
        });
        measure();
        stop.store(true, Ordering::Relaxed);
    });
}

fn benches(criterion: &mut Criterion) {
    let one = Compartment::new(&Key::Gateway, Limit::new(500).unwrap());
    let admit = || drop(black_box(one.admit(Moment::at(1))));
    criterion.bench_function("one level, one thread", |bench| bench.iter(admit));
    together(admit, || {
        criterion.bench_function("one level, two threads", |bench| bench.iter(admit));
    });

    let (hull, fittings) = fittings();
    let mut cache = CellCache::new();
    let anybody = Caller {
        tenant: None,
        route_limit: None,
        ..caller()
    };
    // What a serving thread does, what judging adds, and what it costs to share the counts.
    for (name, route, seat) in [
        ("three levels, one thread", 0, hull.seat()),
        ("three levels, judged by two ghosts", 1, hull.seat()),
        ("three levels, counts shared", 0, None),
    ] {
        let here = Here::new(&fittings, route, seat);
        criterion.bench_function(name, |bench| {
            bench.iter(|| {
                drop(black_box(enter(
                    here.clone(),
                    black_box(anybody),
                    &mut cache,
                )))
            });
        });
    }
    let here = Here::new(&fittings, 0, hull.seat());
    criterion.bench_function("five levels, one thread", |bench| {
        bench.iter(|| five(&here, &mut cache));
    });
    let beside = || {
        let (here, mut cache) = (Here::new(&fittings, 0, hull.seat()), CellCache::new());
        (0..1000).for_each(|_| five(&here, &mut cache));
    };
    together(beside, || {
        criterion.bench_function("five levels, two threads", |bench| {
            bench.iter(|| five(&here, &mut cache));
        });
    });

    let full = Here::new(&fittings, 2, None);
    let _held = enter(full.clone(), anybody, &mut cache);
    criterion.bench_function("refused by a full route", |bench| {
        bench.iter(|| {
            drop(black_box(enter(
                full.clone(),
                black_box(anybody),
                &mut cache,
            )))
        });
    });
}

criterion_group!(enter_and_drop, benches);
criterion_main!(enter_and_drop);
