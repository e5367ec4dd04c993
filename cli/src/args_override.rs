//! The command line of `override`.
//!
//! Separate from the other tools for length. It must never let one be planned without an end.

use clap::{Args, Subcommand};

use crate::args_tools::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct OverrideArgs {
    #[command(subcommand)]
    pub(crate) command: OverrideCommand,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OverrideCommand {
    /// Plan one: set at its start, lifted at its end
    Create(PlanArgs),
    /// List them, the newest first
    List {
        /// Only those that wait or run
        #[arg(long)]
        open: bool,
    },
    /// Show one: what it set, and what it puts back
    Show {
        /// Its number
        number: u64,
    },
    /// End one now; one that runs is lifted within about a second
    Cancel {
        /// Its number
        number: u64,
    },
    /// Give one another end
    Extend {
        /// Its number
        number: u64,
        /// To: 2026-12-04T17:00:00Z or "2026-12-04T18:00[Europe/Berlin]"
        #[arg(long, value_name = "MOMENT")]
        until: String,
    },
    /// Agree to another person's override
    Approve {
        /// Its number
        number: u64,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The compartment, such as tenant/acme
    pub(crate) key: String,
    /// What one of its fields is to be meanwhile, such as limit=80
    #[arg(long, value_name = "FIELD=VALUE")]
    pub(crate) set: String,
    /// From, in the form of --until [default: now]
    #[arg(long, value_name = "MOMENT")]
    pub(crate) from: Option<String>,
    /// To: 2026-12-04T17:00:00Z or "2026-12-04T18:00[Europe/Berlin]"
    #[arg(long, value_name = "MOMENT")]
    pub(crate) until: String,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
}
