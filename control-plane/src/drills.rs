//! Fallbacks that were rehearsed, and what each gateway said of its steps.
//!
//! Separate because a rehearsal asks gateways and waits for them, which nothing else here does. A
//! gateway is asked over its own stream, so nobody but an operator can begin one. It must never
//! change a policy, nor wait longer than its bound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use telemetry::names::event;
use tokio::sync::{Semaphore, broadcast, watch};
use wire::stream::bounded_text;
use wire::stream::proto::{Rehearse, Rehearsed};

use crate::clock;

/// Reports that are kept; the oldest go.
pub const DRILLS_MAX: usize = 20;
/// Rehearsals at one time.
const AT_ONCE_MAX: usize = 4;
/// How long gateways are waited for: a step has a time of its own, this bounds the rest.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Steps of one gateway's answer, and the longest word in it.
const STEPS_MAX: usize = 8;
const WORD_BYTES_MAX: usize = 100;

/// One rehearsal of one route's fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drill {
    /// Its name.
    pub id: String,
    /// What was drilled: `fallback`.
    pub kind: &'static str,
    /// The route.
    pub route: String,
    /// When it began.
    pub at: String,
    /// Who began it.
    pub by: String,
    /// Every gateway that was asked, by name; `None` while, or because, it has not answered.
    pub gateways: BTreeMap<String, Option<Told>>,
    /// Every gateway answered, and on each a step would have.
    pub passed: bool,
}

/// What one gateway said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// In the order of the policy.
    pub steps: Vec<Step>,
    /// Why it had nothing to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One step of one gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Step {
    /// `stale`, `upstream` or `static`.
    pub kind: String,
    /// It would have answered.
    pub answers: bool,
    /// With this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u32>,
    /// Why it would not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long it took.
    pub took_us: u64,
    /// How many stored answers could be given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<u64>,
    /// How old the youngest of them is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<u64>,
}

/// Why none was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoDrill {
    /// Nobody could answer.
    #[error("no gateway is connected")]
    NoGateway,
    /// Too many at one time.
    #[error("{AT_ONCE_MAX} rehearsals are under way; try again in a moment")]
    Busy,
}

/// All of them; clones are cheap.
#[derive(Clone, Debug)]
pub struct Drills(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    list: Mutex<(u64, VecDeque<Drill>)>,
    asked: broadcast::Sender<Rehearse>,
    told: watch::Sender<u64>,
    places: Semaphore,
}

impl Default for Drills {
    fn default() -> Self {
        Self(Arc::new(Inner {
            list: Mutex::default(),
            asked: broadcast::channel(AT_ONCE_MAX).0,
            told: watch::channel(0).0,
            places: Semaphore::new(AT_ONCE_MAX),
        }))
    }
}

impl Drills {
    /// What gateways are to be asked, for each of their streams.
    pub(crate) fn follow(&self) -> broadcast::Receiver<Rehearse> {
        self.0.asked.subscribe()
    }

    /// The report of this name.
    pub fn get(&self, id: &str) -> Option<Drill> {
        self.list().1.iter().find(|drill| drill.id == id).cloned()
    }

    /// The newest report of this route.
    pub fn last_of(&self, route: &str) -> Option<Drill> {
        let list = self.list();
        list.1.iter().rfind(|drill| drill.route == route).cloned()
    }

    /// Asks these gateways, and waits until all have answered or the time is over.
    pub async fn rehearse(
        &self,
        gateways: BTreeSet<String>,
        route: &str,
        path: &str,
        by: &str,
    ) -> Result<Drill, NoDrill> {
        if gateways.is_empty() {
            return Err(NoDrill::NoGateway);
        }
        let Ok(_place) = self.0.places.try_acquire() else {
            return Err(NoDrill::Busy);
        };
        let mut told = self.0.told.subscribe();
        let drill = self.begin(gateways, route, by);
        // Every stream has a receiver; one that is gone does not answer.
        let _streams = self.0.asked.send(Rehearse {
            id: drill.id.clone(),
            route: route.to_owned(),
            path: path.to_owned(),
        });
        let all_told = async {
            while !self.is_over(&drill.id) {
                // The sender is ours: it never closes.
                let _changed = told.changed().await;
            }
        };
        let _late = tokio::time::timeout(WAIT_MAX, all_told).await;
        let drill = self.get(&drill.id).unwrap_or(drill);
        tracing::info!(
            drill.id = %drill.id,
            route.id = %drill.route,
            drill.passed = drill.passed,
            author = %drill.by,
            "{}",
            event::DRILL_FINISHED
        );
        Ok(drill)
    }

    /// One that gave way to newer ones is waited for no longer.
    fn is_over(&self, id: &str) -> bool {
        let list = self.list();
        let drill = list.1.iter().rfind(|drill| drill.id == id);
        drill.is_none_or(Drill::is_over)
    }

    fn begin(&self, gateways: BTreeSet<String>, route: &str, by: &str) -> Drill {
        let mut list = self.list();
        list.0 += 1;
        let drill = Drill {
            id: format!("{}-{}", clock::unix_ms(), list.0),
            kind: "fallback",
            route: route.to_owned(),
            at: clock::utc(),
            by: by.to_owned(),
            gateways: gateways.into_iter().map(|id| (id, None)).collect(),
            passed: false,
        };
        list.1.push_back(drill.clone());
        if list.1.len() > DRILLS_MAX {
            list.1.pop_front();
        }
        drill
    }

    /// One gateway's answer. One that was not asked, or has answered, changes nothing.
    pub(crate) fn told(&self, gateway: &str, answer: Rehearsed) {
        let mut list = self.list();
        let drill = list.1.iter_mut().rfind(|drill| drill.id == answer.id);
        let Some(drill) = drill else { return };
        let Some(place @ None) = drill.gateways.get_mut(gateway) else {
            return;
        };
        *place = Some(Told::of(answer));
        let would = |told: &Option<Told>| {
            let steps = told.iter().flat_map(|told| &told.steps);
            steps.into_iter().any(|step| step.answers)
        };
        drill.passed = drill.gateways.values().all(would);
        drop(list);
        self.0
            .told
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    fn list(&self) -> MutexGuard<'_, (u64, VecDeque<Drill>)> {
        // A list holds no half-made state.
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drill {
    fn is_over(&self) -> bool {
        self.gateways.values().all(Option::is_some)
    }
}

impl Told {
    /// Bounded: a peer's text is kept in memory and shown.
    fn of(answer: Rehearsed) -> Self {
        let word = |text: &str| {
            let text = bounded_text(text, WORD_BYTES_MAX);
            (!text.is_empty()).then_some(text)
        };
        let steps = answer.steps.iter().take(STEPS_MAX).map(|step| Step {
            kind: word(&step.kind).unwrap_or_default(),
            answers: step.answers,
            status: (step.status > 0).then_some(step.status),
            why: word(&step.why),
            took_us: step.took_us,
            stored: step.stored,
            age_ms: step.age_ms,
        });
        Self {
            steps: steps.collect(),
            refused: word(&answer.refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::stream::proto::RehearsedStep;

    use super::*;

    fn gateways(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn answer(id: &str, answers: bool) -> Rehearsed {
        let step = RehearsedStep {
            kind: "static".to_owned(),
            answers,
            status: 200,
            why: "x".repeat(1_000),
            ..RehearsedStep::default()
        };
        Rehearsed {
            id: id.to_owned(),
            steps: vec![step; 20],
            refused: String::new(),
        }
    }

    #[tokio::test]
    async fn every_gateway_is_waited_for_and_heard_once() {
        let drills = Drills::default();
        let nobody = drills.rehearse(gateways(&[]), "a", "", "me").await;
        assert_eq!(nobody, Err(NoDrill::NoGateway));
        for (second, passed) in [(true, true), (false, false)] {
            let mut asked = drills.follow();
            let both = drills.rehearse(gateways(&["g1", "g2"]), "a", "/p", "me");
            let gateways = async {
                let asked = asked.recv().await.unwrap();
                assert_eq!((asked.route.as_str(), asked.path.as_str()), ("a", "/p"));
                drills.told("stranger", answer(&asked.id, true));
                drills.told("g1", answer(&asked.id, true));
                // Said again, it counts as it was said first.
                drills.told("g1", answer(&asked.id, false));
                drills.told("g2", answer("another", true));
                drills.told("g2", answer(&asked.id, second));
            };
            let (drill, ()) = tokio::join!(both, gateways);
            let drill = drill.unwrap();
            assert_eq!((drill.passed, drill.gateways.len()), (passed, 2));
            let told = drill.gateways["g1"].as_ref().unwrap();
            assert_eq!(told.steps.len(), STEPS_MAX);
            assert!(told.steps[0].why.as_ref().unwrap().len() <= WORD_BYTES_MAX + 4);
            assert_eq!(drills.last_of("a"), Some(drill.clone()));
            assert_eq!(drills.get(&drill.id), Some(drill));
        }
        assert_eq!(drills.last_of("b"), None);
    }

    #[test]
    fn reports_have_a_bound() {
        let drills = Drills::default();
        for n in 0..DRILLS_MAX + 5 {
            drills.begin(gateways(&["g"]), &format!("r{n}"), "me");
        }
        assert!(drills.last_of("r4").is_none() && drills.last_of("r5").is_some());
    }
}
