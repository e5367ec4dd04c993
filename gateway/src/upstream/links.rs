//! The HTTP/2 connections of one route to one endpoint, and who waits for one.
//!
//! Separate because a burst must not dial a connection for each of its requests: one dials, the
//! others wait for what it brings. It must never open more connections than its bound.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::SendRequest;

use super::link::{Driven, Lease, Link, Waiting};
use crate::server::Tasks;

/// Connections of one route to one endpoint on one core.
const LINKS_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Links {
    open: RefCell<Vec<Rc<Link>>>,
    dialling: Cell<bool>,
    waiting: Rc<Waiting>,
    /// The connections' tasks end with the pool, which every running exchange holds.
    tasks: Tasks,
}

/// Opens one stream.
pub(crate) type Stream = SendRequest<Bytes>;

/// What whoever needs a stream is given.
pub(crate) enum Way<'a> {
    Stream(Stream, Lease),
    /// It is to dial, and to add what it has dialled.
    Dial(Dialling<'a>),
}

impl Default for Links {
    fn default() -> Self {
        Self {
            open: RefCell::default(),
            dialling: Cell::new(false),
            waiting: Rc::default(),
            tasks: Tasks::new("upstream connection"),
        }
    }
}

impl Links {
    /// A stream on a connection that has room, or leave to dial. Pending: somebody else dials, or
    /// there are as many connections as there may be.
    pub(crate) fn poll_way(&self, now_us: u64, cx: &mut Context<'_>) -> Poll<Way<'_>> {
        let mut open = self.open.borrow_mut();
        open.retain(|link| !link.is_retired());
        if let Some((sender, lease)) = open.iter().find_map(|link| link.open(now_us)) {
            return Poll::Ready(Way::Stream(sender, lease));
        }
        if !self.dialling.get() && open.len() < LINKS_MAX {
            self.dialling.set(true);
            return Poll::Ready(Way::Dial(Dialling(self)));
        }
        self.waiting.join(cx.waker());
        Poll::Pending
    }

    /// Closes what nobody has used for long.
    pub(crate) fn sweep(&self, now_us: u64) {
        self.open.borrow_mut().retain(|link| {
            if link.is_over(now_us) {
                link.retire();
            }
            !link.is_retired()
        });
    }
}

/// The one that dials. Dropping it lets the next one try.
pub(crate) struct Dialling<'a>(&'a Links);

impl Dialling<'_> {
    /// Who waits for it, for the connection to know.
    pub(crate) fn waiting(&self) -> Rc<Waiting> {
        Rc::clone(&self.0.waiting)
    }

    /// The connection is there for everybody.
    pub(crate) fn done(self, link: Rc<Link>, driven: Driven) {
        self.0.open.borrow_mut().push(Rc::clone(&link));
        self.0.tasks.spawn(link.drive(driven));
    }
}

impl Drop for Dialling<'_> {
    fn drop(&mut self) {
        self.0.dialling.set(false);
        self.0.waiting.wake();
    }
}
