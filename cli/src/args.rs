//! The command line: names, flags and their help.
//!
//! Separate so that the whole outside of the binary can be read in one place. It must never hold a
//! default or a rule of a setting: those are in `settings`, for all sources alike.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::args_changes::ChangesArgs;
use crate::args_override::OverrideArgs;
use crate::args_people::{TokenArgs, UserArgs};
use crate::args_tenant::TenantArgs;
use crate::args_tools::{
    AdviceArgs, ApplyArgs, CheckArgs, ClientArgs, DemoArgs, DiffArgs, DrillArgs, FleetArgs,
    GetArgs, HealthArgs, RollbackArgs, TopArgs, WhatIfArgs,
};
use crate::audit::AuditArgs;
use crate::settings::Flags;
use crate::size::SizeArgs;
use crate::store::{BackupArgs, FileArgs, MigrateArgs};

/// A gateway whose limits isolate: what is slow behind one compartment stays behind it.
#[derive(Debug, Parser)]
#[command(name = "bulkhead", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run control plane, dashboard and one gateway in one process
    Up(Box<UpArgs>),
    /// Run a gateway alone
    Gateway(GatewayArgs),
    /// Run the control plane and the dashboard alone
    ControlPlane(ControlPlaneArgs),
    /// Show the collapse contained, beside the same traffic without compartments
    Demo(DemoArgs),
    /// Check a policy file: exit 0 fine, 1 errors, 2 unreadable
    Check(CheckArgs),
    /// Show the arithmetic of a limit; exit 0 whatever its judgement
    Size(SizeArgs),
    /// Make a policy file the newest generation
    Apply(ApplyArgs),
    /// Compare a policy file with what is stored: exit 0 same, 1 different, 2 trouble
    Diff(DiffArgs),
    /// Print the stored policy as TOML
    Export(ClientArgs),
    /// List the generations
    History(ClientArgs),
    /// Make an old generation the newest one again
    Rollback(RollbackArgs),
    /// Propose, approve, stage, publish, keep or take back a change of the policy
    Changes(ChangesArgs),
    /// Plan a limit that holds from one moment to another; list, end, extend, approve
    Override(OverrideArgs),
    /// List what the control plane knows
    Get(GetArgs),
    /// Watch the compartments, the fullest first
    Top(TopArgs),
    /// Show which limit the measured traffic asks for, with its arithmetic
    Advice(AdviceArgs),
    /// Show what another limit would do to the measured traffic
    WhatIf(WhatIfArgs),
    /// Rehearse a fallback before it is needed
    Drill(DrillArgs),
    /// Drain, revoke or let go back a gateway; try a halted generation again
    Fleet(FleetArgs),
    /// Bring the store's tables to what this build needs; every start does that too
    Migrate(MigrateArgs),
    /// Copy a SQLite store to a file, also while it is in use
    Backup(BackupArgs),
    /// Put a copy in the place of a SQLite store that nobody uses
    Restore(FileArgs),
    /// List who did what, and check that nobody changed the audit
    Audit(AuditArgs),
    /// Ask a URL, such as a gateway's /readyz: exit 0 when the answer is 2xx
    Health(HealthArgs),
    /// List, make, change and take away tenants and their API keys
    Tenant(TenantArgs),
    /// Work with tokens of gateways and of the API, and with API keys
    Token(TokenArgs),
    /// Make, change and reset users of the dashboard
    User(UserArgs),
    /// Print the version
    Version,
    /// Print a completion script for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Flags of every long-running command.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Settings file (TOML); flags and BULKHEAD_… variables win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to write the addresses once everything serves
    #[arg(long, value_name = "FILE")]
    ready_file: Option<String>,
    /// What to log: a level, or a list like info,gateway=debug
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

/// Flags of a process with a gateway in it.
#[derive(Debug, Args)]
pub(crate) struct ServingArgs {
    /// Where clients connect; repeatable [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Probes and figures of the gateway [default: 127.0.0.1:9901]
    #[arg(long, value_name = "ADDR")]
    admin: Option<String>,
    /// Serving threads [default: one for each usable core]
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// Longest wait for requests in flight at the end [default: 30s]
    #[arg(long, value_name = "SPAN")]
    drain_timeout: Option<String>,
    /// A file that gets a line of JSON for each request [default: none]
    #[arg(long, value_name = "FILE")]
    access_log: Option<String>,
    /// Share of the requests in the access log [default: 1]
    #[arg(long, value_name = "SHARE")]
    access_log_share: Option<String>,
    /// Tenants with series of their own in metrics; the rest are summed [default: 20]
    #[arg(long, value_name = "N")]
    metric_tenants: Option<String>,
    /// A route without a policy file, with --limit; repeatable
    #[arg(long, value_name = "[PREFIX=]URL")]
    upstream: Vec<String>,
    /// The limit of every --upstream: requests in flight, or unlimited
    #[arg(long, value_name = "N")]
    limit: Option<String>,
    /// Decide and count by that limit, and refuse nobody by it
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true,
          value_name = "BOOL")]
    shadow: Option<String>,
}

/// Flags of a process with a control plane in it.
#[derive(Debug, Args)]
pub(crate) struct SteeringArgs {
    /// Dashboard, API and the gateways' stream [default: 127.0.0.1:8081]
    #[arg(long, value_name = "ADDR")]
    dashboard: Option<String>,
    /// Where the store is, instead of the data folder
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Open pages and API without sign-in; only on loopback
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true,
          value_name = "BOOL")]
    no_login: Option<String>,
    /// A proxy in front ends TLS, so the dashboard may listen beyond loopback
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true,
          value_name = "BOOL")]
    behind_tls_proxy: Option<String>,
    /// Certificate of the dashboard's port, in PEM with its chain; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    dashboard_tls_cert: Option<String>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE")]
    dashboard_tls_key: Option<String>,
    /// Tenants with figures of their own in the history; the others are summed [default: 200]
    #[arg(long, value_name = "N")]
    history_tenants: Option<String>,
    /// What the history may take on disk before its oldest figures go early [default: 2]
    #[arg(long, value_name = "GIB")]
    history_gib: Option<String>,
    #[command(flatten)]
    alerts: AlertArgs,
}

/// Flags about alerts. The secret that signs has a variable, BULKHEAD_ALERT_SECRET, or a file.
#[derive(Debug, Args)]
pub(crate) struct AlertArgs {
    /// Where pages are told, in Alertmanager's form; signed when there is a secret
    #[arg(long, value_name = "URL")]
    alert_webhook: Option<String>,
    /// Where tickets are told [default: nowhere]
    #[arg(long, value_name = "URL")]
    ticket_webhook: Option<String>,
    /// File with the secret that signs, instead of BULKHEAD_ALERT_SECRET
    #[arg(long, value_name = "FILE")]
    alert_secret_file: Option<String>,
    /// Allow link-local and metadata addresses for the webhooks
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true,
          value_name = "BOOL")]
    alert_link_local: Option<String>,
    /// What alerts call the last minutes; all other windows keep their proportion [default: 2m]
    #[arg(long, value_name = "SPAN")]
    alert_window: Option<String>,
    /// Refusals that are within promise [default: 0.1%]
    #[arg(long, value_name = "PERCENT")]
    alert_budget: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    steering: SteeringArgs,
    /// Folder of the store [default: ./bulkhead-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Policy to import when the store is empty
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    serving: ServingArgs,
    /// The control plane to dial; may be given several times: the next is dialled when one fails
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    control_plane: Vec<String>,
    /// Roots that are believed for https:// (PEM) [default: the system's]
    #[arg(long, value_name = "FILE")]
    control_plane_ca: Option<String>,
    /// File with the gateway's token, instead of BULKHEAD_GATEWAY_TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<String>,
    /// Folder that keeps the last good policy
    #[arg(long, value_name = "DIR")]
    state_dir: Option<String>,
    /// This gateway's name at the control plane [default: host name and port]
    #[arg(long, value_name = "NAME")]
    id: Option<String>,
    /// Run from this policy alone; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ControlPlaneArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    steering: SteeringArgs,
    /// Folder of the store [default: ./bulkhead-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Policy to import when the store is empty
    #[arg(long, value_name = "FILE")]
    policy: Option<String>,
}

type Pair<'a> = (&'static str, &'a Option<String>);

fn given(single: &[Pair<'_>]) -> Flags {
    let texts = single
        .iter()
        .filter_map(|(key, text)| Some((*key, vec![text.as_ref()?.clone()])));
    texts.collect()
}

fn lists(several: &[(&'static str, &Vec<String>)]) -> Flags {
    let some = several.iter().filter(|(_, texts)| !texts.is_empty());
    some.map(|(key, texts)| (*key, (*texts).clone())).collect()
}

impl CommonArgs {
    fn flags(&self) -> Flags {
        given(&[("ready_file", &self.ready_file), ("log", &self.log)])
    }
}

impl ServingArgs {
    fn flags(&self) -> Flags {
        let mut flags = given(&[
            ("admin", &self.admin),
            ("workers", &self.workers),
            ("drain_timeout", &self.drain_timeout),
            ("limit", &self.limit),
            ("shadow", &self.shadow),
            ("access_log", &self.access_log),
            ("access_log_share", &self.access_log_share),
            ("metric_tenants", &self.metric_tenants),
        ]);
        flags.extend(lists(&[
            ("listen", &self.listen),
            ("upstream", &self.upstream),
        ]));
        flags
    }
}

impl SteeringArgs {
    fn flags(&self) -> Flags {
        given(&[
            ("dashboard", &self.dashboard),
            ("database_url", &self.database_url),
            ("no_login", &self.no_login),
            ("behind_tls_proxy", &self.behind_tls_proxy),
            ("dashboard_tls_cert", &self.dashboard_tls_cert),
            ("dashboard_tls_key", &self.dashboard_tls_key),
            ("alert_webhook", &self.alerts.alert_webhook),
            ("ticket_webhook", &self.alerts.ticket_webhook),
            ("alert_secret_file", &self.alerts.alert_secret_file),
            ("alert_link_local", &self.alerts.alert_link_local),
            ("alert_window", &self.alerts.alert_window),
            ("alert_budget", &self.alerts.alert_budget),
            ("history_tenants", &self.history_tenants),
            ("history_gib", &self.history_gib),
        ])
    }
}

impl UpArgs {
    pub(crate) fn flags(&self) -> Flags {
        let own = given(&[("data_dir", &self.data_dir), ("policy", &self.policy)]);
        [
            self.common.flags(),
            self.serving.flags(),
            self.steering.flags(),
            own,
        ]
        .concat()
    }
}

impl GatewayArgs {
    pub(crate) fn flags(&self) -> Flags {
        let own = given(&[
            ("control_plane_ca", &self.control_plane_ca),
            ("token_file", &self.token_file),
            ("state_dir", &self.state_dir),
            ("id", &self.id),
            ("policy", &self.policy),
        ]);
        let urls = lists(&[("control_plane", &self.control_plane)]);
        [self.common.flags(), self.serving.flags(), own, urls].concat()
    }
}

impl ControlPlaneArgs {
    pub(crate) fn flags(&self) -> Flags {
        let own = given(&[("data_dir", &self.data_dir), ("policy", &self.policy)]);
        [self.common.flags(), self.steering.flags(), own].concat()
    }
}

/// How data is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For scripts
    Json,
}
