//! The data plane of Bulkhead: accepts, admits, forwards.
//!
//! Separate so that it can run alone beside a policy file. It must never know the control plane
//! other than through the stream of `wire`.

mod access_log;
mod admin;
mod admission;
mod answer;
mod app;
mod asked;
mod attempt;
mod back_off;
mod background;
mod clock;
mod config;
mod connection;
mod core;
mod dependencies;
mod error;
mod fallback;
mod field_rules;
mod folded;
mod head;
mod headers;
mod held_body;
mod http_stats;
mod ids;
mod intake;
mod keeper;
mod last_good;
mod least_rate;
mod live_policy;
mod metrics;
mod now;
mod oldest;
mod outcomes;
mod over_http1;
mod over_http2;
mod policy_file;
mod policy_source;
mod reason;
mod report;
mod request_body;
mod resolve;
mod retry;
mod route;
mod running;
mod saturation;
mod server;
mod service;
mod stale;
mod standing;
mod start;
mod streams;
mod sync;
mod target;
mod tarpit;
mod tell;
mod tenant;
#[cfg(test)]
mod testing;
mod timer;
mod told;
mod trail;
mod tunnel;
mod tunnel_end;
mod upstream;
mod via;
mod visit;
mod waiting;
mod watch;
mod worker;

pub use config::{Config, Source};
pub use least_rate::LeastRate;
pub use start::{Running, StartError, start};
pub use tell::{AccessLogConfig, METRIC_TENANTS_DEFAULT, Telling};
pub use wire::{Secret, SecretError, document};
