//! The limit of every compartment that a policy names.
//!
//! Separate because history, advice and pages all ask which compartments there are: they must
//! never come to different answers.

use super::types::{Policy, Unknown};
use crate::{Key, Limit, Name};

impl Policy {
    /// Every compartment with a limit of its own: the ceiling, upstreams, routes with what stands
    /// beside them, tenants.
    pub fn limits(&self) -> impl Iterator<Item = (Key, Limit)> {
        let capacity = Limit::new(self.gateway.capacity).unwrap_or(Limit::UNLIMITED);
        let upstreams = self.upstreams.iter();
        let upstreams = upstreams.map(|one| (Key::Upstream(one.id.clone()), one.limit));
        let routes = self.routes.iter().flat_map(|route| {
            let own = &route.compartment;
            let stream = own.stream.map(|stream| stream.limit);
            let stream = stream.map(|limit| (Key::Stream(route.id.clone()), limit));
            let fallback = route.fallback_limit();
            let fallback = fallback.map(|limit| (Key::Fallback(route.id.clone()), limit));
            let sides = stream.into_iter().chain(fallback);
            std::iter::once((Key::Route(route.id.clone()), own.limit)).chain(sides)
        });
        let tenants = self.tenants.iter();
        let tenants = tenants.map(|one| (Key::Tenant(one.id.clone()), one.limit));
        let unknown = self.unknown_limit();
        let unknown = unknown.map(|limit| (Key::Tenant(Name::unknown_tenant()), limit));
        std::iter::once((Key::Gateway, capacity))
            .chain(upstreams)
            .chain(routes)
            .chain(tenants)
            .chain(unknown)
    }

    /// The limit that this compartment has of its own.
    pub fn limit_of(&self, key: &Key) -> Option<Limit> {
        let route = |id: &Name| self.routes.iter().find(|route| route.id == *id);
        match key {
            Key::Gateway => Limit::new(self.gateway.capacity).ok(),
            Key::Route(id) => Some(route(id)?.compartment.limit),
            Key::Stream(id) => Some(route(id)?.compartment.stream?.limit),
            Key::Fallback(id) => route(id)?.fallback_limit(),
            Key::Upstream(id) => {
                let mut upstreams = self.upstreams.iter();
                upstreams.find(|one| one.id == *id).map(|one| one.limit)
            }
            Key::Tenant(id) if *id == Name::unknown_tenant() => self.unknown_limit(),
            Key::Tenant(id) => {
                let mut tenants = self.tenants.iter();
                tenants.find(|one| one.id == *id).map(|one| one.limit)
            }
            Key::TenantRoute(..) => None,
        }
    }

    fn unknown_limit(&self) -> Option<Limit> {
        match self.identify.as_ref()?.unknown {
            Unknown::Shared { limit } => Some(limit),
            Unknown::Reject => None,
        }
    }
}
