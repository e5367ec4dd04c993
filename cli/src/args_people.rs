//! The command line of `token` and `user`.
//!
//! Separate because these are about who may use a control plane. It must never take a password or
//! a token that is to be made: people set the one by a link, and the other is made at random.

use clap::{Args, Subcommand, ValueEnum};

use crate::args_tools::ClientArgs;
use crate::store::StoreArgs;

/// Which tokens are meant.
#[derive(Debug)]
pub(crate) enum TokenOf {
    All,
    One(String),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// What somebody may; each may what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleArg {
    /// Reads
    Viewer,
    /// Changes limits, orders gateways about
    Operator,
    /// Decides about changes of others
    Approver,
    /// Everything
    Admin,
}

impl RoleArg {
    /// As the API writes it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }
}

/// What a token may beyond its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeArg {
    /// Goes around approvals, audited
    Emergency,
}

/// A token of a gateway, or of the API.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("whose").args(["gateway", "name"]).required(true))]
pub(crate) struct TokenWanted {
    /// Lets in this gateway alone: its name, as its --id says it
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["name", "role", "scope", "expires", "person"])]
    pub(crate) gateway: Option<String>,
    /// Opens the API: what it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// What it may
    #[arg(long, value_enum, default_value = "viewer")]
    pub(crate) role: RoleArg,
    /// What it may beyond that; repeatable
    #[arg(long, value_enum)]
    pub(crate) scope: Vec<ScopeArg>,
    /// Days that it lives [default: 90]
    #[arg(long, value_name = "DAYS")]
    pub(crate) expires: Option<u32>,
    /// Whose it is: a user [default: whoever makes it]
    #[arg(long, value_name = "USER")]
    pub(crate) person: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it; nobody can ask for it again
    Create {
        #[command(flatten)]
        wanted: TokenWanted,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the tokens of gateways and of the API, without what is secret
    List(ClientArgs),
    /// Revoke a token: a stream that it opened ends, the API knows it no more
    Revoke {
        /// As `list` names it
        id: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Print what stands for an API key in a policy (`api_keys`)
    Hash {
        /// The key; without it, read from standard input, which no list of processes shows
        key: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    pub(crate) command: UserCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user and print the link that sets the password, once, within 24 hours
    Create {
        /// Letters, digits and . _ @ + -
        name: String,
        /// What the user may
        #[arg(long, value_enum, default_value = "viewer")]
        role: RoleArg,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// List the users
    List(ClientArgs),
    /// Let a user sign in no more, and end the sessions
    Disable {
        /// Who
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Let a user sign in again
    Enable {
        /// Who
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Give a user another role, and end the sessions
    Role {
        /// Who
        name: String,
        /// What the user may from then on
        #[arg(value_enum)]
        role: RoleArg,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// Remove a user, and end the sessions
    Delete {
        /// Who
        name: String,
        #[command(flatten)]
        client: ClientArgs,
    },
    /// On the host, in the store itself, for a lost admin: take the password away, end the
    /// sessions, and print a link that sets another one. Works beside a control plane that runs
    Reset {
        /// Who
        name: String,
        #[command(flatten)]
        store: StoreArgs,
    },
}
