//! How long the oldest permits are out, as each serving core last said.
//!
//! Separate because the cores know when their requests began and the background thread shows it:
//! this is the board between them. A core writes it about once a second, never for each request,
//! and never waits for a reader.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::clock::Clock;
use crate::report::Ages;

/// One place for each serving core.
#[derive(Debug)]
pub(crate) struct Board {
    clock: Clock,
    cores: Mutex<Vec<Arc<CoreAges>>>,
}

/// One core's place: since when the oldest permit of each compartment is out, by key.
#[derive(Debug, Default)]
pub(crate) struct CoreAges(Mutex<HashMap<String, u64>>);

impl Board {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            cores: Mutex::new(Vec::new()),
        })
    }

    /// The place of one more core.
    pub(crate) fn core(&self) -> Arc<CoreAges> {
        let place = Arc::new(CoreAges::default());
        let mut cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        cores.push(Arc::clone(&place));
        place
    }
}

impl CoreAges {
    /// Replaces what this core said before. While somebody reads, this time is left out: a
    /// serving thread does not wait.
    pub(crate) fn publish(&self, since_us: HashMap<String, u64>) {
        match self.0.try_lock() {
            Ok(mut place) => *place = since_us,
            Err(TryLockError::Poisoned(place)) => *place.into_inner() = since_us,
            Err(TryLockError::WouldBlock) => {}
        }
    }
}

impl Ages for Board {
    fn oldest_permits_ms(&self) -> HashMap<String, u64> {
        let now_us = self.clock.now_us();
        let mut oldest_ms: HashMap<String, u64> = HashMap::new();
        let cores = self.cores.lock().unwrap_or_else(PoisonError::into_inner);
        for core in cores.iter() {
            let place = core.0.lock().unwrap_or_else(PoisonError::into_inner);
            for (key, since_us) in place.iter() {
                let age_ms = now_us.saturating_sub(*since_us) / 1_000;
                let oldest = oldest_ms.entry(key.clone()).or_default();
                *oldest = age_ms.max(*oldest);
            }
        }
        oldest_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(key: &str, since_us: u64) -> HashMap<String, u64> {
        HashMap::from([(key.to_owned(), since_us)])
    }

    #[test]
    fn the_oldest_of_all_cores_is_shown() {
        let clock = Clock::start();
        let board = Board::new(clock);
        let (one, two) = (board.core(), board.core());
        // The clock starts with the test: wait until something can be a millisecond old.
        while clock.now_us() < 3_000 {
            std::thread::yield_now();
        }
        one.publish(said("route/a", 0));
        two.publish(said("route/a", 2_000));
        let oldest = board.oldest_permits_ms();
        assert!(oldest["route/a"] >= 3, "{oldest:?}");
        one.publish(HashMap::new());
        two.publish(said("route/b", u64::MAX));
        assert_eq!(
            board.oldest_permits_ms(),
            HashMap::from([("route/b".to_owned(), 0)])
        );
    }
}
