//! The entry of a request: all levels or none, in one order.
//!
//! Separate because the order is the contract: tenant, tenant on this route, route, upstream,
//! gateway. The first that refuses is the reason, and only there it counts. On the way up no
//! lock is taken, nothing is awaited, allocated or formatted, but for a tenant's first request
//! on a route and for a request that has to wait.

use std::sync::Arc;

use crate::cells::{Cell, CellCache};
use crate::compartment::rejection;
use crate::passage::{Caller, Lane, moment};
use crate::permits::Permits;
use crate::queue::Ticket;
use crate::route::{Ask, Step};
use crate::share;
use crate::stats::Stats;
use crate::waiting::Waiting;
use crate::word::{NoSlot, Picture};
use crate::{Class, Level, Limit, Moment, Rejection};

/// How often a tenant's request looks again for its share while others of the same tenant are
/// between two levels and may turn back. Bounded: then it is refused.
const SHARE_LOOKS_MAX: u32 = if cfg!(loom) { 1 } else { 64 };

/// What became of a request.
#[must_use = "an admitted request holds permits, a waiting one a place"]
#[derive(Debug)]
pub enum Entry<L: Lane> {
    /// It holds a permit of every level.
    Admitted(Permits<L>),
    /// It holds nothing.
    Refused(Refusal),
    /// It holds its tenant permits and a place in its route's line.
    Waiting(Waiting<L>),
}

/// A refusal, with what an answer says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub rejection: Rejection,
    /// Where.
    pub level: Level,
    /// The key of the compartment that refused.
    pub key: Arc<str>,
    /// The limit of that compartment.
    pub limit: Limit,
    /// The mean time a permit is held there, in microseconds; 0 when not yet measured. Of an open
    /// breaker the time until it may be asked again.
    pub drain_us: u64,
}

/// Where a climb ended when nothing refused.
pub(crate) enum Climb {
    Top,
    Waits(Ticket),
}

/// Asks every level for a slot.
pub fn enter<L: Lane>(lane: L, caller: Caller, cache: &mut CellCache) -> Entry<L> {
    let mut permits = Permits::none(lane);
    match permits.climb(caller, cache) {
        Ok(Climb::Top) => Entry::Admitted(permits),
        Ok(Climb::Waits(ticket)) => Entry::Waiting(Waiting::new(permits, ticket)),
        Err(refusal) => Entry::Refused(refusal),
    }
}

/// A breaker lets nothing through for so long: a refusal of the dependency alone, before any
/// level was asked.
pub fn refuse_by_breaker<L: Lane>(lane: &L, wait_us: u64) -> Refusal {
    let at = &lane.passage().upstream;
    let why = Rejection::BreakerOpen;
    let refusal = refused(
        moment(lane),
        &at.stats,
        at.key(),
        at.level(),
        at.limit(),
        why,
    );
    Refusal {
        drain_us: wait_us,
        ..refusal
    }
}

impl<L: Lane> Permits<L> {
    fn climb(&mut self, caller: Caller, cache: &mut CellCache) -> Result<Climb, Refusal> {
        self.enter_tenant(caller, cache)?;
        let sheddable = caller.class == Class::Sheddable;
        let passage = self.lane.passage();
        let tenant = self.tenant.and_then(|index| self.lane.tenant(index));
        let ask = Ask {
            tenant: tenant.map_or(0, |tenant| tenant.id),
            sheddable,
            class_reserve: passage.class_reserve,
            queue_max: passage.queue_max,
            until_us: caller.until_us.unwrap_or(u64::MAX),
        };
        let why = match passage.route.enter(moment(&self.lane), ask) {
            Step::Slot(before) => {
                self.route = true;
                return self.finish(before, sheddable).map(|()| Climb::Top);
            }
            Step::Waits(ticket) => return Ok(Climb::Waits(ticket)),
            Step::NoSpare => return Err(self.no_spare()),
            Step::Full => rejection(passage.route.slots.level(), NoSlot::Full),
            Step::Closed => Rejection::Closed,
            Step::ClassReserve => Rejection::ClassReserve,
            Step::QueueFull => Rejection::QueueFull,
            Step::TooLate => Rejection::DeadlineTooShort,
        };
        Err(self.refuse_here(why))
    }

    /// The two tenant levels, for a caller that has them.
    fn enter_tenant(&mut self, caller: Caller, cache: &mut CellCache) -> Result<(), Refusal> {
        let Some(index) = caller.tenant else {
            return Ok(());
        };
        let Some(tenant) = self.lane.tenant(index) else {
            return Ok(());
        };
        let at = moment(&self.lane);
        if let Err(why) = tenant.enter(at) {
            let why = rejection(Level::Tenant, why);
            let used = tenant.used();
            return Err(refused(
                at,
                &used.stats,
                &used.key,
                Level::Tenant,
                tenant.limit(),
                why,
            ));
        }
        self.tenant = Some(index);
        let passage = self.lane.passage();
        // Where limits are watched every tenant has a part, so that there is a number of its own
        // calls of which so many would have been refused.
        let parted = caller.route_limit.is_some() || passage.share.is_some();
        if !parted && !passage.home.ghosts.terms().watch() {
            return Ok(());
        }
        let limit = caller.route_limit.unwrap_or(Limit::UNLIMITED);
        let lax = passage.home.word().load().is_lax();
        let cells = &passage.home.cells;
        let (cell, entered) = cells.enter(tenant, (limit, lax), cache, at);
        if let Err(why) = entered {
            // A closed route speaks for itself: its tenants' parts mean nothing then.
            return Err(if passage.route.word().load().is_closed() {
                self.refuse_here(Rejection::Closed)
            } else {
                refuse_in(at, &cell, rejection(Level::TenantRoute, why))
            });
        }
        if passage.is_of_streams() {
            cell.begin_stream();
        }
        // Asked before the route, so that a tenant at its share takes no slot even for an
        // instant. Not of a closed one either.
        let now = passage.route.word().load();
        let most = passage.share.and_then(|share| share::most_of(share, now));
        let refused = !now.is_closed() && most.is_some_and(|most| cell.calls() > most);
        let refused = refused.then(|| refuse_in(at, &cell, Rejection::TenantShare));
        self.cell = Some(cell);
        refused.map_or(Ok(()), Err)
    }

    /// From a slot of the route to the top; `before` is the route's word without it.
    pub(crate) fn finish(&mut self, before: Picture, sheddable: bool) -> Result<(), Refusal> {
        self.check_share(before)?;
        let at = moment(&self.lane);
        let passage = self.lane.passage();
        if let Err(why) = passage.upstream.enter(at) {
            return Err(self.refuse(Level::Upstream, rejection(Level::Upstream, why)));
        }
        self.upstream = true;
        if let Err(why) = passage.gateway.enter(at) {
            // Every partition had let it through: the isolation between them is nominal here.
            passage.gateway.stats.count_nominal();
            return Err(self.refuse(Level::Gateway, rejection(Level::Gateway, why)));
        }
        self.gateway = true;
        let judged = self.judge(sheddable);
        self.count_admitted();
        self.count_unenforced(judged.refused, judged.candidate_refused);
        Ok(())
    }

    /// At most `max(1, floor(share x free))` of the route for one tenant.
    ///
    /// Exact under races: all who hold a slot of the route entered the tenant's cell before, so
    /// the cell's count read after the last of them took its slot is not below their number.
    fn check_share(&self, before: Picture) -> Result<(), Refusal> {
        let (Some(cell), Some(share)) = (&self.cell, self.lane.passage().share) else {
            return Ok(());
        };
        let Some(most) = share::most_of(share, before) else {
            return Ok(());
        };
        for _ in 0..SHARE_LOOKS_MAX {
            if cell.calls() <= most {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        Err(refuse_in(moment(&self.lane), cell, Rejection::TenantShare))
    }

    /// Beyond the guarantee and nothing to borrow. The levels below the ceiling go first in the
    /// order of reasons: the dependency when it is full, then the ceiling, then the spare slots.
    pub(crate) fn no_spare(&self) -> Refusal {
        let passage = self.lane.passage();
        let upstream = passage.upstream.word.0.load();
        if upstream.is_full() {
            return self.refuse(
                Level::Upstream,
                rejection(Level::Upstream, upstream.no_slot()),
            );
        }
        let gateway = passage.gateway.word.0.load();
        let why = if gateway.is_full() {
            rejection(Level::Gateway, gateway.no_slot())
        } else {
            Rejection::SpareExhausted
        };
        self.refuse(Level::Gateway, why)
    }

    /// Counts a refusal of the route itself.
    fn refuse_here(&self, why: Rejection) -> Refusal {
        let refusal = self.refuse(Level::Route, why);
        self.note_candidate();
        refusal
    }

    /// Counts a refusal of one of the shared levels.
    pub(crate) fn refuse(&self, level: Level, why: Rejection) -> Refusal {
        let passage = self.lane.passage();
        let at = match level {
            Level::Upstream => &passage.upstream,
            Level::Gateway => &passage.gateway,
            Level::Route | Level::Stream | Level::Fallback | Level::Tenant | Level::TenantRoute => {
                &passage.route.slots
            }
        };
        let now = moment(&self.lane);
        refused(now, &at.stats, at.key(), at.level(), at.limit(), why)
    }
}

fn refuse_in(at: Moment<'_>, cell: &Cell, why: Rejection) -> Refusal {
    let limit = cell.word.load().limit();
    refused(at, &cell.stats, &cell.key, Level::TenantRoute, limit, why)
}

/// Counted before anything is given back, so that a cell about to be removed has its counts.
fn refused(
    at: Moment<'_>,
    stats: &Stats,
    key: &Arc<str>,
    level: Level,
    limit: Limit,
    why: Rejection,
) -> Refusal {
    stats.reject(at, why);
    Refusal {
        rejection: why,
        level,
        key: Arc::clone(key),
        limit,
        drain_us: stats.mean_hold_us(),
    }
}
