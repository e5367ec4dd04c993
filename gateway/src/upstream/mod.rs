//! Connections to upstreams.
//!
//! Separate because each route on each core has its own, and nothing else may use them: a shared
//! connection would be a compartment that nobody configured. It must never know a policy or a
//! permit; what may be in flight is decided before.

mod dial;
mod gate;
mod head_watch;
mod pool;
mod unreached;
mod wire;

pub(crate) use self::dial::Dialler;
use self::gate::Gate;
use self::head_watch::HeadWatch;
pub(crate) use self::pool::{EndpointPool, IDLE_PER_CORE_MAX, Pools};
pub(crate) use self::unreached::Unreached;
pub(crate) use self::wire::Wire;
