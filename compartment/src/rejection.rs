//! The closed list of reasons for which our own limits refuse.
//!
//! Separate because every part that speaks of a refusal matches it exhaustively: a new reason
//! does not compile until status, fallback, metric, log and page know it. A failure of an
//! upstream or of a caller is never in this list.

use serde::{Deserialize, Serialize};

/// Why a request was refused by a limit of ours.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The tenant's own limit over all routes.
    TenantFull,
    /// The tenant's hard cap on this route.
    TenantRouteFull,
    /// The tenant's dynamic share of this route.
    TenantShare,
    /// The route's limit.
    RouteFull,
    /// The last slots of the route are kept from sheddable requests.
    ClassReserve,
    /// The route's limit on long-lived exchanges.
    StreamFull,
    /// The dependency's limit.
    UpstreamFull,
    /// The ceiling of the process.
    GatewayFull,
    /// Beyond the route's guarantee, and no spare slot is left.
    SpareExhausted,
    /// No place left to wait.
    QueueFull,
    /// Waited as long as allowed.
    QueueTimeout,
    /// The caller's own deadline leaves too little time to use a slot.
    DeadlineTooShort,
    /// A limit of 0.
    Closed,
    /// The dependency failed too often to be asked now.
    BreakerOpen,
}

impl Rejection {
    /// Every reason, in the order of the declaration.
    pub const ALL: [Self; 14] = [
        Self::TenantFull,
        Self::TenantRouteFull,
        Self::TenantShare,
        Self::RouteFull,
        Self::ClassReserve,
        Self::StreamFull,
        Self::UpstreamFull,
        Self::GatewayFull,
        Self::SpareExhausted,
        Self::QueueFull,
        Self::QueueTimeout,
        Self::DeadlineTooShort,
        Self::Closed,
        Self::BreakerOpen,
    ];

    /// The name in answers, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TenantFull => "tenant_full",
            Self::TenantRouteFull => "tenant_route_full",
            Self::TenantShare => "tenant_share",
            Self::RouteFull => "route_full",
            Self::ClassReserve => "class_reserve",
            Self::StreamFull => "stream_full",
            Self::UpstreamFull => "upstream_full",
            Self::GatewayFull => "gateway_full",
            Self::SpareExhausted => "spare_exhausted",
            Self::QueueFull => "queue_full",
            Self::QueueTimeout => "queue_timeout",
            Self::DeadlineTooShort => "deadline_too_short",
            Self::Closed => "closed",
            Self::BreakerOpen => "breaker_open",
        }
    }

    /// Its place in [`Rejection::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}
