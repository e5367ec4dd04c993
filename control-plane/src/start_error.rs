//! Why a control plane does not start.
//!
//! Separate because each is one line for whoever starts it, and names the setting to change. It
//! must never hold a secret.

use std::net::SocketAddr;

use wire::SecretError;

use crate::people::PeopleError;
use crate::store::StoreError;
use crate::tls::TlsFilesError;

/// Why the control plane does not start. One line each; nothing was damaged.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Everybody on the network could change limits.
    #[error(
        "dashboard = {0}: without a login the dashboard listens on loopback only; leave out \
         --no-login, or use 127.0.0.1"
    )]
    OpenBeyondLoopback(SocketAddr),
    /// Tokens would cross the network in the clear.
    #[error(
        "dashboard = {0}: beyond loopback the dashboard needs TLS: give it a certificate with \
         --dashboard-tls-cert FILE and --dashboard-tls-key FILE, or put a proxy that speaks TLS \
         in front and say --behind-tls-proxy"
    )]
    PlainBeyondLoopback(SocketAddr),
    /// The certificate of the port.
    #[error(transparent)]
    Tls(#[from] TlsFilesError),
    /// Most often another process that listens there.
    #[error("dashboard = {address}: cannot listen there")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The policy file for an empty store cannot be read.
    #[error("cannot read the policy {name}")]
    ImportFile {
        /// Which.
        name: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The policy file for an empty store breaks rules.
    #[error("the policy {name} is refused:\n{rules}")]
    Import {
        /// Which.
        name: String,
        /// Every broken rule, one a line.
        rules: String,
    },
    /// A policy on the command line that nobody would be served by.
    #[error(
        "the store holds generation {newest}, which differs from the command line (--upstream, \
         --limit, --shadow): nothing was changed. They make a policy only while the store is \
         empty: take another --data-dir, leave them out, or publish a policy with \
         `bulkhead apply -f FILE`"
    )]
    Differs {
        /// The newest generation.
        newest: u64,
    },
    /// Nobody could be invited.
    #[error(transparent)]
    People(#[from] PeopleError),
    /// No random numbers for a token.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No threads.
    #[error("cannot start the control plane's threads")]
    Threads(#[source] std::io::Error),
}
