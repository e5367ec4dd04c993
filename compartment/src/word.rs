//! Limit, reserved and in flight of one compartment in one atomic word.
//!
//! Separate because exactness lives here: every change is one compare-and-swap over the whole
//! word, so no reader ever sees a limit without the count that belongs to it. It must never add
//! first and undo later: that refuses others while a slot is free.

use crate::sync::{AtomicU64, Ordering};
use crate::{LIMIT_MAX, Limit};

const FIELD_BITS: u32 = 20;
const FIELD: u64 = (1 << FIELD_BITS) - 1;
const RESERVED_SHIFT: u32 = FIELD_BITS;
const IN_FLIGHT_SHIFT: u32 = 2 * FIELD_BITS;
const ONE_IN_FLIGHT: u64 = 1 << IN_FLIGHT_SHIFT;
const WAITERS: u64 = 1 << (3 * FIELD_BITS);
const RETIRED: u64 = 1 << (3 * FIELD_BITS + 1);
/// The limit is shown and judged elsewhere, and refuses nobody here.
const LAX: u64 = 1 << (3 * FIELD_BITS + 2);
/// No policy names it any more: whoever is still here is served to the end.
const UNNAMED: u64 = 1 << (3 * FIELD_BITS + 3);
/// As a limit: unlimited. As a count: the most that an unlimited compartment can hold.
const UNLIMITED: u32 = 0xF_FFFF;

const _: () = assert!(UNLIMITED as u64 == FIELD, "unlimited is the whole field");
const _: () = assert!(
    LIMIT_MAX < UNLIMITED,
    "a finite limit is never read as unlimited"
);
const _: () = assert!(
    3 * FIELD_BITS + 4 <= u64::BITS,
    "three fields and four flags fit the word"
);
const _: () = assert!(
    WAITERS > FIELD << IN_FLIGHT_SHIFT,
    "flags lie above the fields"
);

/// What the word held at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Picture(u64);

/// One change of a word that took place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Swap {
    pub(crate) before: Picture,
    pub(crate) after: Picture,
}

/// Why a word gave no slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoSlot {
    Full,
    Closed,
    /// The compartment was removed: look for the live one.
    Retired,
}

/// Masked to 20 bits: nothing is cut off.
const fn field(bits: u64, shift: u32) -> u32 {
    ((bits >> shift) & FIELD) as u32
}

impl Picture {
    const fn new(limit: Limit, reserved: u32) -> Self {
        Self(0).with_limits(limit, reserved)
    }

    /// The limit as a number that counts compare with; unlimited is the largest.
    pub(crate) const fn slots(self) -> u32 {
        if self.0 & LAX == 0 {
            field(self.0, 0)
        } else {
            UNLIMITED
        }
    }

    /// The limit that is set, enforced or not.
    pub(crate) const fn limit(self) -> Limit {
        match Limit::new(field(self.0, 0)) {
            Ok(limit) => limit,
            Err(_) => Limit::UNLIMITED,
        }
    }

    pub(crate) const fn reserved(self) -> u32 {
        field(self.0, RESERVED_SHIFT)
    }

    pub(crate) const fn in_flight(self) -> u32 {
        field(self.0, IN_FLIGHT_SHIFT)
    }

    pub(crate) const fn borrowed(self) -> u32 {
        self.in_flight().saturating_sub(self.reserved())
    }

    pub(crate) const fn free(self) -> u32 {
        self.slots().saturating_sub(self.in_flight())
    }

    pub(crate) const fn is_full(self) -> bool {
        self.in_flight() >= self.slots()
    }

    /// At a finite limit above 0, enforced or not.
    pub(crate) const fn is_saturated(self) -> bool {
        match self.limit().slots() {
            None | Some(0) => false,
            Some(slots) => self.in_flight() >= slots,
        }
    }

    pub(crate) const fn is_closed(self) -> bool {
        self.slots() == 0
    }

    pub(crate) const fn is_lax(self) -> bool {
        self.0 & LAX != 0
    }

    pub(crate) const fn is_unnamed(self) -> bool {
        self.0 & UNNAMED != 0
    }

    pub(crate) const fn has_waiters(self) -> bool {
        self.0 & WAITERS != 0
    }

    pub(crate) const fn is_retired(self) -> bool {
        self.0 & RETIRED != 0
    }

    /// The same with one more in flight. Only for a picture that is not full: then the count is
    /// below the largest the field holds, and no bit is carried over.
    pub(crate) const fn entered(self) -> Self {
        Self(self.0 + ONE_IN_FLIGHT)
    }

    /// The same with one less in flight; an empty one stays empty.
    pub(crate) const fn left(self) -> Self {
        if self.in_flight() == 0 {
            self
        } else {
            Self(self.0 - ONE_IN_FLIGHT)
        }
    }

    pub(crate) const fn with_limits(self, limit: Limit, reserved: u32) -> Self {
        let slots = match limit.slots() {
            Some(slots) => slots,
            None => UNLIMITED,
        };
        let reserved = if reserved > slots { slots } else { reserved };
        let rest = self.0 & !(FIELD | FIELD << RESERVED_SHIFT);
        Self(rest | slots as u64 | (reserved as u64) << RESERVED_SHIFT)
    }

    pub(crate) const fn with_waiters(self, waiters: bool) -> Self {
        if waiters {
            Self(self.0 | WAITERS)
        } else {
            Self(self.0 & !WAITERS)
        }
    }

    pub(crate) const fn with_lax(self, lax: bool) -> Self {
        if lax {
            Self(self.0 | LAX)
        } else {
            Self(self.0 & !LAX)
        }
    }

    pub(crate) const fn with_unnamed(self, unnamed: bool) -> Self {
        if unnamed {
            Self(self.0 | UNNAMED)
        } else {
            Self(self.0 & !UNNAMED)
        }
    }

    /// What it borrows is lent whether it can pay or not: it does not enforce its own decisions,
    /// or only those are left in it who came while a policy named it.
    pub(crate) const fn borrows_unpaid(self) -> bool {
        self.is_lax() || self.is_unnamed()
    }

    /// Why this picture admits nobody.
    pub(crate) const fn no_slot(self) -> NoSlot {
        if self.is_retired() {
            NoSlot::Retired
        } else if self.is_closed() {
            NoSlot::Closed
        } else {
            NoSlot::Full
        }
    }
}

/// The atomic word.
#[derive(Debug)]
pub(crate) struct Word(AtomicU64);

impl Word {
    pub(crate) fn new(limit: Limit, reserved: u32) -> Self {
        Self(AtomicU64::new(Picture::new(limit, reserved).0))
    }

    pub(crate) fn load(&self) -> Picture {
        Picture(self.0.load(Ordering::Acquire))
    }

    /// Puts `new` in the place of `old`, or says what is there instead.
    pub(crate) fn change(&self, old: Picture, new: Picture) -> Result<(), Picture> {
        self.0
            .compare_exchange_weak(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(Picture)
    }

    /// Changes the word by `next` until it holds.
    pub(crate) fn update(&self, next: impl Fn(Picture) -> Picture) -> Swap {
        let mut before = self.load();
        loop {
            let after = next(before);
            match self.change(before, after) {
                Ok(()) => return Swap { before, after },
                Err(other) => before = other,
            }
        }
    }

    /// Takes one slot. A refusal is one load.
    pub(crate) fn enter(&self) -> Result<Swap, NoSlot> {
        let mut before = self.load();
        loop {
            if before.is_full() {
                return Err(before.no_slot());
            }
            let after = before.entered();
            match self.change(before, after) {
                Ok(()) => return Ok(Swap { before, after }),
                Err(other) => before = other,
            }
        }
    }

    /// Takes one slot under a limit that the caller brings, which becomes the word's limit,
    /// whether it admits or not: then the swap is that of the limit alone.
    pub(crate) fn enter_under(&self, limit: Limit, lax: bool) -> (Swap, Result<u32, NoSlot>) {
        let mut before = self.load();
        loop {
            if before.is_retired() {
                let after = before;
                return (Swap { before, after }, Err(NoSlot::Retired));
            }
            let asked = before.with_limits(limit, 0).with_lax(lax);
            let (after, entered) = if asked.is_full() {
                (asked, Err(asked.no_slot()))
            } else {
                (asked.entered(), Ok(asked.entered().in_flight()))
            };
            let swapped = if after == before {
                Ok(())
            } else {
                self.change(before, after)
            };
            match swapped {
                Ok(()) => return (Swap { before, after }, entered),
                Err(other) => before = other,
            }
        }
    }

    /// Gives one slot back.
    pub(crate) fn leave(&self) -> Swap {
        self.update(Picture::left)
    }

    /// Takes the word out of use for good, if nothing is in flight. Whoever still has a way to
    /// it is told `Retired` and can never enter.
    pub(crate) fn retire(&self) -> bool {
        let mut seen = self.load();
        loop {
            if seen.is_retired() {
                return true;
            }
            if seen.in_flight() > 0 || seen.has_waiters() {
                return false;
            }
            let retired = Picture(seen.with_limits(Limit::CLOSED, 0).0 | RETIRED);
            match self.change(seen, retired) {
                Ok(()) => return true,
                Err(other) => seen = other,
            }
        }
    }

    /// New numbers for a word in use; what is in flight keeps counting.
    pub(crate) fn resize(&self, limit: Limit, reserved: u32, lax: bool) -> Swap {
        self.update(|seen| {
            if seen.is_retired() {
                seen
            } else {
                seen.with_limits(limit, reserved).with_lax(lax)
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn enter(word: &Word) -> Result<u32, NoSlot> {
        word.enter().map(|swap| swap.after.in_flight())
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        for slots in [0, 1, 7, LIMIT_MAX] {
            let word = Word::new(Limit::new(slots).unwrap(), slots);
            let before = word.load();
            assert_eq!(
                (before.slots(), before.reserved(), before.in_flight()),
                (slots, slots, 0)
            );
            let marked = before.with_waiters(true);
            assert_eq!(
                (marked.slots(), marked.reserved(), marked.in_flight()),
                (slots, slots, 0)
            );
            assert!(marked.has_waiters() && !marked.is_retired());
            assert!(marked.with_waiters(false) == before);
        }
    }

    #[test]
    fn the_limit_is_exact_and_closed_is_told_apart() {
        let word = Word::new(Limit::new(2).unwrap(), 0);
        assert_eq!((enter(&word), enter(&word)), (Ok(1), Ok(2)));
        assert_eq!(enter(&word), Err(NoSlot::Full));
        word.resize(Limit::new(1).unwrap(), 0, false);
        word.leave();
        assert_eq!(enter(&word), Err(NoSlot::Full));
        word.leave();
        assert_eq!(enter(&word), Ok(1));
        word.resize(Limit::CLOSED, 0, false);
        assert_eq!(enter(&word), Err(NoSlot::Closed));
    }

    #[test]
    fn unlimited_holds_what_the_field_holds_and_no_more() {
        let word = Word::new(Limit::UNLIMITED, 0);
        for n in 1..=UNLIMITED {
            assert_eq!(enter(&word), Ok(n));
        }
        assert_eq!(enter(&word), Err(NoSlot::Full));
        assert_eq!(word.load().limit(), Limit::UNLIMITED);
        assert!(!word.load().has_waiters() && !word.load().is_retired());
    }

    #[test]
    fn a_word_in_use_is_not_retired_and_a_retired_one_is_not_entered() {
        let word = Word::new(Limit::new(3).unwrap(), 0);
        assert_eq!(enter(&word), Ok(1));
        assert!(!word.retire());
        word.leave();
        assert!(word.retire() && word.retire());
        assert_eq!(enter(&word), Err(NoSlot::Retired));
        assert_eq!(
            word.enter_under(Limit::new(9).unwrap(), false).1,
            Err(NoSlot::Retired)
        );
        word.resize(Limit::new(9).unwrap(), 0, false);
        assert_eq!(enter(&word), Err(NoSlot::Retired));
    }

    #[test]
    fn a_lax_limit_is_set_and_refuses_nobody() {
        let word = Word::new(Limit::new(1).unwrap(), 1);
        word.resize(Limit::new(1).unwrap(), 1, true);
        assert_eq!((enter(&word), enter(&word)), (Ok(1), Ok(2)));
        let now = word.load();
        assert_eq!(now.limit(), Limit::new(1).unwrap());
        assert!(now.is_saturated() && !now.is_full());
        assert_eq!(now.borrowed(), 1, "what is guaranteed stays so");
        word.resize(Limit::CLOSED, 0, true);
        assert!(!word.load().is_closed());
        assert_eq!(enter(&word), Ok(3));
        word.resize(Limit::new(2).unwrap(), 0, false);
        assert_eq!(enter(&word), Err(NoSlot::Full));
        assert_eq!(word.load().in_flight(), 3, "what is in flight stays");
    }

    #[test]
    fn an_empty_word_never_goes_below_zero() {
        let word = Word::new(Limit::new(1).unwrap(), 0);
        word.leave();
        assert_eq!(word.load().in_flight(), 0);
        assert_eq!(word.load().slots(), 1);
    }
}
