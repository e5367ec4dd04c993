//! Keeps a connection from waking the task that is driving it at this moment.
//!
//! Separate because hyper's halves talk to each other by wakers, and here both are polled by one
//! task: each word between them would have that task polled once more, in vain. It must never lose
//! a wake-up that comes while nobody is polling.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The waker that a connection is polled with.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The task that uses the connection.
    task: Mutex<Option<Waker>>,
    closed: AtomicBool,
    knocked: AtomicBool,
}

impl Gate {
    /// Wake-ups go to this task from now on.
    pub(crate) fn lead_to(&self, task: &Waker) {
        let mut kept = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(task)) {
            *kept = Some(task.clone());
        }
    }

    /// Until it is opened, wake-ups are only noted.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// True when somebody wanted to wake the task meanwhile.
    pub(crate) fn open(&self) -> bool {
        self.closed.store(false, Ordering::Relaxed);
        self.knocked.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // One thread drives the connection, so nobody else is between the two.
        if self.closed.load(Ordering::Relaxed) {
            self.knocked.store(true, Ordering::Relaxed);
            return;
        }
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn wake_ups_pass_an_open_gate_and_are_noted_at_a_closed_one() {
        let (gate, count) = (Arc::<Gate>::default(), Arc::<Count>::default());
        let waker = Waker::from(Arc::clone(&gate));
        gate.lead_to(&Waker::from(Arc::clone(&count)));
        waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        gate.close();
        waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(gate.open() && !gate.open());
        waker.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
