//! Idle connections of one core, by route and endpoint.
//!
//! Separate because they belong to a route, not to a policy: they stay when a policy changes and
//! go when their time is over. It must never hand a connection to another route, and never keep
//! more than its bounds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;

use compartment::Name;
use compartment::policy::Endpoint;

use super::links::Links;
use super::{Target, Wire};

/// Idle connections of one route to one endpoint on one core. Room for the answers of a busy
/// instant, which all come to rest before the next requests take them up again.
const IDLE_PER_POOL_MAX: usize = 256;
/// Idle connections of one core, over all routes.
pub(crate) const IDLE_PER_CORE_MAX: usize = 1_024;
/// An idle connection is not used after this time: below what common servers wait for (5 s), so
/// that they do not close it in the instant in which it is used again.
const IDLE_US_MAX: u64 = 4_000_000;
/// A connection is not used again after this time, so that a moved name is followed.
const AGE_US_MAX: u64 = 600_000_000;

/// What a route's connections are for. No two of these share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Calls,
    Streams,
    Fallback,
}

/// Whose connections: a route's, for one purpose, to one endpoint.
type Owner = (Name, Purpose, Endpoint);

/// All idle connections of one core.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    by_owner: RefCell<HashMap<Owner, Rc<EndpointPool>>>,
    idle: Rc<Cell<usize>>,
}

impl Pools {
    /// The pool of `route` for this purpose and endpoint: the same one as long as anybody has it.
    pub(crate) fn of(
        &self,
        route: &Name,
        purpose: Purpose,
        target: &Arc<Target>,
    ) -> Rc<EndpointPool> {
        let fresh = || {
            target.pooled(true);
            Rc::new(EndpointPool {
                target: Arc::clone(target),
                links: Links::default(),
                idle: RefCell::default(),
                idle_of_core: Rc::clone(&self.idle),
            })
        };
        let owner = (route.clone(), purpose, target.endpoint.clone());
        let mut by_owner = self.by_owner.borrow_mut();
        let pool = by_owner.entry(owner).or_insert_with(fresh);
        // Spoken to in another way from now on: what is open ends with those who use it.
        if !Arc::ptr_eq(&pool.target, target) {
            *pool = fresh();
        }
        Rc::clone(pool)
    }

    /// Closes what has been idle too long, and forgets pools that no route has any more.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.by_owner.borrow_mut().retain(|_, pool| {
            pool.sweep(now_us);
            Rc::strong_count(pool) > 1
        });
    }
}

/// Idle connections of one route to one endpoint, last in first out.
#[derive(Debug)]
pub(crate) struct EndpointPool {
    pub(crate) target: Arc<Target>,
    /// Where the upstream speaks HTTP/2.
    pub(crate) links: Links,
    idle: RefCell<Vec<Idle>>,
    idle_of_core: Rc<Cell<usize>>,
}

#[derive(Debug)]
struct Idle {
    wire: Box<Wire>,
    since_us: u64,
    _counted: Counted,
}

/// One idle connection of the core's number; dropping it takes it off.
#[derive(Debug)]
struct Counted(Rc<Cell<usize>>);

impl Counted {
    fn new(count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get().saturating_add(1));
        Self(Rc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl Drop for EndpointPool {
    fn drop(&mut self) {
        self.target.pooled(false);
    }
}

impl EndpointPool {
    /// The connection that was used last and is still fit for use.
    pub(crate) fn take(&self, now_us: u64, cx: &mut Context<'_>) -> Option<Box<Wire>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(Idle {
            mut wire, since_us, ..
        }) = idle.pop()
        {
            if is_over(&wire, since_us, now_us) {
                continue;
            }
            // Notices a close, and bytes that nobody asked for.
            wire.poll(cx);
            if wire.is_clean() {
                return Some(wire);
            }
        }
        None
    }

    /// Keeps a connection for the next request, if it is clean and there is room.
    pub(crate) fn give(&self, wire: Box<Wire>, now_us: u64) {
        let mut idle = self.idle.borrow_mut();
        let room = idle.len() < IDLE_PER_POOL_MAX && self.idle_of_core.get() < IDLE_PER_CORE_MAX;
        if room && wire.is_clean() {
            let _counted = Counted::new(&self.idle_of_core);
            idle.push(Idle {
                wire,
                since_us: now_us,
                _counted,
            });
        }
    }

    fn sweep(&self, now_us: u64) {
        self.links.sweep(now_us);
        self.idle
            .borrow_mut()
            .retain(|idle| !is_over(&idle.wire, idle.since_us, now_us));
    }
}

fn is_over(wire: &Wire, since_us: u64, now_us: u64) -> bool {
    let age_us = now_us.saturating_sub(wire.born_us());
    now_us.saturating_sub(since_us) >= IDLE_US_MAX || age_us >= AGE_US_MAX
}
