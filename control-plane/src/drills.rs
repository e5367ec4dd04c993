//! Fallbacks that were rehearsed, and what each gateway said of its steps.
//!
//! Separate because a rehearsal asks gateways and waits for them, which nothing else here does. A
//! gateway is asked over its own stream, so nobody but an operator can begin one. It must never
//! change a policy, nor wait longer than its bound, nor fail because its report cannot be kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use telemetry::names::event;
use tokio::sync::{Semaphore, broadcast, watch};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Ref, Schema, Type};
use wire::stream::bounded_text;
use wire::stream::proto::{Rehearse, Rehearsed};

use crate::clock;
use crate::store::{DRILLS_KEPT_MAX, DrillRow, Store, StoreError};

/// Reports in memory, those under way among them; the oldest go.
pub const DRILLS_MAX: usize = 20;
/// A longer report is not kept: beside those the last one of each route is in memory.
const BODY_BYTES_MAX: usize = 128 << 10;
/// Rehearsals at one time.
const AT_ONCE_MAX: usize = 4;
/// How long gateways are waited for: a step has a time of its own, this bounds the rest.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// Steps of one gateway's answer, and the longest word in it.
const STEPS_MAX: usize = 8;
const WORD_BYTES_MAX: usize = 100;

/// One rehearsal of one route's fallback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Drill {
    /// Its name.
    pub id: String,
    /// What was drilled.
    #[serde(default)]
    #[schema(required = true)]
    pub kind: DrillKind,
    /// The route.
    pub route: String,
    /// When it began.
    pub at: String,
    /// Who began it.
    pub by: String,
    /// Every gateway that was asked, by name; `None` while, or because, it has not answered.
    #[schema(value_type = BTreeMap<String, MayBeTold>)]
    pub gateways: BTreeMap<String, Option<Told>>,
    /// Every gateway answered, and on each a step would have.
    pub passed: bool,
}

/// What can be drilled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrillKind {
    /// The fallback of a route is rehearsed.
    #[default]
    Fallback,
}

/// The schema of what one gateway said, or null.
enum MayBeTold {}

impl utoipa::PartialSchema for MayBeTold {
    fn schema() -> RefOr<Schema> {
        let nothing = ObjectBuilder::new().schema_type(Type::Null);
        let told = Ref::from_schema_name("DrillTold");
        OneOfBuilder::new().item(nothing).item(told).into()
    }
}

impl utoipa::ToSchema for MayBeTold {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((
            "DrillTold".to_owned(),
            <Told as utoipa::PartialSchema>::schema(),
        ));
        <Told as utoipa::ToSchema>::schemas(schemas);
    }
}

/// What one gateway said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[schema(as = DrillTold)]
pub struct Told {
    /// In the order of the policy.
    pub steps: Vec<Step>,
    /// Why it had nothing to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// One step of one gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
#[schema(as = DrillStep)]
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
    /// The last report of each route that is in the store.
    last: Mutex<HashMap<String, Drill>>,
    store: Store,
    asked: broadcast::Sender<Rehearse>,
    told: watch::Sender<u64>,
    places: Semaphore,
}

impl Drills {
    /// With what was kept before this start.
    pub async fn open(store: Store) -> Self {
        let kept = store.drills().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "reports of drills cannot be read");
            Vec::new()
        });
        // The oldest first. One that another build wrote otherwise is not shown.
        let kept = kept
            .iter()
            .filter_map(|body| serde_json::from_str(body).ok());
        let last = kept.map(|drill: Drill| (drill.route.clone(), drill));
        Self(Arc::new(Inner {
            last: Mutex::new(last.collect()),
            store,
            list: Mutex::default(),
            asked: broadcast::channel(AT_ONCE_MAX).0,
            told: watch::channel(0).0,
            places: Semaphore::new(AT_ONCE_MAX),
        }))
    }

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
        let newest = list.1.iter().rfind(|drill| drill.route == route);
        newest.cloned().or_else(|| self.last().get(route).cloned())
    }

    /// The report of this name, also one that is in the store alone.
    pub(crate) async fn find(&self, id: &str) -> Result<Option<Drill>, StoreError> {
        if let Some(drill) = self.get(id) {
            return Ok(Some(drill));
        }
        let body = self.0.store.drill(id).await?;
        Ok(body.and_then(|body| serde_json::from_str(&body).ok()))
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
        self.keep(&drill).await;
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

    /// Puts the report into the store.
    async fn keep(&self, drill: &Drill) {
        let body = serde_json::to_string(drill).unwrap_or_default();
        if !(1..=BODY_BYTES_MAX).contains(&body.len()) {
            tracing::warn!(drill.id = %drill.id, "a report is too long to be kept");
            return;
        }
        let row = DrillRow {
            id: drill.id.clone(),
            route: drill.route.clone(),
            at_ms: drill.at_ms(),
            body,
        };
        if let Err(error) = self.0.store.put_drill(row).await {
            tracing::warn!(drill.id = %drill.id, %error, "a report is not kept");
            return;
        }
        let mut last = self.last();
        last.insert(drill.route.clone(), drill.clone());
        if last.len() > usize::try_from(DRILLS_KEPT_MAX).unwrap_or(usize::MAX) {
            let oldest = last.values().min_by_key(|drill| drill.at_ms());
            let oldest = oldest.map(|drill| drill.route.clone());
            oldest.and_then(|route| last.remove(&route));
        }
    }

    fn begin(&self, gateways: BTreeSet<String>, route: &str, by: &str) -> Drill {
        let mut list = self.list();
        list.0 += 1;
        let drill = Drill {
            id: format!("{}-{}", clock::unix_ms(), list.0),
            kind: DrillKind::Fallback,
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

    fn last(&self) -> MutexGuard<'_, HashMap<String, Drill>> {
        // A map holds no half-made state.
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> MutexGuard<'_, (u64, VecDeque<Drill>)> {
        // A list holds no half-made state.
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drill {
    /// When it began: its name begins with that.
    fn at_ms(&self) -> i64 {
        let first = self.id.split('-').next();
        first.and_then(|ms| ms.parse().ok()).unwrap_or_default()
    }

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
    use crate::store::DRILLS_OF_ROUTE_MAX;

    async fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/store.db", folder.path().display());
        let store = Store::open(&url).await.unwrap();
        (folder, store)
    }

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
        let (_folder, store) = store().await;
        let drills = Drills::open(store).await;
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

    /// One gateway, which answers.
    async fn rehearse(drills: &Drills, route: &str) -> Drill {
        let mut asked = drills.follow();
        let gateway = async {
            let asked = asked.recv().await.unwrap();
            drills.told("g", answer(&asked.id, true));
        };
        let drilled = drills.rehearse(gateways(&["g"]), route, "", "me");
        tokio::join!(drilled, gateway).0.unwrap()
    }

    #[tokio::test]
    async fn reports_have_bounds_and_outlive_a_restart() {
        let (_folder, store) = store().await;
        let drills = Drills::open(store.clone()).await;
        let quiet = rehearse(&drills, "quiet").await;
        let mut busy = Vec::new();
        for _ in 0..DRILLS_OF_ROUTE_MAX + 3 {
            busy.push(rehearse(&drills, "busy").await);
        }
        assert_eq!(drills.list().1.len(), DRILLS_MAX);
        let again = Drills::open(store).await;
        for drills in [&drills, &again] {
            assert_eq!(drills.last_of("quiet"), Some(quiet.clone()));
            assert_eq!(drills.last_of("busy"), busy.last().cloned());
            let find = async |drill: &Drill| drills.find(&drill.id).await.unwrap();
            assert_eq!(find(&busy[2]).await, None, "one of the oldest");
            assert_eq!(find(&busy[3]).await, Some(busy[3].clone()));
            assert_eq!(find(&quiet).await, Some(quiet.clone()));
        }
    }

    #[tokio::test]
    async fn the_last_reports_have_a_bound() {
        let (_folder, store) = store().await;
        let drills = Drills::open(store).await;
        for n in 0..DRILLS_KEPT_MAX + 2 {
            let mut drill = drills.begin(gateways(&["g"]), &format!("r{n}"), "me");
            drill.id = format!("{n}-1");
            drills.keep(&drill).await;
        }
        assert!(drills.last_of("r1").is_none() && drills.last_of("r2").is_some());
        let mut long = drills.begin(gateways(&["g"]), "long", "me");
        long.by = "x".repeat(BODY_BYTES_MAX);
        drills.keep(&long).await;
        assert_eq!(drills.0.store.drill(&long.id).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_report_that_cannot_be_kept_is_answered_all_the_same() {
        let (_folder, store) = store().await;
        let drills = Drills::open(store.clone()).await;
        store.close().await;
        let drill = rehearse(&drills, "a").await;
        assert!(drill.passed);
        assert_eq!(drills.last_of("a"), Some(drill));
    }
}
