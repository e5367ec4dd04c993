//! An alert: one compartment, one cause, from the first sign to the end.
//!
//! Separate because the store, the API, the page and the notices all speak this one shape. It must
//! never hold text that a gateway chose without bounds: keys and names are checked before.

use compartment::Level;
use serde::{Deserialize, Serialize};

use super::series::{Evidence, Rule};

/// What is wrong.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[schema(as = AlertCause)]
pub enum Cause {
    /// Requests are refused, and it does not stop.
    Refusing,
    /// Full all the time, and nobody is refused yet.
    Full,
}

impl Cause {
    /// The name in metrics, notices and logs.
    pub const fn alert_name(self) -> &'static str {
        match self {
            Self::Refusing => "BulkheadCompartmentRefusing",
            Self::Full => "BulkheadCompartmentFull",
        }
    }

    /// The word in the API, the store and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refusing => "refusing",
            Self::Full => "full",
        }
    }
}

/// Whether somebody is woken.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "lowercase")]
#[schema(as = AlertSeverity)]
pub enum Severity {
    /// Somebody is.
    Page,
    /// It waits for working hours.
    Ticket,
}

impl Severity {
    /// The word in metrics, notices and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Ticket => "ticket",
        }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AlertState)]
pub enum State {
    /// Trouble that has not lasted; nobody is told.
    Pending,
    /// It lasts.
    Firing,
    /// It is over.
    Resolved,
}

impl State {
    /// The word in the API, the store and addresses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// Why it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AlertEnded)]
pub enum Ended {
    /// Five quiet minutes.
    Quiet,
    /// Full became refusing, which has an alert of its own.
    Superseded,
    /// The policy does not name the compartment any more.
    Removed,
    /// The gateways that had the trouble were not heard for long.
    Unheard,
}

/// A gateway on which it happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = AlertGateway)]
pub struct Burning {
    /// Its name; empty for all of them together.
    pub id: String,
    /// Whether a rule holds there now.
    pub now: bool,
    /// The figures when one last did.
    pub evidence: Evidence,
}

/// What the receivers of notices know of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The last episode whose beginning was told.
    pub firing: u32,
    /// The last episode whose end was told.
    pub resolved: u32,
}

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Its number in the store; 0 while it is pending.
    pub id: u64,
    /// The compartment.
    pub compartment: String,
    /// Its level.
    pub level: Level,
    /// What is wrong.
    pub cause: Cause,
    /// Whether somebody is woken.
    pub severity: Severity,
    /// How far it has come.
    pub state: State,
    /// The rule that held last.
    pub rule: Rule,
    /// When the trouble began, in milliseconds of the wall clock.
    pub since_ms: i64,
    /// When it fired.
    pub fired_ms: i64,
    /// When it ended.
    pub resolved_ms: Option<i64>,
    /// Why.
    pub ended: Option<Ended>,
    /// How often it fired: what comes back soon is the same alert.
    pub episodes: u32,
    /// The upstreams behind it.
    pub upstreams: Vec<String>,
    /// The figures that decided, of the gateway that is worst.
    pub evidence: Evidence,
    /// Where it happened in this episode.
    pub gateways: Vec<Burning>,
    /// The notice that it is part of; `None` until it was told.
    pub group: Option<String>,
    /// What receivers know.
    pub told: Told,
    /// Nobody is told before this moment; 0 for no silence.
    pub silenced_until_ms: i64,
    /// Who silenced it.
    pub silenced_by: String,
}

impl Alert {
    /// True while it fires.
    pub fn is_firing(&self) -> bool {
        self.state == State::Firing
    }

    /// True when it fired or ended at this very look: that is logged once.
    pub(super) fn is_news(&self, unix_ms: i64) -> bool {
        match self.state {
            State::Pending => false,
            State::Firing => self.fired_ms == unix_ms,
            State::Resolved => self.resolved_ms == Some(unix_ms),
        }
    }

    /// True when a receiver of notices does not know how it stands.
    pub(super) fn is_untold(&self) -> bool {
        match self.state {
            State::Pending => false,
            State::Firing => self.told.firing < self.episodes,
            // An end is worth telling only to those who know of the beginning.
            State::Resolved => {
                self.told.firing == self.episodes && self.told.resolved < self.episodes
            }
        }
    }
}
