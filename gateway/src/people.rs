//! Whose requests a lane carries, as far as the lane has to know.
//!
//! Separate because a stream lasts for hours, through any number of policies: it keeps its own
//! tenant and nothing of the others. Calls, which their bounds end soon, share the policy's
//! tables. It must never let a stream hold a policy: a policy has all tenants.

use std::sync::Arc;

use compartment::{Caller, TenantCompartment};

use crate::admission;
use crate::live_policy::{LivePolicy, LiveRoute};
use crate::running::Mark;
use crate::stale::{self, Owner};
use crate::tenant::Who;

/// Whose requests these may be.
#[derive(Debug)]
pub(crate) enum People {
    /// Anybody's of this policy.
    All(Arc<LivePolicy>),
    /// Of this one alone.
    One(Own),
}

/// One caller, found out once.
#[derive(Debug)]
pub(crate) struct Own {
    caller: Caller,
    compartment: Option<Arc<TenantCompartment>>,
    is_identified: bool,
    mark: Mark,
    owner: Option<Owner>,
}

impl People {
    /// The same for this caller alone.
    pub(crate) fn alone(&self, route: &LiveRoute, who: Who) -> Self {
        let caller = self.caller(route, who);
        let compartment = match self {
            Self::All(policy) => admission::index_of(policy, who)
                .and_then(|index| policy.compartments.get(index))
                .map(Arc::clone),
            Self::One(own) => own.compartment.clone(),
        };
        Self::One(Own {
            caller,
            compartment,
            is_identified: matches!(who, Who::Tenant(_)),
            mark: self.mark(who),
            owner: self.owner(who),
        })
    }

    /// What the mechanism is told of this caller on this route.
    pub(crate) fn caller(&self, route: &LiveRoute, who: Who) -> Caller {
        match self {
            Self::All(policy) => admission::caller(policy, route, who),
            Self::One(own) => own.caller,
        }
    }

    /// The compartment of this index.
    pub(crate) fn tenant(&self, index: u32) -> Option<&TenantCompartment> {
        match self {
            Self::All(policy) => {
                let index = usize::try_from(index).ok()?;
                policy.compartments.get(index).map(Arc::as_ref)
            }
            Self::One(own) => {
                let own_one = own.compartment.as_deref();
                own_one.filter(|_| own.caller.tenant == Some(index))
            }
        }
    }

    /// Under which name the caller's compartment is known; `None` without tenants.
    pub(crate) fn name(&self, who: Who) -> Option<&str> {
        let compartment = match self {
            Self::All(policy) => {
                let index = admission::index_of(policy, who)?;
                policy.compartments.get(index).map(Arc::as_ref)
            }
            Self::One(own) => own.compartment.as_deref(),
        };
        compartment.map(|compartment| compartment.name().as_str())
    }

    /// The compartment of an identified tenant.
    pub(crate) fn identified(&self, who: Who) -> Option<&TenantCompartment> {
        match (self, who) {
            (Self::All(policy), Who::Tenant(tenant)) => {
                policy.compartments.get(tenant).map(Arc::as_ref)
            }
            (Self::All(_), Who::Nobody | Who::SharedUnknown) => None,
            (Self::One(own), _) => own.compartment.as_deref().filter(|_| own.is_identified),
        }
    }

    /// Whose stored answers may be read and written.
    pub(crate) fn owner(&self, who: Who) -> Option<Owner> {
        match self {
            Self::All(policy) => stale::owner(policy, who),
            Self::One(own) => own.owner.clone(),
        }
    }

    /// The caller's mark in the table of running exchanges.
    pub(crate) fn mark(&self, who: Who) -> Mark {
        match self {
            Self::All(policy) => {
                let index = admission::index_of(policy, who);
                let mark = index.and_then(|index| policy.tenant_marks.get(index));
                mark.copied().unwrap_or_default()
            }
            Self::One(own) => own.mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::sync::Weak;
    use std::time::Duration;

    use compartment::policy::{Streams, Value};
    use compartment::{Entry, Limit};

    use super::*;
    use crate::clock::Clock;
    use crate::core::{Core, OnRoute};
    use crate::live_policy::Live;
    use crate::tell::Tell;
    use crate::testing::{policy, route, tenant};

    const PUSHES: u64 = 1_000;

    /// As the streams of one route pass it for tenant 0.
    fn stream(core: &Core) -> OnRoute {
        let snapshot = core.snapshot().unwrap();
        let calls = OnRoute(core.lane(&snapshot, 0).unwrap());
        calls.for_streams(Who::Tenant(0)).unwrap()
    }

    #[test]
    fn a_thousand_policies_under_open_streams_are_one() {
        let live = Live::new(1);
        let tell = Tell {
            telemetry: telemetry::Handle::default(),
            access_log: None,
            tenants_max: 1,
        };
        let core = Core::new(Arc::clone(&live), Clock::start(), Vec::new(), tell);
        let mut with_streams = route("a", "/a");
        with_streams.compartment.limit = Limit::UNLIMITED;
        with_streams.compartment.stream = Some(Streams {
            limit: Limit::UNLIMITED,
            idle: Duration::from_secs(60),
            age_max: Duration::from_secs(3600),
            grpc: false,
        });
        let mut policies: Vec<Weak<LivePolicy>> = Vec::new();
        let mut held = Vec::new();
        for generation in 1..=PUSHES {
            let mut fresh = policy(std::slice::from_ref(&with_streams));
            fresh.gateway.spare = 2_000;
            fresh.gateway.capacity = 2_000;
            // Tenants come and go as well; the first stays.
            let other = format!("t{generation}");
            fresh.tenants = vec![tenant("acme"), tenant(&other)];
            fresh.tenants[0].limit = Limit::UNLIMITED;
            live.install(generation, &Value::Table(Vec::new()), fresh, generation)
                .unwrap();
            policies.push(Arc::downgrade(&live.current().unwrap()));
            // One begins under each of them and stays.
            let lane = stream(&core);
            match admission::ask(&core, &lane, Who::Tenant(0), u64::MAX) {
                Entry::Admitted(permits) => held.push((lane, permits)),
                other @ (Entry::Refused(_) | Entry::Waiting(_)) => panic!("{other:?}"),
            }
        }
        live.sweep();
        let alive = policies.iter().filter(|one| one.strong_count() > 0).count();
        assert_eq!(alive, 1, "the one in force");
        assert_eq!(live.retired(), 0);
        let acme = || {
            let all = live.hull().figures(1);
            let acme = all.iter().find(|one| one.key == "tenant/acme");
            acme.map(|acme| u64::from(acme.in_flight))
        };
        assert_eq!(
            acme(),
            Some(PUSHES),
            "each still holds its own tenant's slot"
        );
        assert_eq!(held[0].0.0.people.name(Who::Tenant(0)), Some("acme"));
        drop(held);
        assert_eq!(acme(), Some(0));
        assert_eq!(Rc::strong_count(&core), 1);
    }
}
