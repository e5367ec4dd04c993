//! `bulkhead get`: what the control plane knows, as a table or as it came.
//!
//! Separate because it only lists. It must never add up what the control plane did not.

use http::Method;
use serde_json::Value;

use super::client::Client;
use super::history::cell;
use super::tenant;
use crate::args::Format;
use crate::args_tenant::{ListArgs, Sort};
use crate::args_tools::{GetArgs, Listed};
use crate::error::Failure;
use crate::output::{self, Side, Table};

pub(crate) fn run(args: &GetArgs) -> Result<(), Failure> {
    let client = Client::new(&args.client)?;
    let said = match args.what {
        Listed::Compartments => client.json(Method::GET, "/compartments")?,
        Listed::Gateways => client.json(Method::GET, "/gateways")?,
        Listed::Tenants => tenants(&client)?,
        Listed::Alerts => client.json(Method::GET, "/alerts")?,
        Listed::Findings => client.json(Method::GET, "/findings")?,
    };
    if args.client.output == Format::Json {
        return output::print_json(&said);
    }
    let table = match args.what {
        Listed::Compartments => compartments(&said),
        Listed::Gateways => gateways(&said),
        Listed::Tenants => tenant::table(&said),
        Listed::Alerts => alerts(&said),
        Listed::Findings => findings(&said),
    };
    output::print(&table.text())
}

fn findings(said: &Value) -> Table {
    let names = ["severity", "rule", "from", "path", "message"];
    let mut table = Table::with_sentences(&names.map(|name| (name, Side::Left)));
    for row in rows(said, "findings") {
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    table
}

/// The list in an answer: itself, or under its name.
pub(super) fn rows<'a>(said: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    said.as_array()
        .or_else(|| said.get(name)?.as_array())
        .into_iter()
        .flatten()
}

fn compartments(said: &Value) -> Table {
    let mut table = Table::new(&[
        ("key", Side::Left),
        ("mode", Side::Left),
        ("in flight", Side::Right),
        ("peak", Side::Right),
        ("limit", Side::Right),
        ("reserved", Side::Right),
        ("borrowed", Side::Right),
        ("queued", Side::Right),
        ("hold p99", Side::Right),
        ("admitted", Side::Right),
        ("rejected", Side::Right),
        ("would reject", Side::Right),
        ("leaked", Side::Right),
    ]);
    for row in rows(said, "compartments") {
        // A compartment that nobody reports has no figures, which is not the same as zeros.
        let mut cells: Vec<String> = [
            "key",
            "mode",
            "in_flight",
            "peak",
            "limit",
            "reserved",
            "borrowed",
            "queued",
        ]
        .iter()
        .map(|name| cell(row, name))
        .collect();
        cells.push(hold(row));
        cells.push(cell(row, "admitted"));
        cells.push(total(row, "rejected").map_or_else(String::new, |n| n.to_string()));
        cells.push(would_reject(row));
        cells.push(cell(row, "leaked"));
        table.row(cells);
    }
    table
}

/// All of a count by reason; `None` where nobody reports.
pub(super) fn total(row: &Value, name: &str) -> Option<u64> {
    let by_reason = row.get(name)?.as_object()?;
    Some(by_reason.values().filter_map(Value::as_u64).sum())
}

/// What a limit in shadow, or a candidate, would have refused: `12 shadow`, `3 at 40`.
pub(super) fn would_reject(row: &Value) -> String {
    let of_candidate = row.get("candidate_rejected").and_then(Value::as_u64);
    match (cell(row, "mode").as_str(), row.get("candidate")) {
        ("shadow", _) => format!("{} shadow", total(row, "shadow_rejected").unwrap_or(0)),
        (_, Some(Value::Number(candidate))) => {
            format!("{} at {candidate}", of_candidate.unwrap_or(0))
        }
        _ => String::new(),
    }
}

/// The 99th percentile of the hold times, in milliseconds.
pub(super) fn hold(row: &Value) -> String {
    let us = row.get("hold").and_then(|hold| hold.get("p99_us"));
    match us.and_then(Value::as_u64) {
        Some(us @ 0..1_000) => format!("{us}us"),
        Some(us) => format!("{}ms", us / 1_000),
        None => String::new(),
    }
}

fn gateways(said: &Value) -> Table {
    let mut table = Table::with_sentences(&[
        ("id", Side::Left),
        ("connected", Side::Left),
        ("state", Side::Left),
        ("generation", Side::Right),
        ("in flight", Side::Right),
        ("ready", Side::Left),
        ("version", Side::Left),
        ("since", Side::Left),
        ("last seen", Side::Left),
        ("why", Side::Left),
    ]);
    for row in rows(said, "gateways") {
        let load = row.get("load").filter(|load| load.is_object());
        let ready = match row.get("drained").and_then(Value::as_bool) {
            Some(true) => "drained",
            _ => "",
        };
        table.row(vec![
            cell(row, "id"),
            cell(row, "connected"),
            cell(row, "state"),
            cell(row, "generation"),
            load.map_or_else(String::new, |load| cell(load, "in_flight")),
            ready.to_owned(),
            cell(row, "version"),
            cell(row, "since"),
            cell(row, "last_seen"),
            cell(row, "reason"),
        ]);
    }
    table
}

fn alerts(said: &Value) -> Table {
    let mut table = Table::with_sentences(&[
        ("state", Side::Left),
        ("severity", Side::Left),
        ("compartment", Side::Left),
        ("cause", Side::Left),
        ("since", Side::Left),
        ("resolved", Side::Left),
        ("why", Side::Left),
    ]);
    for row in rows(said, "alerts") {
        let names = [
            "state",
            "severity",
            "compartment",
            "cause",
            "since",
            "resolved_at",
            "why",
        ];
        table.row(names.iter().map(|name| cell(row, name)).collect());
    }
    table
}

/// Every tenant, page after page, as a plain list.
fn tenants(client: &Client) -> Result<Value, Failure> {
    let all = ListArgs {
        find: None,
        plan: None,
        suspended: false,
        saturated: false,
        sort: Sort::Id,
        max: None,
    };
    let mut said = tenant::listed(client, &all)?;
    Ok(said.get_mut("tenants").map_or(Value::Null, Value::take))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_judged_and_not_enforced_has_its_column() {
        let said = json!({"compartments": [
            {"key": "route/a", "mode": "shadow", "limit": 5, "rejected": {},
             "shadow_rejected": {"route_full": 3, "tenant_share": 1},
             "hold": {"count": 9, "p50_us": 300, "p99_us": 12_300}},
            {"key": "route/b", "mode": "enforce", "limit": 9, "candidate": 4,
             "rejected": {"route_full": 2}, "candidate_rejected": 7,
             "hold": {"count": 0, "p50_us": null, "p99_us": null}},
            {"key": "route/silent", "limit": 9}]});
        let text = compartments(&said).text();
        let line = |key: &str| {
            text.lines()
                .find(|line| line.starts_with(key))
                .unwrap()
                .to_owned()
        };
        assert!(line("route/a").contains("4 shadow"), "{text}");
        assert!(line("route/a").contains("12ms"), "{text}");
        assert!(line("route/b").contains("7 at 4"), "{text}");
        assert_eq!(line("route/silent").split_whitespace().count(), 2, "{text}");
    }
}
