//! Rows of the audit: what one says, and how they are chained.
//!
//! Separate because somebody else must be able to check an export with these lines alone. A row
//! must never be changed after it was written, nor its digest depend on a database.
//!
//! The digest of a row is SHA-256, in lower-case hexadecimal, over fourteen netstrings (the length
//! in bytes in decimal, `:`, the bytes in UTF-8, `,`) one after another: `bulkhead-audit-1`, then
//! `previous`, `id`, `at`, `action`, `subject`, `who`, `origin`, `generation_before`,
//! `generation_after`, `differences`, `comment`, `request_id`, `operation`. Numbers are decimal.
//! `previous` is the digest of the row before; the first row has none, an empty text.

use sha2::{Digest as _, Sha256};

use super::{Store, StoreError, storable};

/// Most rows in one answer.
pub const AUDIT_PAGE_MAX: u32 = 500;

/// Names the form of what is digested.
const FORM: &str = "bulkhead-audit-1";

/// Most rows of an older build that are chained in one transaction.
pub(super) const CHAINED_AT_ONCE_MAX: u32 = 500;

/// One row of the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRow {
    /// When, in UTC.
    pub at: String,
    /// `import`, `put`, `patch` or `restore`; `halt` by a gateway, `try-again` by a person;
    /// `restore-backup` by a command.
    pub action: String,
    /// What it is about: `policy`, `user:ann`, `token:ab12`, `change:7`, `gateway:x`.
    pub subject: String,
    /// Who.
    pub who: String,
    /// From which address.
    pub origin: String,
    /// The generation that was the newest before; 0 for none.
    pub generation_before: u64,
    /// The generation that it made. Where both are 0 the store writes the newest one.
    pub generation_after: u64,
    /// What differs, as JSON.
    pub differences: String,
    /// Why, in the words of who did it.
    pub comment: String,
    /// The request that asked for it.
    pub request_id: String,
    /// Under which it can be asked for. The store gives every row its own.
    pub operation: String,
}

/// The end of the chain, which the next row goes on from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Last {
    /// The row's number; 0 where there is none.
    pub(super) id: u64,
    /// Its digest; empty where it has none.
    pub(super) digest: String,
}

impl AuditRow {
    /// As it is stored: rows of builds from before have none, and no two the same.
    pub(super) fn operation(&self) -> Option<&str> {
        Some(self.operation.as_str()).filter(|operation| !operation.is_empty())
    }

    /// The same, in text that both databases can hold.
    pub(super) fn storable(mut self) -> Self {
        for text in [
            &mut self.at,
            &mut self.action,
            &mut self.subject,
            &mut self.who,
            &mut self.origin,
            &mut self.differences,
            &mut self.comment,
            &mut self.request_id,
        ] {
            if let std::borrow::Cow::Owned(clean) = storable(text) {
                *text = clean;
            }
        }
        self
    }

    /// The digest of this row under its number, after the row with the digest `previous`.
    pub(super) fn digest(&self, id: u64, previous: &str) -> String {
        let numbers = [id, self.generation_before, self.generation_after];
        let [id, before, after] = numbers.map(|number| number.to_string());
        let mut hash = Sha256::new();
        for text in [
            FORM,
            previous,
            &id,
            &self.at,
            &self.action,
            &self.subject,
            &self.who,
            &self.origin,
            &before,
            &after,
            &self.differences,
            &self.comment,
            &self.request_id,
            &self.operation,
        ] {
            netstring(text, |part| hash.update(part));
        }
        hexadecimal(&hash.finalize())
    }
}

/// A row as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number; rises by one.
    pub id: u64,
    /// What it says.
    pub row: AuditRow,
    /// The digest of the row before.
    pub previous: String,
    /// Its own; empty for a row of an older build until the next start.
    pub digest: String,
}

/// Which rows are wanted; empty texts are all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Whose.
    pub who: String,
    /// Of which kind.
    pub action: String,
    /// About what.
    pub subject: String,
    /// At this moment or later, written as rows are: UTC, ISO 8601, milliseconds.
    pub from: String,
    /// Before this moment, written the same.
    pub to: String,
    /// Numbers below this one.
    pub before: Option<u64>,
}

impl Store {
    /// Rows of the audit, newest first.
    pub async fn audit_page(
        &self,
        filter: &AuditFilter,
        count: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let count = count.min(AUDIT_PAGE_MAX);
        self.database.audit_page(filter, count).await
    }
}

/// The length, a colon, the bytes, a comma.
pub(super) fn netstring(text: &str, mut take: impl FnMut(&[u8])) {
    take(format!("{}:", text.len()).as_bytes());
    take(text.as_bytes());
    take(b",");
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hashlib from the words above: the form is not changed in passing.
    #[test]
    fn the_digest_of_a_row_is_as_it_is_written_down() {
        let row = AuditRow {
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            action: "put".to_owned(),
            subject: "policy".to_owned(),
            who: "ännchen".to_owned(),
            origin: "127.0.0.1".to_owned(),
            generation_before: 1,
            generation_after: 2,
            differences: "[]".to_owned(),
            comment: "why, 1:x".to_owned(),
            request_id: "r-1".to_owned(),
            operation: String::new(),
        };
        let digest = row.digest(7, "");
        assert_eq!(
            digest,
            "539b2ce04b7700e5e894229cd8a6c1a6139d68cceacf2d647c0384f1e0727744"
        );
        assert_ne!(digest, row.digest(8, ""));
        assert_ne!(digest, row.digest(7, "0"));
    }
}
