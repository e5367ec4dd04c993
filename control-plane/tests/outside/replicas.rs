//! Two control planes on one Postgres, as gateways and people see them.

use std::time::{Duration, Instant};

use control_plane::{Config, Secret};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, Row as _};

use crate::alerts::{Counted, Receiver, WINDOW_MS, alerts};
use crate::support::gateway::{Gateway, Runs};
use crate::support::{Plane, call, config, eventually, policy, policy_file, postgres};

const GATEWAY_TOKEN: &str = "gateway-token-of-the-replicas-0123456789";
/// What one stored the others publish within this, while they hear of it.
const TOLD_MAX: Duration = Duration::from_secs(1);
/// The same when they do not, with a busy machine's second.
const FOUND_MAX: Duration = Duration::from_secs(6);
/// Another one leads so long after the one that led fell silent.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);

/// A control plane on this database.
pub(crate) fn replica(database: &postgres::Database) -> Plane {
    replica_with(database, |_| {})
}

pub(crate) fn replica_with(
    database: &postgres::Database,
    change: impl FnOnce(&mut Config),
) -> Plane {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config {
        database_url: database.url.as_str().into(),
        import: Some(policy_file(folder.path(), &policy())),
        gateway_token: Some(Secret::new(GATEWAY_TOKEN).unwrap()),
        ..config(folder.path())
    };
    change(&mut config);
    Plane::start_with(folder, config).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Ends the sessions of this database whose last statement is like this; how many those were.
async fn end_sessions(database: &postgres::Database, like: &str) -> usize {
    let mut connection = database.connect().await;
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE $1";
    let ended = sqlx::query(sql).bind(like).fetch_all(&mut connection).await;
    ended.unwrap().len()
}

async fn end_session(database: &postgres::Database, pid: i32) {
    let mut connection = database.connect().await;
    let ended = sqlx::query("SELECT pg_terminate_backend($1)").bind(pid);
    ended.execute(&mut connection).await.unwrap();
}

/// One gateway as a control plane lists it.
fn listed(plane: &Plane, id: &str) -> Option<Value> {
    let all = plane.api("GET", "/gateways", None).json();
    let mut all = all.as_array().unwrap().iter();
    all.find(|one| one["id"] == id).cloned()
}

fn is_reporting(plane: &Plane, id: &str) -> bool {
    listed(plane, id).is_some_and(|one| one["connected"] == true && one["reporting"] == true)
}

/// Who holds the lock of the one that leads.
async fn leading_session(database: &postgres::Database) -> Option<i32> {
    let mut connection = database.connect().await;
    let sql = "SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
               WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted \
               AND l.objid = 1112296265";
    let row = sqlx::query(sql).fetch_optional(&mut connection).await;
    row.unwrap().map(|row| row.get(0))
}

fn leads(plane: &Plane) -> bool {
    let bearer = format!("Bearer {}", crate::support::TOKEN);
    let text = call(
        plane.address,
        "GET",
        "/metrics",
        &[("authorization", &bearer)],
        b"",
    )
    .text();
    let line = |line: &&str| line.starts_with("bulkhead_control_leads ");
    let line = text
        .lines()
        .find(line)
        .unwrap_or_else(|| unreachable!("{text}"));
    line.ends_with(" 1")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_replica_stores_the_other_pushes_within_a_second() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let (one, two) = (replica(&database), replica(&database));
    let mut gateway = Gateway::connect(&two, "gateway-1").await;
    let first = gateway.policy().await;
    gateway.running(first.generation).await;
    // The listener of a replica that has just started may still be on its way.
    for limit in [11, 12] {
        let stored = now();
        assert_eq!(one.patch("route/a", &json!({"limit": limit})).status, 200);
        let policy = gateway.policy().await;
        let took = stored.elapsed();
        gateway.running(policy.generation).await;
        assert_eq!(policy.generation, one.generation());
        assert!(limit == 11 || took < TOLD_MAX, "{took:?}");
    }
    // Either takes writes, and each knows what the other stored.
    assert_eq!(two.patch("route/b", &json!({"limit": 13})).status, 200);
    assert_eq!(one.generation(), two.generation());
    let policy = gateway.policy().await;
    gateway.running(policy.generation).await;

    // Nobody is told any more: it is found all the same, and told again soon.
    assert!(end_sessions(&database, "LISTEN%").await >= 1);
    let stored = now();
    assert_eq!(one.patch("route/a", &json!({"limit": 14})).status, 200);
    let policy = gateway.policy().await;
    assert!(stored.elapsed() < FOUND_MAX, "{:?}", stored.elapsed());
    gateway.running(policy.generation).await;
    let mut limit = 20;
    let mut is_told = false;
    for _ in 0..10 {
        limit += 1;
        let stored = now();
        assert_eq!(one.patch("route/a", &json!({"limit": limit})).status, 200);
        let policy = gateway.policy().await;
        gateway.running(policy.generation).await;
        is_told |= stored.elapsed() < TOLD_MAX;
    }
    assert!(is_told, "the listener is back");
}

/// A gateway comes over from the one that told it the newest: that is no restored backup.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_comes_over_with_the_newest_is_known_for_what_it_is() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let (one, two) = (replica(&database), replica(&database));
    let mut gateway = Gateway::connect(&one, "gateway-1").await;
    let first = gateway.policy().await;
    gateway.running(first.generation).await;
    for limit in 30..40 {
        assert_eq!(one.patch("route/a", &json!({"limit": limit})).status, 200);
        let policy = gateway.policy().await;
        gateway.running(policy.generation).await;
        // At once: the other one may not have heard of it.
        let runs = Runs {
            generation: policy.generation,
            digest: policy.digest.clone(),
            epoch: policy.epoch.clone(),
            has_parts: false,
        };
        let over = Gateway::try_connect(&two, "gateway-2", &two.token(), runs).await;
        let over = over.unwrap();
        eventually("it is listed as running", || {
            listed(&two, "gateway-2").is_some_and(|one| {
                one["state"] == "running" && one["generation"] == policy.generation
            })
        });
        drop(over);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_another_takes_over_within_ten_seconds() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let one = replica(&database);
    eventually("the first one leads", || leads(&one));
    let two = replica(&database);
    assert!(!leads(&two), "one leads already");

    // The server ends the session: whoever gets the lock, there is never more than one.
    let before = leading_session(&database).await.unwrap();
    let ended = now();
    end_session(&database, before).await;
    loop {
        let both = (leads(&one), leads(&two));
        assert_ne!(both, (true, true));
        let holds = leading_session(&database).await;
        if holds.is_some_and(|pid| pid != before) && (both.0 || both.1) {
            break;
        }
        assert!(ended.elapsed() < TAKEOVER_MAX, "nobody leads");
    }
    let (first, second) = if leads(&one) { (one, two) } else { (two, one) };
    let stopped = now();
    drop(first);
    eventually("the other one leads", || leads(&second));
    assert!(stopped.elapsed() < TAKEOVER_MAX, "{:?}", stopped.elapsed());
}

/// Reports of one gateway every 200 ms, each with ten more admitted on a route.
struct Reporting {
    task: tokio::task::JoinSet<()>,
}

impl Reporting {
    fn start(gateway: Gateway) -> Self {
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            let mut counted = Counted::of("route/a");
            loop {
                counted.report(&gateway, 200, false, 0).await;
            }
        });
        Self { task }
    }

    async fn stop(mut self) {
        self.task.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_replica_shows_the_whole_fleet_and_one_that_is_gone_vanishes() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let (one, two) = (replica(&database), replica(&database));
    let mut first = Gateway::connect(&one, "gateway-1").await;
    let generation = first.policy().await.generation;
    first.running(generation).await;
    let mut second = Gateway::connect(&two, "gateway-2").await;
    second.policy().await;
    second
        .refused(generation, "/routes/0", "because of a test")
        .await;
    let (first, second) = (Reporting::start(first), Reporting::start(second));
    for plane in [&one, &two] {
        eventually("both are shown", || {
            is_reporting(plane, "gateway-1") && is_reporting(plane, "gateway-2")
        });
        eventually("both are in the sums", || {
            let body = plane.api("GET", "/compartments/route%2Fa", None).json();
            body["reporting"] == json!("2 of 2") && body["limit"] == json!(4)
        });
        let refused = listed(plane, "gateway-2").unwrap();
        assert_eq!(refused["refused"]["errors"][0]["pointer"], "/routes/0");
    }
    // Told in one second, seen in the next: nobody is ever missing meanwhile.
    let until = now() + Duration::from_secs(4);
    while now() < until {
        for plane in [&one, &two] {
            assert!(is_reporting(plane, "gateway-1") && is_reporting(plane, "gateway-2"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A gateway comes over: it is the same one, listed once.
    first.stop().await;
    let over = Reporting::start(Gateway::connect(&two, "gateway-1").await);
    for plane in [&one, &two] {
        eventually("it is seen again", || is_reporting(plane, "gateway-1"));
        let all = plane.api("GET", "/gateways", None).json();
        assert_eq!(all.as_array().unwrap().len(), 2);
    }
    // The process that holds the streams is gone.
    over.stop().await;
    second.stop().await;
    drop(two);
    let gone = now();
    eventually("its gateways are gone", || {
        !is_reporting(&one, "gateway-1") && !is_reporting(&one, "gateway-2")
    });
    assert!(
        gone.elapsed() < Duration::from_secs(8),
        "{:?}",
        gone.elapsed()
    );
    // Each row of the history is of the one that held the stream.
    let mut connection = database.connect().await;
    let sql = "SELECT MAX(covered_us) FROM bulkhead_history.heard_10s";
    eventually_row(&mut connection, sql, 12_000_000).await;
}

/// The largest of something that is there is not above this.
async fn eventually_row(connection: &mut sqlx::PgConnection, sql: &'static str, most: i64) {
    let until = now() + Duration::from_secs(30);
    loop {
        let row = connection.fetch_one(sql).await.unwrap();
        if let Some(found) = row.get::<Option<i64>, _>(0) {
            assert!(found <= most, "{found}");
            return;
        }
        assert!(now() < until, "nothing was written");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A table that nobody gets at changes nothing for a replica's own streams.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_hangs_costs_the_others_figures_alone() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let (one, two) = (replica(&database), replica(&database));
    let mut own = Gateway::connect(&one, "own").await;
    let generation = own.policy().await.generation;
    own.running(generation).await;
    let own = Reporting::start(own);
    let theirs = Reporting::start(Gateway::connect(&two, "theirs").await);
    eventually("both are shown", || {
        is_reporting(&one, "own") && is_reporting(&one, "theirs")
    });
    let mut connection = database.connect().await;
    connection
        .execute("BEGIN; LOCK TABLE bulkhead.live IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    eventually("what is not told is not shown", || {
        assert!(is_reporting(&one, "own"));
        let asked = now();
        assert_eq!(one.api("GET", "/compartments", None).status, 200);
        assert!(asked.elapsed() < Duration::from_secs(1));
        !is_reporting(&one, "theirs")
    });
    connection.close().await.unwrap();
    eventually("both are shown again", || {
        is_reporting(&one, "own") && is_reporting(&one, "theirs")
    });
    own.stop().await;
    theirs.stop().await;
}

/// The one that raised it is gone: whoever takes over knows the alert, raises no second one, and
/// tells nobody twice. A gateway's figures count wherever its stream is.
#[tokio::test(flavor = "multi_thread")]
async fn an_alert_is_raised_once_and_outlives_the_one_that_raised_it() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let receiver = Receiver::start(&[]);
    let alerting = |config: &mut Config| config.alerts = receiver.config();
    let one = replica_with(&database, alerting);
    eventually("the first one leads", || leads(&one));
    let two = replica_with(&database, alerting);
    let gateway = Gateway::connect(&two, "gw-a").await;
    let mut counted = Counted::of("route/a");
    counted.report(&gateway, 3_000, false, 0).await;
    counted.report(&gateway, 2 * WINDOW_MS, true, 10).await;
    eventually("it is told", || receiver.statuses() == ["firing"]);
    let raised = alerts(&one, "?state=firing")["alerts"].clone();
    assert_eq!(raised.as_array().unwrap().len(), 1, "{raised}");
    eventually("the other one shows it", || {
        alerts(&two, "?state=firing")["alerts"][0]["id"] == raised[0]["id"]
    });
    drop(one);
    let gone = now();
    while !leads(&two) {
        assert!(gone.elapsed() < TAKEOVER_MAX);
        counted.report(&gateway, 200, true, 10).await;
    }
    counted.report(&gateway, WINDOW_MS, true, 10).await;
    let kept = alerts(&two, "")["alerts"].clone();
    assert_eq!(kept.as_array().unwrap().len(), 1, "{kept}");
    assert_eq!(kept[0]["id"], raised[0]["id"]);
    assert_eq!(receiver.statuses(), ["firing"], "told once");
    counted.report(&gateway, 4 * WINDOW_MS, false, 0).await;
    eventually("the end is told", || {
        receiver.statuses() == ["firing", "resolved"]
    });
}
