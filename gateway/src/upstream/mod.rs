//! Connections to upstreams.
//!
//! Separate because each route on each core has its own, and nothing else may use them: a shared
//! connection would be a compartment that nobody configured. It must never know a policy or a
//! permit; what may be in flight is decided before.

mod aim;
mod call;
mod choice;
mod dial;
mod gate;
mod head_watch;
mod line;
mod link;
mod links;
mod pool;
mod roots;
mod secure;
mod socket;
mod source;
mod standing;
mod target;
mod tried;
mod unreached;
mod wire;

pub(crate) use self::aim::Aim;
pub(crate) use self::call::{Broken, Call, accept_trailers};
pub(crate) use self::choice::choose;
pub(crate) use self::dial::{Dialler, NoConnection};
use self::gate::Gate;
use self::head_watch::HeadWatch;
pub(crate) use self::link::{Lease, Link};
pub(crate) use self::links::{Stream, Way};
pub(crate) use self::pool::{EndpointPool, IDLE_PER_CORE_MAX, Pools, Purpose};
pub(crate) use self::roots::Readers;
pub(crate) use self::secure::{NoTls, Secure, server_name};
pub(crate) use self::socket::Socket;
pub(crate) use self::source::{Cut, Source};
pub(crate) use self::standing::Standing;
pub(crate) use self::target::{Secured, Target};
pub(crate) use self::tried::Tried;
pub(crate) use self::unreached::Unreached;
pub(crate) use self::wire::Wire;
