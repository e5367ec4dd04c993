//! What stands beside a route's own slots: those of its streams, and of its fallback.
//!
//! Separate because both are made of spare slots and guarantee nothing: whatever they hold is
//! borrowed. A side must never take a slot that the route's own calls are guaranteed.

use std::sync::Arc;

use crate::hull::Rosters;
use crate::numbers::{Make, Numbers};
use crate::policy::{self, Policy};
use crate::roster::Roster;
use crate::route::Route;
use crate::spare::Spare;
use crate::sync::OwnLine;
use crate::{Moment, Name};

impl Rosters {
    /// By the index of the route.
    pub(crate) fn streams(
        &mut self,
        policy: &Policy,
        spare: &Arc<OwnLine<Spare>>,
        now_us: u64,
    ) -> Vec<Option<Arc<Route>>> {
        let numbers = |asked: &policy::Route| {
            let limit = asked.compartment.stream?.limit;
            Some(Numbers::of_streams(&asked.compartment, limit))
        };
        let make = self.make(spare, now_us);
        let (sides, last_id) = side(&mut self.streams, policy, make, numbers, Route::of_streams);
        self.next_id = last_id;
        sides
    }

    /// By the index of the route.
    pub(crate) fn fallbacks(
        &mut self,
        policy: &Policy,
        spare: &Arc<OwnLine<Spare>>,
        now_us: u64,
    ) -> Vec<Option<Arc<Route>>> {
        let numbers = |asked: &policy::Route| asked.fallback_limit().map(Numbers::of_fallback);
        let make = self.make(spare, now_us);
        let all = &mut self.fallbacks;
        let (sides, last_id) = side(all, policy, make, numbers, Route::of_fallback);
        self.next_id = last_id;
        sides
    }

    fn make<'a>(&self, spare: &'a Arc<OwnLine<Spare>>, now_us: u64) -> Make<'a> {
        Make {
            id: self.next_id,
            cores: self.cores,
            now_us,
            spare,
        }
    }

    /// All that stand beside a route, also of those that no policy names any more.
    pub(crate) fn sides(&self) -> Vec<Arc<Route>> {
        let both = [self.streams.all(), self.fallbacks.all()];
        let all = both.into_iter().flat_map(|(named, absent)| {
            let named: Vec<_> = named.to_vec();
            named.into_iter().chain(absent)
        });
        all.collect()
    }
}

/// One kind of side for the routes that have numbers for it, and the last number given away.
fn side(
    roster: &mut Roster<Route>,
    policy: &Policy,
    with: Make<'_>,
    numbers: impl Fn(&policy::Route) -> Option<Numbers>,
    of: impl Fn(&Name, Make<'_>) -> Route,
) -> (Vec<Option<Arc<Route>>>, u64) {
    let mut id = with.id;
    let make = |name: &Name| {
        id += 1;
        of(name, Make { id, ..with })
    };
    let having = policy
        .routes
        .iter()
        .filter(|asked| numbers(asked).is_some());
    let sides = roster.name_all(having.map(|asked| &asked.id), make, |_| ());
    let mut sides = sides.iter();
    let of_route = policy.routes.iter().map(|asked| {
        let numbers = numbers(asked)?;
        let side = sides.next()?;
        side.resize(Moment::at(with.now_us), numbers);
        Some(Arc::clone(side))
    });
    (of_route.collect(), id)
}
