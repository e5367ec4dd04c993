//! A request's time in the line of its route.
//!
//! Separate because it is the only place where an admission takes time: three bounds end it, and
//! the client's body is read meanwhile, or a client that leaves would keep its place. It must
//! never wait for a request whose deadline leaves too little time to use a slot.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use compartment::{Permits, Rejection, Waiting};

use crate::attempt::Fault;
use crate::core::{Core, OnRoute};
use crate::reason::Reason;
use crate::request_body::Pump;
use crate::timer::Timer;
use crate::visit::Stop;

/// When the wait ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) arrived_us: u64,
    pub(crate) queue_wait_us: u64,
    /// The caller's own remaining time when it came.
    pub(crate) deadline_us: Option<u64>,
    pub(crate) total_us: u64,
    /// How long a slot is held on average; 0 when nothing has been measured.
    pub(crate) mean_hold_us: u64,
}

impl Patience {
    /// Too little time is left to wait for a slot and then to use it.
    fn is_hopeless(&self) -> bool {
        self.deadline_us
            .is_some_and(|left_us| left_us == 0 || left_us < self.mean_hold_us)
    }

    /// The bound that runs out first.
    fn first(&self) -> (u64, End) {
        let deadline_us = self.deadline_us.unwrap_or(u64::MAX);
        let bounds = [
            (self.total_us, End::Total),
            (deadline_us, End::Refused(Rejection::DeadlineTooShort)),
            (self.queue_wait_us, End::Refused(Rejection::QueueTimeout)),
        ];
        let (total, rest) = (bounds[0], [bounds[1], bounds[2]]);
        let (after_us, end) =
            rest.into_iter().fold(
                total,
                |first, next| if next.0 < first.0 { next } else { first },
            );
        (self.arrived_us.saturating_add(after_us), end)
    }
}

#[derive(Clone, Copy, Debug)]
enum End {
    Total,
    Refused(Rejection),
}

/// Waits for the request's turn.
pub(crate) async fn wait(
    core: &Core,
    waiting: Waiting<OnRoute>,
    patience: Patience,
    pump: Option<&Rc<Pump>>,
    timer: &mut Timer,
) -> Result<Permits<OnRoute>, Stop> {
    if patience.is_hopeless() {
        return waiting
            .give_up(Rejection::DeadlineTooShort)
            .map_err(Stop::from);
    }
    let (at_us, end) = patience.first();
    let mut waiting = Some(waiting);
    poll_fn(|cx| {
        let Some(place) = &mut waiting else {
            return Poll::Pending;
        };
        // The permits of a granted turn count from here.
        core.now.read_us();
        if let Poll::Ready(turn) = Pin::new(place).poll(cx) {
            return Poll::Ready(turn.map_err(Stop::from));
        }
        if let Some(Err(fault)) = pump.map(|pump| pump.fill(cx)) {
            return Poll::Ready(Err(Stop::from(Fault::Client(fault).reason())));
        }
        if timer.poll_until(at_us, cx).is_pending() {
            return Poll::Pending;
        }
        // Taken out: it ends here, one way or the other.
        let place = waiting.take();
        Poll::Ready(match (end, place) {
            (End::Refused(why), Some(place)) => place.give_up(why).map_err(Stop::from),
            (End::Total, _) | (End::Refused(_), None) => Err(Stop::from(Reason::TotalTimeout)),
        })
    })
    .await
}
