//! Opening a change: what is proposed is checked whole, noted and stored.
//!
//! Separate because the write path of the policy opens one, too, where a second person is asked
//! for. It must never store a document that was not checked.

use std::sync::Arc;

use super::body::Body;
use super::change::{Change, audit};
use super::state::State;
use crate::limits::{Author, COMMENT_BYTES_MAX, Checked, LimitsError};
use crate::rollout::Published;
use crate::store::{ChangeWrite, ChangeWritten, Store, StoreError};

/// What is told with a proposal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draft<'a> {
    /// Through which door.
    pub(crate) source: &'static str,
    /// Why.
    pub(crate) comment: &'a str,
}

/// Stores a proposal on top of `on`; its number.
pub(crate) async fn open(
    store: &Store,
    draft: Draft<'_>,
    checked: Checked,
    on: &Arc<Published>,
    author: &Author,
) -> Result<u64, LimitsError> {
    let (change, document) = begin(draft, checked, on, author).await?;
    let audit = audit(&change, "open", draft.comment, author);
    let write = ChangeWrite {
        row: change.row()?,
        document: Some(Some(document)),
        makes: None,
        audit,
    };
    match store.write_change(write).await? {
        ChangeWritten::Stored { number, .. } => Ok(number),
        ChangeWritten::TooMany => Err(LimitsError::TooManyOpen),
        // None of them can happen to one that is new and makes nothing.
        ChangeWritten::Raced | ChangeWritten::MovedOn(_) | ChangeWritten::Taken(_) => {
            Err(LimitsError::Contended)
        }
    }
}

/// A change that nobody has stored yet, and the text of its document.
pub(super) async fn begin(
    draft: Draft<'_>,
    checked: Checked,
    on: &Arc<Published>,
    author: &Author,
) -> Result<(Change, String), LimitsError> {
    let mut change = Change {
        version: 1,
        state: State::Draft,
        author: author.name.clone(),
        created_at: crate::clock::utc(),
        ..Change::default()
    };
    let (body, document) = proposed(Body::default(), checked, on).await?;
    change.body = body;
    let body = &mut change.body;
    body.comment = wire::stream::bounded_text(draft.comment, COMMENT_BYTES_MAX);
    body.source = draft.source.to_owned();
    body.wrote(author);
    let comment = body.comment.clone();
    body.took("open", &change.created_at, &comment, author);
    Ok((change, document))
}

/// The body with what `checked` makes of `on`.
pub(super) async fn proposed(
    mut body: Body,
    checked: Checked,
    on: &Arc<Published>,
) -> Result<(Body, String), LimitsError> {
    let on = Arc::clone(on);
    // Comparing takes its time: a document may have 32 MiB.
    let work = move || {
        body.proposes(on.about.number, &on.document, &checked.document);
        (body, checked.json)
    };
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| StoreError::Closed)?)
}
