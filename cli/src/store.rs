//! `bulkhead migrate`, `backup` and `restore`: the store while no control plane needs to run.
//!
//! Separate because these open the store themselves, with the settings of the control plane. They
//! must never print the URL's password.

use std::path::PathBuf;

use clap::Args;
use control_plane::store;

use crate::error::{Failure, exit};
use crate::output;
use crate::roles::database_url;
use crate::settings::{self, Flags, Settings, audit_key, of_this_process};

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where the store is, instead of the data folder
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Folder of the store [default: ./bulkhead-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Settings file (TOML); flags and BULKHEAD_… variables win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Change nothing: exit 0 when there is nothing to do, 1 when there is
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The copy
    file: PathBuf,
    /// Write over a copy that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FileArgs {
    /// The copy
    file: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
}

impl StoreArgs {
    pub(crate) fn url(&self) -> Result<String, Failure> {
        let given = [
            ("database_url", &self.database_url),
            ("data_dir", &self.data_dir),
        ];
        let flags: Flags = given
            .into_iter()
            .filter_map(|(key, text)| Some((key, vec![text.clone()?])))
            .collect();
        let settings = Settings::gather(flags, self.config.clone(), &of_this_process())?;
        database_url(&settings)
    }
}

/// Brings the tables to what this build needs.
pub(crate) fn migrate(args: &MigrateArgs) -> Result<(), Failure> {
    let url = args.store.url()?;
    let tables = wait(store::migrate(
        &url,
        audit_key(&of_this_process())?,
        args.check,
    ))?;
    let mut text = String::new();
    let mut pending = false;
    for one in tables {
        let (what, from, to) = (one.what, one.from, one.to);
        pending |= from < to;
        text.push_str(&match (from < to, args.check) {
            (false, _) => format!("{what}: up to date at {to}\n"),
            (true, true) => format!("{what}: at {from}, this build needs {to}\n"),
            (true, false) => format!("{what}: migrated from {from} to {to}\n"),
        });
    }
    output::print(&text)?;
    match args.check && pending {
        true => Err(Failure::Said(exit::TROUBLE)),
        false => Ok(()),
    }
}

/// Copies a SQLite store, also while it is in use.
pub(crate) fn backup(args: &BackupArgs) -> Result<(), Failure> {
    let url = args.store.url()?;
    if !args.force && args.file.exists() {
        let file = args.file.display();
        output::complain(&format!(
            "{file} is there already: --force writes over an older copy"
        ));
        return Err(Failure::Said(exit::TROUBLE));
    }
    let made = wait(store::backup(&url, &args.file))?;
    output::print(&format!(
        "{}: {} generations, the newest is {}, of store {}\n",
        args.file.display(),
        made.generations,
        made.newest,
        made.epoch
    ))
}

/// Puts a copy in the place of a SQLite store that nobody uses.
pub(crate) fn restore(args: &FileArgs) -> Result<(), Failure> {
    let url = args.store.url()?;
    let key = audit_key(&of_this_process())?;
    let restored = wait(store::restore(&url, &args.file, key))?;
    let mut text = format!(
        "generation {} is the newest of store {}; gateways that run a higher one keep it until \
         somebody lets them go back (page Fleet)\n",
        restored.newest, restored.epoch
    );
    if let Some(kept) = restored.kept {
        text.push_str(&format!("what was there is in {}\n", kept.display()));
    }
    output::print(&text)
}

/// Takes a user's password and sessions away, and prints the link that sets another one.
pub(crate) fn reset_user(name: &str, store: &StoreArgs) -> Result<(), Failure> {
    let key = audit_key(&of_this_process())?;
    let code = wait(control_plane::people::reset(&store.url()?, key, name))?;
    let (server, _) = settings::client(&of_this_process());
    let server = server.unwrap_or_else(|| {
        // The store does not know where people reach it.
        output::complain("open this on the dashboard's address:");
        String::new()
    });
    let base = server.trim_end_matches('/');
    output::print(&format!("{base}/setup?code={}\n", code.expose()))
}

pub(crate) fn wait<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<T, Failure>
where
    control_plane::StartError: From<E>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Failure::System {
            what: "start a runtime",
            source,
        })?;
    Ok(runtime
        .block_on(work)
        .map_err(control_plane::StartError::from)?)
}
