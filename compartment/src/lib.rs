//! The mechanism: names, limits, permits, the hull and the checked policy.
//!
//! Separate from every other crate so that it can be model-checked and simulated: it knows no
//! runtime, no HTTP, no store and no clock. Time is a parameter everywhere. It must never await,
//! log, or read a configuration other than the values it is handed.

#![warn(missing_docs)]

mod class;
mod figures;
mod key;
mod limit;
mod name;
pub mod policy;
mod rejection;

pub use class::Class;
pub use figures::Figures;
pub use key::{Key, Level};
pub use limit::{LIMIT_MAX, Limit, LimitError};
pub use name::{Name, NameError};
pub use rejection::Rejection;
