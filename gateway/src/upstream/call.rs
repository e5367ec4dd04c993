//! One exchange over HTTP/2: a stream that its exchange drives by itself.
//!
//! Separate from the connection, which many exchanges share. Dropping it takes the stream back at
//! the upstream. It must never read more than its reader has room for, nor send a field that the
//! protocol forbids.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, HOST, TE, TRANSFER_ENCODING};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use http_body::{Frame, SizeHint};

use super::Aim;
use super::link::Lease;
use crate::request_body::{Pump, RequestBody};

/// How a stream failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The other side reset it, or the connection is gone.
    Reset,
    /// What came cannot be read without doubt.
    Protocol,
    /// The other side says that it has not looked at the request.
    Unseen,
}

impl From<h2::Error> for Broken {
    fn from(error: h2::Error) -> Self {
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        // GOAWAY fails the streams alone that were beyond its number.
        if error.is_remote() && (refused || error.is_go_away()) {
            Self::Unseen
        } else if error.is_library() {
            Self::Protocol
        } else {
            Self::Reset
        }
    }
}

/// One stream.
pub(crate) struct Call {
    answer: Option<ResponseFuture>,
    body: Option<RecvStream>,
    /// The data is read to its end, the trailers are not.
    at_trailers: bool,
    upload: Option<Upload>,
    /// Counts the exchange at its endpoint.
    aim: Option<Aim>,
    // Dropped last: until then the stream counts.
    lease: Lease,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// The request's body on its way.
struct Upload {
    send: SendStream<Bytes>,
    pump: Rc<Pump>,
    /// Read, and not yet allowed to be sent.
    rest: Bytes,
}

impl Call {
    /// Opens a stream for the request, whose body follows with [`Call::poll`].
    pub(crate) fn begin(
        mut sender: SendRequest<Bytes>,
        lease: Lease,
        request: &Request<RequestBody>,
        secure: bool,
    ) -> Result<Self, Broken> {
        let head = head_of(request, secure).ok_or(Broken::Protocol)?;
        let pump = match request.body() {
            RequestBody::Empty => None,
            RequestBody::Pumped(pump) => Some(Rc::clone(pump)),
        };
        let (answer, send) = match sender.send_request(head, pump.is_none()) {
            Ok(begun) => begun,
            // The connection is on its way out. Nothing of the request was sent.
            Err(_) => {
                lease.retire();
                return Err(Broken::Unseen);
            }
        };
        let upload = pump.map(|pump| Upload {
            send,
            pump,
            rest: Bytes::new(),
        });
        Ok(Self {
            answer: Some(answer),
            body: None,
            at_trailers: false,
            upload,
            aim: None,
            lease,
        })
    }

    pub(crate) fn keep(&mut self, aim: Option<Aim>) {
        self.aim = aim;
    }

    /// Sends what may be sent of the request's body.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(upload) = &mut self.upload
            && upload.poll(cx).is_ready()
        {
            self.upload = None;
        }
    }

    /// The head of the answer.
    pub(crate) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, Broken>> {
        let Some(answer) = &mut self.answer else {
            return Poll::Pending;
        };
        let answered = ready!(std::pin::Pin::new(answer).poll(cx));
        self.answer = None;
        let response = answered.map_err(|error| self.broken(error))?;
        let (head, body) = response.into_parts();
        self.body = Some(body);
        Poll::Ready(Ok(Response::from_parts(head, ())))
    }

    /// The next piece of the answer's body, or its trailers.
    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        if !self.at_trailers {
            match ready!(body.poll_data(cx)) {
                Some(Ok(data)) => {
                    // It is on its way to a client that had room for it.
                    let released = body.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(match released {
                        Ok(()) => Ok(Frame::data(data)),
                        Err(error) => Err(self.broken(error)),
                    }));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(self.broken(error)))),
                None => self.at_trailers = true,
            }
        }
        let trailers = ready!(body.poll_trailers(cx));
        self.body = None;
        match trailers {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(error) => Poll::Ready(Some(Err(self.broken(error)))),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self.is_end_stream() {
            true => SizeHint::with_exact(0),
            false => SizeHint::default(),
        }
    }

    /// The exchange came to its clean end.
    pub(crate) fn end(self, now_us: u64) {
        self.lease.used(now_us);
    }

    fn broken(&self, error: h2::Error) -> Broken {
        let broken = Broken::from(error);
        if broken == Broken::Unseen {
            // Another connection, if it is tried once more.
            self.lease.retire();
        }
        broken
    }
}

impl Upload {
    /// Ready when all is sent, or nothing more is wanted.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // Its other half tells why.
            if self.send.poll_reset(cx).is_ready() {
                return Poll::Ready(());
            }
            if self.rest.is_empty() {
                match ready!(self.pump.poll_next(cx)) {
                    Some(Ok(data)) => self.rest = data,
                    // The exchange hears of it by itself and ends.
                    Some(Err(_)) => return Poll::Pending,
                    None => return self.finish(),
                }
                continue;
            }
            self.send.reserve_capacity(self.rest.len());
            let Some(Ok(room)) = ready!(self.send.poll_capacity(cx)) else {
                return Poll::Ready(());
            };
            let piece = self.rest.split_to(room.min(self.rest.len()));
            let last = self.rest.is_empty() && self.pump.is_done();
            if self.send.send_data(piece, last).is_err() || last {
                return Poll::Ready(());
            }
        }
    }

    /// The stream is told that nothing more comes; should it be gone, its other half tells.
    fn finish(&mut self) -> Poll<()> {
        match self.pump.trailers() {
            Some(trailers) => drop(self.send.send_trailers(trailers)),
            None => drop(self.send.send_data(Bytes::new(), true)),
        }
        Poll::Ready(())
    }
}

/// The head as HTTP/2 spells it: the host in the target, and nothing that speaks of a connection.
fn head_of(request: &Request<RequestBody>, secure: bool) -> Option<Request<()>> {
    let mut headers: HeaderMap = request.headers().clone();
    let host = headers.remove(HOST)?;
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
    let mut target = Uri::default().into_parts();
    target.scheme = Some(if secure { Scheme::HTTPS } else { Scheme::HTTP });
    target.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
    let path = request.uri().path_and_query().cloned();
    target.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = Uri::from_parts(target).ok()?;
    *head.version_mut() = Version::HTTP_2;
    *head.headers_mut() = headers;
    Some(head)
}

/// Says that trailers may come, which is what gRPC asks for and HTTP/2 allows.
pub(crate) fn accept_trailers(headers: &mut HeaderMap) {
    headers.insert(TE, HeaderValue::from_static("trailers"));
}
