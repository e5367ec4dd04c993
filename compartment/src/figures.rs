//! What one compartment says of itself at one moment.
//!
//! Separate because the admin port, the stream, the API and the pages all speak this one shape.
//! Sums hold by construction of the reader: `admitted = completed + in_flight` and
//! `arrived = admitted + sum(rejected) + queued + left_queue`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Level, Limit, Rejection};

/// The figures of one compartment. Counters start with the process and never go down.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// The key, as text.
    pub key: String,
    /// The level.
    pub level: Level,
    /// Always `enforce` in this build.
    pub mode: String,
    /// The limit in force.
    pub limit: Limit,
    /// Guaranteed slots.
    pub reserved: u32,
    /// Permits out.
    pub in_flight: u32,
    /// Requests that wait for a slot.
    pub queued: u32,
    /// Requests that left while they waited.
    pub left_queue: u64,
    /// Permits out beyond `reserved`.
    pub borrowed: u32,
    /// The highest `in_flight` since the start.
    pub peak: u32,
    /// `in_flight / limit`; 0 when unlimited, 1 when closed.
    pub saturation: f64,
    /// Requests whose decision was made here: admitted, refused here, waiting or gone.
    pub arrived: u64,
    /// Permits ever given.
    pub admitted: u64,
    /// Permits given back.
    pub completed: u64,
    /// Refusals by reason; reasons that never happened are absent.
    pub rejected: BTreeMap<Rejection, u64>,
    /// Refusals that a shadow limit would have made.
    pub shadow_rejected: BTreeMap<Rejection, u64>,
    /// Refusals that a candidate limit would have made.
    pub candidate_rejected: u64,
    /// Permits that outlived their bound.
    pub leaked: u64,
    /// Age of the oldest permit in milliseconds; 0 when none is out.
    pub oldest_permit_ms: u64,
}
