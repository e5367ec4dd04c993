//! An attempt at an upstream that speaks HTTP/1.
//!
//! Separate from the HTTP/2 attempt because a connection is the exchange's own: an idle one is
//! taken up, or a new one dialled. It must never send a request a second time of which one byte
//! may have left.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use http::Response;
use hyper::body::Incoming;

use crate::attempt::{Attempts, Fault, Reply, fault_of, is_readable};
use crate::upstream::{EndpointPool, Source, Unreached, Wire};

impl Attempts<'_> {
    /// One endpoint, or why it gives no connection.
    pub(crate) async fn over_http1(
        &mut self,
        pool: &Rc<EndpointPool>,
    ) -> Result<Result<Reply, Unreached>, Fault> {
        loop {
            let core = self.core;
            let idle = poll_fn(|cx| Poll::Ready(pool.take(core.now.last_us(), cx))).await;
            let wire = match idle {
                Some(wire) => wire,
                None => match Box::pin(self.dial(pool)).await? {
                    Ok(wire) => wire,
                    Err(why) => return Ok(Err(why)),
                },
            };
            if let Some((response, wire)) = self.send(wire).await? {
                let (head, incoming) = response.into_parts();
                let source = Source::Http1 {
                    incoming,
                    wire,
                    pool: Rc::clone(pool),
                    aim: None,
                };
                let head = Response::from_parts(head, ());
                return Ok(Ok(Reply { head, source }));
            }
        }
    }

    /// A new connection, or why this endpoint gives none.
    async fn dial(&mut self, pool: &EndpointPool) -> Result<Result<Box<Wire>, Unreached>, Fault> {
        let longest = self.connect_share();
        let born_us = self.core.now.last_us();
        let begin = move |socket| Wire::new(socket, born_us);
        // Boxed, as all that is rare: every request carries the size of this future.
        let mut dial = Box::pin(self.core.dialler.dial(&pool.target, longest, begin));
        // Cancelling it closes the half-made connection; nothing has been sent.
        let dialled = poll_fn(|cx| {
            self.poll_client(cx)?;
            if let Poll::Ready(dialled) = dial.as_mut().poll(cx) {
                return Poll::Ready(Ok(dialled));
            }
            self.poll_bounds(cx).map(Err)
        });
        match dialled.await? {
            Ok(wire) => Ok(Ok(wire)),
            Err(error) => {
                tracing::debug!(route.id = %self.lane.0.route.id, %error, "no connection");
                Ok(Err(error.unreached()))
            }
        }
    }

    /// `None` when not one byte was written: the connection had been closed while it was idle,
    /// and the request is here to be sent over another one.
    async fn send(
        &mut self,
        mut wire: Box<Wire>,
    ) -> Result<Option<(Response<Incoming>, Box<Wire>)>, Fault> {
        let Some(request) = self.request.take() else {
            return Err(Fault::Reset);
        };
        let was_idle = wire.was_used();
        let mut sending = pin!(wire.send(request));
        let answered = poll_fn(|cx| {
            self.poll_client(cx)?;
            wire.poll(cx);
            if let Poll::Ready(answered) = sending.as_mut().poll_head() {
                return Poll::Ready(Ok(answered));
            }
            if wire.has_ended() {
                // Never seen; without it such a request would only end by its bounds.
                return Poll::Ready(Err(Fault::Reset));
            }
            // The upstream may have taken what was read ahead: there is room for more.
            self.poll_client(cx)?;
            self.poll_bounds(cx).map(Err)
        });
        match answered.await? {
            Ok(response) if is_readable(&response, self.asks_switch) => Ok(Some((response, wire))),
            Ok(_) => Err(Fault::Protocol),
            Err(mut error) => match error.take_message() {
                Some(back) if was_idle => {
                    self.request = Some(back);
                    Ok(None)
                }
                _ => Err(fault_of(&error.into_error())),
            },
        }
    }
}
