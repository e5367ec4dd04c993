//! How many client connections this process has, over all its threads.
//!
//! Separate because the bound is the process's and the connections belong to threads. It must
//! never know which connections they are.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Counts connections and open listeners.
#[derive(Debug, Default)]
pub(crate) struct Census {
    open: AtomicU32,
    listeners: AtomicU32,
    turned_away: AtomicU64,
    bound: AtomicU32,
    full: AtomicBool,
    paused: AtomicBool,
    changed: Mutex<()>,
    emptied: Condvar,
}

impl Census {
    /// A place for one connection, or `None` when `connections_max` are open.
    pub(crate) fn enter(self: &Arc<Self>, connections_max: u32) -> Option<Seat> {
        let taken = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
                (open < connections_max).then(|| open.saturating_add(1))
            });
        if taken.is_ok() {
            return Some(Seat(Arc::clone(self)));
        }
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        // One line for each time it fills up, not for each connection that is turned away.
        if !self.full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                connections_max,
                "no room for more client connections: closing new ones"
            );
        }
        None
    }

    /// Connections open now.
    #[cfg(test)]
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections closed at once because there was no room, since the start.
    #[cfg(test)]
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// True for the first connection that comes under this bound: it may need a word.
    pub(crate) fn is_new_bound(&self, connections_max: u32) -> bool {
        self.bound.load(Ordering::Relaxed) != connections_max
            && self.bound.swap(connections_max, Ordering::Relaxed) != connections_max
    }

    /// A thread cannot accept. True for the first that says so: one line for all of them.
    pub(crate) fn pause(&self) -> bool {
        !self.paused.swap(true, Ordering::Relaxed)
    }

    /// A thread accepts again. True for the first that says so.
    pub(crate) fn resume(&self) -> bool {
        self.paused.swap(false, Ordering::Relaxed)
    }

    /// A listener that may still bring connections.
    pub(crate) fn listener(self: &Arc<Self>) -> Listening {
        self.listeners.fetch_add(1, Ordering::Relaxed);
        Listening(Arc::clone(self))
    }

    /// Waits until no listener and no connection is left; false when the time ran out.
    pub(crate) fn wait_empty(&self, longest: Duration) -> bool {
        let guard = self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .emptied
            .wait_timeout_while(guard, longest, |()| !self.is_empty());
        drop(waited);
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let left = self.open.load(Ordering::SeqCst) | self.listeners.load(Ordering::SeqCst);
        left == 0
    }

    fn tell(&self) {
        // Taken and dropped so that a waiter is either before its check or asleep.
        drop(self.changed.lock().unwrap_or_else(PoisonError::into_inner));
        self.emptied.notify_all();
    }
}

/// One open connection; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct Seat(Arc<Census>);

impl Drop for Seat {
    fn drop(&mut self) {
        let census = &self.0;
        census.full.store(false, Ordering::Relaxed);
        if census.open.fetch_sub(1, Ordering::SeqCst) == 1
            && census.listeners.load(Ordering::SeqCst) == 0
        {
            census.tell();
        }
    }
}

/// One open listener of one thread; dropping it says that no more connections come from it.
#[derive(Debug)]
pub(crate) struct Listening(Arc<Census>);

impl Drop for Listening {
    fn drop(&mut self) {
        if self.0.listeners.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_exact_and_places_come_back() {
        let census = Arc::new(Census::default());
        let seats: Vec<_> = (0..3).filter_map(|_| census.enter(2)).collect();
        assert_eq!(
            (seats.len(), census.open(), census.turned_away()),
            (2, 2, 1)
        );
        drop(seats);
        assert_eq!(census.open(), 0);
        assert!(census.enter(1).is_some());
    }

    #[test]
    fn empty_means_no_listener_and_no_connection() {
        let census = Arc::new(Census::default());
        let (listening, seat) = (census.listener(), census.enter(9));
        assert!(!census.wait_empty(Duration::ZERO));
        let waiting = Arc::clone(&census);
        let waiter = std::thread::spawn(move || waiting.wait_empty(Duration::from_secs(60)));
        drop(listening);
        drop(seat);
        assert!(waiter.join().unwrap());
    }
}
