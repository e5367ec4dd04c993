//! A request that turns out to be a stream: its slot of the route for one of the route's streams.
//!
//! Separate from the entry because it happens in the middle of an exchange, to permits that hold
//! every level already: all but the route's keep what they hold. It must never hold less than it
//! may need: the new slot is taken before the old one goes back.

use crate::compartment::rejection;
use crate::enter::Refusal;
use crate::ghost::Shades;
use crate::passage::{Lane, moment};
use crate::permits::Permits;
use crate::route::{Ask, Step};
use crate::word::NoSlot;
use crate::{Level, Rejection};

impl<L: Lane> Permits<L> {
    /// Exchanges the slot of the route for one of its streams. `lane` is the way of the streams
    /// of the same route under the same policy, for a request of this class.
    ///
    /// Refused, the permits are to be dropped: what the request does may not go on as a call.
    pub fn move_to(&mut self, lane: L, sheddable: bool) -> Result<(), Refusal> {
        if self.lane.passage().is_of_streams() {
            return Ok(());
        }
        if !self.end_claim() {
            // Overdue, and taken back: there is nothing left to exchange.
            self.disown();
            return Err(refused_by(&lane, rejection(Level::Stream, NoSlot::Full)));
        }
        // Who would have been refused as a call would not be here to move.
        let would_be_here = self.shades.shadow;
        let ask = Ask {
            tenant: 0,
            sheddable,
            class_reserve: 0,
            queue_max: 0,
            until_us: u64::MAX,
        };
        let (streams, at) = (&lane.passage().route, moment(&lane));
        let mut step = streams.enter(at, ask);
        if matches!(step, Step::NoSpare) && self.give_route() {
            // Perhaps the spare slot that is missing was its own.
            step = streams.enter(at, ask);
        }
        let why = match step {
            Step::Slot(_) => {
                self.give_route();
                self.settle(lane, sheddable, would_be_here);
                return Ok(());
            }
            Step::NoSpare => return Err(self.refuse(Level::Gateway, Rejection::SpareExhausted)),
            Step::Closed => Rejection::Closed,
            // No class reserve and no line, so nothing else can be said.
            Step::Full | Step::ClassReserve | Step::QueueFull | Step::TooLate | Step::Waits(_) => {
                rejection(Level::Stream, NoSlot::Full)
            }
        };
        Err(refused_by(&lane, why))
    }

    /// True when there was one to give.
    fn give_route(&mut self) -> bool {
        let held = std::mem::take(&mut self.route);
        if held {
            self.leave_route();
            self.shades = Shades::default();
        }
        held
    }

    /// The slot of the route is back, and no call may count on the tenant's part of it longer.
    fn settle(&mut self, lane: L, sheddable: bool, would_be_here: bool) {
        if let Some(cell) = &self.cell {
            cell.begin_stream();
        }
        let slots = &lane.passage().route.slots;
        slots.stats.admit(moment(&lane), slots.in_flight());
        self.moved_us = lane.now_us();
        self.route = true;
        self.lane = lane;
        let judged = would_be_here.then(|| self.ask_ghosts(sheddable, None, None));
        let refused = judged.and_then(|judged| judged.refused);
        if refused.is_some() {
            // It would have been let go, not sent on as a call.
            self.leave_cell_ghost(false);
        } else if let Some(cell) = self.cell.as_ref().filter(|_| self.cell_shade) {
            cell.ghost.begin_stream();
        }
        self.begin_claim();
        self.count_unenforced(refused, false);
    }
}

fn refused_by<L: Lane>(lane: &L, why: Rejection) -> Refusal {
    let slots = &lane.passage().route.slots;
    slots.stats.reject(moment(lane), why);
    Refusal {
        rejection: why,
        level: slots.level(),
        key: std::sync::Arc::clone(slots.key()),
        limit: slots.limit(),
        drain_us: slots.mean_hold_us(),
    }
}
