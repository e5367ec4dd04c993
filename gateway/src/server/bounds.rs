//! The bounds of one client connection, as numbers that are compared while it runs.
//!
//! Separate so that the policy is read once per connection and never per request. It must never
//! change under a connection: new bounds apply to new connections.

use compartment::policy::Http;
use hyper::server::conn::http1;

use crate::clock::whole_us;

/// What hyper reserves for a head's fields without an allocation of its own.
const FIELDS_INLINE: usize = 100;
/// Method, spaces and version of a request line, beside its target.
const REQUEST_LINE_EXTRA_BYTES: usize = 64;
/// Long enough for most clients that have more to ask.
const REST_US: u64 = 2_000_000;
/// Most bytes that hyper buffers in one direction of an HTTP/1 connection.
const BUFFER_BYTES_MAX: usize = 128 * 1024;

/// `[gateway.http]` in the units of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) header_timeout_us: u64,
    pub(crate) keepalive_idle_us: u64,
    pub(crate) write_stall_us: u64,
    pub(crate) header_bytes_max: usize,
    pub(crate) header_fields_max: usize,
    pub(crate) target_bytes_max: usize,
    pub(crate) connections_max: u32,
    /// After so long without a request an HTTP/1 connection keeps no buffers.
    pub(crate) rest_us: u64,
}

impl Bounds {
    pub(crate) fn of(http: &Http) -> Self {
        Self {
            header_timeout_us: whole_us(http.header_timeout),
            keepalive_idle_us: whole_us(http.keepalive_idle),
            write_stall_us: whole_us(http.write_stall),
            header_bytes_max: usize_of(http.header_bytes_max),
            header_fields_max: usize_of(http.header_fields_max),
            target_bytes_max: usize_of(http.target_bytes_max),
            connections_max: http.connections_max,
            rest_us: REST_US,
        }
    }

    /// The contract's defaults: what holds until the first policy is live.
    pub(crate) const fn before_any_policy() -> Self {
        Self {
            header_timeout_us: 10_000_000,
            keepalive_idle_us: 60_000_000,
            write_stall_us: 15_000_000,
            header_bytes_max: 32 * 1024,
            header_fields_max: 100,
            target_bytes_max: 8 * 1024,
            connections_max: 10_000,
            rest_us: REST_US,
        }
    }

    /// The largest head, request line included, that hyper may read. The exact rules (target,
    /// sum of the fields) are checked on the parsed request.
    pub(crate) fn head_bytes_max(&self) -> usize {
        self.header_bytes_max
            .saturating_add(self.target_bytes_max)
            .saturating_add(REQUEST_LINE_EXTRA_BYTES)
    }

    /// hyper's side of the same bounds.
    pub(crate) fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        builder
            .half_close(false)
            .keep_alive(true)
            .max_header_size(self.head_bytes_max())
            .max_buf_size(self.head_bytes_max().max(BUFFER_BYTES_MAX));
        // Any other number costs hyper a heap allocation for each head.
        if self.header_fields_max != FIELDS_INLINE {
            builder.max_headers(self.header_fields_max);
        }
        builder
    }
}

fn usize_of(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
