//! What of a document a gateway has already.
//!
//! Separate because it is a memory of what the other end said, nothing that is known here: a
//! gateway that turns out not to have a part says so, and is sent the whole. It must never leave
//! out what the gateway did not itself say that it runs.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use wire::parts::{PartDigest, Parts, SPLIT_BYTES_MIN};
use wire::stream::proto::{Hello, Part};

type Digests = Arc<HashSet<PartDigest>>;

/// Of one stream.
#[derive(Debug)]
pub(super) struct Held {
    /// The gateway knows what parts are.
    takes_parts: bool,
    /// Of the document that it runs.
    runs: Option<Digests>,
    /// Of the document that it was sent last, where it is large.
    sent: Option<Digests>,
}

impl Held {
    /// `runs` is what it says that it runs, where that is known here.
    pub(super) fn new(hello: &Hello, runs: Option<Digests>) -> Self {
        Self {
            takes_parts: hello.takes_parts,
            runs: runs.filter(|_| hello.takes_parts && hello.has_parts),
            sent: None,
        }
    }

    /// The document, or its parts without what the gateway has.
    pub(super) fn push(&mut self, parts: &Parts) -> (Bytes, Vec<Part>) {
        let document = parts.document();
        let is_large = document.len() >= SPLIT_BYTES_MIN;
        self.sent = (is_large && self.takes_parts).then(|| parts.digests());
        match &self.runs {
            Some(has) if is_large => (Bytes::new(), parts.without(has)),
            Some(_) | None => (document.clone(), Vec::new()),
        }
    }

    /// It runs what it was sent last.
    pub(super) fn runs(&mut self) {
        self.runs = self.sent.take();
    }

    /// It has not what was left out; false when nothing was.
    pub(super) fn forget(&mut self) -> bool {
        self.runs.take().is_some()
    }
}
