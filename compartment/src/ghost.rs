//! Counts as they would be if another limit were in force.
//!
//! Separate because nothing real depends on them: a route in shadow admits everybody and counts
//! here who would have been admitted, and a candidate is judged beside the live limit. Judging
//! and counting are one swap, so what is counted never exceeds the limit it is judged by, and
//! each request takes out exactly what it put in. A ghost counts also while nothing is judged:
//! a route that goes into shadow is judged with all that is in flight. It must never refuse.

use crate::policy::Millionths;
use crate::share;
use crate::sync::{AtomicU64, Ordering};
use crate::{Limit, Mode, Rejection};

const HALF: u32 = 32;
const ONE_SHADOW: u64 = 1;
const ONE_CANDIDATE: u64 = 1 << HALF;
const LOW: u64 = (1 << HALF) - 1;

/// Both counts of a route.
#[derive(Debug)]
pub(crate) struct Ghosts {
    /// Those that would be admitted: by the limit (low half), by the candidate (high half).
    counts: AtomicU64,
    terms: AtomicU64,
}

/// What a route judges by, packed so that a request reads it whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    /// `None`: unlimited.
    pub(crate) limit: Option<u32>,
    /// Places to wait. Who would wait is counted as if it were admitted: how long it would have
    /// to, nobody can know.
    pub(crate) queue: u32,
    pub(crate) candidate: Option<u32>,
}

const LIMIT_BITS: u32 = 20;
const QUEUE_BITS: u32 = 14;
const LIMIT_MASK: u64 = (1 << LIMIT_BITS) - 1;
const QUEUE_MASK: u64 = (1 << QUEUE_BITS) - 1;
const NONE: u64 = LIMIT_MASK;
const CANDIDATE_SHIFT: u32 = LIMIT_BITS;
const QUEUE_SHIFT: u32 = 2 * LIMIT_BITS;
const MODE_SHIFT: u32 = QUEUE_SHIFT + QUEUE_BITS;

const _: () = assert!((crate::LIMIT_MAX as u64) < NONE, "no limit is read as none");
const _: () = assert!(
    crate::policy::QUEUE_MAX as u64 <= QUEUE_MASK,
    "a line fits its field"
);
const _: () = assert!(MODE_SHIFT + 2 <= u64::BITS, "all fields fit");

impl Terms {
    /// A limit is judged that is not enforced.
    pub(crate) fn watch(self) -> bool {
        self.mode == Mode::Shadow || self.candidate.is_some()
    }

    fn pack(self) -> u64 {
        let slots = |limit: Option<u32>| limit.map_or(NONE, u64::from).min(NONE);
        let mode = match self.mode {
            Mode::Enforce => 0,
            Mode::Shadow => 1,
            Mode::Off => 2,
        };
        slots(self.limit)
            | slots(self.candidate) << CANDIDATE_SHIFT
            | u64::from(self.queue).min(QUEUE_MASK) << QUEUE_SHIFT
            | mode << MODE_SHIFT
    }

    fn unpack(packed: u64) -> Self {
        let field = |shift: u32, mask: u64| u32::try_from((packed >> shift) & mask).unwrap_or(0);
        let slots = |shift: u32| match (packed >> shift) & LIMIT_MASK {
            NONE => None,
            _ => Some(field(shift, LIMIT_MASK)),
        };
        Self {
            mode: match packed >> MODE_SHIFT {
                1 => Mode::Shadow,
                2 => Mode::Off,
                _ => Mode::Enforce,
            },
            limit: slots(0),
            queue: field(QUEUE_SHIFT, QUEUE_MASK),
            candidate: slots(CANDIDATE_SHIFT),
        }
    }
}

/// What a request asks of the ghosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) sheddable: bool,
    pub(crate) class_reserve: u32,
    /// The tenant's part, and how many calls the tenant would have here with this one.
    pub(crate) share: Option<(Millionths, u32)>,
    /// Its tenant's cap would refuse it, for this reason.
    pub(crate) capped: Option<Rejection>,
    /// The reason of a full route.
    pub(crate) full: Rejection,
}

/// What a request put into the ghosts, to be taken out at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shades {
    pub(crate) shadow: bool,
    pub(crate) candidate: bool,
}

/// What the ghosts say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) shades: Shades,
    /// The limit would have refused.
    pub(crate) refused: Option<Rejection>,
    /// The candidate would have refused.
    pub(crate) candidate_refused: bool,
}

impl Question {
    fn judge(self, terms: Terms, count: u32) -> Option<Rejection> {
        if terms.mode != Mode::Shadow {
            return None;
        }
        if terms.limit == Some(0) {
            return Some(Rejection::Closed);
        }
        if self.capped.is_some() {
            return self.capped;
        }
        let limit = terms.limit?;
        let free = limit.saturating_sub(count);
        let over = |(share, held): (Millionths, u32)| held > share::share_most(share, free);
        if self.share.is_some_and(over) {
            return Some(Rejection::TenantShare);
        }
        let kept_out = self.sheddable && free <= self.class_reserve;
        match (free == 0, terms.queue) {
            (false, _) if !kept_out => None,
            (_, queue) if queue > 0 => {
                (count >= limit.saturating_add(queue)).then_some(Rejection::QueueFull)
            }
            (true, _) => Some(self.full),
            (false, _) => Some(Rejection::ClassReserve),
        }
    }
}

fn halves(counts: u64) -> (u32, u32) {
    let half = |bits: u64| u32::try_from(bits & LOW).unwrap_or(u32::MAX);
    (half(counts), half(counts >> HALF))
}

impl Ghosts {
    pub(crate) fn new() -> Self {
        Self {
            counts: AtomicU64::new(0),
            terms: AtomicU64::new(Terms::default().pack()),
        }
    }

    pub(crate) fn set_terms(&self, terms: Terms) {
        self.terms.store(terms.pack(), Ordering::Release);
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms::unpack(self.terms.load(Ordering::Acquire))
    }

    /// Counts one request where it would be admitted.
    pub(crate) fn enter(&self, question: Question) -> Judgement {
        let terms = self.terms();
        let mut seen = self.counts.load(Ordering::Acquire);
        loop {
            let (shadow, candidate) = halves(seen);
            let refused = question.judge(terms, shadow);
            let shades = Shades {
                shadow: refused.is_none(),
                candidate: terms.candidate.is_none_or(|slots| candidate < slots),
            };
            let next = seen + shades.sum();
            match self
                .counts
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    return Judgement {
                        shades,
                        refused,
                        candidate_refused: !shades.candidate,
                    };
                }
                Err(other) => seen = other,
            }
        }
    }

    /// Whether the candidate would refuse one that the live limit refuses.
    pub(crate) fn candidate_is_full(&self) -> bool {
        let (_, count) = halves(self.counts.load(Ordering::Acquire));
        let candidate = self.terms().candidate;
        candidate.is_some_and(|slots| count >= slots)
    }

    /// Takes out what a request put in.
    pub(crate) fn leave(&self, shades: Shades) {
        let sum = shades.sum();
        if sum > 0 {
            self.counts.fetch_sub(sum, Ordering::AcqRel);
        }
    }

    /// Both counts.
    pub(crate) fn counts(&self) -> (u32, u32) {
        halves(self.counts.load(Ordering::Acquire))
    }
}

impl Shades {
    fn sum(self) -> u64 {
        u64::from(self.shadow) * ONE_SHADOW + u64::from(self.candidate) * ONE_CANDIDATE
    }
}

/// The count of a tenant on a route (low half), and how many of them are streams (high half).
#[derive(Debug)]
pub(crate) struct CellGhost(AtomicU64);

const ONE: u64 = 1;
const ONE_STREAM: u64 = 1 << HALF;

const fn one_of(stream: bool) -> u64 {
    if stream { ONE + ONE_STREAM } else { ONE }
}

impl CellGhost {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// The tenant's calls with this request, which may be a stream; `None` when the cap, which
    /// holds for both, would have refused it.
    pub(crate) fn enter(&self, judged: bool, cap: Limit, stream: bool) -> Option<u32> {
        let most = cap.slots().filter(|_| judged).unwrap_or(u32::MAX);
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            if halves(seen).0 >= most {
                return None;
            }
            let next = seen + one_of(stream);
            match self
                .0
                .compare_exchange_weak(seen, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    let (all, streams) = halves(next);
                    return Some(all.saturating_sub(streams));
                }
                Err(other) => seen = other,
            }
        }
    }

    /// A call in it is a stream from now on.
    pub(crate) fn begin_stream(&self) {
        self.0.fetch_add(ONE_STREAM, Ordering::AcqRel);
    }

    pub(crate) fn leave(&self, stream: bool) {
        self.0.fetch_sub(one_of(stream), Ordering::AcqRel);
    }

    /// All, and how many of them are streams.
    pub(crate) fn counts(&self) -> (u32, u32) {
        halves(self.0.load(Ordering::Acquire))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Question = Question {
        sheddable: false,
        class_reserve: 0,
        share: None,
        capped: None,
        full: Rejection::RouteFull,
    };

    fn terms(mode: Mode, limit: u32) -> Terms {
        Terms {
            mode,
            limit: Some(limit),
            ..Terms::default()
        }
    }

    #[test]
    fn terms_come_out_as_they_went_in() {
        for mode in Mode::ALL {
            for limit in [None, Some(0), Some(7), Some(crate::LIMIT_MAX)] {
                for queue in [0, crate::policy::QUEUE_MAX] {
                    let candidate = limit.map(|slots| slots / 2);
                    let terms = Terms {
                        mode,
                        limit,
                        queue,
                        candidate,
                    };
                    assert_eq!(Terms::unpack(terms.pack()), terms);
                }
            }
        }
    }

    #[test]
    fn each_reason_of_a_route_is_found() {
        let ghosts = Ghosts::new();
        let ask = |question: Question| {
            let judgement = ghosts.enter(question);
            ghosts.leave(judgement.shades);
            judgement.refused
        };
        ghosts.set_terms(terms(Mode::Shadow, 2));
        let one = ghosts.enter(PLAIN);
        assert_eq!(one.refused, None);
        let sheddable = Question {
            sheddable: true,
            class_reserve: 1,
            ..PLAIN
        };
        assert_eq!(ask(sheddable), Some(Rejection::ClassReserve));
        let share = Question {
            share: Some((Millionths(1_000_000), 2)),
            ..PLAIN
        };
        assert_eq!(ask(share), Some(Rejection::TenantShare));
        let _two = ghosts.enter(PLAIN);
        assert_eq!(ask(PLAIN), Some(Rejection::RouteFull));
        assert_eq!(ask(sheddable), Some(Rejection::RouteFull));
        ghosts.set_terms(Terms {
            queue: 1,
            ..terms(Mode::Shadow, 2)
        });
        let waits = ghosts.enter(PLAIN);
        assert_eq!(waits.refused, None);
        assert_eq!(ask(PLAIN), Some(Rejection::QueueFull));
        let capped = Question {
            capped: Some(Rejection::TenantRouteFull),
            ..PLAIN
        };
        assert_eq!(ask(capped), Some(Rejection::TenantRouteFull));
        ghosts.set_terms(terms(Mode::Shadow, 0));
        for closed in [PLAIN, capped] {
            assert_eq!(ask(closed), Some(Rejection::Closed));
        }
        for mode in [Mode::Off, Mode::Enforce] {
            ghosts.set_terms(terms(mode, 0));
            assert_eq!((ask(PLAIN), ask(capped)), (None, None));
        }
        assert_eq!(ghosts.counts(), (3, 3), "what entered and did not leave");
    }

    #[test]
    fn a_cell_is_judged_in_shadow_alone() {
        let ghost = CellGhost::new();
        let cap = Limit::new(1).unwrap();
        assert_eq!(ghost.enter(true, cap, false), Some(1));
        assert_eq!(ghost.enter(true, cap, false), None);
        assert_eq!(ghost.enter(true, Limit::UNLIMITED, false), Some(2));
        assert_eq!(ghost.enter(false, cap, false), Some(3));
        (0..3).for_each(|_| ghost.leave(false));
        assert_eq!(ghost.counts(), (0, 0));
    }

    #[test]
    fn a_cells_streams_count_on_its_cap_and_not_among_its_calls() {
        let ghost = CellGhost::new();
        let cap = Limit::new(3).unwrap();
        assert_eq!(ghost.enter(true, cap, true), Some(0));
        assert_eq!(ghost.enter(true, cap, false), Some(1));
        assert_eq!(ghost.enter(true, cap, false), Some(2));
        ghost.begin_stream();
        assert_eq!(
            (ghost.enter(true, cap, false), ghost.counts()),
            (None, (3, 2))
        );
        ghost.leave(true);
        assert_eq!(ghost.enter(true, cap, false), Some(2));
        ghost.leave(true);
        (0..2).for_each(|_| ghost.leave(false));
        assert_eq!(ghost.counts(), (0, 0));
    }

    proptest! {
        /// Whatever the order and however the terms change meanwhile: nobody is admitted above
        /// the limit of that moment, and nothing is left when all have left.
        #[test]
        fn ghost_counts_never_drift(
            steps in proptest::collection::vec((0..5_u32, 0..6_u32), 1..200),
        ) {
            let ghosts = Ghosts::new();
            let mut inside: Vec<Shades> = Vec::new();
            for (what, number) in steps {
                match what {
                    0 => ghosts.set_terms(Terms {
                        candidate: (number > 2).then_some(number),
                        ..terms(Mode::ALL[number as usize % 3], number)
                    }),
                    1 | 2 if !inside.is_empty() => {
                        let at = number as usize % inside.len();
                        ghosts.leave(inside.swap_remove(at));
                    }
                    _ => {
                        let (terms, before) = (ghosts.terms(), ghosts.counts());
                        let judgement = ghosts.enter(PLAIN);
                        let full = terms.mode == Mode::Shadow && Some(before.0) >= terms.limit;
                        prop_assert_eq!(judgement.refused.is_some(), full);
                        let over = terms.candidate.is_some_and(|slots| before.1 >= slots);
                        prop_assert_eq!(judgement.candidate_refused, over);
                        inside.push(judgement.shades);
                    }
                }
                let count = |of: fn(&Shades) -> bool| {
                    u32::try_from(inside.iter().filter(|s| of(s)).count()).unwrap()
                };
                prop_assert_eq!(
                    ghosts.counts(),
                    (count(|s| s.shadow), count(|s| s.candidate))
                );
            }
            inside.into_iter().for_each(|shades| ghosts.leave(shades));
            prop_assert_eq!(ghosts.counts(), (0, 0));
        }
    }
}
