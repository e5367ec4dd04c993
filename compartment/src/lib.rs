//! The mechanism: names, limits, permits, the hull and the checked policy.
//!
//! Separate from every other crate so that it can be model-checked and simulated: it knows no
//! runtime, no HTTP, no store and no clock. Time is a parameter everywhere. It must never await,
//! log, or read a configuration other than the values it is handed.

#![warn(missing_docs)]

pub mod breaker;
mod cells;
mod claim;
mod class;
mod compartment;
mod credit;
#[cfg(feature = "describe")]
mod described;
mod endpoints;
mod enter;
mod figures;
mod ghost;
mod hand_over;
mod histogram;
mod hull;
mod judge;
mod key;
mod limit;
mod little;
mod mode;
mod name;
mod numbers;
mod passage;
mod permits;
pub mod policy;
mod queue;
mod reclaim;
mod rejection;
mod remains;
mod retries;
mod retry_budget;
mod roster;
mod route;
mod seat;
mod share;
mod sides;
mod spare;
mod stats;
mod steps;
mod sync;
mod tally;
mod tenant;
mod transfer;
mod turns;
mod waiting;
mod ways;
mod word;

pub use cells::{CELL_CACHE_MAX, CELL_IDLE_US, CELLS_PER_ROUTE_MAX, CellCache};
pub use class::Class;
pub use compartment::{Compartment, Permit};
pub use credit::{Balance, CREDIT_DEPTH_US};
pub use endpoints::{
    ENDPOINT_FAILURES_MAX, ENDPOINTS_TOLD_MAX, EndpointCheck, EndpointFigures, EndpointName,
    EndpointSeen, EndpointState, EndpointsFigures,
};
pub use enter::{Entry, Refusal, enter, refuse_by_breaker};
pub use figures::Figures;
pub use histogram::{BUCKETS, HISTOGRAM_BYTES_MAX, Histogram, HistogramError};
pub use hull::{Fittings, Hull};
pub use key::{Key, Level};
pub use limit::{LIMIT_MAX, Limit, LimitError};
pub use little::{LITTLE_WINDOW_US, LITTLE_WINDOWS, Little, Sums};
pub use mode::Mode;
pub use name::{NAME_BYTES_MAX, Name, NameError};
pub use numbers::tenant_route_limit;
pub use passage::{Caller, Gauge, Lane, Passage};
pub use permits::Permits;
pub use queue::QUEUE_STANDING_US;
pub use reclaim::{Leak, OVERDUE_US};
pub use rejection::Rejection;
pub use remains::Remains;
pub use retries::{RetryCounts, RetryFigures, RetryRefusal};
pub use retry_budget::{RETRIES_ALWAYS, Repeat, RetryBudget};
pub use roster::{ABSENT_MAX, ABSENT_US};
pub use seat::{Moment, Seat};
pub use share::share_most;
pub use spare::spare_lends;
pub use steps::StepFigures;
pub use tenant::TenantCompartment;
pub use waiting::Waiting;
pub use ways::WAYS_REPLACED_MAX;
