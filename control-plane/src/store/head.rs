//! The head of the audit's chain: its last row, signed, and replaced with every row.
//!
//! Separate because it is what finds a tail that was cut off: a chain alone ends anywhere. The key
//! lies outside of the database. A row must never be refused because of a head that is wrong: it
//! goes on from what the head says, so that the break stays in the chain for good.
//!
//! The mark is HMAC-SHA256, in lower-case hexadecimal, over four netstrings (see `audit`):
//! `bulkhead-audit-head-1`, `id`, `digest`, `at`.

use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use wire::Secret;

use super::AuditRow;
use super::audit::{Last, hexadecimal, netstring};

/// The fact that holds it.
pub(super) const HEAD: &str = "audit/head";
/// What a row is called that says why the one before is not what the head said.
pub(super) const COMPLAINT: &str = "audit-head";
/// What a row is called that says which rows had no digest until it came.
pub(super) const CHAINED: &str = "audit-chained";
/// What a row is called that says that the tables did not protect the audit any more.
pub(super) const GUARDED: &str = "audit-guards";
/// What it says where the head before is of another key.
pub(super) const ANOTHER: &str = "the key is another one";
const FORM: &str = "bulkhead-audit-head-1";

/// Where the chain ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of the last row.
    pub id: u64,
    /// Its digest.
    pub digest: String,
    /// When the row was written, in UTC.
    pub at: String,
    /// Names the key; empty where it is not signed.
    pub key: String,
    /// The mark.
    pub mac: String,
}

/// What signs heads; nothing where there is no key.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadKey(Option<Arc<Secret>>);

/// What a head's mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Of this key.
    Good,
    /// Said to be of this key, and it is not.
    Forged,
    /// Of another key, or of none.
    Another,
    /// There is no key to check it with.
    Unchecked,
}

/// How the chain goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// After this.
    pub(super) from: Last,
    /// A row that comes first, since something is not as it was left.
    pub(super) complaint: Option<AuditRow>,
}

impl HeadKey {
    pub(crate) fn new(key: Option<Secret>) -> Self {
        Self(key.map(Arc::new))
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Tells two keys apart; says nothing about either.
    pub(super) fn name(&self) -> String {
        let Some(key) = &self.0 else {
            return String::new();
        };
        let mut hash = Sha256::new();
        hash.update("bulkhead-audit-key");
        hash.update(key.expose());
        let mut name = hexadecimal(&hash.finalize());
        name.truncate(16);
        name
    }

    fn mac(&self, head: &Head) -> Option<Hmac<Sha256>> {
        let key = self.0.as_ref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes()).ok()?;
        for text in [FORM, &head.id.to_string(), &head.digest, &head.at] {
            netstring(text, |part| mac.update(part));
        }
        Some(mac)
    }

    pub(super) fn sign(&self, id: u64, digest: String, at: String) -> Head {
        let mut head = Head {
            id,
            digest,
            at,
            key: self.name(),
            mac: String::new(),
        };
        if let Some(mac) = self.mac(&head) {
            head.mac = hexadecimal(&mac.finalize().into_bytes());
        }
        head
    }

    pub(super) fn check(&self, head: &Head) -> Mark {
        if self.is_none() {
            return Mark::Unchecked;
        }
        if head.key != self.name() {
            return Mark::Another;
        }
        let good = self.sign(head.id, head.digest.clone(), head.at.clone());
        if good.mac == head.mac {
            Mark::Good
        } else {
            Mark::Forged
        }
    }

    /// Whether rows without a digest are those of a build from before, which writes beside us: they
    /// stand behind a head that is as we left it. Any others were ours once.
    pub(super) fn goes_on(&self, head: Option<&str>, chained: &Last) -> bool {
        let head = head.and_then(|head| serde_json::from_str::<Head>(head).ok());
        head.is_some_and(|head| {
            self.check(&head) != Mark::Forged
                && head.id == chained.id
                && head.digest == chained.digest
        })
    }

    /// What the next row goes on from, after the last row and the head that are there.
    pub(super) fn next(&self, last: Last, head: Option<&str>, at: &str) -> Next {
        let complaint = |reason: &str| {
            let differences = serde_json::json!({
                "reason": reason, "head": head, "last": last.id, "digest": last.digest,
            });
            tracing::error!(audit.id = last.id, "the audit's head: {reason}");
            Some(about(COMPLAINT, reason, &differences, at))
        };
        let (from, complaint) = match head.map(serde_json::from_str::<Head>) {
            None if last.id == 0 => (last.clone(), None),
            None => (last.clone(), complaint("the head was missing")),
            Some(Err(_)) => (last.clone(), complaint("the head was no head")),
            Some(Ok(head)) => match self.check(&head) {
                Mark::Forged => (last.clone(), complaint("the head was forged")),
                mark @ (Mark::Good | Mark::Another | Mark::Unchecked) => {
                    let changed = mark == Mark::Another;
                    let told = changed.then(|| complaint(ANOTHER)).flatten();
                    if head.id < last.id {
                        let told = complaint("there were rows after the head");
                        (last.clone(), told)
                    } else {
                        let from = Last {
                            id: head.id,
                            digest: head.digest,
                        };
                        (from, told)
                    }
                }
            },
        };
        let complaint = complaint.or_else(|| {
            let is_bare = last.id > 0 && last.digest.is_empty();
            is_bare.then(|| complaint_of_bare(&last, at))
        });
        Next { from, complaint }
    }
}

fn complaint_of_bare(last: &Last, at: &str) -> AuditRow {
    let reason = "there were rows without a digest";
    tracing::error!(audit.id = last.id, "the audit: {reason}");
    about(COMPLAINT, reason, &serde_json::json!({"last": last.id}), at)
}

/// A row of ours about the audit itself.
pub(super) fn about(
    action: &str,
    comment: &str,
    differences: &serde_json::Value,
    at: &str,
) -> AuditRow {
    AuditRow {
        at: at.to_owned(),
        action: action.to_owned(),
        subject: "audit".to_owned(),
        who: "bulkhead".to_owned(),
        differences: differences.to_string(),
        comment: comment.to_owned(),
        operation: uuid::Uuid::now_v7().to_string(),
        ..AuditRow::default()
    }
}

/// Says of rows up to `last` that they had no digest until now.
pub(super) fn chained(rows: u64, last: u64, at: &str) -> AuditRow {
    tracing::warn!(rows, audit.id = last, "rows of the audit are chained now");
    let comment = format!("{rows} rows up to {last} had no digest until now");
    let differences = serde_json::json!({"rows": rows, "last": last});
    about(CHAINED, &comment, &differences, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> HeadKey {
        HeadKey::new(Some(Secret::new(&text.repeat(32)).unwrap()))
    }

    #[test]
    fn a_head_is_believed_by_its_key_alone() {
        let one = key("a");
        let head = one.sign(7, "d".to_owned(), "now".to_owned());
        assert_eq!(one.check(&head), Mark::Good);
        assert_eq!(key("b").check(&head), Mark::Another);
        assert_eq!(HeadKey::default().check(&head), Mark::Unchecked);
        for forged in [
            Head {
                id: 6,
                ..head.clone()
            },
            Head {
                digest: "e".to_owned(),
                ..head.clone()
            },
            Head {
                mac: String::new(),
                ..head.clone()
            },
        ] {
            assert_eq!(one.check(&forged), Mark::Forged, "{forged:?}");
        }
        let unsigned = HeadKey::default().sign(7, "d".to_owned(), "now".to_owned());
        assert_eq!(one.check(&unsigned), Mark::Another);
    }

    #[test]
    fn rows_go_on_from_the_head_so_that_a_break_stays() {
        let key = key("a");
        let last = |id: u64| Last {
            id,
            digest: format!("d{id}"),
        };
        let head = serde_json::to_string(&key.sign(7, "d7".to_owned(), String::new())).unwrap();
        let next = |last, head: Option<&str>| {
            let next = key.next(last, head, "now");
            (next.from.id, next.complaint.map(|row| row.comment))
        };
        assert_eq!(next(Last::default(), None), (0, None));
        assert_eq!(next(last(7), Some(&head)), (7, None));
        // Cut off: the next row says what it follows, and that is not there.
        assert_eq!(next(last(5), Some(&head)), (7, None));
        assert_eq!(next(Last::default(), Some(&head)), (7, None));
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(
            next(last(9), Some(&head)),
            (9, told("there were rows after the head"))
        );
        assert_eq!(next(last(5), None), (5, told("the head was missing")));
        assert_eq!(next(last(5), Some("{}")), (5, told("the head was no head")));
        let forged = head.replace("\"id\":7", "\"id\":5");
        assert_eq!(
            next(last(5), Some(&forged)),
            (5, told("the head was forged"))
        );
        let other =
            serde_json::to_string(&HeadKey::default().sign(7, "d7".to_owned(), String::new()));
        let other = other.unwrap();
        assert_eq!(
            next(last(7), Some(&other)),
            (7, told("the key is another one"))
        );
    }
}
