//! Coarse rows of fine ones: added up while they are read.
//!
//! Separate because both databases hand their rows over in the same order. It must never hold more
//! than one compartment's rows.

use crate::history::Row;

/// Adds rows up that come by compartment and time: gateways side by side, then one after another.
#[derive(Default)]
pub(super) struct Sum {
    key: i64,
    /// What is added up over time, until the slot below.
    before: Option<Row>,
    slot: i64,
    /// What is added up over gateways in that slot.
    now: Option<Row>,
}

impl Sum {
    /// Takes the next row; the answer is the sum of the compartment before, when it is done.
    pub(super) fn take(&mut self, key: i64, slot: i64, row: Row) -> Option<(i64, Row)> {
        let done = if key == self.key { None } else { self.end() };
        if self.slot != slot || self.now.is_none() {
            self.fold();
            self.slot = slot;
        }
        self.key = key;
        match &mut self.now {
            Some(now) => now.beside(&row),
            None => self.now = Some(row),
        }
        done
    }

    fn fold(&mut self) {
        let Some(now) = self.now.take() else { return };
        match &mut self.before {
            Some(before) => before.then(&now),
            None => self.before = Some(now),
        }
    }

    /// The sum of the last compartment.
    pub(super) fn end(&mut self) -> Option<(i64, Row)> {
        self.fold();
        self.before.take().map(|row| (self.key, row))
    }
}
