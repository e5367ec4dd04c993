//! The line of requests that wait for a slot of one route.
//!
//! Separate so that what happens under its mutex is in one place. While the waiters bit of the
//! word is set, only the holder of this mutex changes the word, so a slot goes straight from
//! the one who leaves to the first who waits, and no newcomer overtakes. A waiter's end (slot,
//! refusal, departure) is decided under the mutex alone: none can be granted and gone at once.
//! It must never wake anybody while it is locked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::sync::{AtomicU8, Mutex, MutexGuard, Ordering, lock};

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
}

impl Turn {
    const fn code(self) -> u8 {
        match self {
            Self::Waiting => 0,
            Self::Granted => 1,
            Self::NoSpare => 2,
            Self::Closed => 3,
        }
    }

    const fn of(code: u8) -> Self {
        match code {
            0 => Self::Waiting,
            1 => Self::Granted,
            2 => Self::NoSpare,
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

/// One place in the line.
#[derive(Debug)]
struct Place {
    number: u64,
    sheddable: bool,
    outcome: Arc<Outcome>,
    waker: Option<Waker>,
}

/// A waiter's claim to its place. Not `Clone`: one place, one waiter.
#[derive(Debug)]
pub(crate) struct Ticket {
    number: u64,
    outcome: Arc<Outcome>,
}

impl Ticket {
    pub(crate) fn turn(&self) -> Turn {
        self.outcome.turn()
    }
}

/// The line of one route.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Line>);

/// The line, while it is locked.
#[derive(Debug, Default)]
pub(crate) struct Line {
    next: u64,
    places: VecDeque<Place>,
}

impl Queue {
    pub(crate) fn line(&self) -> MutexGuard<'_, Line> {
        lock(&self.0)
    }
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// A place at the end. The caller has checked the depth and set the waiters bit.
    pub(crate) fn join(&mut self, sheddable: bool) -> Ticket {
        let number = self.next;
        self.next += 1;
        let outcome = Arc::new(Outcome(AtomicU8::new(Turn::Waiting.code())));
        let place = Place {
            number,
            sheddable,
            outcome: Arc::clone(&outcome),
            waker: None,
        };
        self.places.push_back(place);
        Ticket { number, outcome }
    }

    /// Whether the first in line is sheddable; `None` when nobody waits.
    pub(crate) fn first_is_sheddable(&self) -> Option<bool> {
        self.places.front().map(|place| place.sheddable)
    }

    /// Ends the wait of the first in line. The waker is for after unlocking.
    pub(crate) fn end_first(&mut self, turn: Turn) -> Option<Waker> {
        let place = self.places.pop_front()?;
        place.outcome.0.store(turn.code(), Ordering::Release);
        place.waker
    }

    /// Keeps the way to wake this waiter; false when its turn is already decided.
    pub(crate) fn keep_waker(&mut self, ticket: &Ticket, waker: &Waker) -> bool {
        let Ok(at) = self.find(ticket) else {
            return false;
        };
        if let Some(place) = self.places.get_mut(at) {
            match &mut place.waker {
                Some(kept) => kept.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        true
    }

    /// Takes this waiter out; false when its turn is already decided.
    pub(crate) fn withdraw(&mut self, ticket: &Ticket) -> bool {
        match self.find(ticket) {
            Ok(at) => self.places.remove(at).is_some(),
            Err(_) => false,
        }
    }

    fn find(&self, ticket: &Ticket) -> Result<usize, usize> {
        self.places
            .binary_search_by_key(&ticket.number, |place| place.number)
    }
}
