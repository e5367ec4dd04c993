//! The breaker of one dependency: whether it is worth asking at all.
//!
//! Separate because it judges what came back, while a compartment counts what is out: the two
//! reasons to refuse must stay apart. Pure: time is a parameter, and whoever asks counts and logs
//! the changes that are returned. It must never judge by what a caller or a limit of ours did.
//!
//! | outcome of an attempt | counts as |
//! |---|---|
//! | an answer below 500 | good |
//! | an answer from 500 on; no connection; cut or unreadable; too late | failure |
//! | the client left, or its body did; our own bound cut by the caller's deadline | nothing |
//! | a limit of ours refused after it passed here | nothing; a failure if `count_rejections` |

mod book;
mod pass;
mod state;

use std::ops::Deref;

use crate::numbers::whole_us;
use crate::policy::{BreakerRules, ForcedBreaker};
use crate::sync::{AtomicU64, Mutex, Ordering, OwnLine, lock};

use book::{Book, Terms};
pub use pass::Pass;
pub use state::{BreakerFigures, BreakerState, Change, Outcome, Shut};

/// Time in which what came back is remembered. Failures older than this are forgotten, and where
/// fewer calls come in it than the count window has, the rate is that of the time.
pub const BREAKER_WINDOW_US: u64 = 30_000_000;
/// Fewest calls that a rate over time is made of.
pub const BREAKER_THIN_CALLS_MIN: u64 = 5;
/// Longest time that probes may keep others from being probes.
pub const BREAKER_PROBE_US_MAX: u64 = 30_000_000;
/// What a caller is asked to wait while an operator keeps it open.
const FORCED_WAIT_US: u64 = 10_000_000;

const KIND_BITS: u32 = 4;
const KIND_MASK: u64 = 0b111;
const COUNTS_REJECTIONS: u64 = 0b1000;
/// The count of good answers has its era's last bits above it, so that none counts in another.
const GOOD_BITS: u32 = 48;
const GOOD_MASK: u64 = (1 << GOOD_BITS) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Without rules nothing is judged.
    Absent,
    Closed,
    HalfOpen,
    /// All places for probes are taken.
    HalfOpenFull,
    Open,
    ForcedOpen,
    ForcedClosed,
}

/// The state as a request reads it. Written under the lock of the book alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    kind: Kind,
    era: u64,
    counts_rejections: bool,
}

impl Word {
    const fn of(bits: u64) -> Self {
        let kind = match bits & KIND_MASK {
            1 => Kind::Closed,
            2 => Kind::HalfOpen,
            3 => Kind::HalfOpenFull,
            4 => Kind::Open,
            5 => Kind::ForcedOpen,
            6 => Kind::ForcedClosed,
            _ => Kind::Absent,
        };
        Self {
            kind,
            era: bits >> KIND_BITS,
            counts_rejections: bits & COUNTS_REJECTIONS != 0,
        }
    }

    const fn bits(self) -> u64 {
        let kind = match self.kind {
            Kind::Absent => 0,
            Kind::Closed => 1,
            Kind::HalfOpen => 2,
            Kind::HalfOpenFull => 3,
            Kind::Open => 4,
            Kind::ForcedOpen => 5,
            Kind::ForcedClosed => 6,
        };
        let counts = if self.counts_rejections {
            COUNTS_REJECTIONS
        } else {
            0
        };
        self.era << KIND_BITS | counts | kind
    }
}

/// The breaker of one dependency in one process. A policy changes its rules and never replaces it.
///
/// While it is closed, a request reads one word and a good answer adds one; its lock is taken for
/// failures, probes and changes.
#[derive(Debug)]
pub struct Breaker {
    word: OwnLine<AtomicU64>,
    /// Until when nothing passes, where nothing does.
    until_us: AtomicU64,
    good: OwnLine<AtomicU64>,
    /// The count of good answers with which the count window is full for the first time.
    judge_at: AtomicU64,
    book: Mutex<Book>,
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// One without rules: everything passes.
    pub fn new() -> Self {
        Self {
            word: OwnLine(AtomicU64::new(0)),
            until_us: AtomicU64::new(0),
            good: OwnLine(AtomicU64::new(0)),
            judge_at: AtomicU64::new(u64::MAX),
            book: Mutex::new(Book::new()),
        }
    }

    /// Puts the rules of a policy in force. What it knows stays known.
    #[must_use]
    pub fn set(
        &self,
        rules: Option<&BreakerRules>,
        forced: Option<ForcedBreaker>,
        now_us: u64,
    ) -> Option<Change> {
        let terms = rules.map(|rules| Terms {
            rate: rules.failure_rate,
            calls: rules.calls.into(),
            open_us: whole_us(rules.open).max(1),
            probes: rules.probes.max(1),
            count_rejections: rules.count_rejections,
        });
        let mut book = lock(&self.book);
        let change = book.set(terms, forced, now_us);
        self.publish(&book, change.is_some());
        change.filter(|change| change.from != change.to)
    }

    /// Asks whether the dependency may be asked. To be asked before any permit.
    pub fn ask<H: Deref<Target = Self>>(
        holder: H,
        now_us: u64,
    ) -> (Result<Pass<H>, Shut>, Option<Change>) {
        let word = holder.read();
        let shut = |state, until_us: u64| Shut {
            state,
            wait_us: until_us.saturating_sub(now_us).max(1),
        };
        match word.kind {
            Kind::Absent | Kind::Closed | Kind::ForcedClosed => {
                (Ok(Pass::new(holder, word.era, false)), None)
            }
            Kind::ForcedOpen => {
                let until_us = now_us.saturating_add(FORCED_WAIT_US);
                (Err(shut(BreakerState::ForcedOpen, until_us)), None)
            }
            Kind::Open | Kind::HalfOpen | Kind::HalfOpenFull => {
                let until_us = holder.until_us.load(Ordering::Acquire);
                if word.kind == Kind::Open && now_us < until_us {
                    return (Err(shut(BreakerState::Open, until_us)), None);
                }
                if word.kind == Kind::HalfOpenFull && now_us < until_us {
                    return (Err(shut(BreakerState::HalfOpen, now_us)), None);
                }
                Self::ask_for_probe(holder, now_us)
            }
        }
    }

    /// Rare: it is about to be half open, or is.
    fn ask_for_probe<H: Deref<Target = Self>>(
        holder: H,
        now_us: u64,
    ) -> (Result<Pass<H>, Shut>, Option<Change>) {
        let mut book = lock(&holder.book);
        let (place, change) = book.ask_for_probe(now_us);
        holder.publish(&book, change.is_some());
        let (era, state, until_us) = (book.era, book.state(), book.until_us());
        let is_probe = book.is_half_open();
        drop(book);
        if place {
            return (Ok(Pass::new(holder, era, is_probe)), change);
        }
        let is_open = state == BreakerState::Open;
        let left_us = until_us.saturating_sub(now_us);
        let wait_us = if is_open { left_us.max(1) } else { 1 };
        (Err(Shut { state, wait_us }), change)
    }

    /// What it does now.
    pub fn state(&self) -> BreakerState {
        match self.read().kind {
            Kind::Absent | Kind::Closed => BreakerState::Closed,
            Kind::HalfOpen | Kind::HalfOpenFull => BreakerState::HalfOpen,
            Kind::Open => BreakerState::Open,
            Kind::ForcedOpen => BreakerState::ForcedOpen,
            Kind::ForcedClosed => BreakerState::ForcedClosed,
        }
    }

    /// What it says of itself; `None` without rules.
    pub fn figures(&self, now_us: u64) -> Option<BreakerFigures> {
        let book = lock(&self.book);
        let good = self.good.0.load(Ordering::Acquire) & GOOD_MASK;
        book.figures(good, now_us)
    }

    fn read(&self) -> Word {
        Word::of(self.word.0.load(Ordering::Acquire))
    }

    /// One good answer more in this era, or less.
    fn add_good(&self, era: u64, change: i64) -> Option<u64> {
        let mut seen = self.good.0.load(Ordering::Acquire);
        loop {
            if seen >> GOOD_BITS != era & (u64::MAX >> GOOD_BITS) {
                return None;
            }
            let good = (seen & GOOD_MASK).saturating_add_signed(change) & GOOD_MASK;
            let next = (seen & !GOOD_MASK) | good;
            let swap =
                self.good
                    .0
                    .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire);
            match swap {
                Ok(_) => return Some(good),
                Err(other) => seen = other,
            }
        }
    }

    /// An attempt of this era was answered.
    fn answered(&self, era: u64, is_probe: bool, now_us: u64) -> Option<Change> {
        if is_probe {
            let mut book = lock(&self.book);
            let change = book.probe_answered(era, now_us);
            self.publish(&book, change.is_some());
            return change;
        }
        let word = self.read();
        if word.era != era || word.kind != Kind::Closed {
            return None;
        }
        let good = self.add_good(era, 1)?;
        if good < self.judge_at.load(Ordering::Acquire) {
            return None;
        }
        self.judge(era, now_us, |_| ())
    }

    /// An attempt of this era failed; `was_good` when it had been counted as answered.
    fn failed(&self, era: u64, was_good: bool, now_us: u64) -> Option<Change> {
        let word = self.read();
        let is_judged = matches!(
            word.kind,
            Kind::Closed | Kind::HalfOpen | Kind::HalfOpenFull
        );
        if word.era != era || !is_judged {
            return None;
        }
        if was_good && word.kind == Kind::Closed {
            self.add_good(era, -1);
        }
        self.judge(era, now_us, |book| book.fails = true)
    }

    fn judge(&self, era: u64, now_us: u64, note: impl FnOnce(&mut Book)) -> Option<Change> {
        let mut book = lock(&self.book);
        if book.era != era {
            return None;
        }
        note(&mut book);
        let good = self.good.0.load(Ordering::Acquire) & GOOD_MASK;
        let change = book.judge(good, now_us);
        self.judge_at.store(book.judge_at(good), Ordering::Release);
        self.publish(&book, change.is_some());
        change
    }

    /// A probe of this era ended without saying anything of the dependency.
    fn give_back(&self, era: u64) {
        let mut book = lock(&self.book);
        book.give_back(era);
        self.publish(&book, false);
    }

    /// Shows what the book says. Under its lock, so that words follow each other as books do.
    fn publish(&self, book: &Book, is_new_era: bool) {
        if is_new_era {
            let era = book.era & (u64::MAX >> GOOD_BITS);
            self.good.0.store(era << GOOD_BITS, Ordering::Release);
            self.judge_at.store(u64::MAX, Ordering::Release);
        }
        self.until_us.store(book.until_us(), Ordering::Release);
        let word = Word {
            kind: book.kind(),
            era: book.era,
            counts_rejections: book.counts_rejections(),
        };
        self.word.0.store(word.bits(), Ordering::Release);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod laws;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
