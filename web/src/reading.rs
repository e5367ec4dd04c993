//! One compartment over all gateways that report it.
//!
//! Separate from the figures of one process because a sum of limits leaves the range of a limit,
//! and because the state of a compartment is that of its fullest gateway, not of the average. It
//! must never count a gateway that does not report.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use compartment::{Figures, Level, Rejection};

use crate::lately::Base;
use crate::{Bar, Lately, Look, State, text};

/// The sums of one compartment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The key, as text.
    pub key: String,
    /// The level.
    pub level: Level,
    /// The most urgent state on any gateway.
    pub state: State,
    /// Sum of the limits; `None` when unlimited.
    pub limit: Option<u64>,
    /// Sum of the guarantees.
    pub reserved: u64,
    /// Permits out.
    pub in_flight: u64,
    /// Sum of the peaks.
    pub peak: u64,
    /// The largest `in_flight` of one gateway.
    pub in_flight_max: u32,
    /// Requests that wait.
    pub queued: u64,
    /// Requests that left while they waited.
    pub left_queue: u64,
    /// Permits out beyond the guarantee.
    pub borrowed: u64,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Permits ever given.
    pub admitted: u64,
    /// Refusals by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// What was counted in the last seconds.
    pub lately: Lately,
    /// Permits that outlived their bound.
    pub leaked: u64,
    /// Age of the oldest permit on any gateway.
    pub oldest_permit_ms: u64,
    /// Gateways in these sums.
    pub gateways: u32,
    /// Those of them that are in this state.
    pub in_this_state: u32,
}

impl Reading {
    /// What the figures of one gateway say.
    pub fn new(figures: &Figures, lately: Lately) -> Self {
        Self {
            key: figures.key.clone(),
            level: figures.level,
            state: State::of(figures).after(lately.rejected),
            limit: figures.limit.slots().map(u64::from),
            reserved: figures.reserved.into(),
            in_flight: figures.in_flight.into(),
            peak: figures.peak.into(),
            in_flight_max: figures.in_flight,
            queued: figures.queued.into(),
            left_queue: figures.left_queue,
            borrowed: figures.borrowed.into(),
            arrived: figures.arrived,
            admitted: figures.admitted,
            rejected: figures.rejected.clone(),
            lately,
            leaked: figures.leaked,
            oldest_permit_ms: figures.oldest_permit_ms,
            gateways: 1,
            in_this_state: 1,
        }
    }

    /// Adds the figures of another gateway.
    pub fn add(&mut self, figures: &Figures, lately: Lately) {
        let limit = figures.limit.slots().map(u64::from);
        let state = State::of(figures).after(lately.rejected);
        match state.cmp(&self.state) {
            Ordering::Less => {}
            Ordering::Equal => self.in_this_state = self.in_this_state.saturating_add(1),
            Ordering::Greater => (self.state, self.in_this_state) = (state, 1),
        }
        self.limit = self.limit.zip(limit).map(|(a, b)| a.saturating_add(b));
        self.in_flight_max = self.in_flight_max.max(figures.in_flight);
        self.oldest_permit_ms = self.oldest_permit_ms.max(figures.oldest_permit_ms);
        for (sum, more) in [
            (&mut self.reserved, figures.reserved),
            (&mut self.in_flight, figures.in_flight),
            (&mut self.peak, figures.peak),
            (&mut self.queued, figures.queued),
            (&mut self.borrowed, figures.borrowed),
        ] {
            *sum = sum.saturating_add(more.into());
        }
        for (sum, more) in [
            (&mut self.left_queue, figures.left_queue),
            (&mut self.arrived, figures.arrived),
            (&mut self.admitted, figures.admitted),
            (&mut self.leaked, figures.leaked),
            (&mut self.lately.admitted, lately.admitted),
            (&mut self.lately.rejected, lately.rejected),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (reason, more) in &figures.rejected {
            let sum = self.rejected.entry(*reason).or_default();
            *sum = sum.saturating_add(*more);
        }
        self.gateways = self.gateways.saturating_add(1);
    }

    /// One reading for each key, in the order of the keys.
    pub fn sum<'a>(looks: impl IntoIterator<Item = Look<'a>>) -> Vec<Self> {
        Self::sum_where(looks, |_| true)
    }

    /// The reading of one key.
    pub fn of_key<'a>(key: &str, looks: impl IntoIterator<Item = Look<'a>>) -> Option<Self> {
        Self::sum_where(looks, |figures| figures.key == key).pop()
    }

    fn sum_where<'a>(
        looks: impl IntoIterator<Item = Look<'a>>,
        wanted: impl Fn(&Figures) -> bool,
    ) -> Vec<Self> {
        let mut sums: BTreeMap<&str, Self> = BTreeMap::new();
        for look in looks {
            let base = Base::of(look.earlier);
            for one in look.now.iter().filter(|figures| wanted(figures)) {
                let lately = base.since(one);
                sums.entry(&one.key)
                    .and_modify(|sum| sum.add(one, lately))
                    .or_insert_with(|| Self::new(one, lately));
            }
        }
        sums.into_values().collect()
    }

    /// All refusals.
    pub fn rejected_all(&self) -> u64 {
        self.rejected
            .values()
            .fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// `on 1 of 3` when a problem is not everywhere; else empty.
    pub fn where_it_is(&self) -> String {
        if self.state.is_problem() && self.in_this_state < self.gateways {
            format!("on {} of {}", self.in_this_state, self.gateways)
        } else {
            String::new()
        }
    }

    /// In flight of the limit, in percent; empty when there is nothing to measure against.
    pub fn saturation(&self) -> String {
        match self.limit {
            Some(limit) if limit > 0 => text::percent(self.in_flight, limit),
            _ => String::new(),
        }
    }

    /// The limit as a person reads it.
    pub fn limit_text(&self) -> String {
        self.limit
            .map_or_else(|| "unlimited".to_owned(), text::count)
    }

    /// The bar of this compartment.
    pub fn bar(&self) -> Option<Bar> {
        Bar::new(self.in_flight, self.peak, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use compartment::Limit;

    use super::*;
    use crate::samples::figures;

    #[test]
    fn the_state_is_that_of_the_fullest_gateway() {
        let full = figures("route/a", Level::Route, 10, 10, 10);
        let idle = figures("route/a", Level::Route, 0, 4, 10);
        let other = figures("route/b", Level::Route, 1, 1, 10);
        let (one, two) = ([idle, other], [full]);
        let sums = Reading::sum([&one[..], &two[..]].map(|now| Look { now, earlier: None }));
        let [a, b] = sums.as_slice() else {
            panic!("{sums:?}")
        };
        assert_eq!(
            (a.state, a.in_flight, a.peak, a.limit),
            (State::Full, 10, 14, Some(20))
        );
        assert_eq!((a.gateways, a.in_flight_max), (2, 10));
        assert_eq!(
            (a.where_it_is().as_str(), b.where_it_is().as_str()),
            ("on 1 of 2", "")
        );
        assert_eq!(
            (b.key.as_str(), b.gateways, b.state),
            ("route/b", 1, State::Busy)
        );
    }

    #[test]
    fn unlimited_anywhere_is_unlimited_in_sum() {
        let finite = figures("gateway", Level::Gateway, 1, 1, 10);
        let unlimited = Figures {
            limit: Limit::UNLIMITED,
            ..finite.clone()
        };
        let (one, two) = ([finite], [unlimited]);
        let sums = Reading::sum([&one, &two].map(|now| Look { now, earlier: None }));
        assert_eq!(sums.first().unwrap().limit, None);
    }
}
