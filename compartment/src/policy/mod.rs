//! The policy: everything a gateway must know, checked.
//!
//! Separate from its document form so that the rest of the product only ever holds values that
//! keep every rule. [`check`] is the one way from a document to a [`Policy`]; it collects every
//! error, each with path, value and rule. This module must never read a file or know a syntax.

mod types;

pub use types::*;
