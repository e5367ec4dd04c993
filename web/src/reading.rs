//! One compartment over all gateways that report it.
//!
//! Separate from the figures of one process because a sum of limits leaves the range of a limit,
//! and because the state of a compartment is that of its fullest gateway, not of the average. It
//! must never count a gateway that does not report.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use compartment::{Figures, Level, Mode, Rejection};

use crate::lately::Base;
use crate::{Bar, Credit, Lately, Look, State, text};

/// The sums of one compartment.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// The key, as text.
    pub key: String,
    /// The level.
    pub level: Level,
    /// The most urgent state on any gateway.
    pub state: State,
    /// What its limit does; the strictest of any gateway.
    pub mode: Mode,
    /// Sum of the limits; `None` when unlimited.
    pub limit: Option<u64>,
    /// Sum of the limits that are judged beside it; `None` when a gateway has none.
    pub candidate: Option<u64>,
    /// Sum of the guarantees.
    pub reserved: u64,
    /// Permits out.
    pub in_flight: u64,
    /// Sum of the peaks.
    pub peak: u64,
    /// The largest peak of one gateway.
    pub peak_max: u32,
    /// The largest `in_flight` of one gateway.
    pub in_flight_max: u32,
    /// Requests that wait.
    pub queued: u64,
    /// Requests that left while they waited.
    pub left_queue: u64,
    /// Permits out beyond the guarantee.
    pub borrowed: u64,
    /// What it has left to borrow with; `None` where nothing is borrowed, or for nothing.
    pub credit: Option<Credit>,
    /// Requests whose decision was made here.
    pub arrived: u64,
    /// Permits ever given.
    pub admitted: u64,
    /// Permits ever given back.
    pub completed: u64,
    /// Refusals by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// What a limit in shadow would have refused, by reason.
    pub shadow_rejected: BTreeMap<Rejection, u64>,
    /// What the candidate would have refused.
    pub candidate_rejected: u64,
    /// What was counted in the last seconds.
    pub lately: Lately,
    /// Permits that outlived their bound.
    pub leaked: u64,
    /// More is in flight on some gateway than the hold times of ended requests explain.
    pub leak_suspected: bool,
    /// Age of the oldest permit on any gateway.
    pub oldest_permit_ms: u64,
    /// For how long the gateway that counts longest has done so.
    pub counted_ms: u64,
    /// How much of its time each gateway spent at the limit, added up, and all of their time.
    pub saturated_of_us: (u64, u64),
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
            state: state_of(figures, lately),
            mode: figures.mode,
            limit: figures.limit.slots().map(u64::from),
            candidate: figures.candidate.map(u64::from),
            reserved: figures.reserved.into(),
            in_flight: figures.in_flight.into(),
            peak: figures.peak.into(),
            peak_max: figures.peak,
            in_flight_max: figures.in_flight,
            queued: figures.queued.into(),
            left_queue: figures.left_queue,
            borrowed: figures.borrowed.into(),
            credit: Credit::of(figures),
            arrived: figures.arrived,
            admitted: figures.admitted,
            completed: figures.completed,
            rejected: figures.rejected.clone(),
            shadow_rejected: figures.shadow_rejected.clone(),
            candidate_rejected: figures.candidate_rejected,
            lately,
            leaked: figures.leaked,
            leak_suspected: figures.leak_suspected,
            oldest_permit_ms: figures.oldest_permit_ms,
            counted_ms: counted_us(figures) / 1_000,
            saturated_of_us: (figures.saturated_us, counted_us(figures)),
            gateways: 1,
            in_this_state: 1,
        }
    }

    /// Adds the figures of another gateway.
    pub fn add(&mut self, figures: &Figures, lately: Lately) {
        let limit = figures.limit.slots().map(u64::from);
        let state = state_of(figures, lately);
        match state.cmp(&self.state) {
            Ordering::Less => {}
            Ordering::Equal => self.in_this_state = self.in_this_state.saturating_add(1),
            Ordering::Greater => (self.state, self.in_this_state) = (state, 1),
        }
        self.mode = stricter(self.mode, figures.mode);
        self.limit = self.limit.zip(limit).map(|(a, b)| a.saturating_add(b));
        let candidate = figures.candidate.map(u64::from);
        self.candidate = self
            .candidate
            .zip(candidate)
            .map(|(a, b)| a.saturating_add(b));
        self.credit = match (self.credit, Credit::of(figures)) {
            (Some(credit), Some(more)) => Some(credit.with(more)),
            (credit, more) => credit.or(more),
        };
        self.leak_suspected |= figures.leak_suspected;
        self.counted_ms = self.counted_ms.max(counted_us(figures) / 1_000);
        self.peak_max = self.peak_max.max(figures.peak);
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
            (&mut self.completed, figures.completed),
            (&mut self.candidate_rejected, figures.candidate_rejected),
            (&mut self.leaked, figures.leaked),
            (&mut self.lately.admitted, lately.admitted),
            (&mut self.lately.rejected, lately.rejected),
            (&mut self.lately.ceiling, lately.ceiling),
            (&mut self.saturated_of_us.0, figures.saturated_us),
            (&mut self.saturated_of_us.1, counted_us(figures)),
        ] {
            *sum = sum.saturating_add(more);
        }
        for (sums, more) in [
            (&mut self.rejected, &figures.rejected),
            (&mut self.shadow_rejected, &figures.shadow_rejected),
        ] {
            for (reason, more) in more {
                let sum = sums.entry(*reason).or_default();
                *sum = sum.saturating_add(*more);
            }
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

    /// One reading for each key whose figures are wanted, in the order of the keys.
    pub fn sum_where<'a>(
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
        text::sum(&self.rejected)
    }

    /// All refusals that a limit in shadow would have made.
    pub fn shadow_all(&self) -> u64 {
        text::sum(&self.shadow_rejected)
    }

    /// What the limit in shadow, or the candidate, would have refused.
    pub fn would_refuse(&self) -> u64 {
        match self.mode {
            Mode::Shadow => self.shadow_all(),
            Mode::Off | Mode::Enforce => self.candidate_rejected,
        }
    }

    /// What the ceiling itself refused.
    pub fn ceiling(&self) -> u64 {
        let full = self.rejected.get(&Rejection::GatewayFull).copied();
        full.unwrap_or(0)
    }

    /// True when somebody watches what another limit would do.
    pub fn is_watched(&self) -> bool {
        self.level == Level::Route && (self.mode == Mode::Shadow || self.candidate.is_some())
    }

    /// In flight beyond the limit: what was admitted before it was lowered.
    pub fn over(&self) -> u64 {
        match (self.mode, self.limit) {
            (Mode::Enforce, Some(limit)) => self.in_flight.saturating_sub(limit),
            _ => 0,
        }
    }

    /// How much of its time it stood at its limit; empty while nobody measured.
    pub fn saturated(&self) -> String {
        match self.saturated_of_us {
            (_, 0) => String::new(),
            (part, whole) => text::percent(part, whole),
        }
    }

    /// What is wrong with the count of permits; empty while nothing is.
    pub fn leak(&self) -> String {
        if self.leaked > 0 {
            let permits = text::plural(self.leaked, "permit", "permits");
            return format!("{permits} outlived their bound and were taken back.");
        }
        if self.leak_suspected {
            return "More is in flight than the hold times of ended requests explain.".to_owned();
        }
        let back = self.completed.saturating_add(self.in_flight);
        if self.admitted != back {
            return format!(
                "{} admitted, but {} ended or in flight.",
                text::count(self.admitted),
                text::count(back)
            );
        }
        String::new()
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

/// What was refused before a limit was put in shadow is no problem of now.
fn state_of(figures: &Figures, lately: Lately) -> State {
    let refused = match figures.mode {
        Mode::Enforce => lately.rejected,
        Mode::Shadow | Mode::Off => 0,
    };
    State::of(figures).after(refused)
}

/// Since the compartment was made, on one gateway.
const fn counted_us(figures: &Figures) -> u64 {
    figures
        .idle_us
        .saturating_add(figures.busy_us)
        .saturating_add(figures.saturated_us)
}

/// While a change travels, what refuses somewhere is what an operator has to know.
const fn stricter(one: Mode, other: Mode) -> Mode {
    match (one, other) {
        (Mode::Enforce, _) | (_, Mode::Enforce) => Mode::Enforce,
        (Mode::Shadow, _) | (_, Mode::Shadow) => Mode::Shadow,
        (Mode::Off, Mode::Off) => Mode::Off,
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
    fn what_is_watched_and_what_is_lost_adds_up_over_gateways() {
        let mut one = figures("route/a", Level::Route, 12, 12, 10);
        one.mode = Mode::Shadow;
        one.shadow_rejected = [(Rejection::RouteFull, 3)].into();
        (one.busy_us, one.saturated_us) = (3_000_000, 1_000_000);
        let mut two = Figures {
            idle_us: 4_000_000,
            ..one.clone()
        };
        two.shadow_rejected = [(Rejection::RouteFull, 1), (Rejection::TenantShare, 2)].into();
        let look = |list: &[Figures]| {
            let looks = list.chunks(1).map(|now| Look { now, earlier: None });
            Reading::sum(looks).pop().unwrap()
        };
        let both = look(&[one.clone(), two.clone()]);
        assert_eq!(
            (both.mode, both.shadow_all(), both.would_refuse()),
            (Mode::Shadow, 6, 6)
        );
        assert_eq!(
            (both.over(), both.is_watched(), both.counted_ms),
            (0, true, 8_000)
        );
        assert_eq!(both.saturated(), "17\u{a0}%");
        assert_eq!(both.leak(), "");
        two.mode = Mode::Enforce;
        (two.candidate, two.candidate_rejected) = (Some(5), 9);
        two.completed -= 1;
        let mixed = look(&[one, two.clone()]);
        assert_eq!(
            (mixed.mode, mixed.candidate, mixed.over()),
            (Mode::Enforce, None, 4)
        );
        assert!(
            mixed.leak().contains("816 admitted, but 815"),
            "{}",
            mixed.leak()
        );
        assert_eq!(
            (look(&[two.clone()]).would_refuse(), look(&[two]).candidate),
            (9, Some(5))
        );
    }

    #[test]
    fn what_was_refused_before_a_limit_was_in_shadow_is_no_problem_of_now() {
        let mut one = figures("route/a", Level::Route, 1, 4, 10);
        one.rejected = [(Rejection::RouteFull, 3)].into();
        let state = |mode| {
            let now = [Figures {
                mode,
                ..one.clone()
            }];
            let look = Look {
                now: &now,
                earlier: Some(&[]),
            };
            Reading::sum([look]).pop().unwrap().state
        };
        assert_eq!(state(Mode::Enforce), State::Rejecting);
        assert_eq!(state(Mode::Shadow), State::Busy);
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
