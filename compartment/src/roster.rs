//! Which compartment has which name.
//!
//! Separate because three levels keep the same rule: a name keeps its compartment over every
//! policy, and one that a policy no longer names stays until nothing is in flight in it, so
//! that a name which returns finds its true count. It must never drop one that may be entered.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Name;

/// How long a compartment that no policy names is kept when it is empty: longer than any
/// request looks at an old policy before it enters, and its counters last over a short absence.
pub const ABSENT_US: u64 = 60_000_000;
/// Most of one kind that are kept although empty and absent.
pub const ABSENT_MAX: usize = 100_000;

/// What a roster keeps.
pub(crate) trait Retire {
    /// Takes it out of use for good, if nothing is in flight in it.
    fn retire(&self) -> bool;
}

#[derive(Debug)]
struct Left<T> {
    item: Arc<T>,
    /// When a sweep saw it first.
    seen_us: Option<u64>,
}

/// The compartments of one kind.
#[derive(Debug)]
pub(crate) struct Roster<T> {
    live: HashMap<Name, Arc<T>>,
    order: Arc<Vec<Arc<T>>>,
    absent: HashMap<Name, Left<T>>,
    /// Out of use for good; whoever owns the roster takes them.
    gone: Vec<Arc<T>>,
}

impl<T: Retire> Roster<T> {
    pub(crate) fn new() -> Self {
        Self {
            live: HashMap::new(),
            order: Arc::default(),
            absent: HashMap::new(),
            gone: Vec::new(),
        }
    }

    /// Makes the roster of a policy: those that have a compartment keep it, the others get one
    /// from `make`, and `leave` is told of those that are no longer named.
    pub(crate) fn name_all<'a>(
        &mut self,
        names: impl Iterator<Item = &'a Name>,
        mut make: impl FnMut(&Name) -> T,
        leave: impl Fn(&T),
    ) -> Arc<Vec<Arc<T>>> {
        let mut live = HashMap::with_capacity(names.size_hint().0);
        let mut order = Vec::with_capacity(names.size_hint().0);
        for name in names {
            let kept = live.get(name).cloned().or_else(|| self.take(name));
            let item = kept.unwrap_or_else(|| Arc::new(make(name)));
            live.insert(name.clone(), Arc::clone(&item));
            order.push(item);
        }
        for (name, item) in std::mem::replace(&mut self.live, live) {
            leave(&item);
            self.absent.insert(
                name,
                Left {
                    item,
                    seen_us: None,
                },
            );
        }
        if self.absent.len() > ABSENT_MAX {
            self.retire(|_| true);
        }
        self.order = Arc::new(order);
        Arc::clone(&self.order)
    }

    fn take(&mut self, name: &Name) -> Option<Arc<T>> {
        self.live
            .remove(name)
            .or_else(|| self.absent.remove(name).map(|left| left.item))
    }

    /// Drops those that have been absent and empty for long.
    pub(crate) fn sweep(&mut self, now_us: u64) {
        self.retire(|left| {
            let seen_us = *left.seen_us.get_or_insert(now_us);
            now_us.saturating_sub(seen_us) >= ABSENT_US
        });
    }

    fn retire(&mut self, is_over: impl Fn(&mut Left<T>) -> bool) {
        let gone = &mut self.gone;
        self.absent.retain(|_, left| {
            let retired = is_over(left) && left.item.retire();
            if retired {
                gone.push(Arc::clone(&left.item));
            }
            !retired
        });
    }

    /// Those that went out of use since the last look.
    pub(crate) fn take_gone(&mut self) -> Vec<Arc<T>> {
        std::mem::take(&mut self.gone)
    }

    /// In the order of the policy, then those that are absent.
    pub(crate) fn all(&self) -> (Arc<Vec<Arc<T>>>, Vec<Arc<T>>) {
        let absent = self
            .absent
            .values()
            .map(|left| Arc::clone(&left.item))
            .collect();
        (Arc::clone(&self.order), absent)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Thing {
        number: u32,
        busy: AtomicBool,
    }

    impl Retire for Thing {
        fn retire(&self) -> bool {
            !self.busy.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_name_keeps_its_thing_as_long_as_it_is_named_or_busy() {
        let names = |text: &str| {
            text.chars()
                .map(|c| Name::new(&c.to_string()).unwrap())
                .collect()
        };
        let mut roster = Roster::new();
        let mut made = 0;
        let mut name_all = |roster: &mut Roster<Thing>, text: &str| {
            let names: Vec<Name> = names(text);
            let make = |_: &Name| {
                made += 1;
                Thing {
                    number: made,
                    busy: AtomicBool::new(false),
                }
            };
            let order = roster.name_all(names.iter(), make, |_| ());
            order.iter().map(|thing| thing.number).collect::<Vec<_>>()
        };
        assert_eq!(name_all(&mut roster, "ab"), [1, 2]);
        assert_eq!(
            name_all(&mut roster, "ba"),
            [2, 1],
            "the order is the policy's"
        );
        assert_eq!(name_all(&mut roster, "b"), [2]);
        roster.sweep(1);
        roster.sweep(ABSENT_US);
        assert_eq!(
            name_all(&mut roster, "ab"),
            [1, 2],
            "found again after a short absence"
        );
        assert_eq!(name_all(&mut roster, "b"), [2]);
        roster.all().1[0].busy.store(true, Ordering::Relaxed);
        roster.sweep(1);
        roster.sweep(10 * ABSENT_US);
        assert_eq!(
            name_all(&mut roster, "ba"),
            [2, 1],
            "found again because it was in use"
        );
        roster.all().0[1].busy.store(false, Ordering::Relaxed);
        assert_eq!(name_all(&mut roster, "b"), [2]);
        roster.sweep(1);
        roster.sweep(1 + ABSENT_US);
        assert_eq!(
            name_all(&mut roster, "ba"),
            [2, 3],
            "a new one after a long one"
        );
    }
}
