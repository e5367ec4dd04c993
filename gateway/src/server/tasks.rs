//! Tasks of one thread and their owner.
//!
//! Separate so that nothing is spawned without somebody whose end ends it, and so that a panic
//! stays inside its task: what the task held is dropped, its neighbours go on. It must never
//! be shared between threads.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::task::JoinSet;

/// Owns tasks of the current thread; dropping it stops them.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// What the tasks are, for the log.
    kind: &'static str,
    running: RefCell<JoinSet<()>>,
}

impl Tasks {
    pub(crate) fn new(kind: &'static str) -> Self {
        Self {
            kind,
            running: RefCell::new(JoinSet::new()),
        }
    }

    /// Runs `task` on this thread until it ends, panics, or the owner is dropped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let mut running = self.running.borrow_mut();
        // What has ended is let go here, so that the set is never larger than the busiest moment.
        while running.try_join_next().is_some() {}
        running.spawn_local(Told {
            kind: self.kind,
            task: Contained { task },
        });
    }
}

pin_project! {
    /// Logs a panic. Written by hand: an async block would have room for the task twice.
    struct Told<F> {
        kind: &'static str,
        #[pin]
        task: Contained<F>,
    }
}

impl<F: Future<Output = ()>> Future for Told<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        let ended = ready!(this.task.poll(cx));
        if ended.is_err() {
            let task = *this.kind;
            tracing::error!(task, "a task panicked; what it held was given back");
        }
        Poll::Ready(())
    }
}

/// A panic happened inside.
#[derive(Debug)]
pub(crate) struct Panicked;

pin_project! {
    /// Turns a panic while polling into an error. The inner future must not be polled again.
    pub(crate) struct Contained<F> {
        #[pin]
        pub(crate) task: F,
    }
}

impl<F: Future> Future for Contained<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.project().task;
        // Unwind safety: after a panic the future is only dropped, and what it shares with others
        // (counters in cells, atomics) is whole between any two statements.
        match catch_unwind(AssertUnwindSafe(|| task.poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    }
}
