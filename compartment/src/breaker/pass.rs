//! A request that the breaker let through.
//!
//! Separate because it is what cannot get lost: a probe gives its place back when it is dropped,
//! whatever became of it, and what it tells counts in its own era alone. It must never be cloned.

use std::ops::Deref;

use super::{Breaker, Change, Kind, Outcome};

/// Leave to ask a dependency, for all the attempts of one request.
#[must_use = "dropping it gives the place of a probe back"]
#[derive(Debug)]
pub struct Pass<H: Deref<Target = Breaker>> {
    holder: H,
    era: u64,
    probe: Probe,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Probe {
    /// Let through because it was closed.
    No,
    /// Has one of the places.
    Out,
    /// Has told how it ended, or rests: the place is used up, given on, or of an era that is over.
    Told,
}

impl<H: Deref<Target = Breaker>> Pass<H> {
    pub(super) fn new(holder: H, era: u64, is_probe: bool) -> Self {
        let probe = if is_probe { Probe::Out } else { Probe::No };
        Self { holder, era, probe }
    }

    /// Tells how one attempt ended.
    #[must_use = "a change of state is counted and logged"]
    pub fn tell(&mut self, outcome: Outcome, now_us: u64) -> Option<Change> {
        let breaker = &*self.holder;
        match (outcome, self.probe) {
            (Outcome::Answered, Probe::Told) => None,
            (Outcome::Answered, probe) => {
                if probe == Probe::Out {
                    self.probe = Probe::Told;
                }
                breaker.answered(self.era, probe == Probe::Out, now_us)
            }
            (Outcome::Failed, probe) => {
                if probe == Probe::Out {
                    self.probe = Probe::Told;
                }
                breaker.failed(self.era, false, now_us)
            }
        }
    }

    /// A limit of ours refused it after all; a failure only where the rules say so. A probe
    /// that is refused says nothing, or it could never become well again.
    #[must_use = "a change of state is counted and logged"]
    pub fn refused(&self, now_us: u64) -> Option<Change> {
        let breaker = &*self.holder;
        let word = breaker.read();
        let counts = word.counts_rejections && word.kind == Kind::Closed;
        counts
            .then(|| breaker.failed(self.era, false, now_us))
            .flatten()
    }

    /// Gives the place of a probe on: it waits for something that is not the dependency, and a
    /// place must not wait with it. What it tells is no probe's any more.
    pub fn rest(&mut self) {
        if self.is_probe() {
            self.probe = Probe::Told;
            self.holder.give_back(self.era);
        }
    }

    /// It has one of the places.
    pub fn is_probe(&self) -> bool {
        self.probe == Probe::Out
    }

    /// False when it would not be let through any more: no further attempt is made then.
    pub fn is_good(&self) -> bool {
        let word = self.holder.read();
        match word.kind {
            Kind::Absent | Kind::Closed | Kind::ForcedClosed => true,
            Kind::HalfOpen | Kind::HalfOpenFull => word.era == self.era && self.probe == Probe::Out,
            Kind::Open | Kind::ForcedOpen => false,
        }
    }

    /// By which its breaker is found.
    pub fn holder(&self) -> &H {
        &self.holder
    }

    /// In which era it was let through.
    pub fn era(&self) -> u64 {
        self.era
    }
}

impl<H: Deref<Target = Breaker>> Drop for Pass<H> {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Breaker {
    /// An answer that had begun well in this era was cut by the dependency.
    #[must_use = "a change of state is counted and logged"]
    pub fn cut(&self, era: u64, now_us: u64) -> Option<Change> {
        self.failed(era, true, now_us)
    }
}
