//! One tenant on one route: `route/ID/tenant/ID`.
//!
//! Separate because these compartments come and go: made with a tenant's first request on a
//! route that needs one, removed when idle. A cell leaves only by a compare-and-swap from zero
//! in flight, under the lock of its shard, so a request that still holds the way to it is told
//! so and never counts in two places. The locks here are of the cold path alone.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ghost::CellGhost;
use crate::stats::{Look, Stats};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use crate::word::{NoSlot, Word};
use crate::{Figures, Level, Limit, Mode, Moment, Name, TenantCompartment};

/// How long a cell stays after its last request.
pub const CELL_IDLE_US: u64 = 60_000_000;
/// Most cells of one route that are kept although idle. More exist only while they are in use,
/// and no more are in use than requests are in flight.
pub const CELLS_PER_ROUTE_MAX: usize = 10_000;
/// Most cells that one core remembers the way to.
pub const CELL_CACHE_MAX: usize = 4096;

const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
const CELLS_PER_SHARD_MAX: usize = CELLS_PER_ROUTE_MAX / SHARDS;
const _: () = assert!(CELLS_PER_SHARD_MAX > 0, "a shard has room for a cell");
const _: () = assert!(
    CELL_CACHE_MAX.is_power_of_two(),
    "a slot is found by a mask"
);

/// The compartment of one tenant on one route.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) word: Word,
    pub(crate) stats: Stats,
    pub(crate) key: Arc<str>,
    pub(crate) ghost: CellGhost,
    /// Which of them are streams: these hold no slot of the route's own.
    streams: Streams,
}

/// How many of a cell's requests are streams, with the number of changes above it.
///
/// A stream is counted after it has entered the cell and taken off before it leaves, so whoever
/// finds the same number and the same changes before and after a look at the cell's word knows
/// that so many of those it saw there were streams.
#[derive(Debug)]
struct Streams(AtomicU64);

const CHANGES_SHIFT: u32 = 32;
const ONE_CHANGE: u64 = 1 << CHANGES_SHIFT;

impl Cell {
    fn enter_under(&self, limit: Limit, lax: bool, at: Moment<'_>) -> Result<(), NoSlot> {
        let (swap, entered) = self.word.enter_under(limit, lax);
        self.stats.moved(at, swap);
        entered.map(|_| ())
    }

    pub(crate) fn leave(&self, at: Moment<'_>) {
        self.stats.moved(at, self.word.leave());
    }

    fn look(&self, look: Look) -> Figures {
        self.stats
            .figures(&self.key, Level::TenantRoute, &self.word, look)
    }

    /// One of those in flight is a stream from now on. It holds no slot of the route's own.
    pub(crate) fn begin_stream(&self) {
        self.streams.0.fetch_add(ONE_CHANGE + 1, Ordering::AcqRel);
    }

    /// A stream is about to leave.
    pub(crate) fn end_stream(&self) {
        self.streams.0.fetch_add(ONE_CHANGE - 1, Ordering::AcqRel);
    }

    /// How many streams are in flight.
    pub(crate) fn streams(&self) -> u32 {
        u32::try_from(self.streams.0.load(Ordering::Acquire) & (ONE_CHANGE - 1)).unwrap_or(u32::MAX)
    }

    /// Those in flight that are no streams; never fewer than there are.
    pub(crate) fn calls(&self) -> u32 {
        let before = self.streams.0.load(Ordering::Acquire);
        let all = self.word.load().in_flight();
        let streams = match self.streams.0.load(Ordering::Acquire) == before {
            true => u32::try_from(before & (ONE_CHANGE - 1)).unwrap_or(0),
            false => 0,
        };
        all.saturating_sub(streams)
    }
}

/// A cell in its shard, with what the last sweep saw.
#[derive(Debug)]
struct Lodged {
    cell: Arc<Cell>,
    activity: u64,
    since_us: u64,
}

type Shard = HashMap<Name, Lodged>;

/// The cells of one route.
#[derive(Debug)]
pub(crate) struct TenantCells {
    /// Never used twice in a process: per-core caches know routes by it.
    id: u64,
    route: Name,
    shards: [Mutex<Shard>; SHARDS],
    /// What the removed cells had counted; made with the first.
    gone: Mutex<Option<Box<Figures>>>,
}

impl TenantCells {
    pub(crate) fn new(id: u64, route: Name) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::new()));
        Self {
            id,
            route,
            shards,
            gone: Mutex::new(None),
        }
    }

    fn shard(&self, tenant: &Name) -> Option<&Mutex<Shard>> {
        // A sum is enough: names are the operator's, and a poor spread costs only cold entries.
        let sum = tenant.as_str().bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        self.shards.get(sum % SHARDS)
    }

    /// Enters the cell of `tenant`, known to this core or not; the cell, and the tenant's count
    /// with this request.
    pub(crate) fn enter(
        &self,
        tenant: &TenantCompartment,
        (limit, lax): (Limit, bool),
        cache: &mut CellCache,
        at: Moment<'_>,
    ) -> (Arc<Cell>, Result<(), NoSlot>) {
        if let Some(cell) = cache.find(self.id, tenant.id) {
            let entered = cell.enter_under(limit, lax, at);
            if entered != Err(NoSlot::Retired) {
                return (Arc::clone(cell), entered);
            }
        }
        // Entered while the shard is locked, so nobody can retire the cell in between.
        let enter = |cell: &Cell| cell.enter_under(limit, lax, at);
        let (cell, entered) = self.find_cold(tenant.name(), limit, at, enter);
        cache.remember(self.id, tenant.id, &cell);
        (cell, entered)
    }

    /// The live cell of a tenant.
    pub(crate) fn find(&self, tenant: &Name) -> Option<Arc<Cell>> {
        let shard = lock(self.shard(tenant)?);
        shard.get(tenant).map(|lodged| Arc::clone(&lodged.cell))
    }

    fn find_cold<T>(
        &self,
        tenant: &Name,
        limit: Limit,
        at: Moment<'_>,
        then: impl FnOnce(&Cell) -> T,
    ) -> (Arc<Cell>, T) {
        let Some(shard) = self.shard(tenant) else {
            let cell = Arc::new(self.fresh(tenant, limit, at));
            let done = then(&cell);
            return (cell, done);
        };
        let mut shard = lock(shard);
        if !shard.contains_key(tenant) && shard.len() >= CELLS_PER_SHARD_MAX {
            self.evict_one(&mut shard, at.now_us);
        }
        let lodged = shard.entry(tenant.clone()).or_insert_with(|| Lodged {
            cell: Arc::new(self.fresh(tenant, limit, at)),
            activity: 0,
            since_us: 0,
        });
        let done = then(&lodged.cell);
        (Arc::clone(&lodged.cell), done)
    }

    fn fresh(&self, tenant: &Name, limit: Limit, at: Moment<'_>) -> Cell {
        Cell {
            word: Word::new(limit, 0),
            stats: Stats::new(0, at.now_us),
            ghost: CellGhost::new(),
            streams: Streams(AtomicU64::new(0)),
            key: format!("route/{}/tenant/{tenant}", self.route).into(),
        }
    }

    /// Makes room by removing an idle cell before its time; without one the shard grows by what
    /// is in flight, which the limits bound.
    fn evict_one(&self, shard: &mut Shard, now_us: u64) {
        let idle = shard.iter().find(|(_, lodged)| lodged.cell.word.retire());
        let idle = idle.map(|(name, _)| name.clone());
        if let Some(gone) = idle.and_then(|name| shard.remove(&name)) {
            self.fold(&gone.cell, now_us);
        }
    }

    fn fold(&self, cell: &Cell, now_us: u64) {
        let figures = cell.look(Look::at(now_us));
        let mut gone = lock(&self.gone);
        let sum = gone.get_or_insert_with(|| {
            let key = format!("route/{}/tenant/_idle", self.route);
            let level = Level::TenantRoute;
            Box::new(Figures::new(key, level, Limit::UNLIMITED))
        });
        sum.count_in(&figures);
    }

    /// Removes the cells whose last request ended `CELL_IDLE_US` ago.
    pub(crate) fn sweep(&self, now_us: u64) {
        for shard in &self.shards {
            lock(shard).retain(|_, lodged| {
                let activity = lodged.cell.stats.activity(&lodged.cell.word, now_us);
                let busy = lodged.cell.word.load().in_flight() > 0;
                if busy || lodged.since_us == 0 || activity != lodged.activity {
                    lodged.activity = activity;
                    lodged.since_us = now_us.max(1);
                    return true;
                }
                let rested = now_us.saturating_sub(lodged.since_us) >= CELL_IDLE_US;
                if !rested || !lodged.cell.word.retire() {
                    return true;
                }
                self.fold(&lodged.cell, now_us);
                false
            });
        }
    }

    /// True when no tenant has anything in flight.
    pub(crate) fn are_idle(&self) -> bool {
        let idle = |lodged: &Lodged| lodged.cell.word.load().in_flight() == 0;
        let mut shards = self.shards.iter();
        shards.all(|shard| lock(shard).values().all(idle))
    }

    /// Sets the limit of every live cell, as the policy has it now for that tenant.
    pub(crate) fn resize(
        &self,
        at: Moment<'_>,
        lax: bool,
        limit_of: impl Fn(&Name) -> Option<Limit>,
    ) {
        for shard in &self.shards {
            for (name, lodged) in lock(shard).iter() {
                let limit = limit_of(name).unwrap_or(Limit::UNLIMITED);
                let cell = &lodged.cell;
                cell.stats.moved(at, cell.word.resize(limit, 0, lax));
            }
        }
    }

    /// The live cells.
    pub(crate) fn each(&self, each: &mut dyn FnMut(&Cell)) {
        for shard in &self.shards {
            lock(shard).values().for_each(|lodged| each(&lodged.cell));
        }
    }

    /// The figures of the live cells, then of `_idle` if any cell was removed.
    pub(crate) fn figures(&self, look: Look, mode: Mode, each: &mut dyn FnMut(Figures)) {
        for shard in &self.shards {
            let cells: Vec<Arc<Cell>> = lock(shard)
                .values()
                .map(|lodged| Arc::clone(&lodged.cell))
                .collect();
            for cell in cells {
                each(Figures {
                    mode,
                    ..cell.look(look)
                });
            }
        }
        if let Some(gone) = lock(&self.gone).as_deref() {
            each(Figures {
                mode,
                ..gone.clone()
            });
        }
    }
}

/// One core's way to the cells it uses, without a lock. A bounded table where a newcomer takes
/// the place of whoever had it; a stale entry is harmless, because a removed cell says so.
#[derive(Debug, Default)]
pub struct CellCache {
    places: Vec<Option<Known>>,
}

#[derive(Debug, Clone)]
struct Known {
    route: u64,
    tenant: u64,
    cell: Arc<Cell>,
}

impl CellCache {
    /// An empty one. Its table is made with the first entry.
    pub const fn new() -> Self {
        Self { places: Vec::new() }
    }

    fn place(route: u64, tenant: u64) -> usize {
        let mixed = route.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ tenant;
        let spread = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        usize::try_from(spread).unwrap_or(0) & (CELL_CACHE_MAX - 1)
    }

    fn find(&self, route: u64, tenant: u64) -> Option<&Arc<Cell>> {
        let known = self.places.get(Self::place(route, tenant))?.as_ref()?;
        (known.route == route && known.tenant == tenant).then_some(&known.cell)
    }

    fn remember(&mut self, route: u64, tenant: u64, cell: &Arc<Cell>) {
        if self.places.is_empty() {
            self.places = vec![None; CELL_CACHE_MAX];
        }
        if let Some(place) = self.places.get_mut(Self::place(route, tenant)) {
            *place = Some(Known {
                route,
                tenant,
                cell: Arc::clone(cell),
            });
        }
    }
}
