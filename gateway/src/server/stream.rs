//! One HTTP/2 stream with the bounds that its answer cannot keep itself.
//!
//! Separate because hyper looks at a body only when the client has given room for more of it: a
//! client that gives none would hold a slot for ever. It must never look at the bytes; it drops
//! the stream, which resets it.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Sleep, sleep_until};

use crate::connection::{Connection, Fate, Stream};
use crate::now::Now;

/// So much later than the body's own bound, which tells the reason better.
const LATE_US: u64 = 250_000;

pin_project! {
    /// Ends with its task, or when a bound runs out.
    pub(super) struct Bounded<F> {
        // `None` once it was dropped.
        #[pin]
        pub(super) task: Option<F>,
        pub(super) connection: Rc<Connection>,
        pub(super) stream: Rc<Stream>,
        pub(super) now: Rc<Now>,
        pub(super) stall_us: u64,
        // Most answers end before there is need for one.
        pub(super) sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for Bounded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        this.stream.remember_waker(cx.waker());
        let polled = this.task.as_mut().as_pin_mut().map(|task| task.poll(cx));
        if polled.is_none_or(|polled| polled.is_ready()) {
            return Poll::Ready(());
        }
        loop {
            let stalled_us = this
                .stream
                .blocked_since_us()
                .map(|at| at.saturating_add(*this.stall_us));
            let late_us = this.stream.ends_at_us().saturating_add(LATE_US);
            let at_us = stalled_us.map_or(late_us, |stalled_us| stalled_us.min(late_us));
            if at_us == u64::MAX {
                return Poll::Pending;
            }
            let at = this.now.clock().instant(at_us);
            let sleep = this.sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if sleep.deadline() > at {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if this.now.read_us() >= at_us {
                // This stream alone; the others on the connection go on.
                let end = || this.task.set(None);
                this.connection.ending_with(Fate::SlowClient, end);
                return Poll::Ready(());
            }
            sleep.as_mut().reset(at);
        }
    }
}
