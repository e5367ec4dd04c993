//! What time it is for one serving thread.
//!
//! Separate because reading the clock is dear beside everything else that a request does: it is
//! read when something began or ended, and what happens in between uses that reading. It must
//! never be used for a bound without being read anew.

use std::cell::Cell;
use std::rc::Rc;

use crate::clock::Clock;

/// The clock of one thread with its last reading.
#[derive(Debug)]
pub(crate) struct Now {
    clock: Clock,
    last_us: Cell<u64>,
}

impl Now {
    pub(crate) fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            clock,
            last_us: Cell::new(clock.now_us()),
        })
    }

    /// The clock itself, for timers.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Reads the clock.
    pub(crate) fn read_us(&self) -> u64 {
        let now_us = self.clock.now_us();
        self.last_us.set(now_us);
        now_us
    }

    /// The last reading.
    pub(crate) fn last_us(&self) -> u64 {
        self.last_us.get()
    }
}
