//! The stream between gateway and control plane, and the document forms of a policy.
//!
//! Separate so that both ends speak through one crate and neither knows the other. It must never
//! hold state, open a connection or read a clock.

pub mod document;
pub mod endpoints;
pub mod parts;
mod secret;
pub mod stream;

pub use secret::{SECRET_BYTES_MAX, SECRET_CHARS_MIN, Secret, SecretError};
