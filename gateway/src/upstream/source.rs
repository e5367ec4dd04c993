//! Where an answer's body comes from, whatever the upstream speaks.
//!
//! Separate so that the exchange is one thing over both protocols. It must never decide when an
//! exchange ends.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{Aim, Broken, Call, EndpointPool, Wire};

/// What brings the answer. Dropping it ends the exchange at the upstream.
#[derive(Debug)]
pub(crate) enum Source {
    Http1 {
        incoming: Incoming,
        wire: Box<Wire>,
        pool: Rc<EndpointPool>,
        /// Counts the exchange at its endpoint.
        aim: Option<Aim>,
    },
    Http2(Box<Call>),
}

/// Why no more of a body comes.
#[derive(Debug)]
pub(crate) enum Cut {
    Http1(hyper::Error),
    Http2(Broken),
}

impl Source {
    /// The exchange counts at its endpoint until it ends.
    pub(crate) fn keep(&mut self, counted: Option<Aim>) {
        match self {
            Self::Http1 { aim, .. } => *aim = counted,
            Self::Http2(call) => call.keep(counted),
        }
    }

    /// Reads and writes what can be. Afterwards whoever waits for it looks again.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        match self {
            Self::Http1 { wire, .. } => wire.poll(cx),
            Self::Http2(call) => call.poll(cx),
        }
    }

    /// The next piece, if it is here.
    pub(crate) fn next_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self {
            Self::Http1 { incoming, wire, .. } => {
                let frame = wire.next_frame(incoming);
                frame.map(|frame| frame.map(|frame| frame.map_err(Cut::Http1)))
            }
            Self::Http2(call) => {
                let frame = call.poll_frame(cx);
                frame.map(|frame| frame.map(|frame| frame.map_err(Cut::Http2)))
            }
        }
    }

    /// True when nothing more will ever come, and nobody says so.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Http1 { wire, .. } => wire.has_ended(),
            Self::Http2(_) => false,
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1 { incoming, .. } => incoming.is_end_stream(),
            Self::Http2(call) => call.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1 { incoming, .. } => incoming.size_hint(),
            Self::Http2(call) => call.size_hint(),
        }
    }

    /// The exchange came to its clean end: the connection may be used again.
    pub(crate) fn end(self, now_us: u64) {
        match self {
            Self::Http1 { wire, pool, .. } => pool.give(wire, now_us),
            Self::Http2(call) => call.end(now_us),
        }
    }
}
