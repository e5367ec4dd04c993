//! One request at one endpoint: counted there, and what came of it told.
//!
//! Separate because it lasts as long as the exchange, whichever way that ends. It must never tell
//! an endpoint of what the client did.

use std::cell::Cell;
use std::rc::Rc;

use http::StatusCode;

use super::EndpointPool;
use crate::now::Now;

/// See the module. Dropping it ends the count.
#[derive(Debug)]
pub(crate) struct Aim {
    pool: Rc<EndpointPool>,
    began_us: u64,
    /// There are others to choose from; if not, nothing is chosen by what it counts.
    several: bool,
    has_head: Cell<bool>,
}

impl Aim {
    pub(crate) fn at(pool: &Rc<EndpointPool>, now_us: u64, several: bool) -> Self {
        if several {
            pool.target.standing.begin(now_us);
        }
        Self {
            pool: Rc::clone(pool),
            began_us: now_us,
            several,
            has_head: Cell::new(false),
        }
    }

    /// The endpoint has said something, or its request has gone.
    fn head(&self, heard: Option<u64>) {
        if self.several && !self.has_head.replace(true) {
            self.pool.target.standing.head(heard);
        }
    }

    /// A head came. `None`: nothing has to be kept to the end of the body.
    pub(crate) fn answered(self, status: StatusCode, now: &Now) -> Option<Self> {
        let of_gateway = matches!(
            status,
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
        );
        if of_gateway {
            self.failed(now.read_us());
        } else {
            self.pool.target.standing.succeed();
            if self.several {
                let now_us = now.read_us();
                let took_us = now_us.saturating_sub(self.began_us);
                self.pool.target.standing.took(took_us, now_us);
                self.head(Some(now_us));
            }
        }
        self.several.then_some(self)
    }

    /// It gave no connection or no head.
    pub(crate) fn failed(&self, now_us: u64) {
        let target = &self.pool.target;
        if target.standing.fail(now_us) && self.several {
            let endpoint = &target.endpoint;
            tracing::warn!(%endpoint, "an endpoint that keeps failing is ejected");
        }
        if self.several {
            // Who refuses at once is not fast.
            let took_us = now_us.saturating_sub(self.began_us).max(FAILURE_US);
            target.standing.took(took_us, now_us);
            self.head(Some(now_us));
        }
    }
}

/// A failure counts as a latency of at least so long.
const FAILURE_US: u64 = 100_000;

impl Drop for Aim {
    fn drop(&mut self) {
        if self.several {
            self.head(None);
            self.pool.target.standing.end();
        }
    }
}
