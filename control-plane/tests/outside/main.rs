//! The control plane from outside: its port, its files, its stream.
//!
//! One binary, so that it is linked once and what the tests share is used in full.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed step fails the test"
)]

mod access;
mod advice;
mod alerts;
mod audit;
mod breaker;
mod chain;
mod changes;
mod contract;
mod contradictions;
mod cut;
mod drills;
mod events;
mod fleet;
mod history;
mod keeping;
mod kill;
mod limits;
mod metrics;
mod otlp;
mod overrides;
mod pages;
mod pages_fields;
mod pages_list;
mod pages_overrides;
mod pages_routes;
mod pages_shadow;
mod people;
mod policy;
mod postgres;
mod replicas;
mod restored;
mod rollout;
mod rules;
mod store;
mod stream;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod tls;
