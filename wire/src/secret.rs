//! A secret text: a token that proves who calls.
//!
//! Separate so that there is one type with no way to print its content and one comparison that
//! takes the same time whatever differs. It must never gain `Display` or serde traits.

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Fewest characters of a token: less can be guessed.
pub const SECRET_CHARS_MIN: usize = 32;
/// Most bytes of a token or of a file that holds one.
pub const SECRET_BYTES_MAX: usize = 4096;

/// A token. Printed as `Secret(..)`, overwritten when dropped.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

/// Why a text cannot be a token. Never carries the text.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Too easy to guess.
    #[error("a token has at least {SECRET_CHARS_MIN} characters, this one has {0}")]
    TooShort(usize),
    /// No header field could carry it.
    #[error("a token has at most {SECRET_BYTES_MAX} bytes, this one is longer")]
    TooLong,
    /// No header field could carry it.
    #[error("a token is made of visible ASCII characters without spaces")]
    NotVisible,
    /// The file that should hold it.
    #[error("cannot read the token from {path}")]
    File {
        /// Which file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// No random numbers to be had.
    #[error("the system has no random numbers: {0}")]
    Random(getrandom::Error),
}

impl Secret {
    /// Checks `text`; white space around it (a file's last newline) does not count.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        let text = text.trim();
        if text.len() > SECRET_BYTES_MAX {
            return Err(SecretError::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(SecretError::NotVisible);
        }
        if text.len() < SECRET_CHARS_MIN {
            return Err(SecretError::TooShort(text.len()));
        }
        Ok(Self(Zeroizing::new(text.to_owned())))
    }

    /// The token in a file.
    pub fn from_file(path: &Path) -> Result<Self, SecretError> {
        let bytes = read_bounded(path).map_err(|source| SecretError::File {
            path: path.display().to_string(),
            source,
        })?;
        let text = std::str::from_utf8(&bytes).map_err(|_| SecretError::NotVisible)?;
        Self::new(text)
    }

    /// A fresh token of 256 random bits.
    pub fn random() -> Result<Self, SecretError> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut()).map_err(SecretError::Random)?;
        let mut text = Zeroizing::new(String::with_capacity(64));
        for byte in bytes.iter() {
            text.push(hex_digit(byte >> 4));
            text.push(hex_digit(byte & 15));
        }
        Ok(Self(text))
    }

    /// The content, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True when `offered` is this token. Digests are compared, in constant time, so that
    /// neither the first differing byte nor the length shows in the time it takes.
    pub fn matches(&self, offered: &str) -> bool {
        let own = Sha256::digest(self.0.as_bytes());
        let theirs = Sha256::digest(offered.as_bytes());
        own.as_slice().ct_eq(theirs.as_slice()).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or('0')
}

fn read_bounded(path: &Path) -> std::io::Result<Zeroizing<Vec<u8>>> {
    use std::io::Read as _;

    let mut bytes = Zeroizing::new(Vec::new());
    // One byte more than allowed, so that a longer file is noticed and not cut.
    let bytes_max = u64::try_from(SECRET_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    std::fs::File::open(path)?
        .take(bytes_max)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn content_is_never_printed() {
        let secret = Secret::new(TOKEN).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        let short = Secret::new("hunter2hunter2").unwrap_err();
        assert!(!format!("{short} {short:?}").contains("hunter2"));
    }

    #[test]
    fn only_the_same_token_matches() {
        let secret = Secret::new(&format!("{TOKEN}\n")).unwrap();
        assert!(secret.matches(TOKEN));
        for other in [
            "",
            "0",
            &TOKEN[1..],
            &format!("{TOKEN}0"),
            &TOKEN.to_uppercase(),
        ] {
            assert!(!secret.matches(other), "{other}");
        }
    }

    #[test]
    fn what_cannot_be_a_token_is_refused() {
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        let spaced = format!("{TOKEN} {TOKEN}");
        for bad in [
            "",
            "short",
            &TOKEN[1..],
            long.as_str(),
            &spaced,
            &format!("{TOKEN}\u{e9}"),
        ] {
            assert!(Secret::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn random_tokens_differ_and_are_tokens() {
        let (one, two) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert!(!one.matches(two.expose()));
        assert!(Secret::new(one.expose()).is_ok());
    }

    #[test]
    fn a_file_is_read_up_to_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
        assert!(Secret::from_file(&path).unwrap().matches(TOKEN));
        std::fs::write(&path, "x".repeat(SECRET_BYTES_MAX + 9)).unwrap();
        assert!(matches!(
            Secret::from_file(&path),
            Err(SecretError::TooLong)
        ));
        let missing = Secret::from_file(&folder.path().join("none")).unwrap_err();
        assert!(missing.to_string().contains("none"));
    }
}
