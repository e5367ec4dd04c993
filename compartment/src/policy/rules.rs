//! Rules between routes: one id each, no two for the same requests, guarantees within capacity.
//!
//! Separate because they need all routes at once. Each takes time in proportion to the policy; no
//! rule here must ever compare every route with every other.

use std::collections::HashMap;

use super::cursor::{Node, Place};
use super::fault::Faults;
use super::route::ROUTES_MAX;
use super::types::{PathMatch, Route};
use super::value::Value;
use crate::LIMIT_MAX;

/// The most terms of a sum that an error spells out.
const TERMS_SHOWN_MAX: usize = 8;

/// Reports each id that an earlier route has. Reads the document, so that routes that are broken
/// otherwise count too.
pub(super) fn single_ids(routes: Node<'_>, faults: &mut Faults) {
    let Value::Array(items) = routes.value else {
        return;
    };
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (index, route) in items.iter().enumerate() {
        let Some(value @ Value::String(id)) = route.get("id") else {
            continue;
        };
        if let Some(before) = first.get(id.as_str()) {
            let place = Place::Index(&routes.place, index);
            let node = Node {
                value,
                place: Place::Key(&place, "id"),
            };
            let _: Option<()> = faults.broken(node, format!("routes[{before}] has the same id"));
        } else {
            first.insert(id, index);
        }
    }
}

/// Reports each route whose requests an earlier route matches just as well.
///
/// `routes` are those that could be read, with their places in the document.
pub(super) fn no_overlap(list: Place<'_>, routes: &[(usize, Route)], faults: &mut Faults) {
    type Requests<'a> = (Option<&'a str>, &'a PathMatch, Option<&'a str>);
    let mut first: HashMap<Requests<'_>, usize> = HashMap::new();
    for (at, (index, route)) in routes.iter().enumerate() {
        let host = route.host.as_deref();
        let methods: Vec<Option<&str>> = match &route.methods {
            None => vec![None],
            Some(methods) => methods.iter().map(|method| Some(method.as_str())).collect(),
        };
        let mut before = None;
        for method in methods {
            let found = *first.entry((host, &route.path, method)).or_insert(at);
            if found != at && before.is_none() {
                before = Some((found, method));
            }
        }
        let other = before.and_then(|(at, method)| Some((routes.get(at)?, method)));
        if let Some(((other_index, other), method)) = other {
            let method = method
                .map(|method| format!("{method} "))
                .unwrap_or_default();
            let path = route.path.text();
            let rule = format!(
                "matches the same requests ({method}{}{path}) as routes[{other_index}] ({})",
                host.unwrap_or_default(),
                other.id,
            );
            let place = Place::Index(&list, *index);
            let _: Option<()> = faults.add(&place, format!("\"{}\"", route.id), rule);
        }
    }
}

/// What each route of the document is guaranteed; 0 where that cannot be read.
///
/// Reads the document, so that a broken route beside it does not hide a sum that is too large.
pub(super) fn guarantees(document: &Value) -> Vec<u32> {
    let Some(Value::Array(routes)) = document.get("routes") else {
        return Vec::new();
    };
    let slots = |value: Option<&Value>| match value {
        Some(Value::Integer(slots)) => u32::try_from(*slots).ok().filter(|n| *n <= LIMIT_MAX),
        _ => None,
    };
    let guarantee = |route: &Value| {
        let compartment = route.get("compartment")?;
        slots(
            compartment
                .get("reserved")
                .or_else(|| compartment.get("limit")),
        )
    };
    // Beyond the bound the number of routes is the error; no sum of them says more.
    let counted = if routes.len() > ROUTES_MAX {
        &[]
    } else {
        routes.as_slice()
    };
    counted
        .iter()
        .map(|route| guarantee(route).unwrap_or(0))
        .collect()
}

/// The slots left over for bursts, when the guarantees fit into the capacity.
pub(super) fn spare(
    place: &Place<'_>,
    capacity: u32,
    spare: Option<u32>,
    guarantees: &[u32],
    faults: &mut Faults,
) -> Option<u32> {
    let reserved = || guarantees.iter().copied();
    let guaranteed: u64 = reserved().map(u64::from).sum();
    let needed = guaranteed.saturating_add(spare.unwrap_or(0).into());
    if needed > capacity.into() {
        let mut terms: Vec<String> = reserved()
            .filter(|n| *n > 0)
            .take(TERMS_SHOWN_MAX)
            .map(|n| n.to_string())
            .collect();
        if reserved().filter(|n| *n > 0).count() > TERMS_SHOWN_MAX {
            terms.push("…".to_owned());
        }
        let terms = terms.join(" + ");
        let rule = match spare {
            None => format!("{guaranteed} guaranteed slots ({terms}) exceed capacity {capacity}"),
            Some(spare) => format!(
                "{needed} slots (guaranteed {terms} = {guaranteed}, and spare {spare}) exceed \
                 capacity {capacity}"
            ),
        };
        return faults.add(place, capacity.to_string(), rule);
    }
    let left = u64::from(capacity).saturating_sub(guaranteed);
    spare.or_else(|| u32::try_from(left).ok())
}
