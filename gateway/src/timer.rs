//! One timer per exchange, for whichever of its bounds comes next.
//!
//! Separate because a timer that is moved costs more than one that is looked at: it is moved only
//! to an earlier time, looks again when it fires, and is used again by later exchanges, which
//! mostly find it armed already. It must never decide which bound ran out.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::time::{Sleep, sleep_until};

use crate::clock::Clock;

/// Timers of one core that are kept for later exchanges.
const SPARE_MAX: usize = 1_024;

/// Timers that nobody uses. Their wake-ups, if any, find nobody.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Clock,
    spare: RefCell<Vec<Armed>>,
}

#[derive(Debug)]
struct Armed {
    sleep: Pin<Box<Sleep>>,
    at_us: u64,
}

impl Timers {
    pub(crate) fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            clock,
            spare: RefCell::default(),
        })
    }
}

/// The timer of one exchange. Costs nothing until something has to be waited for.
#[derive(Debug)]
pub(crate) struct Timer {
    armed: Option<Armed>,
    of: Rc<Timers>,
}

impl Timer {
    pub(crate) fn new(of: &Rc<Timers>) -> Self {
        Self {
            armed: None,
            of: Rc::clone(of),
        }
    }

    /// Ready with the time when it is `at_us` or later. Otherwise the task is woken then, or
    /// somewhat earlier, to ask again.
    pub(crate) fn poll_until(&mut self, at_us: u64, cx: &mut Context<'_>) -> Poll<u64> {
        let clock = self.of.clock;
        let armed = self.armed.get_or_insert_with(|| {
            self.of.spare.borrow_mut().pop().unwrap_or_else(|| Armed {
                sleep: Box::pin(sleep_until(clock.instant(at_us))),
                at_us,
            })
        });
        if armed.at_us > at_us {
            armed.move_to(at_us, clock);
        }
        loop {
            ready!(armed.sleep.as_mut().poll(cx));
            let now_us = clock.now_us();
            if now_us >= at_us {
                return Poll::Ready(now_us);
            }
            armed.move_to(at_us, clock);
        }
    }
}

impl Armed {
    fn move_to(&mut self, at_us: u64, clock: Clock) {
        // Never earlier than asked: timers round to milliseconds, bounds do not.
        self.sleep.as_mut().reset(clock.instant(at_us));
        self.at_us = at_us;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut spare = self.of.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.extend(self.armed.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn it_fires_at_its_time_whatever_it_was_armed_for_before() {
        let clock = Clock::start();
        let timers = Timers::new(clock);
        for (earlier_us, later_us) in [(0, 3_000), (20_000, 2_000), (1_000, 5_000)] {
            let now_us = clock.now_us();
            let mut timer = Timer::new(&timers);
            poll_fn(|cx| {
                // Armed for one time, asked about another.
                let _ = timer.poll_until(now_us + earlier_us, cx);
                Poll::Ready(())
            })
            .await;
            let fired_us = poll_fn(|cx| timer.poll_until(now_us + later_us, cx)).await;
            assert!(
                fired_us >= now_us + later_us,
                "{earlier_us} then {later_us}"
            );
            assert!(
                fired_us < now_us + later_us + 500_000,
                "{earlier_us} then {later_us}"
            );
        }
        assert_eq!(timers.spare.borrow().len(), 1, "one timer served them all");
    }
}
