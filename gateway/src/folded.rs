//! Compartments as metrics show them: tenants summed, but for a bounded number.
//!
//! Separate because a sum whose parts get series of their own must never go down: whoever reads
//! counters takes that for a restart. It must never name more tenants than it was told to.

use std::collections::{BTreeMap, BTreeSet};

use compartment::{Figures, Level};

/// Tenants that have series of their own: the busiest when their turn came, as long as the policy
/// names them.
#[derive(Debug)]
pub(crate) struct Named {
    max: usize,
    /// What each had counted before it was named: that stays with the others.
    before: BTreeMap<String, Figures>,
    /// The sum of it, of those that are gone too.
    kept: Option<Figures>,
}

impl Named {
    pub(crate) const fn new(max: usize) -> Self {
        Self {
            max,
            before: BTreeMap::new(),
            kept: None,
        }
    }
}

/// Gateway, routes and upstreams as they are; tenants as `tenant/_other`, and all tenants of one
/// route as `route/ID/tenant/_other`. There may be 100,000: none is kept but for those named.
#[derive(Debug)]
pub(crate) struct Folded<'a> {
    named: &'a mut Named,
    kept: Vec<Figures>,
    sums: BTreeMap<String, Figures>,
    seen: BTreeSet<String>,
    /// The busiest without a name, and how many may get one.
    next: Vec<Figures>,
    room: usize,
}

const TENANTS: &str = "tenant/_other";

impl<'a> Folded<'a> {
    pub(crate) fn new(named: &'a mut Named) -> Self {
        let room = named.max.saturating_sub(named.before.len());
        Self {
            named,
            kept: Vec::new(),
            sums: BTreeMap::new(),
            seen: BTreeSet::new(),
            next: Vec::new(),
            room,
        }
    }

    pub(crate) fn take(&mut self, figures: Figures) {
        match figures.level {
            Level::Route | Level::Stream | Level::Fallback | Level::Upstream | Level::Gateway => {
                self.kept.push(figures);
            }
            Level::Tenant => self.take_tenant(figures),
            // `route/ID/tenant/ID`: no name has a slash in it.
            Level::TenantRoute => {
                if let Some((before, _)) = figures.key.rsplit_once('/') {
                    let key = format!("{before}/_other");
                    add_to(&mut self.sums, &key, &figures);
                }
            }
        }
    }

    fn take_tenant(&mut self, mut tenant: Figures) {
        if let Some(before) = self.named.before.get(&tenant.key) {
            subtract(&mut tenant, before);
            self.seen.insert(tenant.key.clone());
            return self.kept.push(tenant);
        }
        add_to(&mut self.sums, TENANTS, &tenant);
        if self.room == 0 || tenant.arrived == 0 {
            return;
        }
        let place = self
            .next
            .partition_point(|known| known.arrived >= tenant.arrived);
        if place < self.room {
            self.next.insert(place, tenant);
            self.next.truncate(self.room);
        }
    }

    /// The sum of those whom no policy names any more: all that they counted belongs to the rest.
    pub(crate) fn take_departed(&mut self, departed: &Figures) {
        if departed.arrived > 0 || self.sums.contains_key(TENANTS) {
            add_to(&mut self.sums, TENANTS, departed);
        }
    }

    /// Names whom there is room for. What they counted so far stays in the sum.
    pub(crate) fn finish(mut self) -> Vec<Figures> {
        let Named { before, kept, .. } = &mut *self.named;
        before.retain(|key, before| {
            let is_here = self.seen.contains(key);
            // What it counted in all is among the departed now.
            if let Some(kept) = kept.as_mut().filter(|_| !is_here) {
                subtract(kept, before);
            }
            is_here
        });
        if let Some(kept) = &self.named.kept {
            add_to(&mut self.sums, TENANTS, kept);
        }
        for tenant in self.next {
            if let Some(sum) = self.sums.get_mut(TENANTS) {
                sum.in_flight = sum.in_flight.saturating_sub(tenant.in_flight);
                sum.queued = sum.queued.saturating_sub(tenant.queued);
            }
            let mut own = tenant.clone();
            subtract(&mut own, &tenant);
            self.kept.push(own);
            let before = Figures {
                in_flight: 0,
                queued: 0,
                ..tenant
            };
            match &mut self.named.kept {
                Some(kept) => add(kept, &before),
                kept @ None => *kept = Some(before.clone()),
            }
            self.named.before.insert(before.key.clone(), before);
        }
        self.kept.extend(self.sums.into_values());
        self.kept
    }
}

fn add_to(sums: &mut BTreeMap<String, Figures>, key: &str, figures: &Figures) {
    match sums.get_mut(key) {
        Some(sum) => add(sum, figures),
        None => {
            let sum = Figures {
                key: key.to_owned(),
                ..figures.clone()
            };
            sums.insert(key.to_owned(), sum);
        }
    }
}

fn add(sum: &mut Figures, figures: &Figures) {
    sum.in_flight = sum.in_flight.saturating_add(figures.in_flight);
    sum.queued = sum.queued.saturating_add(figures.queued);
    sum.left_queue = sum.left_queue.saturating_add(figures.left_queue);
    sum.arrived = sum.arrived.saturating_add(figures.arrived);
    sum.admitted = sum.admitted.saturating_add(figures.admitted);
    sum.completed = sum.completed.saturating_add(figures.completed);
    sum.leaked = sum.leaked.saturating_add(figures.leaked);
    sum.hold.merge(&figures.hold);
    sum.wait.merge(&figures.wait);
    let counts = [
        (&mut sum.rejected, &figures.rejected),
        (&mut sum.shadow_rejected, &figures.shadow_rejected),
    ];
    for (total, own) in counts {
        for (reason, count) in own {
            let total = total.entry(*reason).or_default();
            *total = total.saturating_add(*count);
        }
    }
}

/// Takes off what was counted before. The times stay: a tenant's states are not summed up.
fn subtract(figures: &mut Figures, before: &Figures) {
    figures.left_queue = figures.left_queue.saturating_sub(before.left_queue);
    figures.arrived = figures.arrived.saturating_sub(before.arrived);
    figures.admitted = figures.admitted.saturating_sub(before.admitted);
    figures.completed = figures.completed.saturating_sub(before.completed);
    figures.leaked = figures.leaked.saturating_sub(before.leaked);
    figures.hold = figures.hold.since(&before.hold);
    figures.wait = figures.wait.since(&before.wait);
    let counts = [
        (&mut figures.rejected, &before.rejected),
        (&mut figures.shadow_rejected, &before.shadow_rejected),
    ];
    for (own, earlier) in counts {
        for (reason, count) in earlier {
            if let Some(total) = own.get_mut(reason) {
                *total = total.saturating_sub(*count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::figures;

    fn admitted(named: &mut Named, counts: &[(&str, u64)], departed: u64) -> BTreeMap<String, u64> {
        let mut folded = Folded::new(named);
        counts
            .iter()
            .for_each(|(key, count)| folded.take(figures(key, *count)));
        folded.take_departed(&figures("tenant/gone", departed));
        let all = folded.finish();
        all.into_iter()
            .map(|figures| (figures.key, figures.admitted))
            .collect()
    }

    #[test]
    fn the_busiest_are_named_and_the_sum_never_goes_down() {
        let mut named = Named::new(1);
        let all = [("tenant/a", 5), ("tenant/b", 9), ("tenant/c", 0)];
        let first = admitted(&mut named, &all, 0);
        assert_eq!((first["tenant/b"], first["tenant/_other"]), (0, 14));
        // Whoever was named stays named, whoever is busier now.
        let all = [("tenant/a", 50), ("tenant/b", 10), ("tenant/c", 0)];
        let then = admitted(&mut named, &all, 0);
        assert_eq!((then["tenant/b"], then["tenant/_other"]), (1, 59));
        assert_eq!(then.len(), 2);
        // Once it is gone, all that it counted is among the others, and there is room.
        let all = [("tenant/a", 51), ("tenant/c", 0)];
        let gone = admitted(&mut named, &all, 10);
        assert_eq!((gone.len(), gone["tenant/_other"]), (1, 61));
        let last = admitted(&mut named, &all, 10);
        assert_eq!((last["tenant/a"], last["tenant/_other"]), (0, 61));
    }

    #[test]
    fn tenants_of_a_route_are_summed_on_that_route() {
        let mut named = Named::new(5);
        let counts = [("route/a/tenant/t", 1), ("route/a/tenant/u", 2)];
        let all = admitted(&mut named, &counts, 0);
        assert_eq!(
            all,
            BTreeMap::from([("route/a/tenant/_other".to_owned(), 3)])
        );
    }
}
