//! A connection that was switched to another protocol: bytes, both ways, to the end.
//!
//! Separate because after the 101 nothing of HTTP is left: no head, no retry, no answer of ours.
//! It holds the permits of its stream until both sockets are closed. It must never read more than
//! its buffer has room for, and never look at the bytes.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::connection::{Connection, Switch};
use crate::core::Core;
use crate::held_body::{Bounds, Parts, Slots};
use crate::reason::Reason;
use crate::timer::Timer;
use crate::tunnel_end::End;
use crate::upstream::{Aim, Socket, Source};
use crate::visit::{Stop, Visit};

/// Bytes of one direction that were read and not yet written.
const BUFFER_BYTES: usize = 16 * 1024;
/// When one side has said all it has to say, the other may be silent for so long at most: from
/// here a side that is gone looks the same.
const HALF_CLOSED_IDLE_US: u64 = 5_000_000;
/// Turns of one direction before the other and all other connections have theirs.
const TURNS_MAX: usize = 16;

/// Leaves with the connection what will take it over, once the client has read the 101.
pub(crate) fn prepare(visit: &Visit, parts: Parts, bounds: Bounds) -> Result<(), Stop> {
    if visit.connection.doubt().is_some() {
        let early = "bytes of another protocol came before the connection was switched";
        return Err(Stop::with(Reason::BadRequest, early));
    }
    let Parts {
        source: Source::Http1 { wire, aim, .. },
        timer,
        slots,
        ..
    } = parts
    else {
        // Never asked for over HTTP/2.
        return Err(Stop::from(Reason::UpstreamProtocol));
    };
    let (upstream, unread) = wire.into_socket();
    let waiting = Waiting {
        upstream,
        unread,
        timer,
        _aim: aim,
        _slots: slots,
        // Only idleness and age end it from here.
        bounds: Bounds {
            total_at_us: u64::MAX,
            ..bounds
        },
        core: Rc::clone(&visit.core),
        connection: Rc::clone(&visit.connection),
        begun: Cell::new(false),
    };
    let begin = move |client, early| {
        let run: crate::connection::Switched = Box::pin(waiting.run(client, early));
        run
    };
    visit.connection.set_switch(Switch(Box::new(begin)));
    Ok(())
}

/// A tunnel whose client has not been told yet.
struct Waiting {
    // Declared first, so dropped first: while a permit is out, the upstream may still be at work.
    upstream: Socket,
    unread: Bytes,
    timer: Timer,
    _aim: Option<Aim>,
    _slots: Option<Slots>,
    bounds: Bounds,
    core: Rc<Core>,
    connection: Rc<Connection>,
    begun: Cell<bool>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.begun.get() && !std::thread::panicking() {
            self.core
                .outcomes()
                .count(crate::visit::gone(&self.connection));
        }
    }
}

/// How a tunnel ended otherwise than by both sides' word.
type Ended = Result<(), Reason>;

impl Waiting {
    async fn run(mut self, client: TcpStream, early: Bytes) {
        self.begun.set(true);
        let mut up = Way::new(early, Reason::ClientGone, Reason::UpstreamReset);
        let unread = std::mem::take(&mut self.unread);
        let mut down = Way::new(unread, Reason::UpstreamReset, Reason::ClientGone);
        let ended = self.pass(&client, &mut up, &mut down).await;
        if let Err(reason) = ended {
            self.core.outcomes().count(reason);
        }
        // Both sockets, then the permits.
        drop(client);
    }

    async fn pass(&mut self, client: &TcpStream, up: &mut Way, down: &mut Way) -> Ended {
        let Self {
            upstream,
            timer,
            bounds,
            core,
            ..
        } = self;
        let (client, upstream) = (&End::Plain(client), &End::of(upstream));
        // A reset is heard of also while nobody reads from that side.
        let mut client_lost = pin!(client.lost(Reason::ClientGone));
        let mut upstream_lost = pin!(upstream.lost(Reason::UpstreamReset));
        let mut progress_us = core.now.read_us();
        poll_fn(|cx| {
            let mut moved = false;
            for (way, from, to) in [(&mut *up, client, upstream), (&mut *down, upstream, client)] {
                if let Poll::Ready(Err(reason)) = way.poll(cx, from, to, &mut moved) {
                    return Poll::Ready(Err(reason));
                }
            }
            if up.shut && down.shut {
                return Poll::Ready(Ok(()));
            }
            if let Poll::Ready(reason) = client_lost.as_mut().poll(cx) {
                return Poll::Ready(Err(reason));
            }
            if let Poll::Ready(reason) = upstream_lost.as_mut().poll(cx) {
                return Poll::Ready(Err(reason));
            }
            if moved {
                progress_us = core.now.read_us();
            }
            let idle_us = match up.ended || down.ended {
                true => bounds.body_idle_us.min(HALF_CLOSED_IDLE_US),
                false => bounds.body_idle_us,
            };
            let idle_at_us = progress_us.saturating_add(idle_us);
            let (first_us, reason) = bounds.first();
            let (at_us, reason) = match idle_at_us < first_us {
                true => (idle_at_us, Reason::StreamIdle),
                false => (first_us, reason),
            };
            timer.poll_until(at_us, cx).map(|_| Err(reason))
        })
        .await
    }
}

/// One direction.
struct Way {
    buffer: Vec<u8>,
    /// What is to be written of it.
    from: usize,
    to: usize,
    /// What was read before there was a tunnel.
    first: Bytes,
    /// Some of what was written may still be here.
    unflushed: bool,
    /// The side that is read from has said all.
    ended: bool,
    /// And the other side was told.
    shut: bool,
    read_fails: Reason,
    write_fails: Reason,
}

impl Way {
    fn new(first: Bytes, read_fails: Reason, write_fails: Reason) -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES],
            from: 0,
            to: 0,
            first,
            unflushed: false,
            ended: false,
            shut: false,
            read_fails,
            write_fails,
        }
    }

    /// Moves what can be moved. Ready when nothing more will come this way, or it cannot.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &End<'_>,
        to: &End<'_>,
        moved: &mut bool,
    ) -> Poll<Ended> {
        for _ in 0..TURNS_MAX {
            if self.has_more() {
                let written = ready!(self.poll_write(cx, to)).map_err(|_| self.write_fails)?;
                *moved |= written > 0;
            } else if self.unflushed {
                ready!(to.poll_flush(cx)).map_err(|_| self.write_fails)?;
                self.unflushed = false;
            } else if self.ended {
                return self.poll_shut(cx, to);
            } else {
                let read = ready!(self.poll_read(cx, from)).map_err(|_| self.read_fails)?;
                *moved |= read > 0;
                self.ended |= read == 0;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn has_more(&self) -> bool {
        !self.first.is_empty() || self.from < self.to
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, to: &End<'_>) -> Poll<io::Result<usize>> {
        let rest = match self.first.is_empty() {
            true => self.buffer.get(self.from..self.to).unwrap_or_default(),
            false => &self.first,
        };
        let written = ready!(to.poll_write(cx, rest))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        match self.first.is_empty() {
            true => self.from = self.from.saturating_add(written),
            false => drop(self.first.split_to(written.min(self.first.len()))),
        }
        Poll::Ready(Ok(written))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, from: &End<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(from.poll_read(cx, &mut self.buffer))?;
        (self.from, self.to) = (0, read);
        Poll::Ready(Ok(read))
    }

    fn poll_shut(&mut self, cx: &mut Context<'_>, to: &End<'_>) -> Poll<Ended> {
        if !self.shut {
            ready!(to.poll_shut(cx)).map_err(|_| self.write_fails)?;
            self.shut = true;
        }
        Poll::Ready(Ok(()))
    }
}
