//! One timer per connection, for every bound that has nothing to do with a single exchange.
//!
//! Separate so that a request costs no timer operation: the timer is moved only when a nearer
//! bound appears, and looks again when it fires. It must never end anything itself.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::time::Sleep;

use super::bounds::Bounds;
use crate::connection::{Connection, Phase, Protocol};
use crate::now::Now;

/// A half-sent head does not hold up the end of the process for longer.
const LEAVING_HEAD_US: u64 = 2_000_000;
/// Longest wait for an HTTP/2 client that was told to go and has nothing running.
const GOODBYE_US: u64 = 2_000_000;
/// So much later than the body's own bound, which tells the reason better.
const LATE_US: u64 = 250_000;
/// How often a client is looked at whose bytes nobody waits for.
const LOOK_US: u64 = 50_000;
/// Age at which a connection takes its last request, so that clients spread anew.
const AGE_US: u64 = 3_600_000_000;
/// The ages of many connections made at once differ by up to this.
const AGE_SPREAD_US: u64 = 600_000_000;

/// A bound that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Not one byte was sent.
    Silent,
    /// No request for a while: nothing but the socket need be kept.
    Restful,
    /// No request for too long.
    Idle,
    /// A head that does not end.
    Head,
    /// The client does not read.
    Stalled,
    /// An answer that ought to have ended. Its body's own bound is looked at only when the client
    /// takes more of it.
    Late,
    /// Old enough for its last request.
    Aged,
    /// Nobody waits for the client's bytes: see whether it is still there.
    Unwatched,
}

/// When the next bound runs out.
#[derive(Clone, Copy, Debug)]
struct Due {
    at_us: u64,
    what: Overdue,
}

impl Due {
    const NEVER: Self = Self {
        at_us: u64::MAX,
        what: Overdue::Idle,
    };

    /// The nearer of this and a bound that began at `since_us`.
    fn or(&mut self, since_us: u64, bound_us: u64, what: Overdue) {
        let at_us = since_us.saturating_add(bound_us);
        if at_us < self.at_us {
            *self = Self { at_us, what };
        }
    }
}

/// The timer and what it has to know.
#[derive(Debug)]
pub(super) struct Watchdog {
    now: Rc<Now>,
    bounds: Bounds,
    sleep: Pin<Box<Sleep>>,
    armed_us: u64,
    aged_us: u64,
    leaving_since_us: Option<u64>,
    look_us: Option<u64>,
    resting: bool,
}

impl Watchdog {
    pub(super) fn new(now: &Rc<Now>, bounds: Bounds, connection: &Connection) -> Self {
        let now_us = now.read_us();
        let armed_us = now_us.saturating_add(bounds.header_timeout_us);
        let spread_us = u64::from(connection.peer().port()).saturating_mul(1_000_000);
        let spread_us = spread_us.checked_rem(AGE_SPREAD_US).unwrap_or_default();
        Self {
            now: Rc::clone(now),
            bounds,
            sleep: Box::pin(tokio::time::sleep_until(now.clock().instant(armed_us))),
            armed_us,
            aged_us: now_us.saturating_add(AGE_US).saturating_add(spread_us),
            leaving_since_us: None,
            look_us: None,
            resting: false,
        }
    }

    /// Whether the connection keeps nothing but its socket.
    pub(super) fn set_resting(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// Ready when a bound has run out. The task is woken at the latest then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, connection: &Connection) -> Poll<Overdue> {
        let due = self.next(connection);
        if due.at_us < self.armed_us {
            self.arm(due.at_us);
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            let now_us = self.now.read_us();
            if due.at_us <= now_us {
                // Looked for again only after another while.
                self.look_us = None;
                return Poll::Ready(due.what);
            }
            // While a request runs, bounds that are nearer may begin before the timer fires; they
            // move it then. So it may sleep as long as what is known allows.
            self.arm(due.at_us);
        }
        Poll::Pending
    }

    fn next(&mut self, connection: &Connection) -> Due {
        let now = &self.now;
        if connection.is_leaving() {
            self.leaving_since_us.get_or_insert_with(|| now.read_us());
        }
        let mut due = self.of_phase(connection);
        if !connection.is_leaving() {
            due.or(self.aged_us, 0, Overdue::Aged);
        }
        if let Some(blocked_us) = connection.blocked_since_us() {
            due.or(blocked_us, self.bounds.write_stall_us, Overdue::Stalled);
        }
        if let Some(open_us) = connection.block_open_since_us() {
            due.or(open_us, self.bounds.header_timeout_us, Overdue::Head);
        }
        due
    }

    fn of_phase(&mut self, connection: &Connection) -> Due {
        let (now, bounds) = (&self.now, &self.bounds);
        let since_us = || connection.phase_since_us(|| now.read_us());
        let mut due = Due::NEVER;
        match connection.phase() {
            Phase::New => due.or(since_us(), bounds.header_timeout_us, Overdue::Silent),
            Phase::Head => {
                due.or(since_us(), bounds.header_timeout_us, Overdue::Head);
                if let Some(told_us) = self.leaving_since_us {
                    due.or(told_us, LEAVING_HEAD_US, Overdue::Head);
                }
            }
            Phase::Idle => {
                // An answer has just ended, and with it the clock was read.
                let since_us = connection.phase_since_us(|| now.last_us());
                due.or(since_us, bounds.keepalive_idle_us, Overdue::Idle);
                match (connection.protocol(), self.leaving_since_us) {
                    (Protocol::Http1, _) if self.resting => {}
                    (Protocol::Http1, _) => due.or(since_us, bounds.rest_us, Overdue::Restful),
                    (Protocol::Http2, Some(told_us)) => {
                        due.or(told_us.max(since_us), GOODBYE_US, Overdue::Idle);
                    }
                    (Protocol::Http2, None) => {}
                }
            }
            Phase::Busy => {
                due.or(connection.answer_ends_us(), LATE_US, Overdue::Late);
                if connection.is_watched() {
                    self.look_us = None;
                } else {
                    let asked_us = *self.look_us.get_or_insert_with(|| now.read_us());
                    due.or(asked_us, LOOK_US, Overdue::Unwatched);
                }
            }
        }
        due
    }

    fn arm(&mut self, at_us: u64) {
        self.armed_us = at_us;
        self.sleep.as_mut().reset(self.now.clock().instant(at_us));
    }
}
