//! One gateway as API and pages show it.
//!
//! Separate because it is what the outside sees: plain values with names that others rely on. It
//! must never hold anything that only this process understands.

use serde::{Deserialize, Serialize};
use wire::stream::proto;

use crate::orders::Order;

/// What a gateway runs, against what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayState {
    /// The newest generation.
    Running,
    /// An older one, or none yet.
    Lagging,
    /// It refused the newest one and runs an older one.
    Refused,
}

/// One broken rule, as a gateway told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = RefusedRule)]
pub struct RefusedFault {
    /// JSON pointer into the document.
    pub pointer: String,
    /// What stands there.
    pub value: String,
    /// What must hold.
    pub detail: String,
}

impl From<proto::Fault> for RefusedFault {
    fn from(fault: proto::Fault) -> Self {
        Self {
            pointer: fault.pointer,
            value: fault.value,
            detail: fault.rule,
        }
    }
}

/// A generation that a gateway would not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RefusedGeneration {
    /// Which.
    pub generation: u64,
    /// Since when, in UTC.
    pub since: String,
    /// Why.
    pub errors: Vec<RefusedFault>,
}

/// One gateway as API and pages show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = Gateway)]
pub struct GatewayView {
    /// Its name, stable over reconnects.
    pub id: String,
    /// Whether its stream is open.
    pub connected: bool,
    /// What it runs; 0 for nothing.
    pub generation: u64,
    /// That, against the newest.
    pub state: GatewayState,
    /// Since when it is in this state, in UTC.
    pub since: String,
    /// Why it does not run the newest generation.
    #[schema(required)]
    pub reason: Option<String>,
    /// Its refusal of the newest generation.
    #[schema(required)]
    pub refused: Option<RefusedGeneration>,
    /// When it last said anything, in UTC.
    pub last_seen: String,
    /// Its build.
    pub version: String,
    /// Whether its figures are fresh enough to count.
    pub reporting: bool,
    /// Spans, log records and lines of the access log that it had to drop since its start.
    pub telemetry_dropped: u64,
    /// What the process carries; `None` while it tells no figures.
    #[schema(required)]
    pub load: Option<Load>,
    /// How long its stream is open.
    #[schema(required)]
    pub stream_age_ms: Option<u64>,
    /// How far its wall clock is ahead of ours; nothing is measured by it.
    #[schema(required)]
    pub clock_skew_ms: Option<i64>,
    /// It holds what this store never made, and waits for an operator's word.
    pub ahead: bool,
    /// A token of its own let it in, not the one that all share.
    pub own_token: bool,
    /// It says that it is not ready because an operator ordered so.
    pub drained: bool,
    /// That order, while it stands.
    #[schema(required)]
    pub drain: Option<Order>,
    /// The generation of a change that is staged here alone, and that it is to run.
    #[schema(required)]
    pub staged: Option<u64>,
}

/// Requests in flight in one process, and its ceiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Load {
    /// At this moment.
    pub in_flight: u64,
    /// `None`: unlimited.
    #[schema(required)]
    pub capacity: Option<u64>,
}
