//! Generations as they are stored and read back.
//!
//! Separate from the decision to store one. Every text of a caller is bounded here. It must never
//! read a document on a thread that serves.

use std::sync::Arc;

use compartment::policy::Value;

use super::{Author, COMMENT_BYTES_MAX, Checked, Edit, LimitsError, check};
use crate::store::{Generation, NewGeneration, Store, StoreError, Written};

/// A generation as it is to be stored; the text of the document is taken out of `checked`.
pub(crate) fn new_generation(
    source: &'static str,
    comment: &str,
    author: &Author,
    checked: &mut Checked,
) -> NewGeneration {
    let bounded = |text: &str| wire::stream::bounded_text(text, COMMENT_BYTES_MAX);
    let differences = &checked.differences;
    NewGeneration {
        document: std::mem::take(&mut checked.json),
        digest: checked.digest.clone(),
        author: bounded(&author.name),
        comment: bounded(comment),
        source,
        created_at: crate::clock::utc(),
        origin: bounded(&author.origin),
        differences: match differences.strip_prefix('{').filter(|_| author.emergency) {
            Some(rest) => format!("{{\"emergency\":true,{rest}"),
            None => differences.clone(),
        },
        request_id: bounded(&author.request_id),
    }
}

/// What is known of it once it has its number.
pub(crate) fn about(new: &NewGeneration, number: u64) -> Generation {
    Generation {
        number,
        digest: new.digest.clone(),
        author: new.author.clone(),
        comment: new.comment.clone(),
        source: new.source.to_owned(),
        created_at: new.created_at.clone(),
        kept: true,
    }
}

/// Reads a stored document off the threads that serve.
pub(crate) async fn read(document: String) -> Result<Value, StoreError> {
    let work = move || serde_json::from_str(&document);
    let read = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    read.map_err(|_| StoreError::Row("generations.document"))
}

/// Writes the first generation of a store that has none; `None` when another process did.
pub(crate) async fn write_first(
    store: &Store,
    document: Value,
    comment: &str,
) -> Result<Option<u64>, LimitsError> {
    let checked = check(Edit::Whole(Arc::new(document)), None).await?;
    let new = NewGeneration {
        document: checked.json,
        digest: checked.digest,
        author: "import".to_owned(),
        comment: comment.to_owned(),
        source: "import",
        created_at: crate::clock::utc(),
        origin: String::new(),
        differences: checked.differences,
        request_id: String::new(),
    };
    match store.append(new, 0).await? {
        Written::Stored(number) => Ok(Some(number)),
        Written::MovedOn(_) => Ok(None),
    }
}
