//! The policy: everything a gateway must know, checked.
//!
//! Separate from its document form so that the rest of the product only ever holds values that
//! keep every rule. [`check`] is the one way from a document to a [`Policy`]; it collects every
//! error, each with path, value and rule. This module must never read a file or know a syntax.

mod api_key;
mod behaviour;
mod breaker;
mod cursor;
mod endpoint;
mod fallback;
mod fault;
mod fields;
mod gateway;
mod identify;
mod limits;
mod matching;
mod named;
mod nearest;
mod path;
mod rewrite;
mod route;
mod route_compartment;
mod rules;
mod scalar;
mod tenant;
mod text;
mod types;
mod upstream;
mod value;
mod value_serde;

pub use api_key::{KEY_ENDING_CHARS, KEY_ID_DIGITS, KEY_LABEL_CHARS_MAX, key_id, parse_moment};
pub use behaviour::ATTEMPTS_MAX;
pub use breaker::{BreakerRules, ForcedBreaker};
pub use fallback::Fallback;
pub use fault::{FAULTS_MAX, Fault};
pub use matching::{Misses, Target, nearest_route, takers};
pub use nearest::nearest;
pub use path::{Path, Step};
pub use route::ROUTES_MAX;
pub use route_compartment::{QUEUE_MAX, compartment_keys, stream_keys};
pub use scalar::{DURATION_MAX, decimal, parse_duration};
pub use tenant::{KEYS_PER_TENANT_MAX, PLANS_MAX, TENANTS_MAX};
pub use text::{canonical_host, parse_endpoint, parse_network, request_path};
pub use types::*;
pub use upstream::UPSTREAMS_MAX;
pub use value::{EXCERPT_CHARS_MAX, Value};

use cursor::{Keys, Node, Place, Table};
use fault::Faults;
use named::Names;

/// The shape of document that this build reads.
pub const SCHEMA: u32 = 1;

const KEYS: Keys = Keys {
    known: &[
        "schema",
        "gateway",
        "identify",
        "plans",
        "tenants",
        "upstreams",
        "routes",
    ],
    unenforced: &[],
};

/// Reads a document into a policy, or says everything that is wrong with it.
///
/// Takes time in proportion to the document and at most [`FAULTS_MAX`] errors and one more.
pub fn check(document: &Value) -> Result<Policy, Vec<Fault>> {
    let mut faults = Faults::default();
    let policy = decode(
        Node {
            value: document,
            place: Place::Root,
        },
        &mut faults,
    );
    match policy {
        Some(policy) if faults.is_empty() => Ok(policy),
        _ => Err(faults.into_list()),
    }
}

fn decode(node: Node<'_>, faults: &mut Faults) -> Option<Policy> {
    let root = Table::open(node, KEYS, faults)?;
    let schema = root.required("schema", faults, |node, faults| {
        scalar::whole(node, SCHEMA, SCHEMA, faults)
    });
    let upstream_names = Names::of_table("upstream", node.value.get("upstreams"));
    let plan_names = Names::of_table("plan", node.value.get("plans"));
    let route_names = Names::new("route", route_ids(node.value));

    let gateway = root.or("gateway", gateway::defaults(), faults, gateway::gateway);
    let identify = root.optional("identify", faults, identify::identify);
    let upstreams = root.or("upstreams", Vec::new(), faults, upstream::upstreams);
    let routes = root.or("routes", Vec::new(), faults, |node, faults| {
        routes(node, &upstream_names, faults)
    });
    let plans = root.or("plans", Vec::new(), faults, |node, faults| {
        tenant::plans(node, &route_names, faults)
    });
    let tenants = root.or("tenants", Vec::new(), faults, |node, faults| {
        tenant::tenants(node, &plan_names, plans.as_deref(), faults)
    });

    let gateway = gateway?;
    let spare = settle_spare(&root, &gateway, &rules::guarantees(node.value), faults);
    schema?;
    Some(Policy {
        gateway: Gateway {
            capacity: gateway.capacity,
            spare: spare?,
            http: gateway.http,
        },
        identify: identify?,
        plans: plans?,
        tenants: tenants?,
        upstreams: upstreams?,
        routes: routes?,
    })
}

fn route_ids(document: &Value) -> impl Iterator<Item = &str> {
    let routes = match document.get("routes") {
        Some(Value::Array(routes)) => routes.as_slice(),
        _ => &[],
    };
    // One entry for each route, so that a name's place is its route's, also beside broken ones.
    routes.iter().map(|route| match route.get("id") {
        Some(Value::String(id)) => id.as_str(),
        _ => "",
    })
}

fn routes(node: Node<'_>, upstreams: &Names<'_>, faults: &mut Faults) -> Option<Vec<Route>> {
    let items = node.items(ROUTES_MAX, faults)?;
    let mut routes = Vec::with_capacity(items.len());
    for (index, value) in items.iter().enumerate() {
        let place = Place::Index(&node.place, index);
        let route = route::route(Node { value, place }, upstreams, faults);
        routes.extend(route.map(|route| (index, route)));
    }
    rules::single_ids(node, faults);
    rules::no_overlap(node.place, &routes, faults);
    (routes.len() == items.len()).then(|| routes.into_iter().map(|(_, route)| route).collect())
}

/// The guarantees against the capacity, reported where the author can change it.
fn settle_spare(
    root: &Table<'_>,
    gateway: &gateway::GatewaySection,
    guarantees: &[u32],
    faults: &mut Faults,
) -> Option<u32> {
    let section = Place::Key(&root.place, "gateway");
    let place = match root.get("gateway") {
        Some(_) => Place::Key(&section, "capacity"),
        None => section,
    };
    rules::spare(&place, gateway.capacity, gateway.spare, guarantees, faults)
}
