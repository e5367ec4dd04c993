//! `[plans.ID]` and `[tenants.ID]`.
//!
//! Separate because there may be 100,000 of them: every check here takes time in proportion to
//! the document. Two tenants must never share a key or a host.

use std::collections::HashMap;

use super::api_key;
use super::cursor::{Keys, Node, Place, Table};
use super::fault::Faults;
use super::named::{Names, each_named};
use super::scalar::{class, flag, limit, name};
use super::text::{host, key_digest};
use super::types::{Plan, Tenant};
use crate::Limit;

/// The most plans of a policy.
pub const PLANS_MAX: usize = 1000;

/// The most tenants of a policy.
pub const TENANTS_MAX: usize = 100_000;

/// The most API keys of one tenant.
pub const KEYS_PER_TENANT_MAX: usize = 100;

const HOSTS_PER_TENANT_MAX: usize = 100;

const PLAN_KEYS: Keys = Keys {
    known: &["limit", "class", "routes"],
    unenforced: &[],
};
const TENANT_KEYS: Keys = Keys {
    known: &["plan", "limit", "api_keys", "keys", "hosts", "suspended"],
    unenforced: &[],
};

/// `[plans]`; `routes` are the names that a plan may limit.
pub(super) fn plans(node: Node<'_>, routes: &Names<'_>, faults: &mut Faults) -> Option<Vec<Plan>> {
    each_named(node, PLANS_MAX, faults, |id, node, faults| {
        let id = name(id, faults);
        let table = Table::open(node, PLAN_KEYS, faults)?;
        let overall = table.required("limit", faults, limit);
        let class = table.optional("class", faults, class);
        let routes = table.or("routes", Vec::new(), faults, |node, faults| {
            each_named(
                node,
                super::route::ROUTES_MAX,
                faults,
                |id, node, faults| {
                    let route = routes.find(id, faults);
                    let limit = limit(node, faults);
                    Some((route?, limit?))
                },
            )
        });
        Some(Plan {
            id: id?,
            limit: overall?,
            class: class?,
            routes: routes?,
        })
    })
}

/// What each credential and host belongs to, over all tenants.
#[derive(Debug, Default)]
struct Owners {
    keys: HashMap<[u8; 32], String>,
    hosts: HashMap<String, String>,
}

/// `[tenants]`; `limits` are those of the plans, `None` where a plan is broken.
pub(super) fn tenants(
    node: Node<'_>,
    plans: &Names<'_>,
    limits: Option<&[Plan]>,
    faults: &mut Faults,
) -> Option<Vec<Tenant>> {
    let mut owners = Owners::default();
    each_named(node, TENANTS_MAX, faults, |id, node, faults| {
        let id = name(id, faults);
        let table = Table::open(node, TENANT_KEYS, faults)?;
        let plan = table.optional("plan", faults, |node, faults| plans.find(node, faults));
        let own = table.optional("limit", faults, limit);
        let suspended = table.or("suspended", false, faults, flag);
        let api_keys = table.or("api_keys", Vec::new(), faults, |node, faults| {
            let keys = node.each(KEYS_PER_TENANT_MAX, faults, key_digest)?;
            single_owner(node, &keys, &mut owners.keys, "key", faults)?;
            Some(keys)
        });
        let expiring = table.or("keys", Vec::new(), faults, |node, faults| {
            api_key::expiring(node, api_keys.as_deref()?, faults)
        });
        let hosts = table.or("hosts", Vec::new(), faults, |node, faults| {
            let hosts = node.each(HOSTS_PER_TENANT_MAX, faults, host)?;
            single_owner(node, &hosts, &mut owners.hosts, "host", faults)?;
            Some(hosts)
        });
        let (plan, own) = (plan?, own?);
        let limit = effective_limit(&table, plan, own, limits, faults);
        Some(Tenant {
            id: id?,
            plan,
            limit: limit?,
            api_keys: api_keys?,
            expiring: expiring?,
            hosts: hosts?,
            suspended: suspended?,
        })
    })
}

fn effective_limit(
    table: &Table<'_>,
    plan: Option<usize>,
    own: Option<Limit>,
    plans: Option<&[Plan]>,
    faults: &mut Faults,
) -> Option<Limit> {
    match (own, plan) {
        (Some(limit), _) => Some(limit),
        (None, Some(plan)) => plans?.get(plan).map(|plan| plan.limit),
        (None, None) => table.missing("limit", "is required without a plan", faults),
    }
}

/// Reports every one of `values` that a tenant before, or this one, has already.
fn single_owner<T: Clone + Eq + std::hash::Hash>(
    node: Node<'_>,
    values: &[T],
    owners: &mut HashMap<T, String>,
    kind: &str,
    faults: &mut Faults,
) -> Option<()> {
    let mut fine = Some(());
    // `tenants.ID` is the place around the list; its last step is the tenant.
    let owner = match node.place {
        Place::Key(tenant, _) => tenant.path().to_string(),
        Place::Root | Place::Index(..) => String::new(),
    };
    for (index, value) in values.iter().enumerate() {
        if let Some(first) = owners.insert(value.clone(), owner.clone()) {
            let place = Place::Index(&node.place, index);
            let rule = format!("the same {kind} belongs to {first}");
            fine = faults.add(&place, String::new(), rule);
        }
    }
    fine
}
