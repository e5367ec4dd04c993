//! How often each outcome happened that no compartment counts.
//!
//! Separate so that every part of the request path counts in one way and the metrics read one
//! place. It must never be touched on the path of a request that simply succeeds: these words
//! are shared by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::reason::Reason;

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    reasons: [AtomicU64; Reason::COUNT],
    fallbacks: AtomicU64,
    retries: AtomicU64,
}

impl Outcomes {
    pub(crate) fn count(&self, reason: Reason) {
        if let Some(count) = self.reasons.get(reason.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A fixed answer was given in place of a rejection or a timeout.
    pub(crate) fn count_static_fallback(&self) {
        self.fallbacks.fetch_add(1, Ordering::Relaxed);
    }

    /// An attempt beyond the first.
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Every reason that a request can end with other than a rejection, with its count.
    pub(crate) fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self
            .reasons
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        Reason::all()
            .zip(counts)
            .map(|(reason, count)| (reason.as_str(), count))
    }

    pub(crate) fn static_fallbacks(&self) -> u64 {
        self.fallbacks.load(Ordering::Relaxed)
    }

    pub(crate) fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }
}
