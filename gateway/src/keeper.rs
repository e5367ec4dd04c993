//! Keeps policies on disk, and tries again when the disk would not take one.
//!
//! Separate from the file's format because a full or hanging disk must hold back no policy for
//! long: it is an alarm, and a matter for the next period. It must never be called by a serving
//! thread.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::intake::{Answer, Identity, Intake};
use crate::last_good::{FolderError, Found, LastGood, Stored};

/// Shared by the thread that applies and the one that retries. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper(Option<Arc<State>>);

#[derive(Debug)]
struct State {
    files: Mutex<LastGood>,
    /// What is to be kept and is not on disk yet: the newest only.
    unsaved: Mutex<Option<Stored>>,
    behind: AtomicBool,
    alarmed: AtomicBool,
}

impl Keeper {
    /// Keeps nothing: no state folder was named.
    pub(crate) const fn nowhere() -> Self {
        Self(None)
    }

    /// Keeps policies in `folder`.
    pub(crate) fn open(folder: &Path) -> Result<Self, FolderError> {
        Ok(Self(Some(Arc::new(State {
            files: Mutex::new(LastGood::open(folder)?),
            unsaved: Mutex::new(None),
            behind: AtomicBool::new(false),
            alarmed: AtomicBool::new(false),
        }))))
    }

    /// Puts the newest policy in force that is on disk and still passes every check.
    pub(crate) fn restore(&self, intake: &Intake) {
        let Some(state) = &self.0 else { return };
        let mut files = state.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Found {
            newest,
            previous,
            discarded,
        } = files.load();
        for copy in &discarded {
            tracing::error!(
                file = %copy.file.display(),
                error = %copy.why,
                "a last good policy on disk cannot be used"
            );
        }
        if newest.is_some_and(|stored| starts(intake, stored)) {
            files.trust_newest(true);
            tracing::info!("started from the last good policy");
        } else if previous.is_some_and(|stored| starts(intake, stored)) {
            tracing::error!("started from the policy before the last good one");
        }
    }

    /// Saves what is about to run. A failure is an alarm, no obstacle: the next period tries
    /// again.
    pub(crate) fn keep(&self, identity: Identity, document: &[u8]) {
        let Some(state) = &self.0 else { return };
        // It was parsed from this text, so it is UTF-8.
        let Ok(document) = String::from_utf8(document.to_vec()) else {
            return;
        };
        let Identity {
            epoch,
            generation,
            digest,
        } = identity;
        *state.unsaved() = Some(Stored {
            epoch,
            generation,
            digest,
            document,
        });
        state.save();
    }

    /// What was kept last could not be put in force: it must not take the place of the copy
    /// before it.
    pub(crate) fn distrust(&self) {
        if let Some(mut files) = self.0.as_ref().and_then(|state| state.files()) {
            files.trust_newest(false);
        }
    }

    /// True while something to keep is not on disk.
    pub(crate) fn is_behind(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|state| state.behind.load(Ordering::Relaxed))
    }

    /// Tries again to save what could not be saved.
    pub(crate) fn retry(&self) {
        if let Some(state) = &self.0 {
            state.save();
        }
    }
}

/// Puts one copy in force. Copies that a check refuses are logged by the intake.
fn starts(intake: &Intake, stored: Stored) -> bool {
    let Stored {
        epoch,
        generation,
        digest,
        document,
    } = stored;
    let identity = Identity {
        epoch,
        generation,
        digest,
    };
    intake
        .check_text(identity, document.as_bytes())
        .is_ok_and(|checked| intake.install(checked) == Answer::Running)
}

impl State {
    /// Saves until nothing is left to save. Whoever comes while another is at it, perhaps on a
    /// disk that hangs, does not wait: the period sees to it.
    fn save(&self) {
        let Some(mut files) = self.files() else {
            self.behind.store(true, Ordering::Relaxed);
            return;
        };
        loop {
            // Before the look at what is unsaved: whoever comes after it says so again.
            self.behind.store(false, Ordering::Relaxed);
            let Some(stored) = self.unsaved().take() else {
                return;
            };
            if let Err(error) = files.store(&stored) {
                self.behind.store(true, Ordering::Relaxed);
                // Said once for each streak: the period comes every second.
                if !self.alarmed.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        policy.generation = stored.generation,
                        %error,
                        "the policy cannot be saved; a restart would find an older one"
                    );
                }
                self.unsaved().get_or_insert(stored);
                return;
            }
            if self.alarmed.swap(false, Ordering::Relaxed) {
                tracing::info!(
                    policy.generation = stored.generation,
                    "policy saved at last"
                );
            }
        }
    }

    fn files(&self) -> Option<MutexGuard<'_, LastGood>> {
        match self.files.try_lock() {
            Ok(files) => Some(files),
            Err(TryLockError::Poisoned(files)) => Some(files.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn unsaved(&self) -> MutexGuard<'_, Option<Stored>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn a_disk_that_hangs_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        let state = keeper.0.clone().unwrap();
        let hanging = state.files.lock().unwrap();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        assert!(keeper.is_behind());
        drop(hanging);
        keeper.retry();
        assert!(!keeper.is_behind());
        assert_eq!(kept(dir.path()), Some(4));
    }

    #[test]
    fn what_could_not_be_applied_does_not_replace_the_copy_before() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = Keeper::open(dir.path()).unwrap();
        keeper.keep(identity("a", 4, 3), document(3).as_bytes());
        keeper.keep(identity("a", 5, -6), document(-6).as_bytes());
        keeper.distrust();
        keeper.keep(identity("a", 6, -7), document(-7).as_bytes());
        assert_eq!(kept(dir.path()), Some(4));
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
