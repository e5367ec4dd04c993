//! A policy in a file: read at the start, read again on reload.
//!
//! Separate because only here do paths and lines of a file matter, and only here are generations
//! counted by the gateway itself. It must never put a policy in force by itself, and never look
//! at the file unless asked.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use wire::document::{LoadError, Loaded, Syntax};

use crate::intake::{Answer, Identity, Intake, log_refused};

/// Largest file that is read, more than the largest document: what is cut off here may end
/// inside a character, and the loader must still say that it is too large.
const FILE_BYTES_MAX: u64 = 33 << 20;

/// Why the file gives no policy.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("cannot read the policy {path}")]
    Read {
        path: String,
        #[source]
        source: io::Error,
    },
    /// Every fault with its line, one on each line.
    #[error("{path}:\n{faults}")]
    Refused { path: String, faults: String },
}

/// The file.
#[derive(Debug)]
pub(crate) struct PolicyFile {
    path: PathBuf,
}

impl PolicyFile {
    /// Reads the file for the first time and puts it in force as generation 1.
    pub(crate) fn open(path: &Path, intake: &Intake) -> Result<Self, FileError> {
        let file = Self {
            path: path.to_owned(),
        };
        let offered = |digest| Identity {
            epoch: String::new(),
            generation: 1,
            digest,
        };
        let loaded = file.read()?;
        let digest = wire::document::digest(&loaded.document);
        match intake.offer_loaded(offered(digest), loaded) {
            Answer::Running | Answer::AlreadyThere => Ok(file),
            Answer::Refused(faults) => {
                Err(file.refused(faults.iter().map(ToString::to_string).collect()))
            }
        }
    }

    /// Reads the file again. A good change is one generation more, no change is none, and a bad
    /// file changes nothing.
    pub(crate) fn reload(&self, intake: &Intake) {
        let running = intake.running().unwrap_or_default();
        let generation = running.generation.saturating_add(1);
        let loaded = match self.read() {
            Ok(loaded) => loaded,
            Err(error) => return log_refused(generation, &on_one_line(&error)),
        };
        let digest = wire::document::digest(&loaded.document);
        if digest == running.digest {
            tracing::info!(
                policy.generation = running.generation,
                "the policy file has not changed"
            );
            return;
        }
        // The intake logs what became of it.
        intake.offer_loaded(
            Identity {
                epoch: running.epoch,
                generation,
                digest,
            },
            loaded,
        );
    }

    fn read(&self) -> Result<Loaded, FileError> {
        let text = read_bounded(&self.path).map_err(|source| FileError::Read {
            path: self.path.display().to_string(),
            source,
        })?;
        wire::document::load(&text, Syntax::of_path(&self.path))
            .map_err(|error: LoadError| self.refused(vec![error.to_string()]))
    }

    fn refused(&self, faults: Vec<String>) -> FileError {
        FileError::Refused {
            path: self.path.display().to_string(),
            faults: faults.join("\n"),
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    let is_cut = u64::try_from(bytes.len()).is_ok_and(|length| length == FILE_BYTES_MAX);
    match String::from_utf8(bytes) {
        Err(error) if is_cut => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        whole => whole.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

fn on_one_line(error: &FileError) -> String {
    match error {
        FileError::Read { path, source } => format!("cannot read {path}: {source}"),
        FileError::Refused { path, faults } => format!("{path}: {}", faults.replace('\n', "; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::{document, intake};

    struct Alone {
        folder: tempfile::TempDir,
        intake: Intake,
        file: PolicyFile,
    }

    fn path(folder: &tempfile::TempDir) -> PathBuf {
        folder.path().join("policy.json")
    }

    impl Alone {
        fn new() -> Self {
            let (folder, intake) = (tempfile::tempdir().unwrap(), intake());
            std::fs::write(path(&folder), document(2)).unwrap();
            let file = PolicyFile::open(&path(&folder), &intake).unwrap();
            Self {
                folder,
                intake,
                file,
            }
        }

        /// The generation after the file was changed to `text` and read again.
        fn after(&self, text: &str) -> u64 {
            std::fs::write(path(&self.folder), text).unwrap();
            self.file.reload(&self.intake);
            self.intake.running().unwrap().generation
        }
    }

    #[test]
    fn only_a_good_change_is_a_generation() {
        let alone = Alone::new();
        assert_eq!(alone.after(&document(2)), 1);
        assert_eq!(alone.after(&format!("{} ", document(2))), 1, "other spaces");
        assert_eq!(alone.after(&document(6)), 2);
        for bad in ["", "{", &document(-7)] {
            assert_eq!(alone.after(bad), 2, "{bad}");
        }
        assert_eq!(alone.after(&document(6)), 2, "back to what runs");
        assert_eq!(alone.after(&document(2)), 3);
    }

    #[test]
    fn a_file_that_is_gone_changes_nothing() {
        let alone = Alone::new();
        std::fs::remove_file(path(&alone.folder)).unwrap();
        alone.file.reload(&alone.intake);
        assert_eq!(alone.after(&document(6)), 2);
    }

    #[test]
    fn a_file_beyond_the_bound_is_too_large_wherever_it_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        // Three bytes a character: the cut falls inside one.
        let bytes = usize::try_from(FILE_BYTES_MAX).unwrap();
        std::fs::write(path(&folder), "\u{20ac}".repeat(bytes / 3 + 9)).unwrap();
        let error = PolicyFile::open(&path(&folder), &intake()).unwrap_err();
        assert!(matches!(error, FileError::Refused { .. }), "{error}");
    }
}
