//! The command line of `changes`.
//!
//! Separate from the other tools for length. A step names a change by its number; what it proposes
//! is never edited by accident.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::args_tools::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct ChangesArgs {
    #[command(subcommand)]
    pub(crate) command: ChangesCommand,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ChangesCommand {
    /// List changes, the newest first
    List {
        /// Only those in this state
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
    },
    /// Show one: what differs, what it would do, what each gateway answered
    Show {
        /// Its number
        number: u64,
        /// Go on until every connected gateway has answered and nothing waits for a word
        #[arg(long)]
        watch: bool,
    },
    /// Propose one: nothing is in force before it is published
    Create(CreateArgs),
    /// Agree to another person's change
    Approve(StepArgs),
    /// Send it to one gateway, and to nobody else
    Stage {
        #[command(flatten)]
        step: StepArgs,
        /// Which
        #[arg(long, value_name = "NAME")]
        gateway: String,
    },
    /// Send it to every gateway
    Publish {
        #[command(flatten)]
        step: StepArgs,
        /// Take it back unless somebody keeps it within this span, 1s to 24h
        #[arg(long, value_name = "SPAN")]
        confirm_within: Option<String>,
        /// Take it back when a compartment that was healthy refuses more than this, in percent
        #[arg(long, value_name = "PERCENT")]
        guard: Option<f64>,
        /// How long the guard watches [default: as long as --confirm-within, or 15m]
        #[arg(long, value_name = "SPAN", requires = "guard")]
        watch_for: Option<String>,
    },
    /// Let it go before it is published
    Abandon(StepArgs),
    /// Keep a published one, whatever takes it back by itself
    Keep(StepArgs),
    /// Take a published one back: what it changed, in a new generation
    Revert(StepArgs),
    /// Put a draft on top of the newest generation
    Rebase {
        #[command(flatten)]
        step: StepArgs,
        /// Whose values count where both changed the same
        #[arg(long, value_enum)]
        prefer: Option<Side>,
    },
}

/// Whose values count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Side {
    Mine,
    Theirs,
}

#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// Its number
    pub(crate) number: u64,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// A whole policy: .toml, .json, .yaml or .yml; - reads TOML from standard input
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with = "set",
        required_unless_present = "set"
    )]
    pub(crate) file: Option<PathBuf>,
    /// A field of a compartment, such as route/checkout:limit=80; repeatable
    #[arg(long, value_name = "KEY:FIELD=VALUE")]
    pub(crate) set: Vec<String>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
