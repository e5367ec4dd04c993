//! Permits that outlived their bound.
//!
//! Separate because it is the one way back beside a permit's drop, and a bug when it is used: the
//! host ends every exchange at its bound. Whoever takes a claim from its owner gives back what
//! the owner held, once; the owner, should it come after all, gives nothing. It must never be
//! called by a request.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::claim::Claim;
use crate::ghost::Shades;
use crate::passage::{Lane, Passage};
use crate::permits::Permits;
use crate::sync::lock;
use crate::{Hull, Moment, Name, TenantCompartment};

/// A permit is overdue so long after its bound.
pub const OVERDUE_US: u64 = 1_000_000;

const CELL: u64 = 1;
const CELL_SHADE: u64 = 2;
const SHADOW: u64 = 4;
const CANDIDATE: u64 = 8;

/// One permit that was taken from its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The key of the route's compartment, or of its streams.
    pub route: Arc<str>,
    /// Whose it was.
    pub tenant: Option<Name>,
    /// How long it was out.
    pub age_us: u64,
}

impl<L: Lane> Permits<L> {
    /// Puts the permits into the table of this core, where the watch finds them.
    pub(crate) fn begin_claim(&mut self) {
        let Some(seat) = self.lane.seat() else {
            return;
        };
        let (passage, since_us) = (self.lane.passage(), self.lane.now_us());
        let tenant = self.tenant.and_then(|index| self.lane.tenant(index));
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let bound_us = passage.hold_us.saturating_add(OVERDUE_US);
        self.place = seat.begin(Claim {
            since_us,
            until_us: since_us.saturating_add(bound_us),
            passage: passage.id,
            tenant: tenant.map_or(0, |tenant| tenant.id),
            flags: flag(self.cell.is_some(), CELL)
                | flag(self.cell_shade, CELL_SHADE)
                | flag(self.shades.shadow, SHADOW)
                | flag(self.shades.candidate, CANDIDATE),
        });
    }

    /// True when the permits are still the owner's to give back.
    pub(crate) fn end_claim(&mut self) -> bool {
        match (self.place.take(), self.lane.seat()) {
            (Some(at), Some(seat)) => seat.end(at),
            (None, _) | (_, None) => true,
        }
    }

    /// The watch has given everything back.
    pub(crate) fn disown(&mut self) {
        (self.tenant, self.cell) = (None, None);
        (self.route, self.upstream, self.gateway) = (false, false, false);
    }
}

impl Passage {
    fn give_back(&self, claim: Claim, tenant: Option<&TenantCompartment>, at: Moment<'_>) {
        let held_us = at.now_us.saturating_sub(claim.since_us);
        for level in [&self.gateway, &self.upstream] {
            level.stats.complete(at, held_us);
            level.stats.leak();
            level.leave(at);
        }
        let route = &self.route;
        route.slots.stats.complete(at, held_us);
        route.slots.stats.leak();
        route.ghosts.leave(Shades {
            shadow: claim.flags & SHADOW != 0,
            candidate: claim.flags & CANDIDATE != 0,
        });
        route.leave(at);
        let Some(tenant) = tenant else { return };
        if claim.flags & CELL != 0
            && let Some(cell) = self.home.cells.find(tenant.name())
        {
            cell.stats.complete(at, held_us);
            cell.stats.leak();
            if claim.flags & CELL_SHADE != 0 {
                cell.ghost.leave(self.is_of_streams());
            }
            if self.is_of_streams() {
                cell.end_stream();
            }
            cell.leave(at);
        }
        tenant.used().stats.complete(at, held_us);
        tenant.used().stats.leak();
        tenant.leave(at);
    }
}

impl Hull {
    /// Takes back every permit that is overdue; to be called about every second.
    pub fn reclaim(&self, now_us: u64) -> Vec<Leak> {
        let mut overdue = false;
        self.seats
            .each_live(&mut |claim| overdue |= now_us > claim.until_us);
        if !overdue {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let rosters = lock(&self.rosters);
        // A claim whose way is forgotten stays its owner's: taken, nobody could give it back.
        let overdue =
            |claim: &Claim| now_us > claim.until_us && rosters.ways.get(claim.passage).is_some();
        self.seats.take_overdue(&overdue, &mut |claim| {
            if let Some(passage) = rosters.ways.get(claim.passage) {
                taken.push((claim, passage.clone()));
            }
        });
        let (named, absent) = rosters.tenants.all();
        drop(rosters);
        // One look through all tenants, after the lock, however many permits are overdue.
        let wanted: BTreeSet<u64> = taken.iter().map(|(claim, _)| claim.tenant).collect();
        let tenants = named.iter().chain(&absent);
        let tenants = tenants.filter(|tenant| wanted.contains(&tenant.id));
        let tenants: HashMap<u64, &Arc<TenantCompartment>> =
            tenants.map(|tenant| (tenant.id, tenant)).collect();
        let leaks = taken.into_iter().map(|(claim, passage)| {
            let tenant = tenants.get(&claim.tenant);
            passage.give_back(claim, tenant.map(|tenant| &***tenant), Moment::at(now_us));
            Leak {
                route: Arc::clone(passage.route().key()),
                tenant: tenant.map(|tenant| tenant.name().clone()),
                age_us: now_us.saturating_sub(claim.since_us),
            }
        });
        leaks.collect()
    }

    /// What those who are in flight now have held so far, by the key of each shared compartment:
    /// together with the holds of those who ended, all that is in flight over time.
    pub fn held_so_far_us(&self, now_us: u64) -> HashMap<Arc<str>, u64> {
        let mut by_way: HashMap<u64, u64> = HashMap::new();
        self.seats.each_live(&mut |claim| {
            let held_us = by_way.entry(claim.passage).or_default();
            *held_us = held_us.saturating_add(now_us.saturating_sub(claim.since_us));
        });
        let mut by_key: HashMap<Arc<str>, u64> = HashMap::new();
        let rosters = lock(&self.rosters);
        for (way, held_us) in by_way {
            let Some(passage) = rosters.ways.get(way) else {
                continue;
            };
            for gauge in [passage.route(), passage.upstream(), passage.gateway()] {
                let sum = by_key.entry(Arc::clone(gauge.key())).or_default();
                *sum = sum.saturating_add(held_us);
            }
        }
        by_key
    }

    /// The ways that permits are out by.
    pub(crate) fn ways_in_use(&self) -> BTreeSet<u64> {
        let mut in_use = BTreeSet::new();
        self.seats.each_live(&mut |claim| {
            in_use.insert(claim.passage);
        });
        in_use
    }

    /// Marks the compartment of this key, one that all tenants share, as leaking or not.
    pub fn suspect_leak(&self, key: &str, suspected: bool) {
        self.each_shared(&mut |compartment| {
            if **compartment.key() == *key {
                compartment.stats.suspect_leak(suspected);
            }
        });
    }
}
