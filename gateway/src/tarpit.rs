//! A connection that hammers a full compartment is answered later.
//!
//! Separate because it protects what no permit does: the core that refuses is the core that
//! serves the neighbours, and a caller that asks again the instant it is refused would have it to
//! itself. It must never delay the first refusals of a connection, nor anything but a refusal,
//! and what it holds has a bound: no slot, no upstream, only the answer.

use std::cell::Cell;
use std::future::poll_fn;

use compartment::Rejection;

use crate::core::Core;
use crate::reason::Reason;
use crate::timer::Timer;

/// Refusals in a row on one connection that are told at once.
const AT_ONCE: u32 = 4;
/// The hold, half of it to three halves of it: those who were refused together part.
const HOLD_US: u64 = 10_000;
/// Answers that one core holds at one time; beyond it they go out at once.
const HELD_MAX: u32 = 1_024;

/// The answers that one core holds.
#[derive(Debug, Default)]
pub(crate) struct Tarpit {
    held: Cell<u32>,
}

/// One held answer; dropping it lets it go.
struct Held<'a>(&'a Tarpit);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.held.set(self.0.held.get().saturating_sub(1));
    }
}

impl Tarpit {
    fn enter(&self) -> Option<Held<'_>> {
        let held = self.held.get();
        (held < HELD_MAX).then(|| {
            self.held.set(held.saturating_add(1));
            Held(self)
        })
    }
}

/// Whether a refusal that was told at once invites to ask again at once. Who waited in line, or
/// is in a hurry, is not told later still.
const fn is_instant(reason: Reason) -> bool {
    match reason {
        Reason::Rejected(rejection) => match rejection {
            Rejection::TenantFull
            | Rejection::TenantRouteFull
            | Rejection::TenantShare
            | Rejection::RouteFull
            | Rejection::ClassReserve
            | Rejection::StreamFull
            | Rejection::UpstreamFull
            | Rejection::GatewayFull
            | Rejection::SpareExhausted
            | Rejection::QueueFull
            | Rejection::Closed
            | Rejection::BreakerOpen => true,
            Rejection::QueueTimeout | Rejection::DeadlineTooShort => false,
        },
        Reason::NoPolicy
        | Reason::Draining
        | Reason::AttemptTimeout
        | Reason::TotalTimeout
        | Reason::MaxHold
        | Reason::UpstreamConnect
        | Reason::UpstreamReset
        | Reason::UpstreamProtocol
        | Reason::TenantUnknown
        | Reason::TenantSuspended
        | Reason::NoRoute
        | Reason::BadRequest
        | Reason::UriTooLong
        | Reason::HeaderTooLarge
        | Reason::BodyTooLarge
        | Reason::RequestTimeout
        | Reason::ClientGone
        | Reason::SlowClient
        | Reason::StreamIdle
        | Reason::StreamAge
        | Reason::Loop
        | Reason::Internal => false,
    }
}

/// True when the answer to this refusal should be held; `in_a_row` counts it.
pub(crate) fn holds(reason: Reason, in_a_row: &Cell<u32>) -> bool {
    if !is_instant(reason) {
        return false;
    }
    in_a_row.set(in_a_row.get().saturating_add(1));
    in_a_row.get() > AT_ONCE
}

/// Waits for a moment, if there is room. A client that leaves meanwhile ends it.
pub(crate) async fn hold(core: &Core) {
    let Some(_held) = core.tarpit.enter() else {
        return;
    };
    let hold_us = HOLD_US / 2 + core.ids.next() % HOLD_US;
    let until_us = core.now.last_us().saturating_add(hold_us);
    let mut timer = Timer::new(&core.timers);
    poll_fn(|cx| timer.poll_until(until_us, cx)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_repeated_refusals_are_held() {
        let full = Reason::Rejected(Rejection::RouteFull);
        let in_a_row = Cell::new(0);
        let held: Vec<bool> = (0..6).map(|_| holds(full, &in_a_row)).collect();
        assert_eq!(held, [false, false, false, false, true, true]);
        for other in [Reason::NoRoute, Reason::Rejected(Rejection::QueueTimeout)] {
            assert!(!holds(other, &in_a_row), "{other:?}");
        }
        in_a_row.set(0);
        assert!(!holds(full, &in_a_row));
    }

    #[test]
    fn what_is_held_has_a_bound() {
        let tarpit = Tarpit::default();
        let mut held: Vec<_> = (0..HELD_MAX).filter_map(|_| tarpit.enter()).collect();
        assert!(tarpit.enter().is_none());
        held.pop();
        assert!(tarpit.enter().is_some());
    }
}
