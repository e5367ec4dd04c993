//! What the product says of itself to others: metrics, traces, log events.
//!
//! Separate because gateway and control plane speak the same names over the same exporter, and
//! `/metrics` shows the same figures. It must never make whoever is observed wait: queues are
//! bounded, what does not fit is dropped and counted, and everything slow has a thread of its own.

mod cell;
mod clock;
mod context;
mod deliver;
mod encode;
mod encode_metrics;
mod export;
mod grpc;
mod layer;
mod metric;
pub mod names;
mod output;
mod pipe;
mod plain_http;
mod prometheus;
mod record;
mod roots;
mod sampler;
mod settings;
mod tls;
mod variables;

pub use cell::DurationCell;
pub use context::Context;
pub use export::{StartError, Telemetry};
pub use layer::Events;
pub use metric::{DURATION_EDGES_US, Distribution, Example, Family, Figure, Point, bucket_of};
pub use pipe::{Dropped, Handle, Source};
pub use prometheus::page;
pub use record::{
    Kind, Record, SpanId, Status, TRACE_HEX, Text, TraceId, Value, bounded, span_hex, trace_hex,
};
pub use roots::{NoRoots, verifier};
pub use sampler::Sampler;
pub use settings::{Fault, Protocol, Settings, Signal};
pub use tls::{HTTP1, HTTP2, Identity, Tls, TlsError};
