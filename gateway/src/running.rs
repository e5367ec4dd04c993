//! Which exchanges run, since when, and on which compartments.
//!
//! Separate because the age of the oldest permit is asked by another thread than the one that
//! holds it: each core writes its own table with plain stores, and whoever asks reads them all.
//! It must never take a lock on the path of a request, nor grow with anything but the number of
//! requests in flight.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Exchanges that one step of a table has room for.
const CHUNK: usize = 256;
/// Steps of one table. Together: more than one core can have open sockets; what is beyond is
/// served and not tabled.
const CHUNKS_MAX: usize = 512;

/// Stands for a key's text: what a table can hold without a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Mark(u64);

impl Mark {
    /// The mark of `route/ID` and its kind.
    pub(crate) fn of(level: &str, id: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (level, id).hash(&mut hasher);
        // 0 is nobody.
        Self(hasher.finish() | 1)
    }
}

/// The compartments of one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Marks {
    pub(crate) route: Mark,
    pub(crate) upstream: Mark,
    pub(crate) tenant: Mark,
}

#[derive(Debug, Default)]
struct Slot {
    /// 0: free.
    since_us: AtomicU64,
    route: AtomicU64,
    upstream: AtomicU64,
    tenant: AtomicU64,
}

/// The table of one core, as others see it.
#[derive(Debug)]
struct Table {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS_MAX],
}

impl Table {
    fn slot(&self, at: usize) -> Option<&Slot> {
        let chunk = self.chunks.get(at / CHUNK)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
        chunk.get(at % CHUNK)
    }
}

/// All tables of a process.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    all: Mutex<Vec<Arc<Table>>>,
}

/// When the oldest permit of each compartment was taken.
#[derive(Debug, Default)]
pub(crate) struct Oldest {
    pub(crate) any_us: Option<u64>,
    pub(crate) by_mark: HashMap<Mark, u64>,
    /// Route and tenant.
    pub(crate) by_pair: HashMap<(Mark, Mark), u64>,
}

impl Tables {
    /// A table for one more core.
    pub(crate) fn join(&self) -> Rc<Running> {
        let table = Arc::new(Table {
            chunks: [const { OnceLock::new() }; CHUNKS_MAX],
        });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&table));
        Rc::new(Running {
            table,
            free: RefCell::new(Free::default()),
        })
    }

    /// Reads every table.
    pub(crate) fn oldest(&self) -> Oldest {
        let tables = self
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let mut oldest = Oldest::default();
        let chunks = tables
            .iter()
            .flat_map(|table| table.chunks.iter().filter_map(OnceLock::get));
        for slot in chunks.flat_map(|chunk| chunk.iter()) {
            let since_us = slot.since_us.load(Ordering::Acquire);
            if since_us != 0 {
                oldest.add(since_us, slot);
            }
        }
        oldest
    }
}

impl Oldest {
    fn add(&mut self, since_us: u64, slot: &Slot) {
        let older = |known: &mut u64| *known = (*known).min(since_us);
        let mark = |word: &AtomicU64| Mark(word.load(Ordering::Relaxed));
        let (route, tenant) = (mark(&slot.route), mark(&slot.tenant));
        self.any_us = Some(self.any_us.map_or(since_us, |known| known.min(since_us)));
        for mark in [route, mark(&slot.upstream), tenant] {
            self.by_mark
                .entry(mark)
                .and_modify(older)
                .or_insert(since_us);
        }
        self.by_pair
            .entry((route, tenant))
            .and_modify(older)
            .or_insert(since_us);
    }
}

/// The table of one core, as that core writes it.
#[derive(Debug)]
pub(crate) struct Running {
    table: Arc<Table>,
    free: RefCell<Free>,
}

#[derive(Debug, Default)]
struct Free {
    /// Used before and free again. Never longer than the busiest moment.
    again: Vec<usize>,
    /// Never used so far.
    next: usize,
}

impl Running {
    /// Tables one exchange until the entry is dropped.
    pub(crate) fn begin(self: &Rc<Self>, since_us: u64, marks: Marks) -> Entry {
        let mut free = self.free.borrow_mut();
        let at = free.again.pop().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        });
        drop(free);
        if let Some(slot) = self.table.slot(at) {
            slot.route.store(marks.route.0, Ordering::Relaxed);
            slot.upstream.store(marks.upstream.0, Ordering::Relaxed);
            slot.tenant.store(marks.tenant.0, Ordering::Relaxed);
            slot.since_us.store(since_us.max(1), Ordering::Release);
        }
        Entry {
            of: Rc::clone(self),
            at,
        }
    }
}

/// One tabled exchange.
#[derive(Debug)]
#[must_use = "dropping it takes the exchange off the table"]
pub(crate) struct Entry {
    of: Rc<Running>,
    at: usize,
}

impl Entry {
    /// The exchange holds a slot of this compartment now, and no longer the route's.
    pub(crate) fn move_to(&self, route: Mark) {
        if let Some(slot) = self.of.table.slot(self.at) {
            slot.route.store(route.0, Ordering::Relaxed);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(slot) = self.of.table.slot(self.at) {
            slot.since_us.store(0, Ordering::Release);
        }
        self.of.free.borrow_mut().again.push(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_every_core_is_found_and_goes() {
        let tables = Tables::default();
        let (one, other) = (tables.join(), tables.join());
        let marks = |route: &str, tenant: &str| Marks {
            route: Mark::of("route", route),
            upstream: Mark::of("upstream", "u"),
            tenant: Mark::of("tenant", tenant),
        };
        let first = one.begin(10, marks("a", "t"));
        let _second = other.begin(20, marks("a", "s"));
        let oldest = tables.oldest();
        assert_eq!(oldest.any_us, Some(10));
        assert_eq!(oldest.by_mark[&Mark::of("route", "a")], 10);
        assert_eq!(oldest.by_mark[&Mark::of("tenant", "s")], 20);
        assert_eq!(
            oldest.by_pair[&(Mark::of("route", "a"), Mark::of("tenant", "t"))],
            10
        );
        drop(first);
        let oldest = tables.oldest();
        assert_eq!(oldest.any_us, Some(20));
        assert!(!oldest.by_mark.contains_key(&Mark::of("tenant", "t")));
    }

    #[test]
    fn places_are_used_again() {
        let tables = Tables::default();
        let running = tables.join();
        for round in 1..10_000 {
            let _entry = running.begin(round, Marks::default());
        }
        let entries: Vec<Entry> = (0..2 * CHUNK)
            .map(|_| running.begin(5, Marks::default()))
            .collect();
        assert_eq!(entries.last().map(|entry| entry.at), Some(2 * CHUNK - 1));
        drop(entries);
        assert_eq!(tables.oldest().any_us, None);
    }
}
