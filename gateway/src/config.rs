//! What a gateway is started with.
//!
//! Separate so that the command line and the tests build the same thing. Plain data: every field
//! is already checked, and it must never be read while a request is served.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use wire::Secret;
use wire::document::Loaded;

use crate::least_rate::LeastRate;
use crate::tell::Telling;

/// One gateway process.
#[derive(Debug)]
pub struct Config {
    /// Where clients connect; port 0 is allowed.
    pub listen: Vec<SocketAddr>,
    /// The admin port.
    pub admin: SocketAddr,
    /// Serving threads; `None`: as many as there are cores to use.
    pub workers: Option<usize>,
    /// Where policies come from.
    pub source: Source,
    /// How long requests in flight may take to finish once told to stop.
    pub drain_timeout: Duration,
    /// How this gateway names itself to its control plane. Stable over reconnects.
    pub id: String,
    /// Listeners of this process beside the gateway's own: no upstream may lead to them.
    pub forbidden: Vec<SocketAddr>,
    /// What it tells beside the admin port.
    pub telling: Telling,
    /// How slowly a client may send a body.
    pub least_rate: LeastRate,
}

/// Where policies come from.
#[derive(Debug)]
pub enum Source {
    /// A file, read at the start and again on every reload.
    File(PathBuf),
    /// One document, checked already; it never changes.
    Document(Loaded),
    /// Control planes of one store, of which one is dialled.
    ControlPlane {
        /// Each `http://HOST:PORT` or `https://HOST:PORT`. The first that answers is kept until it
        /// fails; then the next.
        urls: Vec<String>,
        /// A file with the roots that are believed for https; `None`: the system's.
        ca: Option<PathBuf>,
        /// Proves to the control plane that this gateway may read the policy.
        token: Secret,
        /// Where the last good policy is kept; `None`: nowhere, so a start needs the control plane.
        state_dir: Option<PathBuf>,
    },
}
