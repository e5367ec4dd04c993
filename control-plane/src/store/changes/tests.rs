//! What steps of changes do to the store, on both databases. Separate for length; no product code.

use super::super::test_postgres;
use super::*;
use crate::store::Written;

/// The test on SQLite, and on Postgres where there is one.
async fn on_both<F: Future<Output = ()>>(test: impl Fn(Store) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/store.db", folder.path().display());
    test(Store::open(&url).await.unwrap()).await;
    if let Some(database) = test_postgres::Database::new().await {
        test(Store::open(&database.url).await.unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_and_their_generations_are_stored_together_or_not_at_all() {
    on_both(together).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_staged_is_not_the_newest_and_numbers_go_on_after_it() {
    on_both(numbers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_one_database_cannot_hold_is_changed_on_both() {
    on_both(texts).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_change_on_its_way_refers_to_keeps_its_document() {
    on_both(referred).await;
}

fn new(source: &'static str) -> NewGeneration {
    NewGeneration {
        document: r#"{"schema":1}"#.to_owned(),
        digest: "d".to_owned(),
        author: "somebody".to_owned(),
        comment: String::new(),
        source,
        created_at: "2026-01-01T00:00:00.000Z".to_owned(),
        origin: String::new(),
        differences: "{}".to_owned(),
        request_id: String::new(),
    }
}

fn audit() -> AuditRow {
    AuditRow {
        at: "2026-01-01T00:00:00.000Z".to_owned(),
        action: "change-open".to_owned(),
        who: "somebody".to_owned(),
        differences: r#"{"step":"open"}"#.to_owned(),
        ..AuditRow::default()
    }
}

fn row(number: u64, version: u64, state: &str) -> ChangeRow {
    ChangeRow {
        number,
        version,
        state: state.to_owned(),
        author: "ann".to_owned(),
        created_at: "2026-01-01T00:00:00.000Z".to_owned(),
        body: "{}".to_owned(),
        ..ChangeRow::default()
    }
}

fn plain(row: ChangeRow) -> ChangeWrite {
    ChangeWrite {
        row,
        document: None,
        makes: None,
        audit: audit(),
    }
}

fn makes(row: ChangeRow, role: Role, source: &'static str, seen: u64) -> ChangeWrite {
    let new = new(source);
    ChangeWrite {
        makes: Some(Makes { role, new, seen }),
        ..plain(row)
    }
}

async fn together(store: Store) {
    assert_eq!(
        store.append(new("put"), 0).await.unwrap(),
        Written::Stored(1)
    );
    let open = ChangeWrite {
        document: Some(Some("{}".to_owned())),
        ..plain(row(0, 1, "draft"))
    };
    let stored = |number, generation| ChangeWritten::Stored { number, generation };
    assert_eq!(store.write_change(open).await.unwrap(), stored(1, None));
    assert_eq!(
        store.change_document(1).await.unwrap().as_deref(),
        Some("{}")
    );
    let kept = store.audit(1).await.unwrap().remove(0);
    assert_eq!(
        (kept.subject.as_str(), kept.generation_after),
        ("change:1", 1)
    );
    assert!(!kept.operation.is_empty(), "it can be asked for");
    // On another version, or another generation, than the one that was read: nothing at all.
    let rows = store.audit(100).await.unwrap().len();
    for (write, want) in [
        (plain(row(1, 1, "approved")), ChangeWritten::Raced),
        (plain(row(1, 3, "approved")), ChangeWritten::Raced),
        (plain(row(9, 2, "approved")), ChangeWritten::Raced),
        (
            makes(row(1, 3, "published"), Role::Published, "publish", 1),
            ChangeWritten::Raced,
        ),
        (
            makes(row(1, 2, "published"), Role::Published, "publish", 7),
            ChangeWritten::MovedOn(1),
        ),
    ] {
        assert_eq!(store.write_change(write).await.unwrap(), want);
    }
    assert_eq!(store.newest_number().await.unwrap(), 1);
    assert_eq!(store.audit(100).await.unwrap().len(), rows);
    let publish = makes(row(1, 2, "published"), Role::Published, "publish", 1);
    let publish = ChangeWrite {
        document: Some(None),
        ..publish
    };
    assert_eq!(
        store.write_change(publish).await.unwrap(),
        stored(1, Some(2))
    );
    let change = store.change(1).await.unwrap().unwrap();
    assert_eq!((change.version, change.published), (2, Some(2)));
    assert_eq!(store.change_document(1).await.unwrap(), None);
    assert_eq!(store.audit(100).await.unwrap().len(), rows + 1);
    assert_eq!(store.change(2).await.unwrap(), None);
}

async fn numbers(store: Store) {
    store.append(new("put"), 0).await.unwrap();
    for _ in 0..2 {
        store.write_change(plain(row(0, 1, "draft"))).await.unwrap();
    }
    let stage = makes(row(1, 2, "staged"), Role::Staged, "stage", 1);
    let staged = ChangeWritten::Stored {
        number: 1,
        generation: Some(2),
    };
    assert_eq!(store.write_change(stage).await.unwrap(), staged);
    let other = makes(row(2, 2, "staged"), Role::Staged, "stage", 1);
    assert_eq!(
        store.write_change(other).await.unwrap(),
        ChangeWritten::Taken(1)
    );
    assert_eq!(store.newest_number().await.unwrap(), 1);
    assert_eq!(
        store.append(new("patch"), 1).await.unwrap(),
        Written::Stored(3)
    );
    assert_eq!(store.newest_before(3).await.unwrap(), 1);
    assert_eq!(store.newest_before(1).await.unwrap(), 0);
    let due = ChangeRow {
        due_ms: Some(5),
        ..row(2, 2, "published")
    };
    store.write_change(plain(due)).await.unwrap();
    let at_work = store.changes_at_work().await.unwrap();
    let at_work: Vec<_> = at_work.iter().map(|row| (row.number, row.staged)).collect();
    assert_eq!(at_work, [(1, Some(2)), (2, None)]);
    let filter = |before, state: &str| ChangeFilter {
        before,
        state: state.to_owned(),
    };
    for (filter, want) in [
        (filter(None, ""), vec![2, 1]),
        (filter(Some(2), ""), vec![1]),
        (filter(None, "published"), vec![2]),
    ] {
        let rows = store.changes(&filter, 9).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.number).collect::<Vec<_>>(), want);
    }
    // As many drafts as there may be: what is published at once still finds room.
    for _ in 0..CHANGES_OPEN_MAX {
        store.write_change(plain(row(0, 1, "draft"))).await.unwrap();
    }
    let more = store.write_change(plain(row(0, 1, "draft"))).await.unwrap();
    assert_eq!(more, ChangeWritten::TooMany);
    let now = makes(row(0, 1, "published"), Role::Published, "patch", 3);
    assert!(matches!(
        store.write_change(now).await.unwrap(),
        ChangeWritten::Stored {
            generation: Some(4),
            ..
        }
    ));
}

async fn texts(store: Store) {
    store.append(new("put"), 0).await.unwrap();
    let mut bad = row(0, 1, "draft");
    bad.author = "a\0b".to_owned();
    let bad = ChangeWrite {
        document: Some(Some("\"\0\"".to_owned())),
        ..plain(bad)
    };
    store.write_change(bad).await.unwrap();
    let change = store.change(1).await.unwrap().unwrap();
    assert_eq!(change.author, "a\u{fffd}b");
    let document = store.change_document(1).await.unwrap();
    assert_eq!(document.as_deref(), Some("\"\u{fffd}\""));
}

/// Lets go what may go; the numbers that still have a document.
async fn kept(store: &Store) -> Vec<u64> {
    let old = super::super::Old {
        newest_kept: 0,
        before: "2030-01-01T00:00:00.000Z".to_owned(),
        at_most: 100,
    };
    store.forget_documents(old).await.unwrap();
    let listed = store.generations(None, 100).await.unwrap();
    let kept = listed.into_iter().filter(|one| one.kept);
    kept.map(|one| one.number).collect()
}

async fn referred(store: Store) {
    for seen in 0..4 {
        store.append(new("put"), seen).await.unwrap();
    }
    let refers = |body: &str, row: ChangeRow| ChangeRow {
        body: body.to_owned(),
        ..row
    };
    // One is drafted on 1, one is staged (5) on 2, one is published (6) over 4 and not kept yet.
    let drafted = refers(r#"{"base":1,"before":null}"#, row(0, 1, "draft"));
    let staged = refers(r#"{"base":2,"staged_on":2}"#, row(2, 2, "staged"));
    let published = refers(r#"{"base":4,"before":4}"#, row(3, 2, "published"));
    let published = ChangeRow {
        due_ms: Some(1),
        ..published
    };
    for write in [
        plain(drafted),
        plain(row(0, 1, "draft")),
        plain(row(0, 1, "draft")),
        makes(staged, Role::Staged, "stage", 4),
        makes(published, Role::Published, "publish", 4),
    ] {
        let written = store.write_change(write).await.unwrap();
        assert!(
            matches!(written, ChangeWritten::Stored { .. }),
            "{written:?}"
        );
    }
    store.append(new("put"), 6).await.unwrap();
    assert_eq!(kept(&store).await, [7, 6, 5, 4, 2, 1]);
    // Decided, each of them refers to nothing that is still needed.
    for (number, version, state) in [
        (1, 2, "abandoned"),
        (2, 3, "abandoned"),
        (3, 3, "published"),
    ] {
        let write = plain(row(number, version, state));
        store.write_change(write).await.unwrap();
    }
    assert_eq!(kept(&store).await, [7]);
}
