//! The account of one gateway, over every order of reports.
//!
//! Separate to keep the code short. It must never need a stream.

use compartment::Limit;
use proptest::prelude::*;

use super::*;
use crate::readings::sorted;

const BEGAN_MS: i64 = 1_700_000_000_000;

fn figures(key: &str, admitted: u64, refused: u64) -> Figures {
    let level = key.parse::<compartment::Key>().unwrap().level();
    let mut hold = Histogram::new();
    hold.record_n(900, admitted);
    Figures {
        arrived: admitted + refused,
        admitted,
        completed: admitted,
        rejected: [(Rejection::RouteFull, refused)]
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect(),
        in_flight_us: admitted * 900,
        hold,
        ..Figures::new(key.to_owned(), level, Limit::new(4).unwrap())
    }
}

/// A gateway that has been up for so long, and what its compartments count.
struct Said {
    boot: &'static str,
    second: u64,
    figures: Vec<Figures>,
}

fn take(ledger: &mut Ledger, said: Said) -> Taken {
    let mark = ReportMark {
        boot_id: said.boot.to_owned(),
        sequence: said.second,
        uptime_us: said.second * 1_000_000,
        ..ReportMark::default()
    };
    take_mark(ledger, &mark, said.figures)
}

fn take_mark(ledger: &mut Ledger, mark: &ReportMark, figures: Vec<Figures>) -> Taken {
    let received = Received {
        at: crate::clock::now(),
        unix_ms: BEGAN_MS.saturating_add(millis(mark.uptime_us)),
    };
    ledger.take(&"one".into(), mark, &sorted(figures), received)
}

fn readings(
    ledger: &mut Ledger,
    boot: &'static str,
    second: u64,
    all: Vec<Figures>,
) -> Vec<Reading> {
    let said = Said {
        boot,
        second,
        figures: all,
    };
    match take(ledger, said) {
        Taken::Readings(readings) => readings,
        Taken::Late => unreachable!("late"),
    }
}

/// What a list of readings adds up to at one compartment: admitted, refused, held in all.
fn sums(readings: &[Reading], key: &str) -> (u64, u64, u64) {
    let own = readings.iter().filter(|reading| &*reading.key == key);
    own.fold((0, 0, 0), |(admitted, refused, held), reading| {
        (
            admitted + reading.admitted,
            refused + reading.refused(),
            held + reading.hold.sum_us(),
        )
    })
}

#[test]
fn a_reading_is_what_lies_between_two_reports() {
    let mut ledger = Ledger::default();
    let first = readings(&mut ledger, "b", 1, vec![figures("route/a", 10, 1)]);
    assert_eq!(sums(&first, "route/a"), (10, 1, 9_000));
    assert_eq!(
        (first[0].from_ms, first[0].elapsed_us),
        (BEGAN_MS, 1_000_000)
    );
    let second = readings(&mut ledger, "b", 2, vec![figures("route/a", 14, 3)]);
    assert_eq!(sums(&second, "route/a"), (4, 2, 3_600));
    assert_eq!(second[0].from_ms, BEGAN_MS + 1_000);
    assert_eq!(second[0].rejected, [(Rejection::RouteFull, 2)]);
    let idle = readings(&mut ledger, "b", 3, vec![figures("route/a", 14, 3)]);
    assert!(idle.is_empty(), "nothing happened: {idle:?}");
}

#[test]
fn the_gateway_itself_is_told_with_every_report() {
    let mut ledger = Ledger::default();
    for second in 1..4 {
        let all = vec![figures("gateway", 0, 0), figures("route/a", 0, 0)];
        let told = readings(&mut ledger, "b", second, all);
        assert_eq!(told.len(), 1);
        assert_eq!((&*told[0].key, told[0].arrived), ("gateway", 0));
    }
}

#[test]
fn a_restart_is_seen_and_nothing_told_is_lost() {
    let mut ledger = Ledger::default();
    let mut all = readings(&mut ledger, "b", 9, vec![figures("route/a", 100, 7)]);
    all.extend(readings(
        &mut ledger,
        "b",
        10,
        vec![figures("route/a", 110, 7)],
    ));
    // Fewer and more than before: both are counted from zero.
    all.extend(readings(
        &mut ledger,
        "c",
        1,
        vec![figures("route/a", 3, 0)],
    ));
    all.extend(readings(
        &mut ledger,
        "d",
        2,
        vec![figures("route/a", 500, 9)],
    ));
    assert_eq!(sums(&all, "route/a").0, 110 + 3 + 500);
    assert_eq!(sums(&all, "route/a").1, 7 + 9);
    assert_eq!(ledger.missed(), Missed::default());
}

#[test]
fn a_silence_is_a_gap_and_counted() {
    let mut ledger = Ledger::default();
    readings(&mut ledger, "b", 1, vec![figures("route/a", 10, 0)]);
    let after = readings(&mut ledger, "b", 300, vec![figures("route/a", 4_000, 0)]);
    assert!(after.is_empty(), "299 s in one reading: {after:?}");
    let missed = ledger.missed();
    assert_eq!((missed.gaps, missed.us), (1, 299_000_000));
    assert_eq!(missed.arrived, 3_990);
    let next = readings(&mut ledger, "b", 301, vec![figures("route/a", 4_002, 0)]);
    assert_eq!(sums(&next, "route/a").0, 2);
    // A process that had been up for long when it was first heard of: nothing of before counts.
    let old = readings(
        &mut ledger,
        "c",
        86_400,
        vec![figures("route/a", 1 << 40, 0)],
    );
    assert!(old.is_empty());
}

#[test]
fn a_compartment_that_was_made_anew_counts_from_zero() {
    let mut ledger = Ledger::default();
    readings(&mut ledger, "b", 1, vec![figures("route/a", 100, 0)]);
    let again = readings(&mut ledger, "b", 2, vec![figures("route/a", 5, 0)]);
    assert_eq!(sums(&again, "route/a").0, 5);
    // Gone for a while, back where it stood: nothing is counted twice.
    readings(&mut ledger, "b", 3, vec![]);
    let back = readings(&mut ledger, "b", 4, vec![figures("route/a", 6, 0)]);
    assert_eq!(sums(&back, "route/a").0, 1);
    // Gone and made anew with more than before: its age tells.
    let young = Figures {
        idle_us: 900_000,
        ..figures("route/a", 50, 0)
    };
    let old = Figures {
        idle_us: 60_000_000,
        ..figures("route/a", 6, 0)
    };
    readings(&mut ledger, "b", 5, vec![old]);
    let anew = readings(&mut ledger, "b", 6, vec![young]);
    assert_eq!(sums(&anew, "route/a").0, 50);
}

#[test]
fn what_was_folded_is_not_counted_again() {
    let mut ledger = Ledger::default();
    let tenant = |n| figures("route/a/tenant/t", n, 0);
    let folded = |n| Figures {
        key: "route/a/tenant/_idle".to_owned(),
        ..figures("route/a/tenant/t", n, 0)
    };
    let mut all = readings(&mut ledger, "b", 1, vec![tenant(9), folded(0)]);
    all.extend(readings(&mut ledger, "b", 2, vec![folded(9)]));
    all.extend(readings(&mut ledger, "b", 3, vec![folded(9), tenant(2)]));
    let admitted: u64 = all.iter().map(|reading| reading.admitted).sum();
    assert_eq!(admitted, 11);
}

#[test]
fn an_old_tenant_that_finds_its_place_late_is_no_burst() {
    let mut ledger = Ledger::default();
    let mark = |second: u64| ReportMark {
        boot_id: "b".to_owned(),
        sequence: second,
        uptime_us: second * 1_000_000,
        left_out: 1,
        ..ReportMark::default()
    };
    let tenant = |n, idle_us| Figures {
        idle_us,
        ..figures("tenant/t", n, 0)
    };
    take_mark(&mut ledger, &mark(1), vec![]);
    let Taken::Readings(found) = take_mark(&mut ledger, &mark(2), vec![tenant(70_000, 90_000_000)])
    else {
        unreachable!("late")
    };
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(ledger.missed().arrived, 70_000);
    let Taken::Readings(next) = take_mark(&mut ledger, &mark(3), vec![tenant(70_002, 91_000_000)])
    else {
        unreachable!("late")
    };
    assert_eq!(sums(&next, "tenant/t").0, 2);
}

#[test]
fn times_never_exceed_the_interval() {
    let mut ledger = Ledger::default();
    let strange = Figures {
        busy_us: u64::MAX,
        saturated_us: u64::MAX,
        idle_us: u64::MAX,
        in_flight_us: u64::MAX,
        arrived: u64::MAX,
        ..figures("route/a", 1, 0)
    };
    let told = readings(&mut ledger, "b", 1, vec![strange]);
    assert_eq!((told[0].saturated_us, told[0].busy_us), (1_000_000, 0));
    let mark = ReportMark {
        boot_id: "b".to_owned(),
        sequence: u64::MAX,
        uptime_us: u64::MAX,
        at_unix_ms: i64::MIN,
        left_out: u32::MAX,
    };
    take_mark(&mut ledger, &mark, vec![figures("route/a", 2, 0)]);
    let back = ReportMark {
        uptime_us: 0,
        ..mark
    };
    assert_eq!(take_mark(&mut ledger, &back, vec![]), Taken::Late);
}

#[test]
fn absent_compartments_are_bounded() {
    let mut ledger = Ledger::default();
    let all = |from: usize| {
        let one = |n| figures(&format!("tenant/t{n}"), 1, 0);
        (from..from + ABSENT_MAX).map(one).collect::<Vec<_>>()
    };
    for second in 1..5_u64 {
        let from = usize::try_from(second).unwrap() * ABSENT_MAX;
        readings(&mut ledger, "b", second, all(from));
        assert!(ledger.absent.len() <= ABSENT_MAX);
    }
    assert!(ledger.unsure);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Reports of a few boots, each report any number of times in any order within its boot: the
    /// readings add up to what the last one said, and no number is larger than what was counted.
    #[test]
    fn any_order_of_reports_adds_up_to_the_same(
        boots in proptest::collection::vec(
            proptest::collection::vec((0..50_u64, 0..5_u64), 1..10),
            1..4,
        ),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let names = ["b", "c", "d"];
        let mut ledger = Ledger::default();
        let (mut all, mut wanted) = (Vec::new(), (0, 0));
        for (boot, steps) in names.into_iter().zip(&boots) {
            let (mut admitted, mut refused) = (0, 0);
            let mut reports = Vec::new();
            for (second, (more, less)) in (1..).zip(steps) {
                admitted += more;
                refused += less;
                reports.push((second, admitted, refused));
            }
            let mut heard: Vec<_> = order.iter().map(|at| *at.get(&reports)).collect();
            heard.push(*reports.last().unwrap());
            heard.extend(order.iter().map(|at| *at.get(&reports)));
            for (second, admitted, refused) in heard {
                let all_of_it = vec![figures("route/a", admitted, refused)];
                let said = Said { boot, second, figures: all_of_it };
                if let Taken::Readings(readings) = take(&mut ledger, said) {
                    all.extend(readings);
                }
            }
            wanted.0 += admitted;
            wanted.1 += refused;
        }
        let (admitted, refused, held) = sums(&all, "route/a");
        prop_assert_eq!((admitted, refused), wanted);
        prop_assert_eq!(held, wanted.0 * 900);
        let seconds: u64 = all.iter().map(|reading| reading.elapsed_us).sum();
        prop_assert!(seconds <= 10_000_000 * u64::try_from(boots.len()).unwrap());
        prop_assert_eq!(ledger.missed(), Missed::default());
    }
}
