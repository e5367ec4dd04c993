//! One endpoint of an upstream: where it is, how it is spoken to, how it does.
//!
//! Separate because it belongs to the process: every core and every route learns from what one of
//! them met, and a new policy does not begin it anew. It must never hold a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use compartment::policy::Endpoint;
use rustls_pki_types::ServerName;

use super::secure::Secure;

/// How long an endpoint that refused is tried only after the others.
const SHUNNED_US: u64 = 1_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) secure: Option<Secured>,
    shunned_until_us: AtomicU64,
}

/// By TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) by: Arc<Secure>,
    /// What its certificate must be for.
    pub(crate) name: ServerName<'static>,
}

impl Target {
    pub(crate) const fn new(endpoint: Endpoint, secure: Option<Secured>) -> Self {
        Self {
            endpoint,
            secure,
            shunned_until_us: AtomicU64::new(0),
        }
    }

    /// It refused: others are tried first for a while.
    pub(crate) fn shun(&self, now_us: u64) {
        let until_us = now_us.saturating_add(SHUNNED_US);
        self.shunned_until_us.store(until_us, Ordering::Relaxed);
    }

    pub(crate) fn is_shunned(&self, now_us: u64) -> bool {
        now_us < self.shunned_until_us.load(Ordering::Relaxed)
    }
}
