//! One endpoint of an upstream: where it is, how it is spoken to, how it does.
//!
//! Separate because it belongs to the process: every core and every route learns from what one of
//! them met, and a new policy does not begin it anew. It must never hold a connection.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use compartment::policy::Endpoint;
use rustls_pki_types::ServerName;

use super::Standing;
use super::secure::Secure;

/// Addresses of one name that are shown.
const ADDRESSES_SHOWN_MAX: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) secure: Option<Secured>,
    pub(crate) standing: Standing,
    /// Pools of connections to it, of all cores and routes.
    pools: AtomicU32,
    /// For whoever looks; written by those who check and dial.
    last_check: Mutex<Option<LastCheck>>,
    last_look_up: Mutex<Option<LastLookUp>>,
}

/// How the last check ended.
#[derive(Clone, Debug)]
pub(crate) struct LastCheck {
    pub(crate) at_us: u64,
    pub(crate) error: Option<String>,
}

/// What the name of the endpoint led to when it was last dialled.
#[derive(Clone, Debug)]
pub(crate) struct LastLookUp {
    /// When its name server said so.
    pub(crate) at_us: u64,
    pub(crate) addresses: Vec<IpAddr>,
    /// The last question was not answered: these are the last good ones.
    pub(crate) error: Option<String>,
}

/// By TLS.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) by: Arc<Secure>,
    /// What its certificate must be for.
    pub(crate) name: ServerName<'static>,
}

impl Target {
    pub(crate) fn new(endpoint: Endpoint, secure: Option<Secured>) -> Self {
        Self {
            endpoint,
            secure,
            standing: Standing::default(),
            pools: AtomicU32::new(0),
            last_check: Mutex::default(),
            last_look_up: Mutex::default(),
        }
    }

    /// A pool of connections to it is there, or no more.
    pub(crate) fn pooled(&self, is_there: bool) {
        let _before = match is_there {
            true => self.pools.fetch_add(1, Ordering::Relaxed),
            false => self.pools.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Somebody is served there: asked of one that no policy names, whose pools go with the last
    /// request on their routes. Of an only one (not `several`) nothing else is counted.
    pub(crate) fn is_busy(&self, several: bool) -> bool {
        let pools = self.pools.load(Ordering::Relaxed);
        pools > 0 && (!several || self.standing.in_flight() > 0)
    }

    pub(crate) fn note_check(&self, at_us: u64, error: Option<String>) {
        let mut kept = self
            .last_check
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *kept = Some(LastCheck { at_us, error });
    }

    pub(crate) fn last_check(&self) -> Option<LastCheck> {
        let kept = self
            .last_check
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }

    pub(crate) fn note_look_up(&self, at_us: u64, addresses: &[IpAddr], error: Option<String>) {
        let shown = addresses.iter().take(ADDRESSES_SHOWN_MAX).copied();
        let look_up = LastLookUp {
            at_us,
            addresses: shown.collect(),
            error,
        };
        let mut kept = self
            .last_look_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *kept = Some(look_up);
    }

    pub(crate) fn last_look_up(&self) -> Option<LastLookUp> {
        let kept = self
            .last_look_up
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        kept.clone()
    }
}
