//! What a gateway was told to tell, and to whom.
//!
//! Separate because the request path, the admin port and the exporter share it. Off, it must cost
//! a request nothing but a look.

use std::path::PathBuf;

use telemetry::Handle;

use crate::access_log::AccessLog;

/// Tenants with series of their own, unless told otherwise.
pub const METRIC_TENANTS_DEFAULT: usize = 20;

/// What a gateway tells beside its admin port.
#[derive(Clone, Debug)]
pub struct Telling {
    /// Where spans, figures and log events go.
    pub telemetry: Handle,
    /// A line for each request, or for some.
    pub access_log: Option<AccessLogConfig>,
    /// Tenants with series of their own; the rest are summed.
    pub tenants_max: usize,
}

impl Default for Telling {
    fn default() -> Self {
        Self {
            telemetry: Handle::default(),
            access_log: None,
            tenants_max: METRIC_TENANTS_DEFAULT,
        }
    }
}

/// The access log.
#[derive(Clone, Debug)]
pub struct AccessLogConfig {
    /// The file that lines are added to.
    pub path: PathBuf,
    /// Share of the requests that are written, in millionths.
    pub share_millionths: u32,
}

/// The same, while the gateway runs.
#[derive(Clone, Debug)]
pub(crate) struct Tell {
    pub(crate) telemetry: Handle,
    pub(crate) access_log: Option<AccessLog>,
    pub(crate) tenants_max: usize,
}

impl Tell {
    pub(crate) fn access_lines_dropped(&self) -> u64 {
        self.access_log.as_ref().map_or(0, AccessLog::dropped)
    }
}
