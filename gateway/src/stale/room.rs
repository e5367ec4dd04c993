//! Room for the copies that are under way.
//!
//! Separate because a copy takes memory before anybody knows whether it will be stored, and as
//! many are under way as answers are: without a bound of their own they would be the larger part
//! of the store. It must never wait: without room an answer passes uncopied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// All copies under way in one process.
pub(crate) const COPIES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Those of one tenant, where there are tenants.
pub(crate) const OWNER_COPIES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Counts that owners share by their hash: a bound on the memory of the bound.
const PLACES: usize = 64;

/// What is taken.
#[derive(Debug)]
pub(crate) struct Rooms(Arc<Taken>);

#[derive(Debug)]
struct Taken {
    all: AtomicUsize,
    of_owners: [AtomicUsize; PLACES],
    given_up: AtomicU64,
}

/// What one copy has taken. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Room {
    taken: Arc<Taken>,
    place: Option<usize>,
    bytes: usize,
    is_done: bool,
}

impl Default for Rooms {
    fn default() -> Self {
        Self(Arc::new(Taken {
            all: AtomicUsize::new(0),
            of_owners: [const { AtomicUsize::new(0) }; PLACES],
            given_up: AtomicU64::new(0),
        }))
    }
}

impl Rooms {
    /// Room for a copy of the owner with this hash; `None`: of the only one.
    pub(crate) fn begin(&self, owner: Option<u64>) -> Room {
        let place = owner.map(|hash| hash % (PLACES as u64));
        Room {
            taken: Arc::clone(&self.0),
            place: place.and_then(|place| usize::try_from(place).ok()),
            bytes: 0,
            is_done: false,
        }
    }

    /// Copies that came to nothing: too large, cut before their end, or without room.
    pub(crate) fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// One that was whole and had no place in the store.
    pub(crate) fn give_up(&self) {
        self.0.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes under way.
    pub(crate) fn bytes(&self) -> usize {
        self.0.all.load(Ordering::Relaxed)
    }
}

impl Room {
    /// Takes so much more; false: there is none, and nothing is taken.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        if !take(&self.taken.all, bytes, COPIES_BYTES_MAX) {
            return false;
        }
        let of_owner = self.of_owner();
        if of_owner.is_some_and(|count| !take(count, bytes, OWNER_COPIES_BYTES_MAX)) {
            self.taken.all.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// The copy is whole.
    pub(crate) const fn done(&mut self) {
        self.is_done = true;
    }

    fn of_owner(&self) -> Option<&AtomicUsize> {
        self.place.and_then(|place| self.taken.of_owners.get(place))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.taken.all.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(count) = self.of_owner() {
            count.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        if !self.is_done {
            self.taken.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts are added before they are looked at: two that meet at the bound may both be told no,
/// and never both yes.
fn take(count: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let before = count.fetch_add(bytes, Ordering::Relaxed);
    let fits = before.saturating_add(bytes) <= most;
    if !fits {
        count.fetch_sub(bytes, Ordering::Relaxed);
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_fills_its_part_and_leaves_the_rest() {
        let rooms = Rooms::default();
        let mut of = |owner| {
            let mut kept = Vec::new();
            loop {
                let mut room = rooms.begin(Some(owner));
                if !room.grow(1024 * 1024) {
                    return kept;
                }
                kept.push(room);
            }
        };
        let first = of(1);
        assert_eq!(first.len(), 4);
        let others: Vec<_> = (2..9).flat_map(&mut of).collect();
        assert_eq!((others.len(), rooms.bytes()), (12, COPIES_BYTES_MAX));
        assert!(!rooms.begin(None).grow(1));
        drop((first, others));
        assert_eq!(rooms.bytes(), 0);
        assert!(rooms.begin(Some(1)).grow(OWNER_COPIES_BYTES_MAX));
        assert!(rooms.begin(None).grow(COPIES_BYTES_MAX));
    }

    #[test]
    fn what_comes_to_nothing_is_counted() {
        let rooms = Rooms::default();
        let mut whole = rooms.begin(None);
        assert!(whole.grow(5));
        whole.done();
        drop(whole);
        assert_eq!((rooms.given_up(), rooms.bytes()), (0, 0));
        drop(rooms.begin(None));
        assert_eq!(rooms.given_up(), 1);
    }
}
