//! The last good policy on disk: what a gateway starts from when its control plane is away.
//!
//! Separate because its only subject is a file that survives kills, power cuts and bit rot: it
//! is written aside, synced and renamed, carries a checksum over all of it, and the one before
//! it is kept. It must never interpret the document, and never remove the last readable copy.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The newest copy, inside the state folder.
const NEWEST: &str = "policy-last-good";
/// The copy before it.
const PREVIOUS: &str = "policy-last-good.previous";
/// Where the next copy is written before it is renamed.
const ASIDE: &str = "policy-last-good.new";
/// Proves at start that the folder can be written.
const PROBE: &str = "policy-last-good.probe";

const FORMAT: &str = "bulkhead-last-good";
const FORMAT_VERSION: u32 = 1;
/// Largest file that is read: the largest document and its head.
const FILE_BYTES_MAX: u64 = 40 << 20;
/// The last line: `sha256 ` and 64 digits, with its line feed.
const TAIL_BYTES: usize = 7 + 64 + 1;

/// A policy as it lies on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stored {
    /// The store it came from; graphic ASCII, so that it fits on a line.
    pub(crate) epoch: String,
    pub(crate) generation: u64,
    pub(crate) digest: String,
    /// JSON text.
    pub(crate) document: String,
}

/// Why the state folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("--state-dir {folder}: must be a folder that this process can write")]
pub(crate) struct FolderError {
    folder: String,
    #[source]
    source: io::Error,
}

/// Why one copy is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("cannot be read")]
    Io(#[from] io::Error),
    #[error("is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("belongs to user {owner}, not to this process")]
    Owner { owner: u32 },
    #[error("is cut off or not a last good policy")]
    Shape,
    #[error("has format {found}, this build reads format {FORMAT_VERSION}")]
    Format { found: u32 },
    #[error("differs from its checksum")]
    Checksum,
}

/// One copy that was found but cannot be used, for the log.
#[derive(Debug)]
pub(crate) struct Discarded {
    pub(crate) file: PathBuf,
    pub(crate) why: Unusable,
}

/// What the folder holds: whole copies, and what was wrong with the others.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) newest: Option<Stored>,
    pub(crate) previous: Option<Stored>,
    pub(crate) discarded: Vec<Discarded>,
}

/// The state folder of one gateway.
#[derive(Debug)]
pub(crate) struct LastGood {
    folder: PathBuf,
    /// Who owns what this process writes, learnt from the probe: std has no other way to ask.
    owner: u32,
    /// False while the newest file is one that nobody may start from: it must then not replace
    /// the previous one, which is the last readable copy.
    newest_is_good: bool,
}

impl LastGood {
    /// Makes the folder where needed and proves that it can be written.
    pub(crate) fn open(folder: &Path) -> Result<Self, FolderError> {
        let fault = |source| FolderError {
            folder: folder.display().to_string(),
            source,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(fault)?;
        let probe = folder.join(PROBE);
        let file = write_synced(&probe, b"").map_err(fault)?;
        let owner = file.metadata().map_err(fault)?.uid();
        fs::remove_file(&probe).map_err(fault)?;
        Ok(Self {
            folder: folder.to_owned(),
            owner,
            newest_is_good: false,
        })
    }

    /// Reads both copies. The caller says with [`LastGood::trust_newest`] whether the newest one
    /// is also good as a policy.
    pub(crate) fn load(&self) -> Found {
        let mut discarded = Vec::new();
        let mut copy = |name| {
            let file = self.folder.join(name);
            match self.read(&file) {
                Ok(stored) => return Some(stored),
                Err(Unusable::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(why) => discarded.push(Discarded { file, why }),
            }
            None
        };
        let (newest, previous) = (copy(NEWEST), copy(PREVIOUS));
        Found {
            newest,
            previous,
            discarded,
        }
    }

    /// Whether the newest copy can be run, so that it may become the previous one.
    pub(crate) const fn trust_newest(&mut self, good: bool) {
        self.newest_is_good = good;
    }

    /// Writes `stored` as the newest copy. A kill or a power cut at any moment leaves a whole
    /// copy under one of the two names.
    pub(crate) fn store(&mut self, stored: &Stored) -> io::Result<()> {
        let [newest, previous, aside] =
            [NEWEST, PREVIOUS, ASIDE].map(|name| self.folder.join(name));
        write_synced(&aside, &encode(stored))?;
        if self.newest_is_good {
            match fs::rename(&newest, &previous) {
                // Killed between the two renames the last time: the previous one is whole.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            self.newest_is_good = false;
        }
        fs::rename(&aside, &newest)?;
        self.newest_is_good = true;
        // A rename is on disk only when its folder is.
        File::open(&self.folder)?.sync_all()
    }

    fn read(&self, path: &Path) -> Result<Stored, Unusable> {
        let file = File::open(path)?;
        let owner = file.metadata()?.uid();
        // Whoever can plant a file here could otherwise choose the limits.
        if owner != self.owner {
            return Err(Unusable::Owner { owner });
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
            return Err(Unusable::TooLarge);
        }
        decode(&bytes)
    }
}

/// Creates or empties `path`, readable by this user alone, and returns when `bytes` are on disk.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut open = OpenOptions::new();
    let mut file = open
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(file)
}

fn encode(stored: &Stored) -> Vec<u8> {
    let Stored {
        epoch,
        generation,
        digest,
        document,
    } = stored;
    let bytes = document.len();
    let mut text = format!("{FORMAT} {FORMAT_VERSION}\nepoch {epoch}\n");
    text.push_str(&format!(
        "generation {generation}\ndigest {digest}\ndocument {bytes}\n"
    ));
    text.push_str(document);
    text.push('\n');
    let checksum = hex(&Sha256::digest(text.as_bytes()));
    text.push_str(&format!("sha256 {checksum}\n"));
    text.into_bytes()
}

fn decode(bytes: &[u8]) -> Result<Stored, Unusable> {
    let mut rest = bytes;
    // The format is asked first: a newer build may have another checksum.
    let version = field(&mut rest, FORMAT)?
        .parse()
        .map_err(|_| Unusable::Shape)?;
    if version != FORMAT_VERSION {
        return Err(Unusable::Format { found: version });
    }
    let body_bytes = bytes.len().checked_sub(TAIL_BYTES).ok_or(Unusable::Shape)?;
    let (body, tail) = bytes.split_at_checked(body_bytes).ok_or(Unusable::Shape)?;
    let mut tail_rest = tail;
    if field(&mut tail_rest, "sha256")? != hex(&Sha256::digest(body)) {
        return Err(Unusable::Checksum);
    }
    let epoch = field(&mut rest, "epoch")?.to_owned();
    let generation = field(&mut rest, "generation")?
        .parse()
        .map_err(|_| Unusable::Shape)?;
    let digest = field(&mut rest, "digest")?.to_owned();
    let length = field(&mut rest, "document")?
        .parse()
        .map_err(|_| Unusable::Shape)?;
    let document = rest.get(..length).ok_or(Unusable::Shape)?;
    if rest.get(length..length.saturating_add(1)) != Some(b"\n")
        || rest.len() != length.saturating_add(1 + TAIL_BYTES)
    {
        return Err(Unusable::Shape);
    }
    let document = String::from_utf8(document.to_vec()).map_err(|_| Unusable::Shape)?;
    Ok(Stored {
        epoch,
        generation,
        digest,
        document,
    })
}

/// Takes the line `NAME VALUE` off the front of `rest`.
fn field<'a>(rest: &mut &'a [u8], name: &str) -> Result<&'a str, Unusable> {
    let end = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or(Unusable::Shape)?;
    let (line, after) = rest.split_at_checked(end).ok_or(Unusable::Shape)?;
    *rest = after.get(1..).unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Unusable::Shape)?;
    let value = line
        .strip_prefix(name)
        .and_then(|line| line.strip_prefix(' '));
    value.ok_or(Unusable::Shape)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn stored(generation: u64) -> Stored {
        let document = format!("{{\"schema\":1,\"n\":\"g\u{e9}n\\n{generation}\"}}");
        Stored {
            epoch: "e7".to_owned(),
            generation,
            digest: "d1".repeat(32),
            document,
        }
    }

    struct Folder {
        dir: tempfile::TempDir,
        last_good: LastGood,
    }

    impl Folder {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let last_good = LastGood::open(&dir.path().join("state")).unwrap();
            Self { dir, last_good }
        }

        fn with(generations: &[u64]) -> Self {
            let mut folder = Self::new();
            for generation in generations {
                folder.last_good.store(&stored(*generation)).unwrap();
            }
            folder
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join("state").join(name)
        }

        fn usable(&self) -> Vec<Stored> {
            let found = self.last_good.load();
            found.newest.into_iter().chain(found.previous).collect()
        }

        fn generations(&self) -> Vec<u64> {
            self.usable()
                .iter()
                .map(|stored| stored.generation)
                .collect()
        }
    }

    #[test]
    fn newest_comes_first_and_the_one_before_is_kept() {
        let folder = Folder::with(&[3, 4, 5]);
        assert_eq!(folder.usable(), [stored(5), stored(4)]);
        assert!(folder.last_good.load().discarded.is_empty());
    }

    #[test]
    fn an_empty_folder_holds_nothing_and_complains_of_nothing() {
        let folder = Folder::new();
        assert!(folder.usable().is_empty());
        assert!(folder.last_good.load().discarded.is_empty());
    }

    #[test]
    fn a_file_cut_at_any_length_is_not_used() {
        let folder = Folder::with(&[3, 4]);
        let whole = fs::read(folder.path(NEWEST)).unwrap();
        for length in 0..whole.len() {
            fs::write(folder.path(NEWEST), &whole[..length]).unwrap();
            assert_eq!(folder.generations(), [3], "cut at {length}");
            assert_eq!(
                folder.last_good.load().discarded.len(),
                1,
                "cut at {length}"
            );
        }
        let longer = [whole.as_slice(), b"\n"].concat();
        fs::write(folder.path(NEWEST), longer).unwrap();
        assert_eq!(folder.generations(), [3]);
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed() {
        let folder = Folder::with(&[3, 4]);
        let whole = fs::read(folder.path(NEWEST)).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                assert!(decode(&bytes).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_format_is_named_and_the_previous_used() {
        let folder = Folder::with(&[3, 4]);
        let text = String::from_utf8(fs::read(folder.path(NEWEST)).unwrap()).unwrap();
        fs::write(folder.path(NEWEST), text.replace("good 1", "good 2")).unwrap();
        let found = folder.last_good.load();
        assert_eq!((found.newest, found.previous), (None, Some(stored(3))));
        assert!(matches!(
            found.discarded[0].why,
            Unusable::Format { found: 2 }
        ));
    }

    #[test]
    fn another_users_file_is_not_believed() {
        let mut folder = Folder::with(&[3]);
        folder.last_good.owner = folder.last_good.owner.wrapping_add(1);
        let found = folder.last_good.load();
        assert_eq!((found.newest, found.previous), (None, None));
        assert!(matches!(found.discarded[0].why, Unusable::Owner { .. }));
    }

    #[test]
    fn a_spoilt_newest_never_replaces_the_readable_previous() {
        let folder = Folder::with(&[3, 4]);
        fs::write(folder.path(NEWEST), "rotten").unwrap();
        let mut again = LastGood::open(&folder.dir.path().join("state")).unwrap();
        again.store(&stored(5)).unwrap();
        let found = again.load();
        assert_eq!(
            (found.newest, found.previous),
            (Some(stored(5)), Some(stored(3)))
        );
    }

    #[test]
    fn leftovers_of_a_kill_while_writing_do_no_harm() {
        let mut folder = Folder::with(&[3, 4]);
        fs::write(folder.path(ASIDE), "half of").unwrap();
        assert_eq!(folder.generations(), [4, 3]);
        // Killed between the two renames: nothing under the newest name.
        fs::rename(folder.path(NEWEST), folder.path(PREVIOUS)).unwrap();
        assert_eq!(folder.generations(), [4]);
        folder.last_good.store(&stored(5)).unwrap();
        assert_eq!(folder.generations(), [5, 4]);
    }

    #[test]
    fn files_are_for_this_user_alone() {
        let folder = Folder::with(&[3, 4]);
        for name in [NEWEST, PREVIOUS] {
            let mode = fs::metadata(folder.path(name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_one_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = LastGood::open(&file.join("state")).unwrap_err();
        assert!(error.to_string().contains("file/state"), "{error}");
    }
}
