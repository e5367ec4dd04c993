//! How often each outcome happened that no compartment counts.
//!
//! Separate so that every part of the request path counts in one way and the metrics read one
//! place. It must never be touched on the path of a request that simply succeeds: these words
//! are shared by all threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fallback::{Kind, Miss};
use crate::reason::Reason;

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    reasons: [AtomicU64; Reason::COUNT],
    /// By kind: a route that is gone takes nothing of them along.
    fallbacks: [AtomicU64; Kind::ALL.len()],
    missed: [[AtomicU64; Miss::ALL.len()]; Kind::ALL.len()],
}

impl Outcomes {
    pub(crate) fn count(&self, reason: Reason) {
        if let Some(count) = self.reasons.get(reason.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Something else was given in place of a rejection or a timeout.
    pub(crate) fn count_fallback(&self, kind: Kind) {
        let at = Kind::ALL.iter().position(|known| *known == kind);
        if let Some(count) = at.and_then(|at| self.fallbacks.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
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

    /// A step had no answer.
    pub(crate) fn count_missed(&self, kind: Kind, why: Miss) {
        let at = Kind::ALL.iter().position(|known| *known == kind);
        let counts = at.and_then(|at| self.missed.get(at));
        let why = Miss::ALL.iter().position(|known| *known == why);
        if let Some(count) = counts.zip(why).and_then(|(counts, why)| counts.get(why)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often steps had no answer, by kind and reason; what never happened is left out.
    pub(crate) fn missed(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let kinds = Kind::ALL.iter().zip(&self.missed);
        kinds.flat_map(|(kind, counts)| {
            let counts = counts.iter().map(|count| count.load(Ordering::Relaxed));
            let counts = Miss::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
            counts.map(|(why, count)| (kind.as_str(), why.as_str(), count))
        })
    }

    /// Every kind of answer in place of another, with its count.
    pub(crate) fn fallbacks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.fallbacks.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        Kind::ALL.iter().map(|kind| kind.as_str()).zip(counts)
    }
}
