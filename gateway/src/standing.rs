//! How far this process has come: listeners bound, a policy live, draining.
//!
//! Separate because the serving threads, the policy intake and the admin port all write or read
//! it, and none should know the others. It must never decide anything: it remembers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Shared by every thread of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    bound: AtomicBool,
    draining: AtomicBool,
    /// Not ready because an operator said so; nothing else follows from it.
    drained: AtomicBool,
    /// What the control plane offers is older than what runs.
    held_back: AtomicBool,
    /// Where the control plane is that is connected.
    control_plane: Mutex<Option<String>>,
    live: Mutex<bool>,
    became_live: Condvar,
    applied_at_us: AtomicU64,
}

impl Standing {
    /// Every listener accepts.
    pub(crate) fn listeners_bound(&self) {
        self.bound.store(true, Ordering::Release);
    }

    /// From now on not ready, for good.
    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// An operator's order; true when it is a new one.
    pub(crate) fn set_drained(&self, drained: bool) -> bool {
        self.drained.swap(drained, Ordering::AcqRel) != drained
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Acquire)
    }

    /// Whether an older policy than the running one was offered last.
    pub(crate) fn set_held_back(&self, held_back: bool) {
        self.held_back.store(held_back, Ordering::Relaxed);
    }

    pub(crate) fn is_held_back(&self) -> bool {
        self.held_back.load(Ordering::Relaxed)
    }

    /// Which control plane is connected at this moment.
    pub(crate) fn set_control_plane(&self, url: Option<String>) {
        *self
            .control_plane
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = url;
    }

    pub(crate) fn control_plane(&self) -> Option<String> {
        let url = self
            .control_plane
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        url.clone()
    }

    /// A policy came into force; the first one makes the gateway live.
    pub(crate) fn policy_live(&self, now_us: u64) {
        self.applied_at_us.store(now_us, Ordering::Relaxed);
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.became_live.notify_all();
    }

    pub(crate) fn is_live(&self) -> bool {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seconds since the running policy was applied; `None` without one.
    pub(crate) fn policy_age_s(&self, now_us: u64) -> Option<f64> {
        let age_us = now_us.saturating_sub(self.applied_at_us.load(Ordering::Relaxed));
        self.is_live()
            .then(|| Duration::from_micros(age_us).as_secs_f64())
    }

    /// Waits for the first policy; false when the time ran out.
    pub(crate) fn wait_live(&self, longest: Duration) -> bool {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .became_live
            .wait_timeout_while(live, longest, |live| !*live);
        let (live, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *live
    }

    /// What is still missing; empty when ready.
    pub(crate) fn why_not_ready(&self) -> Vec<&'static str> {
        let missing = [
            (!self.is_live(), "no policy is live"),
            (
                !self.bound.load(Ordering::Acquire),
                "listeners are not bound",
            ),
            (self.is_draining(), "draining"),
            (self.is_drained(), "drained by an operator"),
        ];
        missing
            .into_iter()
            .filter_map(|(is_so, what)| is_so.then_some(what))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn ready_needs_all_three() {
        let standing = Standing::default();
        assert_eq!(standing.why_not_ready().len(), 2);
        standing.listeners_bound();
        assert_eq!(standing.why_not_ready(), ["no policy is live"]);
        standing.policy_live(0);
        assert!(standing.why_not_ready().is_empty());
        assert!(standing.set_drained(true) && !standing.set_drained(true));
        assert_eq!(standing.why_not_ready(), ["drained by an operator"]);
        assert!(standing.set_drained(false) && standing.why_not_ready().is_empty());
        standing.begin_drain();
        assert_eq!(standing.why_not_ready(), ["draining"]);
    }

    #[test]
    fn a_waiter_is_woken_by_the_first_policy() {
        let standing = Arc::new(Standing::default());
        assert!(!standing.wait_live(Duration::ZERO));
        let other = Arc::clone(&standing);
        let waiter = std::thread::spawn(move || other.wait_live(Duration::from_secs(60)));
        standing.policy_live(0);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn the_age_of_a_policy_counts_from_the_newest() {
        let standing = Standing::default();
        assert_eq!(standing.policy_age_s(9_000_000), None);
        standing.policy_live(1_000_000);
        standing.policy_live(7_500_000);
        assert_eq!(standing.policy_age_s(9_000_000), Some(1.5));
    }
}
