//! The key of a compartment, as scripts, headers and pages spell it.
//!
//! Separate so that the spelling exists once. A key names a compartment of the policy, never
//! caller-made text.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Name, NameError};

/// Which of the levels a request passes. Ordered as permits are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "describe", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// One tenant over all routes.
    Tenant,
    /// One tenant on one route.
    TenantRoute,
    /// One route.
    Route,
    /// The long-lived exchanges of one route, instead of its own slots.
    Stream,
    /// What one route asks another dependency for in place of its own.
    Fallback,
    /// One dependency, over all routes that use it.
    Upstream,
    /// The ceiling of one gateway process.
    Gateway,
}

impl Level {
    /// The name in answers and pages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::TenantRoute => "tenant-route",
            Self::Route => "route",
            Self::Stream => "stream",
            Self::Fallback => "fallback",
            Self::Upstream => "upstream",
            Self::Gateway => "gateway",
        }
    }
}

/// `gateway`, `route/ID`, `route/ID/stream`, `route/ID/fallback`, `upstream/ID`, `tenant/ID` or
/// `route/ID/tenant/ID`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Key {
    /// The ceiling of the process.
    Gateway,
    /// A route's own compartment.
    Route(Name),
    /// A route's long-lived exchanges.
    Stream(Name),
    /// What a route asks another dependency for.
    Fallback(Name),
    /// A dependency's own compartment.
    Upstream(Name),
    /// A tenant over all routes.
    Tenant(Name),
    /// A tenant (second) on a route (first).
    TenantRoute(Name, Name),
}

impl Key {
    /// The level of this compartment.
    pub const fn level(&self) -> Level {
        match self {
            Self::Gateway => Level::Gateway,
            Self::Route(_) => Level::Route,
            Self::Stream(_) => Level::Stream,
            Self::Fallback(_) => Level::Fallback,
            Self::Upstream(_) => Level::Upstream,
            Self::Tenant(_) => Level::Tenant,
            Self::TenantRoute(..) => Level::TenantRoute,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("gateway"),
            Self::Route(id) => write!(f, "route/{id}"),
            Self::Stream(id) => write!(f, "route/{id}/stream"),
            Self::Fallback(id) => write!(f, "route/{id}/fallback"),
            Self::Upstream(id) => write!(f, "upstream/{id}"),
            Self::Tenant(id) => write!(f, "tenant/{id}"),
            Self::TenantRoute(route, tenant) => write!(f, "route/{route}/tenant/{tenant}"),
        }
    }
}

impl FromStr for Key {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let tenant = |id: &str| match id {
            "_unknown" => Ok(Name::unknown_tenant()),
            id => Name::new(id),
        };
        match text.split('/').collect::<Vec<_>>().as_slice() {
            ["gateway"] => Ok(Self::Gateway),
            ["route", id] => Name::new(id).map(Self::Route),
            ["route", id, "stream"] => Name::new(id).map(Self::Stream),
            ["route", id, "fallback"] => Name::new(id).map(Self::Fallback),
            ["upstream", id] => Name::new(id).map(Self::Upstream),
            ["tenant", id] => tenant(id).map(Self::Tenant),
            ["route", id, "tenant", who] => Ok(Self::TenantRoute(Name::new(id)?, tenant(who)?)),
            _ => Err(NameError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_are_written() {
        for key in [
            "gateway",
            "route/a",
            "route/a/stream",
            "route/a/fallback",
            "upstream/b",
            "tenant/_unknown",
            "route/a/tenant/b.c",
        ] {
            assert_eq!(
                key.parse::<Key>().map(|k| k.to_string()).as_deref(),
                Ok(key)
            );
        }
        for bad in [
            "",
            "route",
            "route/",
            "route/a/",
            "route/a/b",
            "route/a/stream/b",
            "upstream/a/fallback",
            "upstream/a/stream",
            "gateway/x",
            "other/a",
        ] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }
}
