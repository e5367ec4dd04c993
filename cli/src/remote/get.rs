//! `bulkhead get`: what the control plane knows, as a table or as it came.
//!
//! Separate because it only lists. It must never add up what the control plane did not.

use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::history::cell;
use crate::args::Format;
use crate::args_tools::{GetArgs, Listed};
use crate::error::Failure;
use crate::output::{self, Side, Table};

pub(crate) fn run(args: &GetArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client);
    let said = match args.what {
        Listed::Compartments => client.json(Method::GET, "/compartments")?,
        Listed::Gateways => client.json(Method::GET, "/gateways")?,
        Listed::Tenants => tenants(&client.json(Method::GET, "/policy")?),
    };
    if args.client.output == Format::Json {
        return output::print_json(&said);
    }
    let table = match args.what {
        Listed::Compartments => compartments(&said),
        Listed::Gateways => gateways(&said),
        Listed::Tenants => tenant_table(&said),
    };
    output::print(&table.text())
}

/// The list in an answer: itself, or under its name.
fn rows<'a>(said: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    said.as_array()
        .or_else(|| said.get(name)?.as_array())
        .into_iter()
        .flatten()
}

fn compartments(said: &Value) -> Table {
    let mut table = Table::new(&[
        ("key", Side::Left),
        ("in flight", Side::Right),
        ("limit", Side::Right),
        ("reserved", Side::Right),
        ("queued", Side::Right),
        ("peak", Side::Right),
        ("admitted", Side::Right),
        ("rejected", Side::Right),
    ]);
    for row in rows(said, "compartments") {
        // A compartment that nobody reports has no figures, which is not the same as zeros.
        let rejected = row.get("rejected").and_then(Value::as_object);
        let rejected = rejected.map(|by_reason| {
            let counts = by_reason.values().filter_map(Value::as_u64);
            counts.sum::<u64>().to_string()
        });
        let names = [
            "key",
            "in_flight",
            "limit",
            "reserved",
            "queued",
            "peak",
            "admitted",
        ];
        let mut cells: Vec<String> = names.iter().map(|name| cell(row, name)).collect();
        cells.push(rejected.unwrap_or_default());
        table.row(cells);
    }
    table
}

fn gateways(said: &Value) -> Table {
    let mut table = Table::new(&[
        ("id", Side::Left),
        ("connected", Side::Left),
        ("state", Side::Left),
        ("generation", Side::Right),
        ("last seen", Side::Left),
    ]);
    for row in rows(said, "gateways") {
        let names = ["id", "connected", "state", "generation", "last_seen"];
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    table
}

/// The tenants of a policy with their effective limits, without their keys.
fn tenants(policy: &Value) -> Value {
    let of = |table: &str, id: &str, name: &str| policy.get(table)?.get(id)?.get(name).cloned();
    let all = policy.get("tenants").and_then(Value::as_object);
    let list: Vec<Value> = all
        .into_iter()
        .flatten()
        .map(|(id, tenant)| {
            let plan = tenant.get("plan").and_then(Value::as_str);
            let planned = plan.and_then(|plan| of("plans", plan, "limit"));
            json!({
                "id": id,
                "plan": plan,
                "limit": tenant.get("limit").cloned().or(planned),
                "suspended": tenant.get("suspended").and_then(Value::as_bool).unwrap_or(false),
            })
        })
        .collect();
    Value::Array(list)
}

fn tenant_table(said: &Value) -> Table {
    let mut table = Table::new(&[
        ("id", Side::Left),
        ("plan", Side::Left),
        ("limit", Side::Right),
        ("suspended", Side::Left),
    ]);
    for row in rows(said, "tenants") {
        table.row(
            ["id", "plan", "limit", "suspended"]
                .iter()
                .map(|n| cell(row, n))
                .collect(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_have_their_effective_limit_and_no_keys() {
        let policy = json!({"plans": {"pro": {"limit": 50}}, "tenants": {
            "acme": {"plan": "pro", "api_keys": ["sha256:00"]},
            "beta": {"plan": "pro", "limit": 80, "suspended": true}}});
        let list = tenants(&policy);
        assert_eq!(
            list[0],
            json!({"id":"acme","plan":"pro","limit":50,"suspended":false})
        );
        assert_eq!(
            list[1],
            json!({"id":"beta","plan":"pro","limit":80,"suspended":true})
        );
        assert!(!tenant_table(&list).text().contains("sha256"));
    }
}
