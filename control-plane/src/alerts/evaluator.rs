//! From readings to alerts: what each compartment of each gateway did, and which alerts that makes.
//!
//! Separate from everything that has a clock, a socket or a store: time and policy are parameters,
//! so that days of traffic run in a test. It must never take an average over gateways for all of
//! them: one that is full is enough.

use std::collections::BTreeMap;
use std::sync::Arc;

use compartment::Level;

use super::alert::{Alert, Burning, Cause, Ended, Severity};
use super::decide::{Look, Subject};
use super::rules::Rules;
use super::series::{Rule, Series};
use super::window::{Counts, Ring};

/// Most compartments of gateways that are followed at once.
pub(super) const SERIES_MAX: usize = 10_000;
/// Most gateways of one alert that are listed.
pub(super) const BURNING_MAX: usize = 50;

/// What one report says of one compartment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The compartment.
    pub key: &'a str,
    /// Its level.
    pub level: Level,
    /// What was counted since the report before.
    pub counts: Counts,
}

/// What the policy says of a compartment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether its refusals wake somebody.
    pub severity: Severity,
    /// The upstreams behind it.
    pub upstreams: Vec<String>,
}

/// A moment: on a line that only rises, and on the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since some beginning.
    pub at_ms: u64,
    /// Milliseconds of the wall clock; may step.
    pub unix_ms: i64,
}

impl Now {
    /// A moment on the line, as the wall clock would have shown it.
    pub(super) fn wall(&self, at_ms: u64) -> i64 {
        let ago = i64::try_from(self.at_ms.saturating_sub(at_ms)).unwrap_or(i64::MAX);
        self.unix_ms.saturating_sub(ago)
    }
}

/// A gateway, as far as it is heard.
#[derive(Debug)]
struct Heard {
    ring: Ring,
    last_ms: u64,
}

/// One compartment.
#[derive(Debug)]
pub(super) struct Compartment {
    pub(super) level: Level,
    /// All gateways together, from the second one on.
    pub(super) fleet: Option<Series>,
    pub(super) gateways: BTreeMap<Arc<str>, Series>,
}

/// What is known of all compartments, and the alerts that it made.
#[derive(Debug)]
pub struct Evaluator {
    pub(super) rules: Rules,
    heard: BTreeMap<Arc<str>, Heard>,
    pub(super) compartments: BTreeMap<Arc<str>, Compartment>,
    pub(super) series: usize,
    left_out: u64,
    room_sought_ms: u64,
    /// Those that fire, and those that ended so lately that they may come back.
    alerts: BTreeMap<u64, Alert>,
    pending: Vec<Alert>,
    next_id: u64,
}

impl Evaluator {
    /// Nothing is known yet.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            heard: BTreeMap::new(),
            compartments: BTreeMap::new(),
            series: 0,
            left_out: 0,
            room_sought_ms: 0,
            alerts: BTreeMap::new(),
            pending: Vec::new(),
            next_id: 1,
        }
    }

    /// The alerts that fire or ended lately, by number.
    pub fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values()
    }

    /// One of them, to be marked as told or silenced.
    pub fn alert_mut(&mut self, id: u64) -> Option<&mut Alert> {
        self.alerts.get_mut(&id)
    }

    /// Trouble that has not lasted.
    pub fn pending(&self) -> &[Alert] {
        &self.pending
    }

    /// Samples that found no place: more compartments are in trouble than are followed.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What the store knows of before: alerts that fire or ended lately, and the highest number.
    pub fn restore_alerts(&mut self, alerts: Vec<Alert>, newest_id: u64, now: Now) {
        for alert in alerts {
            for burning in alert
                .gateways
                .iter()
                .filter(|burning| !burning.id.is_empty())
            {
                // Not heard yet, and not unheard for long either.
                self.gateway(&burning.id, now.at_ms);
            }
            self.alerts.insert(alert.id, alert);
        }
        self.next_id = self.next_id.max(newest_id.saturating_add(1));
    }

    /// Takes up what another process stored that looks at the rules in place of this one.
    pub(super) fn follow(&mut self, alerts: Vec<Alert>, newest_id: u64, now: Now) {
        self.pending.clear();
        self.alerts.clear();
        self.forget_the_unheard(now);
        self.next_id = 1;
        self.restore_alerts(alerts, newest_id, now);
    }

    pub(super) fn gateway(&mut self, id: &str, at_ms: u64) -> Arc<str> {
        if let Some((name, _)) = self.heard.get_key_value(id) {
            return Arc::clone(name);
        }
        let name: Arc<str> = id.into();
        let ring = Ring::new(self.rules.fine_ms(), self.rules.clear_ms());
        let heard = Heard {
            ring,
            last_ms: at_ms,
        };
        self.heard.insert(Arc::clone(&name), heard);
        name
    }

    /// A gateway reported what happened in the `elapsed_ms` before `at_ms`; of compartments that
    /// it does not name, nothing did.
    pub fn observe<'a>(
        &mut self,
        gateway: &str,
        at_ms: u64,
        elapsed_ms: u64,
        samples: impl IntoIterator<Item = Sample<'a>>,
    ) {
        let name = self.gateway(gateway, at_ms);
        let from_ms = at_ms.saturating_sub(elapsed_ms);
        if let Some(heard) = self.heard.get_mut(&name) {
            let time = Counts {
                time_ms: elapsed_ms,
                ..Counts::default()
            };
            heard.ring.spread(from_ms, at_ms, &time);
            heard.last_ms = heard.last_ms.max(at_ms);
        }
        for sample in samples {
            self.take(&name, from_ms, at_ms, &sample);
        }
    }

    fn take(&mut self, gateway: &Arc<str>, from_ms: u64, to_ms: u64, sample: &Sample<'_>) {
        let rules = self.rules;
        let mut counts = sample.counts;
        // Time at the limit cannot be longer than the time that passed.
        counts.time_ms = counts.time_ms.min(to_ms.saturating_sub(from_ms));
        if counts.is_nothing() {
            return;
        }
        let known = self.compartments.get(sample.key);
        let is_followed = known.is_some_and(|one| one.gateways.contains_key(gateway));
        let is_trouble = counts.refused > 0 || counts.time_ms > 0;
        if !is_followed {
            // A tenant in no trouble is one of very many.
            let wanted = is_trouble || !matches!(sample.level, Level::Tenant | Level::TenantRoute);
            if !wanted {
                return;
            }
            if self.series >= SERIES_MAX && !self.make_room(to_ms) {
                self.left_out = self.left_out.saturating_add(u64::from(is_trouble));
                return;
            }
        }
        let compartment = self.compartments.entry(sample.key.into());
        let compartment = compartment.or_insert_with(|| Compartment::new(sample.level));
        self.series = self.series.saturating_sub(compartment.series());
        compartment.add(&rules, gateway, from_ms, to_ms, &counts);
        self.series = self.series.saturating_add(compartment.series());
    }

    /// Forgets compartments that have been calm for an hour, all at once.
    fn make_room(&mut self, now_ms: u64) -> bool {
        let rules = self.rules;
        // Looked for once in a while: with many tenants in trouble there is none to be found.
        if now_ms < self.room_sought_ms.saturating_add(rules.fine_ms()) {
            return false;
        }
        self.room_sought_ms = now_ms;
        let calm = |one: &Compartment| one.all().all(|(_, series)| series.is_calm(&rules, now_ms));
        self.compartments.retain(|_, one| !calm(one));
        self.series = self.compartments.values().map(Compartment::series).sum();
        self.series < SERIES_MAX
    }

    /// Looks at the rules. The numbers of the alerts that changed, each once.
    pub fn tick(&mut self, now: Now, facts: &dyn Fn(&str, Level) -> Option<Facts>) -> Vec<u64> {
        self.pending.clear();
        self.forget_the_unheard(now);
        let mut changed = Vec::new();
        let keys: Vec<Arc<str>> = self.compartments.keys().cloned().collect();
        for key in keys {
            let level = self.compartments.get(&key).map(|one| one.level);
            match level.and_then(|level| facts(&key, level)) {
                Some(facts) => self.look(&key, now, &facts, &mut changed),
                // What bears this name later begins anew.
                None => {
                    self.compartments.remove(&key);
                }
            }
        }
        self.series = self.compartments.values().map(Compartment::series).sum();
        self.end_the_nameless(now, facts, &mut changed);
        let rules = self.rules;
        self.alerts.retain(|_, alert| {
            let ended = alert.resolved_ms.unwrap_or(now.unix_ms);
            let ago = u64::try_from(now.unix_ms.saturating_sub(ended)).unwrap_or(0);
            alert.is_firing() || ago <= rules.reopen_ms()
        });
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn forget_the_unheard(&mut self, now: Now) {
        let missing_ms = self.rules.missing_ms();
        let gone = |heard: &Heard| now.at_ms.saturating_sub(heard.last_ms) > missing_ms;
        let names: Vec<Arc<str>> = self
            .heard
            .iter()
            .filter(|(_, heard)| gone(heard))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in names {
            self.heard.remove(&name);
            for compartment in self.compartments.values_mut() {
                compartment.gateways.remove(&name);
            }
        }
        self.compartments.retain(|_, one| !one.gateways.is_empty());
    }

    /// Alerts of compartments that nobody follows: removed from the policy, or unheard for long.
    fn end_the_nameless(
        &mut self,
        now: Now,
        facts: &dyn Fn(&str, Level) -> Option<Facts>,
        changed: &mut Vec<u64>,
    ) {
        let mut ended = Vec::new();
        for alert in self.alerts.values().filter(|alert| alert.is_firing()) {
            let heard = |burning: &Burning| self.knows(&burning.id);
            let silent = |burning: &Burning| heard(burning) && !self.was_heard(&burning.id, now);
            let named = alert
                .gateways
                .iter()
                .filter(|burning| !burning.id.is_empty());
            let known = facts(&alert.compartment, alert.level).is_some();
            match () {
                () if !known => ended.push((alert.id, Ended::Removed)),
                () if self.compartments.contains_key(&*alert.compartment) => {}
                () if !named.clone().any(heard) => ended.push((alert.id, Ended::Unheard)),
                // Nothing has happened there since a restart.
                () if !named.clone().any(silent) => ended.push((alert.id, Ended::Quiet)),
                () => {}
            }
        }
        for (id, why) in ended {
            self.resolve(id, now, why, changed);
        }
    }

    /// For how long a gateway was heard in the last `span_ms`.
    pub(super) fn heard_ms(&self, gateway: &str, now: Now, span_ms: u64) -> u64 {
        let heard = self.heard.get(gateway);
        heard.map_or(0, |heard| heard.ring.sum(now.at_ms, span_ms).time_ms)
    }

    /// True when a gateway was heard for as good as the whole clear time.
    pub(super) fn was_heard(&self, gateway: &str, now: Now) -> bool {
        let clear_ms = self.rules.clear_ms();
        self.heard_ms(gateway, now, clear_ms) >= clear_ms * Rules::HEARD_PERCENT / 100
    }

    /// True when a gateway is known, heard lately or not.
    pub(super) fn knows(&self, gateway: &str) -> bool {
        self.heard.contains_key(gateway)
    }

    pub(super) fn alert(&self, id: u64) -> Option<&Alert> {
        self.alerts.get(&id)
    }

    pub(super) fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        id
    }

    /// Keeps an alert; one that is pending until the next look only.
    pub(super) fn put(&mut self, alert: Alert) {
        match alert.id {
            0 => self.pending.push(alert),
            id => drop(self.alerts.insert(id, alert)),
        }
    }

    fn active(&self, key: &str, cause: Cause) -> Option<u64> {
        let mine = |alert: &&Alert| alert.cause == cause && alert.compartment == key;
        let mut firing = self.alerts.values().filter(|alert| alert.is_firing());
        firing.find(mine).map(|alert| alert.id)
    }

    /// One compartment: judged on each gateway and over all of them.
    fn look(&mut self, key: &str, now: Now, facts: &Facts, changed: &mut Vec<u64>) {
        let (refusing, full) = (
            self.active(key, Cause::Refusing),
            self.active(key, Cause::Full),
        );
        let Some(compartment) = self.compartments.get(key) else {
            return;
        };
        let is_calm = |(_, series): (_, &Series)| series.is_calm(&self.rules, now.at_ms);
        if refusing.is_none() && full.is_none() && compartment.all().all(is_calm) {
            return;
        }
        let look = Look::take(self, compartment, now);
        let over = |id: Option<u64>| id.is_some_and(|id| self.is_over(id, compartment, now));
        let (quiet, roomy) = (over(refusing), over(full));
        let level = compartment.level;
        let subject = Subject {
            key,
            level,
            facts,
            now,
        };
        let refuses_now = look.worst(|rule| rule != Rule::Full).is_some();
        let full_now = look.worst(|rule| rule == Rule::Full).is_some();
        match refusing {
            Some(id) if quiet && !refuses_now => self.resolve(id, now, Ended::Quiet, changed),
            Some(id) => self.update(id, &look, facts, changed),
            None if refuses_now => self.fire(&subject, Cause::Refusing, &look, changed),
            None => {}
        }
        let refuses = refuses_now || (refusing.is_some() && !quiet);
        match full {
            Some(id) if refuses => self.resolve(id, now, Ended::Superseded, changed),
            Some(id) if roomy && !full_now => self.resolve(id, now, Ended::Quiet, changed),
            Some(id) => self.update(id, &look, facts, changed),
            None if full_now && !refuses => self.fire(&subject, Cause::Full, &look, changed),
            None if !refuses => self.pend(&subject, &look),
            None => {}
        }
    }
}
