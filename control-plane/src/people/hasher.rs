//! Passwords as Argon2id leaves them: slow on purpose, away from the threads that serve.
//!
//! Separate because it is the one expensive thing that anybody can ask for: few are made at once
//! and a wait for a turn has an end. It must never take less work for a name that nobody has, nor
//! keep a password.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use argon2::{Algorithm, Argon2, Params, Version};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

/// What one hash takes, in KiB of memory.
const MEMORY_KIB: u32 = 19_456;
/// How often it goes over that.
const PASSES: u32 = 2;
/// Bytes of a hash.
const HASH_BYTES: usize = 32;
/// Bytes of a salt.
const SALT_BYTES: usize = 16;
/// Most hashes at once for whoever comes.
const HASHES_MAX: usize = 2;
/// Most at once beyond those for people from where they signed in before.
const KNOWN_HASHES_MAX: usize = 1;
/// Longest wait for a turn.
const TURN_MAX: Duration = Duration::from_secs(3);

/// What is kept of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hashed {
    memory_kib: u32,
    passes: u32,
    salt: String,
    hash: String,
}

impl std::fmt::Debug for Hashed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hashed(..)")
    }
}

/// A password on its way; overwritten when dropped.
pub(crate) type Password = Zeroizing<String>;

/// Why there is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// No turn in time.
    #[error("too many passwords are being checked; try again in a moment")]
    Busy,
    /// No random numbers, or no memory.
    #[error("no password can be hashed now")]
    Failed,
}

/// Makes and checks hashes.
#[derive(Clone, Debug)]
pub(crate) struct Hasher {
    turns: Arc<Semaphore>,
    known_turns: Arc<Semaphore>,
    /// Stands for whoever does not exist.
    nobody: Hashed,
    /// Hashes made so far.
    made: Arc<AtomicU64>,
}

impl Hasher {
    pub(crate) fn new() -> Self {
        let nobody = Hashed {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: "00".repeat(SALT_BYTES),
            hash: "00".repeat(HASH_BYTES),
        };
        Self {
            turns: Arc::new(Semaphore::new(HASHES_MAX)),
            known_turns: Arc::new(Semaphore::new(KNOWN_HASHES_MAX)),
            nobody,
            made: Arc::default(),
        }
    }

    /// What is kept of a new password.
    pub(crate) async fn hash(&self, password: Password) -> Result<Hashed, HashError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|_| HashError::Failed)?;
        let hash = self.work(password, salt.to_vec(), MEMORY_KIB, PASSES, false);
        Ok(Hashed {
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: hex(&salt),
            hash: hex(hash.await?.as_slice()),
        })
    }

    /// Whether this is the password. Without one to compare the work is the same. `is_known`:
    /// somebody from where this account signed in before.
    pub(crate) async fn matches(
        &self,
        password: Password,
        kept: Option<&Hashed>,
        is_known: bool,
    ) -> Result<bool, HashError> {
        let own = kept.unwrap_or(&self.nobody);
        let salt = unhex(&own.salt).ok_or(HashError::Failed)?;
        let hash = self
            .work(password, salt, own.memory_kib, own.passes, is_known)
            .await?;
        let theirs = unhex(&own.hash).ok_or(HashError::Failed)?;
        let is_same: bool = hash.as_slice().ct_eq(theirs.as_slice()).into();
        Ok(is_same && kept.is_some())
    }

    async fn work(
        &self,
        password: Password,
        salt: Vec<u8>,
        memory_kib: u32,
        passes: u32,
        is_known: bool,
    ) -> Result<Zeroizing<Vec<u8>>, HashError> {
        let turn = async {
            let turns = Arc::clone(&self.turns).acquire_owned();
            if !is_known {
                return turns.await;
            }
            // Nothing is lost by the branch that was not first.
            tokio::select! {
                turn = turns => turn,
                turn = Arc::clone(&self.known_turns).acquire_owned() => turn,
            }
        };
        let turn = tokio::time::timeout(TURN_MAX, turn).await;
        let turn = turn.map_err(|_| HashError::Busy)?;
        let turn = turn.map_err(|_| HashError::Failed)?;
        self.made.fetch_add(1, Ordering::Relaxed);
        let work = move || {
            let _turn = turn;
            let params = Params::new(memory_kib, passes, 1, Some(HASH_BYTES)).ok()?;
            let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
            let mut hash = Zeroizing::new(vec![0; HASH_BYTES]);
            argon
                .hash_password_into(password.as_bytes(), &salt, hash.as_mut_slice())
                .ok()?;
            Some(hash)
        };
        let hash = tokio::task::spawn_blocking(work).await;
        hash.ok().flatten().ok_or(HashError::Failed)
    }

    /// How many were made so far.
    #[cfg(test)]
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let pairs = digits?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    pairs.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_password_is_known_by_its_hash_alone() {
        let hasher = Hasher::new();
        let password = |text: &str| Zeroizing::new(text.to_owned());
        let kept = hasher
            .hash(password("correct horse battery"))
            .await
            .unwrap();
        let again = hasher
            .hash(password("correct horse battery"))
            .await
            .unwrap();
        assert_ne!(kept, again, "a salt of its own");
        assert!((kept.memory_kib, kept.passes) >= (19 << 10, 2));
        let text = serde_json::to_string(&kept).unwrap();
        assert!(!text.contains("horse") && format!("{kept:?}") == "Hashed(..)");
        let ask = |text: &str| hasher.matches(password(text), Some(&kept), false);
        assert_eq!(ask("correct horse battery").await, Ok(true));
        assert_eq!(ask("correct horse batterx").await, Ok(false));
        let before = hasher.made();
        let nobody = hasher.matches(password("correct horse battery"), None, false);
        assert_eq!(nobody.await, Ok(false));
        assert_eq!(hasher.made(), before + 1, "the same work for nobody");
        assert_eq!(hasher.nobody.memory_kib, kept.memory_kib);
        assert_eq!(hasher.nobody.passes, kept.passes);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_signed_in_before_does_not_wait_behind_strangers() {
        let hasher = Hasher::new();
        let all = Arc::clone(&hasher.turns)
            .acquire_many_owned(2)
            .await
            .unwrap();
        let password = || Zeroizing::new("x".to_owned());
        let stranger = hasher.matches(password(), None, false).await;
        assert_eq!(stranger, Err(HashError::Busy));
        assert_eq!(hasher.matches(password(), None, true).await, Ok(false));
        drop(all);
    }
}
