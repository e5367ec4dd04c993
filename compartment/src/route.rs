//! The slots of one route: guarantee, spare slots, class reserve and the line of those who wait.
//!
//! Separate because this is the one level where a slot can be borrowed or waited for. The
//! number of spare slots in use is never below what the routes have borrowed: taken before the
//! count rises above the guarantee, given back after it fell. It must never take the queue's
//! lock for a request that is neither full nor behind others.

use std::sync::Arc;
use std::task::Waker;

use crate::cells::TenantCells;
use crate::compartment::Compartment;
use crate::credit::{Balance, Credit, Terms};
use crate::ghost::Ghosts;
use crate::numbers::{Make, Numbers};
use crate::queue::{Queue, Ticket};
use crate::spare::{Loan, Spare};
use crate::stats::Look;
use crate::sync::OwnLine;
use crate::word::{Picture, Word};
use crate::{Figures, Key, Mode, Moment, Name};

/// A route's own compartment and what belongs to it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) slots: Compartment,
    pub(crate) cells: TenantCells,
    pub(crate) ghosts: Ghosts,
    pub(crate) queue: Queue,
    spare: Arc<OwnLine<Spare>>,
    /// What its borrowing is paid from; `None`: it borrows for nothing.
    pub(crate) credit: Option<Credit>,
}

/// What a request asks of a route, under its policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The tenant's number; 0 for all callers without one.
    pub(crate) tenant: u64,
    pub(crate) sheddable: bool,
    pub(crate) class_reserve: u32,
    pub(crate) queue_max: u32,
    /// When the caller's own time is over.
    pub(crate) until_us: u64,
}

/// What the route answers.
#[derive(Debug)]
pub(crate) enum Step {
    /// A slot; the word as it was without it.
    Slot(Picture),
    Waits(Ticket),
    Full,
    Closed,
    ClassReserve,
    NoSpare,
    QueueFull,
    TooLate,
}

impl Ask {
    /// The last slots are kept from sheddable requests.
    const fn kept_out(self, now: Picture) -> bool {
        self.sheddable && now.free() <= self.class_reserve
    }

    /// Why one that may not wait gets no slot.
    pub(crate) const fn refusal(self, now: Picture) -> Step {
        if now.is_full() {
            Step::Full
        } else {
            Step::ClassReserve
        }
    }
}

impl Route {
    pub(crate) fn new(name: &Name, make: Make<'_>) -> Self {
        Self::with(&Key::Route(name.clone()), Some(Credit::new()), name, make)
    }

    fn with(key: &Key, credit: Option<Credit>, name: &Name, make: Make<'_>) -> Self {
        Self {
            slots: make.slots(key),
            cells: TenantCells::new(make.id, name.clone()),
            ghosts: Ghosts::new(),
            queue: Queue::default(),
            spare: Arc::clone(make.spare),
            credit,
        }
    }

    /// The slots of a route's long-lived exchanges, which would use up any credit. Their
    /// tenants' cells are the route's.
    pub(crate) fn of_streams(name: &Name, make: Make<'_>) -> Self {
        Self::with(&Key::Stream(name.clone()), None, name, make)
    }

    /// The slots of what a route asks another dependency for, which no tenant has a part of.
    pub(crate) fn of_fallback(name: &Name, make: Make<'_>) -> Self {
        Self::with(&Key::Fallback(name.clone()), None, name, make)
    }

    pub(crate) fn word(&self) -> &Word {
        &self.slots.word.0
    }

    pub(crate) fn spare(&self) -> &Spare {
        &self.spare.0
    }

    /// A route that does not enforce its own decisions pays what it borrows, and borrows all
    /// the same when it cannot. One that no policy names any more had promised its slots to
    /// those who still come by the policy before.
    pub(crate) fn loan(&self, at: Moment<'_>, sheddable: bool, now: Picture) -> Loan<'_> {
        let loan = Loan::none(self.spare(), self.credit.as_ref(), sheddable, at.now_us);
        loan.unpaid(now.borrows_unpaid()).owed(now.is_unnamed())
    }

    /// Gives borrowed slots back.
    fn return_loans(&self, count: u32, now_us: u64) {
        self.spare().give(count);
        if let Some(credit) = &self.credit {
            credit.give(count, now_us);
        }
    }

    /// What is left of what its borrowing is paid from; `None`: it borrows for nothing.
    pub(crate) fn credit(&self, now_us: u64) -> Option<Balance> {
        self.credit.as_ref().map(|credit| credit.balance(now_us))
    }

    /// Its credit, where it can borrow and pays for it.
    fn credit_shown(&self, now_us: u64) -> Option<Balance> {
        let now = self.word().load();
        let borrows = now
            .limit()
            .slots()
            .is_none_or(|slots| slots > now.reserved());
        let credit = self.credit(now_us).filter(|_| borrows && !now.is_unnamed());
        credit.filter(|credit| credit.full_slot_ms > 0)
    }

    /// Borrowed slots that its credit is charged for.
    pub(crate) fn credit_held(&self) -> u32 {
        self.credit.as_ref().map_or(0, Credit::held)
    }

    /// Keeps the credit's arithmetic near the present.
    pub(crate) fn sweep(&self, now_us: u64) {
        if let Some(credit) = &self.credit {
            credit.settle(now_us);
        }
    }

    pub(crate) fn look(&self, look: Look) -> Figures {
        let terms = self.ghosts.terms();
        Figures {
            mode: terms.mode,
            candidate: terms.candidate,
            credit: self.credit_shown(look.now_us),
            ..self.slots.look(look)
        }
    }

    /// Asks for a slot.
    pub(crate) fn enter(&self, at: Moment<'_>, ask: Ask) -> Step {
        let mut now = self.word().load();
        let mut loan = self.loan(at, ask.sheddable, now);
        loop {
            if now.is_full() || now.has_waiters() || ask.kept_out(now) {
                return self.enter_line(at, ask, now);
            }
            match self.take(at, now, &mut loan) {
                Took::Slot => return Step::Slot(now),
                Took::NoSpare => return Step::NoSpare,
                Took::Again(seen) => now = seen,
            }
        }
    }

    /// One try to take a free slot of the word as it was seen.
    pub(crate) fn take(&self, at: Moment<'_>, now: Picture, loan: &mut Loan<'_>) -> Took {
        let borrows = now.in_flight() >= now.reserved();
        if borrows && !loan.take() {
            return Took::NoSpare;
        }
        match self.slots.change(at, now, now.entered()) {
            Ok(()) => {
                if borrows {
                    loan.spend();
                }
                Took::Slot
            }
            Err(seen) => Took::Again(seen),
        }
    }

    /// Gives one slot back: to the one whose turn it is, else to the word.
    pub(crate) fn leave(&self, at: Moment<'_>) {
        let mut now = self.word().load();
        loop {
            if now.has_waiters() {
                return self.hand_over(at);
            }
            match self.slots.change(at, now, now.left()) {
                Ok(()) => return self.return_loan(now, at.now_us),
                Err(seen) => now = seen,
            }
        }
    }

    /// After the word's count fell from `before`.
    pub(crate) fn return_loan(&self, before: Picture, now_us: u64) {
        if before.borrowed() > 0 {
            self.return_loans(1, now_us);
        }
    }

    /// New numbers. What is in flight keeps counting; raising wakes as many as fit, closing
    /// ends every wait.
    pub(crate) fn resize(&self, at: Moment<'_>, numbers: Numbers) {
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        line.set_class_reserve(numbers.class_reserve);
        self.ghosts.set_terms(numbers.terms());
        let lax = numbers.mode != Mode::Enforce;
        self.change_limits(at.now_us, |now| {
            let next = now.with_limits(numbers.limit, numbers.reserved);
            next.with_lax(lax).with_unnamed(false)
        });
        self.admit_waiters(at, &mut line, &mut wakers);
        self.settle_bit(&line);
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// No policy names it any more, so it guarantees nothing: what it still holds is borrowed,
    /// and nobody pays for that. Those who wait get the slots of those who leave.
    pub(crate) fn give_up_guarantee(&self, now_us: u64) {
        let _line = self.queue.line();
        if let Some(credit) = &self.credit {
            credit.charge_nothing(now_us);
        }
        self.change_limits(now_us, |now| {
            now.with_limits(now.limit(), 0).with_unnamed(true)
        });
    }

    /// Keeps the spare slots in step: what the new guarantee no longer covers is borrowed from
    /// now on, free or not, because it was admitted before.
    fn change_limits(&self, now_us: u64, change: impl Fn(Picture) -> Picture) {
        let at = Moment::at(now_us);
        let mut now = self.word().load();
        loop {
            let next = change(now);
            let more = next.borrowed().saturating_sub(now.borrowed());
            self.spare().force(more);
            if let Some(credit) = &self.credit {
                credit.force(more, now_us);
            }
            match self.slots.change(at, now, next) {
                Ok(()) => {
                    let less = now.borrowed().saturating_sub(next.borrowed());
                    return self.return_loans(less, now_us);
                }
                Err(seen) => {
                    self.return_loans(more, now_us);
                    now = seen;
                }
            }
        }
    }

    /// What its borrowing is paid with from now on.
    pub(crate) fn set_terms(&self, terms: Terms, now_us: u64) {
        if let Some(credit) = &self.credit {
            credit.set_terms(terms, now_us);
        }
    }
}

/// What one try to take a slot came to.
pub(crate) enum Took {
    Slot,
    NoSpare,
    /// The word had changed to this.
    Again(Picture),
}
