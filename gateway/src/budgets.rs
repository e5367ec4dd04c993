//! The retry budgets of this process, and what is counted beside them.
//!
//! Separate because a policy that does not change a route's terms must not give it a new budget,
//! and counts outlast every change. It must never be asked by a request, which has its own handle.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use compartment::policy::{Millionths, Retry};
use compartment::{Name, RetryBudget, RetryCounts, RetryFigures};

use crate::clock::whole_us;

/// Share of recent successes that may be repeated when a policy does not say: all of them. The
/// linter reckons with that, and refuses a policy that cannot bear it.
const SHARE_DEFAULT: Millionths = Millionths(1_000_000);

/// By route.
#[derive(Debug, Default)]
pub(crate) struct Budgets(Mutex<HashMap<Name, Kept>>);

#[derive(Debug)]
struct Kept {
    share: Millionths,
    window_us: u64,
    budget: Arc<RetryBudget>,
    counts: Arc<RetryCounts>,
}

impl Budgets {
    /// The route's budget, a new one only when its terms changed; and its counts.
    pub(crate) fn of(&self, route: &Name, retry: &Retry) -> (Arc<RetryBudget>, Arc<RetryCounts>) {
        let share = retry.budget.unwrap_or(SHARE_DEFAULT);
        let window_us = whole_us(retry.window);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.remove(route);
        let counts = known.as_ref().map(|kept| Arc::clone(&kept.counts));
        let same = known.filter(|kept| kept.share == share && kept.window_us == window_us);
        let kept = same.unwrap_or_else(|| Kept {
            share,
            window_us,
            budget: Arc::new(RetryBudget::new(share, window_us)),
            counts: counts.unwrap_or_default(),
        });
        let both = (Arc::clone(&kept.budget), Arc::clone(&kept.counts));
        all.insert(route.clone(), kept);
        both
    }

    /// What routes that repeat say of it, by their keys.
    pub(crate) fn figures(&self, now_us: u64) -> HashMap<String, RetryFigures> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = |kept: &Kept| kept.counts.figures(kept.budget.left(now_us));
        let all = all.iter();
        all.map(|(route, kept)| (format!("route/{route}"), figures(kept)))
            .collect()
    }

    /// Forgets those of routes that no policy has any more.
    pub(crate) fn sweep(&self) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, kept| Arc::strong_count(&kept.budget) > 1);
    }
}
