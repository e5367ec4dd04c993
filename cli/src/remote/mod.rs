//! Clients of the control plane's API: `apply`, `diff`, `export`, `history`, `rollback`, `get`,
//! `top`, `fleet`, `changes`, `tenant`, `override`, `audit list`.
//!
//! Separate from the roles: these run, say something and end. They must never read the store of a
//! control plane by another door than its API.

mod advice;
mod apply;
mod audit;
mod changes;
mod changes_shown;
mod client;
mod diff;
mod drill;
mod fleet;
mod get;
mod history;
pub(crate) mod http;
mod overrides;
mod people;
mod tenant;
mod top;

pub(crate) use advice::{run as advice, what_if};
pub(crate) use apply::run as apply;
pub(crate) use audit::list as audit;
pub(crate) use changes::run as changes;
pub(crate) use diff::{export, run as diff};
pub(crate) use drill::run as drill;
pub(crate) use fleet::run as fleet;
pub(crate) use get::run as get;
pub(crate) use history::{list as history, rollback};
pub(crate) use overrides::run as overrides;
pub(crate) use people::{create_token, tokens, users};
pub(crate) use tenant::run as tenant;
pub(crate) use top::run as top;

use std::io::Read as _;
use std::path::Path;

use control_plane::document::{self, DOCUMENT_BYTES_MAX, LoadError, Loaded, Syntax};

use crate::error::Failure;

/// As much of a policy file as is read: one byte more than allowed, so that a longer one is
/// noticed.
const POLICY_BYTES_MAX: u64 = 32 * 1024 * 1024 + 1;
const _: () = assert!(DOCUMENT_BYTES_MAX == 32 * 1024 * 1024);

/// The text of a policy file and the form it is in. `-` is standard input: JSON when it begins
/// with a brace, which no TOML does, else TOML.
pub(crate) fn read_policy(path: &Path) -> Result<(String, Syntax), Failure> {
    let unreadable = |source| Failure::unreadable(path, source);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin()
            .lock()
            .take(POLICY_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
    } else {
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(POLICY_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
    }
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(refused(path, &LoadError::TooLarge { bytes: bytes.len() }));
    }
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    let syntax = match (path == Path::new("-"), begins) {
        (true, Some(b'{')) => Syntax::Json,
        (true, _) => Syntax::Toml,
        (false, _) => Syntax::of_path(path),
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error
            .as_bytes()
            .iter()
            .take(at)
            .filter(|byte| **byte == b'\n')
            .count();
        let faults = format!("line {}: not UTF-8", line.saturating_add(1));
        Failure::Refused {
            path: path.to_owned(),
            faults,
        }
    })?;
    Ok((text, syntax))
}

/// A policy file, parsed and checked.
pub(crate) fn load_policy(path: &Path) -> Result<Loaded, Failure> {
    let (text, syntax) = read_policy(path)?;
    document::load(&text, syntax).map_err(|error| refused(path, &error))
}

/// A policy file that is none.
pub(crate) fn refused(path: &Path, error: &LoadError) -> Failure {
    Failure::Refused {
        path: path.to_owned(),
        faults: error.to_string(),
    }
}
