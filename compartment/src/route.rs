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
use crate::queue::{Line, Queue, Ticket, Turn};
use crate::spare::{Loan, Spare};
use crate::sync::OwnLine;
use crate::word::{NoSlot, Picture, Word};
use crate::{Key, Limit, Name};

/// A route's own compartment and what belongs to it.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) slots: Compartment,
    pub(crate) cells: TenantCells,
    queue: Queue,
    spare: Arc<OwnLine<Spare>>,
}

/// What a request asks of a route, under its policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) sheddable: bool,
    pub(crate) class_reserve: u32,
    pub(crate) queue_max: u32,
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
}

impl Ask {
    /// The last slots are kept from sheddable requests.
    fn kept_out(self, now: Picture) -> bool {
        self.sheddable && now.free() <= self.class_reserve
    }

    /// A sheddable request never waits for a slot that it may not have when it comes.
    const fn may_wait(self) -> bool {
        self.queue_max > 0 && !(self.sheddable && self.class_reserve > 0)
    }
}

impl Route {
    pub(crate) fn new(id: u64, name: &Name, spare: Arc<OwnLine<Spare>>) -> Self {
        Self {
            slots: Compartment::new(&Key::Route(name.clone()), Limit::CLOSED),
            cells: TenantCells::new(id, name.clone()),
            queue: Queue::default(),
            spare,
        }
    }

    /// The slots of a route's long-lived exchanges. Their tenants' cells are the route's.
    pub(crate) fn of_streams(id: u64, name: &Name, spare: Arc<OwnLine<Spare>>) -> Self {
        Self {
            slots: Compartment::new(&Key::Stream(name.clone()), Limit::CLOSED),
            ..Self::new(id, name, spare)
        }
    }

    pub(crate) fn word(&self) -> &Word {
        &self.slots.word.0
    }

    pub(crate) fn spare(&self) -> &Spare {
        &self.spare.0
    }

    /// Asks for a slot.
    pub(crate) fn enter(&self, ask: Ask) -> Step {
        let mut loan = Loan::none(self.spare(), ask.sheddable);
        let mut now = self.word().load();
        loop {
            if now.is_full() || now.has_waiters() {
                return self.enter_full(ask, now);
            }
            if ask.kept_out(now) {
                return Step::ClassReserve;
            }
            match self.take(now, &mut loan) {
                Took::Slot => return Step::Slot(now),
                Took::NoSpare => return Step::NoSpare,
                Took::Again(seen) => now = seen,
            }
        }
    }

    /// One try to take a free slot of the word as it was seen.
    fn take(&self, now: Picture, loan: &mut Loan<'_>) -> Took {
        let borrows = now.in_flight() >= now.reserved();
        if borrows && !loan.take() {
            return Took::NoSpare;
        }
        match self.word().change(now, now.entered()) {
            Ok(()) => {
                if borrows {
                    loan.spend();
                }
                Took::Slot
            }
            Err(seen) => Took::Again(seen),
        }
    }

    fn enter_full(&self, ask: Ask, now: Picture) -> Step {
        if matches!(now.no_slot(), NoSlot::Closed | NoSlot::Retired) {
            return Step::Closed;
        }
        if !ask.may_wait() {
            return Step::Full;
        }
        let mut line = self.queue.line();
        let mut loan = Loan::none(self.spare(), ask.sheddable);
        let mut now = self.word().load();
        loop {
            if now.is_closed() {
                return Step::Closed;
            }
            // A slot that came free meanwhile, and nobody was here before.
            if line.is_empty() && !now.is_full() {
                match self.take(now, &mut loan) {
                    Took::Slot => return Step::Slot(now),
                    Took::NoSpare => return Step::NoSpare,
                    Took::Again(seen) => now = seen,
                }
                continue;
            }
            if line.len() >= usize::try_from(ask.queue_max).unwrap_or(usize::MAX) {
                return Step::QueueFull;
            }
            // Set in the same swap that sees the word full: whoever leaves from now on comes
            // to the line.
            match self.word().change(now, now.with_waiters(true)) {
                Ok(()) => {
                    self.slots.stats.join_queue();
                    return Step::Waits(line.join(ask.sheddable));
                }
                Err(seen) => now = seen,
            }
        }
    }

    /// Gives one slot back: to the first who waits, else to the word.
    pub(crate) fn leave(&self) {
        let mut now = self.word().load();
        loop {
            if now.has_waiters() {
                return self.hand_over();
            }
            match self.word().change(now, now.left()) {
                Ok(()) => return self.return_loan(now),
                Err(seen) => now = seen,
            }
        }
    }

    /// After the word's count fell from `before`.
    fn return_loan(&self, before: Picture) {
        if before.borrowed() > 0 {
            self.spare().give(1);
        }
    }

    fn hand_over(&self) {
        let mut line = self.queue.line();
        // With the waiters bit set and the line locked nobody else changes the word; should the
        // bit be gone again, the swap below fails and looks anew.
        let mut now = self.word().load();
        let (mut first, mut others) = (None, Vec::new());
        loop {
            if self.passes_on(&line, now) {
                // The slot, its guarantee or its loan go to the waiter as they are.
                self.slots.stats.begin_pending();
                first = line.end_first(Turn::Granted);
                break;
            }
            match self.word().change(now, now.left()) {
                Ok(()) => {
                    self.return_loan(now);
                    others = self.admit_waiters(&mut line);
                    break;
                }
                Err(seen) => now = seen,
            }
        }
        self.settle_bit(&line);
        drop(line);
        others
            .into_iter()
            .chain([first])
            .flatten()
            .for_each(Waker::wake);
    }

    /// Whether the slot of one who leaves goes to the first in line as it is. Not one above a
    /// lowered limit; and a borrowed one only where it might be borrowed anew: the spare slots
    /// may have been lowered too, and a sheddable request may borrow less than others.
    fn passes_on(&self, line: &Line, now: Picture) -> bool {
        let Some(sheddable) = line.first_is_sheddable() else {
            return false;
        };
        let (spare_slots, spare_used) = self.spare().read();
        let as_it_is = now.borrowed() == 0 || (spare_used <= spare_slots && !sheddable);
        as_it_is && now.in_flight() <= now.slots()
    }

    /// The waiters bit says whether the locked line has somebody in it.
    fn settle_bit(&self, line: &Line) {
        if line.is_empty() {
            self.word().update(|now| now.with_waiters(false));
        }
    }

    /// Leaves the waker of a waiter; the turn it has come to if that is decided.
    pub(crate) fn hear_turn(&self, ticket: &Ticket, waker: &Waker) -> Turn {
        let turn = ticket.turn();
        if turn != Turn::Waiting || self.queue.line().keep_waker(ticket, waker) {
            return turn;
        }
        ticket.turn()
    }

    /// Ends the wait from the waiter's side: `Waiting` when it had no turn yet and is out of
    /// the line now, else the turn it had come to in that very instant.
    pub(crate) fn withdraw(&self, ticket: &Ticket) -> Turn {
        let turn = ticket.turn();
        if turn != Turn::Waiting {
            return turn;
        }
        let mut line = self.queue.line();
        if line.withdraw(ticket) {
            self.settle_bit(&line);
            return Turn::Waiting;
        }
        ticket.turn()
    }

    /// New numbers. What is in flight keeps counting; raising wakes as many as fit, closing
    /// ends every wait.
    pub(crate) fn resize(&self, limit: Limit, reserved: u32) {
        let mut line = self.queue.line();
        self.change_limits(limit, reserved);
        let wakers = self.admit_waiters(&mut line);
        self.settle_bit(&line);
        drop(line);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Keeps the spare slots in step: what the new guarantee no longer covers is borrowed from
    /// now on, free or not, because it was admitted before.
    fn change_limits(&self, limit: Limit, reserved: u32) {
        let mut now = self.word().load();
        loop {
            let next = now.with_limits(limit, reserved);
            let more = next.borrowed().saturating_sub(now.borrowed());
            self.spare().force(more);
            match self.word().change(now, next) {
                Ok(()) => {
                    return self
                        .spare()
                        .give(now.borrowed().saturating_sub(next.borrowed()));
                }
                Err(seen) => {
                    self.spare().give(more);
                    now = seen;
                }
            }
        }
    }

    fn admit_waiters(&self, line: &mut Line) -> Vec<Option<Waker>> {
        let mut wakers = Vec::new();
        let mut now = self.word().load();
        while let Some(sheddable) = line.first_is_sheddable() {
            if now.is_closed() {
                wakers.push(line.end_first(Turn::Closed));
                continue;
            }
            if now.is_full() {
                break;
            }
            let mut loan = Loan::none(self.spare(), sheddable);
            match self.take(now, &mut loan) {
                Took::Slot => {
                    self.slots.stats.begin_pending();
                    wakers.push(line.end_first(Turn::Granted));
                    now = now.entered();
                }
                Took::NoSpare => wakers.push(line.end_first(Turn::NoSpare)),
                Took::Again(seen) => now = seen,
            }
        }
        wakers
    }
}

/// What one try to take a slot came to.
enum Took {
    Slot,
    NoSpare,
    /// The word had changed to this.
    Again(Picture),
}
