//! The life of an alert: pending, firing, resolved, and back within half an hour.
//!
//! Separate from the evaluator, which knows what happened, because this knows what that means for
//! alerts that exist. It must never make a second alert of a cause that has one.

use std::sync::Arc;

use compartment::Level;

use super::alert::{Alert, Burning, Cause, Ended, Severity, State, Told};
use super::evaluator::{BURNING_MAX, Compartment, Evaluator, Facts, Now};
use super::rules::Rules;
use super::series::{Evidence, Finding, Rule, Series};
use super::window::Counts;

impl Compartment {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            fleet: None,
            gateways: std::collections::BTreeMap::new(),
        }
    }

    /// How many places it takes.
    pub(super) fn series(&self) -> usize {
        self.gateways.len() + usize::from(self.fleet.is_some())
    }

    /// Every gateway by name, and all together under no name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Series)> {
        let fleet = self.fleet.iter().map(|series| ("", series));
        fleet.chain(self.gateways.iter().map(|(name, series)| (&**name, series)))
    }

    /// Adds up the gateways anew, when there are several.
    pub(super) fn join(&mut self) {
        let mut gateways = self.gateways.values();
        let (first, second) = (gateways.next(), gateways.next());
        self.fleet = first.filter(|_| second.is_some()).cloned();
        if let Some(fleet) = &mut self.fleet {
            for other in second.into_iter().chain(gateways) {
                fleet.merge(other);
            }
        }
    }

    pub(super) fn add(
        &mut self,
        rules: &Rules,
        gateway: &Arc<str>,
        from_ms: u64,
        to_ms: u64,
        counts: &Counts,
    ) {
        if self.fleet.is_none() && !self.gateways.is_empty() && !self.gateways.contains_key(gateway)
        {
            // Until now the one gateway was all of them.
            self.fleet = self.gateways.values().next().cloned();
        }
        if let Some(fleet) = &mut self.fleet {
            fleet.add(rules, from_ms, to_ms, counts);
        }
        let own = self.gateways.entry(Arc::clone(gateway));
        let own = own.or_insert_with(|| Series::new(rules));
        own.add(rules, from_ms, to_ms, counts);
    }
}

/// What the rules say of one compartment, gateway by gateway.
pub(super) struct Look {
    findings: Vec<(String, Finding, Evidence)>,
    since_ms: u64,
}

impl Look {
    pub(super) fn take(evaluator: &Evaluator, compartment: &Compartment, now: Now) -> Self {
        let rules = &evaluator.rules;
        let mut look = Self {
            findings: Vec::new(),
            since_ms: now.at_ms,
        };
        for (name, series) in compartment.all() {
            let heard_ms = match name {
                "" => {
                    let one = |id: &Arc<str>| evaluator.heard_ms(id, now, rules.window_ms);
                    compartment.gateways.keys().map(one).sum()
                }
                _ => 0,
            };
            let (finding, evidence) = series.judge(rules, now.at_ms, heard_ms);
            if finding > Finding::Calm {
                look.since_ms = look.since_ms.min(series.since(rules, now.at_ms));
                look.findings.push((name.to_owned(), finding, evidence));
            }
        }
        look
    }

    /// The strongest rule of a kind that holds anywhere, and where it is worst.
    pub(super) fn worst(&self, wanted: fn(Rule) -> bool) -> Option<(Rule, Evidence)> {
        let held = self.holding(wanted);
        held.map(|(_, rule, evidence)| (rule, evidence))
            .max_by_key(|(rule, evidence)| (*rule, evidence.window.refused, evidence.long.refused))
    }

    fn holding(&self, wanted: fn(Rule) -> bool) -> impl Iterator<Item = (&str, Rule, Evidence)> {
        self.findings
            .iter()
            .filter_map(move |(name, finding, evidence)| match finding {
                Finding::Holds(rule) if wanted(*rule) => Some((name.as_str(), *rule, *evidence)),
                Finding::Holds(_) | Finding::Pending | Finding::Calm => None,
            })
    }
}

/// The rules that make a cause.
fn rules_of(cause: Cause) -> fn(Rule) -> bool {
    match cause {
        Cause::Refusing => |rule| rule != Rule::Full,
        Cause::Full => |rule| rule == Rule::Full,
    }
}

/// A compartment and what is to be said of it.
pub(super) struct Subject<'a> {
    pub(super) key: &'a str,
    pub(super) level: Level,
    pub(super) facts: &'a Facts,
    pub(super) now: Now,
}

impl Evaluator {
    /// True when an alert's trouble is over wherever it was. A gateway that is not heard has not
    /// been quiet; one that is away for long has been forgotten by now.
    pub(super) fn is_over(&self, id: u64, compartment: &Compartment, now: Now) -> bool {
        let Some(alert) = self.alert(id) else {
            return true;
        };
        let silent =
            |burning: &Burning| self.knows(&burning.id) && !self.was_heard(&burning.id, now);
        if alert.gateways.iter().any(silent) {
            return false;
        }
        let rules = &self.rules;
        match alert.cause {
            Cause::Refusing => {
                let mut all = compartment.all();
                all.all(|(_, series)| series.refuses_no_more(rules, now.at_ms))
            }
            Cause::Full => {
                let mut all = compartment.gateways.values();
                all.all(|series| series.has_room(rules, now.at_ms))
            }
        }
    }

    pub(super) fn resolve(&mut self, id: u64, now: Now, why: Ended, changed: &mut Vec<u64>) {
        let Some(alert) = self.alert_mut(id) else {
            return;
        };
        alert.state = State::Resolved;
        alert.resolved_ms = Some(now.unix_ms);
        alert.ended = Some(why);
        for burning in &mut alert.gateways {
            burning.now = false;
        }
        changed.push(id);
    }

    /// Takes over the newest figures of an alert that fires on.
    pub(super) fn update(&mut self, id: u64, look: &Look, facts: &Facts, changed: &mut Vec<u64>) {
        let Some(alert) = self.alert_mut(id) else {
            return;
        };
        let wanted = rules_of(alert.cause);
        if let Some((rule, evidence)) = look.worst(wanted) {
            (alert.rule, alert.evidence) = (rule, evidence);
        }
        alert.upstreams.clone_from(&facts.upstreams);
        let before = alert.gateways.len();
        burn(alert, look);
        if alert.gateways.len() > before {
            changed.push(id);
        }
    }

    /// Fires: the same alert when it ended lately, else a new one.
    pub(super) fn fire(
        &mut self,
        subject: &Subject<'_>,
        cause: Cause,
        look: &Look,
        changed: &mut Vec<u64>,
    ) {
        let Some((rule, evidence)) = look.worst(rules_of(cause)) else {
            return;
        };
        let again = self.lately(subject, cause);
        let id = again.unwrap_or_else(|| self.new_id());
        let mut alert = match again.and_then(|id| self.alert(id)) {
            Some(alert) => alert.clone(),
            None => blank(subject, cause),
        };
        alert.id = id;
        alert.state = State::Firing;
        alert.severity = severity(subject, cause);
        alert.upstreams.clone_from(&subject.facts.upstreams);
        (alert.rule, alert.evidence) = (rule, evidence);
        alert.since_ms = subject.now.wall(look.since_ms);
        alert.fired_ms = subject.now.unix_ms;
        (alert.resolved_ms, alert.ended, alert.group) = (None, None, None);
        alert.episodes = alert.episodes.saturating_add(1);
        alert.gateways.clear();
        burn(&mut alert, look);
        self.put(alert);
        changed.push(id);
    }

    fn lately(&self, subject: &Subject<'_>, cause: Cause) -> Option<u64> {
        let reopen_ms = self.rules.reopen_ms();
        let young = |alert: &&Alert| {
            let ended = alert.resolved_ms.unwrap_or(i64::MIN);
            let ago = subject.now.unix_ms.saturating_sub(ended);
            u64::try_from(ago).unwrap_or(0) <= reopen_ms
        };
        let same = |alert: &&Alert| alert.cause == cause && alert.compartment == subject.key;
        self.alerts()
            .filter(same)
            .filter(young)
            .map(|alert| alert.id)
            .max()
    }

    /// Shows trouble that has not lasted.
    pub(super) fn pend(&mut self, subject: &Subject<'_>, look: &Look) {
        let pending = look
            .findings
            .iter()
            .filter(|(_, f, _)| *f == Finding::Pending);
        let Some((_, _, evidence)) = pending.max_by_key(|(_, _, e)| e.window.refused) else {
            return;
        };
        let mut alert = blank(subject, Cause::Refusing);
        alert.evidence = *evidence;
        alert.since_ms = subject.now.wall(look.since_ms);
        alert.fired_ms = subject.now.unix_ms;
        let there = |(id, finding, evidence): &(String, Finding, Evidence)| Burning {
            id: id.clone(),
            now: *finding == Finding::Pending,
            evidence: *evidence,
        };
        let named = look.findings.iter().filter(|(id, ..)| !id.is_empty());
        alert.gateways = named.take(BURNING_MAX).map(there).collect();
        self.put(alert);
    }
}

/// Where nobody is refused, nobody is woken.
fn severity(subject: &Subject<'_>, cause: Cause) -> Severity {
    match cause {
        Cause::Refusing => subject.facts.severity,
        Cause::Full => Severity::Ticket,
    }
}

/// An alert that nothing is known of yet.
fn blank(subject: &Subject<'_>, cause: Cause) -> Alert {
    Alert {
        id: 0,
        compartment: subject.key.to_owned(),
        level: subject.level,
        cause,
        severity: severity(subject, cause),
        state: State::Pending,
        rule: match cause {
            Cause::Refusing => Rule::Fast,
            Cause::Full => Rule::Full,
        },
        since_ms: 0,
        fired_ms: 0,
        resolved_ms: None,
        ended: None,
        episodes: 0,
        upstreams: subject.facts.upstreams.clone(),
        evidence: Evidence::default(),
        gateways: Vec::new(),
        group: None,
        told: Told::default(),
        silenced_until_ms: 0,
        silenced_by: String::new(),
    }
}

/// Marks where it burns now, and adds where it did not before.
fn burn(alert: &mut Alert, look: &Look) {
    for burning in &mut alert.gateways {
        burning.now = false;
    }
    for (name, _, evidence) in look.holding(rules_of(alert.cause)) {
        let known = alert.gateways.iter_mut().find(|burning| burning.id == name);
        if let Some(burning) = known {
            burning.now = true;
            burning.evidence = evidence;
        } else if alert.gateways.len() < BURNING_MAX {
            alert.gateways.push(Burning {
                id: name.to_owned(),
                now: true,
                evidence,
            });
        }
    }
}
