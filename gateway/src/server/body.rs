//! An answer's body with the mark that its request is still being answered.
//!
//! Separate so that the connection knows when an answer has ended whatever the body is. It must
//! never look at the bytes.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
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
        // What of the last piece did not fit.
        rest: Bytes,
        running: Running,
        now: Rc<Now>,
    }
}

impl<B> Tracked<B> {
    pub(crate) fn new(body: B, running: Running, now: Rc<Now>) -> Self {
        Self {
            body,
            rest: Bytes::new(),
            running,
            now,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let mut frame = if this.rest.is_empty() {
            this.body.poll_frame(cx)
        } else {
            Poll::Ready(Some(Ok(Frame::data(std::mem::take(this.rest)))))
        };
        let piece_bytes_max = this.running.piece_bytes_max();
        if let Poll::Ready(Some(Ok(frame))) = &mut frame
            && let Some(data) = frame.data_mut()
            && data.len() > piece_bytes_max
        {
            *this.rest = data.split_off(piece_bytes_max);
        }
        this.running
            .body_polled(frame.is_pending(), || this.now.last_us());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.is_empty() {
            true => self.body.size_hint(),
            false => SizeHint::default(),
        }
    }
}
