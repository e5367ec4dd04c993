//! What goes out, to whom, together with what, and when again after a failure.
//!
//! Separate from the sending because it is decided without a socket. The form is that of
//! Alertmanager's webhook, version 4. It must never tell twice what a receiver took.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use super::alert::{Alert, Severity};
use super::evaluator::{Evaluator, Now};
use super::rules::Rules;
use super::words;

/// Waits after the first failures; the last one is repeated.
const BACK_OFF_MS: [u64; 7] = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
/// Tries of one notice: an hour of them.
pub(super) const ATTEMPTS_MAX: usize = 65;
/// Most alerts in one notice.
const ALERTS_MAX: usize = 100;

/// What receivers are told together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Notice {
    /// Names it over its whole life.
    pub(super) group: String,
    pub(super) severity: Severity,
    /// Number and episode of the alerts in it, and whether they fire.
    pub(super) alerts: Vec<(u64, u32, bool)>,
    pub(super) body: Json,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The receiver took it.
    Taken,
    /// It may take it later.
    Failed,
    /// It never will.
    Refused,
}

/// What is on its way out.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// Since when each change waits to be told: number, episode, fires.
    waiting: BTreeMap<(u64, u32, bool), u64>,
    /// Failures of each group, and when it is tried again.
    failed: BTreeMap<String, (usize, u64)>,
}

impl Desk {
    /// The next notice that is due. Groups are chosen now, so that what fires together goes out
    /// together.
    pub(super) fn next(
        &mut self,
        evaluator: &mut Evaluator,
        now: Now,
        wanted: &dyn Fn(Severity) -> bool,
        origin: &str,
    ) -> Option<Notice> {
        let rules = evaluator.rules;
        let untold: Vec<Alert> = evaluator
            .alerts()
            .filter(|alert| alert.is_untold() && alert.silenced_until_ms <= now.unix_ms)
            .filter(|alert| wanted(alert.severity))
            .cloned()
            .collect();
        let names: BTreeSet<_> = untold.iter().map(change).collect();
        self.waiting.retain(|change, _| names.contains(change));
        for change in &names {
            self.waiting.entry(*change).or_insert(now.at_ms);
        }
        let ripe = |alert: &&Alert| {
            let since = self
                .waiting
                .get(&change(alert))
                .copied()
                .unwrap_or(now.at_ms);
            now.at_ms.saturating_sub(since) >= rules.group_wait_ms()
        };
        let due: Vec<&Alert> = untold.iter().filter(ripe).collect();
        for alert in due {
            let group = match &alert.group {
                Some(group) => group.clone(),
                None => assign(evaluator, alert),
            };
            let (_, again_ms) = self.failed.get(&group).copied().unwrap_or_default();
            if now.at_ms >= again_ms {
                return Some(notice(evaluator, group, alert.severity, origin));
            }
        }
        None
    }

    /// Takes note of what became of a notice. The numbers of the alerts that were told.
    pub(super) fn done(
        &mut self,
        evaluator: &mut Evaluator,
        notice: &Notice,
        sent: Sent,
        now: Now,
    ) -> Vec<u64> {
        let (tries, _) = self.failed.get(&notice.group).copied().unwrap_or_default();
        let tries = tries.saturating_add(1);
        if sent == Sent::Failed && tries < ATTEMPTS_MAX {
            let wait = BACK_OFF_MS
                .get(tries.saturating_sub(1))
                .or(BACK_OFF_MS.last());
            let again_ms = now.at_ms.saturating_add(wait.copied().unwrap_or_default());
            self.failed.insert(notice.group.clone(), (tries, again_ms));
            return Vec::new();
        }
        self.failed.remove(&notice.group);
        let mut told = Vec::new();
        for (id, episode, fires) in &notice.alerts {
            let Some(alert) = evaluator.alert_mut(*id) else {
                continue;
            };
            alert.told.firing = alert.told.firing.max(*episode);
            if !fires {
                alert.told.resolved = alert.told.resolved.max(*episode);
            }
            told.push(*id);
        }
        told
    }
}

fn change(alert: &Alert) -> (u64, u32, bool) {
    (alert.id, alert.episodes, alert.is_firing())
}

/// The group of an alert that fires: its upstream's when many compartments of that burn, else its
/// own.
fn assign(evaluator: &mut Evaluator, alert: &Alert) -> String {
    let severity = alert.severity;
    let own = format!("{}/{}", severity.as_str(), alert.compartment);
    let firing = |other: &&Alert| other.is_firing() && other.severity == severity;
    let burning = |upstream: &String| {
        let with = |other: &&Alert| other.upstreams.contains(upstream);
        evaluator.alerts().filter(firing).filter(with).count()
    };
    let wide = alert
        .upstreams
        .iter()
        .find(|upstream| burning(upstream) >= Rules::GROUP_MIN);
    let Some(upstream) = wide.cloned() else {
        if let Some(alert) = evaluator.alert_mut(alert.id) {
            alert.group = Some(own.clone());
        }
        return own;
    };
    let group = format!("{}/all-of-upstream/{upstream}", severity.as_str());
    let with = |other: &&Alert| other.upstreams.contains(&upstream) && other.group.is_none();
    let ids: Vec<u64> = evaluator
        .alerts()
        .filter(firing)
        .filter(with)
        .map(|a| a.id)
        .collect();
    for id in ids {
        if let Some(alert) = evaluator.alert_mut(id) {
            alert.group = Some(group.clone());
        }
    }
    group
}

/// All that a group has to say now: what fires, and what ended since it was last told.
fn notice(evaluator: &Evaluator, group: String, severity: Severity, origin: &str) -> Notice {
    let mine = |alert: &&Alert| alert.group.as_ref() == Some(&group);
    let news = |alert: &&Alert| alert.is_firing() || alert.is_untold();
    let all: Vec<&Alert> = evaluator.alerts().filter(mine).filter(news).collect();
    let body = payload(&all, &group, &evaluator.rules, origin);
    let told = all
        .iter()
        .take(ALERTS_MAX)
        .map(|alert| change(alert))
        .collect();
    Notice {
        group,
        severity,
        alerts: told,
        body,
    }
}

fn payload(all: &[&Alert], group: &str, rules: &Rules, origin: &str) -> Json {
    let alerts: Vec<Json> = all
        .iter()
        .take(ALERTS_MAX)
        .map(|alert| one(alert, rules, origin))
        .collect();
    let common = |part: &str| -> Map<String, Json> {
        let mut parts = alerts
            .iter()
            .filter_map(|alert| alert.get(part)?.as_object());
        let mut common = parts.next().cloned().unwrap_or_default();
        for other in parts {
            common.retain(|name, value| other.get(name) == Some(value));
        }
        common
    };
    let fires = all.iter().any(|alert| alert.is_firing());
    let upstream = group
        .split_once("/all-of-upstream/")
        .map(|(_, upstream)| upstream);
    let labels = match (upstream, all.first()) {
        (Some(upstream), _) => json!({ "upstream": upstream }),
        (None, Some(alert)) => json!({ "compartment": alert.compartment }),
        (None, None) => json!({}),
    };
    json!({
        "version": "4",
        "groupKey": group,
        "truncatedAlerts": all.len().saturating_sub(ALERTS_MAX),
        "status": if fires { "firing" } else { "resolved" },
        "receiver": "bulkhead",
        "groupLabels": labels,
        "commonLabels": common("labels"),
        "commonAnnotations": common("annotations"),
        "externalURL": origin,
        "alerts": alerts,
    })
}

fn one(alert: &Alert, rules: &Rules, origin: &str) -> Json {
    let gateways: Vec<&str> = alert
        .gateways
        .iter()
        .filter(|burning| !burning.id.is_empty())
        .map(|burning| burning.id.as_str())
        .collect();
    let ends = alert.resolved_ms.filter(|_| !alert.is_firing());
    json!({
        "status": if alert.is_firing() { "firing" } else { "resolved" },
        "labels": {
            "alertname": alert.cause.alert_name(),
            "severity": alert.severity.as_str(),
            "compartment": alert.compartment,
            "level": alert.level.as_str(),
            "upstream": alert.upstreams.join(","),
        },
        "annotations": {
            "summary": words::summary(alert),
            "description": words::why(alert, rules),
            "gateways": gateways.join(", "),
        },
        "startsAt": instant(alert.fired_ms),
        "endsAt": ends.map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), instant),
        "generatorURL": format!("{origin}/alerts#alert-{}", alert.id),
        "fingerprint": format!("{:016x}", alert.id),
    })
}

/// A moment of the wall clock, in UTC.
pub(crate) fn instant(unix_ms: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(unix_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{moment:.3}")
}
