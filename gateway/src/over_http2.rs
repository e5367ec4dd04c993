//! An attempt at an upstream that speaks HTTP/2.
//!
//! Separate from the HTTP/1 attempt because a connection is shared and a stream is opened on it:
//! what is waited for is room. It must never send a request twice, unless the upstream says that
//! it has not looked at it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use http::{Request, Response};

use crate::attempt::{Attempts, Fault, Reply, is_readable};
use crate::request_body::RequestBody;
use crate::upstream::{Broken, Call, EndpointPool, Lease, Link, Source, Stream, Unreached, Way};

/// How often one attempt opens a stream anew for a request that nobody has looked at.
const UNSEEN_MAX: u32 = 1;

impl From<Broken> for Fault {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Protocol => Self::Protocol,
            Broken::Reset | Broken::Unseen => Self::Reset,
        }
    }
}

impl Attempts<'_> {
    /// One endpoint, or why it gives no connection.
    pub(crate) async fn over_http2(
        &mut self,
        pool: &Rc<EndpointPool>,
    ) -> Result<Result<Reply, Unreached>, Fault> {
        let mut unseen = 0;
        loop {
            let (sender, lease) = match self.open_stream(pool).await? {
                Ok(opened) => opened,
                Err(why) => return Ok(Err(why)),
            };
            let Some(request) = self.request.take() else {
                return Err(Fault::Reset);
            };
            let secure = pool.target.endpoint.secure;
            let sent = self.send_over(sender, lease, &request, secure).await;
            match sent {
                Ok((head, call)) if is_readable(&head, false) => {
                    let source = Source::Http2(call);
                    return Ok(Ok(Reply { head, source }));
                }
                Ok(_) => return Err(Fault::Protocol),
                Err(Failed::Broken(Broken::Unseen)) if unseen < UNSEEN_MAX && self.may_resend() => {
                    unseen += 1;
                    self.request = Some(request);
                }
                Err(Failed::Broken(broken)) => return Err(broken.into()),
                Err(Failed::Otherwise(fault)) => return Err(fault),
            }
        }
    }

    async fn send_over(
        &mut self,
        sender: Stream,
        lease: Lease,
        request: &Request<RequestBody>,
        secure: bool,
    ) -> Result<(Response<()>, Box<Call>), Failed> {
        let mut call = Box::new(Call::begin(sender, lease, request, secure)?);
        let head = poll_fn(|cx| {
            self.poll_client(cx).map_err(Failed::Otherwise)?;
            call.poll(cx);
            if let Poll::Ready(head) = call.poll_head(cx) {
                return Poll::Ready(head.map_err(Failed::Broken));
            }
            // The upstream may have taken what was read ahead: there is room for more.
            self.poll_client(cx).map_err(Failed::Otherwise)?;
            self.poll_bounds(cx)
                .map(|fault| Err(Failed::Otherwise(fault)))
        });
        let head = head.await?;
        Ok((head, call))
    }

    /// Room for one stream, on a new connection if need be.
    async fn open_stream(
        &mut self,
        pool: &Rc<EndpointPool>,
    ) -> Result<Result<(Stream, Lease), Unreached>, Fault> {
        let links = &pool.links;
        let mut place = links.line_up();
        loop {
            let way = poll_fn(|cx| {
                self.poll_client(cx)?;
                let now_us = self.core.now.last_us();
                if let Poll::Ready(way) = links.poll_way(&mut place, now_us, cx) {
                    return Poll::Ready(Ok(way));
                }
                self.poll_bounds(cx).map(Err)
            });
            match way.await? {
                Way::Stream(sender, lease) => return Ok(Ok((sender, lease))),
                Way::Unreached(why) => return Ok(Err(why)),
                Way::Dial => {
                    let longest = self.connect_share();
                    let (line, born_us) = (links.line(), self.core.now.last_us());
                    let begin = move |stream| Link::begin(stream, born_us, line);
                    let dialler = &self.core.dialler;
                    let dial = dialler.dial(&pool.target, longest, begin);
                    links.dial(dialler.clock(), dial);
                }
            }
        }
    }

    /// Nobody has looked at the request, and all of it can be sent from its beginning.
    fn may_resend(&self) -> bool {
        self.pump.as_ref().is_none_or(|pump| {
            let may = pump.can_resend();
            if may {
                pump.rewind();
            }
            may
        })
    }
}

/// Why there is no head.
enum Failed {
    Broken(Broken),
    Otherwise(Fault),
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}
