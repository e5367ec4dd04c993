//! Stored answers, by whose they are.
//!
//! Separate because this is where isolation is a matter of memory: an owner is part of where an
//! answer lies, not of a comparison, and what one owner stores takes room from nobody who has no
//! more than its fair part. Everything is counted, keys and fields too. It must never hold its
//! lock while bytes are copied or freed, nor know a policy.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::StatusCode;

use super::room::{Room, Rooms};
use super::shard::Shard;

/// All stored answers of one process.
pub(crate) const STORE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Those of one tenant, where there are tenants.
pub(crate) const OWNER_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Parts of the store, each with its lock and its part of every bound: cores that store at the
/// same time mostly do not meet.
const SHARDS: usize = 16;
/// What an answer takes beside its own bytes, rounded up: places in three trees, counters and
/// the allocator's own.
const ENTRY_EXTRA_BYTES: usize = 512;

/// Whose answers. Two are the same only when every byte is.
pub(crate) type Owner = Arc<[u8]>;

/// Where an answer lies.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) owner: Owner,
    /// Route, upstream, scheme, authority, method, path and query as they are sent.
    pub(crate) target: Box<[u8]>,
    /// More than one owner's part is for all; there is but one owner.
    pub(crate) is_only_owner: bool,
}

/// One stored answer.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) status: StatusCode,
    /// The names that it depends on, and what its request said in them.
    pub(crate) vary: Vec<http::HeaderName>,
    pub(crate) variant: Box<[u8]>,
    /// Its fields, in a form of their own: a map would keep the buffers it was read from.
    pub(crate) fields: Box<[u8]>,
    pub(crate) body: Bytes,
    pub(crate) is_public: bool,
    /// Monotonic; when its head came, and how old it was.
    pub(crate) head_us: u64,
    pub(crate) age_us: u64,
    pub(crate) fresh_us: u64,
    /// Older than this it is never given.
    pub(crate) age_us_max: u64,
}

impl Stored {
    /// How old it is.
    pub(crate) const fn age_us(&self, now_us: u64) -> u64 {
        self.age_us
            .saturating_add(now_us.saturating_sub(self.head_us))
    }

    fn bytes(&self, slot: &Slot) -> usize {
        let names: usize = self.vary.iter().map(|name| name.as_str().len() + 64).sum();
        let own = self.variant.len() + self.fields.len() + self.body.len() + names;
        // The target's bytes lie in both trees.
        own + slot.target.len() + ENTRY_EXTRA_BYTES
    }
}

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) stored: AtomicU64,
    /// Pushed out by newer ones.
    pub(crate) evicted: AtomicU64,
    pub(crate) expired: AtomicU64,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Store {
    shards: Box<[Mutex<Shard>]>,
    spread: RandomState,
    shard_bytes_max: usize,
    owner_bytes_max: usize,
    pub(crate) counts: Counts,
    pub(crate) rooms: Rooms,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(STORE_BYTES_MAX, OWNER_BYTES_MAX)
    }
}

impl Store {
    pub(crate) fn new(bytes_max: usize, owner_bytes_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            spread: RandomState::new(),
            shard_bytes_max: bytes_max / SHARDS,
            owner_bytes_max: owner_bytes_max / SHARDS,
            counts: Counts::default(),
            rooms: Rooms::default(),
        }
    }

    fn shard(&self, slot: &Slot) -> Option<MutexGuard<'_, Shard>> {
        let hash = self.spread.hash_one((&slot.owner, &slot.target));
        let at = usize::try_from(hash % (SHARDS as u64)).unwrap_or(0);
        let shard = self.shards.get(at)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Room for a copy that may come to lie there.
    pub(crate) fn room(&self, slot: &Slot) -> Room {
        let owner = (!slot.is_only_owner).then(|| self.spread.hash_one(&slot.owner));
        self.rooms.begin(owner)
    }

    /// Keeps an answer in the place of the one it replaces.
    pub(crate) fn put(&self, slot: &Slot, stored: Stored) {
        let bytes = stored.bytes(slot);
        let owner_bytes_max = match slot.is_only_owner {
            true => self.shard_bytes_max,
            false => self.owner_bytes_max.min(self.shard_bytes_max),
        };
        let Some(mut shard) = self.shard(slot) else {
            return;
        };
        // Out of date, whether or not there is room for what replaces it.
        let before = shard.remove(slot, |place| {
            place.stored.vary == stored.vary && place.stored.variant == stored.variant
        });
        let evicted = shard.make_room(slot, bytes, owner_bytes_max, self.shard_bytes_max);
        if evicted.is_some() {
            shard.insert(slot, bytes, stored);
        }
        drop(shard);
        match &evicted {
            Some(evicted) => {
                let evicted = u64::try_from(evicted.len()).unwrap_or(u64::MAX);
                self.counts.stored.fetch_add(1, Ordering::Relaxed);
                self.counts.evicted.fetch_add(evicted, Ordering::Relaxed);
            }
            None => self.rooms.give_up(),
        }
        // Not under the lock: this is where memory goes back.
        drop((before, evicted));
    }

    /// The answer that was stored last of those that are for a request with these fields.
    pub(crate) fn find(
        &self,
        slot: &Slot,
        is_for: impl Fn(&Stored) -> bool,
    ) -> Option<Arc<Stored>> {
        let shard = self.shard(slot)?;
        let shelf = shard.shelves.get(&slot.owner)?;
        let places = shelf.by_target.get(&*slot.target)?;
        let newest_first = places.iter().rev();
        let all: Vec<_> = newest_first
            .map(|place| Arc::clone(&place.stored))
            .collect();
        // Not under the lock: comparing reads fields and makes their variant.
        drop(shard);
        all.into_iter().find(|stored| is_for(stored))
    }

    /// How many answers of this route could be given now, and how old the youngest is.
    pub(crate) fn ready(&self, route: &str, age_us_max: u64, now_us: u64) -> (usize, Option<u64>) {
        let begins = [route.as_bytes(), &[0]].concat();
        let (mut count, mut youngest_us) = (0, None::<u64>);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let targets = shard.shelves.values().flat_map(|shelf| &shelf.by_target);
            let of_route = targets.filter(|(target, _)| target.starts_with(&begins));
            for place in of_route.flat_map(|(_, places)| places) {
                let age_us = place.stored.age_us(now_us);
                if age_us <= age_us_max.min(place.stored.age_us_max) {
                    count += 1;
                    youngest_us = Some(youngest_us.map_or(age_us, |known| known.min(age_us)));
                }
            }
        }
        (count, youngest_us)
    }

    /// Every answer to this target is out of date.
    pub(crate) fn forget(&self, slot: &Slot) {
        let Some(mut shard) = self.shard(slot) else {
            return;
        };
        let mut freed = Vec::new();
        while let Some(place) = shard.remove(slot, |_| true) {
            freed.push(place);
        }
        drop(shard);
        drop(freed);
    }

    /// Lets go of everything that is too old, and of every owner that is not known any more.
    pub(crate) fn sweep(&self, now_us: u64, is_known: Option<&dyn Fn(&Owner) -> bool>) {
        let mut expired = 0;
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let freed = shard.sweep(now_us, is_known);
            drop(shard);
            expired += freed.len();
        }
        let expired = u64::try_from(expired).unwrap_or(u64::MAX);
        self.counts.expired.fetch_add(expired, Ordering::Relaxed);
    }

    /// Answers and bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let mut size = (0, 0);
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            size.1 += shard.bytes;
            size.0 += shard
                .shelves
                .values()
                .map(|shelf| shelf.order.len())
                .sum::<usize>();
        }
        size
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::super::shard::VARIANTS_MAX;
    use super::*;

    pub(in super::super) fn slot(owner: &str, target: &str) -> Slot {
        Slot {
            owner: Arc::from(owner.as_bytes()),
            target: Box::from(target.as_bytes()),
            is_only_owner: false,
        }
    }

    pub(in super::super) fn stored(variant: &str, body: usize) -> Stored {
        Stored {
            status: StatusCode::OK,
            vary: Vec::new(),
            variant: Box::from(variant.as_bytes()),
            fields: Box::default(),
            body: Bytes::from(vec![b'x'; body]),
            is_public: false,
            head_us: 0,
            age_us: 0,
            fresh_us: 0,
            age_us_max: 1_000_000,
        }
    }

    fn has(store: &Store, owner: &str, target: &str) -> bool {
        store.find(&slot(owner, target), |_| true).is_some()
    }

    #[test]
    fn what_is_stored_is_found_by_its_owner_and_target_alone() {
        let store = Store::default();
        store.put(&slot("a", "/x"), stored("1", 10));
        assert!(has(&store, "a", "/x"));
        for (owner, target) in [
            ("b", "/x"),
            ("a", "/y"),
            ("", "/x"),
            ("a/x", ""),
            ("a/", "x"),
        ] {
            assert!(!has(&store, owner, target), "{owner} {target}");
        }
        // The same variant is replaced, another one lies beside it, and all go together.
        store.put(&slot("a", "/x"), stored("1", 20));
        store.put(&slot("a", "/x"), stored("2", 30));
        let of = |variant: &str| {
            let found = store.find(&slot("a", "/x"), |one| *one.variant == *variant.as_bytes());
            found.map(|one| one.body.len())
        };
        assert_eq!((of("1"), of("2"), of("3")), (Some(20), Some(30), None));
        assert_eq!(store.size().0, 2);
        store.forget(&slot("a", "/x"));
        assert_eq!(store.size(), (0, 0));
    }

    #[test]
    fn variants_of_one_target_have_a_bound() {
        let store = Store::default();
        for n in 0..100 {
            store.put(&slot("a", "/x"), stored(&n.to_string(), 1));
        }
        assert_eq!(store.size().0, VARIANTS_MAX);
        let newest = store.find(&slot("a", "/x"), |_| true).unwrap();
        assert_eq!(*newest.variant, *b"99");
        let evicted = 100 - VARIANTS_MAX as u64;
        assert_eq!(store.counts.evicted.load(Ordering::Relaxed), evicted);
        // One that has no place takes none.
        store.put(&slot("a", "/x"), stored("huge", OWNER_BYTES_MAX));
        assert_eq!(store.size().0, VARIANTS_MAX);
        assert_eq!(store.counts.evicted.load(Ordering::Relaxed), evicted);
    }

    #[test]
    fn a_flood_of_some_owners_pushes_out_their_own() {
        const WHOLE: usize = SHARDS * 12_000;
        let store = Store::new(WHOLE, SHARDS * 10_000);
        for n in 0..10 {
            store.put(&slot("quiet", &format!("/q{n}")), stored("", 100));
        }
        for n in 0..20_000 {
            for loud in ["loud", "louder"] {
                store.put(&slot(loud, &format!("/l{n}")), stored("", n % 700));
            }
        }
        for n in 0..10 {
            assert!(has(&store, "quiet", &format!("/q{n}")), "{n}");
        }
        // Every shard is full: it was not an owner's own bound that kept the others' safe.
        let bytes = store.size().1;
        assert!((WHOLE - SHARDS * 1_300..=WHOLE).contains(&bytes), "{bytes}");
        assert!(store.counts.evicted.load(Ordering::Relaxed) > 39_000);
        // What is larger than an owner's part of a shard is not stored, and evicts nothing.
        let before = store.size();
        store.put(&slot("huge", "/h"), stored("", 50_000));
        assert_eq!(store.size(), before);
    }

    #[test]
    fn what_is_too_old_goes_and_so_does_whoever_is_not_known() {
        let store = Store::default();
        store.put(&slot("a", "/x"), stored("", 10));
        store.put(&slot("b", "/x"), stored("", 10));
        store.sweep(1_000_000, None);
        assert_eq!(store.size().0, 2);
        store.sweep(1_000_000, Some(&|owner| **owner == *b"b"));
        assert!(!has(&store, "a", "/x") && has(&store, "b", "/x"));
        store.sweep(1_000_001, None);
        assert_eq!(store.size(), (0, 0));
        assert_eq!(store.counts.expired.load(Ordering::Relaxed), 2);
    }

    proptest! {
        /// Whatever is stored in whatever order: the whole and every owner stay within their
        /// bounds, what is counted is what is there, and whoever holds no more than its fair
        /// part of a shard loses nothing to anybody.
        #[test]
        fn bounds_hold_and_a_fair_part_is_safe(
            puts in prop::collection::vec((0_usize..6, 0_usize..40, 0_usize..2_000), 1..400),
        ) {
            let (whole, own) = (SHARDS * 12_000, SHARDS * 6_000);
            let store = Store::new(whole, own);
            for (owner, target, body) in puts {
                let (name, target) = (format!("o{owner}"), format!("/{target}"));
                let place = slot(&name, &target);
                let before: Vec<_> = (0..6).map(|n| shelf_in_shard_of(&store, &place, n)).collect();
                store.put(&place, stored("", body));
                let owners = before.iter().filter(|bytes| **bytes > 0).count().max(1) + 1;
                for (n, bytes) in before.iter().enumerate().filter(|(n, _)| *n != owner) {
                    if *bytes <= 12_000 / owners {
                        let now = shelf_in_shard_of(&store, &place, n);
                        prop_assert!(now >= *bytes, "o{n} held {bytes} of {owners}, now {now}");
                    }
                }
                for shard in &store.shards {
                    let shard = shard.lock().unwrap();
                    let sum: usize = shard.shelves.values().map(|shelf| shelf.bytes).sum();
                    prop_assert!(shard.bytes == sum && sum <= 12_000);
                    prop_assert!(shard.shelves.values().all(|shelf| shelf.bytes <= 6_000));
                    prop_assert_eq!(shard.sizes.len(), shard.shelves.len());
                }
            }
        }
    }

    fn shelf_in_shard_of(store: &Store, place: &Slot, owner: usize) -> usize {
        let shard = store.shard(place).unwrap();
        let owner = format!("o{owner}");
        shard
            .shelves
            .get(owner.as_bytes())
            .map_or(0, |shelf| shelf.bytes)
    }
}
