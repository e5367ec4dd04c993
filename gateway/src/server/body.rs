//! An answer's body with the mark that its request is still being answered.
//!
//! Separate so that the connection knows when an answer has ended whatever the body is. It must
//! never look at the bytes.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::connection::Running;
use crate::now::Now;

pin_project! {
    /// Dropping it ends the request.
    pub(crate) struct Tracked<B> {
        // Declared first, so dropped first: the permits are back before the connection is idle.
        #[pin]
        body: B,
        running: Running,
        now: Rc<Now>,
    }
}

impl<B> Tracked<B> {
    pub(crate) fn new(body: B, running: Running, now: Rc<Now>) -> Self {
        Self { body, running, now }
    }
}

impl<B: Body> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = this.body.poll_frame(cx);
        this.running
            .body_polled(frame.is_pending(), || this.now.last_us());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
