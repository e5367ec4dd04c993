//! `bulkhead audit verify`: whether anybody changed the audit.
//!
//! Separate from the clients of the API: it opens the store itself, read-only, because whoever
//! doubts the audit does not ask those who write it. It must never say "good" of what it did not
//! read.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control_plane::Secret;
use control_plane::store::{Verified, verify};

use crate::args::Format;
use crate::args_audit::AuditListArgs;
use crate::error::{Failure, exit};
use crate::output;
use crate::remote;
use crate::settings::{audit_key, of_this_process};
use crate::store::{StoreArgs, wait};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List who did what, the newest first
    List(AuditListArgs),
    /// Read all of it and name the first row that is not as it was written: exit 0 when there is
    /// none, 1 when there is, 2 when it could not be read
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// A row and its digest that are known from elsewhere, such as the log; may be repeated
    #[arg(long, value_name = "ROW:DIGEST", value_parser = known)]
    expect: Vec<(u64, String)>,
    /// Holds the key of the head [default: BULKHEAD_AUDIT_KEY, else the file beside a SQLite store]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// As a sentence or as JSON
    #[arg(short = 'o', long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs one of the commands.
pub(crate) fn run(command: AuditCommand) -> Result<(), Failure> {
    let args = match command {
        AuditCommand::List(args) => return remote::audit(&args),
        AuditCommand::Verify(args) => args,
    };
    // Whatever keeps it from being read is 2: 1 says that it was read and is wrong.
    let verified = read(&args).map_err(|failure| {
        failure.report();
        Failure::Said(exit::USAGE)
    })?;
    match args.output {
        Format::Json => output::print_json(&serde_json::json!(verified))?,
        Format::Table => output::print(&words(&verified))?,
    }
    match verified.broken {
        Some(_) => Err(Failure::Said(exit::TROUBLE)),
        None => Ok(()),
    }
}

fn read(args: &VerifyArgs) -> Result<Verified, Failure> {
    let wrong = |source| Failure::Token {
        name: "the key of the audit",
        source,
    };
    let key = match &args.key_file {
        Some(file) => Some(Secret::from_file(file).map_err(wrong)?),
        None => audit_key(&of_this_process())?,
    };
    wait(verify(&args.store.url()?, key, &args.expect))
}

fn known(text: &str) -> Result<(u64, String), String> {
    let rule = || format!("{text:?}: must be the number of a row, a colon and its digest");
    let (row, digest) = text.split_once(':').ok_or_else(rule)?;
    let row = row.parse().map_err(|_| rule())?;
    if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(rule());
    }
    Ok((row, digest.to_ascii_lowercase()))
}

fn words(verified: &Verified) -> String {
    let mut notes = verified.notes.join("\n");
    if !notes.is_empty() {
        notes.push('\n');
    }
    if let Some(broken) = &verified.broken {
        let how = serde_json::json!(broken.how);
        let how = how.as_str().unwrap_or_default();
        return format!(
            "{notes}row {}: {how}: {}\n{} rows before it are as they were written\n",
            broken.row, broken.detail, verified.rows
        );
    }
    let mark = match verified.signature {
        "good" => "its head is signed with this key",
        "unchecked" => "its head was not checked: there is no key here",
        "unsigned" => "its head is not signed: give the control planes BULKHEAD_AUDIT_KEY",
        _ => "it has no head",
    };
    let digest = verified.head.as_ref();
    let digest = digest.map_or(String::new(), |head| {
        format!(", {}:{}", head.id, head.digest)
    });
    format!(
        "{notes}{} rows are as they were written{digest}; {mark}\n",
        verified.rows
    )
}
