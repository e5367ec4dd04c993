//! One part of the store: who has what in it, and who gives way.
//!
//! Separate because it is plain bookkeeping in memory: no lock, no clock and no counts of its own,
//! so that what it promises can be tested as arithmetic. It must never take from one owner for
//! another who has more, nor free memory itself: its caller holds a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::store::{Owner, Slot, Stored};

/// Answers to one target that differ by `Vary`.
pub(super) const VARIANTS_MAX: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) shelves: BTreeMap<Owner, Shelf>,
    /// The same by size, the largest last.
    pub(super) sizes: BTreeSet<(usize, Owner)>,
    pub(super) bytes: usize,
    next: u64,
}

/// The answers of one owner.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    pub(super) by_target: BTreeMap<Arc<[u8]>, Vec<Place>>,
    /// By when they were stored, the oldest first.
    pub(super) order: BTreeMap<u64, Arc<[u8]>>,
    pub(super) bytes: usize,
}

#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    bytes: usize,
    pub(super) stored: Arc<Stored>,
}

impl Shard {
    /// Room for so many bytes of this owner, and what was pushed out for it. `None`: there is none
    /// that would not take a smaller one's, and nothing was pushed out.
    pub(super) fn make_room(
        &mut self,
        slot: &Slot,
        bytes: usize,
        owner_bytes_max: usize,
        bytes_max: usize,
    ) -> Option<Vec<Place>> {
        if bytes > owner_bytes_max || !self.may_fit(slot, bytes, bytes_max) {
            return None;
        }
        let mut evicted = Vec::new();
        evicted.extend(self.remove_variant_too_many(slot));
        loop {
            let own = self.bytes_of(&slot.owner);
            let after = own + bytes;
            if after <= owner_bytes_max && self.bytes + bytes <= bytes_max {
                return Some(evicted);
            }
            // The largest gives way, whoever that is with the newcomer's bytes counted: so one
            // who has no more than its part of the whole never does.
            let largest = self.sizes.last().filter(|(size, _)| *size > after);
            let victim = match largest {
                Some((_, owner)) if after <= owner_bytes_max => Arc::clone(owner),
                Some(_) | None => Arc::clone(&slot.owner),
            };
            evicted.push(self.remove_oldest(&victim)?);
        }
    }

    /// What the owner itself has, and what the others have above as much as is to be stored: with
    /// all of that gone it fits. Asked first, or who cannot be helped would lose its own too.
    fn may_fit(&self, slot: &Slot, bytes: usize, bytes_max: usize) -> bool {
        let missing = (self.bytes + bytes).saturating_sub(bytes_max);
        let mut spare = self.bytes_of(&slot.owner);
        let mut larger_first = self.sizes.iter().rev();
        while spare < missing {
            match larger_first.next() {
                Some((_, owner)) if *owner == slot.owner => {}
                Some((size, _)) if *size > bytes => spare += size - bytes,
                Some(_) | None => return false,
            }
        }
        true
    }

    fn bytes_of(&self, owner: &Owner) -> usize {
        self.shelves.get(owner).map_or(0, |shelf| shelf.bytes)
    }

    pub(super) fn insert(&mut self, slot: &Slot, bytes: usize, stored: Stored) {
        self.next += 1;
        let number = self.next;
        let shelf = self.shelves.entry(Arc::clone(&slot.owner)).or_default();
        self.sizes.remove(&(shelf.bytes, Arc::clone(&slot.owner)));
        let target: Arc<[u8]> = match shelf.by_target.get_key_value(&*slot.target) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::from(&*slot.target),
        };
        let places = shelf.by_target.entry(Arc::clone(&target)).or_default();
        places.push(Place {
            number,
            bytes,
            stored: Arc::new(stored),
        });
        shelf.order.insert(number, target);
        shelf.bytes += bytes;
        self.bytes += bytes;
        self.sizes.insert((shelf.bytes, Arc::clone(&slot.owner)));
    }

    /// Takes the first answer to a target that is so.
    pub(super) fn remove(&mut self, slot: &Slot, is: impl Fn(&Place) -> bool) -> Option<Place> {
        let found = self.places(slot)?.iter().find(|place| is(place))?;
        self.take(&slot.owner, found.number)
    }

    /// The oldest answer to a target that has as many as it may have.
    fn remove_variant_too_many(&mut self, slot: &Slot) -> Option<Place> {
        let places = self.places(slot)?;
        let oldest = places.first().filter(|_| places.len() >= VARIANTS_MAX)?;
        self.take(&slot.owner, oldest.number)
    }

    fn places(&self, slot: &Slot) -> Option<&Vec<Place>> {
        let shelf = self.shelves.get(&slot.owner)?;
        shelf.by_target.get(&*slot.target)
    }

    fn remove_oldest(&mut self, owner: &Owner) -> Option<Place> {
        let (number, _) = self.shelves.get(owner)?.order.first_key_value()?;
        self.take(owner, *number)
    }

    fn take(&mut self, owner: &Owner, number: u64) -> Option<Place> {
        let shelf = self.shelves.get_mut(owner)?;
        let target = shelf.order.remove(&number)?;
        let places = shelf.by_target.get_mut(&target)?;
        let at = places.iter().position(|place| place.number == number)?;
        let place = places.remove(at);
        if places.is_empty() {
            shelf.by_target.remove(&target);
        }
        self.sizes.remove(&(shelf.bytes, Arc::clone(owner)));
        shelf.bytes -= place.bytes;
        self.bytes -= place.bytes;
        if shelf.order.is_empty() {
            self.shelves.remove(owner);
        } else {
            self.sizes.insert((shelf.bytes, Arc::clone(owner)));
        }
        Some(place)
    }

    pub(super) fn sweep(
        &mut self,
        now_us: u64,
        is_known: Option<&dyn Fn(&Owner) -> bool>,
    ) -> Vec<Place> {
        let mut over = Vec::new();
        for (owner, shelf) in &self.shelves {
            let is_gone = is_known.is_some_and(|is_known| !is_known(owner));
            let places = shelf.by_target.values().flatten();
            let ended = places
                .filter(|place| is_gone || place.stored.age_us(now_us) > place.stored.age_us_max);
            over.extend(ended.map(|place| (Arc::clone(owner), place.number)));
        }
        let freed = over
            .iter()
            .filter_map(|(owner, number)| self.take(owner, *number));
        freed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::tests::{slot, stored};
    use super::*;

    /// Three owners with three answers of a thousand bytes each, and room for a thousand more.
    fn shared() -> Shard {
        let mut shard = Shard::default();
        for owner in ["a", "b", "c"] {
            for n in 0..3 {
                shard.insert(&slot(owner, &format!("/{n}")), 1_000, stored("", 0));
            }
        }
        shard
    }

    fn sizes(shard: &Shard) -> [usize; 3] {
        ["a", "b", "c"].map(|name| shard.bytes_of(&slot(name, "").owner))
    }

    #[test]
    fn who_cannot_be_helped_loses_nothing() {
        let mut shard = shared();
        // Not even with all of its own gone: the others have less than is asked for.
        let asked = shard.make_room(&slot("a", "/new"), 8_000, 10_000, 10_000);
        assert!(asked.is_none());
        assert_eq!(sizes(&shard), [3_000; 3]);
        // And with all of its own gone.
        let asked = shard.make_room(&slot("a", "/new"), 4_000, 10_000, 10_000);
        assert_eq!(asked.unwrap().len(), 3);
        assert_eq!(sizes(&shard), [0, 3_000, 3_000]);
    }

    #[test]
    fn who_has_more_gives_way_to_who_comes_new() {
        let mut shard = shared();
        let asked = shard.make_room(&slot("d", "/new"), 2_500, 10_000, 10_000);
        assert_eq!(asked.unwrap().len(), 2);
        assert_eq!((sizes(&shard).iter().sum(), shard.bytes), (7_000, 7_000));
        assert!(sizes(&shard).contains(&3_000));
        let asked = shared().make_room(&slot("d", "/new"), 4_500, 10_000, 10_000);
        assert!(asked.is_none(), "nobody has more than that");
    }
}
