//! An answer's body with the mark that its request is still being answered.
//!
//! Separate so that the connection knows when an answer has ended whatever the body is. It must
//! never look at the bytes.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::connection::Running;

pin_project! {
    /// Dropping it ends the request.
    pub(crate) struct Tracked<B> {
        // Declared first, so dropped first: the permits are back before the connection is idle.
        #[pin]
        body: B,
        _running: Running,
    }
}

impl<B> Tracked<B> {
    pub(crate) fn new(body: B, running: Running) -> Self {
        Self {
            body,
            _running: running,
        }
    }
}

impl<B: Body> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
