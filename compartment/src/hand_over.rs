//! A route and those who wait for it: what happens while the line is locked.
//!
//! Separate from the slots themselves, which a request with a free slot takes without any lock:
//! everything here is for a request that found none, and for the slot that came free after. It
//! must never leave a waiter in line with a free slot that it may have.

use std::task::Waker;

use crate::Moment;
use crate::queue::{Line, Next, Ticket, Turn, Who};
use crate::route::{Ask, Route, Step, Took};
use crate::word::{NoSlot, Picture};

impl Route {
    /// For a request that found no slot for it, or others before it.
    pub(crate) fn enter_line(&self, at: Moment<'_>, ask: Ask, now: Picture) -> Step {
        if matches!(now.no_slot(), NoSlot::Closed | NoSlot::Retired) {
            return Step::Closed;
        }
        if ask.queue_max == 0 && (now.is_full() || !now.has_waiters()) {
            return ask.refusal(now);
        }
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        let step = self.join(at, ask, &mut line, &mut wakers);
        drop(line);
        wakers.into_iter().for_each(Waker::wake);
        step
    }

    fn join(&self, at: Moment<'_>, ask: Ask, line: &mut Line, wakers: &mut Vec<Waker>) -> Step {
        let mut now = self.word().load();
        let mut loan = self.loan(at, ask.sheddable, now);
        loop {
            if now.is_closed() {
                return Step::Closed;
            }
            // Nobody in the line may have a slot that is free: else it would have it. What is
            // free is kept from all of them, or came free when nobody was here.
            if !now.is_full() && !line.keeps_out(ask.sheddable, now.free()) {
                match self.take(at, now, &mut loan) {
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
            if at.now_us >= who.useful_until_us {
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

    pub(crate) fn hand_over(&self, at: Moment<'_>) {
        let mut wakers = Vec::new();
        let mut line = self.queue.line();
        // With the waiters bit set and the line locked nobody else changes the word; should the
        // bit be gone again, the swap below fails and looks anew.
        let mut now = self.word().load();
        loop {
            let next = line.next(now.left().free(), at.now_us, &mut wakers);
            if let Some(next) = next.filter(|next| self.passes_on(*next, now, at.now_us)) {
                // The slot, its guarantee or its loan go to the waiter as they are.
                self.slots.stats.begin_pending(at);
                line.grant(next, at.now_us, &mut wakers);
                break;
            }
            match self.slots.change(at, now, now.left()) {
                Ok(()) => {
                    self.return_loan(now, at.now_us);
                    self.admit_waiters(at, &mut line, &mut wakers);
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
    /// limit; and a borrowed one only where it might be borrowed anew, or where the guarantee
    /// under which they came to wait went with the route's name.
    fn passes_on(&self, next: Next, now: Picture, now_us: u64) -> bool {
        let owed = now.borrowed() == 0 || now.is_unnamed();
        let as_it_is = owed || self.lends_anew(next, now, now_us);
        as_it_is && now.in_flight() <= now.slots()
    }

    /// The spare slots may have been lowered, the credit used up, and a sheddable request may
    /// borrow less than others: it asks once more.
    fn lends_anew(&self, next: Next, now: Picture, now_us: u64) -> bool {
        let (slots, used) = self.spare().read();
        let paid = self
            .credit
            .as_ref()
            .is_none_or(|credit| credit.is_positive(now_us));
        let paid = paid || now.is_lax();
        used <= slots && !next.sheddable && paid
    }

    /// The waiters bit says whether the locked line has somebody in it.
    pub(crate) fn settle_bit(&self, line: &Line) {
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

    /// Gives what is free to those who wait, and ends the wait of those who will get nothing.
    pub(crate) fn admit_waiters(&self, at: Moment<'_>, line: &mut Line, wakers: &mut Vec<Waker>) {
        let mut now = self.word().load();
        while !line.is_empty() {
            if now.is_closed() {
                line.take_all(Turn::Closed, wakers);
                return;
            }
            if now.is_full() {
                return;
            }
            let Some(next) = line.next(now.free(), at.now_us, wakers) else {
                return;
            };
            let mut loan = self.loan(at, next.sheddable, now);
            match self.take(at, now, &mut loan) {
                Took::Slot => {
                    self.slots.stats.begin_pending(at);
                    line.grant(next, at.now_us, wakers);
                    now = now.entered();
                }
                Took::NoSpare => line.take(next, Turn::NoSpare, wakers),
                Took::Again(seen) => now = seen,
            }
        }
    }
}
