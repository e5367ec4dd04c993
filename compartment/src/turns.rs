//! Whose turn it is: round robin between tenants, in order within each.
//!
//! Separate because it is pure: no lock, no clock, no waker. It holds a group for each tenant
//! that has a place and none for any other, so its memory is bounded by the places alone. It must
//! never look through all places: every step costs the logarithm of their number.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something with a number that only rises.
pub(crate) trait Numbered {
    fn number(&self) -> u64;
}

/// The places of one tenant, oldest first.
#[derive(Debug)]
struct Group<T> {
    tenant: u64,
    places: VecDeque<T>,
}

/// Places grouped by tenant. Turn numbers come from the owner and only rise.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// By their next turn.
    groups: BTreeMap<u64, Group<T>>,
    /// The next turn of each tenant that has a place.
    turn_of: BTreeMap<u64, u64>,
    /// Number of places and turn of each group.
    sizes: BTreeSet<(usize, u64)>,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
            turn_of: BTreeMap::new(),
            sizes: BTreeSet::new(),
        }
    }
}

impl<T: Numbered> Turns<T> {
    /// A place behind those of the same tenant; a tenant without one comes after all others.
    pub(crate) fn join(&mut self, tenant: u64, turn_if_new: u64, place: T) {
        let turn = *self.turn_of.entry(tenant).or_insert(turn_if_new);
        let group = self.groups.entry(turn).or_insert_with(|| Group {
            tenant,
            places: VecDeque::new(),
        });
        let before = group.places.len();
        group.places.push_back(place);
        self.resized(turn, before, before + 1);
    }

    /// The turn that comes first, and the place that has it: the tenant's oldest or its newest.
    pub(crate) fn first(&self, newest: bool) -> Option<(u64, &T)> {
        let (turn, group) = self.groups.first_key_value()?;
        let place = if newest {
            group.places.back()
        } else {
            group.places.front()
        };
        place.map(|place| (*turn, place))
    }

    /// How many places this tenant has.
    pub(crate) fn places_of(&self, tenant: u64) -> usize {
        let group = self
            .turn_of
            .get(&tenant)
            .and_then(|turn| self.groups.get(turn));
        group.map_or(0, |group| group.places.len())
    }

    /// The most places that one tenant has, and its turn; of equals the one whose turn is last.
    pub(crate) fn largest(&self) -> Option<(usize, u64)> {
        self.sizes.last().copied()
    }

    /// Takes one place out; the tenant keeps its turn.
    pub(crate) fn take(&mut self, turn: u64, newest: bool) -> Option<T> {
        let group = self.groups.get_mut(&turn)?;
        let before = group.places.len();
        let place = if newest {
            group.places.pop_back()
        } else {
            group.places.pop_front()
        };
        self.shrunk(turn, before);
        place
    }

    /// The tenant has had its turn, and its next one is `next`.
    pub(crate) fn had_turn(&mut self, turn: u64, next: u64) {
        let Some(group) = self.groups.remove(&turn) else {
            return;
        };
        let size = group.places.len();
        self.sizes.remove(&(size, turn));
        self.sizes.insert((size, next));
        self.turn_of.insert(group.tenant, next);
        self.groups.insert(next, group);
    }

    /// The place of this number.
    pub(crate) fn find(&mut self, tenant: u64, number: u64) -> Option<&mut T> {
        let group = self.groups.get_mut(self.turn_of.get(&tenant)?)?;
        let at = group.places.binary_search_by_key(&number, T::number).ok()?;
        group.places.get_mut(at)
    }

    /// Takes the place of this number out.
    pub(crate) fn withdraw(&mut self, tenant: u64, number: u64) -> Option<T> {
        let turn = *self.turn_of.get(&tenant)?;
        let group = self.groups.get_mut(&turn)?;
        let at = group.places.binary_search_by_key(&number, T::number).ok()?;
        let before = group.places.len();
        let place = group.places.remove(at);
        self.shrunk(turn, before);
        place
    }

    /// After one place was taken out of a group that had `before`.
    fn shrunk(&mut self, turn: u64, before: usize) {
        let after = before.saturating_sub(1);
        self.resized(turn, before, after);
        if after == 0
            && let Some(gone) = self.groups.remove(&turn)
        {
            self.turn_of.remove(&gone.tenant);
        }
    }

    fn resized(&mut self, turn: u64, before: usize, after: usize) {
        self.sizes.remove(&(before, turn));
        if after > 0 {
            self.sizes.insert((after, turn));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    impl Numbered for u64 {
        fn number(&self) -> u64 {
            *self
        }
    }

    /// Turns with these places, and the next turn.
    fn turns(places: &[(u64, u64)]) -> (Turns<u64>, u64) {
        let mut turns = Turns::default();
        for (turn, (tenant, number)) in (0..).zip(places) {
            turns.join(*tenant, turn, *number);
        }
        (turns, places.len() as u64)
    }

    /// The order in which all places have their turn.
    fn order(places: &[(u64, u64)], newest: bool) -> Vec<u64> {
        let (mut turns, mut next) = turns(places);
        std::iter::from_fn(|| {
            let (turn, _) = turns.first(newest)?;
            let place = turns.take(turn, newest);
            turns.had_turn(turn, next);
            next += 1;
            place
        })
        .collect()
    }

    #[test]
    fn tenants_take_turns_and_each_keeps_its_order() {
        let flood = [(1, 0), (1, 1), (1, 2), (1, 3), (2, 4), (3, 5), (2, 6)];
        assert_eq!(order(&flood, false), [0, 4, 5, 1, 6, 2, 3]);
        assert_eq!(order(&flood, true), [3, 6, 5, 2, 4, 1, 0]);
        let one = [(7, 0), (7, 1), (7, 2)];
        assert_eq!(order(&one, false), [0, 1, 2]);
        assert_eq!(order(&one, true), [2, 1, 0]);
    }

    #[test]
    fn nothing_is_kept_of_a_tenant_without_a_place() {
        let (mut turns, _) = turns(&[(1, 0), (2, 1), (1, 2)]);
        assert_eq!(turns.largest(), Some((2, 0)));
        assert_eq!((turns.places_of(1), turns.places_of(9)), (2, 0));
        assert_eq!(turns.withdraw(1, 2), Some(2));
        assert_eq!(turns.withdraw(1, 2), None);
        assert_eq!(turns.find(2, 1), Some(&mut 1));
        assert_eq!(turns.withdraw(1, 0), Some(0));
        assert_eq!(turns.take(1, true), Some(1));
        assert_eq!(turns.largest(), None);
        assert!(turns.groups.is_empty() && turns.turn_of.is_empty() && turns.sizes.is_empty());
    }
}
