//! A breaker against its rules, one thread, every moment chosen.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::policy::Millionths;

pub(super) const SECOND: u64 = 1_000_000;

pub(super) fn rules() -> BreakerRules {
    BreakerRules {
        failure_rate: Millionths(500_000),
        calls: 20,
        open: Duration::from_secs(5),
        probes: 3,
        count_rejections: false,
    }
}

/// A breaker and the time.
pub(super) struct Bench {
    breaker: Arc<Breaker>,
    pub(super) now_us: u64,
}

pub(super) type Through = Pass<Arc<Breaker>>;

impl Bench {
    pub(super) fn new(rules: &BreakerRules) -> Self {
        let breaker = Arc::new(Breaker::new());
        let change = breaker.set(Some(rules), None, 0);
        assert_eq!(change, None, "rules are no change of state");
        Self { breaker, now_us: 0 }
    }

    pub(super) fn ask(&self) -> Result<Through, Shut> {
        Breaker::ask(Arc::clone(&self.breaker), self.now_us).0
    }

    fn tell(&self, outcome: Outcome) -> Option<Change> {
        self.ask().unwrap().tell(outcome, self.now_us)
    }

    fn tells(&self, outcome: Outcome, times: u64) {
        (0..times).for_each(|n| assert_eq!(self.tell(outcome), None, "call {n}"));
    }

    pub(super) fn state(&self) -> BreakerState {
        self.breaker.state()
    }

    fn trip(&mut self) {
        self.tells(Outcome::Failed, 19);
        let change = self.tell(Outcome::Failed).unwrap();
        assert_eq!(
            (change.to, self.state()),
            (BreakerState::Open, BreakerState::Open)
        );
    }

    fn half_open(&mut self) -> Vec<Through> {
        self.trip();
        self.now_us += 5 * SECOND;
        (0..3).map(|_| self.ask().unwrap()).collect()
    }
}

/// P25: 50 % of 20 calls, 5 s, 3 probes.
#[test]
fn it_opens_at_half_of_twenty_and_closes_after_three_good_probes() {
    let mut bench = Bench::new(&rules());
    bench.tells(Outcome::Answered, 11);
    bench.tells(Outcome::Failed, 9);
    assert_eq!(bench.state(), BreakerState::Closed, "9 of 20");
    // The oldest of the twenty is one of the good ones.
    let change = bench.tell(Outcome::Failed).unwrap();
    assert_eq!(change.failed_of, Some((10, 20)));
    for (at_us, left_us) in [(0, 5 * SECOND), (5 * SECOND - 1, 1)] {
        bench.now_us = at_us;
        let shut = bench.ask().unwrap_err();
        assert_eq!((shut.state, shut.wait_us), (BreakerState::Open, left_us));
    }
    bench.now_us = 5 * SECOND;
    for n in 0..3 {
        let change = bench.tell(Outcome::Answered);
        assert_eq!(change.is_some(), n == 2, "probe {n}");
    }
    assert_eq!(bench.state(), BreakerState::Closed);
    let figures = bench.breaker.figures(6 * SECOND).unwrap();
    assert_eq!(
        (figures.opened, figures.half_opened, figures.closed),
        (1, 1, 1)
    );
    assert_eq!((figures.calls, figures.since_ms), (0, 1_000));
}

#[test]
fn nineteen_failures_are_too_few_and_the_first_full_window_is_judged() {
    let bench = Bench::new(&rules());
    bench.tells(Outcome::Failed, 10);
    bench.tells(Outcome::Answered, 9);
    assert_eq!(
        bench.tell(Outcome::Answered).unwrap().failed_of,
        Some((10, 20))
    );
    let bench = Bench::new(&rules());
    bench.tells(Outcome::Failed, 19);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn only_the_last_twenty_count() {
    let bench = Bench::new(&rules());
    for _ in 0..50 {
        bench.tells(Outcome::Failed, 9);
        bench.tells(Outcome::Answered, 20);
    }
    assert_eq!(bench.state(), BreakerState::Closed);
}

/// A handful of failures that are hours apart, and an outage that few calls see.
#[test]
fn thin_traffic_is_judged_over_time() {
    let mut bench = Bench::new(&rules());
    for _ in 0..40 {
        bench.tells(Outcome::Failed, 1);
        bench.now_us += 31 * SECOND;
    }
    assert_eq!(
        bench.state(),
        BreakerState::Closed,
        "old failures are forgotten"
    );
    let mut opened = None;
    for n in 1..20 {
        bench.now_us += 3 * SECOND;
        opened = opened.or(bench.tell(Outcome::Failed).map(|_| n));
        if opened.is_some() {
            break;
        }
    }
    assert_eq!(
        opened,
        Some(6),
        "five calls in 15 s, after the one that marks the beginning"
    );
    // As thin, and well enough.
    let mut bench = Bench::new(&rules());
    for _ in 0..40 {
        for outcome in [Outcome::Failed, Outcome::Answered, Outcome::Answered] {
            bench.now_us += 2 * SECOND;
            bench.tells(outcome, 1);
        }
    }
    assert_eq!(bench.state(), BreakerState::Closed);
    // Nineteen in an instant are no thin traffic, however long it was quiet before.
    let mut bench = Bench::new(&rules());
    bench.now_us = 3_600 * SECOND;
    bench.tells(Outcome::Failed, 19);
}

#[test]
fn exactly_so_many_probes_pass() {
    let mut bench = Bench::new(&rules());
    let probes = bench.half_open();
    let shut = bench.ask().unwrap_err();
    assert_eq!(shut.state, BreakerState::HalfOpen);
    assert!(shut.wait_us >= 1);
    // One that was answered has used its place; one that says nothing gives it back.
    let mut probes = probes.into_iter();
    let mut answered = probes.next().unwrap();
    assert_eq!(answered.tell(Outcome::Answered, bench.now_us), None);
    drop(answered);
    assert!(bench.ask().is_err());
    drop(probes.next());
    let again = bench.ask().unwrap();
    assert!(bench.ask().is_err());
    drop((again, probes));
    assert!(bench.ask().is_ok() && bench.ask().is_ok(), "never stuck");
}

#[test]
fn one_failed_probe_opens_anew_with_a_whole_time() {
    let mut bench = Bench::new(&rules());
    let mut probes = bench.half_open();
    bench.now_us += 7;
    let change = probes[1].tell(Outcome::Failed, bench.now_us).unwrap();
    assert_eq!(
        (change.from, change.to),
        (BreakerState::HalfOpen, BreakerState::Open)
    );
    assert!(
        !probes[1].is_good() && !probes[0].is_good(),
        "no further attempt"
    );
    // What the others tell is of an era that is over.
    assert_eq!(probes[0].tell(Outcome::Answered, bench.now_us), None);
    assert_eq!(probes[2].tell(Outcome::Failed, bench.now_us), None);
    drop(probes);
    assert_eq!(bench.ask().unwrap_err().wait_us, 5 * SECOND);
    bench.now_us += 5 * SECOND;
    let probes: Vec<_> = std::iter::from_fn(|| bench.ask().ok()).collect();
    assert_eq!(
        probes.len(),
        3,
        "places of an older era are not given back to this one"
    );
}

#[test]
fn probes_that_hang_make_room_after_a_while() {
    let mut bench = Bench::new(&rules());
    let hanging = bench.half_open();
    bench.now_us += BREAKER_PROBE_US_MAX - 1;
    assert!(bench.ask().is_err());
    bench.now_us += 1;
    let others: Vec<_> = std::iter::from_fn(|| bench.ask().ok()).collect();
    assert_eq!(others.len(), 3);
    drop(hanging);
    assert!(
        bench.ask().is_err(),
        "the late ones have no place to give back"
    );
}

#[test]
fn results_of_an_older_era_do_not_count() {
    let mut bench = Bench::new(&rules());
    let mut old: Vec<_> = (0..40).map(|_| bench.ask().unwrap()).collect();
    bench.trip();
    bench.now_us += 5 * SECOND;
    (0..3).for_each(|_| {
        let _may_close = bench.tell(Outcome::Answered);
    });
    assert_eq!(bench.state(), BreakerState::Closed);
    for pass in &mut old {
        assert_eq!(pass.tell(Outcome::Failed, bench.now_us), None);
    }
    assert_eq!(bench.breaker.figures(bench.now_us).unwrap().calls, 0);
    bench.tells(Outcome::Answered, 20);
    bench.tells(Outcome::Failed, 9);
}

#[test]
fn refusals_count_where_the_rules_say_so() {
    for count_rejections in [false, true] {
        let bench = Bench::new(&BreakerRules {
            count_rejections,
            ..rules()
        });
        let changes: Vec<_> = (0..20)
            .filter_map(|_| bench.ask().unwrap().refused(bench.now_us))
            .collect();
        assert_eq!(changes.len(), usize::from(count_rejections));
    }
    // Of a probe they never do: it could never become well again.
    let mut bench = Bench::new(&BreakerRules {
        count_rejections: true,
        ..rules()
    });
    for probe in bench.half_open() {
        assert_eq!(probe.refused(bench.now_us), None);
    }
    assert!(bench.ask().is_ok());
}

#[test]
fn an_answer_that_is_cut_was_none() {
    let bench = Bench::new(&rules());
    for n in 0..19 {
        let mut pass = bench.ask().unwrap();
        assert_eq!(pass.tell(Outcome::Answered, 0), None);
        assert_eq!(bench.breaker.cut(pass.era(), 0), None, "cut {n}");
    }
    // The first full window is judged with its last call, of which nothing is known yet.
    let change = bench.tell(Outcome::Answered).unwrap();
    assert_eq!(change.failed_of, Some((19, 20)));
}

#[test]
fn an_operator_goes_first_and_lets_go_into_closed() {
    let mut bench = Bench::new(&rules());
    let own = rules();
    let set = |forced, now_us| bench.breaker.set(Some(&own), forced, now_us);
    let change = set(Some(ForcedBreaker::Open), 1).unwrap();
    assert_eq!(change.to, BreakerState::ForcedOpen);
    assert_eq!(set(Some(ForcedBreaker::Open), 2), None, "pushed again");
    assert!(bench.ask().unwrap_err().wait_us >= SECOND);
    assert_eq!(
        set(Some(ForcedBreaker::Closed), 3).unwrap().to,
        BreakerState::ForcedClosed
    );
    bench.tells(Outcome::Failed, 100);
    assert_eq!(set(None, 4).unwrap().to, BreakerState::Closed);
    bench.trip();
    // Without rules too.
    let bare = Breaker::new();
    assert_eq!(bare.figures(0), None);
    assert!(bare.set(None, Some(ForcedBreaker::Open), 5).is_some());
    assert_eq!(bare.figures(6).unwrap().state, BreakerState::ForcedOpen);
}

#[test]
fn rules_change_while_it_is_open() {
    let mut bench = Bench::new(&rules());
    bench.trip();
    let sooner = BreakerRules {
        open: Duration::from_secs(1),
        probes: 1,
        ..rules()
    };
    assert_eq!(
        bench.breaker.set(Some(&sooner), None, 1),
        None,
        "it stays open"
    );
    bench.now_us = SECOND;
    let mut probe = bench.ask().unwrap();
    assert!(bench.ask().is_err());
    assert!(probe.tell(Outcome::Answered, bench.now_us).is_some());
    bench.trip();
    let change = bench.breaker.set(None, None, bench.now_us).unwrap();
    assert_eq!(
        change.to,
        BreakerState::Closed,
        "without rules everything passes"
    );
    bench.tells(Outcome::Failed, 100);
}

/// Its place goes to others, what it tells counts in no probes' answers, and a failure counts.
#[test]
fn a_probe_that_rests_has_given_its_place_on() {
    for outcome in [Outcome::Answered, Outcome::Failed] {
        let mut bench = Bench::new(&rules());
        let mut probes = bench.half_open();
        assert!(bench.ask().is_err());
        let rests = &mut probes[0];
        assert!(rests.is_probe() && rests.is_good());
        rests.rest();
        assert!(!rests.is_probe() && !rests.is_good());
        // Once only: it had one place.
        rests.rest();
        let mut other = bench.ask().unwrap();
        assert!(bench.ask().is_err(), "one place was given on, not two");
        assert_eq!(probes[1].tell(Outcome::Answered, bench.now_us), None);
        assert_eq!(probes[2].tell(Outcome::Answered, bench.now_us), None);
        let change = probes[0].tell(outcome, bench.now_us);
        match outcome {
            Outcome::Answered => {
                assert_eq!((change, bench.state()), (None, BreakerState::HalfOpen));
                let closed = other.tell(Outcome::Answered, bench.now_us).unwrap();
                assert_eq!(closed.to, BreakerState::Closed);
            }
            Outcome::Failed => assert_eq!(change.unwrap().to, BreakerState::Open),
        }
    }
    // Of one that is no probe it is nothing.
    let bench = Bench::new(&rules());
    let mut plain = bench.ask().unwrap();
    plain.rest();
    assert!(plain.is_good());
    assert_eq!(plain.tell(Outcome::Answered, 0), None);
    assert_eq!(bench.breaker.figures(0).unwrap().calls, 1);
}
