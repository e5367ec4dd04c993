//! What the write path makes of the setting `approvals` and of who asks. Separate for length; no
//! product code.

use super::*;
use crate::limits::Fields;
use crate::settings::{Approvals, Settings};

const DOCUMENT: &str = r#"{"schema": 1, "gateway": {"capacity": 50},
    "upstreams": {"u": {"endpoints": ["http://127.0.0.1:9"]}},
    "routes": [{"id": "a", "path": "/a", "upstream": "u", "compartment": {"limit": 5}}]}"#;

fn author(name: &str, person: &str, emergency: bool) -> Author {
    Author {
        name: name.to_owned(),
        person: person.to_owned(),
        emergency,
        ..Author::default()
    }
}

async fn limits(folder: &tempfile::TempDir) -> (Store, Limits, Changes) {
    let url = format!("sqlite://{}/store.db", folder.path().display());
    let store = Store::open(&url).await.unwrap();
    let document = serde_json::from_str(DOCUMENT).unwrap();
    crate::limits::write_first(&store, document, "first")
        .await
        .unwrap();
    let rollout = Rollout::new(store.clone()).await.unwrap();
    let limits = Limits::new(store.clone(), rollout.clone());
    let changes = Changes::new(store.clone(), rollout, limits.clone(), Live::default());
    (store, limits, changes)
}

fn fields(limit: i128) -> Fields {
    Fields {
        values: vec![("limit".to_owned(), Value::Integer(limit))],
        comment: "why".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emergency_goes_past_and_the_audit_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, limits, _) = limits(&folder).await;
    let ann = author("ann", "ann", false);
    Settings::new(store.clone())
        .set_approvals(Approvals::All, &ann)
        .await
        .unwrap();
    let patch = async |limit: i128, author: &Author| {
        let fields = fields(limit);
        limits
            .patch("route/a", &fields, None, false, author)
            .await
            .unwrap()
    };
    let opened = patch(6, &ann).await;
    assert_eq!((opened.stored, opened.opened()), (false, Some(1)));
    let pager = author("token pager", "ann", true);
    let stored = patch(7, &pager).await;
    assert_eq!(
        (stored.generation, stored.stored, stored.change),
        (2, true, None)
    );
    let row = store.audit(1).await.unwrap().remove(0);
    assert_eq!(
        (row.who.as_str(), row.action.as_str()),
        ("token pager", "patch")
    );
    assert!(
        row.differences.starts_with(r#"{"emergency":true,"#),
        "{}",
        row.differences
    );
    // What the process does by itself was agreed to when it was ordered.
    let stored = patch(8, &author("control plane", "", false)).await;
    assert_eq!((stored.generation, stored.stored), (3, true));
    let row = store.audit(1).await.unwrap().remove(0);
    assert!(
        !row.differences.contains("emergency"),
        "{}",
        row.differences
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_the_author_is_the_author() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, changes) = limits(&folder).await;
    let ann = author("ann", "ann", false);
    Settings::new(store)
        .set_approvals(Approvals::All, &ann)
        .await
        .unwrap();
    let edit = |limit| {
        let values = fields(limit).values;
        Edit::Several(vec![("route/a".to_owned(), values)])
    };
    let by_token = author("token deploy", "ann", false);
    let change = changes
        .propose(edit(6), "why", None, &by_token)
        .await
        .unwrap();
    let number = change.number;
    for own in [&ann, &by_token, &author("nobody", "", false)] {
        let refused = changes.approve(number, None, "", own).await;
        assert!(
            matches!(refused, Err(ChangeError::Own { .. })),
            "{refused:?}"
        );
    }
    let bob = author("bob", "bob", false);
    changes.approve(number, None, "", &bob).await.unwrap();
    // Bob edits it: neither of them can approve what it is now.
    changes.edit(number, None, edit(9), "", &bob).await.unwrap();
    for own in [&ann, &bob] {
        let refused = changes.approve(number, None, "", own).await;
        assert!(
            matches!(refused, Err(ChangeError::Own { .. })),
            "{refused:?}"
        );
    }
    let refused = changes
        .publish(number, None, Terms::default(), "", &ann)
        .await;
    assert!(
        matches!(refused, Err(ChangeError::NotApproved(1))),
        "{refused:?}"
    );
    let refused = changes.stage(number, None, "gw", "", &ann).await;
    assert!(
        matches!(refused, Err(ChangeError::NotApproved(1))),
        "{refused:?}"
    );
    changes
        .approve(number, None, "", &author("carl", "carl", false))
        .await
        .unwrap();
    let published = changes
        .publish(number, None, Terms::default(), "", &ann)
        .await
        .unwrap();
    assert_eq!(
        (published.state, published.published),
        (State::Published, Some(2))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_are_of_the_clock_that_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let (_, _, changes) = limits(&folder).await;
    let ann = author("ann", "ann", false);
    let edit = Edit::Several(vec![("route/a".to_owned(), fields(6).values)]);
    let change = changes.propose(edit, "why", None, &ann).await.unwrap();
    let terms = Terms {
        confirm_within_ms: Some(60_000),
        ..Terms::default()
    };
    let published = changes
        .publish(change.number, None, terms, "", &ann)
        .await
        .unwrap();
    let by = published.body.confirm_by_ms.unwrap();
    changes.look(by - 1).await.unwrap();
    assert_eq!(changes.one(1).await.unwrap().state, State::Published);
    changes.look(by).await.unwrap();
    let gone = changes.one(1).await.unwrap();
    assert_eq!((gone.state, gone.reverted), (State::Reverted, Some(3)));
    // Once.
    changes.look(by + 1).await.unwrap();
    assert_eq!(changes.one(1).await.unwrap().version, gone.version);
}
