//! Takes connections from a listener and gives each a task of its own.
//!
//! Separate because what can go wrong here concerns all clients: no descriptors, no room, the
//! end of the process. It must never spin: an error that lasts is waited out.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::census::Census;
use super::tasks::Tasks;
use super::{Context, Serve, descriptors, drive};
use crate::connection::Connection;
use crate::now::Now;

/// First and longest pause after an error that concerns the whole process.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
const PAUSE_LAST: Duration = Duration::from_secs(1);

/// How far the process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// Answers say `connection: close`; new connections are still taken, because load balancers
    /// and clients have not heard yet.
    Leaving,
    /// No listener; idle connections close, busy ones end with their answer.
    Closing,
    /// The time to drain is over: what has no answer yet is told so.
    Refusing,
    Stopped,
}

/// What one thread needs to take connections.
#[derive(Debug)]
pub(crate) struct Accepting<S> {
    pub(crate) service: S,
    pub(crate) now: Rc<Now>,
    pub(crate) census: Arc<Census>,
    /// Client connections that the system's limit leaves room for.
    pub(crate) descriptors_max: u32,
    /// Idle connections to upstreams that the process may keep.
    pub(crate) upstream_idle_max: usize,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) connections: Tasks,
    pub(crate) open: Rc<Open>,
}

/// The connections of one thread, so that they can be told to close. Bounded by
/// `max_connections` of the policy, which the census keeps.
#[derive(Debug, Default)]
pub(crate) struct Open {
    next: Cell<u64>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
}

impl Open {
    fn add(self: &Rc<Self>, connection: &Rc<Connection>) -> Entry {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        self.connections
            .borrow_mut()
            .insert(number, Rc::clone(connection));
        Entry {
            number,
            open: Rc::clone(self),
        }
    }

    /// Tells every connection; none is added or taken off by that, it only wakes.
    pub(crate) fn tell(&self, what: impl Fn(&Connection)) {
        self.connections
            .borrow()
            .values()
            .for_each(|connection| what(connection));
    }
}

/// Dropping it takes the connection off the list.
struct Entry {
    number: u64,
    open: Rc<Open>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.open.connections.borrow_mut().remove(&self.number);
    }
}

impl<S: Serve> Accepting<S> {
    fn take(&self, stream: TcpStream, peer: SocketAddr) {
        let bounds = self.service.bounds();
        if self.census.is_new_bound(bounds.connections_max) {
            descriptors::warn_if_short(bounds.connections_max, self.upstream_idle_max);
        }
        let connections_max = bounds.connections_max.min(self.descriptors_max);
        let Some(seat) = self.census.enter(connections_max) else {
            return;
        };
        let connection = Connection::new(peer, self.now.read_us());
        match *self.stage.borrow() {
            Stage::Serving => {}
            Stage::Leaving => connection.leave(),
            Stage::Closing => connection.go(),
            Stage::Refusing | Stage::Stopped => connection.refuse(),
        }
        let entry = self.open.add(&connection);
        let context = Context {
            service: self.service.clone(),
            bounds,
            now: Rc::clone(&self.now),
        };
        self.connections.spawn(async move {
            drive(stream, connection, context).await;
            // Kept to the end: what is lingering still counts.
            drop((entry, seat));
        });
    }
}

/// Takes connections until the process closes its listeners, then what still waits in the queue.
pub(crate) async fn accept_from<S: Serve>(accepting: Rc<Accepting<S>>, listener: TcpListener) {
    let _listening = accepting.census.listener();
    let mut stage = accepting.stage.clone();
    let mut pause = None;
    loop {
        let accepted = tokio::select! {
            // Losing a half-done accept loses nothing: the connection stays in the queue.
            accepted = listener.accept() => accepted,
            // A changed stage stays changed.
            _ = stage.wait_for(|stage| *stage >= Stage::Closing) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                if pause.take().is_some() && accepting.census.resume() {
                    tracing::info!("client connections are accepted again");
                }
                accepting.take(stream, peer);
                // The other threads have heard of the same queue: let them have their share.
                yield_now().await;
            }
            Err(error) if is_about_one_connection(&error) => {}
            Err(error) => {
                if pause.is_none() && accepting.census.pause() {
                    tracing::error!(%error, "cannot accept client connections: pausing");
                }
                let length = pause.map_or(PAUSE_FIRST, |last: Duration| (last * 2).min(PAUSE_LAST));
                pause = Some(length);
                tokio::select! {
                    () = sleep(length) => {}
                    _ = stage.wait_for(|stage| *stage >= Stage::Closing) => break,
                }
            }
        }
    }
    take_queued(&accepting, listener);
}

/// Asks the kernel itself: the runtime may not have heard of the last ones.
fn take_queued<S: Serve>(accepting: &Accepting<S>, listener: TcpListener) {
    if *accepting.stage.borrow() == Stage::Stopped {
        return;
    }
    let Ok(listener) = listener.into_std() else {
        return;
    };
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                let stream = stream
                    .set_nonblocking(true)
                    .and_then(|()| TcpStream::from_std(stream));
                if let Ok(stream) = stream {
                    accepting.take(stream, peer);
                }
            }
            Err(error) if is_about_one_connection(&error) => {}
            // The queue is empty, or there is no descriptor for the next one.
            Err(_) => return,
        }
    }
}

/// The client gave up between the kernel's accept and ours.
fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
