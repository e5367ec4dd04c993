//! What limits that are not enforced say of a request.
//!
//! Separate from the entry, which it never changes: a request that a shadow limit or a candidate
//! would have refused goes on as if nobody had asked. Refusals are counted at the route and at
//! the tenant's part of it, so that "how much of acme's calls" has an answer. It must never
//! refuse, nor count a request where it does not count as arrived: then "n of m" would be false.

use crate::compartment::rejection;
use crate::ghost::{Judgement, Question};
use crate::passage::Lane;
use crate::permits::Permits;
use crate::word::NoSlot;
use crate::{Level, Limit, Mode, Rejection};

impl<L: Lane> Permits<L> {
    /// Asks the ghosts, once every level has given a slot: who is refused elsewhere would have
    /// been refused with the judged limit too, and is none that it would have refused in
    /// addition.
    pub(crate) fn judge(&mut self, sheddable: bool) -> Judgement {
        let passage = self.lane.passage();
        let judged = passage.route.ghosts.terms().mode == Mode::Shadow;
        let stream = passage.is_of_streams();
        let asked = self.cell.as_ref().map(|cell| {
            let cap = cell.word.load().limit();
            let no_slot = match cap {
                Limit::CLOSED => NoSlot::Closed,
                _ => NoSlot::Full,
            };
            let calls = cell.ghost.enter(judged, cap, stream);
            calls.ok_or(rejection(Level::TenantRoute, no_slot))
        });
        let (calls, capped) = asked.map_or((None, None), |asked| (asked.ok(), asked.err()));
        let judgement = self.ask_ghosts(sheddable, calls, capped);
        self.cell_shade = calls.is_some();
        if judgement.refused.is_some() {
            self.leave_cell_ghost(stream);
        }
        judgement
    }

    /// Asks the ghosts of the route alone; `calls` is the tenant's count with this request.
    pub(crate) fn ask_ghosts(
        &mut self,
        sheddable: bool,
        calls: Option<u32>,
        capped: Option<Rejection>,
    ) -> Judgement {
        let passage = self.lane.passage();
        let judgement = passage.route.ghosts.enter(Question {
            sheddable,
            class_reserve: passage.class_reserve,
            share: passage.share.zip(calls),
            capped,
            full: rejection(passage.route.slots.level(), NoSlot::Full),
        });
        self.shades = judgement.shades;
        judgement
    }

    /// Takes out of the tenant's ghost what this request has there.
    pub(crate) fn leave_cell_ghost(&mut self, stream: bool) {
        if let Some(cell) = self.cell.as_ref().filter(|_| self.cell_shade) {
            cell.ghost.leave(stream);
        }
        self.cell_shade = false;
    }

    /// The route's own limit has refused; what would the candidate do? The tenant's part has not
    /// decided, and counts nothing.
    pub(crate) fn note_candidate(&self) {
        let route = &self.lane.passage().route;
        if route.ghosts.candidate_is_full() {
            route.slots.stats.reject_as_candidate();
        }
    }

    /// After the request has counted as admitted.
    pub(crate) fn count_unenforced(&self, refused: Option<Rejection>, by_candidate: bool) {
        if refused.is_none() && !by_candidate {
            return;
        }
        let route = &self.lane.passage().route.slots.stats;
        let cell = self.cell.as_deref().map(|cell| &cell.stats);
        for stats in [Some(route), cell].into_iter().flatten() {
            if let Some(why) = refused {
                stats.reject_in_shadow(why);
            }
            if by_candidate {
                stats.reject_as_candidate();
            }
        }
    }
}
