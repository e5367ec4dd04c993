//! The command line of `bulkhead tenant`.
//!
//! Separate because it is a tree of its own. It must never take a key: keys are made at the control
//! plane.

use clap::{Args, Subcommand, ValueEnum};

use crate::args_tools::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct TenantArgs {
    #[command(subcommand)]
    pub(crate) command: TenantCommand,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TenantCommand {
    /// List tenants with what they use of what they were promised
    List(ListArgs),
    /// Show one: what is in force and who set it, how it is recognised, its keys
    Show {
        /// Its name
        id: String,
    },
    /// Make one
    Create(CreateArgs),
    /// Change one
    Update(UpdateArgs),
    /// Answer every request of one with 403
    Suspend(NamedArgs),
    /// Take that back
    Resume(NamedArgs),
    /// Take one away; what it has in flight finishes
    Delete(NamedArgs),
    /// Make and revoke API keys
    Key(KeyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only names and hosts with this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) find: Option<String>,
    /// Only tenants on this plan
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<String>,
    /// Only suspended ones
    #[arg(long)]
    pub(crate) suspended: bool,
    /// Only those without a free slot on some gateway
    #[arg(long)]
    pub(crate) saturated: bool,
    /// In which order
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sort: Sort,
    /// List no more than this many
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Sort {
    #[default]
    Id,
    InFlight,
    Share,
    Rejected,
}

impl Sort {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::InFlight => "in_flight",
            Self::Share => "share",
            Self::Rejected => "rejected",
        }
    }
}

/// Why, and whether only to look.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,
    /// Check at the control plane, store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// Its name
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name
    pub(crate) id: String,
    /// Its plan
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Option<String>,
    /// A limit of its own: a number or `unlimited`; required without a plan
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<String>,
    /// A host that names it; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Vec<String>,
    /// Begin suspended
    #[arg(long)]
    pub(crate) suspended: bool,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    /// Its name
    pub(crate) id: String,
    /// Its plan
    #[arg(long, value_name = "PLAN", conflicts_with = "no_plan")]
    pub(crate) plan: Option<String>,
    /// Take its plan away
    #[arg(long)]
    pub(crate) no_plan: bool,
    /// A limit of its own: a number or `unlimited`
    #[arg(long, value_name = "N", conflicts_with = "no_limit")]
    pub(crate) limit: Option<String>,
    /// Go back to the limit of its plan
    #[arg(long)]
    pub(crate) no_limit: bool,
    /// The hosts that name it, instead of those before; repeatable
    #[arg(long, value_name = "HOST", conflicts_with = "no_hosts")]
    pub(crate) host: Vec<String>,
    /// Take all of its hosts away
    #[arg(long)]
    pub(crate) no_hosts: bool,
    #[command(flatten)]
    pub(crate) why: WhyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it, alone; nobody can ask for it again
    Create {
        /// The tenant
        id: String,
        /// A name for people
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        /// When it ends, in UTC, such as 2027-07-01T12:00:00Z
        #[arg(long, value_name = "MOMENT")]
        expires_at: Option<String>,
        /// The key that it replaces, as `tenant show` names it
        #[arg(long, value_name = "KEY")]
        replaces: Option<String>,
        /// How long that one opens on [default: 24h]
        #[arg(long, value_name = "SPAN", requires = "replaces")]
        overlap: Option<String>,
        #[command(flatten)]
        why: WhyArgs,
    },
    /// Revoke a key: it opens nothing any more
    Revoke {
        /// The tenant
        id: String,
        /// As `tenant show` names it
        key: String,
        #[command(flatten)]
        why: WhyArgs,
    },
}
