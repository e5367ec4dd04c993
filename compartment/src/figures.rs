//! What one compartment says of itself at one moment.
//!
//! Separate because the admin port, the stream, the API and the pages all speak this one shape.
//! Sums hold by construction of the reader: `admitted = completed + in_flight` and
//! `arrived = admitted + sum(rejected) + queued + left_queue`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::breaker::BreakerFigures;
use crate::{
    Balance, EndpointsFigures, Histogram, Level, Limit, Mode, Rejection, RetryFigures, StepFigures,
};

/// The figures of one compartment. Counters start with the process and never go down.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
pub struct Figures {
    /// The key, as text.
    pub key: String,
    /// The level.
    pub level: Level,
    /// What the route does with its own decisions; `enforce` on every other level.
    pub mode: Mode,
    /// The limit in force.
    pub limit: Limit,
    /// A limit judged beside it, never enforced.
    #[serde(default)]
    pub candidate: Option<u32>,
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
    /// What its borrowing is paid from; `None` where nothing can be borrowed, or for nothing.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub credit: Option<Balance>,
    /// The highest `in_flight` since the start.
    pub peak: u32,
    /// The highest `in_flight` since the last report to the control plane.
    #[serde(default)]
    pub peak_recent: u32,
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
    /// Refusals by the ceiling of what every partition had let through: so often isolation was
    /// only nominal. 0 on every other level.
    #[serde(default)]
    pub nominal: u64,
    /// Refusals that a shadow limit would have made.
    pub shadow_rejected: BTreeMap<Rejection, u64>,
    /// Refusals that a candidate limit would have made.
    pub candidate_rejected: u64,
    /// Permits that outlived their bound.
    pub leaked: u64,
    /// True while more is in flight than the hold times of ended requests explain.
    #[serde(default)]
    pub leak_suspected: bool,
    /// Age of the oldest permit in milliseconds; 0 when none is out.
    pub oldest_permit_ms: u64,
    /// Microseconds with nothing in flight, by time and not by sampling.
    #[serde(default)]
    pub idle_us: u64,
    /// Microseconds with something in flight and a slot free.
    #[serde(default)]
    pub busy_us: u64,
    /// Microseconds at the limit, a finite one above 0.
    #[serde(default)]
    pub saturated_us: u64,
    /// `in_flight` summed over time, in slot-microseconds.
    #[serde(default)]
    pub in_flight_us: u64,
    /// Of a route: the steps of its fallback, in the order of the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<StepFigures>,
    /// Of an upstream that has a breaker; the host's to fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Box<BreakerFigures>>,
    /// Of a route that repeats; the host's to fill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Box<RetryFigures>>,
    /// Of an upstream; the host's to fill.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Box<EndpointsFigures>>,
    /// How long permits were held, from grant to release.
    #[serde(skip)]
    pub hold: Histogram,
    /// How long those who waited did, whatever came of it.
    #[serde(skip)]
    pub wait: Histogram,
}

impl Figures {
    /// The figures of a compartment where nothing has happened yet.
    pub fn new(key: String, level: Level, limit: Limit) -> Self {
        Self {
            key,
            level,
            mode: Mode::Enforce,
            limit,
            candidate: None,
            reserved: 0,
            in_flight: 0,
            queued: 0,
            left_queue: 0,
            borrowed: 0,
            credit: None,
            peak: 0,
            peak_recent: 0,
            saturation: 0.0,
            arrived: 0,
            admitted: 0,
            completed: 0,
            rejected: BTreeMap::new(),
            nominal: 0,
            shadow_rejected: BTreeMap::new(),
            candidate_rejected: 0,
            leaked: 0,
            leak_suspected: false,
            oldest_permit_ms: 0,
            idle_us: 0,
            busy_us: 0,
            saturated_us: 0,
            in_flight_us: 0,
            fallbacks: Vec::new(),
            breaker: None,
            retry: None,
            endpoints: None,
            hold: Histogram::new(),
            wait: Histogram::new(),
        }
    }

    /// Adds the counters of another compartment, as to a sum that must never fall when it goes.
    pub fn count_in(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.left_queue, other.left_queue);
        add(&mut self.arrived, other.arrived);
        add(&mut self.admitted, other.admitted);
        add(&mut self.completed, other.completed);
        add(&mut self.candidate_rejected, other.candidate_rejected);
        add(&mut self.leaked, other.leaked);
        add(&mut self.idle_us, other.idle_us);
        add(&mut self.busy_us, other.busy_us);
        add(&mut self.saturated_us, other.saturated_us);
        add(&mut self.in_flight_us, other.in_flight_us);
        for (sums, more) in [
            (&mut self.rejected, &other.rejected),
            (&mut self.shadow_rejected, &other.shadow_rejected),
        ] {
            for (reason, count) in more {
                add(sums.entry(*reason).or_default(), *count);
            }
        }
        self.hold.merge(&other.hold);
        self.wait.merge(&other.wait);
    }
}
