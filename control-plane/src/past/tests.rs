//! Tests of the last hour and day. Separate from what they test for length; no product code.

use compartment::Level;

use super::*;
use crate::history::HistorySettings;

const BEGAN_S: i64 = 1_767_571_200;

fn reading(key: &str, at_s: i64, saturated_us: u64) -> Reading {
    let level = key.parse::<compartment::Key>().unwrap().level();
    let gateway = Arc::from("one");
    Reading {
        arrived: 10,
        rejected: vec![(Rejection::RouteFull, 2)],
        in_flight_us: 3_000_000,
        saturated_us,
        ..Reading::empty(gateway, key.into(), level, at_s * 1_000, 1_000_000)
    }
}

fn gateway(at_s: i64) -> Reading {
    let key = "gateway".into();
    Reading::empty("one".into(), key, Level::Gateway, at_s * 1_000, 1_000_000)
}

#[test]
fn saturated_time_is_of_the_time_that_was_heard_and_gaps_stay() {
    let past = Past::default();
    // Ten minutes in which the first five are saturated for half of the time; then silence.
    for at_s in 0..600 {
        let saturated_us = if at_s < 300 { 500_000 } else { 0 };
        past.record(&[
            gateway(BEGAN_S + at_s),
            reading("route/a", BEGAN_S + at_s, saturated_us),
        ]);
    }
    let now_s = BEGAN_S + 599;
    let of = |now_s| past.saturated(now_s)["route/a"];
    assert_eq!(of(now_s).of_5min, Some(0));
    assert_eq!(of(now_s).of_hour, Some(250));
    assert_eq!(of(now_s).of_day, Some(250));
    let later = of(now_s + 1_200);
    assert_eq!(
        (later.of_5min, later.of_hour),
        (None, Some(250)),
        "nobody was heard"
    );
    let known = of(now_s).known;
    assert_eq!((known.recent, known.minutes, known.hours), (5, 10, 1));
    assert!(!known.is_longer, "the day is that hour");
    assert_eq!(of(now_s).shares(), [Some(0), Some(250), None]);
    let (one, two) = (past.saturated(now_s), past.saturated(now_s));
    assert!(Arc::ptr_eq(&one, &two), "once a second");
    let hour = past.hour("route/a", now_s + 120);
    assert_eq!(hour.len(), MINUTES);
    let known: Vec<usize> = (0..MINUTES).filter(|at| hour[*at].heard_us > 0).collect();
    assert_eq!(known, (48..58).collect::<Vec<_>>());
    assert_eq!(hour[48].cell.in_flight_us, 180_000_000);
    assert_eq!(hour[48].gateways, 1);
    let refusals = past.refusals(now_s);
    assert_eq!(refusals.iter().flatten().count(), 10);
    let (arrived, reasons) = refusals.last().cloned().flatten().unwrap();
    assert_eq!((arrived, reasons), (600, vec![(Rejection::RouteFull, 120)]));
}

#[test]
fn an_idle_compartment_is_calm_and_a_tenant_that_is_not_listed_is_not_known() {
    let past = Past::default();
    past.record(&[
        gateway(BEGAN_S),
        reading("route/a", BEGAN_S, 0),
        reading("tenant/t", BEGAN_S, 0),
    ]);
    past.record(&[gateway(BEGAN_S + 60)]);
    let last = |key: &str| past.hour(key, BEGAN_S + 60).pop().unwrap().heard_us > 0;
    assert_eq!(
        (last("route/a"), last("tenant/t"), last("route/none")),
        (true, false, false)
    );
}

#[test]
fn no_clock_and_no_crowd_breaks_it() {
    let past = Past::default();
    for at_s in [
        BEGAN_S,
        BEGAN_S + 1_000_000,
        BEGAN_S - 1_000_000,
        0,
        i64::MAX / 2_000,
        BEGAN_S,
    ] {
        past.record(&[reading("route/a", at_s, 1_000_000)]);
        assert_eq!(
            past.saturated(at_s)["route/a"].of_hour,
            Some(1_000),
            "{at_s}"
        );
    }
    // Late by less than the ring: not counted into a newer minute.
    past.record(&[reading("route/a", BEGAN_S + 3_600, 0)]);
    past.record(&[reading("route/a", BEGAN_S, 1_000_000)]);
    assert_eq!(past.saturated(BEGAN_S + 3_600)["route/a"].of_hour, Some(0));
    let many: Vec<_> = (0..2 * KEYS_MAX)
        .map(|n| reading(&format!("tenant/t{n}"), BEGAN_S + 3_600, 0))
        .collect();
    past.record(&many);
    assert_eq!(past.saturated(BEGAN_S).len(), KEYS_MAX / 2);
    let routes: Vec<_> = (0..2 * KEYS_MAX)
        .map(|n| reading(&format!("route/r{n}"), BEGAN_S + 3_600, 0))
        .collect();
    past.record(&routes);
    assert_eq!(past.with(|inner| inner.sums(BEGAN_S)).len(), KEYS_MAX);
    // A day later nobody speaks of those any more.
    past.record(&[reading("tenant/new", BEGAN_S + 90_000, 0)]);
    assert_eq!(past.saturated(BEGAN_S + 90_000).len(), 1);
}

#[tokio::test]
async fn after_a_start_it_goes_on_where_the_history_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.db");
    let history = History::open(path, HistorySettings::default()).await;
    let before = Past::default();
    for at_s in 0..300 {
        let all = [
            gateway(BEGAN_S + at_s),
            reading("route/a", BEGAN_S + at_s, 400_000),
        ];
        history.record(&all);
        before.record(&all);
    }
    let (after, now_s) = (Past::default(), BEGAN_S + 300);
    for key in ["gateway", "route/a"] {
        after.seed(&history, key, now_s).await.unwrap();
    }
    let end_s = now_s - 1;
    assert_eq!(after.saturated(end_s), before.saturated(end_s));
    assert_eq!(after.hour("route/a", end_s), before.hour("route/a", end_s));
    assert_eq!(after.refusals(end_s), before.refusals(end_s));
    // The gateway that was heard before the start is heard again: it is no second one.
    let last = |past: &Past| past.hour("gateway", end_s).pop().unwrap();
    assert_eq!(last(&after).gateways, 1);
    after.record(&[gateway(end_s)]);
    assert_eq!(last(&after).gateways, 1);
    assert_eq!(last(&after).heard_us, 61_000_000);
}

#[test]
fn what_is_no_longer_in_the_hour_is_known_of_the_day() {
    let past = Past::default();
    for (at_s, saturated_us) in [(0, 1_000_000), (7_200, 0)] {
        past.record(&[
            gateway(BEGAN_S + at_s),
            reading("route/a", BEGAN_S + at_s, saturated_us),
        ]);
    }
    let own = past.saturated(BEGAN_S + 7_200)["route/a"];
    assert_eq!(own.of_hour, Some(0));
    assert_eq!(own.shares(), [Some(0), None, Some(500)]);
    assert_eq!((own.known.minutes, own.known.hours), (1, 2));
}
