//! The command line of `audit list`.
//!
//! Separate from `audit verify`, which opens the store itself, because this asks the control plane.
//! It must never read a moment by itself: the control plane says what one is.

use clap::Args;

use crate::args_tools::ClientArgs;

#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// Only what this one did
    #[arg(long, value_name = "NAME")]
    pub(crate) who: Option<String>,
    /// Only this, such as put or drain
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Only about this, such as policy or gateway:gw-1
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) subject: Option<String>,
    /// At this moment or later, in RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Before this moment, in RFC 3339
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub(crate) count: u64,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
