//! Proof of admission: what a request holds of the five levels.
//!
//! Separate because its drop is the only way back. Whatever was taken is given back in the
//! reverse order, the ceiling first: so the ceiling never counts more than the routes do, and
//! a route's guarantee always finds room below it. It must never offer a `release`.

use std::fmt;
use std::sync::Arc;

use crate::cells::Cell;
use crate::ghost::Shades;
use crate::passage::{Lane, moment};

/// One request's slots on every level; given back on drop, on unwinding too. Not `Clone`: one
/// entry, one proof.
#[must_use = "dropping the permits gives them back"]
pub struct Permits<L: Lane> {
    pub(crate) lane: L,
    /// The tenant whose slot is held.
    pub(crate) tenant: Option<u32>,
    /// The tenant's cell on the route, where a slot is held.
    pub(crate) cell: Option<Arc<Cell>>,
    pub(crate) route: bool,
    pub(crate) upstream: bool,
    pub(crate) gateway: bool,
    /// What is in the ghosts of the route, while its slot is held.
    pub(crate) shades: Shades,
    /// In the ghost of the cell.
    pub(crate) cell_shade: bool,
    /// In the table of this core.
    pub(crate) place: Option<usize>,
    /// When every level had admitted; 0 before that.
    since_us: u64,
    /// When the slot of the route was exchanged for one of its streams; 0: it was not.
    pub(crate) moved_us: u64,
}

impl<L: Lane> Permits<L> {
    pub(crate) const fn none(lane: L) -> Self {
        Self {
            lane,
            tenant: None,
            cell: None,
            route: false,
            upstream: false,
            gateway: false,
            shades: Shades {
                shadow: false,
                candidate: false,
            },
            cell_shade: false,
            place: None,
            since_us: 0,
            moved_us: 0,
        }
    }

    /// The host's handle.
    pub fn lane(&self) -> &L {
        &self.lane
    }

    /// How long the permits have been held at `now_us`.
    pub fn held_us(&self, now_us: u64) -> u64 {
        match self.since_us {
            0 => 0,
            since_us => now_us.saturating_sub(since_us),
        }
    }

    /// `None` when nothing was admitted.
    fn held_since(&self, since_us: u64) -> Option<u64> {
        (since_us > 0).then(|| self.lane.now_us().saturating_sub(since_us))
    }

    /// Gives the slot of the route back, or of its streams.
    pub(crate) fn leave_route(&self) {
        let held_us = self.held_since(self.since_us.max(self.moved_us));
        let route = &self.lane.passage().route;
        let at = moment(&self.lane);
        held_us.inspect(|held_us| route.slots.stats.complete(at, *held_us));
        route.ghosts.leave(self.shades);
        route.leave(at);
    }

    /// Every level has admitted: now, and only now, it counts on each.
    pub(crate) fn count_admitted(&mut self) {
        let at = moment(&self.lane);
        self.since_us = at.now_us.max(1);
        let passage = self.lane.passage();
        if let Some(tenant) = self.tenant.and_then(|index| self.lane.tenant(index)) {
            tenant.used().stats.admit(at, tenant.in_flight());
        }
        if let Some(cell) = &self.cell {
            cell.stats.admit(at, cell.word.load().in_flight());
        }
        for level in [&passage.route.slots, &*passage.upstream, &*passage.gateway] {
            level.stats.admit(at, level.in_flight());
        }
        self.begin_claim();
    }

    /// The tenant levels hold slots for a request that is not decided yet.
    pub(crate) fn tenant_pending(&self, pending: bool) {
        let at = moment(&self.lane);
        let tenant = self.tenant.and_then(|index| self.lane.tenant(index));
        let stats = [
            tenant.map(|tenant| &tenant.used().stats),
            self.cell.as_deref().map(|cell| &cell.stats),
        ];
        for stats in stats.into_iter().flatten() {
            if pending {
                stats.begin_pending(at);
            } else {
                stats.end_pending(at);
            }
        }
    }
}

impl<L: Lane> Drop for Permits<L> {
    fn drop(&mut self) {
        if !self.end_claim() {
            return;
        }
        let held_us = self.held_since(self.since_us);
        let at = moment(&self.lane);
        let passage = self.lane.passage();
        for (held, level) in [
            (self.gateway, &passage.gateway),
            (self.upstream, &passage.upstream),
        ] {
            if held {
                held_us.inspect(|held_us| level.stats.complete(at, *held_us));
                level.leave(at);
            }
        }
        if self.route {
            self.leave_route();
        }
        if let Some(cell) = &self.cell {
            held_us.inspect(|held_us| cell.stats.complete(at, *held_us));
            if self.cell_shade {
                cell.ghost.leave(passage.is_of_streams());
            }
            if passage.is_of_streams() {
                cell.end_stream();
            }
            cell.leave(at);
        }
        if let Some(tenant) = self.tenant.and_then(|index| self.lane.tenant(index)) {
            held_us.inspect(|held_us| tenant.used().stats.complete(at, *held_us));
            tenant.leave(at);
        }
    }
}

impl<L: Lane> fmt::Debug for Permits<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits")
            .field("tenant", &self.tenant)
            .field("cell", &self.cell.as_ref().map(|cell| &cell.key))
            .field("route", &self.route)
            .field("upstream", &self.upstream)
            .field("gateway", &self.gateway)
            .finish_non_exhaustive()
    }
}
