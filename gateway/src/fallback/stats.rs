//! What each step of each ladder has done.
//!
//! Separate because a step's counts outlive the policies that name it: they are kept by route and
//! kind, and read by others than those who count. It must never be touched by a request that
//! needs no fallback.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::{Name, StepFigures};

use crate::stale::Without;

/// Why a step gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    Nothing,
    TooOld,
    NotForIt,
    /// Its upstream is not worth asking.
    BreakerOpen,
    /// No slot.
    Full,
    /// Nothing is left of the request's own time.
    NoTime,
    /// What the upstream would need of the request is gone, or may not be sent twice.
    NotRepeatable,
    Timeout,
    Connect,
    Reset,
    ServerError,
    /// The client left, or its body broke.
    Client,
}

impl Miss {
    pub(crate) const ALL: [Self; 12] = [
        Self::Nothing,
        Self::TooOld,
        Self::NotForIt,
        Self::BreakerOpen,
        Self::Full,
        Self::NoTime,
        Self::NotRepeatable,
        Self::Timeout,
        Self::Connect,
        Self::Reset,
        Self::ServerError,
        Self::Client,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing_stored",
            Self::TooOld => "too_old",
            Self::NotForIt => "not_for_this_request",
            Self::BreakerOpen => "breaker_open",
            Self::Full => "full",
            Self::NoTime => "no_time_left",
            Self::NotRepeatable => "not_repeatable",
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::ServerError => "status_5xx",
            Self::Client => "client",
        }
    }
}

impl From<Without> for Miss {
    fn from(without: Without) -> Self {
        match without {
            Without::Nothing => Self::Nothing,
            Without::TooOld => Self::TooOld,
            Without::NotForIt => Self::NotForIt,
        }
    }
}

/// Counts of one step since the start of the process.
#[derive(Debug, Default)]
pub(crate) struct StepStats {
    answers: AtomicU64,
    missed: [AtomicU64; Miss::ALL.len()],
    /// 0: never.
    last_us: AtomicU64,
    took_us: AtomicU64,
    slowest_us: AtomicU64,
}

impl StepStats {
    /// It answered, in so long.
    pub(crate) fn answered(&self, now_us: u64, took_us: u64) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.last_us.fetch_max(now_us.max(1), Ordering::Relaxed);
        self.took_us.fetch_add(took_us, Ordering::Relaxed);
        self.slowest_us.fetch_max(took_us, Ordering::Relaxed);
    }

    pub(crate) fn missed(&self, why: Miss) {
        let at = Miss::ALL.iter().position(|miss| *miss == why);
        if let Some(count) = at.and_then(|at| self.missed.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn figures(&self, kind: &'static str, now_us: u64) -> StepFigures {
        let counts = self
            .missed
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        let failures = Miss::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
        let failures = failures.map(|(why, count)| (why.as_str().to_owned(), count));
        let failures: BTreeMap<String, u64> = failures.collect();
        let last_us = self.last_us.load(Ordering::Relaxed);
        StepFigures {
            kind: kind.to_owned(),
            answers: self.answers.load(Ordering::Relaxed),
            failed: failures.values().sum(),
            failures,
            last_answer_ms: (last_us > 0).then(|| now_us.saturating_sub(last_us) / 1_000),
            took_us: self.took_us.load(Ordering::Relaxed),
            slowest_us: self.slowest_us.load(Ordering::Relaxed),
        }
    }
}

/// The counts of every step that a policy names or a request still uses.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<HashMap<(Name, &'static str), Arc<StepStats>>>);

impl Kept {
    pub(crate) fn of(&self, route: &Name, kind: &'static str) -> Arc<StepStats> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kept.entry((route.clone(), kind)).or_default())
    }

    /// Forgets the steps that nothing names any more.
    pub(crate) fn sweep(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, stats| Arc::strong_count(stats) > 1);
    }
}
