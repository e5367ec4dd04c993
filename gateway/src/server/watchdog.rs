//! One timer per connection, for every bound that has nothing to do with a single exchange.
//!
//! Separate so that a request costs no timer operation: the timer is moved only when a nearer
//! bound appears, and looks again when it fires. It must never end anything itself.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::Sleep;

use super::bounds::Bounds;
use crate::clock::Clock;
use crate::connection::{Connection, Phase};

/// A half-sent head does not hold up the end of the process for longer.
const CLOSING_HEAD_GRACE_US: u64 = 2_000_000;

/// A bound that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// Not one byte was sent.
    Silent,
    /// No request for too long.
    Idle,
    /// A head that does not end.
    Head,
    /// The client does not read.
    Stalled,
}

/// The next bound of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at_us: u64,
    pub(crate) what: Overdue,
}

impl Due {
    /// The next bound in the phase that `connection` is in; `None` while it is busy and moving.
    /// `closing_since_us`: since when no further request is wanted.
    pub(crate) fn of(
        connection: &Connection,
        bounds: &Bounds,
        clock: Clock,
        closing_since_us: Option<u64>,
    ) -> Option<Self> {
        let since_us = || connection.phase_since_us(|| clock.now_us());
        let after = |bound_us: u64, what| {
            Some(Self {
                at_us: since_us().saturating_add(bound_us),
                what,
            })
        };
        let of_phase = match connection.phase() {
            Phase::New => after(bounds.header_timeout_us, Overdue::Silent),
            Phase::Idle => after(bounds.keepalive_idle_us, Overdue::Idle),
            Phase::Head => after(bounds.header_timeout_us, Overdue::Head).map(|due| {
                let grace = closing_since_us.map(|at| at.saturating_add(CLOSING_HEAD_GRACE_US));
                Self {
                    at_us: due.at_us.min(grace.unwrap_or(u64::MAX)),
                    ..due
                }
            }),
            Phase::Busy => None,
        };
        let stalled = connection.blocked_since_us().map(|since_us| Self {
            at_us: since_us.saturating_add(bounds.write_stall_us),
            what: Overdue::Stalled,
        });
        match (of_phase, stalled) {
            (Some(one), Some(other)) if other.at_us < one.at_us => Some(other),
            (None, other) => other,
            (one, _) => one,
        }
    }
}

/// The timer.
#[derive(Debug)]
pub(crate) struct Watchdog {
    clock: Clock,
    sleep: Pin<Box<Sleep>>,
    armed_us: u64,
    /// No bound begins nearer than this: a busy connection is looked at again so much later.
    shortest_us: u64,
}

impl Watchdog {
    pub(crate) fn new(clock: Clock, bounds: &Bounds, first_us: u64) -> Self {
        let shortest_us = bounds.header_timeout_us.min(bounds.keepalive_idle_us);
        Self {
            clock,
            sleep: Box::pin(tokio::time::sleep_until(clock.instant(first_us))),
            armed_us: first_us,
            shortest_us: shortest_us.min(bounds.write_stall_us).max(1_000),
        }
    }

    /// Ready when `due` has passed. The task is woken at the latest then.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, due: Option<Due>) -> Poll<Overdue> {
        if let Some(due) = due
            && due.at_us < self.armed_us
        {
            self.arm(due.at_us);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            let now_us = self.clock.now_us();
            match due {
                Some(due) if due.at_us <= now_us => return Poll::Ready(due.what),
                Some(due) => self.arm(due.at_us),
                None => self.arm(now_us.saturating_add(self.shortest_us)),
            }
        }
        Poll::Pending
    }

    fn arm(&mut self, at_us: u64) {
        self.armed_us = at_us;
        self.sleep.as_mut().reset(self.clock.instant(at_us));
    }
}
