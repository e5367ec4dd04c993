//! Tests of the fleet's list and sums. Separate from what they test for length; no product code.

use std::time::Duration;

use compartment::{Level, Rejection};

use super::*;

fn figures(key: &str, limit: u32, in_flight: u32) -> Figures {
    let message = proto::Compartment {
        key: key.to_owned(),
        level: Level::Route.as_str().to_owned(),
        limit: Some(limit),
        in_flight,
        admitted: u64::from(in_flight),
        peak: in_flight,
        oldest_permit_ms: u64::from(in_flight),
        rejected: [(Rejection::RouteFull.as_str().to_owned(), 1)].into(),
        ..Default::default()
    };
    Figures::try_from(message).unwrap()
}

fn wanted(newest: u64) -> Wanted {
    Wanted {
        newest,
        published_at: "2026-01-01T00:00:00.000Z".to_owned(),
        progress: crate::rollout::Progress::Open,
        staged: None,
    }
}

fn later(moment: &Moment, by: Duration) -> Moment {
    Moment {
        at: moment.at + by,
        utc: moment.utc.clone(),
    }
}

#[test]
fn figures_are_summed_over_gateways_that_report() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    let one = fleet.connect("one", "0", 7, now.clone()).unwrap();
    let two = fleet.connect("two", "0", 7, now.clone()).unwrap();
    fleet.connect("three", "0", 7, now.clone()).unwrap();
    fleet.report(one, 7, vec![figures("route/a", 4, 1)], now.clone());
    fleet.report(
        two,
        7,
        vec![figures("route/a", 4, 3), figures("route/b", 1, 0)],
        now.clone(),
    );
    let sums = fleet.figures(now.at);
    assert_eq!(sums.reporting_text(), "2 of 3");
    let a = &sums.compartments["route/a"];
    assert_eq!(
        (a.total.limit.slots(), a.total.in_flight, a.gateways.len()),
        (Some(8), 4, 2)
    );
    assert_eq!(a.total.rejected[&Rejection::RouteFull], 2);
    assert!((a.total.saturation - 0.5).abs() < 1e-9);
    assert_eq!(a.total.oldest_permit_ms, 3);
    let only = fleet.figures_of("route/b", now.at);
    assert_eq!(only.compartments.len(), 1);
}

#[test]
fn stale_figures_leave_the_sums() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    let one = fleet.connect("one", "0", 7, now.clone()).unwrap();
    fleet.report(one, 7, vec![figures("route/a", 4, 1)], now.clone());
    let then = later(&now, FRESH_MAX + Duration::from_millis(1));
    assert_eq!(fleet.figures(then.at).reporting_text(), "0 of 1");
    assert!(!fleet.gateways(&wanted(7), then.at)[0].reporting);
}

#[test]
fn a_refusal_shows_until_the_next_generation_runs() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    let one = fleet.connect("one", "0", 7, now.clone()).unwrap();
    let state = |newest| {
        let view = fleet.gateways(&wanted(newest), now.at).remove(0);
        (view.state, view.generation, view.refused.is_some())
    };
    assert_eq!(state(7), (GatewayState::Running, 7, false));
    assert_eq!(state(8), (GatewayState::Lagging, 7, false));
    fleet.refuses(one, 8, vec![proto::Fault::default()], now.clone());
    assert_eq!(state(8), (GatewayState::Refused, 7, true));
    assert_eq!(state(9), (GatewayState::Lagging, 7, false));
    fleet.runs(one, 9, now.clone());
    assert_eq!(state(9), (GatewayState::Running, 9, false));
}

#[test]
fn a_newer_stream_of_one_gateway_wins() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    let old = fleet.connect("one", "0", 7, now.clone()).unwrap();
    let new = fleet.connect("one", "0", 7, now.clone()).unwrap();
    assert!(
        !fleet.runs(old, 8, now.clone()),
        "the old stream is heard no more"
    );
    fleet.disconnect(old, &now);
    assert!(
        fleet.gateways(&wanted(7), now.at)[0].connected,
        "its end is not the gateway's"
    );
    assert!(fleet.runs(new, 8, now.clone()));
    assert_eq!(fleet.gateways(&wanted(8), now.at).len(), 1);
}

#[test]
fn gateways_that_are_gone_are_listed_and_then_forgotten() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    let one = fleet.connect("one", "0", 7, now.clone()).unwrap();
    fleet.disconnect(one, &now);
    let view = fleet.gateways(&wanted(7), now.at).remove(0);
    assert!(!view.connected && view.last_seen == now.utc);
    assert!(
        fleet
            .gateways(&wanted(7), later(&now, GONE_MAX * 2).at)
            .is_empty()
    );
}

#[test]
fn the_number_of_gateways_is_bounded() {
    let (fleet, now) = (Fleet::default(), Moment::now());
    for n in 0..GATEWAYS_MAX {
        fleet.connect(&n.to_string(), "0", 0, now.clone()).unwrap();
    }
    assert!(fleet.connect("one too many", "0", 0, now.clone()).is_err());
    assert!(
        fleet.connect("7", "0", 0, now).is_ok(),
        "a known one may come back"
    );
}

#[test]
fn what_failed_is_told_of_the_calls_of_all_gateways() {
    use compartment::breaker::{BreakerFigures, BreakerState};
    let told = |state, failure_rate, calls| {
        let mut own = figures("upstream/u", 4, 0);
        own.breaker = Some(Box::new(BreakerFigures {
            state,
            since_ms: calls,
            opened: 1,
            half_opened: 0,
            closed: 0,
            failure_rate,
            calls,
        }));
        own
    };
    for (one, other, rate, calls) in [
        ((1.0, 20), (0.0, 20), 0.5, 40),
        ((0.25, 4), (0.0, 12), 0.0625, 16),
        ((0.0, 0), (0.75, 8), 0.75, 8),
        ((0.0, 0), (0.0, 0), 0.0, 0),
    ] {
        let mut sum = told(BreakerState::HalfOpen, one.0, one.1);
        add(&mut sum, &told(BreakerState::Closed, other.0, other.1));
        let sum = sum.breaker.unwrap();
        assert!((sum.failure_rate - rate).abs() < 1e-9, "{sum:?}");
        let first = (BreakerState::HalfOpen, one.1);
        assert_eq!((sum.calls, (sum.state, sum.since_ms)), (calls, first));
    }
}
