//! Limits together, beside the capacity that they share.
//!
//! Separate from the cards, which speak of one compartment each; API and pages say the same of
//! them. It must never add a limit that counts elsewhere: only routes hold guarantees.

use compartment::policy::Policy;
use compartment::{Key, Level, Limit};
use serde::Serialize;

use super::Card;

/// The limits that the routes' traffic asks for, together (P15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct AdvisedSum {
    /// Routes with advice.
    pub(crate) routes: usize,
    /// Routes of which too little is known.
    pub(crate) routes_without_advice: usize,
    /// The advised slots of all of them.
    pub(crate) slots: u64,
    /// The ceiling of a gateway.
    pub(crate) capacity: u32,
    /// Whether they fit.
    pub(crate) fits: bool,
    /// The arithmetic.
    pub(crate) because: String,
}

/// The guarantees of all routes, with another limit as one of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub(crate) struct GuaranteedSum {
    /// Guaranteed slots.
    pub(crate) guaranteed: u64,
    /// The ceiling of a gateway.
    pub(crate) capacity: u64,
    /// Whether they fit.
    pub(crate) fits: bool,
}

/// What the advised limits come to.
pub(crate) fn advised(cards: &[Card], capacity: u32) -> AdvisedSum {
    let routes = cards.iter().filter(|card| card.level == Level::Route);
    let known: Vec<u32> = routes
        .clone()
        .filter_map(|card| card.advice.advised)
        .collect();
    let slots: u64 = known.iter().map(|slots| u64::from(*slots)).sum();
    let fits = slots <= u64::from(capacity);
    let word = if fits { "fit into" } else { "exceed" };
    AdvisedSum {
        routes: known.len(),
        routes_without_advice: routes.count().saturating_sub(known.len()),
        slots,
        capacity,
        fits,
        because: format!(
            "{slots} advised slots of {} routes {word} capacity {capacity}",
            known.len(),
        ),
    }
}

/// The guarantees with this limit as one of them; `None` for what is no route's own.
pub(crate) fn guaranteed(policy: &Policy, key: &Key, limit: Limit) -> Option<GuaranteedSum> {
    let Key::Route(id) = key else {
        return None;
    };
    let reserved = policy.routes.iter().map(|route| {
        // A guarantee that follows its limit follows this one too.
        let own = &route.compartment;
        let follows = route.id == *id && Some(own.reserved) == own.limit.slots();
        let slots = if follows {
            limit.slots().unwrap_or(0)
        } else {
            own.reserved
        };
        u64::from(slots)
    });
    let (guaranteed, capacity) = (reserved.sum::<u64>(), u64::from(policy.gateway.capacity));
    Some(GuaranteedSum {
        guaranteed,
        capacity,
        fits: guaranteed <= capacity,
    })
}

/// What must hold of the limit that is asked about.
pub(crate) const LIMIT_RULE: &str = "a whole number from 0 to 1000000, or unlimited";

/// The limit that is asked about, as API and pages spell it.
pub(crate) fn asked_limit(text: &str) -> Option<Limit> {
    match text {
        "unlimited" => Some(Limit::UNLIMITED),
        text => text.parse().ok().and_then(|slots| Limit::new(slots).ok()),
    }
}
