//! What is told together, in which form, how often, and what is not told twice.

use serde_json::Value as Json;

use super::super::notice::{ATTEMPTS_MAX, Desk, Notice, Sent};
use super::*;

const ORIGIN: &str = "http://127.0.0.1:8081";

/// Many routes of one upstream, on one gateway.
struct Wide {
    world: World,
    desk: Desk,
}

impl Wide {
    fn new() -> Self {
        Self {
            world: World::fresh(),
            desk: Desk::default(),
        }
    }

    /// So many seconds in which these routes refuse; the notices that came due, each taken.
    fn pass(&mut self, seconds: u64, burning: &[&str]) -> Vec<Notice> {
        let mut told = Vec::new();
        for _ in 0..seconds {
            self.world.advance();
            for n in 0..6 {
                let key = format!("route/r{n}");
                let second = if burning.contains(&key.as_str()) {
                    OUTAGE
                } else {
                    CALM
                };
                self.world.report("gw-a", 1_000, &key, second);
            }
            let facts = Some(page());
            self.world
                .evaluator
                .tick(self.world.now, &|_, _| facts.clone());
            while let Some(notice) = self.next() {
                self.done(&notice, Sent::Taken);
                told.push(notice);
            }
        }
        told
    }

    fn next(&mut self) -> Option<Notice> {
        self.desk
            .next(&mut self.world.evaluator, self.world.now, &|_| true, ORIGIN)
    }

    fn done(&mut self, notice: &Notice, sent: Sent) -> Vec<u64> {
        self.desk
            .done(&mut self.world.evaluator, notice, sent, self.world.now)
    }
}

fn compartments(notice: &Notice) -> Vec<String> {
    let alerts = notice.body["alerts"].as_array().unwrap();
    let key = |alert: &Json| alert["labels"]["compartment"].as_str().unwrap().to_owned();
    alerts.iter().map(key).collect()
}

#[test]
fn many_compartments_of_one_upstream_are_one_notice() {
    let mut wide = Wide::new();
    let all: Vec<String> = (0..6).map(|n| format!("route/r{n}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let told = wide.pass(200, &all);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].group, "page/all-of-upstream/main");
    assert_eq!(told[0].body["groupLabels"]["upstream"], "main");
    assert_eq!(compartments(&told[0]).len(), 6);
    assert_eq!(told[0].body["commonLabels"]["severity"], "page");
    assert!(told[0].body["commonLabels"].get("compartment").is_none());
    // They end together: one more, of the same group.
    let told = wide.pass(400, &[]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0].body["status"], told[0].group.as_str()),
        (&"resolved".into(), "page/all-of-upstream/main")
    );
}

#[test]
fn few_compartments_have_a_notice_each() {
    let mut wide = Wide::new();
    let told = wide.pass(200, &["route/r1", "route/r2"]);
    let groups: Vec<&str> = told.iter().map(|notice| notice.group.as_str()).collect();
    assert_eq!(groups, ["page/route/r1", "page/route/r2"]);
    assert_eq!(compartments(&told[0]), ["route/r1"]);
    assert_eq!(
        told[0].body["alerts"][0]["generatorURL"],
        format!("{ORIGIN}/alerts#alert-1")
    );
    // One of them goes on: only the end of the other is told.
    let told = wide.pass(400, &["route/r1"]);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].group.as_str(), &told[0].body["status"]),
        ("page/route/r2", &"resolved".into())
    );
    let ends = told[0].body["alerts"][0]["endsAt"].as_str().unwrap();
    assert!(ends.starts_with("20") && ends.ends_with('Z'), "{ends}");
}

#[test]
fn a_receiver_that_fails_is_asked_again_later_and_not_for_ever() {
    let mut wide = Wide::new();
    let burning = ["route/r1"];
    let mut first = Vec::new();
    while first.is_empty() {
        first = wide.pass(1, &burning);
    }
    // As if it had not been taken.
    let id = wide.world.evaluator.alerts().next().unwrap().id;
    wide.world.evaluator.alert_mut(id).unwrap().told = Told::default();
    let (mut tries, mut waits, mut waited) = (0, Vec::new(), 0_u64);
    for _ in 0..5_000 {
        wide.world.advance();
        wide.world.report("gw-a", 1_000, "route/r1", OUTAGE);
        let facts = Some(page());
        wide.world
            .evaluator
            .tick(wide.world.now, &|_, _| facts.clone());
        waited += 1;
        if let Some(notice) = wide.next() {
            tries += 1;
            waits.push(waited);
            waited = 0;
            let lost = wide.done(&notice, Sent::Failed);
            assert_eq!(lost.is_empty(), tries < ATTEMPTS_MAX, "{tries}");
        }
    }
    assert_eq!(tries, ATTEMPTS_MAX, "given up");
    assert_eq!(waits[1..8], [1, 2, 4, 8, 16, 32, 60], "{waits:?}");
    assert!(waits[8..].iter().all(|wait| *wait == 60));
}

#[test]
fn what_is_silenced_or_has_no_receiver_is_not_told() {
    let mut wide = Wide::new();
    let nobody = |wide: &mut Wide| {
        wide.desk.next(
            &mut wide.world.evaluator,
            wide.world.now,
            &|_| false,
            ORIGIN,
        )
    };
    for _ in 0..200 {
        wide.world.advance();
        wide.world.report("gw-a", 1_000, KEY, OUTAGE);
        let facts = Some(page());
        wide.world
            .evaluator
            .tick(wide.world.now, &|_, _| facts.clone());
        assert_eq!(nobody(&mut wide), None);
    }
    let id = wide.world.evaluator.alerts().next().unwrap().id;
    let until = wide.world.now.unix_ms + 60_000;
    wide.world
        .evaluator
        .alert_mut(id)
        .unwrap()
        .silenced_until_ms = until;
    assert_eq!(wide.next(), None);
    for _ in 0..60 + 11 {
        wide.world.advance();
        wide.next();
    }
    assert!(wide.next().is_some(), "the silence is over");
}
