//! What a store that is read at a bad moment, or not at all, must not undo.

use super::*;
use crate::store::NewGeneration;

async fn orders(folder: &tempfile::TempDir) -> Orders {
    let url = format!("sqlite://{}/store.db", folder.path().display());
    let store = Store::open(&url).await.unwrap();
    let first = NewGeneration {
        document: r#"{"schema": 1}"#.to_owned(),
        digest: "1".to_owned(),
        author: String::new(),
        comment: String::new(),
        source: "import",
        created_at: clock::utc(),
        origin: String::new(),
        differences: String::new(),
        request_id: String::new(),
    };
    store.append(first, 0).await.unwrap();
    Orders::open(store).await.unwrap()
}

fn author() -> Author {
    Author {
        name: "operator".to_owned(),
        origin: String::new(),
        ..Author::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_waits_for_whoever_writes() {
    let folder = tempfile::tempdir().unwrap();
    let orders = orders(&folder).await;
    let made = orders.create_token("one", &author()).await.unwrap();
    let entry = orders.entry(made.token.expose()).unwrap();
    let turn = orders.turn.lock().await;
    let slow = async {
        // Many reads, one after the other: the one that is watched would be done first.
        for _ in 0..50 {
            orders.store.meta(ALL).await.unwrap();
        }
    };
    let mut read = std::pin::pin!(orders.read());
    tokio::select! {
        biased;
        _ = &mut read => unreachable!("it has rows from before the write"),
        () = slow => {}
    }
    orders.forget(&made.row, &author()).await.unwrap();
    drop(turn);
    read.await.unwrap();
    assert!(!orders.lets_in(&entry, "one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_counts_though_the_store_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let orders = orders(&folder).await;
    let made = orders.create_token("one", &author()).await.unwrap();
    let entry = orders.entry(made.token.expose()).unwrap();
    let bad = (format!("{TOKEN}bad"), Some("no row".to_owned()));
    orders.store.put_meta(bad.0, bad.1, None).await.unwrap();
    assert!(orders.read().await.is_err());
    let mut told = orders.follow();
    orders.revoke_token(&made.row.id, &author()).await.unwrap();
    assert!(told.has_changed().unwrap() && !orders.lets_in(&entry, "one"));
    told.mark_unchanged();
    orders.shut_out("two", &author()).await.unwrap();
    assert!(told.has_changed().unwrap() && !orders.lets_in(&Entry::Shared, "two"));
    orders.drain("two", true, &author()).await.unwrap();
    assert!(orders.drained("two").is_some());
    orders.drain("two", false, &author()).await.unwrap();
    assert_eq!(orders.drained("two"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_token_ends_a_shut_out_and_nothing_of_before_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let orders = orders(&folder).await;
    let old = orders.create_token("one", &author()).await.unwrap();
    orders.shut_out("one", &author()).await.unwrap();
    orders.shut_out("one", &author()).await.unwrap();
    let rows = orders.store.audit(100).await.unwrap();
    let revokes = rows.iter().filter(|row| row.action == "revoke");
    assert_eq!(revokes.count(), 1, "it was out already");
    assert!(orders.tokens().is_empty());
    // As if its deletion had failed.
    let (name, text) = (format!("{TOKEN}{}", old.row.id), body(&old.row).unwrap());
    orders.store.put_meta(name, Some(text), None).await.unwrap();
    orders.read().await.unwrap();
    let entry = orders.entry(old.token.expose()).unwrap();
    assert!(!orders.lets_in(&entry, "one"));
    let new = orders.create_token("one", &author()).await.unwrap();
    assert!(!orders.lets_in(&entry, "one"));
    let entry = orders.entry(new.token.expose()).unwrap();
    // The same after a start.
    for _ in 0..2 {
        assert!(orders.lets_in(&entry, "one") && orders.lets_in(&Entry::Shared, "one"));
        assert_eq!(orders.tokens().len(), 1);
        orders.read().await.unwrap();
    }
    let left = orders.store.meta(SHUT).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shut_out_for_which_there_is_no_room_revokes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let orders = orders(&folder).await;
    let made = orders.create_token("one", &author()).await.unwrap();
    let entry = orders.entry(made.token.expose()).unwrap();
    let text = body(&order(&author())).unwrap();
    for number in 0..ORDERS_MAX {
        let name = format!("{SHUT}gone-{number}");
        let put = orders.store.put_meta(name, Some(text.clone()), None);
        put.await.unwrap();
    }
    let refused = orders.shut_out("one", &author()).await;
    assert!(matches!(refused, Err(OrderError::Full)), "{refused:?}");
    assert!(orders.lets_in(&entry, "one"));
    orders.shut_out("gone-7", &author()).await.unwrap();
    orders.create_token("gone-7", &author()).await.unwrap();
    orders.shut_out("one", &author()).await.unwrap();
    assert!(!orders.lets_in(&entry, "one"));
}
