//! What every store does, whichever database it is on: each of these tests runs on both.
//!
//! Separate from what only one of them can do to us (files, locks, lost connections). A test here
//! must never know which one it runs on.

use control_plane::store::{
    AlertFilter, AlertRow, AuditRow, DRILLS_KEPT_MAX, DRILLS_OF_ROUTE_MAX, DrillRow, Facts,
    NewGeneration, Old, Store, StoreError, Written,
};

use crate::support::postgres;

/// A place for a store, for as long as this lives.
enum Place {
    Folder(tempfile::TempDir),
    Database(postgres::Database),
}

impl Place {
    fn sqlite() -> Self {
        Self::Folder(tempfile::tempdir().unwrap())
    }

    fn url(&self) -> String {
        match self {
            Self::Folder(folder) => format!("sqlite://{}/store.db", folder.path().display()),
            Self::Database(database) => database.url.clone(),
        }
    }

    async fn open(&self) -> Store {
        Store::open(&self.url()).await.unwrap()
    }
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod on_sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(&super::Place::sqlite()).await;
            })+
        }
        mod on_postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(database) = super::postgres::Database::new().await {
                    super::$name(&super::Place::Database(database)).await;
                }
            })+
        }
    };
}

on_both!(
    a_generation_comes_with_its_audit_row_or_not_at_all,
    everything_that_was_written_is_read_back,
    what_was_stored_is_there_after_opening_again,
    generations_are_listed_newest_first_and_in_pages,
    two_processes_never_write_one_number,
    a_caller_that_leaves_poisons_nothing,
    an_operation_tells_what_it_made,
    text_that_one_database_cannot_hold_is_changed_on_both,
    a_policy_of_many_megabytes_is_kept,
    alerts_are_found_by_what_they_are_and_the_oldest_go,
    reports_of_drills_are_kept_up_to_their_bounds,
    the_windows_of_the_alerts_are_kept,
    small_facts_are_found_by_how_their_names_begin,
    facts_are_written_together_and_only_if_nothing_moved,
    racing_edits_have_one_winner_each,
    many_open_a_new_store_at_once,
    documents_of_old_generations_go_and_their_rows_stay,
    a_closed_store_says_so,
);

pub(super) fn new(comment: &str) -> NewGeneration {
    NewGeneration {
        document: r#"{"schema":1}"#.to_owned(),
        digest: "d".to_owned(),
        author: "somebody".to_owned(),
        comment: comment.to_owned(),
        source: "put",
        created_at: "2026-01-01T00:00:00.000Z".to_owned(),
        origin: "127.0.0.1".to_owned(),
        differences: "{}".to_owned(),
        request_id: "r-1".to_owned(),
    }
}

async fn a_generation_comes_with_its_audit_row_or_not_at_all(place: &Place) {
    let store = place.open().await;
    assert_eq!(store.newest_number().await.unwrap(), 0);
    for (comment, seen, written) in [
        ("one", 0, Written::Stored(1)),
        ("late", 0, Written::MovedOn(1)),
        ("early", 9, Written::MovedOn(1)),
        ("two", 1, Written::Stored(2)),
    ] {
        assert_eq!(store.append(new(comment), seen).await.unwrap(), written);
    }
    let generations = store.generations(None, 10).await.unwrap();
    let audit = store.audit(10).await.unwrap();
    assert_eq!((generations.len(), audit.len()), (2, 2));
    assert_eq!(
        (audit[0].generation_before, audit[0].generation_after),
        (1, 2)
    );
}

async fn everything_that_was_written_is_read_back(place: &Place) {
    let store = place.open().await;
    let written = NewGeneration {
        document: "{\"schema\":1,\"note\":\"ä\u{2028}\u{1f6a2}'\\\\\"}".to_owned(),
        digest: "0f".repeat(32),
        author: "me \"quoted\" $1 ?".to_owned(),
        comment: "why\n--; DROP".to_owned(),
        source: "restore",
        created_at: "2026-02-03T04:05:06.789Z".to_owned(),
        origin: "2001:db8::1".to_owned(),
        differences: "[]".to_owned(),
        request_id: "r-2".to_owned(),
    };
    store.append(written.clone(), 0).await.unwrap();
    let comment = written.comment.clone();
    let stored = store.generation(1).await.unwrap().unwrap();
    assert_eq!(stored.document, written.document);
    let about = stored.about;
    let listed = store.generations(None, 1).await.unwrap();
    assert_eq!(listed.first(), Some(&about));
    assert_eq!(
        (about.number, about.digest, about.author, about.comment),
        (1, written.digest, written.author.clone(), written.comment)
    );
    assert_eq!(
        (about.source.as_str(), about.created_at.as_str()),
        ("restore", written.created_at.as_str())
    );
    let row = store.audit(1).await.unwrap().remove(0);
    assert_eq!(
        (row.at, row.action.as_str(), row.who, row.origin),
        (
            written.created_at,
            "restore",
            written.author,
            written.origin
        )
    );
    assert_eq!(
        (row.generation_before, row.differences, row.request_id),
        (0, written.differences, written.request_id)
    );
    assert_eq!((row.subject.as_str(), row.comment), ("policy", comment));
    for number in [0, 2, u64::MAX] {
        assert_eq!(store.generation(number).await.unwrap(), None);
    }
}

/// Two newest are kept, those of this year, and the proven one.
async fn documents_of_old_generations_go_and_their_rows_stay(place: &Place) {
    let store = place.open().await;
    let made = |seen: u64, at: &str, source| NewGeneration {
        created_at: at.to_owned(),
        source,
        ..new(&format!("{}", seen + 1))
    };
    let (old, young) = ("2025-01-01T00:00:00.000Z", "2026-01-01T00:00:00.000Z");
    for (seen, at, source) in [
        (0, old, "put"),
        (1, old, "put"),
        (2, old, "put"),
        (3, young, "put"),
        (4, old, "put"),
        (5, old, "put"),
        (6, old, "stage"),
        (6, old, "stage"),
    ] {
        store.append(made(seen, at, source), seen).await.unwrap();
    }
    let proven = Some("2".to_owned());
    let put = store.put_meta("proven".to_owned(), proven, None);
    put.await.unwrap();
    let bounds = |newest_kept, at_most| Old {
        newest_kept,
        before: young.to_owned(),
        at_most,
    };
    let kept = async || {
        let listed = store.generations(None, 10).await.unwrap();
        let kept = listed.iter().filter(|one| one.kept);
        (listed.len(), kept.map(|one| one.number).collect::<Vec<_>>())
    };
    // At most so many at once, the oldest first.
    assert_eq!(store.forget_documents(bounds(2, 1)).await.unwrap(), 1);
    assert_eq!(kept().await, (8, vec![8, 7, 6, 5, 4, 3, 2]));
    assert_eq!(store.forget_documents(bounds(2, 9)).await.unwrap(), 2);
    assert_eq!(kept().await, (8, vec![8, 7, 6, 4, 2]));
    assert_eq!(store.forget_documents(bounds(2, 9)).await.unwrap(), 0);
    // Whatever the bounds: the newest that everybody gets, and the proven one.
    assert_eq!(store.forget_documents(bounds(0, 9)).await.unwrap(), 0);
    let gone = store.generation(3).await.unwrap_err();
    assert!(matches!(gone, StoreError::NotKept(3)), "{gone:?}");
    for number in [2, 4, 6] {
        assert!(store.generation(number).await.unwrap().is_some());
    }
    let three = store.generations(Some(4), 1).await.unwrap().remove(0);
    assert_eq!((three.digest.as_str(), three.comment.as_str()), ("d", "3"));
    assert_eq!(store.audit(20).await.unwrap().len(), 8);
    // It goes on from there.
    let next = store.append(new("next"), 6).await.unwrap();
    assert_eq!(next, Written::Stored(9));
}

async fn what_was_stored_is_there_after_opening_again(place: &Place) {
    let store = place.open().await;
    store.append(new("kept"), 0).await.unwrap();
    let epoch = store.epoch().to_owned();
    store.close().await;
    let again = place.open().await;
    assert_eq!(again.newest_number().await.unwrap(), 1);
    assert_eq!(again.epoch(), epoch, "the store keeps its name");
}

async fn generations_are_listed_newest_first_and_in_pages(place: &Place) {
    let store = place.open().await;
    for seen in 0..7 {
        store.append(new(&seen.to_string()), seen).await.unwrap();
    }
    let numbers = async |before, count| {
        let page = store.generations(before, count).await.unwrap();
        page.iter().map(|one| one.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, 3).await, [7, 6, 5]);
    assert_eq!(numbers(Some(5), 3).await, [4, 3, 2]);
    assert_eq!(numbers(Some(1), 3).await, [] as [u64; 0]);
    assert_eq!(numbers(Some(u64::MAX), 500).await.len(), 7);
    assert_eq!(store.audit(3).await.unwrap().len(), 3);
}

/// Racing writers of two handles, as two processes would be.
async fn two_processes_never_write_one_number(place: &Place) {
    let (one, two) = (place.open().await, place.open().await);
    let write = async |store: &Store| {
        let mut stored = 0_u64;
        while stored < 20 {
            let seen = store.newest_number().await.unwrap();
            if let Written::Stored(_) = store.append(new("race"), seen).await.unwrap() {
                stored += 1;
            }
        }
    };
    tokio::join!(write(&one), write(&two));
    assert_eq!(one.newest_number().await.unwrap(), 40);
    assert_eq!(two.audit(100).await.unwrap().len(), 40);
}

/// A writer whose caller left stores whole or nothing, and the next writer is not disturbed.
async fn a_caller_that_leaves_poisons_nothing(place: &Place) {
    let store = place.open().await;
    for n in 0..50_u32 {
        let seen = store.newest_number().await.unwrap();
        let write = store.append(new("left"), seen);
        let patience = std::time::Duration::from_micros(u64::from(n) * 40);
        let _left = tokio::time::timeout(patience, write).await;
        let read = std::time::Duration::from_micros(u64::from(n) * 10);
        let _left = tokio::time::timeout(read, store.generations(None, 9)).await;
    }
    // There is one writer at a time, so a write that waits its turn is the last.
    assert!(matches!(
        store.append(new("probe"), u64::MAX).await,
        Ok(Written::MovedOn(_))
    ));
    let newest = store.newest_number().await.unwrap();
    assert_eq!(
        store.append(new("next"), newest).await.unwrap(),
        Written::Stored(newest + 1)
    );
    let audit = store.audit(100).await.unwrap().len();
    assert_eq!(u64::try_from(audit).unwrap(), newest + 1);
}

async fn an_operation_tells_what_it_made(place: &Place) {
    let store = place.open().await;
    store.append(new("one"), 0).await.unwrap();
    store.append(new("two"), 1).await.unwrap();
    let audit = store.audit(2).await.unwrap();
    assert_ne!(audit[0].operation, audit[1].operation);
    for row in audit {
        let made = store.operation(&row.operation).await.unwrap();
        assert_eq!(made, Some(row));
    }
    assert_eq!(store.operation("another").await.unwrap(), None);
}

async fn text_that_one_database_cannot_hold_is_changed_on_both(place: &Place) {
    let store = place.open().await;
    store.append(new("a\0b"), 0).await.unwrap();
    let stored = store.generation(1).await.unwrap().unwrap();
    assert_eq!(stored.about.comment, "a\u{fffd}b");
}

async fn a_policy_of_many_megabytes_is_kept(place: &Place) {
    let store = place.open().await;
    let mut text = String::with_capacity(32 << 20);
    for n in 0.. {
        text.push_str(&format!("tenant-{n:x} "));
        if text.len() > (31 << 20) {
            break;
        }
    }
    let large = NewGeneration {
        document: format!("{{\"schema\":1,\"note\":\"{text}\"}}"),
        ..new("large")
    };
    let written = store.append(large.clone(), 0).await.unwrap();
    assert_eq!(written, Written::Stored(1));
    let stored = store.generation(1).await.unwrap().unwrap();
    assert!(stored.document == large.document, "not as it was written");
}

fn alert(id: u64, state: &'static str, resolved_ms: Option<i64>) -> AlertRow {
    AlertRow {
        id,
        compartment: format!("route/r{}", id % 2),
        state,
        severity: if id.is_multiple_of(3) {
            "ticket"
        } else {
            "page"
        },
        resolved_ms,
        body: format!("{id} {state}"),
    }
}

async fn reports_of_drills_are_kept_up_to_their_bounds(place: &Place) {
    let store = place.open().await;
    let drill = |route: &str, n: u32| DrillRow {
        id: format!("{n}-{route}"),
        route: route.to_owned(),
        at_ms: n.into(),
        body: format!("{route} {n}"),
    };
    store.put_drill(drill("first", 1)).await.unwrap();
    for n in 2..DRILLS_OF_ROUTE_MAX + 7 {
        store.put_drill(drill("a", n)).await.unwrap();
    }
    // Of one name the last one counts.
    let mut told = drill("a", 20);
    told.body = "told".to_owned();
    store.put_drill(told).await.unwrap();
    let all = store.drills().await.unwrap();
    assert_eq!(all.len(), 1 + usize::try_from(DRILLS_OF_ROUTE_MAX).unwrap());
    assert_eq!((all[0].as_str(), all[1].as_str()), ("first 1", "a 7"));
    assert_eq!(store.drill("20-a").await.unwrap().as_deref(), Some("told"));
    assert_eq!(store.drill("6-a").await.unwrap(), None);
    for n in 0..DRILLS_KEPT_MAX {
        let row = drill(&format!("r{n}"), 100 + n);
        store.put_drill(row).await.unwrap();
    }
    let again = place.open().await;
    let all = again.drills().await.unwrap();
    assert_eq!(all.len(), usize::try_from(DRILLS_KEPT_MAX).unwrap());
    assert_eq!(all[0], "r0 100");
}

async fn alerts_are_found_by_what_they_are_and_the_oldest_go(place: &Place) {
    let store = place.open().await;
    let firing = vec![alert(1, "firing", None), alert(2, "firing", None)];
    store.put_alerts(firing).await.unwrap();
    let twice = vec![alert(2, "firing", None), alert(2, "resolved", Some(500))];
    store.put_alerts(twice).await.unwrap();
    let (lately, newest) = store.alerts_since(501).await.unwrap();
    assert_eq!((lately, newest), (vec!["1 firing".to_owned()], 2));
    assert_eq!(store.alerts_since(500).await.unwrap().0.len(), 2);
    let many = (3..=10_100)
        .map(|id| alert(id, "resolved", Some(600)))
        .collect();
    store.put_alerts(many).await.unwrap();
    let list = async |filter: AlertFilter, count| store.alerts(&filter, count).await.unwrap();
    let all = list(AlertFilter::default(), 500).await;
    assert_eq!((all.len(), all[0].as_str()), (500, "10100 resolved"));
    let of = |state: &str, severity: &str, compartment: &str, before| AlertFilter {
        state: state.to_owned(),
        severity: severity.to_owned(),
        compartment: compartment.to_owned(),
        before,
    };
    // What fires stays, however old; of what is over, the newest ten thousand do.
    assert_eq!(list(of("firing", "", "", None), 9).await, ["1 firing"]);
    let oldest = list(of("", "", "", Some(102)), 9).await;
    assert_eq!(oldest, ["101 resolved", "1 firing"]);
    let narrow = list(of("resolved", "ticket", "route/r0", Some(1_000)), 2).await;
    assert_eq!(narrow, ["996 resolved", "990 resolved"]);
}

async fn the_windows_of_the_alerts_are_kept(place: &Place) {
    let store = place.open().await;
    assert_eq!(store.alert_windows().await.unwrap(), None);
    store.put_alert_windows("one".to_owned()).await.unwrap();
    store.put_alert_windows("two".to_owned()).await.unwrap();
    store.close().await;
    let again = place.open().await;
    assert_eq!(again.alert_windows().await.unwrap().as_deref(), Some("two"));
}

async fn small_facts_are_found_by_how_their_names_begin(place: &Place) {
    let store = place.open().await;
    store.append(new("one"), 0).await.unwrap();
    let row = AuditRow {
        action: "halt".to_owned(),
        subject: "generation:1".to_owned(),
        ..AuditRow::default()
    };
    let put = async |name: &str, value: Option<&str>, audit| {
        let (name, value) = (name.to_owned(), value.map(str::to_owned));
        store.put_meta(name, value, audit).await
    };
    put("halt.2", Some("two"), Some(row.clone())).await.unwrap();
    put("halt.1", Some("one"), Some(row.clone())).await.unwrap();
    put("halt.1", Some("uno"), None).await.unwrap();
    put("halt_3", Some("another"), None).await.unwrap();
    put("Halt.4", Some("another"), None).await.unwrap();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let found = store.meta("halt.").await.unwrap();
    assert_eq!(found, [pair("halt.1", "uno"), pair("halt.2", "two")]);
    assert_eq!(store.audit(9).await.unwrap().len(), 3);
    // With an audit row that cannot be written, nothing is.
    let dangling = AuditRow {
        generation_after: 99,
        ..row
    };
    assert!(put("halt.2", None, Some(dangling)).await.is_err());
    assert_eq!(store.meta("halt.").await.unwrap().len(), 2);
    put("halt.2", None, None).await.unwrap();
    assert_eq!(store.meta("halt.").await.unwrap(), [pair("halt.1", "uno")]);
    assert_eq!(store.newest_number().await.unwrap(), 1);
}

/// Several facts and their audit row are one write, which is nothing when one of its conditions
/// does not hold any more; it can be asked for; and it needs no generation.
async fn facts_are_written_together_and_only_if_nothing_moved(place: &Place) {
    let store = place.open().await;
    let other = place.open().await;
    let pair = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    let audit = |comment: &str| AuditRow {
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        action: "user-create".to_owned(),
        subject: "user:ann".to_owned(),
        who: "somebody".to_owned(),
        comment: comment.to_owned(),
        differences: r#"[{"pointer":"/role"}]"#.to_owned(),
        ..AuditRow::default()
    };
    let facts = Facts {
        put: vec![pair("user/ann", Some("1")), pair("name/ann", Some("\0"))],
        only_if: vec![pair("user/ann", None)],
    };
    let mut racing = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = if n % 2 == 0 {
            store.clone()
        } else {
            other.clone()
        };
        let (facts, audit) = (facts.clone(), audit(&format!("try {n}")));
        racing.spawn(async move { store.put_facts(facts, audit).await.unwrap() });
    }
    let won = racing.join_all().await;
    assert_eq!(won.iter().filter(|won| **won).count(), 1, "{won:?}");
    let rows = store.audit(9).await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(
        (rows[0].generation_before, rows[0].generation_after),
        (0, 0)
    );
    assert_eq!(rows[0].subject, "user:ann");
    assert!(rows[0].comment.starts_with("try "), "{rows:?}");
    let asked = other.operation(&rows[0].operation).await.unwrap();
    assert_eq!(asked.as_ref(), rows.first());
    assert_eq!(
        store.meta("user/").await.unwrap(),
        [("user/ann".to_owned(), "1".to_owned())]
    );
    store.append(new("one"), 0).await.unwrap();
    let swap = |from: &str, to: Option<&str>| Facts {
        put: vec![pair("user/ann", to), pair("name/ann", None)],
        only_if: vec![pair("user/ann", Some(from))],
    };
    assert!(
        !store
            .put_facts(swap("2", Some("3")), audit("stale"))
            .await
            .unwrap()
    );
    assert_eq!(
        store.meta("name/").await.unwrap().len(),
        1,
        "nothing of it was written"
    );
    assert!(
        store
            .put_facts(swap("1", Some("2")), audit("fresh"))
            .await
            .unwrap()
    );
    let last = store.audit(1).await.unwrap().remove(0);
    assert_eq!((last.generation_before, last.generation_after), (1, 1));
    assert_eq!(store.meta("name/").await.unwrap(), []);
}

/// Of 200 edits on top of one generation each, by eight writers: every number has one winner, and
/// the others are told what is the newest.
async fn racing_edits_have_one_winner_each(place: &Place) {
    let stores = [place.open().await, place.open().await];
    let mut racing = tokio::task::JoinSet::new();
    for writer in 0..8_usize {
        let store = stores[writer % 2].clone();
        racing.spawn(async move {
            let (mut won, mut seen) = (Vec::new(), 0);
            for edit in 0..25 {
                let comment = format!("{writer}-{edit}");
                match store.append(new(&comment), seen).await.unwrap() {
                    Written::Stored(number) => {
                        assert_eq!(number, seen + 1);
                        won.push((number, comment));
                        seen = number;
                    }
                    Written::MovedOn(newest) => {
                        assert!(newest > seen, "{newest} {seen}");
                        seen = newest;
                    }
                }
            }
            won
        });
    }
    let mut won: Vec<_> = racing.join_all().await.into_iter().flatten().collect();
    won.sort_unstable();
    let kept = stores[0].generations(None, 500).await.unwrap();
    let kept = kept.into_iter().rev().map(|one| (one.number, one.comment));
    assert_eq!(won, kept.collect::<Vec<_>>());
}

async fn many_open_a_new_store_at_once(place: &Place) {
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let url = place.url();
        opening.spawn(async move { Store::open(&url).await.unwrap().epoch().to_owned() });
    }
    let epochs = opening.join_all().await;
    assert!(epochs.iter().all(|epoch| *epoch == epochs[0]), "{epochs:?}");
}

async fn a_closed_store_says_so(place: &Place) {
    let store = place.open().await;
    store.close().await;
    assert!(matches!(
        store.append(new("late"), 0).await,
        Err(StoreError::Closed)
    ));
    assert!(matches!(
        store.put_alerts(Vec::new()).await,
        Err(StoreError::Closed)
    ));
}
