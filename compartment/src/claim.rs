//! Which permits are out, since when and how long they may be.
//!
//! Separate because two may end a permit: its owner by dropping it, and the watch when it is
//! overdue. Each has a place in the table of its core, and whoever swaps the place from live wins
//! it alone; the other gives nothing back. A place is used again under a new turn, so that a look
//! at an old permit never takes a new one. It must never take a lock or grow with anything but
//! the number of permits out.

use std::cell::RefCell;
use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering};

/// Places that one step of a table has.
const CHUNK: usize = if cfg!(loom) { 2 } else { 256 };
/// Steps of a table. What is beyond is admitted and has no place: nobody watches it.
const CHUNKS_MAX: usize = if cfg!(loom) { 1 } else { 512 };

const FREE: u64 = 0;
const LIVE: u64 = 1;
const TAKEN: u64 = 2;
const STATE: u64 = 3;
const ONE_TURN: u64 = 4;

/// What a permit holds, as far as another thread can find it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Claim {
    pub(crate) since_us: u64,
    /// When it is overdue; `u64::MAX`: never.
    pub(crate) until_us: u64,
    /// The number of the passage.
    pub(crate) passage: u64,
    /// The number of the tenant; 0: none.
    pub(crate) tenant: u64,
    /// Cell and ghosts, see [`crate::reclaim`].
    pub(crate) flags: u64,
}

#[derive(Debug)]
struct Place {
    /// Turn and state.
    state: AtomicU64,
    since_us: AtomicU64,
    until_us: AtomicU64,
    passage: AtomicU64,
    tenant: AtomicU64,
    flags: AtomicU64,
}

impl Place {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            state: zero(),
            since_us: zero(),
            until_us: zero(),
            passage: zero(),
            tenant: zero(),
            flags: zero(),
        }
    }

    /// For its owner, while it is free.
    fn begin(&self, claim: Claim) {
        self.since_us.store(claim.since_us, Ordering::Relaxed);
        self.until_us.store(claim.until_us, Ordering::Relaxed);
        self.passage.store(claim.passage, Ordering::Relaxed);
        self.tenant.store(claim.tenant, Ordering::Relaxed);
        self.flags.store(claim.flags, Ordering::Relaxed);
        let turn = self.state.load(Ordering::Relaxed) & !STATE;
        let next = turn.wrapping_add(ONE_TURN) | LIVE;
        self.state.store(next, Ordering::Release);
    }

    /// For its owner: true when it was still the owner's to give back.
    fn end(&self) -> bool {
        let seen = self.state.load(Ordering::Relaxed) & !STATE;
        let ended = self
            .state
            .compare_exchange(
                seen | LIVE,
                seen | FREE,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok();
        if !ended {
            self.state.store(seen | FREE, Ordering::Release);
        }
        ended
    }

    /// For the watch: the claim, if `overdue` and taken from its owner by this.
    fn take(&self, overdue: impl Fn(&Claim) -> bool) -> Option<Claim> {
        let seen = self.state.load(Ordering::Acquire);
        if seen & STATE != LIVE {
            return None;
        }
        let claim = self.read();
        if !overdue(&claim) {
            return None;
        }
        let taken = seen & !STATE | TAKEN;
        // Should the owner have ended it meanwhile, or begun another, this fails; so what was
        // read belongs to what is taken.
        self.state
            .compare_exchange(seen, taken, Ordering::AcqRel, Ordering::Acquire)
            .ok()
            .map(|_| claim)
    }

    fn read(&self) -> Claim {
        Claim {
            since_us: self.since_us.load(Ordering::Relaxed),
            until_us: self.until_us.load(Ordering::Relaxed),
            passage: self.passage.load(Ordering::Relaxed),
            tenant: self.tenant.load(Ordering::Relaxed),
            flags: self.flags.load(Ordering::Relaxed),
        }
    }
}

/// The table of one core.
#[derive(Debug)]
pub(crate) struct Table {
    chunks: [OnceLock<Box<[Place]>>; CHUNKS_MAX],
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            chunks: [const { OnceLock::new() }; CHUNKS_MAX],
        }
    }

    fn place(&self, at: usize) -> Option<&Place> {
        let chunk = self.chunks.get(at / CHUNK)?;
        let chunk = chunk.get_or_init(|| (0..CHUNK).map(|_| Place::new()).collect());
        chunk.get(at % CHUNK)
    }

    /// Takes from its owners what `overdue` says of; the rest stays theirs.
    pub(crate) fn take_overdue(
        &self,
        overdue: &dyn Fn(&Claim) -> bool,
        each: &mut dyn FnMut(Claim),
    ) {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        for place in chunks.flat_map(|chunk| chunk.iter()) {
            place.take(overdue).map(&mut *each);
        }
    }

    /// The passages that live permits came by.
    pub(crate) fn each_live(&self, each: &mut dyn FnMut(Claim)) {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        for place in chunks.flat_map(|chunk| chunk.iter()) {
            if place.state.load(Ordering::Acquire) & STATE == LIVE {
                each(place.read());
            }
        }
    }
}

/// The free places of a table, for its owner.
#[derive(Debug, Default)]
pub(crate) struct Free {
    list: RefCell<(Vec<usize>, usize)>,
}

impl Free {
    /// A place with this claim in it; `None` when there are no more.
    pub(crate) fn begin(&self, table: &Table, claim: Claim) -> Option<usize> {
        let mut list = self.list.borrow_mut();
        let (again, next) = &mut *list;
        let at = again.pop().unwrap_or(*next);
        let place = table.place(at)?;
        *next = (*next).max(at + 1);
        place.begin(claim);
        Some(at)
    }

    /// Ends a claim; true when it was still the owner's to give back.
    pub(crate) fn end(&self, table: &Table, at: usize) -> bool {
        let ended = table.place(at).is_none_or(Place::end);
        self.list.borrow_mut().0.push(at);
        ended
    }
}
