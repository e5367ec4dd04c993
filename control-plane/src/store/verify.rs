//! Whether the audit is as it was written: the first row that is not, and how.
//!
//! Separate because it believes nothing but digests and the key. It holds some hundred rows at a
//! time, however many there are, and must never write.

use serde::Serialize;
use wire::Secret;

use super::audit::Last;
use super::database::Snapshot;
use super::head::{ANOTHER, CHAINED as CHAINED_ROW, COMPLAINT, GUARDED, Head, HeadKey, Mark};
use super::{Address, AuditEntry, StoreError, head_key};

/// Rows that are read at once.
const ROWS_AT_ONCE: u32 = 500;
/// How far away a row that was moved is looked for.
const MOVED_MAX: u64 = 500;
/// The migration that the chain came with.
pub(super) const CHAINED: i64 = 8;
/// Most that is said of rows that are as they were written.
const NOTES_MAX: usize = 20;

/// What became of the first row that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It says something else than when it was written.
    Edited,
    /// It is missing.
    Deleted,
    /// It stands in another's place.
    Reordered,
    /// It was put there by something else than a control plane.
    Inserted,
    /// It and all after it are missing.
    Truncated,
    /// It has no digest.
    Unchained,
    /// The head of the chain is missing or not of this key.
    Head,
    /// The table does not refuse changes any more.
    Unguarded,
}

/// The first row that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// Its number.
    pub row: u64,
    /// What became of it.
    pub how: How,
    /// In words.
    pub detail: String,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Rows that were looked at; up to the break where there is one.
    pub rows: u64,
    /// The head of the chain.
    pub head: Option<Head>,
    /// `good`, `unchecked` (no key), `unsigned`, `another` (of another key), `forged`, `none`.
    pub signature: &'static str,
    /// What rows of the store's own say of the audit: which were chained when, and the like.
    pub notes: Vec<String>,
    /// The first break.
    pub broken: Option<Broken>,
}

/// Reads the whole audit of the store at `url`. The key is the one given, else the one that lies
/// beside a SQLite store. `expected` are numbers and digests that are known from elsewhere.
pub async fn verify(
    url: &str,
    key: Option<Secret>,
    expected: &[(u64, String)],
) -> Result<Verified, StoreError> {
    let address = Address::parse(url)?;
    let found = Snapshot::migration(&address).await?;
    if found < CHAINED {
        return Err(StoreError::Unchained { found });
    }
    let key = head_key(&address, key, false)?;
    let mut snapshot = Snapshot::open(&address).await?;
    let verified = of(&mut snapshot, &key, expected).await;
    snapshot.close().await;
    verified
}

async fn of(
    snapshot: &mut Snapshot,
    key: &HeadKey,
    expected: &[(u64, String)],
) -> Result<Verified, StoreError> {
    let text = snapshot.head().await?;
    let head: Option<Head> = text
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let mut chain = Chain {
        head: head.clone(),
        expected: expected.to_vec(),
        ..Chain::default()
    };
    loop {
        let page = snapshot.after(chain.read, ROWS_AT_ONCE).await?;
        for entry in &page {
            if !chain.take(entry) {
                break;
            }
        }
        if chain.broken.is_some() {
            // What belongs in the place of the one that is wrong may stand further on.
            let next = snapshot.after(chain.last.id, ROWS_AT_ONCE).await?;
            chain.explain(&next);
            break;
        }
        if page.is_empty() {
            chain.end();
            break;
        }
    }
    let unguarded = snapshot.unguarded().await?;
    chain.guarded(&unguarded);
    let mark = head.as_ref().map(|head| key.check(head));
    let signature = match (mark, &head) {
        (None, _) => "none",
        (Some(_), Some(head)) if head.mac.is_empty() => "unsigned",
        (Some(Mark::Good), _) => "good",
        (Some(Mark::Forged), _) => "forged",
        (Some(Mark::Another), _) => "another",
        (Some(Mark::Unchecked), _) => "unchecked",
    };
    let is_wrong = matches!(mark, Some(Mark::Forged | Mark::Another));
    let is_whole = |broken: &Broken| broken.how == How::Unguarded;
    if is_wrong && chain.broken.as_ref().is_none_or(is_whole) {
        let detail = format!(
            "the mark of the head is {signature}: it is not of the key {}",
            key.name()
        );
        chain.broken = Some(Broken {
            row: chain.last.id,
            how: How::Head,
            detail,
        });
    }
    Ok(Verified {
        rows: chain.rows,
        head,
        signature,
        notes: chain.notes,
        broken: chain.broken,
    })
}

/// What was read so far.
#[derive(Debug, Default)]
struct Chain {
    head: Option<Head>,
    expected: Vec<(u64, String)>,
    /// The last row that was good, and the digest of the one before it.
    last: Last,
    before: String,
    /// The number of the last row that was read.
    read: u64,
    rows: u64,
    broken: Option<Broken>,
    /// The head was told to be wrong here.
    complaint: Option<Broken>,
    notes: Vec<String>,
}

impl Chain {
    /// One more row; false when it breaks the chain.
    fn take(&mut self, entry: &AuditEntry) -> bool {
        self.read = entry.id;
        let broken = self.look(entry);
        if broken.is_some() {
            self.broken = broken;
            return false;
        }
        let row = &entry.row;
        let is_ours = [CHAINED_ROW, GUARDED, COMPLAINT].contains(&&*row.action);
        if is_ours && self.notes.len() < NOTES_MAX {
            // Whoever wrote it: no control bytes for a terminal.
            let (at, comment) = (row.at.escape_debug(), row.comment.escape_debug());
            let note = format!("row {} of {at}: {}: {comment}", entry.id, row.action);
            self.notes.push(note);
        }
        // Whoever changed the key knows what was there before.
        let is_known = self.expected.iter().any(|(id, _)| id + 1 == entry.id);
        if row.action == COMPLAINT && !(is_known && row.comment == ANOTHER) {
            let detail = match &*row.comment {
                ANOTHER => format!(
                    "before it was written {ANOTHER}; if you changed it, say what was there: \
                     --expect {}:{}",
                    self.last.id, self.last.digest
                ),
                comment => format!("before it was written {}", comment.escape_debug()),
            };
            self.complaint.get_or_insert(Broken {
                row: entry.id,
                how: How::Head,
                detail,
            });
        }
        self.rows += 1;
        self.before = std::mem::take(&mut self.last.digest);
        self.last = Last {
            id: entry.id,
            digest: entry.digest.clone(),
        };
        true
    }

    fn look(&self, entry: &AuditEntry) -> Option<Broken> {
        let (id, last) = (entry.id, &self.last);
        let broken = |row, how, detail: String| Some(Broken { row, how, detail });
        if entry.digest.is_empty() {
            let detail = "it has no digest: no build with a chain wrote it".to_owned();
            return broken(id, How::Unchained, detail);
        }
        if entry.row.digest(id, &entry.previous) != entry.digest {
            return broken(
                id,
                How::Edited,
                "its digest is not that of what it says".to_owned(),
            );
        }
        if entry.previous != last.digest {
            return match id.checked_sub(last.id + 1) {
                _ if entry.previous == self.before && last.id > 0 => {
                    let detail = format!("row {id} follows the row before it");
                    broken(last.id, How::Inserted, detail)
                }
                Some(0) => {
                    let detail = format!("row {id} follows a row with another digest");
                    broken(last.id.max(1), How::Edited, detail)
                }
                _ => {
                    let detail = format!("rows {} to {} are missing", last.id + 1, id - 1);
                    broken(last.id + 1, How::Deleted, detail)
                }
            };
        }
        let known = self.expected.iter().find(|(known, _)| *known == id);
        if known.is_some_and(|(_, digest)| *digest != entry.digest) {
            let detail = "its digest is not the one that is known".to_owned();
            return broken(id, How::Edited, detail);
        }
        match &self.head {
            Some(head) if head.id == id && head.digest != entry.digest => broken(
                id,
                How::Edited,
                "the head has another digest for it".to_owned(),
            ),
            Some(head) if head.id < id => {
                broken(id, How::Inserted, "it stands after the head".to_owned())
            }
            Some(_) | None => None,
        }
    }

    /// Looks whether the row that is wrong was moved, and what belongs in its place.
    fn explain(&mut self, next: &[AuditEntry]) {
        let (Some(broken), Some(first)) = (&self.broken, next.first()) else {
            return;
        };
        if broken.how != How::Edited || first.id != broken.row {
            return;
        }
        let place = first.id;
        let belongs = |entry: &AuditEntry| {
            entry.id != place
                && entry.previous == self.last.digest
                && entry.row.digest(place, &self.last.digest) == entry.digest
        };
        if let Some(entry) = next.iter().find(|entry| belongs(entry)) {
            let detail = format!("the row that belongs here stands at {}", entry.id);
            self.broken = Some(Broken {
                row: place,
                how: How::Reordered,
                detail,
            });
            return;
        }
        let was = |id: &u64| first.row.digest(*id, &first.previous) == first.digest;
        let later = (place + 1..=place + MOVED_MAX).find(was);
        let earlier = (place.saturating_sub(MOVED_MAX).max(1)..place)
            .rev()
            .find(was);
        let (row, how, detail) = match (later, earlier) {
            (Some(was), _) => (
                place,
                How::Deleted,
                format!("what stands there was row {was}"),
            ),
            (_, Some(was)) => (
                was,
                How::Inserted,
                format!("what was row {was} stands at {place}"),
            ),
            (None, None) => return,
        };
        self.broken = Some(Broken { row, how, detail });
    }

    /// Where nothing else is wrong it may still not be protected.
    fn guarded(&mut self, missing: &[&str]) {
        if missing.is_empty() {
            return;
        }
        let names = missing.join(", ");
        let row = self.last.id;
        self.broken.get_or_insert_with(|| Broken {
            row,
            how: How::Unguarded,
            detail: format!("triggers are missing: {names}; the next start makes them anew"),
        });
    }

    /// No more rows.
    fn end(&mut self) {
        let last = self.last.id;
        let missing = |row: u64, detail: String| {
            Some(Broken {
                row,
                how: How::Truncated,
                detail,
            })
        };
        let known = self.expected.iter().find(|(id, _)| *id > last);
        self.broken = match (&self.head, known) {
            (Some(head), _) if head.id > last => {
                missing(last + 1, format!("the head is row {}", head.id))
            }
            (_, Some((id, _))) => missing(last + 1, format!("row {id} is known")),
            (None, None) if last > 0 => {
                let detail = "the head of the chain is missing".to_owned();
                Some(Broken {
                    row: last,
                    how: How::Head,
                    detail,
                })
            }
            (Some(_) | None, None) => self.complaint.take(),
        };
    }
}
