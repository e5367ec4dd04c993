//! The HTTP/2 connections of one route to one endpoint, and who dials them.
//!
//! Separate because a burst must not dial a connection for each of its requests: as many are
//! dialled as those who wait can use, by tasks of their own, so that whoever leaves cancels
//! nothing for the others. It must never open more connections than its bound.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;

use super::line::{InLine, Line};
use super::link::{Driven, Lease, Link, STREAMS_MAX};
use super::{NoConnection, Unreached};
use crate::clock::Clock;
use crate::server::Tasks;

/// Connections of one route to one endpoint on one core.
const LINKS_MAX: usize = 64;
/// After a dial that failed while other connections are open, none is tried for so long: whoever
/// waits waits for room on those.
const DIAL_PAUSE_US: u64 = 1_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Links {
    shared: Rc<Shared>,
    /// The dials, and what drives the connections: they end with the pool, which every running
    /// exchange holds.
    tasks: Tasks,
}

#[derive(Debug)]
struct Shared {
    open: RefCell<Vec<Rc<Link>>>,
    /// Under way.
    dials: Cell<usize>,
    /// What the last connection allowed: as many as one dial will serve.
    streams_each: Cell<usize>,
    dial_again_us: Cell<u64>,
    line: Rc<Line>,
}

/// Opens one stream.
pub(crate) type Stream = SendRequest<Bytes>;

/// What whoever needs a stream is given.
#[derive(Debug)]
pub(crate) enum Way {
    Stream(Stream, Lease),
    /// One more connection is needed: whoever is told so dials, and asks again.
    Dial,
    /// Those who dialled, for this one too, reached nobody.
    Unreached(Unreached),
}

impl Default for Links {
    fn default() -> Self {
        Self {
            shared: Rc::new(Shared {
                open: RefCell::default(),
                dials: Cell::new(0),
                streams_each: Cell::new(STREAMS_MAX),
                dial_again_us: Cell::new(0),
                line: Rc::default(),
            }),
            tasks: Tasks::new("upstream connection"),
        }
    }
}

impl Links {
    /// For one who needs a stream. Dropping it gives up its place.
    pub(crate) fn line_up(&self) -> InLine {
        InLine::new(&self.shared.line)
    }

    /// Who waits, for a new connection to know.
    pub(crate) fn line(&self) -> Rc<Line> {
        Rc::clone(&self.shared.line)
    }

    /// A stream on a connection that has room, or leave to dial. Pending: others dial, or there are
    /// as many connections as there may be.
    pub(crate) fn poll_way(
        &self,
        place: &mut InLine,
        now_us: u64,
        cx: &mut Context<'_>,
    ) -> Poll<Way> {
        let shared = &*self.shared;
        if let Some(why) = place.told() {
            place.served();
            return Poll::Ready(Way::Unreached(why));
        }
        // Nobody overtakes those who wait.
        let newcomer = !place.waits() && !shared.line.is_empty();
        if !newcomer && let Some((sender, lease)) = shared.find_room(now_us) {
            place.served();
            shared.pass_on(now_us);
            return Poll::Ready(Way::Stream(sender, lease));
        }
        place.wait(cx);
        if newcomer {
            shared.pass_on(now_us);
        }
        match shared.needs_dial(now_us) {
            true => Poll::Ready(Way::Dial),
            false => Poll::Pending,
        }
    }

    /// Dials, for all who wait.
    pub(crate) fn dial(
        &self,
        clock: Clock,
        dial: impl Future<Output = Result<(Rc<Link>, Driven), NoConnection>> + 'static,
    ) {
        let dialling = Dialling::new(&self.shared);
        self.tasks.spawn(async move {
            match dial.await {
                Ok((link, driven)) => {
                    dialling.0.add(&link);
                    drop(dialling);
                    link.drive(driven).await;
                }
                Err(error) => {
                    tracing::debug!(%error, "no connection");
                    dialling.0.fail(&error, clock.now_us());
                }
            }
        });
    }

    /// Closes what nobody has used for long.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.shared.open.borrow_mut().retain(|link| {
            if link.is_over(now_us) {
                link.retire();
            }
            !link.is_retired()
        });
    }
}

impl Shared {
    fn find_room(&self, now_us: u64) -> Option<(Stream, Lease)> {
        let mut open = self.open.borrow_mut();
        open.retain(|link| !link.is_retired());
        open.iter().find_map(|link| link.open(now_us))
    }

    /// What is left is the next one's, who is asleep.
    fn pass_on(&self, now_us: u64) {
        if self.line.is_empty() {
            return;
        }
        if self.room() > 0 || self.needs_dial(now_us) {
            self.line.wake_one();
        }
    }

    fn room(&self) -> usize {
        self.open.borrow().iter().map(|link| link.room()).sum()
    }

    /// True when more wait than those connections can serve that are there or are dialled.
    fn needs_dial(&self, now_us: u64) -> bool {
        let (dials, open) = (self.dials.get(), self.open.borrow().len());
        let served = dials.saturating_mul(self.streams_each.get());
        let served = served.saturating_add(self.room());
        let may = open == 0 || now_us >= self.dial_again_us.get();
        may && open.saturating_add(dials) < LINKS_MAX && self.line.len() > served
    }

    fn add(&self, link: &Rc<Link>) {
        self.streams_each.set(link.streams_max().max(1));
        self.open.borrow_mut().push(Rc::clone(link));
    }

    fn fail(&self, error: &NoConnection, now_us: u64) {
        self.dial_again_us.set(now_us.saturating_add(DIAL_PAUSE_US));
        let mut open = self.open.borrow_mut();
        open.retain(|link| !link.is_retired());
        let alone = open.is_empty() && self.dials.get() == 1;
        drop(open);
        if alone {
            self.line.tell_all(error.unreached());
        }
    }
}

/// A dial under way. With its end, whatever it was, the next one in line looks.
struct Dialling(Rc<Shared>);

impl Dialling {
    fn new(shared: &Rc<Shared>) -> Self {
        shared.dials.set(shared.dials.get().saturating_add(1));
        Self(Rc::clone(shared))
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        let dials = &self.0.dials;
        dials.set(dials.get().saturating_sub(1));
        self.0.line.wake_one();
    }
}
