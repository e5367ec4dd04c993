//! Keeps the running policy on disk, and tries again when the disk would not take it.
//!
//! Separate from the file's format because a full disk must not undo a policy that is in force:
//! it is an alarm, and a matter for the next period. It must never block a serving thread.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::intake::{Answer, Identity, Intake};
use crate::last_good::{FolderError, Found, LastGood, Stored};

/// Shared by the thread that applies and the one that retries. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper(Option<Arc<State>>);

#[derive(Debug)]
struct State {
    files: Mutex<Files>,
    behind: AtomicBool,
}

#[derive(Debug)]
struct Files {
    last_good: LastGood,
    /// What runs but is not on disk yet: the newest only.
    unsaved: Option<Stored>,
}

impl Keeper {
    /// Keeps nothing: no state folder was named.
    pub(crate) const fn nowhere() -> Self {
        Self(None)
    }

    /// Keeps policies in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, FolderError> {
        let files = Files {
            last_good: LastGood::open(folder)?,
            unsaved: None,
        };
        let state = State {
            files: Mutex::new(files),
            behind: AtomicBool::new(false),
        };
        Ok(Self(Some(Arc::new(state))))
    }

    /// Puts the newest policy in force that is on disk and still passes every check.
    pub(crate) fn restore(&self, intake: &Intake) {
        let Some(state) = &self.0 else { return };
        let mut files = state.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Found { usable, discarded } = files.last_good.load();
        for discarded in &discarded {
            tracing::error!(
                file = %discarded.file.display(),
                error = %discarded.why,
                "a last good policy on disk cannot be used"
            );
        }
        let whole = discarded.is_empty();
        for (age, stored) in usable.into_iter().enumerate() {
            let Stored {
                epoch,
                generation,
                digest,
                document,
            } = stored;
            let offered = Identity {
                epoch,
                generation,
                digest,
            };
            if matches!(
                intake.offer_text(offered, document.as_bytes()),
                Answer::Refused(_)
            ) {
                continue;
            }
            if age == 0 && whole {
                files.last_good.trust_newest();
                tracing::info!(
                    policy.generation = generation,
                    "started from the last good policy"
                );
            } else {
                tracing::error!(
                    policy.generation = generation,
                    "started from the policy before the last good one, which cannot be used"
                );
            }
            return;
        }
    }

    /// Saves what runs now. A failure is an alarm; the policy stays in force and the next
    /// period tries again.
    pub(crate) fn keep(&self, running: Identity, document: &[u8]) {
        let Some(state) = &self.0 else { return };
        // It was parsed from this text, so it is UTF-8.
        let Ok(document) = String::from_utf8(document.to_vec()) else {
            return;
        };
        let Identity {
            epoch,
            generation,
            digest,
        } = running;
        let mut files = state.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.unsaved = Some(Stored {
            epoch,
            generation,
            digest,
            document,
        });
        state.save(&mut files);
    }

    /// True while what runs is not on disk.
    pub(crate) fn is_behind(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|state| state.behind.load(Ordering::Relaxed))
    }

    /// Tries again to save what could not be saved.
    pub(crate) fn retry(&self) {
        let Some(state) = &self.0 else { return };
        state.save(&mut state.files.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl State {
    fn save(&self, files: &mut Files) {
        let Some(stored) = files.unsaved.take() else {
            return;
        };
        match files.last_good.store(&stored) {
            Ok(()) => {
                if self.behind.swap(false, Ordering::Relaxed) {
                    tracing::info!(
                        policy.generation = stored.generation,
                        "policy saved at last"
                    );
                }
            }
            Err(error) => {
                // Said once for each streak: the period comes every second.
                if !self.behind.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        policy.generation = stored.generation,
                        %error,
                        "the running policy cannot be saved; a restart would find an older one"
                    );
                }
                files.unsaved = Some(stored);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::{document, identity, intake};

    fn kept(folder: &Path) -> Option<u64> {
        let intake = intake();
        Keeper::open(folder).unwrap().restore(&intake);
        intake.running().map(|running| running.generation)
    }

    #[test]
    fn what_is_kept_is_what_a_restart_runs() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        keeper.keep(identity("a", 5, 6), document(6).as_bytes());
        assert_eq!(kept(dir.path()), Some(5));
    }

    #[test]
    fn a_copy_that_fails_the_checks_of_this_build_gives_way_to_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        keeper.keep(identity("a", 5, -6), document(-6).as_bytes());
        assert_eq!(kept(dir.path()), Some(4));
    }

    #[test]
    fn a_disk_that_refuses_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("state");
        let keeper = Keeper::open(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        keeper.keep(identity("a", 5, 6), document(6).as_bytes());
        keeper.retry();
        assert!(keeper.is_behind());
        std::fs::create_dir(&folder).unwrap();
        keeper.retry();
        assert!(!keeper.is_behind());
        assert_eq!(kept(&folder), Some(5));
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let keeper = Keeper::nowhere();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        let intake = intake();
        keeper.restore(&intake);
        assert!(!keeper.is_behind() && intake.running().is_none());
    }
}
