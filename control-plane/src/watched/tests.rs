//! What counts for a watched limit, and what does not.

use compartment::Level;
use compartment::policy::check;
use wire::parts::Parts;

use super::*;
use crate::store::Generation;

fn published(number: u64, own: &str) -> Published {
    let document = serde_json::from_str(&format!(
        r#"{{"schema": 1, "upstreams": {{"u": {{"endpoints": ["http://127.0.0.1:1"]}}}},
            "plans": {{"free": {{"limit": 9, "routes": {{"a": 7}}}}}},
            "routes": [{{"id": "a", "path": "/a", "upstream": "u", "compartment": {own}}},
                       {{"id": "b", "path": "/b", "upstream": "u",
                         "compartment": {{"limit": 5, "mode": "shadow"}}}}]}}"#
    ))
    .unwrap();
    let about = Generation {
        number,
        digest: String::new(),
        author: String::new(),
        comment: String::new(),
        source: String::new(),
        created_at: String::new(),
        kept: true,
    };
    let policy = check(&document).unwrap();
    Published::written(
        about,
        "one",
        document,
        Parts::of(bytes::Bytes::new()),
        policy,
    )
}

struct Plane {
    watched: Watched,
    newest: Published,
    boot: &'static str,
    now_ms: i64,
}

impl Plane {
    fn new(own: &str) -> Self {
        let newest = published(1, own);
        assert!(newest.policy.is_ok(), "{:?}", newest.policy);
        let watched = Watched::default();
        watched.learn(&newest);
        Self {
            watched,
            newest,
            boot: "boot",
            now_ms: 1_000,
        }
    }

    fn publish(&mut self, own: &str) {
        self.newest = published(self.newest.about.number + 1, own);
        assert!(self.newest.policy.is_ok(), "{:?}", self.newest.policy);
        self.watched.learn(&self.newest);
    }

    fn report(&mut self, generation: u64, figures: &[Figures]) {
        self.now_ms += 1_000;
        let mark = ReportMark {
            boot_id: self.boot.to_owned(),
            ..ReportMark::default()
        };
        let received = Received {
            at: crate::clock::now(),
            unix_ms: self.now_ms,
        };
        self.watched
            .take("gw", &mark, generation, figures, received);
    }

    /// Calls, refusals that would have been, and the peak, since when; as the page asks for it.
    fn counted(&self, key: &str, figures: &[Figures]) -> Option<(u64, u64, u32, i64)> {
        let terms = terms(self.newest.policy.as_ref().unwrap());
        let bases = self.watched.bases([key].into_iter());
        let base = bases.get("gw")?.get(key)?;
        let own = base.since(key, terms.get(key)?, figures);
        let route = own.first()?;
        let would: u64 = route.shadow_rejected.values().sum();
        Some((route.arrived, would, route.peak, base.since_ms))
    }
}

fn figures(key: &str, calls: u64, would: u64, in_flight: u32) -> Figures {
    let level = if key.contains("/tenant/") {
        Level::TenantRoute
    } else {
        Level::Route
    };
    let mut one = Figures::new(key.to_owned(), level, Limit::UNLIMITED);
    (one.arrived, one.in_flight, one.peak) = (calls, in_flight, 99);
    one.busy_us = calls * 1_000;
    if would > 0 {
        one.shadow_rejected = [(Rejection::RouteFull, would)].into();
    }
    one
}

const SHADOW: &str = r#"{"limit": 50, "mode": "shadow"}"#;

#[test]
fn a_changed_limit_counts_anew_and_a_change_elsewhere_does_not() {
    let mut plane = Plane::new(SHADOW);
    plane.report(1, &[figures("route/a", 0, 0, 0)]);
    let now = [figures("route/a", 464, 0, 8)];
    plane.report(1, &now);
    assert_eq!(plane.counted("route/a", &now), Some((464, 0, 8, 2_000)));
    // Another key of the same route, and another route: nothing changes.
    plane.publish(r#"{"limit": 50, "mode": "shadow", "max_hold": "20s"}"#);
    plane.watched.runs("gw", 2);
    plane.report(2, &now);
    assert_eq!(plane.counted("route/a", &now), Some((464, 0, 8, 2_000)));
    for (own, what) in [
        (r#"{"limit": 1, "mode": "shadow"}"#, "limit"),
        (
            r#"{"limit": 1, "mode": "shadow", "candidate": 3}"#,
            "candidate",
        ),
        (r#"{"limit": 1, "mode": "enforce", "candidate": 3}"#, "mode"),
        (
            r#"{"limit": 1, "candidate": 3, "queue": 2, "queue_wait": "5ms"}"#,
            "queue",
        ),
        (
            r#"{"limit": 9, "candidate": 3, "class_reserve": 1}"#,
            "class_reserve",
        ),
        (
            r#"{"limit": 9, "candidate": 3, "tenant_limit": 2}"#,
            "tenant_limit",
        ),
        (
            r#"{"limit": 9, "candidate": 3, "tenant_share": 0.5}"#,
            "tenant_share",
        ),
    ] {
        plane.publish(own);
        let number = plane.newest.about.number;
        // Published, and the gateway does not run it yet: what it counts is of other numbers.
        assert_eq!(plane.counted("route/a", &now), None, "{what}");
        plane.report(number - 1, &now);
        assert_eq!(plane.counted("route/a", &now), None, "{what}");
        plane.report(number, &now);
        let counted = plane.counted("route/a", &now);
        assert_eq!(counted, Some((0, 0, 8, plane.now_ms)), "{what}");
    }
    let other = plane.counted("route/b", &[figures("route/b", 3, 1, 1)]);
    assert_eq!(other, Some((3, 1, 0, 2_000)), "another route counts on");
}

#[test]
fn refusals_for_real_are_in_no_share_of_a_shadow() {
    let mut plane = Plane::new(r#"{"limit": 5}"#);
    let mut enforced = figures("route/a", 368, 0, 2);
    enforced.rejected = [(Rejection::RouteFull, 138)].into();
    plane.report(1, std::slice::from_ref(&enforced));
    assert_eq!(
        plane.counted("route/a", &[enforced.clone()]),
        None,
        "nothing is watched"
    );
    plane.publish(r#"{"limit": 5, "mode": "shadow"}"#);
    plane.report(2, std::slice::from_ref(&enforced));
    let later = figures("route/a", 468, 40, 5);
    assert_eq!(
        plane.counted("route/a", &[later]).unwrap(),
        (100, 40, 2, 3_000)
    );
}

#[test]
fn a_generation_that_ran_for_a_moment_between_two_reports_is_noticed() {
    let mut plane = Plane::new(SHADOW);
    plane.report(1, &[figures("route/a", 10, 0, 1)]);
    plane.publish(r#"{"limit": 2, "mode": "shadow"}"#);
    plane.publish(SHADOW);
    plane.watched.runs("gw", 2);
    plane.watched.runs("gw", 3);
    let now = [figures("route/a", 500, 9, 3)];
    plane.report(3, &now);
    assert_eq!(plane.counted("route/a", &now), Some((0, 0, 3, 3_000)));
    // A generation that nobody here ever sent says nothing about what was counted under it.
    plane.report(0, &now);
    assert_eq!(plane.counted("route/a", &now), None);
}

#[test]
fn another_process_counts_from_its_own_start() {
    let mut plane = Plane::new(SHADOW);
    plane.report(1, &[figures("route/a", 900, 30, 1)]);
    plane.boot = "another";
    plane.report(1, &[figures("route/a", 2, 0, 1)]);
    let now = [figures("route/a", 1_000, 3, 1)];
    assert_eq!(plane.counted("route/a", &now), Some((998, 3, 1, 3_000)));
    // The same without a word about it: counters that fell, and grew beyond where they began.
    plane.report(1, &now);
    plane.report(1, &[figures("route/a", 5, 3, 0)]);
    let later = [figures("route/a", 1_005, 3, 1)];
    assert_eq!(plane.counted("route/a", &later), Some((1_000, 0, 0, 5_000)));
}

#[test]
fn tenants_are_counted_from_the_same_moment() {
    let mut plane = Plane::new(SHADOW);
    let acme = |calls, would| figures("route/a/tenant/acme", calls, would, 0);
    plane.report(1, &[figures("route/a", 100, 10, 1), acme(60, 10)]);
    let terms = terms(plane.newest.policy.as_ref().unwrap());
    let others = plane.watched.bases(["route/none"].into_iter());
    assert!(others["gw"].is_empty(), "nothing that was not asked for");
    let bases = plane.watched.bases(["route/a"].into_iter());
    let base = bases.get("gw").unwrap().get("route/a").unwrap();
    let told = |list: &[Figures]| -> Vec<(String, u64)> {
        let own = base.since("route/a", terms.get("route/a").unwrap(), list);
        own.into_iter().map(|one| (one.key, one.arrived)).collect()
    };
    let zeta = figures("route/a/tenant/zeta", 7, 0, 0);
    let named = |key: &str, calls| (format!("route/a{key}"), calls);
    assert_eq!(
        told(&[figures("route/a", 120, 11, 1), acme(70, 11), zeta]),
        [
            named("", 20),
            named("/tenant/acme", 10),
            named("/tenant/zeta", 7)
        ]
    );
    // Folded and back: its gateway counts it anew.
    assert_eq!(
        told(&[figures("route/a", 120, 11, 1), acme(4, 0)]),
        [named("", 20), named("/tenant/acme", 4)]
    );
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut plane = Plane::new(SHADOW);
    for _ in 0..3 * GENERATIONS_MAX {
        plane.publish(SHADOW);
    }
    for n in 0..GATEWAYS_MAX + 5 {
        let received = Received {
            at: crate::clock::now(),
            unix_ms: i64::try_from(n).unwrap(),
        };
        let id = format!("gw-{n}");
        plane
            .watched
            .take(&id, &ReportMark::default(), 1, &[], received);
    }
    plane.watched.with(|inner| {
        assert_eq!(inner.terms.len(), GENERATIONS_MAX);
        assert_eq!(inner.gateways.len(), GATEWAYS_MAX);
        assert!(inner.gateways.contains_key("gw-1004") && !inner.gateways.contains_key("gw-0"));
    });
}
