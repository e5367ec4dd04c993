//! Scenarios: traffic in, alerts out, second by second; a day of them takes a blink. Separate for
//! length; no product code.

mod notices;
mod simulation;

use compartment::Level;

use super::window::Counts;
use super::*;

/// What one second of one compartment on one gateway holds.
#[derive(Clone, Copy, Default)]
struct Second {
    arrived: u64,
    refused: u64,
    full: bool,
}

const CALM: Second = Second {
    arrived: 100,
    refused: 0,
    full: false,
};
/// Full, and half of the requests are refused.
const OUTAGE: Second = Second {
    arrived: 100,
    refused: 50,
    full: true,
};
/// Full, and everybody waits instead.
const FULL: Second = Second {
    arrived: 100,
    refused: 0,
    full: true,
};

/// A control plane's clock, its evaluator, and what came of it.
struct World {
    evaluator: Evaluator,
    now: Now,
    facts: Option<Facts>,
    /// Seconds since the scenario began, and what happened: `fired`, `resolved`.
    events: Vec<(u64, String)>,
    second: u64,
}

const KEY: &str = "route/a";
const START: Now = Now {
    at_ms: 500_000_000,
    unix_ms: 1_700_000_000_000,
};

fn page() -> Facts {
    Facts {
        severity: Severity::Page,
        upstreams: vec!["main".to_owned()],
    }
}

impl World {
    /// After an hour of calm traffic on one gateway.
    fn new() -> Self {
        let mut world = Self::fresh();
        for _ in 0..360 {
            world.now.at_ms += 10_000;
            world.now.unix_ms += 10_000;
            let ten = Second {
                arrived: 10 * CALM.arrived,
                ..CALM
            };
            world.report("gw-a", 10_000, KEY, ten);
            world.tick();
        }
        assert_eq!(world.events, [], "calm traffic alerts nobody");
        world.second = 0;
        world
    }

    fn fresh() -> Self {
        Self {
            evaluator: Evaluator::new(Rules::default()),
            now: START,
            facts: Some(page()),
            events: Vec::new(),
            second: 0,
        }
    }

    fn advance(&mut self) {
        self.second += 1;
        self.now.at_ms += 1_000;
        self.now.unix_ms += 1_000;
    }

    fn report(&mut self, gateway: &str, elapsed_ms: u64, key: &str, second: Second) {
        let sample = Sample {
            key,
            level: Level::Route,
            counts: Counts {
                time_ms: if second.full { elapsed_ms } else { 0 },
                arrived: second.arrived,
                refused: second.refused,
            },
        };
        self.evaluator
            .observe(gateway, self.now.at_ms, elapsed_ms, [sample]);
    }

    fn tick(&mut self) {
        let facts = self.facts.clone();
        let changed = self.evaluator.tick(self.now, &|_, _| facts.clone());
        for id in changed {
            let alert = self.evaluator.alert_mut(id).unwrap();
            let (cause, severity) = (alert.cause.as_str(), alert.severity.as_str());
            let word = match alert.state {
                State::Firing if alert.told.firing < alert.episodes => "fired",
                State::Resolved => "resolved",
                State::Firing | State::Pending => continue,
            };
            alert.told.firing = alert.episodes;
            alert.told.resolved = if alert.is_firing() { 0 } else { alert.episodes };
            self.events
                .push((self.second, format!("{cause} {severity} {word}")));
        }
    }

    /// So many seconds of one gateway.
    fn pass(&mut self, seconds: u64, what: impl Fn(u64) -> Second) {
        for n in 0..seconds {
            self.advance();
            self.report("gw-a", 1_000, KEY, what(n));
            self.tick();
        }
    }

    /// Nobody reports.
    fn silence(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.advance();
            self.tick();
        }
    }

    fn words(&self) -> Vec<&str> {
        self.events.iter().map(|(_, word)| word.as_str()).collect()
    }

    /// What a restart takes over.
    fn restart(&mut self, down_s: u64) {
        let alerts: Vec<Alert> = self.evaluator.alerts().cloned().collect();
        let saved = self.evaluator.saved(self.now);
        let mut again = Evaluator::new(Rules::default());
        for _ in 0..down_s {
            self.advance();
        }
        // The line of another process has nothing to do with the one before.
        self.now.at_ms = START.at_ms * 3 + self.second * 1_000;
        let newest = alerts.iter().map(|alert| alert.id).max().unwrap_or(0);
        again.restore_alerts(alerts, newest, self.now);
        again.restore_windows(&saved, self.now);
        self.evaluator = again;
    }
}

#[test]
fn a_burst_of_a_minute_wakes_nobody() {
    for (seconds, second) in [
        (30, OUTAGE),
        (
            60,
            Second {
                refused: 100,
                ..OUTAGE
            },
        ),
        (
            60,
            Second {
                arrived: 5_000,
                refused: 4_900,
                full: true,
            },
        ),
    ] {
        for offset in [0, 1, 17] {
            let mut world = World::new();
            world.pass(offset, |_| CALM);
            world.pass(seconds, |_| second);
            world.pass(900, |_| CALM);
            assert_eq!(world.events, [], "{seconds} s at {offset}");
        }
    }
    let mut young = World::fresh();
    young.pass(60, |_| OUTAGE);
    young.pass(3_600, |_| CALM);
    assert_eq!(young.events, [], "a minute after the start, too");
}

#[test]
fn full_for_five_minutes_and_refusing_is_one_alert_in_time() {
    for refused in [2, 5, 50, 100] {
        let mut world = World::new();
        world.pass(300, |_| Second { refused, ..OUTAGE });
        world.pass(1_200, |_| CALM);
        assert_eq!(
            world.words(),
            ["refusing page fired", "refusing page resolved"],
            "{refused}"
        );
        let (fired, resolved) = (world.events[0].0, world.events[1].0);
        assert!((61..=150).contains(&fired), "fired after {fired} s");
        assert!(
            (570..=610).contains(&resolved),
            "five quiet minutes: {resolved} s"
        );
        let alert = world.evaluator.alerts().next().unwrap();
        assert_eq!((alert.episodes, alert.ended), (1, Some(Ended::Quiet)));
        assert!(alert.since_ms <= START.unix_ms + 3_600_000 + 10_000);
        assert!(alert.since_ms >= START.unix_ms + 3_600_000 - 10_000);
    }
}

#[test]
fn full_without_refusals_is_a_ticket_that_pages_nobody() {
    let mut world = World::new();
    world.pass(300, |_| FULL);
    world.pass(600, |_| CALM);
    assert_eq!(world.words(), ["full ticket fired", "full ticket resolved"]);
    assert!(
        (90..=150).contains(&world.events[0].0),
        "{:?}",
        world.events
    );
    let mut short = World::new();
    short.pass(60, |_| FULL);
    short.pass(600, |_| CALM);
    assert_eq!(short.events, []);
}

#[test]
fn full_that_begins_to_refuse_is_a_page_and_no_ticket_any_more() {
    let mut world = World::new();
    world.pass(200, |_| FULL);
    world.pass(300, |_| OUTAGE);
    world.pass(200, |_| FULL);
    world.pass(900, |_| CALM);
    let want = [
        "full ticket fired",
        "full ticket resolved",
        "refusing page fired",
        "refusing page resolved",
    ];
    assert_eq!(world.words(), want);
    let ended: Vec<_> = world.evaluator.alerts().map(|alert| alert.ended).collect();
    assert_eq!(ended, [Some(Ended::Superseded), Some(Ended::Quiet)]);
    assert_eq!(world.events[1].0, world.events[2].0, "in the same moment");
}

#[test]
fn two_percent_refused_for_twenty_minutes_is_one_alert() {
    for full_percent in [0, 85] {
        let mut world = World::new();
        world.pass(1_200, |n| Second {
            arrived: 100,
            refused: 2,
            full: n % 100 < full_percent,
        });
        assert_eq!(world.words(), ["refusing page fired"], "{full_percent}");
        world.pass(900, |_| CALM);
        assert_eq!(world.words().len(), 2);
    }
    let mut sheddable = World::new();
    sheddable.facts = Some(Facts {
        severity: Severity::Ticket,
        ..page()
    });
    sheddable.pass(1_200, |_| OUTAGE);
    assert_eq!(sheddable.words(), ["refusing ticket fired"]);
}

/// Every second of a five-minute outage, and of the quiet after it.
#[test]
fn a_restart_at_any_moment_makes_no_second_alert_and_loses_none() {
    for at in (5..600).step_by(17) {
        for down_s in [1, 8] {
            let mut world = World::new();
            let mut left = 300_u64.saturating_sub(at);
            world.pass(at.min(300), |_| OUTAGE);
            world.pass(at.saturating_sub(300), |_| CALM);
            world.restart(down_s);
            left = left.saturating_sub(down_s);
            world.pass(left, |_| OUTAGE);
            world.pass(1_200, |_| CALM);
            let want = ["refusing page fired", "refusing page resolved"];
            assert_eq!(world.words(), want, "restart at {at} for {down_s} s");
            assert!(world.events[0].0 <= 150, "{:?}", world.events);
        }
    }
}

#[test]
fn a_restart_after_a_burst_makes_no_alert() {
    for at in (5..300).step_by(19) {
        let mut world = World::new();
        let left = 60_u64.saturating_sub(at);
        world.pass(at.min(60), |_| OUTAGE);
        world.pass(at.saturating_sub(60), |_| CALM);
        world.restart(0);
        world.pass(left, |_| OUTAGE);
        world.pass(900, |_| CALM);
        assert_eq!(world.events, [], "restart at {at}");
    }
}

#[test]
fn what_comes_back_within_half_an_hour_is_the_same_alert() {
    let mut world = World::new();
    for _ in 0..3 {
        world.pass(300, |_| OUTAGE);
        world.pass(900, |_| CALM);
    }
    assert_eq!(world.words().len(), 6, "each time is told");
    let alerts: Vec<_> = world
        .evaluator
        .alerts()
        .map(|a| (a.id, a.episodes))
        .collect();
    assert_eq!(alerts, [(1, 3)]);
    world.pass(3_600, |_| CALM);
    world.pass(300, |_| OUTAGE);
    assert!(
        world
            .evaluator
            .alerts()
            .any(|alert| (alert.id, alert.episodes) == (2, 1))
    );
}

#[test]
fn a_gateway_that_is_away_neither_alerts_nor_ends_an_alert() {
    let mut world = World::new();
    world.silence(600);
    assert_eq!(world.events, []);
    world.pass(60, |_| OUTAGE);
    world.silence(120);
    world.pass(60, |_| CALM);
    assert_eq!(world.events, [], "the minute before and nothing after");
    world.pass(300, |_| CALM);
    world.pass(130, |_| OUTAGE);
    assert_eq!(world.words(), ["refusing page fired"]);
    world.silence(800);
    assert_eq!(world.words().len(), 1, "silence is not quiet");
    world.pass(200, |_| CALM);
    assert_eq!(world.words().len(), 1, "nor are three minutes of it");
    world.pass(100, |_| CALM);
    assert_eq!(
        world.words(),
        ["refusing page fired", "refusing page resolved"]
    );
    world.pass(130, |_| OUTAGE);
    world.silence(901);
    assert_eq!(
        world.words().len(),
        4,
        "after a quarter of an hour it is over"
    );
    let alert = world.evaluator.alerts().next().unwrap();
    assert_eq!((alert.ended, alert.episodes), (Some(Ended::Unheard), 2));
}

#[test]
fn what_happened_while_a_gateway_was_away_is_known_when_it_is_back() {
    let away = |full_s: u64, refused: u64| {
        let mut world = World::new();
        for _ in 0..240 {
            world.advance();
            world.tick();
        }
        let sample = Sample {
            key: KEY,
            level: Level::Route,
            counts: Counts {
                time_ms: full_s * 1_000,
                arrived: 24_000,
                refused,
            },
        };
        world
            .evaluator
            .observe("gw-a", world.now.at_ms, 240_000, [sample]);
        world.pass(10, |_| CALM);
        world
    };
    assert_eq!(away(240, 12_000).words(), ["refusing page fired"]);
    assert_eq!(away(60, 3_000).words(), [""; 0], "a burst, whenever it was");
}

#[test]
fn one_full_gateway_is_not_averaged_away() {
    let mut world = World::fresh();
    let gateways: Vec<String> = (0..10).map(|n| format!("gw-{n}")).collect();
    for _ in 0..130 {
        world.advance();
        for id in &gateways {
            let second = if id == "gw-7" { OUTAGE } else { CALM };
            world.report(id, 1_000, KEY, second);
        }
        world.tick();
    }
    assert_eq!(world.words(), ["refusing page fired"]);
    let alert = world.evaluator.alerts().next().unwrap();
    assert!(
        alert
            .gateways
            .iter()
            .any(|burning| burning.id == "gw-7" && burning.now)
    );
    assert!(!alert.gateways.iter().any(|burning| burning.id == "gw-1"));
}

#[test]
fn refusals_of_many_gateways_are_seen_together() {
    let mut world = World::fresh();
    let gateways: Vec<String> = (0..30).map(|n| format!("gw-{n}")).collect();
    let little = |n: u64| Second {
        arrived: 1,
        refused: u64::from(n.is_multiple_of(20)),
        full: true,
    };
    for n in 0..150 {
        world.advance();
        for id in &gateways {
            world.report(id, 1_000, KEY, little(n));
        }
        world.tick();
    }
    assert!(
        world.words().contains(&"refusing page fired"),
        "{:?}",
        world.events
    );
}

#[test]
fn a_compartment_that_was_removed_ends_its_alert_and_begins_anew() {
    let mut world = World::new();
    world.pass(200, |_| OUTAGE);
    world.facts = None;
    world.pass(10, |_| OUTAGE);
    assert_eq!(
        world.words(),
        ["refusing page fired", "refusing page resolved"]
    );
    let alert = world.evaluator.alerts().next().unwrap();
    assert_eq!(alert.ended, Some(Ended::Removed));
    world.facts = Some(page());
    world.pass(60, |_| OUTAGE);
    world.pass(60, |_| CALM);
    assert_eq!(world.words().len(), 2, "of before nothing counts");
    world.pass(200, |_| OUTAGE);
    assert_eq!(world.words().len(), 3, "nothing is lost either");
}

#[test]
fn steps_of_the_wall_clock_change_nothing() {
    for step_ms in [-7_200_000, 7_200_000, i64::MIN / 2, i64::MAX / 2] {
        let mut world = World::new();
        world.pass(90, |_| OUTAGE);
        world.now.unix_ms = world.now.unix_ms.saturating_add(step_ms);
        world.pass(210, |_| OUTAGE);
        world.pass(900, |_| CALM);
        assert_eq!(
            world.words(),
            ["refusing page fired", "refusing page resolved"],
            "{step_ms}"
        );
    }
}

#[test]
fn absurd_reports_make_no_absurd_alert() {
    let mut world = World::new();
    let absurd = Sample {
        key: KEY,
        level: Level::Route,
        counts: Counts {
            time_ms: u64::MAX,
            arrived: 0,
            refused: u64::MAX,
        },
    };
    for elapsed_ms in [0, 1, 1_000, u64::MAX] {
        world
            .evaluator
            .observe("gw-x", world.now.at_ms, elapsed_ms, [absurd]);
        world.evaluator.observe("gw-x", 0, elapsed_ms, [absurd]);
        world
            .evaluator
            .observe("gw-x", u64::MAX, elapsed_ms, [absurd]);
        world.tick();
    }
    world.pass(10, |_| CALM);
    for alert in world.evaluator.alerts() {
        let why = why(alert, &Rules::default());
        assert!(why.len() < 500, "{why}");
    }
}

#[test]
fn quiet_compartments_with_little_traffic_are_judged_over_longer() {
    // One request in twelve seconds, all refused: no share of a hundred, but it goes on.
    let mut world = World::new();
    let one = |n: u64, refused| Second {
        arrived: u64::from(n.is_multiple_of(12)),
        refused: if n.is_multiple_of(12) { refused } else { 0 },
        full: false,
    };
    world.pass(3_600, |n| one(n, 0));
    world.pass(1_200, |n| one(n, 1));
    assert_eq!(world.words(), ["refusing page fired"]);
    let fired = world.events[0].0 - 3_600;
    assert!(
        (200..=400).contains(&fired),
        "twenty refusals take four minutes: {fired}"
    );
    // A single refusal of ten requests is nothing.
    let mut world = World::new();
    world.pass(3_600, |n| one(n, u64::from(n == 1_200)));
    assert_eq!(world.events, []);
}

#[test]
fn the_number_of_compartments_is_bounded() {
    let mut evaluator = Evaluator::new(Rules::default());
    let counts = Counts {
        time_ms: 0,
        arrived: 1,
        refused: 1,
    };
    let keys: Vec<String> = (0..30_000).map(|n| format!("tenant/t{n}")).collect();
    for level in [Level::Tenant, Level::Route] {
        let all = keys.iter().map(|key| Sample { key, level, counts });
        evaluator.observe("gw-a", START.at_ms, 1_000, all);
    }
    assert_eq!(evaluator.series, 10_000);
    assert_eq!(evaluator.left_out(), 40_000);
    let later = Now {
        at_ms: START.at_ms + 7_200_000,
        ..START
    };
    let all = keys.iter().rev().take(10).map(|key| Sample {
        key,
        level: Level::Route,
        counts,
    });
    evaluator.observe("gw-a", later.at_ms, 1_000, all);
    assert_eq!(
        evaluator.series, 10,
        "those that are calm for an hour make room"
    );
}

#[test]
fn the_words_carry_the_arithmetic() {
    let mut world = World::new();
    world.pass(30, |_| OUTAGE);
    let pending = &world.evaluator.pending()[0];
    assert_eq!(
        why(pending, &Rules::default()),
        "Lately at its limit for 25 % of the last 2 min (30 s; counts from 80 %); refused 1,500 of \
         12,000 requests, 13 %. It has not lasted, so nobody is told."
    );
    world.pass(270, |_| OUTAGE);
    let alert = world.evaluator.alerts().next().unwrap();
    assert_eq!(
        why(alert, &Rules::default()),
        "It was at its limit for 100 % of the last 2 min (2 min; counts from 80 %) and refused \
         6,000 of 12,000 requests, 50 %; counts above 1.44 % and from 20 refusals."
    );
    assert_eq!(summary(alert), "route/a keeps refusing requests");
}
