//! An older copy of the store is put in its place: nothing that a gateway runs goes back unsaid,
//! whatever the store's numbers come to.

use std::time::Duration;

use control_plane::store;
use serde_json::{Value, json};
use sqlx::Executor as _;
use tonic::Code;
use wire::stream::proto::PolicyPush;

use crate::replicas::replica;
use crate::support::gateway::{Gateway, Runs};
use crate::support::{Plane, TOKEN, call, config, eventually, postgres};

/// Longest wait for what must come.
const LONGEST: Duration = Duration::from_secs(10);

/// Changes until this is the newest; `era` tells apart what is lost from what comes after.
fn change_until(plane: &Plane, number: u64, era: u64) {
    let next = plane.generation() + 1;
    for number in next..=number {
        let limit = json!({"limit": 100 * era + number});
        assert_eq!(plane.patch("route/a", &limit).status, 200);
    }
    assert_eq!(plane.generation(), number);
}

fn runs(push: &PolicyPush) -> Runs {
    Runs {
        generation: push.generation,
        digest: push.digest.clone(),
        epoch: push.epoch.clone(),
        has_parts: false,
    }
}

async fn connect(plane: &Plane, id: &str, runs: &Runs) -> Gateway {
    let connected = Gateway::try_connect(plane, id, &plane.token(), runs.clone()).await;
    connected.unwrap()
}

async fn policy(gateway: &mut Gateway) -> PolicyPush {
    tokio::time::timeout(LONGEST, gateway.policy())
        .await
        .unwrap()
}

/// The newest comes down, with the question, and is refused as a gateway does.
async fn is_asked(gateway: &mut Gateway, number: u64) {
    let push = policy(gateway).await;
    let said = (push.generation, push.needs_word, push.may_go_back);
    assert_eq!(said, (number, true, false));
    gateway.refused(number, "/generation", "needs a word").await;
}

fn view(plane: &Plane, id: &str) -> Value {
    let list = plane.api("GET", "/gateways", None).json();
    let found = list.as_array().unwrap().iter().find(|one| one["id"] == id);
    found.cloned().unwrap_or_default()
}

/// What a gateway of the time that is lost goes through from 5 up to 12, and then with a word.
async fn asks_at_every_number(plane: &Plane, held: &Runs, lost: u64) {
    let mut one = connect(plane, "one", held).await;
    is_asked(&mut one, 5).await;
    for number in 6..=12 {
        change_until(plane, number, 2);
        is_asked(&mut one, number).await;
        // Also as one that comes anew, and as one that stopped earlier.
        let mut again = connect(plane, "two", held).await;
        is_asked(&mut again, number).await;
        eventually("it is shown", || {
            let view = view(plane, "one");
            view["state"] == "refused" && view["ahead"] == true && view["generation"] == lost
        });
    }
    let quiet = tokio::time::timeout(Duration::from_millis(300), one.next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
    let bearer = format!("Bearer {TOKEN}");
    let signed = [("authorization", bearer.as_str())];
    let page = call(plane.address, "GET", "/gateways", &signed, b"");
    assert!(
        page.text().contains("that this store did not make"),
        "{}",
        page.text()
    );
    assert_eq!(plane.api("POST", "/gateways/one/go-back", None).status, 200);
    let push = policy(&mut one).await;
    assert!(push.generation == 12 && push.may_go_back && !push.needs_word);
    one.running(12).await;
    eventually("it follows", || {
        let view = view(plane, "one");
        view["state"] == "running" && view["ahead"] == false
    });
    change_until(plane, 13, 2);
    let push = policy(&mut one).await;
    assert!(push.generation == 13 && !push.needs_word && !push.may_go_back);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_backup_moves_no_gateway_without_a_word() {
    let plane = Plane::start();
    change_until(&plane, 4, 1);
    let known = runs(&policy(&mut Gateway::connect(&plane, "known").await).await);
    change_until(&plane, 5, 1);
    let copy = plane.folder.path().join("copy.db");
    let url = format!("sqlite://{}", plane.store().display());
    store::backup(&url, &copy).await.unwrap();
    change_until(&plane, 9, 1);
    let held = runs(&policy(&mut Gateway::connect(&plane, "one").await).await);
    assert_eq!((known.generation, held.generation), (4, 9));
    let Plane {
        running, folder, ..
    } = plane;
    drop(running);
    store::restore(&url, &copy, None).await.unwrap();
    let config = config(folder.path());
    let plane = Plane::start_with(folder, config).unwrap();
    asks_at_every_number(&plane, &held, 9).await;
    // What the store made is moved as ever.
    let push = policy(&mut connect(&plane, "known", &known).await).await;
    assert!(push.generation == 13 && !push.needs_word);
}

/// As `pg_restore` leaves it: no command of ours was asked.
async fn put_back(database: &postgres::Database) {
    let mut connection = database.connect().await;
    for sql in [
        "ALTER TABLE bulkhead.generations DISABLE TRIGGER USER",
        "ALTER TABLE bulkhead.audit DISABLE TRIGGER USER",
        "DELETE FROM bulkhead.audit WHERE generation_after > 5",
        "DELETE FROM bulkhead.generations WHERE number > 5",
        "DELETE FROM bulkhead.meta WHERE key = 'proven'",
        "ALTER TABLE bulkhead.generations ENABLE TRIGGER USER",
        "ALTER TABLE bulkhead.audit ENABLE TRIGGER USER",
    ] {
        connection.execute(sql).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_dump_moves_no_gateway_without_a_word() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let plane = replica(&database);
    change_until(&plane, 9, 1);
    let held = runs(&policy(&mut Gateway::connect(&plane, "one").await).await);
    drop(plane);
    put_back(&database).await;
    let plane = replica(&database);
    asks_at_every_number(&plane, &held, 9).await;
}

/// Under a control plane that runs on, while another one counts past what gateways hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_put_back_in_use_asks_every_gateway_anew() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let one = replica(&database);
    change_until(&one, 9, 1);
    let mut gateway = Gateway::connect(&one, "one").await;
    let held = policy(&mut gateway).await;
    gateway.running(9).await;
    put_back(&database).await;
    let two = replica(&database);
    change_until(&two, 12, 2);
    let ended = tokio::time::timeout(LONGEST, gateway.next()).await.unwrap();
    let status = ended.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    eventually("it knows what the store holds", || one.generation() == 12);
    for plane in [&one, &two] {
        is_asked(&mut connect(plane, "one", &runs(&held)).await, 12).await;
    }
    // Changed through the one that lived through it: it counts on from what is stored.
    change_until(&one, 13, 2);
    assert_eq!(two.generation(), 13);
    is_asked(&mut connect(&two, "one", &runs(&held)).await, 13).await;
}
