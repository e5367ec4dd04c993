//! What a breaker says: its state, its changes, its figures.
//!
//! Separate because the wire, the API, metrics and pages speak these words too. It must never
//! hold a rule.

use serde::{Deserialize, Serialize};

/// What a breaker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Everything passes and is judged.
    Closed,
    /// A few pass, to see whether it is well again.
    HalfOpen,
    /// Nothing passes.
    Open,
    /// Nothing passes until an operator says so.
    ForcedOpen,
    /// Everything passes, whatever comes back.
    ForcedClosed,
}

impl BreakerState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Closed,
        Self::HalfOpen,
        Self::Open,
        Self::ForcedOpen,
        Self::ForcedClosed,
    ];

    /// The name in figures, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
            Self::ForcedOpen => "forced_open",
            Self::ForcedClosed => "forced_closed",
        }
    }

    /// How soon an operator should know: 0 for one that works, the most for one that lets nothing
    /// through until somebody says so.
    pub const fn urgency(self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::ForcedClosed => 1,
            Self::HalfOpen => 2,
            Self::Open => 3,
            Self::ForcedOpen => 4,
        }
    }

    /// True when it lets nothing or little through.
    pub const fn is_trouble(self) -> bool {
        self.urgency() >= Self::HalfOpen.urgency()
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

/// A change of state: to be counted, told and logged by whoever caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub from: BreakerState,
    /// From now on.
    pub to: BreakerState,
    /// When it opened by its own rule: failures, of so many calls.
    pub failed_of: Option<(u64, u64)>,
}

/// It lets nothing through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shut {
    /// Open, or half open with all its probes out.
    pub state: BreakerState,
    /// How long it will stay so at least; above 0.
    pub wait_us: u64,
}

/// How an attempt ended, as far as it says something of the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It answered, and not with a failure of its own.
    Answered,
    /// It failed.
    Failed,
}

/// What a breaker says of itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct BreakerFigures {
    /// What it does now.
    pub state: BreakerState,
    /// For how long.
    pub since_ms: u64,
    /// Changes to open since the start, forced ones too.
    pub opened: u64,
    /// Changes to half open since the start.
    pub half_opened: u64,
    /// Changes to closed since the start, forced ones too.
    pub closed: u64,
    /// Failures among the last calls of its window; 0 when nothing came back yet.
    pub failure_rate: f64,
    /// Calls in that window.
    pub calls: u64,
}
