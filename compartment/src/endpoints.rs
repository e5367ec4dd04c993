//! What gateways know of the endpoints of one upstream.
//!
//! Separate from the figures of a compartment because an endpoint holds no slot: it is where those
//! who hold one go. It must never hold a path or a credential.

use std::sync::Arc;

use serde::{Serialize, Serializer};

/// After so many failures in a row an endpoint is ejected.
pub const ENDPOINT_FAILURES_MAX: u32 = 5;
/// Most endpoints of one upstream that are told by themselves: all of a policy, and as many that
/// drain.
pub const ENDPOINTS_TOLD_MAX: usize = 128;

/// How one endpoint stands; the later, the worse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// Requests go there.
    #[default]
    InUse,
    /// The policy does not name it any more, and not all of its exchanges are over.
    Draining,
    /// It failed too often in a row.
    Ejected,
    /// Its checks say that it is not well.
    Unhealthy,
}

/// How its last check ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct EndpointCheck {
    /// How long ago.
    pub age_ms: u64,
    /// `None`: well.
    pub error: Option<String>,
}

/// What its name led to when it was last dialled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct EndpointName {
    /// Some of them.
    pub addresses: Vec<String>,
    /// How long ago its name server said so.
    pub age_ms: u64,
    /// The last question was not answered: these are the last good ones.
    pub error: Option<String>,
}

/// Of several gateways: whose words these are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct EndpointSeen {
    /// How many tell of it.
    pub gateways: u32,
    /// On how many it is out.
    pub out: u32,
    /// The one that thinks worst of it.
    #[serde(serialize_with = "text")]
    #[cfg_attr(feature = "describe", schema(value_type = String))]
    pub worst: Arc<str>,
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// One endpoint. Counts start with the process and never go down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct EndpointFigures {
    /// Scheme, host and port.
    pub url: String,
    /// How it stands.
    pub state: EndpointState,
    /// Exchanges there. Here as below `None`: the only one, of which nothing is counted that a
    /// choice would need.
    pub in_flight: Option<u32>,
    /// Moving average of the time to a head.
    pub latency_us: Option<u64>,
    /// Failures since its last own answer.
    pub failures_in_a_row: u32,
    /// Of all time.
    pub failures: u64,
    /// Since its last own answer.
    pub ejections_in_a_row: Option<u32>,
    /// 0: it is not ejected.
    pub ejected_for_ms: Option<u64>,
    /// `None`: it is not checked, or was not yet.
    pub check: Option<EndpointCheck>,
    /// `None`: an address, or a name that was not looked up yet.
    pub name: Option<EndpointName>,
    /// `None`: the gateway's own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<EndpointSeen>,
}

/// The endpoints of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct EndpointsFigures {
    /// Of the policy.
    pub in_use: u32,
    /// Of the policy.
    pub ejected: u32,
    /// Of the policy.
    pub unhealthy: u32,
    /// No more of the policy.
    pub draining: u32,
    /// More than half would be out: requests go to all of them. Of several gateways, on any.
    pub all_used: bool,
    /// In the order of the policy, those that drain last. Where there is no room for all, those
    /// that are out or in doubt. Absent where only the numbers are told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<EndpointFigures>,
}

impl EndpointState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::InUse, Self::Draining, Self::Ejected, Self::Unhealthy];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::Draining => "draining",
            Self::Ejected => "ejected",
            Self::Unhealthy => "unhealthy",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Others are chosen while they can be.
    pub const fn is_out(self) -> bool {
        match self {
            Self::InUse | Self::Draining => false,
            Self::Ejected | Self::Unhealthy => true,
        }
    }
}

impl EndpointFigures {
    /// There is something to say of it.
    pub fn is_told_first(&self) -> bool {
        let checked = self.check.as_ref().is_some_and(|last| last.error.is_some());
        let named = self.name.as_ref().is_some_and(|last| last.error.is_some());
        self.state != EndpointState::InUse || checked || named
    }

    fn is_worse_than(&self, other: &Self) -> bool {
        let rank = |one: &Self| (one.state, one.ejected_for_ms, one.failures_in_a_row);
        rank(self) > rank(other)
    }

    /// Adds what another gateway says of the same endpoint.
    fn add(&mut self, more: &Self) {
        if more.is_worse_than(self) {
            self.state = more.state;
            if let (Some(seen), Some(more)) = (&mut self.seen, &more.seen) {
                seen.worst = Arc::clone(&more.worst);
            }
        }
        if let (Some(seen), Some(more)) = (&mut self.seen, &more.seen) {
            seen.gateways = seen.gateways.saturating_add(more.gateways);
            seen.out = seen.out.saturating_add(more.out);
        }
        self.in_flight = either(self.in_flight, more.in_flight, u32::saturating_add);
        self.latency_us = either(self.latency_us, more.latency_us, u64::max);
        self.failures_in_a_row = self.failures_in_a_row.max(more.failures_in_a_row);
        self.failures = self.failures.saturating_add(more.failures);
        let (own, other) = (self.ejections_in_a_row, more.ejections_in_a_row);
        self.ejections_in_a_row = either(own, other, u32::max);
        let (own, other) = (self.ejected_for_ms, more.ejected_for_ms);
        self.ejected_for_ms = either(own, other, u64::max);
        // One that failed is told before one that did not, then the youngest check and the oldest
        // look-up.
        let check = |one: &EndpointCheck| (one.error.is_none(), one.age_ms);
        let name = |one: &EndpointName| (one.error.is_none(), u64::MAX - one.age_ms);
        first(&mut self.check, more.check.as_ref(), check);
        first(&mut self.name, more.name.as_ref(), name);
    }
}

fn either<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, other) => one.or(other),
    }
}

fn first<T: Clone>(own: &mut Option<T>, more: Option<&T>, rank: impl Fn(&T) -> (bool, u64)) {
    let is_before = match (own.as_ref(), more) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(own), Some(more)) => rank(more) < rank(own),
    };
    if is_before {
        *own = more.cloned();
    }
}

impl EndpointsFigures {
    /// From the endpoints themselves.
    pub fn of(list: Vec<EndpointFigures>) -> Self {
        let mut own = Self {
            list,
            ..Self::default()
        };
        own.count();
        own.all_used = own.out() > own.of_policy() / 2;
        own
    }

    fn count(&mut self) {
        let of = |state| {
            let all = self.list.iter().filter(|one| one.state == state).count();
            u32::try_from(all).unwrap_or(u32::MAX)
        };
        self.in_use = of(EndpointState::InUse);
        self.draining = of(EndpointState::Draining);
        self.ejected = of(EndpointState::Ejected);
        self.unhealthy = of(EndpointState::Unhealthy);
    }

    /// How many are out.
    pub const fn out(&self) -> u32 {
        self.ejected.saturating_add(self.unhealthy)
    }

    /// How many the policy names.
    pub const fn of_policy(&self) -> u32 {
        self.in_use.saturating_add(self.out())
    }

    /// Not every endpoint is in the list.
    pub fn left_out(&self) -> u32 {
        let told = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        let all = self.of_policy().saturating_add(self.draining);
        all.saturating_sub(told)
    }

    /// Says whose words these are, before they are added to those of others.
    pub fn seen_by(&mut self, gateway: &Arc<str>) {
        for one in &mut self.list {
            one.seen = Some(EndpointSeen {
                gateways: 1,
                out: u32::from(one.state.is_out()),
                worst: Arc::clone(gateway),
            });
        }
    }

    /// Keeps at most `room` of the list, those that are told first before others.
    pub fn shorten(&mut self, room: usize) {
        if self.list.len() > room {
            self.list.retain(EndpointFigures::is_told_first);
            self.list.truncate(room);
        }
    }

    /// Adds what another gateway says. An endpoint then stands as where it stands worst.
    pub fn add(&mut self, more: &Self) {
        let is_whole = self.left_out() == 0 && more.left_out() == 0;
        let before = self.clone_counts();
        for (place, one) in more.list.iter().enumerate() {
            // Mostly all gateways tell the same ones in the same order.
            let same = self.list.get(place).is_some_and(|own| own.url == one.url);
            let found = match same {
                true => Some(place),
                false => self.list.iter().position(|own| own.url == one.url),
            };
            let is_full = self.list.len() >= ENDPOINTS_TOLD_MAX;
            match found.and_then(|place| self.list.get_mut(place)) {
                Some(own) => own.add(one),
                None if is_full => {}
                None => self.list.push(one.clone()),
            }
        }
        self.count();
        if !is_whole {
            // Who is not in the list is in no trouble: at least so many are.
            let all = before.of_policy().max(more.of_policy());
            self.ejected = self.ejected.max(before.ejected).max(more.ejected);
            self.unhealthy = self.unhealthy.max(before.unhealthy).max(more.unhealthy);
            self.draining = self.draining.max(before.draining).max(more.draining);
            self.in_use = all.saturating_sub(self.out());
        }
        self.all_used |= more.all_used;
    }

    fn clone_counts(&self) -> Self {
        Self {
            list: Vec::new(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(url: &str, state: EndpointState) -> EndpointFigures {
        EndpointFigures {
            url: url.to_owned(),
            state,
            in_flight: Some(2),
            failures: 1,
            ejected_for_ms: Some(if state.is_out() { 9_000 } else { 0 }),
            ..EndpointFigures::default()
        }
    }

    fn told(gateway: &str, states: &[(&str, EndpointState)]) -> EndpointsFigures {
        let list = states.iter().map(|(url, state)| one(url, *state)).collect();
        let mut told = EndpointsFigures::of(list);
        told.seen_by(&gateway.into());
        told
    }

    #[test]
    fn an_endpoint_stands_as_where_it_stands_worst() {
        use EndpointState::{Draining, Ejected, InUse, Unhealthy};
        let mut sum = told("g1", &[("a", InUse), ("b", InUse), ("c", InUse)]);
        // Another order, one that the first does not know, and one that is missing.
        sum.add(&told(
            "g2",
            &[("b", Ejected), ("a", InUse), ("d", Draining)],
        ));
        sum.add(&told("g3", &[("a", InUse), ("b", Unhealthy), ("c", InUse)]));
        assert_eq!(
            (sum.in_use, sum.ejected, sum.unhealthy, sum.draining),
            (2, 0, 1, 1)
        );
        let b = sum.list.iter().find(|one| one.url == "b").unwrap();
        let seen = EndpointSeen {
            gateways: 3,
            out: 2,
            worst: "g3".into(),
        };
        assert_eq!((b.state, b.seen.as_ref()), (Unhealthy, Some(&seen)));
        assert_eq!((b.in_flight, b.failures), (Some(6), 3));
        assert_eq!((sum.left_out(), sum.of_policy()), (0, 3));
        assert!(!sum.all_used);
    }

    #[test]
    fn what_found_no_room_is_counted_and_in_no_trouble() {
        use EndpointState::{Ejected, InUse};
        let all: Vec<String> = (0..64).map(|n| format!("u{n:02}")).collect();
        let of = |out: usize| {
            let state = |n| if n < out { Ejected } else { InUse };
            let all = all.iter().enumerate();
            let states: Vec<_> = all.map(|(n, url)| (url.as_str(), state(n))).collect();
            told("g", &states)
        };
        let (mut cut, whole) = (of(3), of(1));
        cut.shorten(63);
        assert_eq!((cut.list.len(), cut.left_out(), cut.out()), (3, 61, 3));
        let mut sum = cut.clone();
        sum.add(&whole);
        assert_eq!((sum.out(), sum.of_policy()), (3, 64));
        cut.shorten(2);
        assert_eq!((cut.list.len(), cut.out()), (2, 3));
        cut.add(&cut.clone());
        assert_eq!((cut.out(), cut.of_policy()), (3, 64));
    }

    #[test]
    fn sums_have_a_bound_however_many_names_gateways_tell() {
        let mut sum = EndpointsFigures::default();
        for n in 0..10_u32 {
            let all: Vec<String> = (0..64).map(|m| format!("{n}-{m}")).collect();
            let states: Vec<_> = all
                .iter()
                .map(|url| (url.as_str(), EndpointState::Draining))
                .collect();
            sum.add(&told("g", &states));
        }
        assert_eq!(sum.list.len(), ENDPOINTS_TOLD_MAX);
    }

    #[test]
    fn more_than_half_out_means_that_all_are_used() {
        use EndpointState::{Ejected, InUse, Unhealthy};
        for (states, all_used) in [
            (&[InUse][..], false),
            (&[Unhealthy], true),
            (&[InUse, Ejected], false),
            (&[InUse, Ejected, Ejected], true),
        ] {
            let all: Vec<_> = ["a", "b", "c"].into_iter().zip(states.to_vec()).collect();
            let mut told = told("g", &all);
            assert_eq!(told.all_used, all_used);
            // One that is out on one gateway, another on another: on neither more than half.
            told.add(&self::told(
                "h",
                &[("a", InUse), ("b", InUse), ("c", InUse)],
            ));
            assert_eq!(told.all_used, all_used);
        }
    }

    #[test]
    fn a_failure_is_told_before_a_success() {
        let mut own = one("a", EndpointState::InUse);
        own.check = Some(EndpointCheck {
            age_ms: 5,
            error: None,
        });
        let mut more = own.clone();
        let failed = EndpointCheck {
            age_ms: 900,
            error: Some("status 500".to_owned()),
        };
        more.check = Some(failed.clone());
        assert!(more.is_told_first() && !own.is_told_first());
        own.add(&more);
        assert_eq!(own.check, Some(failed));
    }
}
