//! Durations as one core counts them.
//!
//! Separate because it is what a request pays for being counted: a load and a store, twice. It
//! must never be written by two threads, nor take its lock for a request that is not sampled.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::metric::{DURATION_EDGES_US, Distribution, Example, bucket_of};

/// Durations of one series on one core; read by others at any time.
#[derive(Debug, Default)]
pub struct DurationCell {
    counts: [AtomicU64; DURATION_EDGES_US.len() + 1],
    sum_us: AtomicU64,
    /// Written for sampled requests only.
    example: Mutex<Option<Example>>,
}

impl DurationCell {
    /// Counts one. Called by one thread alone, so a load and a store lose nothing.
    pub fn record(&self, us: u64, example: Option<Example>) {
        let add = |word: &AtomicU64, by: u64| {
            let sum = word.load(Ordering::Relaxed).wrapping_add(by);
            word.store(sum, Ordering::Relaxed);
        };
        if let Some(count) = self.counts.get(bucket_of(us)) {
            add(count, 1);
        }
        add(&self.sum_us, us);
        if example.is_some() {
            *self.example.lock().unwrap_or_else(PoisonError::into_inner) = example;
        }
    }

    /// Adds what was counted; of two examples the newer one stays.
    pub fn add_to(&self, sum: &mut Distribution) {
        for (count, own) in sum.counts.iter_mut().zip(&self.counts) {
            *count = count.saturating_add(own.load(Ordering::Relaxed));
        }
        sum.sum_us = sum
            .sum_us
            .saturating_add(self.sum_us.load(Ordering::Relaxed));
        let own = *self.example.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |example: Option<Example>| example.map(|example| example.at_unix_ns);
        if at(own) > at(sum.example) {
            sum.example = own;
        }
    }
}
