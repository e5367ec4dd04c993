//! The slots above all guarantees, which bursts of every route borrow.
//!
//! Separate because it is the one number that routes share below the gateway's ceiling. It is
//! taken before a route's count makes use of it and given back after, so it is never below what
//! the routes together have borrowed. It must never be adjusted by a guess: every change is
//! computed in the compare-and-swap of a route's own word.

use crate::credit::Credit;
use crate::sync::{AtomicU64, Ordering};

const LIMIT_SHIFT: u32 = 32;
const USED: u64 = (1 << LIMIT_SHIFT) - 1;
/// A sheddable request borrows only while more than one part in this many is free.
const SHEDDABLE_KEEPS_FREE: u64 = 5;

/// Used and limit in one word, so that one compare-and-swap holds both.
#[derive(Debug)]
pub(crate) struct Spare(AtomicU64);

/// True when one more of `limit` spare slots may be borrowed while `used` are out. The figures of
/// a gateway answer it too, for a request that is not sent.
pub const fn spare_lends(limit: u64, used: u64, sheddable: bool) -> bool {
    let free = limit.saturating_sub(used);
    free > 0 && (!sheddable || free.saturating_mul(SHEDDABLE_KEEPS_FREE) > limit)
}

const fn parts(word: u64) -> (u64, u64) {
    (word >> LIMIT_SHIFT, word & USED)
}

impl Spare {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Limit and used.
    pub(crate) fn read(&self) -> (u32, u32) {
        let (limit, used) = parts(self.0.load(Ordering::Acquire));
        (
            u32::try_from(limit).unwrap_or(u32::MAX),
            u32::try_from(used).unwrap_or(u32::MAX),
        )
    }

    /// Takes one, if one is free for this class.
    pub(crate) fn take(&self, sheddable: bool) -> bool {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (limit, used) = parts(seen);
            if !spare_lends(limit, used, sheddable) {
                return false;
            }
            match self.swap(seen, seen + 1) {
                Ok(()) => return true,
                Err(other) => seen = other,
            }
        }
    }

    /// Gives `count` back.
    pub(crate) fn give(&self, count: u32) {
        self.update(|limit, used| (limit, used.saturating_sub(count.into())));
    }

    /// Takes `count`, free or not: what was admitted under an older policy stays.
    pub(crate) fn force(&self, count: u32) {
        self.update(|limit, used| (limit, (used + u64::from(count)).min(USED)));
    }

    pub(crate) fn set_limit(&self, slots: u32) {
        self.update(|_, used| (slots.into(), used));
    }

    fn swap(&self, old: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
    }

    fn update(&self, next: impl Fn(u64, u64) -> (u64, u64)) {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let (limit, used) = parts(seen);
            let (limit, used) = next(limit, used);
            match self.swap(seen, limit << LIMIT_SHIFT | used) {
                Ok(()) => return,
                Err(other) => seen = other,
            }
        }
    }
}

/// One spare slot taken ahead of the count that will use it; given back unless used. Where it
/// is paid for, it is from the moment it is taken.
#[derive(Debug)]
pub(crate) struct Loan<'a> {
    spare: &'a Spare,
    credit: Option<&'a Credit>,
    sheddable: bool,
    now_us: u64,
    /// Lent whether there is credit or not.
    unpaid: bool,
    /// Lent whether a spare slot is free or not.
    owed: bool,
    held: bool,
}

impl<'a> Loan<'a> {
    pub(crate) const fn none(
        spare: &'a Spare,
        credit: Option<&'a Credit>,
        sheddable: bool,
        now_us: u64,
    ) -> Self {
        Self {
            spare,
            credit,
            sheddable,
            now_us,
            unpaid: false,
            owed: false,
            held: false,
        }
    }

    /// The same, lent whether there is credit or not.
    pub(crate) fn unpaid(mut self, unpaid: bool) -> Self {
        self.unpaid = unpaid;
        self
    }

    /// The same, lent whether a spare slot is free or not.
    pub(crate) fn owed(mut self, owed: bool) -> Self {
        self.owed = owed;
        self
    }

    /// True when a spare slot is held.
    pub(crate) fn take(&mut self) -> bool {
        self.held = self.held || self.take_both();
        self.held
    }

    fn pays(&self, credit: &Credit) -> bool {
        let paid = credit.borrow(self.now_us);
        if !paid && self.unpaid {
            credit.force(1, self.now_us);
        }
        paid || self.unpaid
    }

    fn take_both(&self) -> bool {
        if self.credit.is_some_and(|credit| !self.pays(credit)) {
            return false;
        }
        let mut taken = self.spare.take(self.sheddable);
        if !taken && self.owed {
            self.spare.force(1);
            taken = true;
        }
        if !taken && let Some(credit) = self.credit {
            credit.give(1, self.now_us);
        }
        taken
    }

    /// The slot now belongs to a route's count.
    pub(crate) fn spend(&mut self) {
        self.held = false;
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if self.held {
            self.spare.give(1);
            if let Some(credit) = self.credit {
                credit.give(1, self.now_us);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_kept_from_sheddable_requests() {
        let spare = Spare::new();
        spare.set_limit(10);
        let taken = std::iter::from_fn(|| spare.take(true).then_some(())).count();
        assert_eq!(taken, 8, "with 2 of 10 free no more than a fifth is free");
        assert!(spare.take(false) && spare.take(false) && !spare.take(false));
        assert_eq!(spare.read(), (10, 10));
    }

    #[test]
    fn a_loan_that_is_not_used_comes_back() {
        let spare = Spare::new();
        spare.set_limit(1);
        {
            let mut loan = Loan::none(&spare, None, false, 1);
            assert!(loan.take() && loan.take());
            assert_eq!(spare.read(), (1, 1));
        }
        assert_eq!(spare.read(), (1, 0));
        let mut loan = Loan::none(&spare, None, false, 1);
        assert!(loan.take());
        loan.spend();
        assert_eq!(spare.read(), (1, 1));
    }

    #[test]
    fn what_is_forced_counts_and_nothing_goes_below_zero() {
        let spare = Spare::new();
        spare.force(3);
        assert_eq!(spare.read(), (0, 3));
        assert!(!spare.take(false));
        spare.give(5);
        assert_eq!(spare.read(), (0, 0));
    }
}
