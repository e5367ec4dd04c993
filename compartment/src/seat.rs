//! Who counts, and when.
//!
//! Separate because every count is written for one moment by one thread: a serving thread has a
//! seat and writes cells that nobody else writes, everybody else shares a cell. A seat can be
//! given to another thread but never used by two at once (it is not `Sync`), which is what makes
//! writing without an exchange exact. It must never be cloned.

use std::sync::Arc;

use crate::claim::{Claim, Free, Table};

use crate::sync::statistics::{AtomicU32, AtomicU64, Mutex, Ordering, lock};

/// All seats of one hull.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Mutex<Vec<usize>>,
    tables: Box<[Table]>,
}

impl Seats {
    pub(crate) fn new(cores: usize) -> Arc<Self> {
        let free = Mutex::new((0..cores).rev().collect());
        let tables = (0..cores).map(|_| Table::new()).collect();
        Arc::new(Self { free, tables })
    }

    /// `None` when all are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let index = lock(&self.free).pop()?;
        Some(Seat {
            index,
            of: Arc::clone(self),
            places: Free::default(),
        })
    }

    /// Every permit that is out by a seat.
    pub(crate) fn each_live(&self, each: &mut dyn FnMut(Claim)) {
        self.tables.iter().for_each(|table| table.each_live(each));
    }

    /// Takes what is overdue from its owners.
    pub(crate) fn take_overdue(
        &self,
        overdue: &dyn Fn(&Claim) -> bool,
        each: &mut dyn FnMut(Claim),
    ) {
        let tables = self.tables.iter();
        tables.for_each(|table| table.take_overdue(overdue, each));
    }
}

/// The right to write the cells of one core; given back on drop.
#[derive(Debug)]
pub struct Seat {
    pub(crate) index: usize,
    of: Arc<Seats>,
    /// Makes it not `Sync`: two threads with one seat would lose each other's counts.
    places: Free,
}

impl Seat {
    /// A place in the table of permits; `None` when there is none left.
    pub(crate) fn begin(&self, claim: Claim) -> Option<usize> {
        self.places.begin(self.of.tables.get(self.index)?, claim)
    }

    /// Ends a claim; true when it was still the owner's to give back.
    pub(crate) fn end(&self, at: usize) -> bool {
        let table = self.of.tables.get(self.index);
        table.is_none_or(|table| self.places.end(table, at))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.of.free).push(self.index);
    }
}

/// A moment, and who speaks.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    pub(crate) seat: Option<&'a Seat>,
    pub(crate) now_us: u64,
}

impl<'a> Moment<'a> {
    /// Of a thread without a seat.
    pub const fn at(now_us: u64) -> Self {
        Self { seat: None, now_us }
    }

    /// Of the thread that has this seat. It must be one of the hull that is spoken to.
    pub const fn on(seat: &'a Seat, now_us: u64) -> Self {
        Self {
            seat: Some(seat),
            now_us,
        }
    }
}

/// How a cell is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pen {
    /// Nobody else writes it.
    Own,
    Shared,
}

impl Pen {
    /// Adds `by`, which may be a negative number in two's complement. A reader who sees it sees
    /// what this thread did before.
    pub(crate) fn add(self, to: &AtomicU64, by: u64) {
        match self {
            Self::Own => {
                let sum = to.load(Ordering::Relaxed).wrapping_add(by);
                to.store(sum, Ordering::Release);
            }
            Self::Shared => {
                to.fetch_add(by, Ordering::Release);
            }
        }
    }

    pub(crate) fn raise(self, to: &AtomicU32, value: u32) {
        // Nearly never higher: the exchange costs nothing where it is not made. A reader may
        // take a recent peak away at any time, so this is one even in a cell of one's own.
        if value > to.load(Ordering::Relaxed) {
            to.fetch_max(value, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_had_by_one_at_a_time() {
        let seats = Seats::new(2);
        let (one, two) = (seats.take().unwrap(), seats.take().unwrap());
        assert_eq!((one.index, two.index), (0, 1));
        assert!(seats.take().is_none());
        drop(one);
        assert_eq!(seats.take().map(|seat| seat.index), Some(0));
    }
}
