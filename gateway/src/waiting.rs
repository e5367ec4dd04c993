//! A request's time in the line of its route.
//!
//! Separate because it is the only place where an admission takes time: three bounds end it, and
//! the client's body is read meanwhile, or a client that leaves would keep its place. It must
//! never keep a request in line that could not use a slot any more.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use compartment::{Permits, Refusal, Rejection, Waiting};

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
    pub(crate) total_us: u64,
}

impl Patience {
    /// The bound that runs out first; `useful_until_us` is when a slot is of no use any more.
    fn first(&self, useful_until_us: u64) -> (u64, End) {
        let at = |after_us| self.arrived_us.saturating_add(after_us);
        let total = (at(self.total_us), End::Total);
        let rest = [
            (useful_until_us, End::Refused(Rejection::DeadlineTooShort)),
            (
                at(self.queue_wait_us),
                End::Refused(Rejection::QueueTimeout),
            ),
        ];
        rest.into_iter().fold(
            total,
            |first, next| if next.0 < first.0 { next } else { first },
        )
    }
}

#[derive(Clone, Copy, Debug)]
enum End {
    Total,
    Refused(Rejection),
}

/// Waits for the request's turn, on which `may_go` has the last word.
pub(crate) async fn wait(
    core: &Core,
    (waiting, patience): (Waiting<OnRoute>, Patience),
    pump: Option<&Rc<Pump>>,
    timer: &mut Timer,
    mut may_go: impl FnMut() -> Result<(), Refusal>,
) -> Result<Permits<OnRoute>, Stop> {
    let (at_us, end) = patience.first(waiting.useful_until_us());
    let mut waiting = Some(waiting);
    poll_fn(|cx| {
        let Some(place) = &mut waiting else {
            return Poll::Pending;
        };
        // The permits of a granted turn count from here.
        core.now.read_us();
        if let Poll::Ready(turn) = place.poll_asking(cx, &mut may_go) {
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
            (End::Refused(why), Some(place)) => {
                place.give_up_asking(why, &mut may_go).map_err(Stop::from)
            }
            (End::Total, _) | (End::Refused(_), None) => Err(Stop::from(Reason::TotalTimeout)),
        })
    })
    .await
}
