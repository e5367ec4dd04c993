//! The atomics and the mutex of the mechanism, exchanged for loom's or shuttle's when a model
//! runs.
//!
//! Separate so that the same source is what runs and what is checked. It must never hold logic.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU64, Ordering},
};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU64, Ordering},
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU8, AtomicU64, Ordering},
};

/// Statistics stay on the standard atomics in every model: nothing decides by them, and as
/// branch points they would multiply the state space of every model.
pub(crate) mod statistics {
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

    /// Locks, poisoned or not, as [`super::lock`] does.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Locks; a poisoned lock is entered, because no code under these locks leaves a half-made
/// state behind, and a queue that stays shut would lose slots for good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A value on a cache line of its own (128 bytes: adjacent lines are fetched in pairs).
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);
