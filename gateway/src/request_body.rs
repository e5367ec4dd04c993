//! The client's body on its way to the upstream.
//!
//! Separate because it must be read all the while, also when the upstream does not: a client that
//! leaves is noticed by reading. What is read ahead and what is kept for a retry have bounds. It
//! must never pass on a byte beyond the route's bound, nor a trailer that speaks for us.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::headers::clean_trailers;

/// Bytes read ahead of the upstream.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// The largest body that is kept for a retry.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Frames that are read ahead, however small.
const AHEAD_FRAMES_MAX: usize = 512;

/// Why a body did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyFault {
    #[error("the body is larger than allowed")]
    TooLarge,
    #[error("the body's framing is broken")]
    Broken,
    #[error("the client left")]
    Gone,
}

/// What reads the client's body. Shared by the exchange and the body that hyper sends.
#[derive(Debug)]
pub(crate) struct Pump(RefCell<State>);

#[derive(Debug)]
struct State {
    /// `None` when its end was read, or it failed.
    source: Option<Incoming>,
    ahead: VecDeque<Bytes>,
    ahead_bytes: usize,
    /// Everything read so far, while it may be needed again.
    kept: Option<Vec<Bytes>>,
    read_bytes: u64,
    bytes_max: u64,
    /// What the client announced.
    length: Option<u64>,
    fault: Option<BodyFault>,
    /// The upstream asked for more than there was.
    starved: bool,
    /// Frames read: tells progress.
    frames: u64,
    /// Kept for upstreams that can be sent some.
    trailers: Option<HeaderMap>,
}

impl Pump {
    /// `keep`: the body may have to be sent again.
    pub(crate) fn new(source: Incoming, bytes_max: u64, keep: bool) -> Rc<Self> {
        let length = source.size_hint().exact();
        Rc::new(Self(RefCell::new(State {
            source: Some(source),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            kept: keep.then(Vec::new),
            read_bytes: 0,
            bytes_max,
            length,
            fault: None,
            starved: false,
            frames: 0,
            trailers: None,
        })))
    }

    /// Reads what there is, up to the bound. Registers for more.
    pub(crate) fn fill(&self, cx: &mut Context<'_>) -> Result<(), BodyFault> {
        self.0.borrow_mut().fill(cx)
    }

    /// True when the upstream waits for bytes that the client has not sent.
    pub(crate) fn waits_for_client(&self) -> bool {
        let state = self.0.borrow();
        state.starved && state.source.is_some()
    }

    /// True when all of it was read and taken.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.0.borrow();
        let left = !state.ahead.is_empty() || state.fault.is_some() || state.trailers.is_some();
        state.source.is_none() && !left
    }

    /// True when the client has said all of it.
    pub(crate) fn is_read(&self) -> bool {
        self.0.borrow().source.is_none()
    }

    /// True when all that was read is here and can be sent again; the rest may still come.
    pub(crate) fn can_resend(&self) -> bool {
        let state = self.0.borrow();
        state.kept.is_some() && state.fault.is_none()
    }

    /// The trailers that came at its end, cleaned.
    pub(crate) fn trailers(&self) -> Option<HeaderMap> {
        self.0.borrow().trailers.clone()
    }

    /// The next piece to send.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFault>>> {
        self.0.borrow_mut().poll_next(cx)
    }

    /// Frames read so far.
    pub(crate) fn progress(&self) -> u64 {
        self.0.borrow().frames
    }

    /// Bytes read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.0.borrow().read_bytes
    }

    /// Whether anything was read, or the body has ended.
    pub(crate) fn has_begun(&self) -> bool {
        let state = self.0.borrow();
        state.frames > 0 || state.source.is_none()
    }

    /// True when a request without a byte of body is announced, and its end has not come: sent
    /// now, it would be whole, whatever the client still says.
    pub(crate) fn is_end_awaited(&self) -> bool {
        let mut state = self.0.borrow_mut();
        state.starved |= state.length == Some(0);
        state.length == Some(0) && state.source.is_some()
    }

    /// True when the whole body is here and can be sent again.
    pub(crate) fn can_repeat(&self) -> bool {
        let state = self.0.borrow();
        state.kept.is_some() && state.source.is_none() && state.fault.is_none()
    }

    /// From the first byte again.
    pub(crate) fn rewind(&self) {
        let mut state = self.0.borrow_mut();
        let again: VecDeque<Bytes> = state.kept.iter().flatten().cloned().collect();
        state.ahead_bytes = again.iter().map(Bytes::len).sum();
        state.ahead = again;
        state.starved = false;
    }
}

impl State {
    fn fill(&mut self, cx: &mut Context<'_>) -> Result<(), BodyFault> {
        while self.has_room() || self.is_complete_but_for_its_end() {
            let Some(source) = &mut self.source else {
                break;
            };
            match Pin::new(source).poll_frame(cx) {
                Poll::Pending => break,
                Poll::Ready(None) => self.end(),
                Poll::Ready(Some(Err(error))) => self.fail(fault_of(&error)),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.take(data),
                    Err(frame) => self.take_trailers(frame),
                },
            }
        }
        self.fault.map_or(Ok(()), Err)
    }

    fn has_room(&self) -> bool {
        self.ahead_bytes < AHEAD_BYTES_MAX && self.ahead.len() < AHEAD_FRAMES_MAX
    }

    /// HTTP/2 ends a body apart from its length, so more than was announced may still come.
    fn is_complete_but_for_its_end(&self) -> bool {
        self.source.is_some() && self.length.is_some_and(|length| self.read_bytes >= length)
    }

    fn take(&mut self, data: Bytes) {
        self.frames += 1;
        self.starved = false;
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.read_bytes = self.read_bytes.saturating_add(length);
        if self.read_bytes > self.bytes_max {
            return self.fail(BodyFault::TooLarge);
        }
        if self.source.as_ref().is_some_and(Body::is_end_stream) {
            self.end();
        }
        if self.read_bytes > u64::try_from(KEPT_BYTES_MAX).unwrap_or(u64::MAX) {
            self.kept = None;
        } else if let Some(kept) = &mut self.kept {
            kept.push(data.clone());
        }
        self.ahead_bytes += data.len();
        self.ahead.push_back(data);
    }

    /// They end the body.
    fn take_trailers(&mut self, frame: Frame<Bytes>) {
        if let Ok(mut trailers) = frame.into_trailers() {
            clean_trailers(&mut trailers);
            self.trailers = (!trailers.is_empty()).then_some(trailers);
        }
    }

    fn end(&mut self) {
        self.source = None;
        self.starved = false;
    }

    fn fail(&mut self, fault: BodyFault) {
        self.fault = Some(fault);
        self.end();
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyFault>>> {
        if self.ahead.len() <= 1
            && let Err(fault) = self.fill(cx)
        {
            return Poll::Ready(Some(Err(fault)));
        }
        // The last piece makes the request whole at the upstream: it waits for the end.
        if self.ahead.len() == 1 && self.is_complete_but_for_its_end() {
            self.starved = true;
            return Poll::Pending;
        }
        match self.ahead.pop_front() {
            Some(data) => {
                self.ahead_bytes -= data.len();
                Poll::Ready(Some(Ok(data)))
            }
            None if self.source.is_none() => Poll::Ready(None),
            None => {
                self.starved = true;
                Poll::Pending
            }
        }
    }
}

/// hyper reports a body that cannot be read as invalid, and one that stops as ended too early.
fn fault_of(error: &hyper::Error) -> BodyFault {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(io) = error.downcast_ref::<std::io::Error>() {
            let unreadable = [
                std::io::ErrorKind::InvalidInput,
                std::io::ErrorKind::InvalidData,
            ];
            return if unreadable.contains(&io.kind()) {
                BodyFault::Broken
            } else {
                BodyFault::Gone
            };
        }
        cause = error.source();
    }
    BodyFault::Gone
}

/// The body of a request to an upstream.
#[derive(Debug)]
pub(crate) enum RequestBody {
    Empty,
    Pumped(Rc<Pump>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyFault;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyFault>>> {
        match &*self {
            Self::Empty => Poll::Ready(None),
            Self::Pumped(pump) => {
                let next = pump.0.borrow_mut().poll_next(cx);
                next.map(|next| next.map(|data| data.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Pumped(pump) => {
                let state = pump.0.borrow();
                state.source.is_none() && state.ahead.is_empty() && state.fault.is_none()
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Pumped(pump) => pump
                .0
                .borrow()
                .length
                .map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
