//! The last hour at a glance: which compartment was full when, and why requests were refused.
//!
//! Separate because it compares all compartments over time, while a page of one looks further
//! back. It must never be shown as the present.

use crate::chart::{Heat, Trend};

/// The panel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hour {
    /// Compartments by minute.
    pub heat: Heat,
    /// Refusals at any compartment, by minute and reason.
    pub refusals: Trend,
}

impl Hour {
    /// Minutes with refusals, newest first: when, how many of how many.
    pub fn refused_minutes(&self) -> Vec<(String, String, String)> {
        let rows = self.refusals.table().into_iter();
        let told = rows.filter_map(|row| {
            let [.., arrived, rejected] = row.figures?;
            (rejected != "0").then_some((row.when, rejected, arrived))
        });
        told.collect()
    }
}
