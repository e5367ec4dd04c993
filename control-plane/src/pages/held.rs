//! Who holds the slots of a compartment, what is out of the spare, and what its rules leave.
//!
//! Separate because it looks at other compartments than the one of the page. It must never list
//! what the page's own compartment does not contain.

use compartment::policy::{Policy, Route};
use compartment::{Key, Level};
use web::{Holders, Reading, SpareUse};

use super::readings::Snapshot;
use crate::state::AppState;

/// What the API tells beside the figures of a compartment.
pub(crate) struct Around {
    /// Who holds its slots.
    pub(crate) holders: Holders,
    /// What is out of the spare.
    pub(crate) spare: Option<SpareUse>,
}

/// The same that the page of `key` shows.
pub(crate) fn around(state: &AppState, policy: &Policy, key: &Key) -> Around {
    let snapshot = Snapshot::take(state);
    Around {
        holders: holders(&snapshot, policy, key),
        spare: spare(&snapshot, policy, key),
    }
}

/// Who holds the slots of `key`.
pub(super) fn holders(snapshot: &Snapshot, policy: &Policy, key: &Key) -> Holders {
    match key {
        Key::Route(id) => {
            let below = format!("route/{id}/tenant/");
            let own = snapshot.readings_where(|figures| figures.key.starts_with(&below));
            Holders::new("tenant", own)
        }
        Key::Tenant(id) => {
            let end = format!("/tenant/{id}");
            let on_route = |key: &str| key.starts_with("route/") && key.ends_with(&end);
            let own = snapshot.readings_where(|figures| on_route(&figures.key));
            Holders::new("route", own)
        }
        Key::Upstream(id) => {
            let at = policy
                .upstreams
                .iter()
                .position(|upstream| upstream.id == *id);
            let over = |route: &&Route| Some(route.upstream) == at;
            let over = policy.routes.iter().filter(over);
            let keys: Vec<[String; 2]> = over
                .map(|route| [Key::Route(route.id.clone()), Key::Stream(route.id.clone())])
                .map(|keys| keys.map(|key| key.to_string()))
                .collect();
            let own = snapshot.readings_where(|one| keys.iter().flatten().any(|k| *k == one.key));
            Holders::new("route", own)
        }
        Key::Gateway => Holders::new("route", routes(snapshot)),
        Key::Stream(_) | Key::Fallback(_) | Key::TenantRoute(..) => Holders::default(),
    }
}

/// What is out of the spare, on the pages of those that borrow from it.
pub(super) fn spare(snapshot: &Snapshot, policy: &Policy, key: &Key) -> Option<SpareUse> {
    match key {
        Key::Route(_) | Key::Stream(_) | Key::Fallback(_) | Key::Gateway => {
            let gateways = u64::try_from(snapshot.counted_gateways()).unwrap_or(u64::MAX);
            let slots = u64::from(policy.gateway.spare).saturating_mul(gateways);
            (gateways > 0).then(|| SpareUse::of(slots, &routes(snapshot)))
        }
        Key::Upstream(_) | Key::Tenant(_) | Key::TenantRoute(..) => None,
    }
}

fn routes(snapshot: &Snapshot) -> Vec<Reading> {
    snapshot.readings_where(|figures| {
        matches!(
            figures.level,
            Level::Route | Level::Stream | Level::Fallback
        )
    })
}

/// What the route's own rules leave to one more request at this moment.
pub(super) fn rules(policy: &Policy, key: &Key, reading: Option<&Reading>) -> Vec<String> {
    let Key::Route(id) = key else {
        return Vec::new();
    };
    let Some(route) = policy.routes.iter().find(|route| route.id == *id) else {
        return Vec::new();
    };
    let mut rules = Vec::new();
    let slots = route.compartment.limit.slots();
    if let (Some(share), Some(slots), Some(reading)) =
        (route.compartment.tenant_share, slots, reading)
    {
        // On the fullest gateway: there a tenant may hold least.
        let free = slots.saturating_sub(reading.in_flight_max);
        let of = web::text::millionths(share.0);
        let most = web::text::count(compartment::share_most(share, free));
        rules.push(format!(
            "A tenant may hold {most} now on the fullest gateway: {of} x {free} free slots, and \
             always one."
        ));
    }
    let kept = route.compartment.class_reserve;
    if let (Some(slots), true) = (slots, kept > 0) {
        let kept_words = web::text::plural(kept, "slot is", "slots are");
        rules.push(format!(
            "The last {kept_words} kept from sheddable requests: those get in while fewer than {} \
             of {slots} are taken.",
            slots.saturating_sub(kept)
        ));
    }
    if route.compartment.queue > 0 {
        let places = web::text::plural(route.compartment.queue, "place", "places");
        let wait = u64::try_from(route.compartment.queue_wait.as_millis()).unwrap_or(u64::MAX);
        let wait = web::text::duration(wait);
        rules.push(format!(
            "{places} to wait on each gateway, for {wait} at most."
        ));
    }
    rules
}
