//! What the rollout keeps in the store: which generations are halted, and which one is proven.
//!
//! Separate because it is about rows, not about who is sent what. A halt outlives every process;
//! losing the newest proof costs a gateway that comes back after a start one older policy. It must
//! never hold up a push.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::parts::Parts;

use super::{Halt, Outgoing, Rollout};
use crate::clock;
use crate::limits::Author;
use crate::store::{AuditRow, Store, StoreError};

/// Before the number of a halted generation.
const HALT: &str = "halt/";
/// The newest generation that a gateway ran.
const PROVEN: &str = "proven";
/// How often a newer proof is written: generations may come faster than a disk syncs.
const PROVEN_PERIOD: Duration = Duration::from_secs(1);

/// What this process wrote last.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Which proof.
    proven: Option<u64>,
    /// When that was tried last, whatever became of it.
    tried: Option<Instant>,
}

impl Kept {
    /// The store holds an older proof than was written: another process wrote at the same time.
    pub(super) fn saw(&mut self, stored: Option<u64>) {
        self.proven = self.proven.min(stored);
    }

    /// When the next proof is to be written.
    pub(super) fn due(&self, proven: Option<u64>) -> Option<Instant> {
        let is_new = proven.is_some() && proven != self.proven;
        is_new.then(|| self.tried.map_or_else(clock::now, |at| at + PROVEN_PERIOD))
    }
}

impl Rollout {
    /// Writes what is not in the store yet.
    pub(super) async fn keep(&self, kept: &mut Kept) -> Result<(), StoreError> {
        let due = kept.due(self.stage(|stage| stage.proven()));
        let is_due = due.is_some_and(|due| due <= clock::now());
        if is_due {
            // Before anything that may fail: what is due and not noted is due again at once.
            kept.tried = Some(clock::now());
        }
        if let Some(halt) = self.stage(|stage| stage.halt_to_keep()) {
            self.store
                .put_meta(key(halt.generation), body(&halt)?, Some(audit(&halt)))
                .await?;
            self.stage(|stage| stage.halt_is_kept(halt.generation));
        }
        let proven = self.stage(|stage| stage.proven());
        if let Some(number) = proven.filter(|_| is_due) {
            let text = Some(number.to_string());
            // Never down: the gateways of another process may be ahead of ours.
            if proof(&self.store).await? < Some(number) {
                self.store.put_meta(PROVEN.to_owned(), text, None).await?;
            }
            // One that was refused by one gateway and then run by another is halted no more.
            if self.halt_of(number).await?.is_some() {
                self.store.put_meta(key(number), None, None).await?;
            }
            kept.proven = proven;
        }
        Ok(())
    }

    /// Asks the store whether the newest generation is halted, and which one is proven.
    pub(super) async fn read_halt(&self) -> Result<Option<u64>, StoreError> {
        let number = self.current().about.number;
        let proof = proof(&self.store).await?;
        let halt = self.halt_of(number).await?;
        let is_halted = halt.is_some();
        let is_proven = self.change(|stage| {
            stage.runs_elsewhere(proof);
            stage.stored(halt, clock::now());
            stage.proven() >= Some(number)
        });
        if is_halted && is_proven {
            // By a process whose gateways refused it before it knew of those that run it.
            self.store.put_meta(key(number), None, None).await?;
        }
        Ok(proof)
    }

    async fn halt_of(&self, number: u64) -> Result<Option<Halt>, StoreError> {
        let rows = self.store.meta(&key(number)).await?;
        let found = rows.into_iter().find(|(name, _)| *name == key(number));
        found.map(|(_, body)| parse(&body)).transpose()
    }

    /// Every halted generation that the store knows of.
    pub async fn halts(&self) -> Result<Vec<Halt>, StoreError> {
        let rows = self.store.meta(HALT).await?;
        let mut halts = rows
            .iter()
            .map(|(_, body)| parse(body))
            .collect::<Result<Vec<_>, _>>()?;
        // One of this moment need not be there yet.
        halts.extend(self.stage(|stage| stage.halt_to_keep().map(|halt| Halt::clone(&halt))));
        Ok(halts)
    }

    /// Lets gateways try a halted generation once more; false when it is not halted.
    pub async fn try_again(&self, number: u64, author: &Author) -> Result<bool, StoreError> {
        let halted = self.stage(|stage| stage.halt());
        let Some(halt) = halted.filter(|halt| halt.generation == number) else {
            return Ok(false);
        };
        let row = AuditRow {
            generation_before: number,
            generation_after: number,
            differences: audit(&halt).differences,
            ..author.audit("try-again", format!("generation:{number}"))
        };
        self.store.put_meta(key(number), None, Some(row)).await?;
        self.change(|stage| stage.try_again(number, clock::now()));
        Ok(true)
    }
}

/// What is sent to gateways while nobody has run the newest generation yet.
pub(super) async fn safe(store: &Store, newest: u64) -> Result<Option<Outgoing>, StoreError> {
    let proven = proof(store).await?;
    let Some(number) = proven.filter(|number| *number < newest) else {
        return Ok(None);
    };
    let Some(stored) = store.generation(number).await? else {
        return Ok(None);
    };
    let work = move || Parts::of(stored.document.into());
    let parts = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| StoreError::Closed)?;
    Ok(Some(Outgoing {
        number,
        digest: stored.about.digest,
        epoch: store.epoch().to_owned(),
        parts: Arc::new(parts),
        attempt: 0,
        may_go_back: false,
    }))
}

/// The newest generation that a gateway of any process ran.
async fn proof(store: &Store) -> Result<Option<u64>, StoreError> {
    let rows = store.meta(PROVEN).await?;
    Ok(rows.first().and_then(|(_, text)| text.parse().ok()))
}

fn key(number: u64) -> String {
    format!("{HALT}{number}")
}

fn body(halt: &Halt) -> Result<Option<String>, StoreError> {
    let text = serde_json::to_string(halt).map_err(|_| StoreError::Row("meta.halt"))?;
    Ok(Some(text))
}

fn parse(body: &str) -> Result<Halt, StoreError> {
    serde_json::from_str(body).map_err(|_| StoreError::Row("meta.halt"))
}

fn audit(halt: &Halt) -> AuditRow {
    AuditRow {
        at: halt.since.clone(),
        action: "halt".to_owned(),
        subject: format!("generation:{}", halt.generation),
        who: format!("gateway {}", halt.gateway),
        generation_before: halt.generation,
        generation_after: halt.generation,
        differences: serde_json::to_string(&halt.errors).unwrap_or_default(),
        ..AuditRow::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Answered, Progress};
    use super::*;
    use crate::fleet::RefusedFault;
    use crate::store::NewGeneration;

    async fn store(folder: &tempfile::TempDir) -> Store {
        let url = format!("sqlite://{}/store.db", folder.path().display());
        Store::open(&url).await.unwrap()
    }

    async fn append(store: &Store, seen: u64) {
        let new = NewGeneration {
            document: r#"{"schema": 1}"#.to_owned(),
            digest: (seen + 1).to_string(),
            author: String::new(),
            comment: String::new(),
            source: "import",
            created_at: clock::utc(),
            origin: String::new(),
            differences: String::new(),
            request_id: String::new(),
        };
        store.append(new, seen).await.unwrap();
    }

    async fn stored_proof(store: &Store) -> Option<u64> {
        proof(store).await.unwrap()
    }

    /// Two processes on one store: gateways of the one refuse what those of the other run.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_halt_ends_when_gateways_of_another_process_run_it() {
        for halted_first in [true, false] {
            let folder = tempfile::tempdir().unwrap();
            let store = store(&folder).await;
            append(&store, 0).await;
            append(&store, 1).await;
            let here = Rollout::new(store.clone()).await.unwrap();
            let there = Rollout::new(store.clone()).await.unwrap();
            let (mut kept_here, mut kept_there) = (Kept::default(), Kept::default());
            let _moved = (here.connect(1, "a", false), there.connect(2, "b", false));
            let fault = RefusedFault {
                pointer: String::new(),
                value: String::new(),
                detail: "must be even".to_owned(),
            };
            there.answered(2, 2, Answered::Refused(vec![fault]));
            here.answered(1, 2, Answered::Runs);
            if halted_first {
                there.keep(&mut kept_there).await.unwrap();
                here.keep(&mut kept_here).await.unwrap();
            } else {
                here.keep(&mut kept_here).await.unwrap();
                there.keep(&mut kept_there).await.unwrap();
                assert!(here.halt_of(2).await.unwrap().is_some());
                // Also without another proof to write: it sees the mark and takes it away.
                here.read_halt().await.unwrap();
            }
            assert_eq!(here.halt_of(2).await.unwrap(), None);
            there.read_halt().await.unwrap();
            assert_eq!(there.progress(), Progress::Open);
            assert_eq!(there.target(2).map(|target| target.number), Some(2));
            assert_eq!(there.halts().await.unwrap(), []);
            // A process that starts now knows it too.
            let third = Rollout::new(store).await.unwrap();
            assert_eq!(third.progress(), Progress::Open);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_proof_in_the_store_never_goes_down() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(&folder).await;
        append(&store, 0).await;
        let behind = Rollout::new(store.clone()).await.unwrap();
        let _moved = behind.connect(1, "a", true);
        append(&store, 1).await;
        let ahead = Rollout::new(store.clone()).await.unwrap();
        let _moved = ahead.connect(2, "b", true);
        let mut kept = Kept::default();
        ahead.keep(&mut kept).await.unwrap();
        behind.keep(&mut Kept::default()).await.unwrap();
        assert_eq!(stored_proof(&store).await, Some(2));
        // The other one wrote between our reading and our writing: it is written again.
        let older = Some("1".to_owned());
        store
            .put_meta(PROVEN.to_owned(), older, None)
            .await
            .unwrap();
        assert_eq!(kept.due(Some(2)), None);
        kept.saw(ahead.read_halt().await.unwrap());
        kept.tried = None;
        ahead.keep(&mut kept).await.unwrap();
        assert_eq!(stored_proof(&store).await, Some(2));
    }
}
