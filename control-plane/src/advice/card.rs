//! Advice for one compartment of the policy, from the history.
//!
//! Separate from the arithmetic because here it is decided which rows count: the finest there
//! are, by gateway while they are kept so, else the average gateway's. It must never mix a
//! gateway's limit with the demand of several.

use compartment::policy::Policy;
use compartment::{Class, Key, Level, Limit, Name};
use serde::Serialize;

use super::{Advice, Subject, WhatIf, Window, advise, what_if};
use crate::history::{History, HistoryError, Point, Range, Step};

/// While everything that is known fits into this, it is read as rows of ten seconds.
const FINE_S: i64 = 7_200;
/// As much as one card reads in rows of a minute.
const COARSE_S: i64 = 6 * 86_400;

/// The card of one compartment.
#[derive(Clone, Debug, PartialEq, Serialize, utoipa::ToSchema)]
#[schema(as = Advice)]
pub(crate) struct Card {
    /// Which.
    pub(crate) key: String,
    /// Its level.
    pub(crate) level: Level,
    /// Whose target and headroom count.
    pub(crate) class: Class,
    /// The gateway that needs most; `None`: the average one.
    #[schema(required)]
    pub(crate) gateway: Option<String>,
    /// What the figures say.
    #[serde(flatten)]
    pub(crate) advice: Advice,
}

/// What was measured of one compartment, ready to be asked about.
#[derive(Debug)]
pub(crate) struct Measured {
    key: Key,
    subject: Subject,
    /// Windows of each gateway, or of the average one.
    sets: Vec<(Option<String>, Vec<Window>)>,
}

/// Whose advice can be asked for: everything that the policy gives a limit of its own.
fn subject(policy: &Policy, key: &Key) -> Option<Subject> {
    let route = |id: &Name| policy.routes.iter().find(|route| route.id == *id);
    let (limit, class) = match key {
        Key::Gateway => (Limit::new(policy.gateway.capacity).ok()?, Class::Standard),
        Key::Route(id) => route(id).map(|route| (route.compartment.limit, route.class))?,
        Key::Stream(id) => {
            let route = route(id)?;
            (route.compartment.stream?.limit, route.class)
        }
        Key::Fallback(id) => {
            let route = route(id)?;
            (route.fallback_limit()?, route.class)
        }
        Key::Upstream(id) => {
            let at = policy.upstreams.iter().position(|one| one.id == *id)?;
            let routes = policy.routes.iter().filter(|route| route.upstream == at);
            let class = routes.map(|route| route.class).max();
            (policy.upstreams.get(at)?.limit, class.unwrap_or_default())
        }
        Key::Tenant(id) => {
            let tenant = policy.tenants.iter().find(|tenant| tenant.id == *id)?;
            let plan = tenant.plan.and_then(|plan| policy.plans.get(plan));
            (
                tenant.limit,
                plan.and_then(|plan| plan.class).unwrap_or_default(),
            )
        }
        Key::TenantRoute(..) => return None,
    };
    Some(Subject { limit, class })
}

impl Measured {
    /// Reads what is known of a compartment; `None` when the policy gives it no limit.
    pub(crate) async fn read(
        history: &History,
        policy: &Policy,
        key: &Key,
        now_s: i64,
    ) -> Result<Option<Self>, HistoryError> {
        let Some(subject) = subject(policy, key) else {
            return Ok(None);
        };
        let since = |seconds: i64| Range {
            from_s: now_s.saturating_sub(seconds),
            to_s: now_s,
        };
        let name = key.to_string();
        let coarse = history.series(&name, since(COARSE_S), Step::Minute).await?;
        let fine_from_s = now_s.saturating_sub(FINE_S);
        let is_old = |point: &Point| {
            point.at_s < fine_from_s && point.figures.as_ref().is_some_and(|row| row.arrived > 0)
        };
        let sets = if coarse.points.iter().any(is_old) {
            vec![(None, windows(&coarse.points, Step::Minute))]
        } else {
            let fine = history
                .series(&name, since(FINE_S), Step::TenSeconds)
                .await?;
            let sets = fine.gateways.iter().map(|(gateway, points)| {
                (Some(gateway.to_string()), windows(points, Step::TenSeconds))
            });
            sets.collect()
        };
        Ok(Some(Self {
            key: key.clone(),
            subject,
            sets,
        }))
    }

    /// The card of the gateway that needs most.
    pub(crate) fn card(&self) -> Card {
        let cards = self
            .sets
            .iter()
            .map(|(gateway, windows)| (gateway.clone(), advise(self.subject, windows)));
        let most = cards.max_by(|(_, one), (_, other)| {
            let need = |advice: &Advice| (advice.advised, advice.evidence.arrivals);
            need(one).cmp(&need(other))
        });
        let (gateway, advice) = most.unwrap_or_else(|| (None, advise(self.subject, &[])));
        Card {
            key: self.key.to_string(),
            level: self.key.level(),
            class: self.subject.class,
            gateway,
            advice,
        }
    }

    /// What another limit would do there.
    pub(crate) fn what_if(&self, limit: Limit) -> WhatIf {
        let gateway = self.card().gateway;
        let set = self.sets.iter().find(|(name, _)| *name == gateway);
        let windows = set.map(|(_, windows)| windows.as_slice());
        what_if(self.subject, windows.unwrap_or_default(), limit)
    }
}

/// A slot of which nobody was heard is no window.
fn windows(points: &[Point], step: Step) -> Vec<Window> {
    let known = points.iter().filter_map(|point| {
        let row = point.figures.as_ref()?;
        let gateways = point.heard.gateways.max(1);
        let from_ms = point.at_s.saturating_mul(1_000);
        (point.heard.gateway_us > 0).then(|| Window {
            from_ms,
            to_ms: from_ms.saturating_add(step.seconds().saturating_mul(1_000)),
            elapsed_us: point.heard.gateway_us,
            arrived: row.arrived,
            rejected: row.refused(),
            breaker_open: row
                .rejected
                .iter()
                .filter(|(why, _)| *why == compartment::Rejection::BreakerOpen)
                .map(|(_, count)| count)
                .sum(),
            peak: u32::try_from(row.peak.div_ceil(gateways)).unwrap_or(u32::MAX),
            in_flight_us: row.in_flight_us,
            hold: row.hold.clone(),
        })
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use compartment::Rejection;
    use serde_json::json;
    use wire::document::{self, Syntax};

    use super::super::{Verdict, findings};
    use super::*;
    use crate::history::HistorySettings;
    use crate::readings::Reading;

    const BEGAN_S: i64 = 1_767_571_200;

    fn policy() -> Policy {
        let document = json!({
            "schema": 1,
            "upstreams": {"main": {"endpoints": ["http://127.0.0.1:9"]}},
            "routes": [{"id": "a", "path": "/a", "upstream": "main",
                        "compartment": {"limit": 12}, "timeout": {"attempt": "1s"}}],
        });
        document::load(&document.to_string(), Syntax::Json)
            .unwrap()
            .policy
    }

    /// 100 a second of 100 ms each, on one gateway, of which a limit of 12 refuses some.
    fn second(gateway: &str, at_s: i64, scale: u64) -> [Reading; 2] {
        let of = |key: &str, level| {
            let (gateway, key) = (Arc::from(gateway), Arc::from(key));
            Reading::empty(gateway, key, level, at_s * 1_000, 1_000_000)
        };
        let mut route = Reading {
            limit: Limit::new(12).unwrap(),
            arrived: 100 * scale,
            admitted: 80 * scale,
            completed: 80 * scale,
            rejected: vec![(Rejection::RouteFull, 20 * scale)],
            in_flight_us: 8_000_000 * scale,
            peak: 12,
            ..of("route/a", Level::Route)
        };
        route.hold.record_n(100_000, 80 * scale);
        [of("gateway", Level::Gateway), route]
    }

    async fn measured(seconds: i64, gateways: &[(&str, u64)]) -> (tempfile::TempDir, Measured) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.db");
        let history = History::open(path, HistorySettings::default()).await;
        for at_s in 0..seconds {
            for (gateway, scale) in gateways {
                history.record(&second(gateway, BEGAN_S + at_s, *scale));
            }
        }
        let key = "route/a".parse().unwrap();
        let now_s = BEGAN_S + seconds;
        let read = Measured::read(&history, &policy(), &key, now_s)
            .await
            .unwrap();
        (folder, read.unwrap())
    }

    #[tokio::test]
    async fn a_card_rests_on_what_one_gateway_was_asked() {
        let (_folder, measured) = measured(300, &[("one", 1), ("two", 2)]).await;
        let card = measured.card();
        // 200/s x 100 ms on the busier one; the limit there is its own.
        assert_eq!(card.gateway.as_deref(), Some("two"));
        assert!(
            (card.advice.evidence.offered - 20.0).abs() < 0.5,
            "{card:?}"
        );
        assert_eq!(
            card.advice.verdict,
            Verdict::Raise,
            "{}",
            card.advice.summary
        );
        let advised = card.advice.advised.unwrap();
        assert!((30..=36).contains(&advised), "{advised}");
        let what_if = measured.what_if(Limit::new(12).unwrap());
        assert_eq!(what_if.refused_share, card.advice.predicted_refused);
    }

    #[tokio::test]
    async fn measured_figures_find_what_the_policy_alone_does_not() {
        let (_folder, measured) = measured(300, &[("one", 1)]).await;
        let found = findings(&policy(), &[measured.card()]);
        let of_traffic: Vec<&str> = found
            .iter()
            .filter(|(measures, _)| *measures == super::super::findings::Measures::Traffic)
            .map(|(_, finding)| finding.rule)
            .collect();
        // 12 slots fill in 120 ms at 100/s, and an attempt may take a second.
        assert!(
            of_traffic.contains(&"L2") && of_traffic.contains(&"L17"),
            "{found:?}"
        );
        let (_folder, silent) = self::measured(5, &[("one", 1)]).await;
        let silent = findings(&policy(), &[silent.card()]);
        assert_eq!(
            silent,
            findings(&policy(), &[]),
            "too little evidence says nothing"
        );
    }
}
