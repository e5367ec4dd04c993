//! The command line of the tools: clients of the API and the offline ones.
//!
//! Separate from the long-running commands because nothing here is a setting: a tool takes flags
//! and, for server and token, two variables. It must never take a secret that has no variable.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args::Format;

/// Which control plane, as whom, and in which form.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    /// The control plane, or BULKHEAD_SERVER [default: http://127.0.0.1:8081]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    /// Roots that are believed for https:// (PEM), or BULKHEAD_SERVER_CA [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// An API token; better in BULKHEAD_TOKEN, which no list of processes shows
    #[arg(long, value_name = "TOKEN", hide_default_value = true, global = true)]
    pub(crate) token: Option<String>,
    /// A file with the API token in it, and nothing else
    #[arg(long, value_name = "FILE", global = true, conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// How data is printed
    #[arg(short, long, value_enum, default_value_t, global = true)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The policy: .toml, .json, .yaml or .yml; - reads TOML or JSON from standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Return only when every connected gateway runs it [default span: 30s]
    #[arg(long, value_name = "SPAN", num_args = 0..=1, default_missing_value = "30s",
          require_equals = true, value_parser = span)]
    pub(crate) wait: Option<std::time::Duration>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Check at the control plane, store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The policy: .toml, .json, .yaml or .yml; - reads TOML or JSON from standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// The generation to restore; it becomes a new one
    pub(crate) generation: u64,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// What to list
    pub(crate) what: Listed,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Between two looks
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = span)]
    pub(crate) interval: std::time::Duration,
    /// End after so many looks; rates need two [default: none on a terminal, else 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AdviceArgs {
    /// One compartment, such as route/checkout; without it, all of them
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WhatIfArgs {
    /// The compartment, such as route/checkout
    pub(crate) key: String,
    /// The limit that is asked about: requests in flight, or unlimited
    #[arg(long, value_name = "N")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DrillArgs {
    /// Ask every step of this route's fallback, on every gateway; exit 1 if one has no answer
    #[arg(long, value_name = "ROUTE")]
    pub(crate) fallback: String,
    /// Path and query for the other upstream of the fallback [default: the route's own]
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// What `get` can list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Listed {
    Compartments,
    Gateways,
    Tenants,
    Alerts,
    Findings,
}

#[derive(Debug, Args)]
pub(crate) struct HealthArgs {
    /// For example http://127.0.0.1:9901/readyz
    pub(crate) url: String,
    /// Roots that are believed for https:// (PEM) [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Longest wait
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = span)]
    pub(crate) timeout: std::time::Duration,
}

#[derive(Debug, Args)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Say at /readyz that a gateway is not ready; it serves on
    Drain {
        /// Its name
        gateway: String,
    },
    /// Take that back
    Undrain {
        /// Its name
        gateway: String,
    },
    /// End a gateway's stream and let it in no more without a new token of its own
    Revoke {
        /// Its name
        gateway: String,
    },
    /// Let a gateway that holds what the store never made follow to the newest generation
    GoBack {
        /// Its name
        gateway: String,
    },
    /// Let gateways try a halted generation once more, one first
    TryAgain {
        /// Its number
        generation: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The policy: .toml, .json, .yaml or .yml
    pub(crate) file: PathBuf,
    /// How faults and findings are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Play it once, print the verdict and the figures, exit 1 if isolation failed
    #[arg(long)]
    pub(crate) once: bool,
    /// Length of one play in seconds: a quarter healthy, half slow, a quarter after
    #[arg(long, value_name = "N", default_value_t = 40,
          value_parser = clap::value_parser!(u64).range(14..=3600))]
    pub(crate) seconds: u64,
    /// How the figures of --once are printed
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Format,
    /// Where the live page is served
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub(crate) dashboard: std::net::SocketAddr,
}

/// A span of time of a flag.
fn span(text: &str) -> Result<std::time::Duration, String> {
    crate::duration::parse(text).ok_or_else(|| format!("must be {}", crate::duration::RULE))
}
