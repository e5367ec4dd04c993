//! The server side: from an accepted socket to the request path and back.
//!
//! Separate from the request path, which it knows only as [`Serve`]. It must never look at what
//! a request means.

mod accept;
mod body;
mod bounds;
mod census;
mod client_io;
mod cutoff;
pub(crate) mod descriptors;
mod detect;
mod doubt;
mod frames;
mod http1;
mod http2;
mod linger;
mod listen;
mod refusal;
mod stream;
mod tasks;
#[cfg(test)]
mod tests;
mod watchdog;

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::TcpStream;

pub(crate) use self::accept::{Accepting, Open, Stage, accept_from};
pub(crate) use self::body::Tracked;
pub(crate) use self::bounds::Bounds;
pub(crate) use self::census::Census;
use self::client_io::Socket;
use self::cutoff::{InTime, TimeIsOver};
pub(crate) use self::listen::{Listeners, bind};
pub(crate) use self::refusal::HeadFault;
pub(crate) use self::tasks::Tasks;
use self::tasks::{Contained, Panicked};
use self::watchdog::Watchdog;
use crate::connection::{Connection, Protocol, Running, Switch};
use crate::now::Now;

/// What answers the requests of one thread.
pub(crate) trait Serve: Clone + 'static {
    /// The body of an answer.
    type Body: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + 'static;

    /// Answers one request; every failure is an answer.
    fn serve(
        self,
        connection: Rc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Self::Body>> + 'static;

    /// True when the request's body has not ended and may never be read to its end: nobody is
    /// left who would, or the answer came before it.
    fn leaves_request(body: &Self::Body) -> bool;

    /// When an answer ends at the latest, whether its body is looked at or not.
    fn ends_at_us(body: &Self::Body) -> u64;

    /// The answer when [`Self::serve`] panicked.
    fn broken(&self, connection: &Connection) -> Response<Self::Body>;

    /// The answer when [`Self::serve`] was ended by the end of the process.
    fn draining(&self, connection: &Connection) -> Response<Self::Body>;

    /// The document for a head that cannot be read.
    fn refuse(&self, connection: &Connection, fault: HeadFault) -> Response<Bytes>;

    /// The bounds for a new connection.
    fn bounds(&self) -> Bounds;

    /// The thread's clock.
    fn now(&self) -> Rc<Now>;
}

/// What every connection of one thread is given.
#[derive(Clone, Debug)]
pub(crate) struct Context<S> {
    pub(crate) service: S,
    pub(crate) bounds: Bounds,
    pub(crate) now: Rc<Now>,
}

/// Drives one connection to its end.
pub(crate) async fn drive<S: Serve>(
    stream: TcpStream,
    connection: Rc<Connection>,
    context: Context<S>,
) {
    let socket: Socket = Rc::new(RefCell::new(stream));
    let mut watchdog = Watchdog::new(&context.now, context.bounds, &connection);
    let end = run(&socket, &connection, &context, &mut watchdog).await;
    // hyper is gone, and its half of the socket with it.
    if let Ok(socket) = Rc::try_unwrap(socket) {
        let socket = socket.into_inner();
        if let End::Switched(Switch(switch), unread) = end {
            return switch(socket, unread).await;
        }
        Box::pin(linger::close(socket, end)).await;
    }
}

/// From the first byte to the last. The drivers are boxed so that a connection on which nothing
/// happens does not keep room for them.
async fn run<S: Serve>(
    socket: &Socket,
    connection: &Rc<Connection>,
    context: &Context<S>,
    watchdog: &mut Watchdog,
) -> End {
    let (protocol, mut read) =
        match Box::pin(detect::detect(socket, connection, context, watchdog)).await {
            Ok(found) => found,
            Err(end) => return end,
        };
    if protocol == Protocol::Http2 {
        return Box::pin(http2::drive(socket, read, connection, context, watchdog)).await;
    }
    loop {
        match Box::pin(http1::drive(socket, read, connection, context, watchdog)).await {
            Ok(unread) => {
                if !unread.is_empty() {
                    // Part of a head came with the request before it.
                    connection.bytes_arrived();
                }
                read = unread;
            }
            Err(end) => return end,
        }
        if let Err(end) = http1::rest(socket, connection, watchdog).await {
            return end;
        }
    }
}

/// How a connection ends.
#[derive(Debug)]
pub(crate) enum End {
    /// Close: the other side has closed, or nothing unread can be lost.
    Quiet,
    /// An answer is on its way: say no more, and read what still comes until the client is done.
    Linger,
    /// Write this answer first, then as above.
    Answer(Response<Bytes>),
    /// The connection is another protocol's now; and what was read of that.
    Switched(Switch, Bytes),
    /// Reset: what was sent must not look whole, or the client does not read.
    Reset,
}

/// Answers one request and marks it as running until its answer has ended.
async fn answer<S: Serve>(
    service: S,
    connection: Rc<Connection>,
    request: Request<Incoming>,
    running: Running,
) -> Result<Response<Tracked<S::Body>>, Infallible> {
    running.look();
    // Built where it is awaited: held in a name first, the future would have room for it twice,
    // and all of it is copied with each request.
    let answered = InTime::new(
        Contained {
            task: service.clone().serve(Rc::clone(&connection), request),
        },
        &connection,
    );
    let mut response = match answered.await {
        Ok(Ok(response)) => response,
        Err(TimeIsOver) => service.draining(&connection),
        Ok(Err(Panicked)) => {
            tracing::error!("a request handler panicked; its permits were given back");
            service.broken(&connection)
        }
    };
    // hyper would read on only so far; whoever sends the rest must not take it for a new request.
    let cut_short = running.is_body_open() && S::leaves_request(response.body());
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    if cut_short || (running.is_last_answer() && !switches) {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let now = service.now();
    running.answer_began(S::ends_at_us(response.body()), now.last_us());
    Ok(response.map(|body| Tracked::new(body, running, now)))
}
