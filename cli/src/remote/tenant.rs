//! `bulkhead tenant`: tenants listed, made, changed and taken away, and their keys.
//!
//! Separate because callers name a tenant, not a place of the policy. It must never print a key but
//! the one that was just made, and that one alone on standard output.

use http::Method;
use serde_json::{Map, Value, json};

use super::apply::{encoded, finding_line};
use super::changes::{opened, waits};
use super::client::{Client, refusal};
use super::get::{rows, total};
use super::history::cell;
use crate::args::Format;
use crate::args_tenant::{
    CreateArgs, KeyCommand, ListArgs, NamedArgs, TenantArgs, TenantCommand, UpdateArgs, WhyArgs,
};
use crate::error::Failure;
use crate::output::{self, Side, Table};

/// Tenants that are asked for at once.
const PAGE_ROWS: usize = 1_000;

/// Does what is asked for.
pub(crate) fn run(args: &TenantArgs) -> Result<(), Failure> {
    let (client, format) = (Client::new(&args.client)?, args.client.output);
    match &args.command {
        TenantCommand::List(list) => {
            let said = listed(&client, list)?;
            match format {
                Format::Json => output::print_json(&said),
                Format::Table => output::print(&table(&said).text()),
            }
        }
        TenantCommand::Show { id } => {
            let said = client.json(Method::GET, &place(id))?;
            match format {
                Format::Json => output::print_json(&said),
                Format::Table => output::print(&shown(&said)),
            }
        }
        TenantCommand::Create(own) => {
            let path = with_query("/tenants", &own.why);
            told(changed(&client, Method::POST, &path, &made(own))?, format)
        }
        TenantCommand::Update(own) => patch(&client, &own.id, &own.why, updated(own), format),
        TenantCommand::Suspend(own) => suspend(&client, own, true, format),
        TenantCommand::Resume(own) => suspend(&client, own, false, format),
        TenantCommand::Delete(own) => {
            let path = with_comment(&place(&own.id), &own.why);
            told(bare(&client, Method::DELETE, &path)?, format)
        }
        TenantCommand::Key(own) => key(&client, &own.command, format),
    }
}

fn place(id: &str) -> String {
    format!("/tenants/{}", encoded(id))
}

fn with_query(path: &str, why: &WhyArgs) -> String {
    match why.dry_run {
        true => format!("{path}?dry_run=true"),
        false => path.to_owned(),
    }
}

/// For calls that take no body.
fn with_comment(path: &str, why: &WhyArgs) -> String {
    let path = format!("{path}?dry_run={}", why.dry_run);
    match &why.comment {
        Some(comment) => format!("{path}&comment={}", encoded(comment)),
        None => path,
    }
}

/// Every tenant that is asked for, page after page, as the last page came but with all rows.
pub(super) fn listed(client: &Client, args: &ListArgs) -> Result<Value, Failure> {
    let mut query = format!("limit={PAGE_ROWS}&sort={}", args.sort.as_str());
    for (name, text) in [("find", &args.find), ("plan", &args.plan)] {
        if let Some(text) = text {
            query.push_str(&format!("&{name}={}", encoded(text)));
        }
    }
    for (name, is_asked) in [("suspended", args.suspended), ("saturated", args.saturated)] {
        if is_asked {
            query.push_str(&format!("&{name}=true"));
        }
    }
    let most = args.max.unwrap_or(usize::MAX);
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let mut page = client.json(Method::GET, &format!("/tenants?{query}{after}"))?;
        let more = page.get_mut("tenants").map(Value::take);
        if let Some(Value::Array(more)) = more {
            all.extend(more);
        }
        let next = page.get("next").and_then(Value::as_str).map(encoded);
        match next.filter(|_| all.len() < most) {
            Some(next) => after = format!("&after={next}"),
            None => {
                all.truncate(most);
                if let Some(page) = page.as_object_mut() {
                    page.insert("tenants".to_owned(), Value::Array(all));
                    page.remove("next");
                }
                return Ok(page);
            }
        }
    }
}

/// Tenants as a table.
pub(super) fn table(said: &Value) -> Table {
    let mut table = Table::new(&[
        ("id", Side::Left),
        ("plan", Side::Left),
        ("limit", Side::Right),
        ("in flight", Side::Right),
        ("promised", Side::Right),
        ("rejected", Side::Right),
        ("keys", Side::Right),
        ("suspended", Side::Left),
    ]);
    for row in rows(said, "tenants") {
        // Where nobody reports there are no figures, which is not the same as zeros.
        let live = row.get("live").unwrap_or(&Value::Null);
        table.row(vec![
            cell(row, "id"),
            cell(row, "plan"),
            cell(row, "limit"),
            cell(live, "in_flight"),
            cell(live, "promised"),
            total(live, "rejected").map_or_else(String::new, |n| n.to_string()),
            cell(row, "keys"),
            cell(row, "suspended"),
        ]);
    }
    table
}

fn shown(said: &Value) -> String {
    let live = said.get("live").unwrap_or(&Value::Null);
    let mut facts = Table::with_sentences(&[("what", Side::Left), ("value", Side::Left)]);
    let limit = format!("{} ({})", cell(said, "limit"), cell(said, "limit_from"));
    let hosts: Vec<&str> = said
        .get("hosts")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (what, value) in [
        ("id", cell(said, "id")),
        ("plan", cell(said, "plan")),
        ("limit", limit),
        ("class", cell(said, "class")),
        ("suspended", cell(said, "suspended")),
        ("hosts", hosts.join(", ")),
        ("in flight", cell(live, "in_flight")),
        ("peak", cell(live, "peak")),
        (
            "rejected",
            total(live, "rejected").map_or_else(String::new, |n| n.to_string()),
        ),
        ("reporting", cell(said, "reporting")),
    ] {
        facts.row(vec![what.to_owned(), value]);
    }
    let names = ["route", "limit", "from"];
    let mut routes = Table::new(&names.map(|name| (name, Side::Left)));
    for row in rows(said, "routes") {
        routes.row(names.iter().map(|name| cell(row, name)).collect());
    }
    let names = ["id", "label", "ending", "state", "created_at", "expires_at"];
    let mut keys = Table::with_sentences(&[
        ("key", Side::Left),
        ("label", Side::Left),
        ("ends in", Side::Left),
        ("state", Side::Left),
        ("made", Side::Left),
        ("until", Side::Left),
    ]);
    for row in rows(said, "api_keys") {
        keys.row(names.iter().map(|name| cell(row, name)).collect());
    }
    format!("{}\n{}\n{}", facts.text(), routes.text(), keys.text())
}

/// A number, or the word as it stands: what is neither is refused by the control plane, by name.
fn limit(text: &str) -> Value {
    text.parse::<u64>()
        .map_or_else(|_| json!(text), |n| json!(n))
}

fn with_why(mut fields: Map<String, Value>, why: &WhyArgs) -> Value {
    if let Some(comment) = &why.comment {
        fields.insert("comment".to_owned(), json!(comment));
    }
    Value::Object(fields)
}

fn made(args: &CreateArgs) -> Value {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), json!(args.id));
    if let Some(plan) = &args.plan {
        fields.insert("plan".to_owned(), json!(plan));
    }
    if let Some(text) = &args.limit {
        fields.insert("limit".to_owned(), limit(text));
    }
    if !args.host.is_empty() {
        fields.insert("hosts".to_owned(), json!(args.host));
    }
    if args.suspended {
        fields.insert("suspended".to_owned(), json!(true));
    }
    with_why(fields, &args.why)
}

fn updated(args: &UpdateArgs) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut set = |name: &str, given: Option<Value>, gone: bool| {
        if let Some(value) = given.or(gone.then_some(Value::Null)) {
            fields.insert(name.to_owned(), value);
        }
    };
    set(
        "plan",
        args.plan.as_ref().map(|plan| json!(plan)),
        args.no_plan,
    );
    set("limit", args.limit.as_deref().map(limit), args.no_limit);
    let hosts = (!args.host.is_empty()).then(|| json!(args.host));
    set("hosts", hosts, args.no_hosts);
    fields
}

fn patch(
    client: &Client,
    id: &str,
    why: &WhyArgs,
    fields: Map<String, Value>,
    format: Format,
) -> Result<(), Failure> {
    let path = with_query(&place(id), why);
    let body = with_why(fields, why);
    told(changed(client, Method::PATCH, &path, &body)?, format)
}

fn suspend(client: &Client, own: &NamedArgs, is: bool, format: Format) -> Result<(), Failure> {
    let fields = Map::from_iter([("suspended".to_owned(), json!(is))]);
    patch(client, &own.id, &own.why, fields, format)
}

fn changed(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
    let answer = client.call(method, path, Vec::new(), Some(body.to_string()))?;
    match answer.status.is_success() {
        true => client.parsed(&answer),
        false => Err(refusal(&answer)),
    }
}

fn bare(client: &Client, method: Method, path: &str) -> Result<Value, Failure> {
    let answer = client.call(method, path, Vec::new(), None)?;
    match answer.status.is_success() {
        true => client.parsed(&answer),
        false => Err(refusal(&answer)),
    }
}

/// What a change came to.
fn told(said: Value, format: Format) -> Result<(), Failure> {
    if let Some(change) = opened(&said) {
        return Err(waits(format, &said, Some(change))?);
    }
    match format {
        Format::Json => output::print_json(&said),
        Format::Table => output::print(&outcome(&said)),
    }
}

fn outcome(said: &Value) -> String {
    let generation = cell(said, "generation");
    let mut text = match said.get("stored") {
        Some(Value::Bool(false)) => {
            format!("nothing stored: the newest generation stays {generation}\n")
        }
        _ => format!("generation {generation}\n"),
    };
    for finding in rows(said, "findings") {
        text.push_str(&finding_line(finding));
    }
    text
}

fn key(client: &Client, command: &KeyCommand, format: Format) -> Result<(), Failure> {
    match command {
        KeyCommand::Create {
            id,
            label,
            expires_at,
            replaces,
            overlap,
            why,
        } => {
            let given = [
                ("label", label),
                ("expires_at", expires_at),
                ("replaces", replaces),
                ("overlap", overlap),
            ];
            let fields = given
                .into_iter()
                .filter_map(|(name, text)| Some((name.to_owned(), json!(text.as_ref()?))));
            let body = with_why(fields.collect(), why);
            let path = with_query(&format!("{}/keys", place(id)), why);
            let said = changed(client, Method::POST, &path, &body)?;
            told_key(said, format)
        }
        KeyCommand::Revoke { id, key, why } => {
            let path = format!("{}/keys/{}", place(id), encoded(key));
            let path = with_comment(&path, why);
            told(bare(client, Method::DELETE, &path)?, format)
        }
    }
}

/// The key, which nobody can ask for again, and whether it opens anything yet.
fn told_key(said: Value, format: Format) -> Result<(), Failure> {
    let (Format::Table, Some(key)) = (format, said.get("key").and_then(Value::as_str)) else {
        return told(said, format);
    };
    let id = cell(&said, "id");
    let change = opened(&said);
    // Beside the key, for who looks: a script gets the key alone.
    output::complain(&match change {
        Some(change) => format!(
            "key {id} opens nothing until change {change} is approved by another person and \
             published; it is shown this once"
        ),
        None => format!(
            "key {id} of generation {}; it is shown this once",
            cell(&said, "generation")
        ),
    });
    output::print(&format!("{key}\n"))?;
    match change {
        Some(_) => Err(waits(format, &said, change)?),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_alone_is_not_sent() {
        let why = || WhyArgs {
            comment: None,
            dry_run: false,
        };
        let update = UpdateArgs {
            id: "acme".to_owned(),
            plan: None,
            no_plan: true,
            limit: Some("80".to_owned()),
            no_limit: false,
            host: Vec::new(),
            no_hosts: false,
            why: why(),
        };
        let sent = Value::Object(updated(&update));
        assert_eq!(sent, json!({"plan": null, "limit": 80}));
        let create = CreateArgs {
            id: "a".to_owned(),
            plan: None,
            limit: Some("unlimited".to_owned()),
            host: vec!["a.example".to_owned()],
            suspended: false,
            why: why(),
        };
        let sent = made(&create);
        assert_eq!(
            sent,
            json!({"id": "a", "limit": "unlimited", "hosts": ["a.example"]})
        );
    }

    #[test]
    fn a_tenant_that_nobody_reports_has_no_figures() {
        let said = json!({"tenants": [
            {"id": "acme", "plan": "pro", "limit": 50, "keys": 2, "suspended": false,
             "live": {"in_flight": 7, "promised": 100, "rejected": {"tenant_full": 3}}},
            {"id": "beta", "plan": null, "limit": 5, "keys": 0, "suspended": true, "live": null}]});
        let text = table(&said).text();
        let words = |id: &str| {
            let line = text.lines().find(|line| line.starts_with(id)).unwrap();
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            words("acme"),
            ["acme", "pro", "50", "7", "100", "3", "2", "false"]
        );
        assert_eq!(words("beta"), ["beta", "5", "0", "true"]);
    }
}
