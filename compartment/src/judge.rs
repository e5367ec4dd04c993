//! What limits that are not enforced say of a request.
//!
//! Separate from the entry, which it never changes: a request that a shadow limit or a candidate
//! would have refused goes on as if nobody had asked. Refusals are counted at the route and at
//! the tenant's part of it, so that "how much of acme's calls" has an answer. It must never
//! refuse.

use crate::cells::CellCache;
use crate::compartment::rejection;
use crate::ghost::{Judgement, Question};
use crate::passage::{Lane, moment};
use crate::permits::Permits;
use crate::stats::Stats;
use crate::word::NoSlot;
use crate::{Mode, Rejection};

impl<L: Lane> Permits<L> {
    /// Asks the ghosts, once the route has given a slot. Without a cache only the tenant's cell
    /// that is held anyway is told.
    pub(crate) fn judge(&mut self, sheddable: bool, cache: Option<&mut CellCache>) {
        let passage = self.lane.passage();
        let judged = passage.route.ghosts.terms().mode == Mode::Shadow;
        let held = self.cell.as_ref().map(|cell| {
            let cap = cell.word.load().limit();
            cell.ghost.enter(judged, cap)
        });
        let capped = held == Some(None);
        let held = held.flatten();
        let judgement = self.ask_ghosts(sheddable, held, capped);
        let capped = capped.then_some(Rejection::TenantRouteFull);
        let refused = capped.or(judgement.refused);
        self.cell_shade = held.is_some() && refused.is_none();
        if let (Some(cell), Some(_), Some(_)) = (&self.cell, held, refused) {
            cell.ghost.leave();
        }
        self.count_unenforced(refused, judgement.candidate_refused, cache);
    }

    /// Asks the ghosts of the route alone; `held` is the tenant's count with this request.
    pub(crate) fn ask_ghosts(
        &mut self,
        sheddable: bool,
        held: Option<u32>,
        capped: bool,
    ) -> Judgement {
        let passage = self.lane.passage();
        let judgement = passage.route.ghosts.enter(Question {
            sheddable,
            class_reserve: passage.class_reserve,
            share: passage.share.zip(held),
            capped,
            full: rejection(passage.route.slots.level(), NoSlot::Full),
        });
        self.shades = judgement.shades;
        judgement
    }

    /// The live limit refuses; what would the candidate do?
    pub(crate) fn note_candidate(&self, cache: &mut CellCache) {
        let full = self.lane.passage().route.ghosts.candidate_is_full();
        self.count_unenforced(None, full, Some(cache));
    }

    pub(crate) fn count_unenforced(
        &self,
        refused: Option<Rejection>,
        by_candidate: bool,
        cache: Option<&mut CellCache>,
    ) {
        if refused.is_none() && !by_candidate {
            return;
        }
        let count = |stats: &Stats| {
            if let Some(why) = refused {
                stats.reject_in_shadow(why);
            }
            if by_candidate {
                stats.reject_as_candidate();
            }
        };
        let passage = self.lane.passage();
        count(&passage.route.slots.stats);
        let tenant = self.tenant.and_then(|index| self.lane.tenant(index));
        match (&self.cell, tenant, cache) {
            (Some(cell), _, _) => count(&cell.stats),
            (None, Some(tenant), Some(cache)) => {
                let cells = &passage.home.cells;
                cells.note(tenant, cache, moment(&self.lane), count);
            }
            (None, _, _) => {}
        }
    }
}
