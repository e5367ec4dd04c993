//! Overrides on a store, step by step with a clock of the test's own.

use serde_json::json;

use super::*;
use crate::limits::{place, write_first};

const MINUTE_MS: i64 = 60_000;

struct Plant {
    _folder: tempfile::TempDir,
    store: Store,
    limits: Limits,
    overrides: Overrides,
}

fn document() -> Value {
    let policy = json!({
        "schema": 1,
        "upstreams": {"main": {"endpoints": ["http://127.0.0.1:9"]}},
        "plans": {"pro": {"limit": 50}},
        "tenants": {"acme": {"plan": "pro"}},
        "routes": [{"id": "a", "path": "/a", "upstream": "main", "compartment": {"limit": 60}}],
    });
    serde_json::from_value(policy).unwrap()
}

async fn plant() -> Plant {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    let store = Store::open(&url).await.unwrap();
    write_first(&store, document(), "").await.unwrap();
    let rollout = Rollout::new(store.clone()).await.unwrap();
    let limits = Limits::new(store.clone(), rollout.clone());
    let overrides = Overrides::new(store.clone(), limits.clone(), rollout);
    Plant {
        _folder: folder,
        store,
        limits,
        overrides,
    }
}

impl Plant {
    /// From and to in minutes from now.
    async fn plan(&self, key: &str, value: i128, from: i64, to: i64) -> Result<i64, OverrideError> {
        let at = |minutes: i64| When::at(clock::unix_ms() + minutes * MINUTE_MS).text;
        let asked = Asked {
            key: key.to_owned(),
            field: "limit".to_owned(),
            value: Value::Integer(value),
            start: Some(at(from)),
            end: at(to),
            comment: "the fair".to_owned(),
        };
        let made = self.overrides.create(asked, &ann()).await?;
        Ok(made.id)
    }

    async fn at(&self, minutes: i64) {
        let now_ms = clock::unix_ms() + minutes * MINUTE_MS;
        self.overrides.look(now_ms, &|| true).await.unwrap();
    }

    async fn limit(&self, key: &str) -> Option<Value> {
        let current = self.overrides.rollout.refresh(None).await.unwrap();
        let place = place(&current.document, key, "limit").unwrap();
        current.document.at(&place).cloned()
    }

    async fn set(&self, key: &str, limit: i128) {
        let fields = Fields {
            values: vec![("limit".to_owned(), Value::Integer(limit))],
            comment: String::new(),
        };
        let set = self.limits.patch(key, &fields, None, false, &bob()).await;
        set.unwrap();
    }

    async fn one(&self, id: i64) -> Override {
        self.overrides.get(&id.to_string()).await.unwrap().one
    }
}

fn ann() -> Author {
    Author {
        name: "ann".to_owned(),
        person: "ann".to_owned(),
        ..Author::default()
    }
}

fn bob() -> Author {
    Author {
        name: "bob".to_owned(),
        person: "bob".to_owned(),
        ..Author::default()
    }
}

fn number(limit: i128) -> Option<Value> {
    Some(Value::Integer(limit))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_set_at_its_start_and_lifted_at_its_end() {
    let plant = plant().await;
    let id = plant.plan("route/a", 80, 10, 20).await.unwrap();
    plant.at(9).await;
    assert_eq!(plant.limit("route/a").await, number(60));
    plant.at(10).await;
    assert_eq!(plant.limit("route/a").await, number(80));
    let one = plant.one(id).await;
    assert_eq!((one.state, one.set_generation), (State::Running, Some(2)));
    plant.at(15).await;
    assert_eq!(
        plant.store.newest_number().await.unwrap(),
        2,
        "nothing again"
    );
    plant.at(20).await;
    assert_eq!(plant.limit("route/a").await, number(60));
    let one = plant.one(id).await;
    assert_eq!((one.state, one.lifted_generation), (State::Ended, Some(3)));
    let newest = plant.store.generations(None, 1).await.unwrap();
    assert_eq!(newest[0].author, format!("override {id} by ann"));
    assert!(
        newest[0].comment.contains("the fair"),
        "{}",
        newest[0].comment
    );
}

/// The plan's limit holds before and after: the override leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_comes_back_as_a_default() {
    let plant = plant().await;
    plant.plan("tenant/acme", 80, 0, 20).await.unwrap();
    plant.at(1).await;
    assert_eq!(plant.limit("tenant/acme").await, number(80));
    plant.at(21).await;
    assert_eq!(plant.limit("tenant/acme").await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_else_set_meanwhile_stays() {
    let plant = plant().await;
    let id = plant.plan("route/a", 80, 0, 20).await.unwrap();
    plant.at(1).await;
    plant.set("route/a", 70).await;
    plant.at(21).await;
    assert_eq!(plant.limit("route/a").await, number(70));
    let one = plant.one(id).await;
    assert_eq!((one.state, one.lifted_generation), (State::Left, None));
    assert!(one.note.unwrap().contains("somebody else"));
    // The same for one that is cancelled.
    let id = plant.plan("route/a", 90, 0, 20).await.unwrap();
    plant.at(1).await;
    plant.set("route/a", 71).await;
    plant
        .overrides
        .cancel(&id.to_string(), &bob())
        .await
        .unwrap();
    plant.at(2).await;
    assert_eq!(plant.limit("route/a").await, number(71));
    assert_eq!(plant.one(id).await.state, State::Left);
}

/// Nobody led: missed starts are set late while they still run, missed ends are lifted at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_missed_is_made_up_for() {
    let plant = plant().await;
    let late = plant.plan("route/a", 80, 1, 20).await.unwrap();
    let missed = plant.plan("tenant/acme", 9, 1, 5).await.unwrap();
    plant.at(10).await;
    assert_eq!(plant.limit("route/a").await, number(80));
    assert_eq!(plant.limit("tenant/acme").await, None);
    assert_eq!(plant.one(missed).await.state, State::Missed);
    plant.at(500).await;
    assert_eq!(plant.limit("route/a").await, number(60));
    assert_eq!(plant.one(late).await.state, State::Ended);
}

/// The one that led died between setting and writing it down; another one goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leads_next_goes_on_where_it_was() {
    let plant = plant().await;
    let id = plant.plan("route/a", 80, 0, 20).await.unwrap();
    let row = plant.store.scheduled_one(id).await.unwrap().unwrap();
    let (mut due, mut was) = (numbered(&row).unwrap(), row.body.clone());
    let now_ms = clock::unix_ms() + MINUTE_MS;
    // What was there is written down, the value is set, and that it was is not.
    assert!(
        plant
            .overrides
            .one_step(&mut due, &mut was, now_ms)
            .await
            .unwrap()
    );
    plant.set("route/a", 80).await;
    let rollout = Rollout::new(plant.store.clone()).await.unwrap();
    let limits = Limits::new(plant.store.clone(), rollout.clone());
    let next = Overrides::new(plant.store.clone(), limits, rollout);
    next.look(now_ms, &|| true).await.unwrap();
    assert_eq!(plant.one(id).await.state, State::Running);
    // The one before wakes up with what it saw: it changes nothing.
    plant.overrides.look(now_ms, &|| false).await.unwrap();
    assert!(
        !plant
            .overrides
            .one_step(&mut due, &mut was, now_ms)
            .await
            .unwrap()
    );
    next.look(now_ms + 20 * MINUTE_MS, &|| true).await.unwrap();
    assert_eq!(plant.limit("route/a").await, number(60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_one_field_never_overlap() {
    let plant = plant().await;
    let one = plant.plan("route/a", 80, 10, 20).await.unwrap();
    for (from, to) in [(10, 20), (5, 11), (19, 30), (12, 13), (0, 60)] {
        let refused = plant.plan("route/a", 70, from, to).await;
        assert!(
            matches!(refused, Err(OverrideError::Overlaps(id)) if id == one),
            "{from} {to}"
        );
    }
    let other = plant.plan("route/a", 70, 20, 30).await.unwrap();
    plant.plan("tenant/acme", 70, 10, 20).await.unwrap();
    let until = When::at(clock::unix_ms() + 25 * MINUTE_MS).text;
    let extended = plant
        .overrides
        .extend(&one.to_string(), &until, &bob())
        .await;
    assert!(matches!(extended, Err(OverrideError::Overlaps(id)) if id == other));
    plant
        .overrides
        .cancel(&other.to_string(), &bob())
        .await
        .unwrap();
    plant
        .overrides
        .extend(&one.to_string(), &until, &bob())
        .await
        .unwrap();
    plant.at(24).await;
    assert_eq!(plant.limit("route/a").await, number(80));
    plant.at(26).await;
    assert_eq!(plant.limit("route/a").await, number(60));
    assert!(matches!(
        plant.overrides.cancel(&one.to_string(), &bob()).await,
        Err(OverrideError::Over(_))
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_after_another_leaves_what_was_before_both() {
    let plant = plant().await;
    plant.plan("route/a", 80, 0, 10).await.unwrap();
    plant.plan("route/a", 90, 10, 20).await.unwrap();
    plant.at(1).await;
    // Both moments at one look: the end of the one, then the start of the other.
    plant.at(10).await;
    assert_eq!(plant.limit("route/a").await, number(90));
    plant.at(20).await;
    assert_eq!(plant.limit("route/a").await, number(60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_policy_does_not_take_is_refused_when_it_is_made_or_when_it_starts() {
    let plant = plant().await;
    for (key, value) in [("route/none", 1), ("route/a", -1)] {
        assert!(plant.plan(key, value, 0, 5).await.is_err(), "{key}");
    }
    assert!(plant.plan("route/a", 80, 5, 5).await.is_err());
    assert!(plant.plan("route/a", 80, -9, -5).await.is_err());
    let id = plant.plan("tenant/acme", 80, 5, 9).await.unwrap();
    let mut without = document();
    let tenant = compartment::policy::Path::root().key("tenants").key("acme");
    assert!(without.remove(&tenant));
    plant
        .limits
        .put(without, 1, false, "", &bob())
        .await
        .unwrap();
    plant.at(6).await;
    let one = plant.one(id).await;
    assert_eq!(one.state, State::Left);
    assert!(one.note.unwrap().contains("not in the policy any more"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_a_second_person_is_asked_for_an_override_waits_for_one() {
    let plant = plant().await;
    let asked = r#""all""#.to_owned();
    let setting = plant
        .store
        .put_meta("setting/approvals".to_owned(), Some(asked), None);
    setting.await.unwrap();
    let id = plant.plan("route/a", 80, 1, 20).await.unwrap();
    let name = id.to_string();
    plant.at(2).await;
    assert_eq!(plant.limit("route/a").await, number(60));
    assert_eq!(plant.one(id).await.state, State::Proposed);
    let own = plant.overrides.approve(&name, &ann()).await;
    assert!(matches!(own, Err(OverrideError::OwnApproval(_))), "{own:?}");
    plant.overrides.approve(&name, &bob()).await.unwrap();
    let again = plant.overrides.approve(&name, &bob()).await;
    assert!(
        matches!(again, Err(OverrideError::NotProposed(_))),
        "{again:?}"
    );
    plant.at(2).await;
    assert_eq!(plant.limit("route/a").await, number(80));
    let until = When::at(clock::unix_ms() + 25 * MINUTE_MS).text;
    let longer = plant.overrides.extend(&name, &until, &ann()).await;
    assert!(
        matches!(longer, Err(OverrideError::NeedsSecond)),
        "{longer:?}"
    );
    plant.at(20).await;
    assert_eq!(plant.limit("route/a").await, number(60));
}
