//! The long-running commands: `up`, `gateway`, `control-plane`.
//!
//! Separate from the tools because these have settings, a log, signals and a ready file. What they
//! share is here. It must never decide about a request or a policy.

mod control_plane_role;
mod gateway_role;
mod quick;
mod serving;
mod up;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use telemetry::Telemetry;

pub(crate) use control_plane_role::{database_url, run as control_plane};
pub(crate) use gateway_role::run as gateway;
pub(crate) use up::run as up;

use crate::error::Failure;
use crate::log::{self, Log};
use crate::ready;
use crate::settings::{Flags, Secrets, Settings, of_telemetry, of_this_process};
use crate::signals::{self, Event};

/// What every role starts from: its settings and secrets, its log, its signals.
struct Start {
    settings: Settings,
    secrets: Secrets,
    events: Receiver<Event>,
    /// Sends what is left when dropped; before the log, which says what was lost.
    telemetry: Telemetry,
    /// Writes the last lines when dropped.
    _log: Log,
}

impl Start {
    fn new(flags: Flags, config: Option<PathBuf>) -> Result<Self, Failure> {
        keep_memory_out_of_core_dumps();
        let variables = of_this_process();
        let settings = Settings::gather(flags, config, &variables)?;
        let secrets = Secrets::gather(&variables)?;
        let (telemetry, warnings) = telemetry(&settings)?;
        let filter = settings.text("log").unwrap_or(log::DEFAULT_FILTER);
        let log = log::start(filter, telemetry.handle())?;
        for warning in settings.warnings.iter().chain(&warnings) {
            tracing::warn!("{warning}");
        }
        let events = signals::catch()?;
        if let Some(path) = settings.path("ready_file") {
            ready::clear(&path);
        }
        Ok(Self {
            settings,
            secrets,
            events,
            telemetry,
            _log: log,
        })
    }

    /// Writes the ready file, when one is asked for.
    fn ready(&self, ready: &ready::Ready) -> Result<(), Failure> {
        self.settings
            .path("ready_file")
            .map_or(Ok(()), |path| ready::write(&path, ready))
    }
}

/// The exporter, by the standard variables, and what to warn of.
fn telemetry(settings: &Settings) -> Result<(Telemetry, Vec<String>), Failure> {
    let found = telemetry::Settings::read(&of_telemetry());
    let found = found.map_err(|fault| Failure::Setting(fault.to_string()))?;
    let warnings = found.warnings.clone();
    let instance = match settings.text("id") {
        Some(id) => id.to_owned(),
        None => format!("{}-pid-{}", serving::host_name(), std::process::id()),
    };
    Ok((Telemetry::start(found, &instance)?, warnings))
}

/// Tokens live in memory: the kernel is told to leave every mapping out of a core dump. Where it
/// cannot be told, an operator's own limit on core dumps is all there is.
fn keep_memory_out_of_core_dumps() {
    drop(std::fs::write("/proc/self/coredump_filter", "0"));
}

const LOOPBACK: [u8; 4] = [127, 0, 0, 1];

/// Where the dashboard listens unless told otherwise.
fn default_dashboard() -> SocketAddr {
    (LOOPBACK, 8081).into()
}
