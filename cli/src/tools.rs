//! The small tools: `health`, `token`, `version`, `completion`.
//!
//! Separate because each is a few lines; what needs a control plane is handed on. It must never
//! print a key, only its digest.

use std::io::Read as _;
use std::path::Path;

use clap::CommandFactory as _;
use http::Method;
use sha2::{Digest as _, Sha256};

use crate::args::Cli;
use crate::args_people::{TokenCommand, TokenOf, UserCommand};
use crate::args_tools::HealthArgs;
use crate::error::Failure;
use crate::output;
use crate::remote;
use crate::remote::http::{Ask, ask};
use crate::store;

/// Longest API key in bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// Exit 0 when the answer is 2xx.
pub(crate) fn health(args: &HealthArgs) -> Result<(), Failure> {
    let answer = ask(Ask {
        method: Method::GET,
        url: &args.url,
        ca: args.ca.as_deref(),
        headers: Vec::new(),
        body: None,
        longest: args.timeout,
    })?;
    if answer.status.is_success() {
        return output::print(&format!("{}\n", answer.status));
    }
    Err(Failure::Answer(format!(
        "{} answered {}",
        output::printable(&args.url),
        answer.status
    )))
}

/// Tokens are the control plane's; an API key is hashed here.
pub(crate) fn token(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create { wanted, client } => remote::create_token(&wanted, &client),
        TokenCommand::List(client) => remote::tokens(&TokenOf::All, &client),
        TokenCommand::Revoke { id, client } => remote::tokens(&TokenOf::One(id), &client),
        TokenCommand::Hash { key } => hash_key(key),
    }
}

/// Users are the control plane's; a reset goes to its store.
pub(crate) fn user(command: &UserCommand) -> Result<(), Failure> {
    if let UserCommand::Reset { name, store } = command {
        return store::reset_user(name, store);
    }
    remote::users(command)
}

/// Prints `sha256:…` of a key, for `api_keys` in a policy.
fn hash_key(key: Option<String>) -> Result<(), Failure> {
    let key = match key {
        Some(key) => key,
        None => read_key()?,
    };
    if key.is_empty() {
        return Err(Failure::Setting("the key is empty".to_owned()));
    }
    output::print(&format!("{}\n", hash(&key)))
}

fn read_key() -> Result<String, Failure> {
    let mut key = String::new();
    let unreadable = |source| Failure::unreadable(Path::new("standard input"), source);
    std::io::stdin()
        .lock()
        .take(KEY_BYTES_MAX)
        .read_to_string(&mut key)
        .map_err(unreadable)?;
    Ok(key.trim_end_matches(['\r', '\n']).to_owned())
}

fn hash(key: &str) -> String {
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

pub(crate) fn version() -> Result<(), Failure> {
    output::print(concat!("bulkhead ", env!("CARGO_PKG_VERSION"), "\n"))
}

pub(crate) fn completion(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "bulkhead", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hashed_as_the_gateway_hashes_it() {
        assert_eq!(
            hash("test"),
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
        );
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
