//! A request that waits for a slot of its route.
//!
//! Separate because it is the only part that has a future: the host polls it, and its timer is
//! the host's. It holds the tenant permits all the while and tries the rest when its turn comes.
//! A waiter that goes in the instant it was granted gives the slot on; none is lost or doubled.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::enter::Refusal;
use crate::passage::{Lane, moment};
use crate::permits::Permits;
use crate::queue::{Ticket, Turn};
use crate::stats::Stats;
use crate::{Level, Limit, Rejection};

/// A place in a route's line. Dropping it leaves the line.
#[must_use = "dropping it leaves the line"]
pub struct Waiting<L: Lane> {
    /// `None` after the wait has ended.
    place: Option<Place<L>>,
    key: Arc<str>,
}

struct Place<L: Lane> {
    permits: Permits<L>,
    ticket: Ticket,
    since_us: u64,
}

impl<L: Lane> Waiting<L> {
    pub(crate) fn new(permits: Permits<L>, ticket: Ticket) -> Self {
        let key = Arc::clone(permits.lane().passage().route().key());
        permits.tenant_pending(true);
        let since_us = permits.lane().now_us();
        Self {
            place: Some(Place {
                permits,
                ticket,
                since_us,
            }),
            key,
        }
    }

    /// From when on a slot is of no use to it, on the lane's clock: so long before the caller's
    /// own time is over as a slot is held on average. `u64::MAX` without such a time.
    pub fn useful_until_us(&self) -> u64 {
        let who = self.place.as_ref().map(|place| place.ticket.who());
        who.map_or(u64::MAX, |who| who.useful_until_us)
    }

    /// Looks whether the turn has come. A slot granted is asked for here first: what the host says
    /// against it ends the wait before anything is admitted, counted by whoever made the refusal.
    pub fn poll_asking(
        &mut self,
        context: &mut Context<'_>,
        may_go: impl FnOnce() -> Result<(), Refusal>,
    ) -> Poll<Result<Permits<L>, Refusal>> {
        let Some(place) = &self.place else {
            return Poll::Pending;
        };
        let route = &place.permits.lane().passage().route;
        match route.hear_turn(&place.ticket, context.waker()) {
            Turn::Waiting => Poll::Pending,
            turn @ (Turn::Granted
            | Turn::NoSpare
            | Turn::Closed
            | Turn::GaveWay
            | Turn::TooLate) => match self.place.take() {
                Some(place) => Poll::Ready(place.settle(turn, may_go)),
                None => Poll::Pending,
            },
        }
    }

    /// Ends the wait for a reason of the host's: it takes too long, or would. `Ok` when the turn
    /// came in that very instant.
    pub fn give_up(self, why: Rejection) -> Result<Permits<L>, Refusal> {
        self.give_up_asking(why, || Ok(()))
    }

    /// The same, and a turn that came is asked about as in [`Self::poll_asking`].
    pub fn give_up_asking(
        mut self,
        why: Rejection,
        may_go: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Permits<L>, Refusal> {
        match self.place.take() {
            Some(place) => place.give_up(why, may_go),
            // The future was polled to its end before: nothing is held, nothing counts.
            None => Err(Refusal {
                rejection: why,
                level: Level::Route,
                key: Arc::clone(&self.key),
                limit: Limit::UNLIMITED,
                drain_us: 0,
            }),
        }
    }
}

impl<L: Lane> Place<L> {
    fn withdraw(&self) -> Turn {
        self.permits.lane().passage().route.withdraw(&self.ticket)
    }

    fn give_up(
        self,
        why: Rejection,
        may_go: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Permits<L>, Refusal> {
        match self.withdraw() {
            Turn::Waiting => {
                self.end();
                Err(self.permits.refuse(Level::Route, why))
            }
            turn @ (Turn::Granted
            | Turn::NoSpare
            | Turn::Closed
            | Turn::GaveWay
            | Turn::TooLate) => self.settle(turn, may_go),
        }
    }

    fn refused(&self, why: Rejection) -> Refusal {
        self.permits.refuse(Level::Route, why)
    }

    /// The turn has come: what the other levels say now is the answer. A refusal elsewhere is
    /// counted there, and here as one who left the line.
    fn settle(
        mut self,
        turn: Turn,
        may_go: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<Permits<L>, Refusal> {
        self.permits.route = turn == Turn::Granted;
        self.end();
        let refused = match turn {
            Turn::Granted => may_go().and_then(|()| self.finish()).err(),
            Turn::NoSpare => Some(self.permits.no_spare()),
            Turn::GaveWay => Some(self.refused(Rejection::QueueFull)),
            Turn::TooLate => Some(self.refused(Rejection::DeadlineTooShort)),
            Turn::Closed | Turn::Waiting => Some(self.refused(Rejection::Closed)),
        };
        match refused {
            None => Ok(self.permits),
            Some(refusal) => {
                if refusal.level != Level::Route {
                    self.stats().leave_queue();
                }
                Err(refusal)
            }
        }
    }

    /// Up from the slot of the route that it has.
    fn finish(&mut self) -> Result<(), Refusal> {
        let word = self.permits.lane().passage().route.word().load();
        let sheddable = self.ticket.who().sheddable;
        self.permits.finish(word.left(), sheddable)
    }

    fn stats(&self) -> &Stats {
        &self.permits.lane().passage().route.slots.stats
    }

    /// The waiter is no longer one. What becomes of it is counted after this: a reader who finds
    /// it nowhere knows that it waited.
    fn end(&self) {
        let at = moment(self.permits.lane());
        if self.permits.route {
            self.stats().end_pending(at);
        }
        self.stats()
            .end_queue(at.now_us.saturating_sub(self.since_us));
        self.permits.tenant_pending(false);
    }

    /// Gone without an answer: the client left, or the host is unwinding.
    fn abandon(mut self) {
        self.permits.route = self.withdraw() == Turn::Granted;
        self.end();
        self.stats().leave_queue();
    }
}

impl<L: Lane> Future for Waiting<L> {
    type Output = Result<Permits<L>, Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_asking(context, || Ok(()))
    }
}

/// Nothing in it is ever pinned in place.
impl<L: Lane> Unpin for Waiting<L> {}

impl<L: Lane> Drop for Waiting<L> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            place.abandon();
        }
    }
}

impl<L: Lane> fmt::Debug for Waiting<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("key", &self.key)
            .field(
                "turn",
                &self.place.as_ref().map(|place| place.ticket.turn()),
            )
            .finish_non_exhaustive()
    }
}
