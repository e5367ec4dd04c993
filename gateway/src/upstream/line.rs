//! Those who wait for room on the HTTP/2 connections of one route to one endpoint.
//!
//! Separate because a waiter may leave at any moment, also in the instant of its turn: its place
//! goes with it, and its turn to the next. It must never wake more than one for one stream, nor
//! keep the waker of anybody who has left.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::Unreached;

/// First come, first served. No longer than there are permits out: each place is a request's.
#[derive(Debug, Default)]
pub(crate) struct Line {
    places: RefCell<BTreeMap<u64, Place>>,
    came: Cell<u64>,
}

#[derive(Debug, Default)]
struct Place {
    /// `None`: it has been woken and has not looked since.
    waker: Option<Waker>,
    /// Nobody was reached, and it waited for that.
    told: Option<Unreached>,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.borrow().is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.places.borrow().len()
    }

    /// It is the first one's turn: of those who have not been woken yet.
    pub(crate) fn wake_one(&self) {
        let mut places = self.places.borrow_mut();
        let waker = places.values_mut().find_map(|place| place.waker.take());
        drop(places);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// All who wait now are told that nobody was reached.
    pub(crate) fn tell_all(&self, why: Unreached) {
        let mut places = self.places.borrow_mut();
        let all = places.values_mut().filter_map(|place| {
            place.told = Some(why);
            place.waker.take()
        });
        let wakers: Vec<Waker> = all.collect();
        drop(places);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// One waiter, who has a place once there is something to wait for.
#[derive(Debug)]
pub(crate) struct InLine {
    line: Rc<Line>,
    number: Option<u64>,
}

impl InLine {
    pub(crate) fn new(line: &Rc<Line>) -> Self {
        Self {
            line: Rc::clone(line),
            number: None,
        }
    }

    /// It waits already.
    pub(crate) const fn waits(&self) -> bool {
        self.number.is_some()
    }

    /// Takes a place, or keeps its own, and is woken when it is its turn.
    pub(crate) fn wait(&mut self, cx: &Context<'_>) {
        let number = *self.number.get_or_insert_with(|| {
            let number = self.line.came.get();
            self.line.came.set(number.saturating_add(1));
            number
        });
        let mut places = self.line.places.borrow_mut();
        let kept = &mut places.entry(number).or_default().waker;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(cx.waker())) {
            *kept = Some(cx.waker().clone());
        }
    }

    /// Why it need not wait any longer.
    pub(crate) fn told(&self) -> Option<Unreached> {
        let places = self.line.places.borrow();
        places.get(&self.number?).and_then(|place| place.told)
    }

    /// It has what it waited for.
    pub(crate) fn served(&mut self) {
        if let Some(number) = self.number.take() {
            self.line.places.borrow_mut().remove(&number);
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let place = self.line.places.borrow_mut().remove(&number);
        // It leaves in the instant of its turn: the turn is the next one's.
        if place.is_some_and(|place| place.waker.is_none()) {
            self.line.wake_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Waiter {
        place: InLine,
        count: Arc<Count>,
    }

    impl Waiter {
        fn join(line: &Rc<Line>) -> Self {
            let mut new = Self {
                place: InLine::new(line),
                count: Arc::default(),
            };
            new.wait();
            new
        }

        fn wait(&mut self) {
            let waker = Waker::from(Arc::clone(&self.count));
            self.place.wait(&Context::from_waker(&waker));
        }

        fn woken(&self) -> usize {
            self.count.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn one_stream_wakes_one_and_the_first_comes_first() {
        let line = Rc::<Line>::default();
        let mut all: Vec<Waiter> = (0..100).map(|_| Waiter::join(&line)).collect();
        line.wake_one();
        line.wake_one();
        let woken = |all: &[Waiter]| all.iter().map(Waiter::woken).collect::<Vec<_>>();
        assert_eq!(woken(&all)[..3], [1, 1, 0]);
        assert_eq!(woken(&all).iter().sum::<usize>(), 2);
        // The first one looked in vain: it keeps its place.
        all[0].wait();
        line.wake_one();
        assert_eq!(woken(&all)[..3], [2, 1, 0]);
        all[0].place.served();
        assert_eq!(line.len(), 99);
    }

    #[test]
    fn whoever_leaves_takes_its_waker_along_and_passes_its_turn_on() {
        let line = Rc::<Line>::default();
        let mut all: Vec<Waiter> = (0..3).map(|_| Waiter::join(&line)).collect();
        let last = all.pop().unwrap();
        let count = Arc::clone(&last.count);
        drop(last);
        assert_eq!((line.len(), Arc::strong_count(&count)), (2, 1));
        line.wake_one();
        drop(all.remove(0));
        assert_eq!((all[0].woken(), line.len()), (1, 1));
        // Looking again and again keeps one waker.
        for _ in 0..1_000 {
            all[0].wait();
        }
        assert_eq!(Arc::strong_count(&all[0].count), 2);
        drop(all);
        assert!(line.is_empty());
    }

    #[test]
    fn a_failure_is_told_to_all_who_waited_and_to_nobody_else() {
        let line = Rc::<Line>::default();
        let all: Vec<Waiter> = (0..5).map(|_| Waiter::join(&line)).collect();
        line.tell_all(Unreached::Timeout);
        let late = Waiter::join(&line);
        let told = all.iter().map(|waiter| waiter.place.told());
        assert!(
            told.into_iter()
                .all(|told| told == Some(Unreached::Timeout))
        );
        assert!(all.iter().all(|waiter| waiter.woken() == 1));
        assert_eq!((late.place.told(), late.woken()), (None, 0));
    }
}
