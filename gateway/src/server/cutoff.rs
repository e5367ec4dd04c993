//! A request's answer, unless the process has come to its end before.
//!
//! Separate because it concerns every request at any moment, and none of them should have to ask.
//! It must never touch an answer that has begun: that one is cut with its connection.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::connection::{Connection, Fate};

/// The time to drain is over, and the request has no answer yet.
#[derive(Debug)]
pub(super) struct TimeIsOver;

pin_project! {
    /// Whatever the task holds is back before this says that time is over.
    pub(super) struct InTime<F> {
        // `None` once it was dropped.
        #[pin]
        task: Option<F>,
        connection: Rc<Connection>,
    }
}

impl<F> InTime<F> {
    pub(super) fn new(task: F, connection: &Rc<Connection>) -> Self {
        Self {
            task: Some(task),
            connection: Rc::clone(connection),
        }
    }
}

impl<F: Future> Future for InTime<F> {
    type Output = Result<F::Output, TimeIsOver>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if this.connection.is_refusing() {
            let end = || this.task.set(None);
            this.connection.ending_with(Fate::Refused, end);
            return Poll::Ready(Err(TimeIsOver));
        }
        match this.task.as_mut().as_pin_mut() {
            Some(task) => task.poll(cx).map(Ok),
            None => Poll::Ready(Err(TimeIsOver)),
        }
    }
}
