//! The data plane of Bulkhead: accepts, admits, forwards.
//!
//! Separate so that it can run alone beside a policy file. It must never know the control plane
//! other than through the stream of `wire`.

mod clock;
mod config;
mod connection;
mod server;
mod standing;

pub use config::{Config, Source};
