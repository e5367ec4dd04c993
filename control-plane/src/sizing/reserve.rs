//! How many last slots to keep from sheddable requests.
//!
//! Separate because it is a law of chance, not of sums: the chain of slots taken, in which the
//! two kinds of arrivals go up together until few are free and then one kind alone. It must never
//! refuse anything: it is shown and advised.

use serde::Serialize;

/// The most slots for which the chain is walked; a limit beyond it needs no reserve to speak of.
const SLOTS_MAX: u32 = 10_000;
/// Where the numbers are scaled down, far below the largest that can be held.
const LARGE: f64 = 1e200;

/// What is refused when so many last slots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Reserve {
    /// Last slots that no sheddable request gets.
    pub kept: u32,
    /// Share of the other requests that is refused.
    pub others_refused: f64,
    /// Share of the sheddable requests that is refused.
    pub sheddable_refused: f64,
}

/// Refusals when `others` and `sheddable` slots are asked for on average on `slots`, and a
/// sheddable request gets one only while more than `kept` are free:
/// `p(k) = p(k-1) x (others + sheddable x [k-1 < slots - kept]) / k`.
pub fn refused(others: f64, sheddable: f64, slots: u32, kept: u32) -> Reserve {
    let shared = slots.saturating_sub(kept);
    let (mut here, mut sum) = (1.0_f64, 0.0_f64);
    let mut at_the_end = 0.0;
    for taken in 0..=slots {
        if taken > 0 {
            let both = if taken <= shared { sheddable } else { 0.0 };
            here *= (others + both) / f64::from(taken);
        }
        sum += here;
        if taken >= shared {
            at_the_end += here;
        }
        if sum > LARGE {
            here /= LARGE;
            sum /= LARGE;
            at_the_end /= LARGE;
        }
    }
    Reserve {
        kept,
        others_refused: here / sum,
        sheddable_refused: at_the_end / sum,
    }
}

/// Every reserve from none up to the smallest that keeps the refusals of the others at `target`;
/// `None` when none does.
pub fn advised(others: f64, sheddable: f64, slots: u32, target: f64) -> Option<Vec<Reserve>> {
    let mut tried = Vec::new();
    for kept in 0..slots.min(SLOTS_MAX) {
        let reserve = refused(others, sheddable, slots, kept);
        tried.push(reserve);
        // Without others there is nobody to keep them for.
        if reserve.others_refused <= target || others <= 0.0 {
            return Some(tried);
        }
        // With all slots to themselves they would be refused as often: more does not help.
        if kept > 0 && reserve.sheddable_refused > 0.999_999 {
            break;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the books: 6 and 14 slots asked for on 20.
    #[test]
    fn a_few_last_slots_buy_an_order_of_magnitude() {
        let table = [
            (15.9, 15.9),
            (5.4, 23.0),
            (1.9, 29.0),
            (0.72, 34.0),
            (0.28, 39.0),
            (0.12, 44.0),
        ];
        for (kept, (others, sheddable)) in (0..).zip(table) {
            let seen = refused(6.0, 14.0, 20, kept);
            let near = |share: f64, percent: f64, digits: f64| {
                (share * 100.0 - percent).abs() <= digits / 2.0 * 1.000_001
            };
            let digits = if others > 1.0 { 0.1 } else { 0.01 };
            assert!(near(seen.others_refused, others, digits), "{seen:?}");
            let digits = if kept == 0 { 0.1 } else { 1.0 };
            assert!(near(seen.sheddable_refused, sheddable, digits), "{seen:?}");
        }
        let kept = |target| advised(6.0, 14.0, 20, target).map(|tried| tried.len() - 1);
        assert_eq!([0.2, 0.06, 0.01, 0.002].map(kept), [0, 1, 3, 5].map(Some));
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(refused(0.0, 0.0, 3, 0).others_refused, 0.0);
        assert_eq!(refused(5.0, 5.0, 0, 0).others_refused, 1.0);
        let all = refused(6.0, 14.0, 20, 20);
        assert!((all.sheddable_refused - 1.0).abs() < 1e-12, "all are kept");
        let large = refused(5e5, 5e5, 1_000_000, 10);
        assert!(large.others_refused.is_finite() && large.others_refused < 1e-3);
        assert_eq!(
            advised(50.0, 1.0, 20, 0.001),
            None,
            "too small for the others alone"
        );
        assert_eq!(
            advised(1.0, 1.0, 20, 0.001).map(|tried| tried.len()),
            Some(1)
        );
    }
}
