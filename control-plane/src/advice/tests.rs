//! Advice against what the traffic truly needs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use compartment::{Class, Histogram, Limit};

use super::*;

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;

/// A stream of numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In (0, 1].
    fn unit(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).unwrap();
        (f64::from(bits) + 1.0) / 4_294_967_296.0
    }

    /// Exponential with this mean.
    fn wait_us(&mut self, mean_us: f64) -> u64 {
        whole_us(-self.unit().ln() * mean_us)
    }
}

fn whole_us(us: f64) -> u64 {
    format!("{:.0}", us.clamp(1.0, 6e7)).parse().unwrap()
}

#[derive(Clone, Copy)]
enum Law {
    /// Poisson arrivals, exponential holds.
    Plain,
    /// Poisson arrivals, log-normal holds with a long tail.
    LongTailed,
    /// Twice the rate for 20 s, nothing near it for 5 s.
    OnOff,
}

/// Arrivals: when, and how long each holds its slot. On average 100/s and 100 ms: ten slots.
fn trace(law: Law, minutes: u64, seed: u64) -> Vec<(u64, u64)> {
    let mut dice = Dice(seed);
    let (mut at_us, mut arrivals) = (0, Vec::new());
    while at_us < minutes * MINUTE_US {
        let on = at_us / SECOND_US % 25 < 5;
        let gap_us = match law {
            Law::Plain | Law::LongTailed => 10_000.0,
            Law::OnOff if on => 3_333.0,
            Law::OnOff => 20_000.0,
        };
        at_us += dice.wait_us(gap_us);
        let hold_us = match law {
            Law::Plain | Law::OnOff => dice.wait_us(100_000.0),
            Law::LongTailed => {
                // Log-normal, sigma 1.2, by Box and Muller; the mean is 100 ms.
                let normal =
                    (-2.0 * dice.unit().ln()).sqrt() * (std::f64::consts::TAU * dice.unit()).cos();
                whole_us(100_000.0 * (1.2 * normal - 0.72).exp())
            }
        };
        arrivals.push((at_us, hold_us));
    }
    arrivals
}

/// Replays a trace against a limit; what a gateway would have measured, a minute each.
fn measure(arrivals: &[(u64, u64)], limit: u32, minutes: u64) -> Vec<Window> {
    let mut windows: Vec<Window> = (0..minutes)
        .map(|n| empty(i64::try_from(n).unwrap()))
        .collect();
    let mut out: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    for &(at_us, hold_us) in arrivals {
        while out.peek().is_some_and(|Reverse(end_us)| *end_us <= at_us) {
            out.pop();
        }
        let Some(window) = windows.get_mut(usize::try_from(at_us / MINUTE_US).unwrap()) else {
            break;
        };
        window.arrived += 1;
        let busy = u32::try_from(out.len()).unwrap();
        if busy >= limit {
            window.rejected += 1;
            continue;
        }
        out.push(Reverse(at_us + hold_us));
        window.peak = window.peak.max(busy + 1);
        window.in_flight_us += hold_us;
        window.hold.record(hold_us);
    }
    windows
}

fn empty(minute: i64) -> Window {
    Window {
        from_ms: minute * 60_000,
        to_ms: (minute + 1) * 60_000,
        elapsed_us: MINUTE_US,
        arrived: 0,
        rejected: 0,
        breaker_open: 0,
        peak: 0,
        in_flight_us: 0,
        hold: Histogram::new(),
    }
}

fn refused(windows: &[Window]) -> f64 {
    let arrived: u64 = windows.iter().map(|window| window.arrived).sum();
    let rejected: u64 = windows.iter().map(|window| window.rejected).sum();
    evidence::float(rejected) / evidence::float(arrived.max(1))
}

/// The smallest limit that refuses at most the target of a fresh trace of the same law.
fn true_need(law: Law, target: f64) -> u32 {
    let fresh = trace(law, 30, 77);
    (1..200)
        .find(|limit| refused(&measure(&fresh, *limit, 30)) <= target)
        .unwrap()
}

fn standard(limit: u32) -> Subject {
    Subject {
        limit: Limit::new(limit).unwrap(),
        class: Class::Standard,
    }
}

/// Three laws, each measured behind a limit that is too small, right and three times too large.
#[test]
fn advice_is_near_the_true_need() {
    for (law, name) in [
        (Law::Plain, "plain"),
        (Law::LongTailed, "long-tailed"),
        (Law::OnOff, "on and off"),
    ] {
        let need = true_need(law, 0.001);
        for limit in [need * 6 / 10, need, need * 3] {
            let windows = measure(&trace(law, 30, 1), limit, 30);
            let advice = advise(standard(limit), &windows);
            let advised = advice.advised.unwrap();
            let thumb = advice.rule_of_thumb.unwrap().limit;
            println!("{name}: need {need}, behind {limit} advised {advised}, thumb {thumb}");
            assert!(
                thumb > advised,
                "p99 of a whole tail counts far more than the mean"
            );
            let step = limit + limit.div_ceil(4);
            if limit < need {
                // Bursts above the limit cannot be seen: a step in the right direction.
                assert!(
                    advised > limit && advised <= (need * 115 / 100).max(step),
                    "{name}: {advised}"
                );
            } else {
                assert!(advised * 100 >= need * 85, "{name}: {advised} for {need}");
                assert!(advised * 100 <= need * 115, "{name}: {advised} for {need}");
            }
        }
    }
}

#[test]
fn a_limit_that_refuses_good_traffic_is_to_be_raised_and_a_right_one_kept() {
    let arrivals = trace(Law::Plain, 30, 1);
    let card = |limit| advise(standard(limit), &measure(&arrivals, limit, 30));
    let small = card(12);
    assert_eq!(
        (small.verdict, small.band),
        (Verdict::Raise, Some(Band::OneSpikeAway))
    );
    assert!(small.predicted_refused.unwrap() > 0.1);
    let advised = small.advised.unwrap();
    let right = card(advised);
    assert_eq!(
        (right.verdict, right.band),
        (Verdict::Keep, None),
        "{}",
        right.summary
    );
    let large = card(100);
    assert_eq!(
        (large.verdict, large.band),
        (Verdict::Lower, Some(Band::ProtectsNothing))
    );
    assert_eq!(large.predicted_refused, Some(0.0));
}

#[test]
fn an_incident_teaches_nothing() {
    let arrivals = trace(Law::Plain, 30, 1);
    let mut windows = measure(&arrivals, 24, 30);
    let before = advise(standard(24), &windows).advised;
    for window in windows.iter_mut().skip(10).take(3) {
        window.hold = Histogram::new();
        window.hold.record_n(5 * SECOND_US, 288);
        window.rejected = window.arrived - 288;
    }
    let after = advise(standard(24), &windows);
    let apart = after.advised.unwrap().abs_diff(before.unwrap());
    assert!(apart <= 1, "{} instead of {before:?}", after.summary);
    assert_eq!(
        after.evidence.left_out.len(),
        4,
        "three windows and one to cool down"
    );
    for window in windows.iter_mut().skip(4) {
        window.hold = Histogram::new();
        window.hold.record_n(5 * SECOND_US, 288);
    }
    // Seen as the new normal: the quiet beginning does not stand out as an incident.
    assert!(advise(standard(24), &windows).advised.is_some());
}

#[test]
fn within_seconds_the_card_says_what_the_traffic_asks_for_so_far() {
    let arrivals = trace(Law::Plain, 30, 1);
    let windows = measure(&arrivals, 24, 30);
    let whole = advise(standard(24), &windows);
    // Ten seconds of it.
    let mut first = windows[0].clone();
    first.elapsed_us /= 6;
    first.arrived /= 6;
    first.in_flight_us /= 6;
    first.to_ms = first.from_ms + 10_000;
    let card = advise(standard(24), std::slice::from_ref(&first));
    assert_eq!(
        (card.verdict, card.advised),
        (Verdict::TooLittleEvidence, None)
    );
    let so_far = card.so_far.unwrap();
    let apart = so_far.abs_diff(whole.advised.unwrap());
    assert!(apart <= 6, "{}", card.summary);
    assert!(
        card.summary
            .ends_with(&format!("which ask for {so_far} so far")),
        "{}",
        card.summary
    );

    // Two good windows beside three of an incident, none of which may teach.
    let mut mixed: Vec<Window> = windows.into_iter().take(9).collect();
    for window in mixed.iter_mut().skip(2).step_by(2) {
        window.hold = Histogram::new();
        window.hold.record_n(5 * SECOND_US, 288);
    }
    let card = advise(standard(24), &mixed);
    assert_eq!((card.verdict, card.advised), (Verdict::Unsettled, None));
    let so_far = card.so_far.unwrap();
    assert!(
        so_far.abs_diff(whole.advised.unwrap()) <= 3,
        "{}",
        card.summary
    );
    assert!(
        card.summary
            .ends_with(&format!("the normal ones ask for {so_far}")),
        "{}",
        card.summary
    );
}

#[test]
fn little_traffic_gives_no_number() {
    let windows: Vec<Window> = (0..10).map(empty).collect();
    let card = advise(standard(5), &windows);
    assert_eq!(
        (card.verdict, card.advised),
        (Verdict::TooLittleEvidence, None)
    );
    let mut one = empty(0);
    one.arrived = 1;
    one.hold.record(10_000);
    let card = advise(standard(5), &[one]);
    assert_eq!(
        (card.verdict, card.advised),
        (Verdict::TooLittleEvidence, None)
    );
    assert_eq!(card.so_far, None);
    assert!(
        card.summary.contains("1 arrivals in 60 s"),
        "{}",
        card.summary
    );
    assert_eq!(
        what_if(standard(5), &[], Limit::new(9).unwrap()).refused_share,
        None
    );
}

#[test]
fn all_refused_is_demand_without_a_hold_time() {
    let windows: Vec<Window> = (0..30)
        .map(|n| Window {
            arrived: 6_000,
            rejected: 6_000,
            ..empty(n)
        })
        .collect();
    let card = advise(standard(5), &windows);
    assert_eq!(card.verdict, Verdict::TooLittleEvidence, "{}", card.summary);
}

#[test]
fn a_critical_route_bears_half_as_much_again() {
    let windows = measure(&trace(Law::Plain, 30, 1), 60, 30);
    let of = |class| {
        let subject = Subject {
            class,
            ..standard(60)
        };
        advise(subject, &windows).advised.unwrap()
    };
    let limits = [Class::Sheddable, Class::Standard, Class::Critical].map(of);
    assert!(limits.is_sorted() && limits[0] < limits[2], "{limits:?}");
}

/// The card and the question say the same.
#[test]
fn what_if_agrees_with_the_card() {
    let windows = measure(&trace(Law::Plain, 30, 1), 15, 30);
    let card = advise(standard(15), &windows);
    let same = what_if(standard(15), &windows, Limit::new(15).unwrap());
    assert_eq!(same.refused_share, card.predicted_refused);
    assert_eq!(same.refused_share, same.refused_share_now);
    let advised = Limit::new(card.advised.unwrap()).unwrap();
    let better = what_if(standard(15), &windows, advised);
    assert_eq!(better.meets_target, Some(true));
    assert_eq!(better.absorbs, card.absorbs);
    let open = what_if(standard(15), &windows, Limit::UNLIMITED);
    assert_eq!((open.refused_share, open.absorbs), (Some(0.0), None));
    let closed = what_if(standard(15), &windows, Limit::CLOSED);
    assert_eq!(closed.refused_share, Some(1.0));
}

/// Ten slots offered, the multiples of the algorithms.
#[test]
fn demand_that_a_limit_absorbs() {
    for (limit, factor) in [(15, 0.81), (20, 1.20), (21, 1.28), (25, 1.61), (30, 2.03)] {
        let found = what_if::absorbs(10.0, limit);
        assert!((found - factor).abs() < 0.006, "{limit}: {found}");
    }
}
