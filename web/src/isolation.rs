//! What a compartment does not isolate: everything it still shares with others.
//!
//! Separate because a limit that hides what lies below it promises too much. It must never claim
//! that something is isolated; it only names what is shared.

use compartment::Key;
use compartment::policy::{Policy, Route, Upstream};

use crate::{text, url};

/// The most neighbours that one sentence names.
const NAMED_MAX: usize = 12;

/// One thing that is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotIsolated {
    /// The sentence before the names.
    pub what: String,
    /// With whom: keys and their pages.
    pub with: Vec<(String, String)>,
    /// How many more there are.
    pub more: usize,
}

/// One layer that a route's requests share with those of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// What it is.
    pub what: &'static str,
    /// The compartment that holds its slots.
    pub key: Key,
    /// How many this route could have of it in one process, when nobody else took any.
    pub slots: u32,
    /// How many other routes there are on it.
    pub others: usize,
}

/// The bounded layers that a route shares, the narrowest first: that one binds first.
pub fn shared_layers(policy: &Policy, route: &Route) -> Vec<Layer> {
    let mut layers = Vec::new();
    let upstream = policy.upstreams.get(route.upstream);
    if let Some((upstream, slots)) = upstream.and_then(|one| Some((one, one.limit.slots()?))) {
        let on_it = |other: &&Route| {
            other.upstream == route.upstream || other.fallback_upstream() == Some(route.upstream)
        };
        layers.push(Layer {
            what: "the upstream\u{2019}s limit",
            key: Key::Upstream(upstream.id.clone()),
            slots,
            others: policy.routes.iter().filter(on_it).count().saturating_sub(1),
        });
    }
    let others = policy.routes.len().saturating_sub(1);
    let own = &route.compartment;
    if own.limit.slots().is_none_or(|limit| limit > own.reserved) {
        layers.push(Layer {
            what: "its guarantee and the spare slots",
            key: Key::Gateway,
            slots: own.reserved.saturating_add(policy.gateway.spare),
            others,
        });
    }
    layers.push(Layer {
        what: "the ceiling of the gateway",
        key: Key::Gateway,
        slots: policy.gateway.capacity,
        others,
    });
    layers.sort_by_key(|layer| layer.slots);
    layers
}

/// What the compartment of `key` shares with others.
pub fn not_isolated(policy: &Policy, key: &Key) -> Vec<NotIsolated> {
    let mut shared = match key {
        Key::Gateway => vec![plain(
            "Everything in this process: all routes and tenants share this ceiling. It is the \
             last line of defence, not a partition.",
        )],
        Key::Route(id) => match policy.routes.iter().find(|route| &route.id == id) {
            Some(route) => of_route(policy, route),
            None => Vec::new(),
        },
        Key::Stream(id) => match policy.routes.iter().find(|route| &route.id == id) {
            Some(route) => of_streams(policy, route),
            None => Vec::new(),
        },
        Key::Fallback(id) => match policy.routes.iter().find(|route| &route.id == id) {
            Some(route) => of_fallback(policy, route),
            None => Vec::new(),
        },
        Key::Upstream(id) => match policy.upstreams.iter().position(|up| &up.id == id) {
            Some(at) => of_upstream(policy, at),
            None => Vec::new(),
        },
        Key::Tenant(_) => vec![plain(
            "The routes and upstreams it calls: another tenant may fill those while this one \
             has slots of its own left.",
        )],
        Key::TenantRoute(id, _) => vec![named(
            "The route's slots are shared with every other tenant on",
            [Key::Route(id.clone())],
        )],
    };
    if *key != Key::Gateway {
        let capacity = text::count(policy.gateway.capacity);
        let sentence = format!("The ceiling of {capacity} in each gateway process is shared with");
        shared.push(named(&sentence, [Key::Gateway]));
    }
    shared.push(plain(
        "Processor, memory and file descriptors of the gateway process, and the network below it.",
    ));
    shared
}

fn of_route(policy: &Policy, route: &Route) -> Vec<NotIsolated> {
    let mut shared = Vec::new();
    if let Some(upstream) = policy.upstreams.get(route.upstream) {
        let others = policy
            .routes
            .iter()
            .filter(|other| other.upstream == route.upstream && other.id != route.id)
            .map(|other| Key::Route(other.id.clone()));
        let sentence = format!("The upstream {} is shared with", upstream.id);
        shared.push(named(&sentence, others));
        shared.extend(same_hosts(policy, route.upstream));
    }
    let reserved = u64::from(route.compartment.reserved);
    let beyond = route
        .compartment
        .limit
        .slots()
        .is_none_or(|limit| u64::from(limit) > reserved);
    if beyond {
        let spare = text::count(policy.gateway.spare);
        shared.push(plain(&format!(
            "Slots beyond its {reserved} guaranteed ones are borrowed from {spare} spare slots \
             that all routes share."
        )));
    }
    shared.retain(|one| one.with.len() + one.more > 0 || !one.what.ends_with("with"));
    shared
}

fn of_streams(policy: &Policy, route: &Route) -> Vec<NotIsolated> {
    let spare = text::count(policy.gateway.spare);
    let mut shared = vec![plain(&format!(
        "It guarantees nothing: every stream borrows one of {spare} spare slots that all routes \
         share."
    ))];
    if let Some(upstream) = policy.upstreams.get(route.upstream) {
        let of_upstream = policy
            .routes
            .iter()
            .filter(|other| other.upstream == route.upstream)
            .map(|other| Key::Route(other.id.clone()));
        let sentence = format!("The upstream {} is shared with", upstream.id);
        shared.push(named(&sentence, of_upstream));
    }
    shared
}

fn of_fallback(policy: &Policy, route: &Route) -> Vec<NotIsolated> {
    let spare = text::count(policy.gateway.spare);
    let mut shared = vec![plain(&format!(
        "It guarantees nothing: every call borrows one of {spare} spare slots that all routes \
         share."
    ))];
    let asked = route.fallback_upstream();
    if let Some((at, upstream)) = asked.and_then(|at| Some((at, policy.upstreams.get(at)?))) {
        let sentence = format!("The upstream {} is shared with", upstream.id);
        let others = named(&sentence, users(policy, at));
        shared.extend((!others.with.is_empty()).then_some(others));
    }
    shared
}

/// Whose requests an upstream serves as a matter of course.
fn users(policy: &Policy, upstream: usize) -> impl Iterator<Item = Key> {
    let routes = policy.routes.iter();
    let own = routes.filter(move |route| route.upstream == upstream);
    own.map(|route| Key::Route(route.id.clone()))
}

fn of_upstream(policy: &Policy, at: usize) -> Vec<NotIsolated> {
    let standing_in = policy.routes.iter();
    let standing_in = standing_in.filter(|route| route.fallback_upstream() == Some(at));
    let standing_in = standing_in.map(|route| Key::Fallback(route.id.clone()));
    let routes = users(policy, at).chain(standing_in);
    let mut shared = vec![named("Its slots are shared by", routes)];
    shared.extend(same_hosts(policy, at));
    shared.retain(|one| !one.with.is_empty());
    shared
}

/// Other upstreams that live on one of the same hosts.
fn same_hosts(policy: &Policy, at: usize) -> Option<NotIsolated> {
    let own = policy.upstreams.get(at)?;
    let shares = |other: &Upstream| {
        other
            .endpoints
            .iter()
            .any(|e| own.endpoints.iter().any(|mine| mine.host == e.host))
    };
    let others = policy
        .upstreams
        .iter()
        .enumerate()
        .filter(|(index, other)| *index != at && shares(other))
        .map(|(_, other)| Key::Upstream(other.id.clone()));
    let found = named("A host of the upstream also serves", others);
    (!found.with.is_empty()).then_some(found)
}

fn plain(sentence: &str) -> NotIsolated {
    NotIsolated {
        what: sentence.to_owned(),
        with: Vec::new(),
        more: 0,
    }
}

fn named(sentence: &str, keys: impl IntoIterator<Item = Key>) -> NotIsolated {
    let mut keys = keys.into_iter().map(|key| key.to_string());
    let with = keys
        .by_ref()
        .take(NAMED_MAX)
        .map(|key| (key.clone(), url::compartment(&key)));
    let with: Vec<_> = with.collect();
    NotIsolated {
        what: sentence.to_owned(),
        more: keys.count(),
        with,
    }
}
