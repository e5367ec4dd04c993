//! What one route may still borrow, in slot-seconds.
//!
//! Separate because it is exact arithmetic on time: a borrowed slot costs one slot-second a
//! second while it is held, and every route earns its part of the spare slots. So short bursts
//! are free, and who occupies the spare slots for long (a dependency that hangs) stops getting
//! more of them, without anybody having to detect it. It must never lose or invent a part of a
//! slot-second: borrowed and balance change in one compare-and-swap.
//!
//! Between two changes the balance is a line over time. Kept is that line, not a point on it:
//! the value it would have at time 0, and the number of borrowed slots, which is its slope. So
//! one word is enough, and whoever changes it needs no time of the change before. Values wrap
//! around; they are read right as long as a balance lies within `BALANCE_MAX` of nothing, which
//! [`Credit::settle`] keeps true.

use serde::Serialize;

use crate::sync::{AtomicU64, Ordering};

/// A full bucket holds what this long a time brings.
pub const CREDIT_DEPTH_US: u64 = 10_000_000;
/// Time is counted in ticks: a shorter hold costs one tick or none, on average what it took.
const TICK_US: u64 = 100;
const DEPTH_TICKS: i64 = 100_000;
/// Spare slots times price: bounds how far a balance moves in a tick.
const SCALE_MAX: u32 = 1 << 24;

const HELD_BITS: u32 = 20;
const TERMS_BITS: u32 = 2;
const LINE_BITS: u32 = u64::BITS - HELD_BITS - TERMS_BITS;
const HELD_MAX: u32 = (1 << HELD_BITS) - 1;
const TERMS: usize = 1 << TERMS_BITS;
const BALANCE_MAX: i64 = 1 << (LINE_BITS - 2);

const _: () = assert!(
    CREDIT_DEPTH_US == TICK_US * DEPTH_TICKS as u64,
    "a depth is whole ticks"
);
const _: () = assert!(
    crate::LIMIT_MAX as i64 * DEPTH_TICKS < BALANCE_MAX,
    "a full bucket is read right"
);
const _: () = assert!(
    SCALE_MAX as u64 * (5_000_000 / TICK_US) < BALANCE_MAX.cast_unsigned(),
    "and so is what moves in five seconds, between two sweeps"
);
const _: () = assert!(
    crate::LIMIT_MAX < HELD_MAX,
    "all borrowed slots are counted"
);

/// What a route earns and what a borrowed slot costs, in units a tick.
///
/// `refill / price` slots is the route's part of the spare slots: both are whole numbers, so the
/// part is exact although it may be a fraction of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Terms {
    refill: u32,
    price: u32,
}

impl Terms {
    /// Terms under which nothing can be borrowed.
    pub(crate) const NONE: Self = Self {
        refill: 0,
        price: 1,
    };

    /// The same part of `spare` for each of so many routes.
    pub(crate) fn new(spare: u32, routes: u32) -> Self {
        if spare == 0 || routes == 0 {
            return Self::NONE;
        }
        // Exact up to some ten million in the product, and beyond to seven digits.
        let price = routes.min((SCALE_MAX / spare).max(1));
        let refill = u64::from(spare) * u64::from(price) / u64::from(routes);
        Self {
            refill: u32::try_from(refill).unwrap_or(u32::MAX).max(1),
            price,
        }
    }

    const fn code(self) -> u64 {
        (self.refill as u64) << 32 | self.price as u64
    }

    fn of(code: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self {
            refill: half(code >> 32),
            price: half(code),
        }
    }

    fn depth(self) -> i64 {
        i64::from(self.refill) * DEPTH_TICKS
    }

    /// How fast a balance moves with so many slots borrowed, a tick.
    fn slope(self, held: u32) -> i64 {
        i64::from(self.refill) - i64::from(self.price) * i64::from(held)
    }

    /// The part of the old bucket that was full stays full: how long it takes until it is full
    /// again does not change.
    fn convert(self, balance: i64, old: Self) -> i64 {
        if old.refill == 0 {
            return self.depth();
        }
        let exact = i128::from(balance) * i128::from(self.refill) / i128::from(old.refill);
        let bound = i128::from(BALANCE_MAX);
        i64::try_from(exact.clamp(-bound, bound)).unwrap_or(0)
    }
}

/// Borrowed slots, which terms, and the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State(u64);

impl State {
    fn new(held: u32, terms: usize, balance: i64, slope: i64, tick: i64) -> Self {
        let line = balance.wrapping_sub(slope.wrapping_mul(tick));
        let line = line.cast_unsigned() << (u64::BITS - LINE_BITS);
        Self(line | (terms as u64) << HELD_BITS | u64::from(held))
    }

    fn held(self) -> u32 {
        u32::try_from(self.0 & u64::from(HELD_MAX)).unwrap_or(HELD_MAX)
    }

    fn terms(self) -> usize {
        usize::try_from(self.0 >> HELD_BITS).unwrap_or(0) % TERMS
    }

    /// The line's value: only the bits of a line count, so that it wraps where a line does.
    fn balance(self, slope: i64, tick: i64) -> i64 {
        const SHIFT: u32 = u64::BITS - LINE_BITS;
        let line = (self.0.cast_signed() >> SHIFT).wrapping_add(slope.wrapping_mul(tick));
        line << SHIFT >> SHIFT
    }
}

/// The bucket of one route.
#[derive(Debug)]
pub(crate) struct Credit {
    state: AtomicU64,
    /// Those in force and the next ones, by turns: whoever still reads the old ones finds them.
    terms: [AtomicU64; TERMS],
}

/// A bucket at one moment, in slot-milliseconds. Told in slot-seconds: `slot_seconds` and `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(into = "InSeconds")]
pub struct Balance {
    /// What is left; below zero what is owed.
    pub slot_ms: i64,
    /// What a full one holds.
    pub full_slot_ms: i64,
}

impl Balance {
    /// Nothing is left: nothing more is borrowed until it has earned something.
    pub const fn is_used_up(&self) -> bool {
        self.slot_ms <= 0
    }
}

#[derive(Serialize)]
struct InSeconds {
    slot_seconds: f64,
    max: f64,
}

impl From<Balance> for InSeconds {
    fn from(balance: Balance) -> Self {
        let seconds = |ms: i64| {
            let whole = i32::try_from(ms / 1_000).unwrap_or(i32::MAX);
            let rest = i32::try_from(ms % 1_000).unwrap_or(0);
            f64::from(whole) + f64::from(rest) / 1_000.0
        };
        Self {
            slot_seconds: seconds(balance.slot_ms),
            max: seconds(balance.full_slot_ms),
        }
    }
}

fn tick(now_us: u64) -> i64 {
    i64::try_from(now_us / TICK_US).unwrap_or(i64::MAX)
}

impl Credit {
    /// One that earns nothing until it has terms, and is full then.
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(State::new(0, 0, 0, 0, 0).0),
            terms: std::array::from_fn(|_| AtomicU64::new(Terms::NONE.code())),
        }
    }

    fn terms_at(&self, index: usize) -> Terms {
        let code = self.terms.get(index % TERMS);
        code.map_or(Terms::NONE, |code| Terms::of(code.load(Ordering::Acquire)))
    }

    /// What the bucket holds of a state. It does not overflow.
    fn read(&self, state: State, now_us: u64) -> (Terms, i64) {
        let terms = self.terms_at(state.terms());
        let balance = state.balance(terms.slope(state.held()), tick(now_us));
        (terms, balance.clamp(-BALANCE_MAX, terms.depth()))
    }

    /// Changes the number of borrowed slots, if `next` says to which; the balance goes on from
    /// what it is now.
    fn change(&self, now_us: u64, next: impl Fn(u32, i64) -> Option<u32>) -> bool {
        let mut seen = State(self.state.load(Ordering::Acquire));
        loop {
            let (terms, balance) = self.read(seen, now_us);
            let Some(held) = next(seen.held(), balance) else {
                return false;
            };
            let slope = terms.slope(held);
            let after = State::new(held, seen.terms(), balance, slope, tick(now_us));
            match self.swap(seen, after) {
                Ok(()) => return true,
                Err(other) => seen = other,
            }
        }
    }

    fn swap(&self, old: State, new: State) -> Result<(), State> {
        self.state
            .compare_exchange_weak(old.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(State)
    }

    /// One more slot is borrowed from now on, if anything is left to pay for it.
    pub(crate) fn borrow(&self, now_us: u64) -> bool {
        self.change(now_us, |held, balance| (balance > 0).then_some(held + 1))
    }

    /// So many more are borrowed, whatever is left: they were admitted before.
    pub(crate) fn force(&self, count: u32, now_us: u64) {
        if count > 0 {
            self.change(now_us, |held, _| Some((held + count).min(HELD_MAX)));
        }
    }

    /// So many are borrowed no longer.
    pub(crate) fn give(&self, count: u32, now_us: u64) {
        if count > 0 {
            self.change(now_us, |held, _| Some(held.saturating_sub(count)));
        }
    }

    /// How many are borrowed now.
    pub(crate) fn held(&self) -> u32 {
        State(self.state.load(Ordering::Acquire)).held()
    }

    /// True when a slot may be borrowed, or kept borrowed by another request.
    pub(crate) fn is_positive(&self, now_us: u64) -> bool {
        let state = State(self.state.load(Ordering::Acquire));
        self.read(state, now_us).1 > 0
    }

    /// Brings the line back to what is near: to be called every few seconds.
    pub(crate) fn settle(&self, now_us: u64) {
        self.change(now_us, |held, _| Some(held));
    }

    /// New terms from now on. One caller at a time.
    pub(crate) fn set_terms(&self, terms: Terms, now_us: u64) {
        let mut seen = State(self.state.load(Ordering::Acquire));
        if self.terms_at(seen.terms()) == terms {
            return;
        }
        let next = (seen.terms() + 1) % TERMS;
        if let Some(place) = self.terms.get(next) {
            place.store(terms.code(), Ordering::Release);
        }
        loop {
            let (old, balance) = self.read(seen, now_us);
            let balance = terms.convert(balance, old);
            let slope = terms.slope(seen.held());
            let after = State::new(seen.held(), next, balance, slope, tick(now_us));
            match self.swap(seen, after) {
                Ok(()) => return,
                Err(other) => seen = other,
            }
        }
    }

    /// What is borrowed costs nothing from now on, until there are new terms.
    pub(crate) fn charge_nothing(&self, now_us: u64) {
        let state = State(self.state.load(Ordering::Acquire));
        let terms = self.terms_at(state.terms());
        self.set_terms(Terms { price: 0, ..terms }, now_us);
    }

    /// What is left and what a full bucket holds.
    pub(crate) fn balance(&self, now_us: u64) -> Balance {
        let state = State(self.state.load(Ordering::Acquire));
        let (terms, balance) = self.read(state, now_us);
        let slot_ms = |units: i64| {
            let price = i128::from(terms.price.max(1));
            let exact = i128::from(units) * i128::from(TICK_US) / price / 1_000;
            i64::try_from(exact).unwrap_or(i64::MAX)
        };
        Balance {
            slot_ms: slot_ms(balance),
            full_slot_ms: slot_ms(terms.depth()),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn full(spare: u32, routes: u32, now_us: u64) -> Credit {
        let credit = Credit::new();
        assert!(!credit.borrow(now_us), "nothing without terms");
        credit.set_terms(Terms::new(spare, routes), now_us);
        credit
    }

    fn left(credit: &Credit, now_us: u64) -> i64 {
        credit.balance(now_us).slot_ms
    }

    #[test]
    fn a_borrowed_slot_costs_what_it_is_held() {
        // 60 spare slots, 20 routes: 3 a second, 30 slot-seconds when full.
        for begin in [0, 7 * SECOND, 1 << 50] {
            let credit = full(60, 20, begin);
            assert_eq!(left(&credit, begin), 30_000);
            for _ in 0..10 {
                assert!(credit.borrow(begin));
            }
            assert_eq!(left(&credit, begin + SECOND), 30_000 - 7_000);
            credit.give(9, begin + SECOND);
            assert_eq!(left(&credit, begin + 2 * SECOND), 25_000, "3 in, 1 out");
            credit.give(1, begin + 2 * SECOND);
            assert_eq!(left(&credit, begin + 3 * SECOND), 28_000);
            assert_eq!(
                left(&credit, begin + 9 * SECOND),
                30_000,
                "no more than full"
            );
            assert!(credit.borrow(begin + 20 * SECOND));
            assert_eq!(left(&credit, begin + 20 * SECOND), 30_000);
        }
    }

    #[test]
    fn who_owes_borrows_nothing_until_it_is_paid() {
        let credit = full(1, 4, 0);
        assert!(credit.borrow(0) && credit.borrow(0));
        // A quarter in, two out, of two and a half.
        assert!(credit.borrow(SECOND));
        credit.give(1, SECOND);
        assert!(!credit.borrow(2 * SECOND));
        assert!(!credit.is_positive(2 * SECOND));
        assert_eq!(left(&credit, 2 * SECOND), 2_500 - 3_500);
        credit.give(2, 2 * SECOND);
        assert!(!credit.is_positive(6 * SECOND), "exactly nothing is left");
        assert!(credit.is_positive(6 * SECOND + TICK_US));
        assert_eq!(left(&credit, 100 * SECOND), 2_500);
    }

    #[test]
    fn new_terms_keep_what_is_full_and_what_is_held() {
        let credit = full(10, 1, 0);
        assert!(credit.borrow(0));
        credit.set_terms(Terms::new(20, 1), 0);
        assert_eq!(left(&credit, 0), 200_000);
        credit.force(219, 0);
        credit.set_terms(Terms::new(10, 1), SECOND);
        assert_eq!(left(&credit, SECOND), 0, "empty stays empty");
        credit.give(220, SECOND);
        assert_eq!(left(&credit, 2 * SECOND), 10_000);
        credit.set_terms(Terms::NONE, 2 * SECOND);
        assert!(!credit.is_positive(90 * SECOND));
    }

    #[test]
    fn the_largest_numbers_are_read_right() {
        let most = crate::LIMIT_MAX;
        for (spare, routes) in [(most, 1), (most, 10_000), (1, 10_000), (1, 1)] {
            let credit = full(spare, routes, 0);
            let all = credit.balance(0);
            let part = i64::from(spare) * 10_000 / i64::from(routes);
            assert!(
                (part - 1..=part).contains(&all.full_slot_ms),
                "{all:?} of {part}"
            );
            credit.force(spare, 0);
            for second in 1..=7_200 {
                credit.settle(second * SECOND);
            }
            assert!(!credit.is_positive(7_200 * SECOND) || routes == 1);
            credit.give(spare, 7_200 * SECOND);
            assert!(left(&credit, 7_200 * SECOND) <= all.slot_ms);
        }
    }
}
