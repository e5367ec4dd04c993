//! Signals of the operating system, as events.
//!
//! Separate because they must be caught before the first listener opens, on a thread that nothing
//! else can hold up: the second signal ends the process whatever the rest is doing. It must never
//! do more than tell and, the second time, exit.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Failure;

/// Most events that wait: a drain and a burst of reloads; more reloads say nothing new.
const EVENTS_MAX: usize = 16;
/// What a shell reports of a process that a signal ended: 128 and the signal's number.
const SIGNALLED: i32 = 128;

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// SIGTERM or SIGINT, the first one.
    Drain,
    /// SIGHUP.
    Reload,
}

/// Catches the signals from here on.
pub(crate) fn catch() -> Result<Receiver<Event>, Failure> {
    let failure = |source| Failure::System {
        what: "catch signals",
        source,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.map_err(failure)?;
    // Registered here and not in the thread, so that a signal that arrives right after this call
    // is caught.
    let caught = {
        let _inside = runtime.enter();
        Caught {
            terminate: signal(SignalKind::terminate()).map_err(failure)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failure)?,
            hang_up: signal(SignalKind::hangup()).map_err(failure)?,
        }
    };
    let (events, receiver) = sync_channel(EVENTS_MAX);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(pass_on(caught, &events)))
        .map_err(failure)?;
    Ok(receiver)
}

struct Caught {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

async fn pass_on(mut caught: Caught, events: &SyncSender<Event>) {
    let mut draining = false;
    loop {
        // Receiving a signal is cancel safe: one that is not taken here is taken next time.
        let ending = tokio::select! {
            _ = caught.terminate.recv() => Some(SignalKind::terminate()),
            _ = caught.interrupt.recv() => Some(SignalKind::interrupt()),
            _ = caught.hang_up.recv() => None,
        };
        // A full queue holds the same events already.
        match ending {
            None => _ = events.try_send(Event::Reload),
            Some(kind) if draining => {
                std::process::exit(SIGNALLED.saturating_add(kind.as_raw_value()));
            }
            Some(_) => {
                draining = true;
                _ = events.try_send(Event::Drain);
            }
        }
    }
}
