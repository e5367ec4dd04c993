//! The line of requests that wait for a slot of one route.
//!
//! Separate so that what happens under its mutex is in one place. While the waiters bit of the
//! word is set, only the holder of this mutex changes the word, so a slot goes straight from
//! the one who leaves to the one whose turn it is, and no newcomer overtakes. A waiter's end
//! (slot, refusal, departure) is decided under the mutex alone: none can be granted and gone at
//! once. It must never wake anybody while it is locked.

use std::sync::Arc;
use std::task::Waker;

use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, lock};
use crate::turns::{Numbered, Turns};

/// A line stands once slots came free for this long without emptying it. Then the newest goes
/// first: the oldest have waited so long that their callers are about to leave.
pub const QUEUE_STANDING_US: u64 = 100_000;

/// What has become of a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Waiting,
    /// It holds a slot of the route.
    Granted,
    /// Its turn came, but only with a spare slot, and none is left.
    NoSpare,
    /// The route was closed.
    Closed,
    /// Its place went to a tenant that had fewer.
    GaveWay,
    /// Its turn came when it had no use for a slot any more.
    TooLate,
}

impl Turn {
    const fn code(self) -> u8 {
        match self {
            Self::Waiting => 0,
            Self::Granted => 1,
            Self::NoSpare => 2,
            Self::Closed => 3,
            Self::GaveWay => 4,
            Self::TooLate => 5,
        }
    }

    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Waiting,
            1 => Self::Granted,
            2 => Self::NoSpare,
            4 => Self::GaveWay,
            5 => Self::TooLate,
            _ => Self::Closed,
        }
    }
}

/// Read without the lock by the waiter, written under it.
#[derive(Debug)]
pub(crate) struct Outcome(AtomicU8);

impl Outcome {
    pub(crate) fn turn(&self) -> Turn {
        Turn::of(self.0.load(Ordering::Acquire))
    }
}

/// Who waits, and until when it makes sense.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    /// The tenant's number; 0 for all callers without one.
    pub(crate) tenant: u64,
    pub(crate) sheddable: bool,
    /// From here on a slot is of no use: what is left of the caller's time is less than a slot
    /// is held on average.
    pub(crate) useful_until_us: u64,
}

/// One place in the line.
#[derive(Debug)]
struct Place {
    number: u64,
    useful_until_us: u64,
    outcome: Arc<Outcome>,
    waker: Option<Waker>,
}

impl Numbered for Place {
    fn number(&self) -> u64 {
        self.number
    }
}

impl Place {
    fn end(self, turn: Turn, wakers: &mut Vec<Waker>) {
        self.outcome.0.store(turn.code(), Ordering::Release);
        wakers.extend(self.waker);
    }
}

/// A waiter's claim to its place. Not `Clone`: one place, one waiter.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    who: Who,
    outcome: Arc<Outcome>,
}

impl Ticket {
    pub(crate) fn turn(&self) -> Turn {
        self.outcome.turn()
    }

    pub(crate) const fn who(&self) -> Who {
        self.who
    }
}

/// The line of one route.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Line>);

/// The line, while it is locked. Those who may be kept off the last slots stand apart, so that
/// the others are found without looking through them.
#[derive(Debug, Default)]
pub(crate) struct Line {
    len: usize,
    next_number: u64,
    next_turn: u64,
    ordinary: Turns<Place>,
    sheddable: Turns<Place>,
    /// Last slots that no sheddable waiter gets.
    class_reserve: u32,
    /// When a slot came free and somebody was left waiting, first since the line was empty.
    stood_since_us: Option<u64>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) sheddable: bool,
    turn: u64,
    newest: bool,
}

impl Queue {
    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.0)
    }
}

impl Line {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const fn set_class_reserve(&mut self, slots: u32) {
        self.class_reserve = slots;
    }

    /// Whether a request is kept off the last `free` slots.
    pub(crate) const fn keeps_out(&self, sheddable: bool, free: u32) -> bool {
        sheddable && free <= self.class_reserve
    }

    fn turns(&mut self, sheddable: bool) -> &mut Turns<Place> {
        if sheddable {
            &mut self.sheddable
        } else {
            &mut self.ordinary
        }
    }

    /// A place. The caller has checked the depth and set the waiters bit.
    pub(crate) fn join(&mut self, who: Who) -> Ticket {
        let (number, turn) = (self.next_number, self.next_turn);
        self.next_number += 1;
        self.next_turn += 1;
        self.len += 1;
        let outcome = Arc::new(Outcome(AtomicU8::new(Turn::Waiting.code())));
        let place = Place {
            number,
            useful_until_us: who.useful_until_us,
            outcome: Arc::clone(&outcome),
            waker: None,
        };
        self.turns(who.sheddable).join(who.tenant, turn, place);
        Ticket {
            number,
            who,
            outcome,
        }
    }

    /// Whose newest place a newcomer may have: that of the tenant with most, if the newcomer's
    /// tenant has less than that even with one more. So a flood keeps no other tenant from its
    /// fair part of the line, and nobody gives way for an exchange that gains nothing.
    fn gives_way(&mut self, who: Who) -> Option<Next> {
        let own = self.turns(who.sheddable).places_of(who.tenant);
        let largest = [
            (self.ordinary.largest(), false),
            (self.sheddable.largest(), true),
        ];
        let largest = largest
            .into_iter()
            .filter_map(|(largest, sheddable)| Some((largest?, sheddable)));
        let ((most, turn), sheddable) = largest.max()?;
        (own + 1 < most).then_some(Next {
            sheddable,
            turn,
            newest: true,
        })
    }

    /// Whether a full line has a place for this newcomer.
    pub(crate) fn may_make_room(&mut self, who: Who) -> bool {
        self.gives_way(who).is_some()
    }

    /// Takes that place.
    pub(crate) fn make_room(&mut self, who: Who, wakers: &mut Vec<Waker>) {
        if let Some(next) = self.gives_way(who) {
            self.take(next, Turn::GaveWay, wakers);
        }
    }

    /// Who has the turn for one of `free` slots. Those on the way who have no use for it any more
    /// are told so.
    pub(crate) fn next(&mut self, free: u32, now_us: u64, wakers: &mut Vec<Waker>) -> Option<Next> {
        let newest = self
            .stood_since_us
            .is_some_and(|since_us| now_us.saturating_sub(since_us) >= QUEUE_STANDING_US);
        loop {
            let ordinary = self.ordinary.first(newest).map(|first| (first, false));
            let sheddable = self.sheddable.first(newest).map(|first| (first, true));
            let sheddable = sheddable.filter(|_| !self.keeps_out(true, free));
            let both = ordinary.into_iter().chain(sheddable);
            let ((turn, place), sheddable) = both.min_by_key(|((turn, _), _)| *turn)?;
            let late = now_us >= place.useful_until_us;
            let next = Next {
                sheddable,
                turn,
                newest,
            };
            if !late {
                return Some(next);
            }
            self.take(next, Turn::TooLate, wakers);
        }
    }

    /// The one whose turn it is has a slot.
    pub(crate) fn grant(&mut self, next: Next, now_us: u64, wakers: &mut Vec<Waker>) {
        self.take(next, Turn::Granted, wakers);
        let after = self.next_turn;
        self.next_turn += 1;
        self.turns(next.sheddable).had_turn(next.turn, after);
        if !self.is_empty() {
            self.stood_since_us.get_or_insert(now_us);
        }
    }

    /// Ends the wait of one. The wakers are for after unlocking.
    pub(crate) fn take(&mut self, next: Next, turn: Turn, wakers: &mut Vec<Waker>) {
        if let Some(place) = self.turns(next.sheddable).take(next.turn, next.newest) {
            place.end(turn, wakers);
            self.one_less();
        }
    }

    /// Ends the wait of all.
    pub(crate) fn take_all(&mut self, turn: Turn, wakers: &mut Vec<Waker>) {
        for sheddable in [false, true] {
            while let Some((first, _)) = self.turns(sheddable).first(false) {
                let next = Next {
                    sheddable,
                    turn: first,
                    newest: false,
                };
                self.take(next, turn, wakers);
            }
        }
    }

    const fn one_less(&mut self) {
        self.len = self.len.saturating_sub(1);
        if self.is_empty() {
            self.stood_since_us = None;
        }
    }

    /// Keeps the way to wake this waiter; false when its turn is already decided.
    pub(crate) fn keep_waker(&mut self, ticket: &Ticket, waker: &Waker) -> bool {
        let who = ticket.who;
        let Some(place) = self.turns(who.sheddable).find(who.tenant, ticket.number) else {
            return false;
        };
        match &mut place.waker {
            Some(kept) => kept.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        true
    }

    /// Takes this waiter out; false when its turn is already decided.
    pub(crate) fn withdraw(&mut self, ticket: &Ticket) -> bool {
        let who = ticket.who;
        let gone = self
            .turns(who.sheddable)
            .withdraw(who.tenant, ticket.number);
        if gone.is_some() {
            self.one_less();
        }
        gone.is_some()
    }
}
