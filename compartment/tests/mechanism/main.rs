//! The mechanism as its hosts see it: the rules one by one, random histories against a naive
//! model, and many threads at once.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed step fails the test"
)]

mod live;
mod lost;
mod modes;
mod naive;
mod properties;
mod rules;
mod shadow;
mod simulate;
mod streams;
mod stress;
#[path = "../support/mod.rs"]
mod support;
