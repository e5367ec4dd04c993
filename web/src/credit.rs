//! What a route has left to borrow with, in words.
//!
//! Separate because the number means nothing without what happens when it is gone. It must never
//! round something that is left to nothing.

use compartment::{Balance, Figures};

use crate::text;

/// The credit of one compartment over its gateways, each of which pays from its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// Slot-milliseconds left; below zero what is owed.
    pub slot_ms: i64,
    /// What there is at most.
    pub full_slot_ms: i64,
    /// Gateways on which nothing is left.
    pub used_up: u32,
    gateways: u32,
}

impl Credit {
    /// Of one gateway; `None` where nothing is borrowed, or for nothing.
    pub(crate) fn of(figures: &Figures) -> Option<Self> {
        figures.credit.map(|balance: Balance| Self {
            slot_ms: balance.slot_ms,
            full_slot_ms: balance.full_slot_ms,
            used_up: balance.is_used_up().into(),
            gateways: 1,
        })
    }

    /// Of one more gateway.
    pub(crate) fn with(self, more: Self) -> Self {
        Self {
            slot_ms: self.slot_ms.saturating_add(more.slot_ms),
            full_slot_ms: self.full_slot_ms.saturating_add(more.full_slot_ms),
            used_up: self.used_up.saturating_add(more.used_up),
            gateways: self.gateways.saturating_add(more.gateways),
        }
    }

    /// `credit 3.1 of 10 slot-seconds`.
    pub fn words(&self) -> String {
        let full = tenths(self.full_slot_ms.unsigned_abs());
        let now = tenths(self.slot_ms.unsigned_abs());
        if self.slot_ms < 0 {
            format!("credit 0 of {full} slot-seconds, {now} owed")
        } else {
            format!("credit {now} of {full} slot-seconds")
        }
    }

    /// What it costs and what happens at zero.
    pub fn rule(&self) -> String {
        let now = match (self.used_up, self.gateways) {
            (0, _) => String::new(),
            (all, gateways) if all == gateways => "Its credit is used up. ".to_owned(),
            (some, gateways) => format!(
                "Its credit is used up on {} of {}. ",
                text::count(some),
                text::plural(gateways, "gateway", "gateways")
            ),
        };
        format!(
            "{now}A borrowed slot costs one slot-second a second; at 0 the route borrows no more \
             until it has earned some."
        )
    }
}

/// Thousandths with at most one digit after the point, up: what is left is never told as nothing.
fn tenths(ms: u64) -> String {
    let tenths = ms.div_ceil(100);
    let whole = text::count(tenths / 10);
    match tenths % 10 {
        0 => whole,
        rest => format!("{whole}.{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credit(slot_ms: i64) -> Credit {
        let balance = Balance {
            slot_ms,
            full_slot_ms: 10_000,
        };
        let level = compartment::Level::Route;
        let limit = compartment::Limit::UNLIMITED;
        Credit::of(&Figures {
            credit: Some(balance),
            ..Figures::new("route/a".to_owned(), level, limit)
        })
        .unwrap()
    }

    #[test]
    fn credit_is_told_with_what_happens_without() {
        let words = |ms| credit(ms).words();
        assert_eq!(words(3_100), "credit 3.1 of 10 slot-seconds");
        assert_eq!(words(1), "credit 0.1 of 10 slot-seconds");
        assert_eq!(words(10_000), "credit 10 of 10 slot-seconds");
        assert_eq!(words(-2_500), "credit 0 of 10 slot-seconds, 2.5 owed");
        assert!(credit(1).rule().starts_with("A borrowed slot costs"));
        assert!(credit(0).rule().starts_with("Its credit is used up. "));
        let two = credit(-1_000).with(credit(4_000));
        assert_eq!(two.words(), "credit 3 of 20 slot-seconds");
        assert!(
            two.rule().starts_with("Its credit is used up on 1 of 2"),
            "{}",
            two.rule()
        );
    }
}
