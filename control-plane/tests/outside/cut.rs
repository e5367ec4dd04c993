//! A connection that ends at any message of a change: what was answered is what is stored.

use std::time::Duration;

use control_plane::store::{AuditRow, Facts, Store, StoreError, Written};
use sqlx::{Executor as _, PgConnection, Row as _};

use crate::contract::new;
use crate::support::postgres;
use crate::support::proxy::{Cut, Proxy};

/// More messages than a change takes.
const MESSAGES_MAX: usize = 60;

/// What the database itself holds: the newest number, and how many audit rows there are.
async fn held(connection: &mut PgConnection) -> (u64, u64) {
    let sql = "SELECT COALESCE(MAX(number), 0), (SELECT COUNT(*) FROM bulkhead.audit) \
               FROM bulkhead.generations";
    let row = connection.fetch_one(sql).await.unwrap();
    let (newest, rows): (i64, i64) = (row.get(0), row.get(1));
    (newest.unsigned_abs(), rows.unsigned_abs())
}

/// The kinds of writes that have an audit row.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A generation.
    Change,
    /// One small fact: a token, a halt, a drain.
    Fact,
    /// Several facts on a condition.
    Facts,
}

/// Writes; whether it is said to be stored.
async fn write(store: &Store, kind: Kind, n: u64, newest: u64) -> Result<bool, StoreError> {
    let audit = AuditRow {
        action: "token-create".to_owned(),
        subject: format!("token:{n}"),
        ..AuditRow::default()
    };
    let (name, value) = (format!("fact/{n}"), Some(n.to_string()));
    match kind {
        Kind::Change => {
            let written = store.append(new("cut"), newest).await?;
            assert_eq!(written, Written::Stored(newest + 1));
        }
        Kind::Fact => store.put_meta(name, value, Some(audit)).await?,
        Kind::Facts => {
            let facts = Facts {
                put: vec![
                    ("fact/latest".to_owned(), value.clone()),
                    (name.clone(), value),
                    ("fact/none".to_owned(), None),
                ],
                only_if: vec![(name, None)],
            };
            return store.put_facts(facts, audit).await;
        }
    }
    Ok(true)
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_at_any_message_the_answer_is_what_is_stored() {
    for kind in [Kind::Change, Kind::Fact, Kind::Facts] {
        cut_everywhere(kind).await;
    }
}

async fn cut_everywhere(kind: Kind) {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let proxy = Proxy::before(&database.url);
    let store = Store::open(&proxy.url(&database.url)).await.unwrap();
    let mut direct = database.connect().await;
    store.append(new("first"), 0).await.unwrap();
    let (mut newest, mut rows, mut n) = (1, 1, 0);
    let (mut cuts, mut kept, mut lost) = (Vec::new(), 0, 0);
    for cut in [Cut::Before, Cut::Within, Cut::After, Cut::InAnswer] {
        for message in 0..MESSAGES_MAX {
            let mut said = async |is_calm: bool| {
                n += 1;
                let outcome = write(&store, kind, n, newest).await;
                let is_stored = matches!(outcome, Ok(true));
                rows += u64::from(is_stored);
                newest += u64::from(is_stored && matches!(kind, Kind::Change));
                assert!(is_stored || !is_calm, "{outcome:?}");
                (n, newest, rows, outcome)
            };
            // On a connection that is there, with its statements prepared.
            let _calm = said(true).await;
            proxy.arm(cut, message);
            let (n, newest, rows, outcome) = said(false).await;
            let Some(was) = proxy.disarm() else {
                assert_eq!(message, proxy.commit() + 1, "{cut:?}");
                assert!(outcome.is_ok(), "{outcome:?}");
                break;
            };
            cuts.push(char::from(was));
            let is_stored = match outcome {
                Ok(true) => true,
                Err(StoreError::Away(_)) => false,
                other => unreachable!("{kind:?} {cut:?} at {message}: {other:?}"),
            };
            kept += u32::from(is_stored);
            lost += u32::from(!is_stored);
            let held = held(&mut direct).await;
            assert_eq!(held, (newest, rows), "{kind:?} {cut:?} at {message}");
            if !matches!(kind, Kind::Change) {
                let facts = store.meta(&format!("fact/{n}")).await.unwrap();
                let exact = facts.iter().any(|(name, _)| *name == format!("fact/{n}"));
                assert_eq!(exact, is_stored, "{kind:?} {cut:?} at {message}");
            }
            assert!(message + 1 < MESSAGES_MAX, "a change takes more messages");
        }
    }
    println!(
        "{kind:?}: {} cuts, {kept} kept, {lost} lost: {cuts:?}",
        cuts.len()
    );
    assert!(kept > 0 && lost > 20, "{kept} {lost}");
}

/// A store behind a proxy, with two changes made: the next one finds its statements prepared.
async fn behind(proxy: &Proxy, database: &postgres::Database) -> Store {
    let store = Store::open(&proxy.url(&database.url)).await.unwrap();
    for seen in [0, 1] {
        store.append(new("calm"), seen).await.unwrap();
    }
    store
}

/// The commit reached the server, its answer is lost, and nobody gets through for a while: it is
/// asked for until it is known.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_until_somebody_tells() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let proxy = Proxy::before(&database.url);
    let store = behind(&proxy, &database).await;
    proxy.arm(Cut::After, proxy.commit());
    proxy.close(true);
    let opening = async {
        tokio::time::sleep(Duration::from_millis(900)).await;
        proxy.close(false);
    };
    let (outcome, ()) = tokio::join!(store.append(new("cut"), 2), opening);
    assert_eq!(proxy.disarm(), Some(b'Q'), "it was the commit");
    assert_eq!(outcome.unwrap(), Written::Stored(3));
}

/// The same, and the way stays closed: the answer is that nobody knows, and how to ask later.
#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_tell_is_said_plainly_and_told_later() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let proxy = Proxy::before(&database.url);
    let store = behind(&proxy, &database).await;
    for (cut, is_stored) in [(Cut::After, true), (Cut::Before, false)] {
        let mut newest = store.newest_number().await.unwrap();
        // On the new connection: the second change finds its statements prepared.
        for _ in 0..2 {
            let calm = store.append(new("calm"), newest).await.unwrap();
            newest += 1;
            assert_eq!(calm, Written::Stored(newest));
        }
        proxy.arm(cut, proxy.commit());
        proxy.close(true);
        let outcome = store.append(new("cut"), newest).await;
        assert_eq!(proxy.disarm(), Some(b'Q'), "it was the commit");
        let error = outcome.unwrap_err();
        let StoreError::Unknown { operation } = &error else {
            unreachable!("{error:?}");
        };
        assert!(error.to_string().contains(operation), "{error}");
        proxy.close(false);
        let number = is_stored.then_some(newest + 1);
        let row = store.operation(operation).await.unwrap();
        assert_eq!(row.map(|row| row.generation_after), number, "{cut:?}");
    }
}

/// A server that falls silent keeps nobody waiting for long, and what was under way is known when
/// it speaks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_waited_for_with_an_end() {
    let Some(database) = postgres::Database::new().await else {
        return;
    };
    let proxy = Proxy::before(&database.url);
    let store = behind(&proxy, &database).await;
    proxy.silence(true);
    let within = tokio::time::timeout(Duration::from_secs(5), store.newest_number());
    let read = within.await.expect("an answer within seconds");
    assert!(matches!(read, Err(StoreError::Away(_))), "{read:?}");
    let within = tokio::time::timeout(Duration::from_secs(5), store.append(new("silent"), 2));
    let written = within.await.expect("an answer within seconds");
    assert!(matches!(written, Err(StoreError::Away(_))), "{written:?}");
    proxy.silence(false);
    let mut tries = 0;
    let written = loop {
        match store.append(new("next"), 2).await {
            Err(StoreError::Away(_)) if tries < 100 => tries += 1,
            other => break other,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert_eq!(written.unwrap(), Written::Stored(3));
    assert_eq!(store.newest_number().await.unwrap(), 3);
    assert_eq!(held(&mut database.connect().await).await, (3, 3));
}
