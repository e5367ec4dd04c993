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
use crate::queue::{Line, Next, Queue, Ticket, Turn, Who};
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
    /// The tenant's number; 0 for all callers without one.
    pub(crate) tenant: u64,
    pub(crate) sheddable: bool,
    pub(crate) class_reserve: u32,
    pub(crate) queue_max: u32,
    /// When the caller's own time is over.
    pub(crate) until_us: u64,
    pub(crate) now_us: u64,
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
    const fn refusal(self, now: Picture) -> Step {
        if now.is_full() {
            Step::Full
        } else {
            Step::ClassReserve
        }
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
            if now.is_full() || now.has_waiters() || ask.kept_out(now) {
                return self.enter_line(ask, now);
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

    /// For a request that found no slot for it, or others before it.
    fn enter_line(&self, ask: Ask, now: Picture) -> Step {
        if matches!(now.no_slot(), NoSlot::Closed | NoSlot::Retired) {
            return Step::Closed;
        }
        if ask.queue_max == 0 && (now.is_full() || !now.has_waiters()) {
            return ask.refusal(now);
        }
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        let step = self.join(ask, &mut line, &mut wakers);
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
        step
    }

    fn join(&self, ask: Ask, line: &mut Line, wakers: &mut Vec<Waker>) -> Step {
        let mut loan = Loan::none(self.spare(), ask.sheddable);
        let mut now = self.word().load();
        loop {
            if now.is_closed() {
                return Step::Closed;
            }
            // Nobody in the line may have a slot that is free: else it would have it. What is
            // free is kept from all of them, or came free when nobody was here.
            if !now.is_full() && !line.keeps_out(ask.sheddable, now.free()) {
                match self.take(now, &mut loan) {
                    Took::Slot => return Step::Slot(now),
                    Took::NoSpare => return Step::NoSpare,
                    Took::Again(seen) => now = seen,
                }
                continue;
            }
            if ask.queue_max == 0 {
                return ask.refusal(now);
            }
            let who = self.who(ask);
            if ask.now_us >= who.useful_until_us {
                return Step::TooLate;
            }
            // Set in the same swap that sees no slot free: whoever leaves from now on comes to
            // the line.
            let places = usize::try_from(ask.queue_max).unwrap_or(usize::MAX);
            let waits = now.with_waiters(true);
            if line.len() < places || (line.len() == places && line.may_make_room(who)) {
                match self.word().change(now, waits) {
                    Ok(()) => {
                        if line.len() == places {
                            line.make_room(who, wakers);
                        }
                        self.slots.stats.join_queue();
                        return Step::Waits(line.join(who));
                    }
                    Err(seen) => now = seen,
                }
            } else {
                return Step::QueueFull;
            }
        }
    }

    fn who(&self, ask: Ask) -> Who {
        let needed_us = self.slots.mean_hold_us();
        Who {
            tenant: ask.tenant,
            sheddable: ask.sheddable,
            useful_until_us: ask.until_us.saturating_sub(needed_us),
        }
    }

    /// Gives one slot back: to the one whose turn it is, else to the word.
    pub(crate) fn leave(&self, now_us: u64) {
        let mut now = self.word().load();
        loop {
            if now.has_waiters() {
                return self.hand_over(now_us);
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

    fn hand_over(&self, now_us: u64) {
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        // With the waiters bit set and the line locked nobody else changes the word; should the
        // bit be gone again, the swap below fails and looks anew.
        let mut now = self.word().load();
        loop {
            let next = line.next(now.left().free(), now_us, &mut wakers);
            if let Some(next) = next.filter(|next| self.passes_on(*next, now)) {
                // The slot, its guarantee or its loan go to the waiter as they are.
                self.slots.stats.begin_pending();
                line.grant(next, now_us, &mut wakers);
                break;
            }
            match self.word().change(now, now.left()) {
                Ok(()) => {
                    self.return_loan(now);
                    self.admit_waiters(&mut line, now_us, &mut wakers);
                    break;
                }
                Err(seen) => now = seen,
            }
        }
        self.settle_bit(&line);
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Whether the slot of one who leaves goes to a waiter as it is. Not one above a lowered
    /// limit; and a borrowed one only where it might be borrowed anew: the spare slots may have
    /// been lowered too, and a sheddable request may borrow less than others.
    fn passes_on(&self, next: Next, now: Picture) -> bool {
        let (spare_slots, spare_used) = self.spare().read();
        let as_it_is = now.borrowed() == 0 || (spare_used <= spare_slots && !next.sheddable);
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
    pub(crate) fn resize(&self, limit: Limit, reserved: u32, class_reserve: u32, now_us: u64) {
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        line.set_class_reserve(class_reserve);
        self.change_limits(limit, reserved);
        self.admit_waiters(&mut line, now_us, &mut wakers);
        self.settle_bit(&line);
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// No policy names it any more, so it guarantees nothing: what it still holds is borrowed.
    pub(crate) fn give_up_guarantee(&self) {
        let _line = self.queue.line();
        self.change_limits(self.slots.limit(), 0);
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

    /// Gives what is free to those who wait, and ends the wait of those who will get nothing.
    fn admit_waiters(&self, line: &mut Line, now_us: u64, wakers: &mut Vec<Waker>) {
        let mut now = self.word().load();
        while !line.is_empty() {
            if now.is_closed() {
                line.take_all(Turn::Closed, wakers);
                return;
            }
            if now.is_full() {
                return;
            }
            let Some(next) = line.next(now.free(), now_us, wakers) else {
                return;
            };
            let mut loan = Loan::none(self.spare(), next.sheddable);
            match self.take(now, &mut loan) {
                Took::Slot => {
                    self.slots.stats.begin_pending();
                    line.grant(next, now_us, wakers);
                    now = now.entered();
                }
                Took::NoSpare => line.take(next, Turn::NoSpare, wakers),
                Took::Again(seen) => now = seen,
            }
        }
    }
}

/// What one try to take a slot came to.
enum Took {
    Slot,
    NoSpare,
    /// The word had changed to this.
    Again(Picture),
}
